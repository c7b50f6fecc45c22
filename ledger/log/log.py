"""The log: what both databases promise. Open it, append to it, read it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ledger import __version__
from ledger.errors import EventMissing, LogReadOnly, LogTooNew
from ledger.events.envelope import Event, NewEvent
from ledger.log.blobs import Blob, blob_content
from ledger.log.location import Place
from ledger.sql import statements

FORMAT = 2
"""The format of the log's tables; a program reads only formats up to its own."""
BOOK = "book"
"""The kind of stream that holds prices, labels and seals; a log writes its own into `book:<log id>`."""


class StreamAppend(NamedTuple):
    """What to append to one stream, and the version its head is believed to have (0: a new stream)."""

    stream_id: str
    expected_version: int
    events: Sequence[NewEvent]


class Head(NamedTuple):
    """The newest event of a stream."""

    stream_id: str
    version: int
    hash: bytes


class BlobLink(NamedTuple):
    """A blob that is there, and an event that it belongs to."""

    sha256: bytes
    size_bytes: int
    position: int
    """Of the event."""


class Adopted(NamedTuple):
    """What a log took in of another one."""

    events: int
    blobs: int
    """How many are kept here now, those that were known before included."""


class Log(ABC):
    """One log. Use `Log.open` or `Log.create`; not shared between threads or across a fork."""

    kind: ClassVar[str]
    """`sqlite` or `postgresql`."""

    def __init__(self, place: Place, connection: Any, *, readonly: bool) -> None:
        self.place, self.connection, self.readonly = place, connection, readonly
        self.sql = statements(self.kind)
        self.writer = f"tallybook/{__version__} {_host()} {os.getpid()}"

    # opening

    @staticmethod
    def open(place: Place, *, create: bool = False, readonly: bool = False) -> Log:
        """Open the log at a place. With `create`, make it where it is missing (a file only).

        A log that may not be written is opened for reading. Raises LogUnavailable, LogTooNew.
        """
        if isinstance(place, Path):
            from ledger.log.sqlite_log import SqliteLog

            return SqliteLog.open_file(place, create=create, readonly=readonly)
        from ledger.log.postgres_log import PostgresLog

        return PostgresLog.open_schema(place, readonly=readonly)

    @staticmethod
    def create(place: Path) -> Log:
        """Make an empty log, file 0600 in a folder 0700. An existing one is left as it is and opened."""
        return Log.open(place, create=True)

    def is_older(self, found: str) -> bool:
        """Return whether a log's format is older than this program's. Raises LogTooNew for a newer one."""
        if int(found) > FORMAT:
            raise LogTooNew(
                f"{self.place}: was written by a newer tallybook (log format {found}, this one knows "
                f"{FORMAT}): update tallybook"
            )
        return int(found) < FORMAT

    @property
    def log_id(self) -> str:
        """The id that the log was given when it was made; streams of its own are named by it."""
        return self.meta("log_id") or ""

    @property
    def book_stream(self) -> str:
        """The stream into which this log's own prices, labels and seals go."""
        return f"{BOOK}:{self.log_id}"

    def meta(self, key: str) -> str | None:
        """Return what the log says of itself under a key, None where it says nothing."""
        row = self.connection.execute(self.sql["meta"], (key,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the log. It cannot be used afterwards."""
        self.connection.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # appending

    @abstractmethod
    def append(self, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]] = ()) -> list[int]:
        """Append to one or several streams in one durable transaction; return the versions, in order.

        Events whose ids are all known with the same stream, type, cause and data are a success and return
        their stored versions. `blobs` are (event id, blob) pairs, stored in the same commit.
        Raises VersionConflict, EventIdReused, LogReadOnly, LogUnavailable; then nothing was written.
        """

    @abstractmethod
    def adopt(
        self,
        events: Sequence[Event],
        blobs: Sequence[tuple[bytes, Blob]] = (),
        barred: Callable[[], Collection[bytes]] = frozenset,
    ) -> Adopted:
        """Take in events of another log, as they are but for their positions, in one durable transaction.

        Those that are here already are passed over, their blobs too. Every other must continue its stream here, and
        its hash must fit. `blobs` are (event id, blob) pairs; `barred` is asked within the transaction, when no
        other writer can get in between, which of them are linked and not kept.
        Raises Diverged, InvalidEvent, EventIdReused, LogTooNew, LogReadOnly, LogUnavailable; then nothing was written.
        """

    @abstractmethod
    def delete_blobs(self, sha256s: Sequence[bytes], linked_until: int) -> bool:
        """Remove the bytes of blobs, except of those that an event beyond position `linked_until` links.

        What says that they left (`blobs.purged`) is appended before. Return whether no trace of them is left in the
        files of the database; False where another program keeps it from being cleaned, then do it again.
        Raises LogReadOnly, LogUnavailable.
        """

    @abstractmethod
    def settle(self) -> None:
        """Wait until all that can be read by now would survive a power cut.

        Whoever appends is answered only then; whoever reads may see an event a moment before. What leaves the
        database for good (a copy in another one) must not be ahead of it.
        """

    def check_writable(self) -> None:
        """Raise LogReadOnly, with what to do about it, where this log may only be read."""
        if self.readonly:
            from ledger.log.append import why_readonly
            from ledger.log.sqlite_log import SqliteLog

            assert isinstance(self, SqliteLog)
            raise LogReadOnly(why_readonly(self))

    # accounts: where the projections lie, and how they are written and read

    @property
    def accounts(self) -> Any:
        """The connection to the projections: the log's own on PostgreSQL, a file beside an SQLite log's."""
        return self.connection

    @property
    def accounts_writable(self) -> bool:
        """Whether this process may write projections."""
        return not self.readonly

    def discard_accounts(self) -> bool:
        """Remove accounts that are damaged, so that they are folded anew; return whether that could be done."""
        return False

    @abstractmethod
    def accounts_transaction(self) -> AbstractContextManager[None]:
        """Hold the place of the one who folds, and a write transaction; roll back on any error.

        Such a commit is not synced to the disk of its own: what a power cut takes away is folded again.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Hold a read transaction on log and accounts: what is read within it is one state of each."""

    @abstractmethod
    def explain(self, error: Exception) -> str:
        """Return one line that says what is wrong with the database and what to do next."""

    # reading

    def head_position(self) -> int:
        """Return the position of the newest event, 0 for an empty log."""
        return int(self.connection.execute(self.sql["head_position"]).fetchone()[0])

    def events_after(self, position: int, limit: int = 500) -> list[Event]:
        """Return up to `limit` events beyond `position`, in order. An acknowledged append is always seen."""
        return list(map(Event._make, self.connection.execute(self.sql["events_after"], (position, limit))))

    def all_events(self, after: int = 0) -> Iterator[Event]:
        """Yield every event beyond `after`, read in slices."""
        while page := self.events_after(after):
            yield from page
            after = page[-1].position

    def stream_events(self, stream_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """Return up to `limit` events of one stream beyond version `after`, in order."""
        rows = self.connection.execute(self.sql["stream_events"], (stream_id, after, limit))
        return [Event(*row) for row in rows]

    def book_events(self) -> list[Event]:
        """Return all events of every book, also of logs that were copied into this one, by when they were recorded."""
        rows = self.connection.execute(self.sql["book_events"], (BOOK, f"{BOOK}:", f"{BOOK};"))
        return sorted((Event(*row) for row in rows), key=lambda event: (event.at, event.event_id))

    def stream_version(self, stream_id: str) -> int:
        """Return the version of the stream's head, 0 where there is no such stream."""
        head = self.stream_head(stream_id)
        return 0 if head is None else head[0]

    def head_at(self, stream_id: str, position: int) -> tuple[int, bytes] | None:
        """Return (version, hash) of the newest event of a stream that is not beyond a position, None for none."""
        row = self.connection.execute(self.sql["head_at"], (stream_id, position)).fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    def stream_head(self, stream_id: str) -> tuple[int, bytes] | None:
        """Return (version, hash) of the newest event of a stream, None where there is no such stream."""
        row = self.connection.execute(self.sql["stream_head"], (stream_id,)).fetchone()
        return None if row is None else (int(row[0]), row[1])

    def heads(self) -> list[Head]:
        """Return the heads of all streams, at one moment."""
        return [Head(*row) for row in self.connection.execute(self.sql["heads"])]

    def hash_at(self, stream_id: str, version: int) -> tuple[int, bytes] | None:
        """Return (position, hash) of a version of a stream, None where there is none."""
        row = self.connection.execute(self.sql["hash_at"], (stream_id, version)).fetchone()
        return None if row is None else (int(row[0]), row[1])

    def blob_links(self) -> list[BlobLink]:
        """Return every blob that is there with every event that it belongs to, in order of the events."""
        return [BlobLink(*row) for row in self.connection.execute(self.sql["blob_links"])]

    def blobs_between(self, after: int, until: int) -> list[tuple[bytes, Blob]]:
        """Return (event id, blob) for every blob that is there of the events in (after, until], in their order."""
        rows = self.connection.execute(self.sql["blobs_between"], (after, until))
        return [(row[0], Blob(*row[1:])) for row in rows]

    def blob_sizes(self, after: int, until: int) -> dict[int, int]:
        """Return position -> length of the texts (bytes), for the events in (after, until] that have any here."""
        return {
            int(place): int(size) for place, size in self.connection.execute(self.sql["blob_sizes"], (after, until))
        }

    def hash_of(self, position: int) -> bytes | None:
        """Return the hash of the event at a position, None where there is none."""
        row = self.connection.execute(self.sql["hash_of"], (position,)).fetchone()
        return None if row is None else bytes(row[0])

    def event_at(self, position: int) -> Event:
        """Return the event at a position. Raises KeyError where there is none."""
        row = self.connection.execute(self.sql["event_at"], (position,)).fetchone()
        if row is None:
            raise EventMissing(f"event {position} is not in the log: run `ledger verify`, restore a copy")
        return Event(*row)

    def find_event(self, event_id: bytes) -> Event | None:
        """Return the event with an id, None where there is none."""
        row = self.connection.execute(self.sql["event_by_id"], (event_id,)).fetchone()
        return None if row is None else Event(*row)

    def reach(self) -> tuple[int, dict[str, tuple[int, bytes]], Path | None]:
        """Return (position after which all events can be read, version and hash of every head there, what is missing).

        (0, {}, None), except of a log that was rolled and of which older files were moved away.
        """
        return 0, {}, None

    def blob(self, sha256: bytes) -> bytes | None:
        """Return the content of a blob, None where it is unknown or was purged."""
        row = self.connection.execute(self.sql["get_blob"], (sha256,)).fetchone()
        return None if row is None else blob_content(*row)


def _host() -> str:
    """Return the host's name without loading the socket library, which costs some milliseconds."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "unknown")


def may_write(minimum: str) -> bool:
    """Return whether this program may write a log whose lowest writer is of version `minimum`."""
    return version_tuple(__version__) >= version_tuple(minimum)


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, to be compared."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def writer_parts(writer: str) -> dict[str, Any]:
    """Return program, host and process of an event's writer."""
    program, host, process = [*writer.split(" "), "", ""][:3]
    return {"program": program, "host": host, "process": process}
