"""What a request shows of its conversation: where it stands, and the name that it keeps over retries and restarts."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


class Shown(NamedTuple):
    """What the choice of an answer depends on."""

    model: str
    stream: bool
    turn: int
    """How many user messages there are; results of tools are none."""
    position: int
    """How many assistant messages stand after the last user message."""
    session: str
    """Digest of the conversation up to the last user message: the same for every step of a turn."""
    last_result: str
    """The text of the last tool result, empty where there is none."""
    read_bytes: int
    """The size of all that the model reads."""
    known_bytes: int
    """The size of what the request before this one showed already, if there was one."""


def shown(protocol: str, body: dict[str, Any]) -> Shown:
    """Return what a well-formed request shows (`strict.complaints` finds nothing wrong with it)."""
    messages: list[dict[str, Any]] = body["messages"]
    is_user = _user_of_anthropic if protocol == "anthropic" else _user_of_chat
    spoken = [number for number, message in enumerate(messages) if is_user(message)]
    last = spoken[-1]
    answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    head = _encode([body.get("system"), body.get("tools")])
    sizes = [len(_encode(message)) for message in messages]
    opening = _encode([body.get("system"), messages[: last + 1]])
    return Shown(
        model=body["model"],
        stream=body.get("stream") is True,
        turn=len(spoken),
        position=sum(number > last for number in answers),
        session=hashlib.sha256(opening).hexdigest()[:24],
        last_result=_last_result(messages),
        read_bytes=len(head) + sum(sizes),
        known_bytes=len(head) + sum(sizes[: answers[-1]]) if answers else 0,
    )


def text_of(content: Any) -> str:
    """Return the text of a message's or a result's content, in either protocol."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or () if part.get("type") == "text")


def _user_of_chat(message: dict[str, Any]) -> bool:
    return bool(message["role"] == "user")


def _user_of_anthropic(message: dict[str, Any]) -> bool:
    """Tell whether a user said something: a message of the role that has results alone is the tools' message."""
    content = message["content"]
    return message["role"] == "user" and (
        isinstance(content, str) or any(block["type"] != "tool_result" for block in content)
    )


def _last_result(messages: list[dict[str, Any]]) -> str:
    for message in reversed(messages):
        if message["role"] == "tool":
            return text_of(message["content"])
        if message["role"] == "user" and isinstance(message["content"], list):
            results = [block for block in message["content"] if block["type"] == "tool_result"]
            if results:
                return text_of(results[-1].get("content"))
    return ""
