"""The statements of the log, written with SQLAlchemy Core. `make sql` freezes them; see ledger/sql."""

from __future__ import annotations

from sqlalchemy import Select, bindparam, func, insert, literal_column, select
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.sql import ClauseElement

from ledger.log.schema import blobs, event_blobs, events, log_meta


def _after() -> Select[tuple[object, ...]]:
    return (
        select(events)
        .where(events.c.position > bindparam("position"))
        .order_by(events.c.position)
        .limit(bindparam("limit"))
    )


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
    "stream_events": select(events)
    .where(events.c.stream_id == bindparam("stream_id"), events.c.version > bindparam("version"))
    .order_by(events.c.version)
    .limit(bindparam("limit")),
    "blob_known": select(func.count()).select_from(blobs).where(blobs.c.sha256 == bindparam("sha256")),
    "put_blob": insert(blobs),
    "link_blob": upsert(event_blobs).on_conflict_do_nothing(),
    "get_blob": select(blobs.c.encoding, blobs.c.bytes).where(blobs.c.sha256 == bindparam("sha256")),
    "meta": select(log_meta.c.value).where(log_meta.c.key == bindparam("key")),
    "put_meta": insert(log_meta),
}
