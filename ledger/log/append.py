"""Appending: versions checked, hashes chained, everything in one durable commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ledger.errors import EventIdReused, InvalidEvent, LogReadOnly, LogTooNew, LogUnavailable, VersionConflict
from ledger.events.envelope import EncodedBody, Event, NewEvent
from ledger.events.registry import CATALOGUE, encode, entry_of
from ledger.log import sqlite
from ledger.log.blobs import Blob
from ledger.log.hashing import event_hash
from ledger.log.log import may_write

if TYPE_CHECKING:
    from ledger.log.log import Log, StreamAppend


class _Prepared(NamedTuple):
    new: NewEvent
    type: str
    schema: int
    data: str


Prepared = list[tuple["StreamAppend", list[_Prepared]]]


def append(log: Log, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]]) -> list[int]:
    """Do what Log.append promises."""
    if log.readonly:
        raise LogReadOnly(f"{log.path}: may not be written: check its permissions, or update tallybook")
    prepared = [(one, [_prepare(event) for event in one.events]) for one in appends]
    connection = log.connection
    try:
        with log.lock:
            connection.execute("BEGIN IMMEDIATE")
            try:
                versions = _append(log, prepared, blobs)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    except sqlite.Error as error:
        raise LogUnavailable(sqlite.explain(error, log.path)) from error
    except UnicodeError as error:
        raise InvalidEvent(f"a stream, session, turn or span has a name that is no text: {error}") from error
    return versions


def _prepare(new: NewEvent) -> _Prepared:
    if len(new.event_id) != 16:
        raise InvalidEvent("an event id has 16 bytes")
    if type(new.body) is EncodedBody:
        known = CATALOGUE.get(new.body.type)
        if known is None or not new.body.data.isascii():
            raise InvalidEvent(f"{new.body.type}: an encoded body has a type of the catalogue and is ASCII JSON")
        return _Prepared(new, known.type, known.schema, new.body.data)
    entry = entry_of(new.body)
    try:
        return _Prepared(new, entry.type, entry.schema, encode(new.body))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InvalidEvent(f"{entry.type}: {error}") from error


def _append(log: Log, prepared: Prepared, blobs: Sequence[tuple[bytes, Blob]]) -> list[int]:
    if not may_write(log.meta("min_writer") or "0"):
        raise LogTooNew(f"{log.path}: a newer tallybook has taken this log over: update tallybook")
    known = _known(log, prepared)
    if known is not None:
        return known
    rows, versions = _rows(log, prepared)
    log.connection.executemany(log.sql["append_event"], rows)
    for event_id, blob in blobs:
        if not log.connection.execute(log.sql["blob_known"], (blob.sha256,)).fetchone()[0]:
            log.connection.execute(log.sql["put_blob"], blob)
        log.connection.execute(log.sql["link_blob"], (event_id, blob.sha256))
    return versions


def _rows(log: Log, prepared: Prepared) -> tuple[list[tuple[object, ...]], list[int]]:
    """Return the rows to insert, each linked to the one before in its stream, and their versions."""
    at = time.time_ns() // 1000
    rows: list[tuple[object, ...]] = []
    versions: list[int] = []
    heads: dict[str, tuple[int, bytes | None]] = {}
    for one, events in prepared:
        head = heads.get(one.stream_id)
        if head is None:
            head = log.connection.execute(log.sql["stream_head"], (one.stream_id,)).fetchone()
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


def _known(log: Log, prepared: Prepared) -> list[int] | None:
    """Return the stored versions where every event is known, None where none is."""
    found: list[int] = []
    ids = [event.new.event_id for _, events in prepared for event in events]
    if len(set(ids)) != len(ids):
        raise EventIdReused("an event id stands twice in one append: give every event its own")
    ask, execute = log.sql["event_by_id"], log.connection.execute
    for one, events in prepared:
        for event in events:
            row = execute(ask, (event.new.event_id,)).fetchone()
            if row is None:
                continue
            stored = Event(*row)
            same = (stored.stream_id, stored.type, stored.cause, stored.data)
            if same != (one.stream_id, event.type, event.new.cause, event.data):
                raise EventIdReused(f"event {event.new.event_id.hex()} is known with other contents")
            found.append(stored.version)
    if not found:
        return None
    if len(found) != len(ids):
        raise EventIdReused("some events of this append are known and some are not: append them apart")
    return found
