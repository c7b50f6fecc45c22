"""How OpenAI's chat completions answer.

Sources: the API reference, "The chat completion object", "The chat completion chunk object" and `stream_options`
(one chunk without choices before `[DONE]` has the usage, and every other chunk a null one); "Error codes". Reasoning
comes as `reasoning_content`, as DeepSeek, vLLM and llama.cpp send it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agent.rehearsal.said import Caching, Frame, Naming, Said, argument_pieces, frame, pieces
from agent.rehearsal.script import Counts

CALL_PREFIX = "call_"
_ERRORS = {
    400: ("invalid_request_error", None, "The request is malformed."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", "unsupported_country_region_territory", "This is not allowed."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    503: ("server_error", "overloaded", "The server is overloaded or not ready yet."),
}


def headers(naming: Naming) -> dict[str, str]:
    """Return the headers that name a response."""
    return {"x-request-id": naming.request_id, "openai-version": "2020-10-01", "openai-processing-ms": "1"}


def error(status: int, message: str, naming: Naming) -> bytes:
    """Return the body of an error; an empty message stands for the usual one of its status."""
    kind, code, usual = _ERRORS.get(status, ("server_error", None, "The server had an error."))
    return msgspec.json.encode({"error": {"message": message or usual, "type": kind, "param": None, "code": code}})


def error_frames(message: str, naming: Naming) -> list[Frame]:
    """Return an error as it comes inside a stream."""
    told = {"message": message, "type": "server_error", "param": None, "code": "server_error"}
    return [frame("error", {"error": told})]


def whole(said: Said, naming: Naming) -> dict[str, Any]:
    """Return the body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None, "refusal": None, "annotations": []}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said.finish}
    body = _head(said, naming, "chat.completion") | {"choices": [choice]}
    return body if said.usage is None else body | {"usage": _usage(said.usage)}


def caching(body: dict[str, Any]) -> Caching:
    """Return how prefixes of a request are cached."""
    return "automatic"


def frames(said: Said, naming: Naming, body: dict[str, Any]) -> list[Frame]:
    """Return the events of an answer that is streamed; with usage where the request's body asks for it."""
    with_usage = (body.get("stream_options") or {}).get("include_usage") is True
    head = _head(said, naming, "chat.completion.chunk")
    null_usage: dict[str, Any] = {"usage": None} if with_usage else {}

    def chunk(kind: str, delta: dict[str, Any], finish: str | None = None) -> Frame:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return frame(kind, head | {"choices": [choice]} | null_usage)

    opening = {"role": "assistant", "content": "" if said.text or not said.calls else None, "refusal": None}
    found = [chunk("start", opening)]
    found += [chunk("piece", {"reasoning_content": piece}) for piece in pieces(said.thinking)]
    found += [chunk("piece", {"content": piece}) for piece in pieces(said.text)]
    for index, call in enumerate(said.calls):
        named = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        found.append(chunk("piece", {"tool_calls": [named]}))
        found += [
            chunk("piece", {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in argument_pieces(call.arguments)
        ]
    found.append(chunk("finish", {}, said.finish))
    if with_usage and said.usage is not None:
        found.append(frame("usage", head | {"choices": [], "usage": _usage(said.usage)}))
    return [*found, Frame("done", b"[DONE]")]


def endless(said: Said, naming: Naming) -> tuple[list[Frame], Frame]:
    """Return how a stream without an end begins, and what it repeats."""
    text = frames(said._replace(text="and so on ", thinking="", calls=()), naming, {})
    return text[:1], text[1]


def _head(said: Said, naming: Naming, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{naming.response}",
        "object": kind,
        "created": naming.created,
        "model": said.model,
        "service_tier": "default",
        "system_fingerprint": "fp_rehearsal",
    }


def _usage(counts: Counts) -> dict[str, Any]:
    if counts.raw is not None:
        return counts.raw
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": counts.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
