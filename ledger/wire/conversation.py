"""A conversation with a model in words of no provider: protocols write requests from it and read answers into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """What a user wrote or a model said."""

    text: str


class Call(msgspec.Struct, frozen=True, tag="call", tag_field="kind"):
    """A model asks for a tool."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: JSON, or what should have been."""


class Result(msgspec.Struct, frozen=True, tag="result", tag_field="kind", omit_defaults=True):
    """What a tool answered to a call."""

    id: str
    name: str
    text: str
    is_error: bool = False


class Opaque(msgspec.Struct, frozen=True, tag="opaque", tag_field="kind", omit_defaults=True):
    """A part that only its protocol understands and wants back as it was: signed thinking."""

    protocol: str
    data: msgspec.Raw
    model: str = ""
    """The model that was asked when it came, and the only one that gets it back; empty, any."""


Part = Text | Call | Result | Opaque


class Message(msgspec.Struct, frozen=True):
    """One message. A tool message has one Result; an assistant message texts, calls and opaque parts in order."""

    role: str
    """`user`, `assistant`, `tool`."""
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All text of it."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls that it makes, in order."""
        return tuple(part for part in self.parts if isinstance(part, Call))


class ToolSchema(msgspec.Struct, frozen=True):
    """A tool as it is shown to the model."""

    name: str
    description: str
    parameters: msgspec.Raw
    """A JSON Schema of an object."""


class Parameters(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request says beside its messages. None is left to the provider."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    thinking: bool = False
    """Ask for much thought: reasoning effort high."""
    stream: bool = True


class Window(NamedTuple):
    """What a request shows to the model."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSchema]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def message_bytes(message: Message) -> bytes:
    """Return the bytes under whose sha256 a message is kept."""
    return _encode(message)


def message_of(content: bytes) -> Message:
    """Return the message that such bytes are."""
    return _decode(content)
