"""The log in an SQLite file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from ledger.errors import LogUnavailable
from ledger.events.envelope import Event
from ledger.ids import id_text, new_id
from ledger.log import sqlite
from ledger.log.blobs import Blob
from ledger.log.lock import CommitLock
from ledger.log.log import FORMAT, Adopted, StreamAppend, may_write
from ledger.log.volumes import CLOSED, Volumes
from ledger.sql import script

APPLICATION_ID = 0x7A117B00
"""Marks the file as a Tallybook ledger (SQLite's application_id)."""
ACCOUNTS = ".accounts"
"""Behind the name of the log's file: the file of its projections."""
MISSING = "there is no ledger here: run `ledger init` or `ledger import`"


class SqliteLog(Volumes):
    """One log file."""

    kind: ClassVar[str] = "sqlite"

    def __init__(self, path: Path, connection: sqlite.Connection, *, readonly: bool) -> None:
        super().__init__(path, connection, readonly=readonly)
        self.path = path
        self.lock = CommitLock(Path(f"{path}.lock"))
        self._accounts: sqlite.Connection | None = None
        self._may_fold = False
        self.min_writer_seen = ""
        """Which lowest version of a writer the log named when this program was last found to be new enough."""
        self.checkpointer = sqlite.Checkpointer(connection, self.lock)

    @classmethod
    def open_file(cls, path: Path, *, create: bool = False, readonly: bool = False) -> SqliteLog:
        """Do what Log.open promises of a file."""
        if not _is_there(path):
            if not create:
                raise LogUnavailable(f"{path}: {MISSING}")
            _make_file(path)
        readonly = readonly or not os.access(path, os.W_OK)
        log = cls(path, sqlite.connect(path, readonly=readonly), readonly=readonly)
        try:
            if create and not readonly and log._is_empty():
                log._install()
            log._check_format()
        except sqlite.Error as error:
            log.close()
            raise LogUnavailable(sqlite.explain(error, path)) from error
        except BaseException:
            log.close()
            raise
        return log

    def _is_empty(self) -> bool:
        """Return whether nothing was ever made in the file, which is what a crash while creating leaves."""
        return self.connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None

    def _install(self) -> None:
        execute = self.connection.execute
        with self.lock:
            if not self._is_empty():
                return
            execute("PRAGMA journal_mode=WAL")
            execute("BEGIN IMMEDIATE")
            for statement in script("sqlite", "log"):
                execute(statement)
            said = {"format": str(FORMAT), "min_writer": "0.1.0", "hash_recipe": "1", "log_id": id_text(new_id())}
            for item in said.items():
                execute(self.sql["put_meta"], item)
            execute(f"PRAGMA application_id={APPLICATION_ID}")
            execute("COMMIT")

    def _check_format(self) -> None:
        marked = self.connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        found = self.meta("format") if marked else None
        if found is None:
            if self._is_empty():
                raise LogUnavailable(f"{self.path}: {MISSING}")
            raise LogUnavailable(f"{self.path}: is a database of something else: give another --db")
        if self.is_older(found):
            if self.readonly:
                raise LogUnavailable(
                    f"{self.path}: has an older log format ({found}): run `ledger init` as someone who may write it"
                )
            from ledger.log.migrate import upgrade

            upgrade(self.path)
        if not self.readonly and (not may_write(self.meta("min_writer") or "0") or self.meta(CLOSED) is not None):
            self.readonly = True

    def close(self) -> None:
        """Close the file. The log cannot be used afterwards."""
        super().close()
        if self._accounts is not None:
            self._accounts.close()
        self.lock.close()

    def append(self, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]] = ()) -> list[int]:
        """Do what Log.append promises."""
        from ledger.log.append import append

        versions, size_bytes = append(self, appends, blobs)
        self.checkpointer.appended(len(versions), size_bytes)
        return versions

    def adopt(
        self,
        events: Sequence[Event],
        blobs: Sequence[tuple[bytes, Blob]] = (),
        barred: Callable[[], Collection[bytes]] = frozenset,
    ) -> Adopted:
        """Do what Log.adopt promises."""
        from ledger.log.adopting import adopt

        adopted, size_bytes = adopt(self, events, blobs, barred)
        self.checkpointer.appended(adopted.events, size_bytes)
        return adopted

    def delete_blobs(self, sha256s: Sequence[bytes], linked_until: int) -> bool:
        """Do what Log.delete_blobs promises."""
        from ledger.log.purging import delete_blobs

        with self.writable_previous() as older:
            clean = older is None or older.delete_blobs(sha256s, linked_until)
            return delete_blobs(self, sha256s, linked_until) and clean

    def settle(self) -> None:
        """Do what Log.settle promises: a commit is synced before anyone can read it."""

    # accounts

    @property
    def accounts_path(self) -> Path:
        """The file of the projections, beside the log's. It can be thrown away: it is folded from the log again."""
        return Path(f"{self.path}{ACCOUNTS}")

    @property
    def accounts(self) -> sqlite.Connection:
        """Do what Log.accounts promises: a file of its own, so that no writer of the log waits for whoever folds.

        Where it cannot be written it is read; where there is nothing to read, an empty database in memory stands in.
        """
        if self._accounts is None:
            self._accounts, self._may_fold = self._open_accounts()
        return self._accounts

    def _open_accounts(self, *, again: bool = False) -> tuple[sqlite.Connection, bool]:
        path = self.accounts_path
        if not self.readonly:
            try:
                if not _is_there(path):
                    _make_file(path)
                connection = sqlite.connect(path)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")  # what a power cut takes away is folded again
                connection.execute("PRAGMA wal_autocheckpoint=4000")
                return connection, True
            except (LogUnavailable, sqlite.Error) as error:
                cause = error.__cause__
                damaged = sqlite.is_damage(cause if isinstance(cause, Exception) else error)
                if not again and damaged and self.discard_accounts():
                    return self._open_accounts(again=True)
        try:
            if _is_there(path):
                connection = sqlite.connect(path, readonly=True)
                connection.has_table("projections")
                return connection, False
        except (LogUnavailable, sqlite.Error):
            pass
        return sqlite.in_memory(), False

    @property
    def accounts_writable(self) -> bool:
        """Do what Log.accounts_writable promises."""
        return self.accounts is not None and self._may_fold

    def discard_accounts(self) -> bool:
        """Do what Log.discard_accounts promises: the next use makes the file anew."""
        if self.readonly or not os.access(self.accounts_path.parent, os.W_OK):
            return False
        if self._accounts is not None:
            self._accounts.close()
            self._accounts = None
        for name in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.accounts_path}{name}").unlink()
        return not os.path.lexists(self.accounts_path)

    @contextmanager
    def accounts_transaction(self) -> Iterator[None]:
        """Do what Log.accounts_transaction promises: only others who fold wait, no writer of the log does."""
        connection = self.accounts
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Do what Log.reading promises."""
        both = (self.accounts, self.connection)
        for connection in both:
            connection.execute("BEGIN")
        try:
            yield
        finally:
            for connection in both:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def explain(self, error: Exception) -> str:
        """Return one line that says what is wrong with the file and what to do next."""
        return sqlite.explain(error, self.path)


def _is_there(path: Path) -> bool:
    """Return whether there is a file. Raises LogUnavailable where that cannot be seen."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        reason = error.strerror or str(error)
        raise LogUnavailable(f"{path}: cannot be reached ({reason}): check the permissions of its folder") from error
    return True


def _make_file(path: Path) -> None:
    """Make an empty file that only its owner can read. One that another process just made is left alone.

    An existing file is never opened here: closing it would end the locks that SQLite holds on it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists() and path.parent.is_dir():
            return
        reason = error.strerror or str(error)
        raise LogUnavailable(f"{path}: cannot be created ({reason}): give another place with --db") from error
