"""A step made into an answer: its text, its calls with their ids, and its tokens. Pure, and in words of no protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from agent.rehearsal.script import Counts, Step
from agent.rehearsal.shown import Shown

_BYTES_A_TOKEN = 4
"""A usual ratio of English text; what matters is that equal sizes give equal counts."""
_CACHED_FROM, _CACHED_BY = 1024, 128
"""Prefixes are cached from 1,024 tokens on, in steps of 128, as OpenAI's guide to prompt caching says."""
_PIECES_OF_TEXT, _PIECES_OF_ARGUMENTS = 40, 8


class SaidCall(NamedTuple):
    """A tool call of an answer."""

    id: str
    name: str
    arguments: str


class Said(NamedTuple):
    """An answer."""

    model: str
    text: str
    thinking: str
    calls: tuple[SaidCall, ...]
    finish: str
    """In words of chat completions."""
    usage: Counts | None
    """None where the answer does not say."""


class Naming(NamedTuple):
    """What names one response, and when it was made."""

    request_id: str
    response: str
    """The part of the response's id that is its own."""
    created: int
    """Unix time, seconds."""


class Frame(NamedTuple):
    """One server-sent event."""

    kind: str
    """`start`, `piece`, `finish`, `usage`, `done`: what faults leave out is named so."""
    data: bytes
    event: str = ""

    @property
    def wire(self) -> bytes:
        """Its bytes, as both providers frame them: an event line where there is one, one data line, an empty line."""
        return (f"event: {self.event}\n".encode() if self.event else b"") + b"data: " + self.data + b"\n\n"


def frame(kind: str, data: dict[str, Any], event: str = "") -> Frame:
    """Return an event whose data is an object."""
    return Frame(kind, msgspec.json.encode(data), event)


Caching = Literal["automatic", "marked", "none"]
"""Whether the provider caches prefixes by itself, because the request marks them, or not at all."""


def say(step: Step, request: Shown, *, id_prefix: str, caching: Caching) -> Said:
    """Return the answer that a step gives to a request.

    The ids of calls are drawn from the conversation: a request that is made again gets the same ones, and no two
    steps of a conversation share one.
    """
    text = step.text + (request.last_result if step.echo else "")
    calls = tuple(
        SaidCall(call.id or f"{id_prefix}{_drawn(request, place)}", call.tool, call.text)
        for place, call in enumerate(step.calls)
    )
    return Said(
        model=step.answered_by or request.model,
        text=text,
        thinking=step.thinking,
        calls=calls,
        finish=step.finish or ("tool_calls" if calls else "stop"),
        usage=_usage(step, request, text, calls, caching),
    )


def _drawn(request: Shown, place: int) -> str:
    seed = f"{request.session} {request.position} {place}"
    return hashlib.sha256(seed.encode()).hexdigest()[:24]


def _usage(step: Step, request: Shown, text: str, calls: Sequence[SaidCall], caching: Caching) -> Counts | None:
    if isinstance(step.usage, Counts):
        return step.usage
    if step.usage == "missing":
        return None
    if step.usage == "zero":
        return Counts()
    read, known = max(_tokens(request.read_bytes), 1), _tokens(request.known_bytes)
    cached = known - known % _CACHED_BY if caching != "none" and known >= _CACHED_FROM else 0
    thought = _tokens(len(step.thinking.encode()))
    written = len(text.encode()) + sum(len(call.name) + len(call.arguments.encode()) for call in calls)
    return Counts(
        input=read,
        output=max(_tokens(written) + thought, 1),
        cache_read=cached,
        cache_write=read - cached if caching == "marked" and read >= _CACHED_FROM else 0,
        reasoning=thought,
    )


def _tokens(size_bytes: int) -> int:
    return -(-size_bytes // _BYTES_A_TOKEN)


def pieces(text: str) -> list[str]:
    """Return a text in the pieces in which it is streamed."""
    return _cut(text, 12, _PIECES_OF_TEXT)


def argument_pieces(arguments: str) -> list[str]:
    """Return arguments in the pieces in which they are streamed: they break anywhere, also within a word."""
    return _cut(arguments, 5, _PIECES_OF_ARGUMENTS)


def _cut(text: str, least: int, most: int) -> list[str]:
    size = max(least, -(-len(text) // most))
    return [text[start : start + size] for start in range(0, len(text), size)]
