"""The log on SQLite: open it, append to it, read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ledger import __version__
from ledger.errors import LogTooNew, LogUnavailable
from ledger.events.envelope import Event, NewEvent
from ledger.log import sqlite
from ledger.log.blobs import Blob, blob_content
from ledger.log.lock import CommitLock
from ledger.sql import script, statements

FORMAT = 1
"""The format of the log's tables; a program reads only formats up to its own."""
APPLICATION_ID = 0x7A117B00
"""Marks the file as a Tallybook ledger (SQLite's application_id)."""
MISSING = "there is no ledger here: run `ledger init` or `ledger import`"


class StreamAppend(NamedTuple):
    """What to append to one stream, and the version its head is believed to have (0: a new stream)."""

    stream_id: str
    expected_version: int
    events: Sequence[NewEvent]


class Log:
    """One log file. Use `Log.open` or `Log.create`; not shared between threads or across a fork."""

    def __init__(self, path: Path, connection: sqlite.Connection, *, readonly: bool) -> None:
        self.path, self.connection, self.readonly = path, connection, readonly
        self.sql = statements("sqlite")
        self.lock = CommitLock(Path(f"{path}.lock"))
        self.writer = f"tallybook/{__version__} {_host()} {os.getpid()}"

    # opening

    @classmethod
    def open(cls, path: Path, *, create: bool = False, readonly: bool = False) -> Log:
        """Open the log at `path`. With `create`, make it where it is missing.

        A file that may not be written is opened for reading. Raises LogUnavailable, LogTooNew.
        """
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

    @classmethod
    def create(cls, path: Path) -> Log:
        """Make an empty log, file 0600 in a folder 0700. An existing one is left as it is and opened."""
        return cls.open(path, create=True)

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
            for key, value in (("format", str(FORMAT)), ("min_writer", "0.1.0"), ("hash_recipe", "1")):
                execute(self.sql["put_meta"], (key, value))
            execute(f"PRAGMA application_id={APPLICATION_ID}")
            execute("COMMIT")

    def _check_format(self) -> None:
        marked = self.connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        found = self.meta("format") if marked else None
        if found is None:
            if self._is_empty():
                raise LogUnavailable(f"{self.path}: {MISSING}")
            raise LogUnavailable(f"{self.path}: is a database of something else: give another --db")
        if int(found) > FORMAT:
            raise LogTooNew(
                f"{self.path}: was written by a newer tallybook (log format {found}, this one knows "
                f"{FORMAT}): update tallybook"
            )
        if int(found) < FORMAT:
            if self.readonly:
                raise LogUnavailable(
                    f"{self.path}: has an older log format ({found}): run `ledger init` as someone who may write it"
                )
            from ledger.log.migrate import upgrade

            upgrade(self.path)
        if not self.readonly and not may_write(self.meta("min_writer") or "0"):
            self.readonly = True

    def meta(self, key: str) -> str | None:
        """Return what the log says of itself under a key, None where it says nothing."""
        row = self.connection.execute(self.sql["meta"], (key,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the file. The log cannot be used afterwards."""
        self.connection.close()
        self.lock.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # appending

    def append(self, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]] = ()) -> list[int]:
        """Append to one or several streams in one durable transaction; return the versions, in order.

        Events whose ids are all known with the same stream, type, cause and data are a success and return
        their stored versions. `blobs` are (event id, blob) pairs, stored in the same commit.
        Raises VersionConflict, EventIdReused, LogReadOnly, LogUnavailable; then nothing was written.
        """
        from ledger.log.append import append

        return append(self, appends, blobs)

    # reading

    def head_position(self) -> int:
        """Return the position of the newest event, 0 for an empty log."""
        return int(self.connection.execute(self.sql["head_position"]).fetchone()[0])

    def events_after(self, position: int, limit: int = 500) -> list[Event]:
        """Return up to `limit` events beyond `position`, in order. An acknowledged append is always seen."""
        rows = self.connection.execute(self.sql["events_after"], (position, limit))
        return [Event(*row) for row in rows]

    def all_events(self, after: int = 0) -> Iterator[Event]:
        """Yield every event beyond `after`, read in slices."""
        while page := self.events_after(after):
            yield from page
            after = page[-1].position

    def stream_events(self, stream_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """Return up to `limit` events of one stream beyond version `after`, in order."""
        rows = self.connection.execute(self.sql["stream_events"], (stream_id, after, limit))
        return [Event(*row) for row in rows]

    def stream_version(self, stream_id: str) -> int:
        """Return the version of the stream's head, 0 where there is no such stream."""
        row = self.connection.execute(self.sql["stream_head"], (stream_id,)).fetchone()
        return 0 if row is None else int(row[0])

    def event_at(self, position: int) -> Event:
        """Return the event at a position. Raises KeyError where there is none."""
        row = self.connection.execute(self.sql["event_at"], (position,)).fetchone()
        if row is None:
            raise KeyError(position)
        return Event(*row)

    def blob(self, sha256: bytes) -> bytes | None:
        """Return the content of a blob, None where it is unknown or was purged."""
        row = self.connection.execute(self.sql["get_blob"], (sha256,)).fetchone()
        return None if row is None else blob_content(*row)


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


def _host() -> str:
    """Return the host's name without loading the socket library, which costs some milliseconds."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "unknown")


def may_write(minimum: str) -> bool:
    return _version(__version__) >= _version(minimum)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def writer_parts(writer: str) -> dict[str, Any]:
    """Return program, host and process of an event's writer."""
    program, host, process = [*writer.split(" "), "", ""][:3]
    return {"program": program, "host": host, "process": process}
