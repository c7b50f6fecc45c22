"""Which rows are of our own agent, and what its requests used, read from the events that ended them."""

from __future__ import annotations

import msgspec

from ledger.accounts.rows import SpanRow
from ledger.events import runs
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.wire import dialects
from ledger.wire.usage import Reading, Usage

CLIENT = "tallybook"
"""The client whose sessions these are."""
_ENDPOINTS = {"openai-chat": "/chat/completions", "anthropic": "/v1/messages"}
"""The dialect of a usage object is known by the end of the endpoint (ledger.wire.dialects)."""


def span_id(span: str | None) -> str:
    """Return the id of a span row, from the span of its events."""
    return f"{CLIENT}:{span or ''}"


def is_live(row_id: str) -> bool:
    """Return whether a span row is of our own agent."""
    return row_id.startswith(f"{CLIENT}:")


def read(end: runs.RequestEnd, provider: str) -> Reading:
    """Return what a request's usage frames come to, by the rules of the endpoint's dialect."""
    frames = [msgspec.json.decode(frame) for frame in end.usage]
    return dialects.read(provider, _ENDPOINTS.get(end.protocol, ""), frames, stream=len(frames) > 1)


def usage_of(event: Event, row: SpanRow, provider: str) -> Usage | None:
    """Return the usage that a live row's figures came from, read again from the event that ended it."""
    body = decode(event.type, event.schema, event.data)
    if not isinstance(body, runs.RequestEnd):
        return None
    parts = read(body, provider).parts
    number = int(row.part[len(row.part.rstrip("0123456789")) :] or 0)
    return parts[number].usage if number < len(parts) else None
