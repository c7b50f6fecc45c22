"""One answer of each kind of server, in the shape that it sends: the same text, call and counts come out of all.

Shapes: the servers' own documents and reports of their users (Ollama issues 7881 and 9092, llama.cpp's
`reasoning_content` and `timings`, vLLM's chunks, OpenRouter "Streaming", DeepSeek "Thinking mode", Groq's `x_groq`,
Mistral "Reasoning", Gemini "Thought signatures"). Ids, texts and numbers are made up.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from wire_server import received

from ledger.wire.chat import PROTOCOL
from ledger.wire.conversation import Message, Opaque, Parameters, Result, Text, ToolSchema, Window
from ledger.wire.dialects import read
from ledger.wire.protocols import Answer
from ledger.wire.takes import takes

TOOL = ToolSchema("grep", "Search.", msgspec.Raw(b'{"type":"object","properties":{}}'))
COUNTS = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice], **more}


def call(name: str | None, arguments: str | None, **more: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{"function": function, **more}]}


def counted(**more: Any) -> dict[str, Any]:
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": [], "usage": COUNTS | more}


SERVERS: dict[str, list[dict[str, Any] | str]] = {
    "OpenAI": [
        chunk({"role": "assistant", "content": "", "refusal": None}, usage=None, obfuscation="x"),
        chunk({"content": "Look"}, usage=None), chunk({"content": "ing."}, usage=None),
        chunk(call("grep", "", index=0, id="call_1", type="function"), usage=None),
        chunk(call(None, '{"x"', index=0)), chunk(call(None, ":1}", index=0)),
        chunk({}, "tool_calls", usage=None, service_tier="default"),
        counted(prompt_tokens_details={"cached_tokens": 4}, completion_tokens_details={"reasoning_tokens": 2}),
        "[DONE]",
    ],
    "Ollama": [
        chunk({"role": "assistant", "content": "", "reasoning": "Hm."}, system_fingerprint="fp_ollama"),
        chunk({"role": "assistant", "content": "Looking."}),
        chunk({"role": "assistant", "content": "", **call("grep", '{"x":1}', index=0, id="call_1", type="function")}),
        chunk({"role": "assistant", "content": ""}, "tool_calls"), counted(), "[DONE]",
    ],
    "Ollama of 2024": [
        chunk({"role": "assistant", "content": "Looking."}),
        chunk({"role": "assistant", "content": "", **call("grep", '{"x":1}', id="call_1", type="function")},
              "tool_calls"),
        counted(), "[DONE]",
    ],
    "llama.cpp": [
        chunk({"role": "assistant", "content": None}), chunk({"reasoning_content": "Hm."}),
        chunk({"content": "Looking."}),
        chunk(call("grep", "{", index=0, id="call_1", type="function")), chunk(call(None, '"x":1', index=0)),
        chunk(call(None, "}", index=0)), chunk({}, "tool_calls"),
        counted() | {"timings": {"cache_n": 7, "prompt_n": 4, "predicted_n": 7}}, "[DONE]",
    ],
    "vLLM, counting in every chunk": [
        chunk({"role": "assistant", "content": ""}, usage=COUNTS | {"completion_tokens": 0, "total_tokens": 11}),
        chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}, usage=COUNTS | {"completion_tokens": 2}),
        chunk({"content": "Looking."}, usage=COUNTS | {"completion_tokens": 4}),
        chunk(call("grep", None, index=0, id="chatcmpl-tool-1", type="function"), usage=COUNTS),
        chunk(call(None, '{"x":1}', index=0), usage=COUNTS),
        chunk({"content": ""}, "tool_calls", usage=COUNTS), counted(), "[DONE]",
    ],
    "OpenRouter": [
        ": OPENROUTER PROCESSING", ": OPENROUTER PROCESSING",
        chunk({"role": "assistant", "content": "", "reasoning": "Hm.", "reasoning_details": [
            {"type": "reasoning.text", "text": "Hm.", "format": "anthropic-claude-v1", "index": 0}]}, provider="A"),
        chunk({"role": "assistant", "content": "Looking."}, provider="A"),
        chunk({"content": None, **call("grep", '{"x":1}', index=0, id="toolu_1", type="function")}),
        chunk({"role": "assistant", "content": ""}, "tool_calls", native_finish_reason="tool_use"),
        chunk({"role": "assistant", "content": ""}, usage=COUNTS | {"cost": 0.5, "is_byok": False}), "[DONE]",
    ],
    "DeepSeek": [
        ": keep-alive", chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
        chunk({"content": None, "reasoning_content": "Hm."}), chunk({"content": "Looking.", "reasoning_content": None}),
        chunk(call("grep", "", index=0, id="call_00_1", type="function")), chunk(call(None, '{"x":1}', index=0)),
        chunk({"content": "", "reasoning_content": None}, "tool_calls",
              usage=COUNTS | {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 7}),
        "[DONE]",
    ],
    "Groq": [
        chunk({"role": "assistant", "content": None}, x_groq={"id": "req_1"}), chunk({"reasoning": "Hm."}),
        chunk({"content": "Looking."}), chunk(call("grep", '{"x":1}', index=0, id="call_1", type="function")),
        chunk({}, "tool_calls", x_groq={"id": "req_1", "usage": COUNTS | {"queue_time": 0.01}}), "[DONE]",
    ],
    "Mistral": [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}),
        chunk({"content": [{"type": "text", "text": "Looking."}]}),
        chunk({"content": "", **call("grep", '{"x": 1}', index=0, id="abcdefghi")}, "tool_calls", usage=COUNTS),
        "[DONE]",
    ],
    "Gemini": [
        chunk({"role": "assistant", "content": "Looking."}, usage=COUNTS | {"completion_tokens": 2}),
        chunk({"role": "assistant", **call("grep", '{"x":1}', id="f-1", type="function",
              extra_content={"google": {"thought_signature": "c2ln"}})}, usage=COUNTS),
        chunk({"role": "assistant"}, "stop", usage=COUNTS), "[DONE]",
    ],
    "one that leaves out all it can": [
        {"choices": [{"delta": {"content": "Looking."}}]}, {"choices": [{"delta": call("grep", '{"x":1}')}]},
        {"choices": [{"delta": {}, "finish_reason": "stop", "usage": COUNTS}]}, "[DONE]",
    ],
}  # fmt: skip


def answered(server: str) -> Answer:
    frames = [
        one
        if isinstance(one, str) and one.startswith(":")
        else "data: " + (one if isinstance(one, str) else _json(one))
        for one in SERVERS[server]
    ]
    done = received("openai-chat", [f"{frame}\n\n".encode() for frame in frames])
    assert done.outcome == "answered" and done.answer is not None, done.error
    return done.answer


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


@pytest.mark.parametrize("server", SERVERS)
def test_all_servers_say_the_same(server: str) -> None:
    """OBS-10, OBS-11, OBS-12, OBS-13: text, call, finish reason, tokens and the server's own total."""
    answer = answered(server)
    assert answer.message is not None and answer.message.text == "Looking."
    ((name, arguments),) = [(one.name, msgspec.json.decode(one.arguments)) for one in answer.message.calls]
    assert (name, arguments) == ("grep", {"x": 1}) and answer.message.calls[0].id
    assert answer.finish in ("tool_calls", "stop") and answer.cut == ""
    counts = read("", "/chat/completions", list(answer.usage), stream=True)
    (part,) = counts.parts
    cached = part.usage.cache_read or 0
    assert ((part.usage.input_uncached or 0) + cached, part.usage.output) == (11, 7)
    assert answer.usage[-1]["usage"]["total_tokens"] == 18 and not counts.partial


@pytest.mark.parametrize("server", SERVERS)
def test_what_a_server_said_it_gets_back(server: str) -> None:
    """LOOP-20: its thoughts between calls and what it signed, as it was; another model gets neither."""
    message = answered(server).message
    assert message is not None
    result = Message("tool", (Result(message.calls[0].id, "grep", "x"),))
    window = Window("", [Message("user", (Text("Hi."),)), message, result], [TOOL])

    def shown(model: str) -> dict[str, Any]:
        given = takes("127.0.0.1", model, "openai-chat", None)
        found = msgspec.json.decode(PROTOCOL.body(model, window, Parameters(), takes=given))["messages"][1]
        return dict(found)

    back, other = shown("m"), shown("another")
    expected = {
        "Ollama": {"reasoning": "Hm."}, "Groq": {"reasoning": "Hm."},
        "OpenRouter": {"reasoning_details": [
            {"type": "reasoning.text", "text": "Hm.", "format": "anthropic-claude-v1", "index": 0}]},
    }.get(server, {"reasoning_content": "Hm."})  # fmt: skip
    has_thought = any(isinstance(part, Opaque) and b"Hm." in bytes(part.data) for part in message.parts)
    assert has_thought is (server not in ("OpenAI", "Ollama of 2024", "Gemini", "one that leaves out all it can"))
    assert {name: back[name] for name in back if name.startswith("reasoning")} == (expected if has_thought else {})
    extra = back["tool_calls"][0].get("extra_content")
    assert extra == ({"google": {"thought_signature": "c2ln"}} if server == "Gemini" else None)
    assert set(other) == {"role", "content", "tool_calls"} and "extra_content" not in other["tool_calls"][0]


def test_signatures_stay_with_their_calls() -> None:
    """LOOP-04: of several calls those that were signed are; one may come by itself, behind its call."""
    signed = {"google": {"thought_signature": "c2ln"}}
    frames = [
        chunk(call("grep", '{"x":1}', id="a", type="function")),
        chunk({"tool_calls": [{"function": {"name": "grep", "arguments": '{"x":2}'}, "id": "b"}]}),
        chunk({"tool_calls": [{"extra_content": signed}]}),
        chunk({}, "stop"),
    ]
    done = received("openai-chat", [b"data: " + _json(one).encode() + b"\n\n" for one in frames])
    assert done.answer is not None and done.answer.message is not None
    message = done.answer.message
    results = [Message("tool", (Result(one, "grep", "x"),)) for one in "ab"]
    window = Window("", [Message("user", (Text("Hi."),)), message, *results], [TOOL])
    given = takes("google", "gemini-3-pro", "openai-chat", None)
    calls = msgspec.json.decode(PROTOCOL.body("m", window, Parameters(), takes=given))["messages"][1]["tool_calls"]
    assert [one.get("extra_content") for one in calls] == [None, signed]
    alone = received("openai-chat", [b"data: " + _json(one).encode() + b"\n\n" for one in frames[2:]])
    assert alone.answer is not None and (alone.answer.message is None or not alone.answer.message.calls)


@pytest.mark.parametrize(
    ("frame", "text", "status"),
    [
        ({"object": "error", "message": "Too long.", "type": "BadRequestError", "code": 400}, "Too long", 400),
        ({"error": {"object": "error", "message": "Too long.", "code": 400}}, "Too long", 400),
        ({"object": "Error", "message": {"detail": []}, "type": "invalid_request_error", "code": 3001}, "detail", 400),
    ],
)
def test_an_object_that_is_an_error(frame: dict[str, Any], text: str, status: int) -> None:
    """LOOP-14, OBS-14: vLLM and Mistral send the error itself: it is told, and not tried again as if cut by chance."""
    frames = [chunk({"content": "So far"}), frame]
    done = received(
        "openai-chat", [b"data: " + _json(one).encode() + b"\n\n" for one in frames] + [b"data: [DONE]\n\n"]
    )
    assert done.answer is not None and (done.outcome, done.reason, done.retryable) == ("cut", "error_frame", False)
    assert text in done.answer.error and text in done.error and done.answer.error_status == status
    assert "check --protocol" in done.error and "try again" not in done.error
