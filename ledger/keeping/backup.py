"""Backing up a log while it is written: an SQLite file that is whole, or is not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ledger.accounts.catchup import catch_up
from ledger.accounts.store import Checkpoint
from ledger.errors import LogUnavailable, UsageError
from ledger.keeping.copying import copy
from ledger.log import sqlite
from ledger.log.log import Log
from ledger.log.sqlite_log import ACCOUNTS, SqliteLog

_PAGES = 4000
"""How many pages are copied between two signs of life."""

Progress = Callable[[int, int], None]
"""Called with (done, to do)."""


class Backup(NamedTuple):
    """What a backup holds."""

    position: int
    """Of the newest event in the file: positions have no gaps, so it is how many events the log has."""
    size_bytes: int
    earlier: list[str]
    """The files that hold the older volumes of a log that was rolled: they are not in this one."""
    portable: bool
    """The log lies on PostgreSQL: the file is a log of its own, with all streams of that one."""
    accounts: bool
    """Whether accounts lie beside the file: checked, and those of this log. Else the first report folds them."""


def backup(log: Log, path: Path, *, force: bool = False, progress: Progress | None = None) -> Backup:
    """Write the log into a new file, as it is at one moment, with its accounts beside it.

    The file appears when it is complete and on the disk, readable by its owner alone. `force` puts it in the place
    of an existing one. Raises UsageError, LogUnavailable, OSError; then nothing is left behind.
    """
    _check(log, path, force)
    with _parts(path) as part:
        try:
            if isinstance(log, SqliteLog):
                _from_file(log, part, progress)
            else:
                with Log.create(part) as target:
                    copy(log, target, progress)
                    catch_up(target)
            made = _verified(log, part)
        except sqlite.Error as error:
            raise LogUnavailable(sqlite.explain(error, path)) from error
        _put_in_place(part, path, force)
    return made


def _check(log: Log, path: Path, force: bool) -> None:
    if isinstance(log, SqliteLog) and path.exists() and path.samefile(log.path):
        raise UsageError(f"{path}: is the log itself: give another name for the backup")
    if any(path.name == f"{log.place}{end}".rpartition("/")[2] for end in (".accounts", ".lock", "-wal", "-shm")):
        raise UsageError(f"{path}: is a file of the log itself: give another name for the backup")
    for name in (path, accounts_of(path)):
        if name.exists() and not force:
            raise UsageError(f"{name}: is there already: give another name, or --force to replace it")
        wal = Path(f"{name}-wal")
        if wal.exists() and wal.stat().st_size:
            raise UsageError(f"{wal}: a program uses that file, or died while it did: give another name")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: is not a folder: make it, or give another name")


def accounts_of(path: Path) -> Path:
    """Return where the accounts of a log file lie."""
    return Path(f"{path}{ACCOUNTS}")


@contextmanager
def _parts(path: Path) -> Iterator[Path]:
    """Yield a name beside the file for what is not complete yet, and remove what is left there."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        for name in (part, accounts_of(part), Path(f"{part}.lock")):
            for end in ("", "-wal", "-shm", "-journal"):
                Path(f"{name}{end}").unlink(missing_ok=True)


def _from_file(log: SqliteLog, part: Path, progress: Progress | None) -> None:
    """Copy both databases. The accounts come first: what they have seen is in the log that is copied after them."""
    if log.accounts_path.exists():
        try:
            copy_database(log.accounts, accounts_of(part))
        except sqlite.Error as error:
            if not sqlite.is_damage(error):
                raise
            _leave_out_accounts(part)
    copy_database(log.connection, part, progress)


def copy_database(source: Any, path: Path, progress: Progress | None = None) -> None:
    """Copy a database, as it is at one moment, into a new file that only its owner can read."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    target = sqlite.connect(path)
    source.execute("BEGIN")  # holds the moment, so that no writer makes the copy begin again
    try:
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()
        source.backup(target, pages=_PAGES, progress=_told(progress))
    finally:
        source.execute("COMMIT")
        target.close()


def _told(progress: Progress | None) -> Callable[[int, int, int], None] | None:
    """Return what SQLite calls with (status, pages left, pages)."""
    if progress is None:
        return None
    tell = progress
    return lambda _, left, pages: tell(pages - left, pages)


def _verified(log: Log, part: Path) -> Backup:
    """Open what was written, look at every page, and return what it holds. Raises LogUnavailable.

    A damaged log is no backup. Damaged accounts are left out: they can be thrown away at any time.
    """
    with Log.open(part) as made:
        found = made.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise LogUnavailable(f"{part}: the copy is damaged ({found}): check the disk, and `ledger verify` the log")
        position = made.head_position()
        accounts = accounts_of(part).exists() and _accounts_hold(made)
    if not accounts:
        _leave_out_accounts(part)
    return Backup(position, part.stat().st_size, earlier_files(log), log.kind != "sqlite", accounts)


def _accounts_hold(made: Log) -> bool:
    """Return whether every page of the copied accounts is sound, and what they saw last is in the copied log."""
    try:
        if made.accounts.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            return False
        checkpoint = Checkpoint(made.accounts)
        live = checkpoint.live()
        return live is not None and (not live[2] or made.hash_of(live[2]) == checkpoint.head())
    except sqlite.Error as error:
        if not sqlite.is_damage(error):
            raise
        return False


def _leave_out_accounts(part: Path) -> None:
    """Remove copied accounts that are of no use: they are folded again from the log."""
    for end in ("", "-wal", "-shm", "-journal"):
        Path(f"{accounts_of(part)}{end}").unlink(missing_ok=True)


def earlier_files(log: Log) -> list[str]:
    """Return the files of the older volumes of a log, the newest first; the first that is missing ends the list."""
    if not isinstance(log, SqliteLog):
        return []
    return [str(path) for one in log.volumes() if (path := one.previous_path()) is not None]


def _put_in_place(part: Path, path: Path, force: bool) -> None:
    """Give the file its name; it is on the disk before. A killed program leaves none, the old one, or the new one."""
    accounts = accounts_of(part)
    sync(part)
    if force:
        accounts_of(path).unlink(missing_ok=True)  # they are of the file that goes: better none than others
        part.replace(path)
    else:
        try:
            os.link(part, path)  # unlike a rename, it fails where another program was faster
        except FileExistsError:
            raise UsageError(f"{path}: is there already: give another name, or --force to replace it") from None
        except OSError:  # a file system without links
            part.replace(path)
    if accounts.exists():
        sync(accounts)
        accounts.replace(accounts_of(path))
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
