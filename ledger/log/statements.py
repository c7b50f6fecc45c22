"""The statements of the log, written with SQLAlchemy Core. `make sql` freezes them; see ledger/sql."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, insert, literal_column, select
from sqlalchemy.dialects.postgresql import insert as upsert  # its conflict clauses suit both dialects
from sqlalchemy.sql import ClauseElement

from ledger.log.schema import blobs, event_blobs, events, log_meta


def _after() -> Select[tuple[object, ...]]:
    return (
        select(events)
        .where(events.c.position > bindparam("position"))
        .order_by(events.c.position)
        .limit(bindparam("limit"))
    )


def _heads() -> Select[tuple[object, ...]]:
    newest = select(events.c.stream_id, func.max(events.c.version).label("version")).group_by(events.c.stream_id)
    last = newest.subquery("last")
    same = (events.c.stream_id == last.c.stream_id) & (events.c.version == last.c.version)
    return select(events.c.stream_id, events.c.version, events.c.hash).join(last, same)


def _blob_links() -> Select[tuple[object, ...]]:
    return (
        select(blobs.c.sha256, blobs.c.size_bytes, events.c.position)
        .join(event_blobs, event_blobs.c.sha256 == blobs.c.sha256)
        .join(events, events.c.event_id == event_blobs.c.event_id)
        .order_by(events.c.position, blobs.c.sha256)
    )


def _between() -> ColumnElement[bool]:
    return (events.c.position > bindparam("after")) & (events.c.position <= bindparam("until"))


def _blobs_between() -> Select[tuple[object, ...]]:
    return (
        select(events.c.event_id, blobs)
        .join_from(events, event_blobs, events.c.event_id == event_blobs.c.event_id)
        .join(blobs, event_blobs.c.sha256 == blobs.c.sha256)
        .where(_between())
        .order_by(events.c.position, blobs.c.sha256)
    )


def _blob_sizes() -> Select[tuple[object, ...]]:
    return (
        select(events.c.position, func.sum(blobs.c.size_bytes))
        .join_from(events, event_blobs, events.c.event_id == event_blobs.c.event_id)
        .join(blobs, event_blobs.c.sha256 == blobs.c.sha256)
        .where(_between())
        .group_by(events.c.position)
        .order_by(events.c.position)
    )


def _delete_blob() -> ClauseElement:
    """Remove a blob's bytes, unless an event of after the purge was decided links it."""
    later: Select[tuple[object, ...]] = (
        select(literal_column("1"))
        .select_from(event_blobs)
        .join(events, events.c.event_id == event_blobs.c.event_id)
        .where(event_blobs.c.sha256 == blobs.c.sha256, events.c.position > bindparam("linked_until"))
    )
    return delete(blobs).where(blobs.c.sha256 == bindparam("sha256"), ~later.exists())


STATEMENTS: dict[str, ClauseElement] = {
    "append_event": insert(events),
    "head_position": select(func.coalesce(func.max(events.c.position), literal_column("0"))),
    "stream_head": select(events.c.version, events.c.hash)
    .where(events.c.stream_id == bindparam("stream_id"))
    .order_by(events.c.version.desc())
    .limit(literal_column("1")),
    "event_by_id": select(events).where(events.c.event_id == bindparam("event_id")),
    "event_at": select(events).where(events.c.position == bindparam("position")),
    "events_after": _after(),
    "head_at": select(events.c.version, events.c.hash)
    .where(events.c.stream_id == bindparam("stream_id"), events.c.position <= bindparam("position"))
    .order_by(events.c.version.desc())
    .limit(literal_column("1")),
    "hash_of": select(events.c.hash).where(events.c.position == bindparam("position")),
    "stream_events": select(events)
    .where(events.c.stream_id == bindparam("stream_id"), events.c.version > bindparam("version"))
    .order_by(events.c.version)
    .limit(bindparam("limit")),
    "book_events": select(events).where(
        (events.c.stream_id == bindparam("kind"))
        | ((events.c.stream_id > bindparam("low")) & (events.c.stream_id < bindparam("high")))
    ),
    "heads": _heads(),
    "hash_at": select(events.c.position, events.c.hash).where(
        events.c.stream_id == bindparam("stream_id"), events.c.version == bindparam("version")
    ),
    "blob_links": _blob_links(),
    "blobs_between": _blobs_between(),
    "blob_sizes": _blob_sizes(),
    "delete_blob": _delete_blob(),
    "blob_known": select(func.count()).select_from(blobs).where(blobs.c.sha256 == bindparam("sha256")),
    "put_blob": insert(blobs),
    "link_blob": upsert(event_blobs).on_conflict_do_nothing(),
    "get_blob": select(blobs.c.encoding, blobs.c.bytes).where(blobs.c.sha256 == bindparam("sha256")),
    "meta": select(log_meta.c.value).where(log_meta.c.key == bindparam("key")),
    "put_meta": insert(log_meta),
}
