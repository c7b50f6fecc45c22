"""Taking in events of another log into an SQLite file: as they are, each the next of its stream, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ledger.errors import Diverged, EventIdReused, InvalidEvent
from ledger.events.envelope import Event
from ledger.log import sqlite
from ledger.log.append import ENVELOPE_BYTES, put_blob, writing
from ledger.log.blobs import Blob
from ledger.log.hashing import event_hash
from ledger.log.log import Adopted

if TYPE_CHECKING:
    from ledger.log.sqlite_log import SqliteLog


def adopt(
    log: SqliteLog,
    events: Sequence[Event],
    blobs: Sequence[tuple[bytes, Blob]],
    barred: Callable[[], Collection[bytes]],
) -> tuple[Adopted, int]:
    """Do what Log.adopt promises; return that, and about how many bytes were written."""
    with writing(log):
        news = _news(log, events)
        try:
            log.connection.executemany(log.sql["append_event"], [(None, *event[1:]) for event in news])
        except sqlite.IntegrityError as error:
            raise EventIdReused("an event id is known in another stream: the two logs cannot be one") from error
        ids = {event.event_id for event in news}
        wanted = [(event_id, blob) for event_id, blob in blobs if event_id in ids]
        away = barred() if wanted else ()
        kept = {blob.sha256 for _, blob in wanted if blob.sha256 not in away}
        for event_id, blob in wanted:
            put_blob(log, event_id, blob, keep=blob.sha256 in kept)
    size_bytes = sum(len(event.data) + ENVELOPE_BYTES for event in news)
    return Adopted(len(news), len(kept)), size_bytes + sum(len(blob.bytes) for _, blob in wanted)


def _news(log: SqliteLog, events: Sequence[Event]) -> list[Event]:
    """Return the events that are not here yet; each is the next of its stream and its hash fits."""
    news: list[Event] = []
    heads: dict[str, tuple[int, bytes | None]] = {}
    for event in events:
        head = heads.get(event.stream_id)
        if head is None:
            head = heads[event.stream_id] = log.stream_head(event.stream_id) or (0, None)
        version, link = head
        if event.version <= version:
            known = log.hash_at(event.stream_id, event.version)
            if known is None or known[1] != event.hash:
                raise Diverged(event.stream_id, event.version)
            continue
        if event.version != version + 1 or event.prev_hash != link:
            raise Diverged(event.stream_id, version + 1)
        if event_hash(*event[1:14]) != event.hash:
            raise InvalidEvent(damaged(event.stream_id, event.version))
        heads[event.stream_id] = (event.version, event.hash)
        news.append(event)
    return news


def damaged(stream_id: str, version: int) -> str:
    """Return the line for an event of the other log that cannot be taken in."""
    return (
        f"stream {stream_id}, version {version}: its hash does not fit its contents, so it is not taken in: "
        "run `ledger verify` on the log that it comes from"
    )
