"""The one module that chooses the SQLite driver and opens files with it."""

from __future__ import annotations

import os
import sqlite3 as _standard
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.errors import LogUnavailable
from ledger.log.lock import CommitLock


def has_wal_fix(version: tuple[int, ...]) -> bool:
    """Return whether this SQLite has the fix of the WAL-reset race (3.51.3, and 3.44.6 and 3.50.7).

    Without it, two connections that write and checkpoint at once can corrupt a WAL database.
    """
    return version >= (3, 51, 3) or (3, 44, 6) <= version < (3, 45) or (3, 50, 7) <= version < (3, 51)


def _choose() -> Any:
    if has_wal_fix(_standard.sqlite_version_info):
        return _standard
    try:
        from pysqlite3 import dbapi2
    except ImportError:
        return _standard
    return dbapi2 if has_wal_fix(dbapi2.sqlite_version_info) else _standard


driver: Any = _choose()
"""sqlite3 of the interpreter, or pysqlite3 where the interpreter's SQLite lacks the fix."""


class FileConnection(driver.Connection):  # type: ignore[misc]
    """A connection that says of which kind it is, as those of the other database do."""

    dialect = "sqlite"

    def has_table(self, name: str) -> bool:
        """Return whether the file has a table of that name."""
        found = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self.execute(found, (name,)).fetchone() is not None

    @staticmethod
    def is_missing_table(error: Exception) -> bool:
        """Return whether an error says that a table is not there (any more)."""
        return "no such table" in str(error)


Connection = Any
Error: Any = driver.Error
OperationalError: Any = driver.OperationalError
IntegrityError: Any = driver.IntegrityError

BUSY_TIMEOUT_MS = 30_000
CHECKPOINT_PAGES = 4000
"""How many pages the write-ahead file may have before it is begun anew: 16 MiB."""


def connect(path: Path, *, readonly: bool = False) -> Connection:
    """Open an existing or new database file, in autocommit mode. Raises LogUnavailable, one line.

    Transactions are begun and ended in so many words. A read-only file is opened as such; where its folder
    cannot be written either and nothing waits in a -wal file, as immutable.
    """
    try:
        if not readonly:
            connection = driver.connect(str(path), isolation_level=None, cached_statements=256, factory=FileConnection)
            _set_up(connection, readonly=False)
            return connection
        return _connect_readonly(path)
    except Error as error:
        raise LogUnavailable(explain(error, path)) from error


def in_memory() -> Connection:
    """Open a database in memory, which vanishes when it is closed."""
    connection = driver.connect(":memory:", isolation_level=None, cached_statements=256, factory=FileConnection)
    _set_up(connection, readonly=True)
    return connection


def _connect_readonly(path: Path) -> Connection:
    wal = Path(f"{path}-wal")
    options = ["mode=ro"]
    if not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size):
        options.append("immutable=1")
    uri = path.absolute().as_uri() + "?" + "&".join(options)
    connection = driver.connect(uri, uri=True, isolation_level=None, cached_statements=256, factory=FileConnection)
    _set_up(connection, readonly=True)
    return connection


def _set_up(connection: Connection, *, readonly: bool) -> None:
    execute = connection.execute
    try:
        execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        execute("PRAGMA trusted_schema=OFF")
        execute("PRAGMA recursive_triggers=ON")
        execute("PRAGMA cache_size=-8192")
        if not readonly:
            execute("PRAGMA synchronous=FULL")
            # Checkpoints are made by `Checkpointer`, while nobody waits; this is only the last resort.
            execute(f"PRAGMA wal_autocheckpoint={8 * CHECKPOINT_PAGES}")
    except Error:
        connection.close()
        raise


@contextmanager
def relaxed(connection: Connection) -> Iterator[None]:
    """Leave out the sync of the disk at commit; for what can be made again from the log."""
    connection.execute("PRAGMA synchronous=NORMAL")
    try:
        yield
    finally:
        if not connection.in_transaction:
            connection.execute("PRAGMA synchronous=FULL")


def is_damage(error: Exception) -> bool:
    """Return whether an error says that the file is no database, or not a whole one."""
    return any(word in str(error) for word in ("not a database", "malformed", "file is encrypted"))


def explain(error: Exception, path: Path | str) -> str:
    """Return one line that says what is wrong with the file and what to do next."""
    text = str(error)
    if "unable to open" in text:
        return f"{path}: cannot be opened: check that it is a file, and the permissions of it and its folder"
    if is_damage(error):
        return f"{path}: is not a ledger or is damaged: give another --db, or restore it from a copy"
    if "locked" in text or "busy" in text:
        return f"{path}: another program holds it locked: close that program and run this again"
    if "full" in text:
        return f"{path}: the disk is full: free some space and run this again; nothing was half-written"
    if "readonly" in text or "read-only" in text:
        return f"{path}: may not be written by you: check its permissions, or give another --db"
    return f"{path}: {text}: run `ledger doctor` for details"


class Checkpointer:
    """Copies what is committed from the write-ahead file home, outside the commit lock, so that no writer waits.

    SQLite's own checkpoint runs within a commit, and with it every writer behind that one would wait for
    several syncs of the disk. Here it runs after the lock is given back; only the few pages that came meanwhile
    are copied under the lock, and the file then begins anew.
    """

    EVENTS = 2000
    """One checkpoint for so many events of the log, whoever wrote them: who appends the last of them makes it.

    A commit of one event writes about five pages, so the write-ahead file ends at about 40 MiB: from then on it is
    written over and not made longer, which halves what a sync takes.
    """
    BATCHED = 2
    """So much less a page is written for an event that is appended with many."""
    BYTES = 8 << 20
    """One for so much that this connection wrote itself."""

    def __init__(self, connection: Connection, lock: CommitLock) -> None:
        self.connection, self.lock = connection, lock
        self.written = 0

    def appended(self, count: int, size_bytes: int) -> None:
        """Note an append of this connection; now and then, checkpoint."""
        last = self.connection.execute("SELECT last_insert_rowid()").fetchone()[0]
        self.written += size_bytes
        every = self.EVENTS if count < 10 else self.BATCHED * self.EVENTS
        if last // every != (last - count) // every or self.written >= self.BYTES:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Checkpoint what there is. That others do it, or hold it up, is no failure: the events are there."""
        self.written = 0
        passive = "PRAGMA wal_checkpoint(PASSIVE)"
        try:
            _, pages, _ = self.connection.execute(passive).fetchone()
            if pages >= CHECKPOINT_PAGES // 2:
                self.connection.execute(passive).fetchone()  # what came meanwhile: little is left for the last time
                # Only where nobody commits in between is everything home, and the file begun anew and not made longer.
                with self.lock:
                    self.connection.execute(passive).fetchone()
        except (OperationalError, LogUnavailable):
            pass
