"""Taking in events of another log on PostgreSQL: the server's own functions check and write, under the log's lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ledger import __version__
from ledger.errors import Diverged, EventIdReused, InvalidEvent, LogUnavailable
from ledger.events.envelope import Event
from ledger.log.adopting import damaged
from ledger.log.blobs import Blob
from ledger.log.log import Adopted

if TYPE_CHECKING:
    from ledger.log.postgres_log import PostgresLog

_EVENTS = "SELECT adopt_events(?, ?::json)"
_TEXTS = ("session_id", "stream_id", "type", "writer", "turn", "span", "data")
_BLOBS = "SELECT adopt_blobs(?::bytea[], ?::bigint[], ?::text[], ?::bytea[], ?::bytea[], ?::bytea[])"


def adopt(
    log: PostgresLog,
    events: Sequence[Event],
    blobs: Sequence[tuple[bytes, Blob]],
    barred: Callable[[], Collection[bytes]],
) -> Adopted:
    """Do what Log.adopt promises."""
    log.check_writable()
    connection = log.connection
    try:
        with connection.transaction():
            known = connection.execute(_EVENTS, (__version__, _as_json(events))).fetchone()[0]
            passed = {events[number - 1].event_id for number in known}
            wanted = [(event_id, blob) for event_id, blob in blobs if event_id not in passed]
            away = barred() if wanted else ()
            kept = {blob.sha256: blob for _, blob in wanted if blob.sha256 not in away}
            if wanted:
                columns = [list(column) for column in zip(*kept.values(), strict=True)] or [[], [], [], []]
                links = [[event_id for event_id, _ in wanted], [blob.sha256 for _, blob in wanted]]
                connection.execute(_BLOBS, [*columns, *links])
        return Adopted(len(events) - len(known), len(kept))
    except connection.Error as error:
        raise _refused(log, error) from error
    except UnicodeError as error:
        raise InvalidEvent(f"a stream, session, turn or span has a name that is no text: {error}") from error


def _as_json(events: Sequence[Event]) -> str:
    """Return events as `adopt_events` takes them: a JSON object each, bytes in hexadecimal. Raises InvalidEvent."""
    rows = []
    for event in events:
        row = event._asdict()
        del row["position"]
        if any("\0" in row[name] for name in _TEXTS if row[name]):
            raise InvalidEvent(
                f"{event.stream_id}: a name with a NUL in it, which PostgreSQL cannot keep: leave it out"
            )
        for name in ("event_id", "cause", "prev_hash", "hash"):
            row[name] = None if row[name] is None else row[name].hex()
        rows.append(row)
    return msgspec.json.encode(rows).decode()


def _refused(log: PostgresLog, error: Any) -> Exception:
    """Return what an error of the server's functions means."""
    state, message = error.sqlstate or "", error.diag.message_primary or ""
    if state == "TB005":
        return Diverged(message, int(error.diag.message_detail))
    if state == "TB006":
        return InvalidEvent(damaged(message, int(error.diag.message_detail)))
    if state == "23505":
        return EventIdReused("an event id is known in another stream: the two logs cannot be one")
    if state == "42883":
        return LogUnavailable(f"{log.place}: was made by an older tallybook: its owner runs `ledger init`")
    return log.refused(error)
