"""Anthropic messages. Format: the API reference, "Messages", "Extended thinking" and "Adaptive thinking".

Roles alternate, so the results of a batch are one user message, with the next prompt behind them. Thinking is signed
and goes back as it was, to the model that it came from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ledger.wire.call_ids import fitted
from ledger.wire.conversation import Call, Message, Opaque, Parameters, Part, Result, Text, Window
from ledger.wire.fragments import Fragments, Piece, encode, joined, listed
from ledger.wire.messages_reading import NAME, MessagesReading
from ledger.wire.protocols import Assembler, Protocol
from ledger.wire.shapes import object_of
from ledger.wire.takes import ANTHROPIC_OUTPUT, Takes

VERSION = "2023-06-01"
_THINKING_TOKENS, _THINKING_LEAST = 16_000, 1_024
_SIGNED = ("thinking", "redacted_thinking")


def _blocks(message: Message, model: str) -> list[Any] | None:
    """Return the content blocks of a message, None for one that says nothing. Calls stand behind all else."""
    parts = sorted(message.parts, key=lambda part: isinstance(part, Call))
    return [block for part in parts if (block := _block(part, model)) is not None] or None


def _block(part: Part, model: str) -> Any:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, Call):
        call_id, arguments = fitted(part.id, "word"), object_of(part.arguments) or {}
        return {"type": "tool_use", "id": call_id, "name": part.name, "input": arguments}
    if isinstance(part, Result):
        written = {"type": "tool_result", "tool_use_id": fitted(part.id, "word"), "content": part.text}
        return written | ({"is_error": True} if part.is_error else {})
    return part.data if _goes_back(part, model) else None


def _goes_back(part: Opaque, model: str) -> bool:
    """Return whether a block is sent again: signed, by this protocol, and to the model that it came from."""
    if part.protocol != NAME or part.model not in ("", model):
        return False
    block = msgspec.json.decode(part.data)
    return block.get("type") != "thinking" or bool(block.get("signature"))


class _Turn(NamedTuple):
    """Neighbours of one role, which are one message."""

    role: str
    messages: list[Message]
    blocks: list[list[Piece]]
    """The blocks of each message, without the brackets around them."""


class Messages(Protocol):
    """The protocol `anthropic`."""

    name = NAME

    def __init__(self) -> None:
        self._fragments = Fragments(_blocks)

    def url(self, base_url: str) -> str:
        """Return `BASE/v1/messages`; the base has no `/v1`."""
        return f"{base_url.rstrip('/')}/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request."""
        headers = {"content-type": "application/json", "anthropic-version": VERSION}
        return headers | ({"x-api-key": key} if key else {})

    def body(self, model: str, window: Window, parameters: Parameters, *, takes: Takes) -> bytes:
        """Return the bytes of a request."""
        most = parameters.max_output_tokens or takes.max_output_tokens or ANTHROPIC_OUTPUT
        fields: list[tuple[str, bytes | list[Piece]]] = [("model", encode(model)), ("max_tokens", encode(most))]
        if window.system.strip():
            fields.append(("system", encode(window.system)))
        turns = self._turns(window, model)
        shown = ((b'{"role":"%s","content":' % one.role.encode(), *listed(one.blocks), b"}") for one in turns)
        fields.append(("messages", listed(shown)))
        if window.tools:
            tools = [
                {"name": one.name, "description": one.description, "input_schema": one.parameters}
                for one in window.tools
            ]
            fields.append(("tools", encode(tools)))
        thinking = _thinking(most, turns, model, takes) if parameters.thinking and takes.effort else []
        fields += thinking
        if not thinking and parameters.temperature is not None and takes.temperature:
            fields.append(("temperature", encode(parameters.temperature)))
        if parameters.stream:
            fields.append(("stream", b"true"))
        return joined(fields)

    def _turns(self, window: Window, model: str) -> list[_Turn]:
        found: list[_Turn] = []
        for message in window.messages:
            blocks = self._fragments.of(message, model)
            if not blocks:
                continue
            role = "assistant" if message.role == "assistant" else "user"
            if not found or found[-1].role != role:
                found.append(_Turn(role, [], []))
            found[-1].messages.append(message)
            found[-1].blocks.append([memoryview(blocks)[1:-1]])
        return found

    def assembler(self, model: str = "") -> Assembler:
        """Return what reads the answer to one request."""
        return MessagesReading(model)


def _thinking(most: int, turns: list[_Turn], model: str, takes: Takes) -> list[tuple[str, bytes]]:
    """Return the fields that ask for thought."""
    if takes.thinking == "adaptive":
        return [("thinking", b'{"type":"adaptive"}'), ("output_config", b'{"effort":"high"}')]
    budget = min(_THINKING_TOKENS, most - most // 4)
    if budget < _THINKING_LEAST or not _may_think(turns, model):
        return []
    return [("thinking", encode({"type": "enabled", "budget_tokens": budget}))]


def _may_think(turns: list[_Turn], model: str) -> bool:
    """Return whether a budget may be given: not amid calls that were made without thinking ("Extended thinking")."""
    if len(turns) < 2 or not any(message.role == "tool" for message in turns[-1].messages):
        return True
    blocks = [block for message in turns[-2].messages for part in message.parts if (block := _block(part, model))]
    first = blocks[0] if blocks else None
    return isinstance(first, msgspec.Raw) and msgspec.json.decode(first).get("type") in _SIGNED


PROTOCOL = Messages()
