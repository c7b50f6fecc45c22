"""The hash of an event, and the chain that it makes of a stream. docs/hash.md has the recipe and vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ledger.events.envelope import Event

RECIPE = 1
"""The number of the recipe; it is the first field that is hashed."""

_NULL = b"\xff\xff\xff\xff"

Parts = tuple[bytes, bytes]
"""What is hashed of an event before its `at` and between that and the previous hash."""


def pack(value: bytes | None) -> bytes:
    """Return a field as it is hashed: 4 bytes of big-endian length and its bytes, or ff ff ff ff for a null."""
    return _NULL if value is None else len(value).to_bytes(4, "big") + value


def _text(value: str | None) -> bytes:
    return _NULL if value is None else pack(_bytes(value))


def _bytes(text: str) -> bytes:
    # What is written is always UTF-8, and data ASCII; a damaged row must still get a hash, a wrong one.
    return text.encode("utf-8", "surrogatepass")


_RECIPE = pack(b"%d" % RECIPE)


def event_hash(
    event_id: bytes,
    session_id: str | None,
    stream_id: str,
    version: int,
    type_: str,
    schema: int,
    at: int,
    writer: str,
    cause: bytes | None,
    turn: str | None,
    span: str | None,
    data: str,
    prev_hash: bytes | None,
) -> bytes:
    """Return the sha256 (32 bytes) of the length-prefixed envelope, the data's digest and the previous hash.

    Each field is 4 bytes of big-endian length and its bytes; a null is ff ff ff ff, so it differs from an
    empty text. Numbers are written in decimal.
    """
    parts = hash_parts(
        event_id, session_id, stream_id, version, type_, schema, writer, cause, turn, span, data
    )  # fmt: skip
    return finished_hash(parts, at, prev_hash)


def hash_parts(
    event_id: bytes,
    session_id: str | None,
    stream_id: str,
    version: int,
    type_: str,
    schema: int,
    writer: str,
    cause: bytes | None,
    turn: str | None,
    span: str | None,
    data: str,
) -> Parts:
    """Return what `finished_hash` needs of an event: all that is known of it before it is its turn to be appended."""
    before = (
        _RECIPE,
        pack(event_id),
        _text(session_id),
        _text(stream_id),
        pack(b"%d" % version),
        _text(type_),
        pack(b"%d" % schema),
    )
    after = (
        _text(writer),
        pack(cause),
        _text(turn),
        _text(span),
        pack(hashlib.sha256(_bytes(data)).digest()),
    )
    return b"".join(before), b"".join(after)


def finished_hash(parts: Parts, at: int, prev_hash: bytes | None) -> bytes:
    """Return the hash of an event whose other fields are hashed as `hash_parts` returned them."""
    return hashlib.sha256(b"".join((parts[0], pack(b"%d" % at), parts[1], pack(prev_hash)))).digest()


def broken_links(events: Iterable[Event], heads: dict[str, tuple[int, bytes]]) -> Iterable[tuple[Event, str]]:
    """Yield (event, what is wrong) for every event that does not continue its stream's chain.

    `heads` maps stream id to (version, hash) and is brought forward: begin with an empty dict.
    """
    for event in events:
        version, before = heads.get(event.stream_id, (0, None))
        if event.version != version + 1:
            yield event, f"version {event.version} follows {version}"
        elif event.prev_hash != before:
            yield event, "prev_hash is not the hash of the version before"
        elif event_hash(*event[1:14]) != event.hash:
            yield event, "hash does not fit the contents"
        heads[event.stream_id] = (event.version, event.hash)
