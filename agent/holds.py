"""An endpoint that asks to be left alone is left alone by every run that has the same key (LOOP-18)."""

from __future__ import annotations

import hashlib
import secrets

from agent.configuration import Target
from ledger.events.envelope import NewEvent
from ledger.events.hubs import EndpointHeld
from ledger.events.registry import decode
from ledger.ids import new_id
from ledger.log.log import Log, StreamAppend

BUSY = ("rate_limited", "overloaded")
"""Failures that say of the endpoint, and not of one request, that it has enough."""
_SPREAD_US = 250_000
"""Those who were held come back spread over so much time, not all in one moment."""


def hold_stream(log: Log, target: Target) -> str:
    """Return the stream in which the pauses of an endpoint stand: one an endpoint and key, and a log's own."""
    told = "\0".join((target.provider, target.base_url, target.key_variable))
    return f"hub:endpoint:{log.log_id}:{hashlib.sha256(told.encode()).hexdigest()[:32]}"


def holding(log: Log, target: Target, reason: str, until: int, delay_us: int) -> list[StreamAppend]:
    """Return what to append where an endpoint asked for a pause; nothing where a longer one is known."""
    stream_id = hold_stream(log, target)
    found = _newest(log, stream_id)
    if found is not None and found[1].until >= until:
        return []
    new = NewEvent(body=EndpointHeld(target.provider, until, delay_us, reason), event_id=new_id())
    return [StreamAppend(stream_id, found[0] if found else 0, [new])]


def held_us(log: Log, target: Target, now_us: int) -> int:
    """Return how long an endpoint is still to be left alone (microseconds, 0 for not), by the wall clock.

    Never longer than the pause was when it was decided, whatever the clock says.
    """
    found = _newest(log, hold_stream(log, target))
    if found is None or found[1].until <= now_us:
        return 0
    return min(found[1].until - now_us, found[1].delay_us) + secrets.randbelow(_SPREAD_US)


def _newest(log: Log, stream_id: str) -> tuple[int, EndpointHeld] | None:
    version = log.stream_version(stream_id)
    if not version:
        return None
    (event,) = log.stream_events(stream_id, version - 1, 1)
    body: EndpointHeld = decode(event.type, event.schema, event.data)
    return version, body
