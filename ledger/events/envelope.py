"""The envelope that every event wears in the log."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class Event(NamedTuple):
    """A stored event, as read from the log. A tuple in column order, so that a row becomes one at no cost."""

    position: int
    """The place in the whole log, equal to commit order."""
    event_id: bytes
    session_id: str | None
    stream_id: str
    version: int
    """1, 2, 3 ... within the stream."""
    type: str
    schema: int
    at: int
    """When it was recorded, microseconds UTC."""
    writer: str
    cause: bytes | None
    turn: str | None
    span: str | None
    data: str
    """ASCII JSON, byte for byte as it was hashed."""
    prev_hash: bytes | None
    hash: bytes


class EncodedBody(NamedTuple):
    """A body that another process has encoded already: a type of the catalogue and its ASCII JSON."""

    type: str
    data: str


class NewEvent(msgspec.Struct, kw_only=True):
    """An event about to be appended. Keep the object for a retry: its id makes the retry harmless."""

    body: Any
    """A struct of the catalogue, or an EncodedBody."""
    event_id: bytes
    session_id: str | None = None
    cause: bytes | None = None
    turn: str | None = None
    span: str | None = None
