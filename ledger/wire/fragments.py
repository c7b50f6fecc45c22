"""Writes a JSON body from parts of which most were written before: a long conversation costs only what is new."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from ledger.wire.conversation import Message

encode = msgspec.json.Encoder().encode
Piece = bytes | memoryview
_KEPT_MAX = 8_192
_Style = TypeVar("_Style", bound=Hashable)


class Fragments(Generic[_Style]):
    """Messages as JSON in one protocol, each written once for a style. Known by identity: messages never change."""

    def __init__(self, write: Callable[[Message, _Style], Any]) -> None:
        self._write = write
        self._kept: dict[tuple[int, _Style], tuple[Message, bytes]] = {}

    def of(self, message: Message, style: _Style) -> bytes:
        """Return a message as JSON, empty where the protocol has nothing for it."""
        found = self._kept.get((id(message), style))
        if found is None or found[0] is not message:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            written = self._write(message, style)
            found = self._kept[id(message), style] = (message, b"" if written is None else encode(written))
        return found[1]


def listed(items: Iterable[Iterable[Piece]]) -> list[Piece]:
    """Return the pieces of a JSON array of items that are pieces of JSON."""
    pieces: list[Piece] = []
    for item in items:
        pieces += (b"," if pieces else b"[", *item)
    return [*pieces, b"]"] if pieces else [b"[]"]


def joined(fields: Iterable[tuple[str, bytes | list[Piece]]]) -> bytes:
    """Return the JSON object of fields whose values are JSON already, whole or in pieces. All is copied once."""
    pieces: list[Piece] = []
    for name, value in fields:
        pieces += (b"," if pieces else b"{", encode(name), b":", *([value] if isinstance(value, bytes) else value))
    return b"".join([*pieces, b"}"]) if pieces else b"{}"
