"""Appending: versions checked, hashes chained, everything in one durable commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ledger.errors import (
    EventIdReused,
    InvalidEvent,
    LogReadOnly,
    LogTooNew,
    LogUnavailable,
    VersionConflict,
    VolumeMissing,
)
from ledger.events.envelope import Event
from ledger.log import sqlite
from ledger.log.blobs import Blob
from ledger.log.hashing import Parts, finished_hash, hash_parts
from ledger.log.log import may_write
from ledger.log.prepare import Batch, prepare
from ledger.log.volumes import CLOSED, Volumes

if TYPE_CHECKING:
    from ledger.log.log import StreamAppend
    from ledger.log.sqlite_log import SqliteLog


ENVELOPE_BYTES = 1000
"""About what an event takes beside its data, indexes included."""


class Row(NamedTuple):
    """An event as far as it is known before the log is held."""

    version: int
    before: tuple[bytes, str | None, str, int, str, int]
    """The columns before `at`, from the event id on."""
    after: tuple[str, bytes | None, str | None, str | None, str]
    """Those between `at` and the previous hash."""
    hashed: Parts


def append(
    log: SqliteLog, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]]
) -> tuple[list[int], int]:
    """Do what Log.append promises; return the versions, and about how many bytes were written."""
    batch = prepare(appends)
    rows = _rows(log, batch)  # whoever waits for the lock waits for what is done while it is held: this is done before
    with writing(log):
        versions = _append_rows(log, batch, rows, blobs)
    size_bytes = sum(len(event.data) + ENVELOPE_BYTES for _, events in batch for event in events)
    return versions, size_bytes + sum(len(blob.bytes) for _, blob in blobs)


@contextmanager
def writing(log: SqliteLog) -> Iterator[None]:
    """Hold the commit lock and a write transaction of a log that may be written; roll back on any error."""
    if log.readonly:
        raise LogReadOnly(why_readonly(log))
    connection = log.connection
    try:
        with log.lock:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _check_writer(log)
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    except sqlite.Error as error:
        raise LogUnavailable(sqlite.explain(error, log.path)) from error
    except UnicodeError as error:
        raise InvalidEvent(f"a stream, session, turn or span has a name that is no text: {error}") from error


def _check_writer(log: SqliteLog) -> None:
    """Raise LogTooNew where a newer program took the log over since it was opened."""
    minimum = log.meta("min_writer") or "0"
    if minimum != log.min_writer_seen:
        if not may_write(minimum):
            raise LogTooNew(f"{log.path}: a newer tallybook has taken this log over: update tallybook")
        log.min_writer_seen = minimum


def why_readonly(log: SqliteLog) -> str:
    """Return the line for whoever would write a log that may only be read."""
    if log.meta(CLOSED) is not None:
        return f"{log.path}: is a closed volume of a log that goes on in another file: give that one with --db"
    return f"{log.path}: may not be written: check its permissions, or update tallybook"


def append_within(log: SqliteLog, batch: Batch, blobs: Sequence[tuple[bytes, Blob]]) -> list[int]:
    """Append within a write transaction; return the versions."""
    return _append_rows(log, batch, _rows(log, batch), blobs)


def _append_rows(log: SqliteLog, batch: Batch, rows: list[list[Row]], blobs: Sequence[tuple[bytes, Blob]]) -> list[int]:
    """Append the rows of a batch within a write transaction; return the versions.

    Whether the events are known already is looked up first. For one event alone the database refuses it where it is
    known, so it is looked up only then; of several, those before the refused one would be there.
    """
    alone = len(rows) == 1 and len(rows[0]) == 1
    here = super(Volumes, log).find_event
    if not alone and (known := _known(log, batch, here)) is not None:
        return known
    try:
        linked = _linked(log, batch, rows)
    except VersionConflict:
        if alone and (known := _known(log, batch, here)) is not None:
            return known
        if log.base() and (known := _known_before(log, batch)) is not None:
            return known
        raise
    try:
        log.connection.executemany(log.sql["append_event"], linked)
    except sqlite.IntegrityError:
        if alone and (known := _known(log, batch, here)) is not None:
            return known
        raise
    for event_id, blob in blobs:
        put_blob(log, event_id, blob)
    return [row.version for part in rows for row in part]


def put_blob(log: SqliteLog, event_id: bytes, blob: Blob, *, keep: bool = True) -> None:
    """Link a blob to an event, and keep it where it is not known."""
    if keep and not log.connection.execute(log.sql["blob_known"], (blob.sha256,)).fetchone()[0]:
        log.connection.execute(log.sql["put_blob"], blob)
    log.connection.execute(log.sql["link_blob"], (event_id, blob.sha256))


def _rows(log: SqliteLog, batch: Batch) -> list[list[Row]]:
    """Return for every part of a batch its rows, with the versions that they get if its stream is as expected."""
    found: list[list[Row]] = []
    for one, events in batch:
        rows: list[Row] = []
        for version, event in enumerate(events, one.expected_version + 1):
            new = event.new
            before = new.event_id, new.session_id, one.stream_id, version, event.type, event.schema
            after = log.writer, new.cause, new.turn, new.span, event.data
            rows.append(Row(version, before, after, hash_parts(*before, *after)))
        found.append(rows)
    return found


def _linked(log: SqliteLog, batch: Batch, rows: list[list[Row]]) -> list[tuple[object, ...]]:
    """Return what to insert: every row dated, and linked to the one before in its stream. Raises VersionConflict."""
    at = time.time_ns() // 1000
    linked: list[tuple[object, ...]] = []
    heads: dict[str, tuple[int, bytes | None]] = {}
    for (one, _), part in zip(batch, rows, strict=True):
        version, link = heads.get(one.stream_id) or log.stream_head(one.stream_id) or (0, None)
        if version != one.expected_version:
            raise VersionConflict(one.stream_id, one.expected_version, version)
        for row in part:
            own = finished_hash(row.hashed, at, link)
            linked.append((None, *row.before, at, *row.after, link, own))
            version, link = row.version, own
        heads[one.stream_id] = (version, link)
    return linked


def _known_before(log: SqliteLog, batch: Batch) -> list[int] | None:
    """Return the stored versions where every event is known in a volume before, as far as these are there."""
    try:
        return _known(log, batch, log.find_event)
    except VolumeMissing:
        return None


def _known(log: SqliteLog, batch: Batch, find: Callable[[bytes], Event | None]) -> list[int] | None:
    """Return the stored versions where every event is known, None where none is."""
    found: list[int] = []
    for one, events in batch:
        for event in events:
            stored = find(event.new.event_id)
            if stored is None:
                continue
            same = (stored.stream_id, stored.type, stored.cause, stored.data)
            if same != (one.stream_id, event.type, event.new.cause, event.data):
                raise EventIdReused(f"event {event.new.event_id.hex()} is known with other contents")
            found.append(stored.version)
    if not found:
        return None
    if len(found) != sum(len(events) for _, events in batch):
        raise EventIdReused("some events of this append are known and some are not: append them apart")
    return found
