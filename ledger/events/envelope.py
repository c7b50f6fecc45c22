"""The envelope that every event wears in the log."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class Event(NamedTuple):
    """A stored event, as read from the log. A tuple in column order, so that a row becomes one at no cost."""

    position: int
    """The place in the whole log, equal to commit order."""
    event_id: bytes
    """16 bytes, unique in the log: UUIDv7, or UUIDv5 of a fact that can be found again."""
    session_id: str | None
    """The session it belongs to, where it belongs to one."""
    stream_id: str
    """The ordered sequence it stands in, as kind:identity."""
    version: int
    """1, 2, 3 ... within the stream."""
    type: str
    """What happened, in the past tense."""
    schema: int
    """Which shape the data has, 1, 2, 3 ... within the type."""
    at: int
    """When it was recorded, microseconds UTC."""
    writer: str
    """Program and version, host, process id."""
    cause: bytes | None
    """The id of the event that led to this one."""
    turn: str | None
    """The turn it belongs to, where it belongs to one."""
    span: str | None
    """The span (request, tool, hook, approval) it belongs to, where it belongs to one."""
    data: str
    """ASCII JSON, byte for byte as it was hashed."""
    prev_hash: bytes | None
    """The hash of the version before, null at version 1."""
    hash: bytes
    """sha256 over all but position and hash; see hash.md."""


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
