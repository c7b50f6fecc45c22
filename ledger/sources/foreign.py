"""Opens another program's SQLite database for reading only, while that program may be writing into it.

Nothing is written to it and no file is made beside it. In WAL mode a reader needs the -shm file: it is used where it
is there, which is so while the program runs and after it was killed. Where there is no -wal file, the database is read
as one that does not change, without locks, and what was read counts only if it did not change meanwhile. Where
something waits in a -wal file and there is no -shm file (a copied folder), a copy of both is read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from ledger.log.sqlite import Error, driver

BUSY_TIMEOUT_MS = 3_000
"""How long a reader waits for a program that has locked its database."""
_VERSION_AT, _WAL_VERSION = 18, 2
"""Where the file's header names the version that may write it, and the one that stands for WAL mode."""


class Reading(NamedTuple):
    """A database that is open to read."""

    connection: Any
    unchanged: Callable[[], bool]
    """Return whether what was read until now is whole: False where it was written while it was read without locks."""


@contextmanager
def reading(path: Path) -> Iterator[Reading]:
    """Open a database to read and close it. Raises OSError, with what is wrong, where it cannot be read."""
    before = _state(path)
    lone_wal = _is_wal(path) and before.waiting and not before.has_index
    with tempfile.TemporaryDirectory(prefix="tallybook-") if lone_wal else nullcontext() as scratch:
        still = _is_wal(path) and not before.waiting and not (before.has_wal and before.has_index)
        if scratch is not None:
            uri = f"{_copied(path, Path(scratch)).as_uri()}?mode=ro"
        else:
            uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if still else ''}"
        try:
            connection = driver.connect(uri, uri=True, isolation_level=None)
        except Error as error:
            raise OSError(f"cannot be read ({error})") from error
        try:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("BEGIN")
            yield Reading(connection, lambda: not (still or lone_wal) or _state(path).files == before.files)
        except (Error, OverflowError) as error:
            raise OSError(f"cannot be read ({error})") from error
        finally:
            connection.close()


def _is_wal(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_VERSION_AT + 1)[_VERSION_AT:] == bytes([_WAL_VERSION])


def _copied(path: Path, folder: Path) -> Path:
    copy = folder / "copy.db"
    shutil.copyfile(path, copy)
    shutil.copyfile(f"{path}-wal", f"{copy}-wal")
    return copy


class _State(NamedTuple):
    """What tells whether a database was written, and how it can be read."""

    files: tuple[tuple[int, int, int], ...]
    has_wal: bool
    waiting: bool
    """Something may wait in the -wal file."""
    has_index: bool
    """The -shm file is there."""


def _state(path: Path) -> _State:
    found = []
    for name in (os.fspath(path), f"{path}-wal"):
        try:
            stat = os.stat(name)
            found.append((stat.st_size, stat.st_mtime_ns, stat.st_ino))
        except FileNotFoundError:
            found.append((-1, 0, 0))
    return _State(tuple(found), found[1][0] >= 0, found[1][0] > 0, os.path.exists(f"{path}-shm"))
