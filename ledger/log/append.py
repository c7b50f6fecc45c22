"""Appending: versions checked, hashes chained, everything in one durable commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
from ledger.log.hashing import event_hash
from ledger.log.log import may_write
from ledger.log.prepare import Batch, prepare
from ledger.log.volumes import CLOSED, Volumes

if TYPE_CHECKING:
    from ledger.log.log import StreamAppend
    from ledger.log.sqlite_log import SqliteLog


ENVELOPE_BYTES = 1000
"""About what an event takes beside its data, indexes included."""


def append(
    log: SqliteLog, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]]
) -> tuple[list[int], int]:
    """Do what Log.append promises; return the versions, and about how many bytes were written."""
    batch = prepare(appends)
    with writing(log):
        versions = append_within(log, batch, blobs)
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
                if not may_write(log.meta("min_writer") or "0"):
                    raise LogTooNew(f"{log.path}: a newer tallybook has taken this log over: update tallybook")
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


def why_readonly(log: SqliteLog) -> str:
    """Return the line for whoever would write a log that may only be read."""
    if log.meta(CLOSED) is not None:
        return f"{log.path}: is a closed volume of a log that goes on in another file: give that one with --db"
    return f"{log.path}: may not be written: check its permissions, or update tallybook"


def append_within(log: SqliteLog, batch: Batch, blobs: Sequence[tuple[bytes, Blob]]) -> list[int]:
    """Append within a write transaction; return the versions."""
    known = _known(log, batch, super(Volumes, log).find_event)
    if known is not None:
        return known
    try:
        rows, versions = _rows(log, batch)
    except VersionConflict:
        if log.base() and (known := _known_before(log, batch)) is not None:
            return known
        raise
    log.connection.executemany(log.sql["append_event"], rows)
    for event_id, blob in blobs:
        put_blob(log, event_id, blob)
    return versions


def put_blob(log: SqliteLog, event_id: bytes, blob: Blob, *, keep: bool = True) -> None:
    """Link a blob to an event, and keep it where it is not known."""
    if keep and not log.connection.execute(log.sql["blob_known"], (blob.sha256,)).fetchone()[0]:
        log.connection.execute(log.sql["put_blob"], blob)
    log.connection.execute(log.sql["link_blob"], (event_id, blob.sha256))


def _rows(log: SqliteLog, batch: Batch) -> tuple[list[tuple[object, ...]], list[int]]:
    """Return the rows to insert, each linked to the one before in its stream, and their versions."""
    at = time.time_ns() // 1000
    rows: list[tuple[object, ...]] = []
    versions: list[int] = []
    heads: dict[str, tuple[int, bytes | None]] = {}
    for one, events in batch:
        head = heads.get(one.stream_id)
        if head is None:
            head = log.stream_head(one.stream_id)
        version, link = head or (0, None)
        if version != one.expected_version:
            raise VersionConflict(one.stream_id, one.expected_version, version)
        for event in events:
            version += 1
            new = event.new
            envelope = (
                new.event_id, new.session_id, one.stream_id, version, event.type, event.schema, at,
                log.writer, new.cause, new.turn, new.span, event.data, link,
            )  # fmt: skip
            link = event_hash(*envelope)
            rows.append((None, *envelope, link))
            versions.append(version)
        heads[one.stream_id] = (version, link)
    return rows, versions


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
