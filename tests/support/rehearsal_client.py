"""A client of the rehearsal by plain http.client: sends a body, and takes what comes until the line ends."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from agent.rehearsal.script import Script
from agent.rehearsal.server import Rehearsal

PATHS = {"openai-chat": "/v1/chat/completions", "anthropic": "/v1/messages"}


class Got(NamedTuple):
    """What came."""

    status: int
    headers: dict[str, str]
    raw: bytes
    broken: str
    """The kind of error that ended it, empty where it was complete."""

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[tuple[str, str]]:
        """The (event, data) of every server-sent event that came whole."""
        found = []
        for block in self.raw.decode(errors="replace").split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n"))
            found.append((fields.get("event", ""), fields["data"]))
        return found

    @property
    def objects(self) -> list[Any]:
        """The data of every event, decoded, `[DONE]` left out."""
        return [json.loads(data) for _, data in self.events if data != "[DONE]"]


def rehearsal(text: str, **options: Any) -> Rehearsal:
    """Return a server of a script's text, to be entered."""
    return Rehearsal(Script.parse(text), **options)


def body_of(protocol: str, messages: Sequence[Any], model: str = "rehearsed-1", **more: Any) -> dict[str, Any]:
    """Return the body of a request."""
    needed: dict[str, Any] = {"max_tokens": 1000} if protocol == "anthropic" else {}
    if any(isinstance(one.get("content"), list) for one in messages) and protocol == "anthropic":
        needed["tools"] = [{"name": "run_command", "input_schema": {"type": "object"}}]
    return {"model": model, "messages": list(messages)} | needed | more


def ask(
    served: Rehearsal | int, protocol: str, body: Any, timeout_s: float = 5, headers: dict[str, str] | None = None
) -> Got:
    """Send a body (bytes are sent as they are) to a rehearsal or a port, and read what comes."""
    port = served if isinstance(served, int) else served.port
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {"content-type": "application/json", "anthropic-version": "2023-06-01"} | (headers or {})
        try:
            line.request("POST", PATHS.get(protocol, protocol), content, own)
            answer = line.getresponse()
        except (OSError, http.client.HTTPException) as error:
            return Got(0, {}, b"", type(error).__name__)
        raw, broken = _read(answer)
        return Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, raw, broken)
    finally:
        line.close()


def _read(answer: http.client.HTTPResponse, most: int = 100_000) -> tuple[bytes, str]:
    """Read what comes; what came before the line broke is kept."""
    raw = b""
    try:
        while len(raw) < most:
            piece = answer.read1(4096)
            if not piece:
                # read1 takes a closed line for the end where there is a length: what is missing shows here.
                length = answer.getheader("content-length")
                return raw, "" if length is None or len(raw) == int(length) else "IncompleteRead"
            raw += piece
    except (OSError, http.client.HTTPException) as error:
        return raw, type(error).__name__
    return raw, "endless"


def user(text: str = "Do it.") -> dict[str, Any]:
    return {"role": "user", "content": text}


def with_result(protocol: str, answer: Any, result: str) -> list[dict[str, Any]]:
    """Return the messages that stand behind a whole answer whose calls are all answered with one text."""
    if protocol == "anthropic":
        blocks = answer["content"]
        uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": one, "content": result} for one in uses]
        return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    message = answer["choices"][0]["message"]
    kept = {name: message[name] for name in ("role", "content", "tool_calls") if name in message}
    calls = message.get("tool_calls", ())
    return [kept, *({"role": "tool", "tool_call_id": call["id"], "content": result} for call in calls)]


def said(protocol: str, answer: Any) -> str:
    """Return the text of a whole answer."""
    if protocol == "anthropic":
        return "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    return answer["choices"][0]["message"]["content"] or ""


def calls_of(protocol: str, answer: Any) -> list[tuple[str, str, Any]]:
    """Return (id, name, arguments) of the calls of a whole answer."""
    if protocol == "anthropic":
        uses = [block for block in answer["content"] if block["type"] == "tool_use"]
        return [(use["id"], use["name"], use["input"]) for use in uses]
    calls = answer["choices"][0]["message"].get("tool_calls", ())
    return [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


def whole_of(protocol: str, events: list[tuple[str, str]]) -> dict[str, Any]:
    """Return text, thinking, calls (name, arguments), finish, usage, model and id that a stream amounts to."""
    return (_whole_anthropic if protocol == "anthropic" else _whole_chat)([(e, d) for e, d in events if d != "[DONE]"])


def _whole_chat(events: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {"text": "", "thinking": "", "calls": [], "finish": None, "usage": None}
    for chunk in (json.loads(data) for _, data in events):
        found |= {"id": chunk["id"], "model": chunk["model"], "usage": chunk.get("usage") or found["usage"]}
        for choice in chunk["choices"]:
            delta = choice["delta"]
            found["text"] += delta.get("content") or ""
            found["thinking"] += delta.get("reasoning_content") or ""
            found["finish"] = choice["finish_reason"] or found["finish"]
            for piece in delta.get("tool_calls", ()):
                if "id" in piece:
                    found["calls"].append([piece["id"], piece["function"]["name"], ""])
                found["calls"][piece["index"]][2] += piece["function"]["arguments"]
    return found


def _whole_anthropic(events: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {"text": "", "thinking": "", "calls": [], "finish": None, "usage": {}}
    for name, event in ((name, json.loads(data)) for name, data in events):
        assert name == event["type"]
        delta = event.get("delta", {})
        if name == "message_start":
            start = event["message"]
            found |= {"id": start["id"], "model": start["model"], "usage": dict(start.get("usage", {}))}
        elif name == "message_delta":
            found["finish"] = delta["stop_reason"]
            found["usage"] |= event.get("usage", {})
        elif name == "content_block_start" and event["content_block"]["type"] == "tool_use":
            found["calls"].append([event["content_block"]["id"], event["content_block"]["name"], ""])
        elif name == "content_block_delta":
            found["text"] += delta.get("text", "")
            found["thinking"] += delta.get("thinking", "")
            if delta["type"] == "input_json_delta":
                found["calls"][-1][2] += delta["partial_json"]
    return found
