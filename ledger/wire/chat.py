"""OpenAI chat completions, as OpenAI, Ollama, llama.cpp, vLLM, OpenRouter, DeepSeek, Groq and Mistral speak it.

Format: the API reference of OpenAI, "Create chat completion" and "Streaming". How the others differ, in what is read:
`chat_reading`; in what is written: `takes`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ledger.wire.call_ids import fitted
from ledger.wire.chat_reading import NAME, ChatReading
from ledger.wire.conversation import Message, Opaque, Parameters, Result, Window
from ledger.wire.fragments import Fragments, Piece, encode, joined, listed
from ledger.wire.protocols import Assembler, Protocol
from ledger.wire.takes import Takes


class _Style(NamedTuple):
    """What a message's JSON depends on, beside the message."""

    model: str
    thoughts: bool
    call_id: str


def _message(message: Message, style: _Style) -> dict[str, Any] | None:
    """Return a message as this protocol has it, None for one that says nothing."""
    if message.role == "tool":
        result = next(part for part in message.parts if isinstance(part, Result))
        return {"role": "tool", "tool_call_id": fitted(result.id, style.call_id), "content": result.text}
    if message.role == "user":
        return {"role": "user", "content": message.text}
    calls = [
        {
            "id": fitted(call.id, style.call_id),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments or "{}"},
        }
        for call in message.calls
    ]
    if not calls and not message.text:
        return None
    written: dict[str, Any] = {"role": "assistant", "content": message.text}
    if not calls:
        return written
    for part in message.parts if style.thoughts else ():
        # Who thinks between calls wants it back; behind an answer some refuse it, and so do other models.
        if isinstance(part, Opaque) and part.protocol == NAME and part.model in ("", style.model):
            fields = msgspec.json.decode(part.data)
            for call, extra in zip(calls, fields.pop("tool_calls", ()), strict=False):
                call |= extra
            written |= fields
    return written | {"tool_calls": calls}


class Chat(Protocol):
    """The protocol `openai-chat`."""

    name = NAME

    def __init__(self) -> None:
        self._fragments = Fragments(_message)

    def url(self, base_url: str) -> str:
        """Return `BASE/chat/completions`; the base has `/v1`."""
        return f"{base_url.rstrip('/')}/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request."""
        return {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})

    def body(self, model: str, window: Window, parameters: Parameters, *, takes: Takes) -> bytes:
        """Return the bytes of a request."""
        style = _Style(model, takes.thoughts, takes.call_id)
        system = [encode({"role": "system", "content": window.system})] if window.system.strip() else []
        messages = [fragment for one in window.messages if (fragment := self._fragments.of(one, style))]
        shown = listed((one,) for one in system + messages)
        fields: list[tuple[str, bytes | list[Piece]]] = [("model", encode(model)), ("messages", shown)]
        if window.tools:
            tools = [
                {
                    "type": "function",
                    "function": {"name": one.name, "description": one.description, "parameters": one.parameters},
                }
                for one in window.tools
            ]
            fields.append(("tools", encode(tools)))
        if parameters.max_output_tokens is not None:
            fields.append((takes.limit_name, encode(parameters.max_output_tokens)))
        if parameters.temperature is not None and takes.temperature:
            fields.append(("temperature", encode(parameters.temperature)))
        effort = _effort(parameters.thinking, bool(window.tools), takes)
        if effort:
            fields.append(("reasoning_effort", encode(effort)))
        if parameters.stream:
            fields.append(("stream", b"true"))
        if parameters.stream and takes.ask_usage:
            fields.append(("stream_options", b'{"include_usage":true}'))
        return joined(fields)

    def assembler(self, model: str = "") -> Assembler:
        """Return what reads the answer to one request."""
        return ChatReading(model)


def _effort(thinking: bool, tools: bool, takes: Takes) -> str:
    """Return the effort to ask for, empty where none is sent."""
    if not takes.effort:
        return ""
    if tools and takes.effort_beside_tools != "high":
        return takes.effort_beside_tools
    return "high" if thinking else ""


PROTOCOL = Chat()
