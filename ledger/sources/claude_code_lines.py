"""A line of Claude Code's session files as typed values; what does not fit its type is left out, never guessed."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.sources.reading import as_raw, loads_leniently

_NULL = msgspec.Raw(b"null")


class Content(msgspec.Struct):
    """A block of a message: text, a tool's call or its result."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    text: str | None = None
    tool_use_id: str | None = None
    input: msgspec.Raw = _NULL


class Message(msgspec.Struct):
    """What the API answered, or what was said to it."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: msgspec.Raw = _NULL
    content: str | list[Content] | None = None


class Line(msgspec.Struct):
    """A whole line. Names are the client's; what may be large or of any type is not decoded."""

    type: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    timestamp: str | None = None
    interruptedMessageId: str | None = None
    sessionId: str | None = None
    requestId: str | None = None
    agentId: str | None = None
    attributionAgent: str | None = None
    isSidechain: bool | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    isApiErrorMessage: bool | None = None
    apiErrorStatus: msgspec.Raw = _NULL
    costUSD: msgspec.Raw = _NULL
    cwd: str | None = None
    gitBranch: str | None = None
    version: str | None = None
    message: Message | None = None
    data: msgspec.Raw = _NULL
    toolUseResult: msgspec.Raw = _NULL


_decode = msgspec.json.Decoder(Line).decode
_decode_any = msgspec.json.Decoder().decode


def parse_line(raw: bytes) -> Line | None:
    """Return a line; None for what is no JSON object.

    The fast decoder takes the client's own types. What it refuses (another type somewhere, a lone surrogate)
    is read by the standard library, field by field.
    """
    try:
        return _decode(raw)
    except msgspec.MsgspecError:
        found = loads_leniently(raw)
        return None if found is None else lenient_line(found)


def given(raw: msgspec.Raw) -> bool:
    """Return whether a field stands in the line and is not null."""
    return raw is not _NULL and bytes(raw) != b"null"


def compact(found: bytes) -> bytes:
    """Return a usage object without the spaces and escapes that JSON allows; equal ones mostly become equal bytes."""
    if b" " not in found and b"\n" not in found and b"\t" not in found and b"\\" not in found:
        return found
    return msgspec.json.encode(_decode_any(found))


def is_number(raw: msgspec.Raw) -> bool:
    """Return whether a field is a number that is not negative."""
    return raw is not _NULL and bytes(raw)[:1].isdigit()


def http_status(raw: msgspec.Raw) -> int:
    """Return a field as an HTTP status, 0 where it is none."""
    text = bytes(raw).decode()
    return int(text) if text.isdigit() and len(text) == 3 else 0


def field_of(raw: msgspec.Raw, name: str) -> str:
    """Return a text field of an object that was not decoded, empty where there is none."""
    found = bytes(raw)
    if name.encode() not in found and b"\\u00" not in found:
        return ""
    fields = loads_leniently(found)
    return word(fields.get(name)) if fields else ""


def word(value: object) -> str:
    """Return a short text, empty for anything else."""
    return value if isinstance(value, str) and len(value) <= 256 else ""


def is_result(content: Any) -> bool:
    """Return whether a message holds a tool's result."""
    return isinstance(content, list) and any(block.type == "tool_result" for block in content)


def text_of_content(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or () if block.text)


_TEXTS = (
    "type", "uuid", "parentUuid", "timestamp", "interruptedMessageId", "sessionId", "requestId", "agentId",
    "attributionAgent", "cwd", "gitBranch", "version",
)  # fmt: skip


def lenient_line(found: dict[str, Any]) -> Line:
    """Return the line of an object whose fields may have other types: what does not fit is left out."""
    line = Line()
    for name in _TEXTS:
        if isinstance(found.get(name), str):
            setattr(line, name, _valid(found[name]))
    for name in ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage"):
        if isinstance(found.get(name), bool):
            setattr(line, name, found[name])
    for name in ("apiErrorStatus", "costUSD", "data", "toolUseResult"):
        if found.get(name) is not None:
            setattr(line, name, as_raw(found[name]))
    message = found.get("message")
    if isinstance(message, dict):
        line.message = _lenient_message(message)
    return line


def _lenient_message(found: dict[str, Any]) -> Message:
    message = Message()
    for name in ("id", "model", "stop_reason"):
        if isinstance(found.get(name), str):
            setattr(message, name, _valid(found[name]))
    if isinstance(found.get("usage"), dict):
        message.usage = as_raw(found["usage"])
    content = found.get("content")
    if isinstance(content, str):
        message.content = content
    elif isinstance(content, list):
        message.content = [_lenient_block(block) for block in content if isinstance(block, dict)]
    return message


def _lenient_block(found: dict[str, Any]) -> Content:
    block = Content()
    for name in ("type", "id", "name", "text", "tool_use_id"):
        if isinstance(found.get(name), str):
            setattr(block, name, _valid(found[name]))
    if isinstance(found.get("input"), dict):
        block.input = as_raw(found["input"])
    return block


def _valid(text: str) -> str:
    """Return the text with lone surrogates replaced, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
