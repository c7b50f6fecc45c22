"""How Anthropic's messages answer.

Sources: the Messages API reference; "Streaming messages" (`message_start`, then content blocks, each with its start,
deltas and stop, then `message_delta` with the cumulative usage, then `message_stop`; pings anywhere; errors as events);
"Errors" (their types, the `request-id` header and the same id in the body); "Extended thinking" (signatures).
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

from agent.rehearsal.said import Caching, Frame, Naming, Said, SaidCall, argument_pieces, frame, pieces
from agent.rehearsal.script import Counts

CALL_PREFIX = "toolu_"
_ERRORS = {
    400: ("invalid_request_error", "The request is malformed."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low."),
    403: ("permission_error", "Your API key may not use this."),
    404: ("not_found_error", "model not found"),
    413: ("request_too_large", "The request is too large."),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
_FINISH = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def headers(naming: Naming) -> dict[str, str]:
    """Return the headers that name a response."""
    return {"request-id": naming.request_id, "anthropic-organization-id": "00000000-0000-4000-8000-000000000000"}


def error(status: int, message: str, naming: Naming) -> bytes:
    """Return the body of an error; an empty message stands for the usual one of its status."""
    kind, usual = _ERRORS.get(status, ("api_error", "Internal server error"))
    told = {"type": kind, "message": message or usual}
    return msgspec.json.encode({"type": "error", "error": told, "request_id": naming.request_id})


def error_frames(message: str, naming: Naming) -> list[Frame]:
    """Return an error as it comes inside a stream."""
    told = {"type": "overloaded_error", "message": message}
    return [frame("error", {"type": "error", "error": told, "request_id": naming.request_id}, "error")]


def signature(thinking: str) -> str:
    """Return what signs a thinking block: it must come back with the text that it was made for."""
    return base64.b64encode(hashlib.sha256(b"rehearsal " + thinking.encode()).digest()).decode()


def whole(said: Said, naming: Naming) -> dict[str, Any]:
    """Return the body of an answer that is not streamed. Arguments that are no JSON object come as they are."""
    blocks: list[dict[str, Any]] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": signature(said.thinking)})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)} for call in said.calls]
    body = _head(said, naming) | {"content": blocks, "stop_reason": _finish(said)}
    return body if said.usage is None else body | {"usage": _usage(said.usage)}


def caching(body: dict[str, Any]) -> Caching:
    """Return how prefixes of a request are cached: only where it has a `cache_control`."""
    return "marked" if _is_marked(body) else "none"


def frames(said: Said, naming: Naming, body: dict[str, Any]) -> list[Frame]:
    """Return the events of an answer that is streamed."""
    opening = _head(said, naming)
    if said.usage is not None:
        begun = _usage(said.usage)
        # The first frame of a stream reports the input, and of the output what is written by then.
        opening["usage"] = begun | {"output_tokens": min(1, said.usage.output)} if said.usage.raw is None else begun
    found = [frame("start", {"type": "message_start", "message": opening}, "message_start")]
    blocks = _blocks(said)
    for index, (opened, deltas) in enumerate(blocks):
        found.append(_event("content_block_start", index, content_block=opened))
        if index == 0:
            found.append(frame("piece", {"type": "ping"}, "ping"))
        found += [_event("content_block_delta", index, delta=delta) for delta in deltas]
        found.append(_event("content_block_stop", index))
    ending: dict[str, Any] = {
        "type": "message_delta",
        "delta": {"stop_reason": _finish(said), "stop_sequence": None},
    }
    if said.usage is not None:
        ending["usage"] = _cumulative(said.usage)
    found.append(frame("finish", ending, "message_delta"))
    return [*found, frame("done", {"type": "message_stop"}, "message_stop")]


def endless(said: Said, naming: Naming) -> tuple[list[Frame], Frame]:
    """Return how a stream without an end begins, and what it repeats."""
    text = frames(said._replace(text="and so on ", thinking="", calls=()), naming, {})
    return text[:3], text[3]


def _is_marked(body: dict[str, Any]) -> bool:
    """Look where a mark may stand: tools, system, messages, and at the top."""
    contents = [message["content"] for message in body["messages"]]
    lists = [body.get("tools"), body.get("system"), *contents]
    blocks = [block for blocks in lists if isinstance(blocks, list) for block in blocks]
    return any(one.get("cache_control") for one in (body, *blocks))


def _blocks(said: Said) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return each content block as it opens, with its deltas."""
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if said.thinking:
        thought = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(said.thinking)]
        signed = {"type": "signature_delta", "signature": signature(said.thinking)}
        found.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thought, signed]))
    if said.text:
        texts = [{"type": "text_delta", "text": piece} for piece in pieces(said.text)]
        found.append(({"type": "text", "text": ""}, texts))
    for call in said.calls:
        written = ["", *argument_pieces(call.arguments)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in written]
        found.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas))
    return found


def _event(kind: str, index: int, **fields: Any) -> Frame:
    return frame("piece", {"type": kind, "index": index} | fields, kind)


def _input(call: SaidCall) -> Any:
    try:
        return msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return call.arguments


def _finish(said: Said) -> str:
    return _FINISH.get(said.finish, said.finish)


def _head(said: Said, naming: Naming) -> dict[str, Any]:
    return {
        "id": f"msg_{naming.response}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(counts: Counts) -> dict[str, Any]:
    """Return the usage object: its input is what was neither read from the cache nor written to it."""
    if counts.raw is not None:
        return counts.raw
    return {
        "input_tokens": max(counts.input - counts.cache_read - counts.cache_write, 0),
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": counts.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": counts.output,
        "service_tier": "standard",
    }


def _cumulative(counts: Counts) -> dict[str, Any]:
    usage = _usage(counts)
    if counts.raw is not None:
        return usage
    return {name: value for name, value in usage.items() if name not in ("cache_creation", "service_tier")}
