"""Anthropic's messages: what is written, and what is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from wire_server import ANTHROPIC, received

from agent.rehearsal.strict import complaints
from ledger.wire.conversation import Call, Message, Opaque, Parameters, Result, Text, ToolSchema, Window
from ledger.wire.messages import PROTOCOL
from ledger.wire.takes import Takes, takes

TOOL = ToolSchema("grep", "Search.", msgspec.Raw(b'{"type":"object","properties":{}}'))
ASKED = Message("user", (Text("Hi."),))
USUAL = Takes(8192)
THOUGHT = Opaque("anthropic", msgspec.Raw(b'{"type":"thinking","thinking":"Hm.","signature":"c2ln"}'), "m")
RESULT = Message("tool", (Result("a", "grep", "x"),))


def body(*messages: Message, takes: Takes = USUAL, model: str = "m", **more: Any) -> dict[str, Any]:
    given = PROTOCOL.body(model, Window("Be brief.", messages or (ASKED,), [TOOL]), Parameters(**more), takes=takes)
    found = msgspec.json.decode(given)
    assert complaints("anthropic", found) == []
    return dict(found)


def test_a_request() -> None:
    """LOOP-13: a limit always, the system prompt apart, tools under their names; the version in the headers."""
    found = body()
    assert (found["system"], found["max_tokens"], found["stream"]) == ("Be brief.", 8192, True)
    assert found["tools"][0]["input_schema"] == {"type": "object", "properties": {}}
    assert body(max_output_tokens=5)["max_tokens"] == 5 and "stream" not in body(stream=False)
    assert PROTOCOL.headers("k")["x-api-key"] == "k" and "x-api-key" not in PROTOCOL.headers("")
    assert PROTOCOL.url("https://a/") == "https://a/v1/messages"


def test_results_stand_in_one_user_message() -> None:
    """LOOP-13: roles alternate: the results of a batch, then the next prompt, are one message, in order."""
    found = body(
        ASKED, Message("assistant", (Text("Two."), Call("a", "grep", '{"x":1}'), Call("b", "grep", "{oops"))), RESULT,
        Message("tool", (Result("b", "grep", "no JSON", is_error=True),)), Message("user", (Text("And?"),)),
    )["messages"]  # fmt: skip
    assert [one["role"] for one in found] == ["user", "assistant", "user"]
    assert [block.get("input") for block in found[1]["content"]] == [None, {"x": 1}, {}]
    assert [block["type"] for block in found[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert found[2]["content"][1] == {"type": "tool_result", "tool_use_id": "b", "content": "no JSON", "is_error": True}


def test_blank_texts_and_strange_ids() -> None:
    """LOOP-13, LOOP-20: a blank text is no block, and an id of another protocol is written as this one takes it."""
    odd = "functions.grep:0"
    found = body(
        ASKED, Message("assistant", (Text(" \n"),)), Message("user", (Text("More."),)),
        Message("assistant", (Text("\n"), Call(odd, "grep", "[]"))), Message("tool", (Result(odd, "grep", ""),)),
    )["messages"]  # fmt: skip
    assert [one["role"] for one in found] == ["user", "assistant", "user"]
    assert found[1]["content"][0]["id"] == found[2]["content"][0]["tool_use_id"] != odd


def test_signed_thinking_goes_back_as_it_was() -> None:
    """LOOP-20: to the model that it came from, and to no other; unsigned thinking to nobody."""
    made = Message("assistant", (THOUGHT, Call("a", "grep", "{}")))
    assert body(ASKED, made, RESULT)["messages"][1]["content"][0] == msgspec.json.decode(THOUGHT.data)
    assert body(ASKED, made, RESULT, model="other")["messages"][1]["content"][0]["type"] == "tool_use"
    unsigned = Opaque("anthropic", msgspec.Raw(b'{"type":"thinking","thinking":"Hm.","signature":""}'), "m")
    other = Opaque("openai-chat", msgspec.Raw(b'{"reasoning_content":"Hm."}'), "m")
    kept = body(ASKED, Message("assistant", (unsigned, other, Call("a", "grep", "{}"))), RESULT)["messages"][1][
        "content"
    ]
    assert [block["type"] for block in kept] == ["tool_use"]


def test_how_thought_is_asked_for() -> None:
    """LOOP-13: by a budget within the limit, or adaptively; without a temperature, and not of who does not think."""
    asked = {"thinking": True, "temperature": 0.5}
    budget = body(max_output_tokens=8000, **asked)
    assert budget["thinking"] == {"type": "enabled", "budget_tokens": 6000} and "temperature" not in budget
    small = body(max_output_tokens=1000, **asked)
    assert "thinking" not in small and small["temperature"] == 0.5
    adaptive = body(takes=takes("anthropic", "claude-opus-4-7", "anthropic", 128_000), **asked)
    assert adaptive["thinking"] == {"type": "adaptive"} and adaptive["output_config"] == {"effort": "high"}
    assert "temperature" not in body(takes=takes("anthropic", "claude-opus-5", "anthropic", None), temperature=0.5)
    assert "thinking" not in body(takes=takes("anthropic", "claude-3-5-sonnet", "anthropic", None), thinking=True)


@pytest.mark.parametrize(
    ("made", "model", "expected"),
    [
        (Message("assistant", (THOUGHT, Call("a", "grep", "{}"))), "m", True),
        (Message("assistant", (THOUGHT, Call("a", "grep", "{}"))), "other", False),
        (Message("assistant", (Text("A"), Call("a", "grep", "{}"))), "m", False),
    ],
)
def test_no_budget_amid_calls_without_thinking(made: Message, model: str, expected: bool) -> None:
    """LOOP-20: a strict endpoint refuses it: after a fallback, or where thinking was switched on amid a turn."""
    for more in ([], [Message("user", (Text("And?"),))]):
        assert ("thinking" in body(ASKED, made, RESULT, *more, model=model, thinking=True)) is expected


def test_what_comes_goes_back() -> None:
    """OBS-05: an answer that is read is written again without a complaint, thinking and all."""
    answer = received("anthropic", ANTHROPIC).answer
    assert answer is not None and answer.message is not None
    found = body(ASKED, answer.message, RESULT, thinking=True)
    assert found["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm, ", "signature": "c2ln"},
        {"type": "text", "text": "Grüße an 🐈."},
        {"type": "tool_use", "id": "a", "name": "grep", "input": {"x": 1}},
    ]


def test_a_whole_response() -> None:
    """OBS-05: blocks, usage and stop reason; what this program does not know is kept as it is."""
    content = {
        "type": "message", "id": "m1", "model": "m-1", "error": None, "stop_reason": "end_turn",
        "content": [{"type": "redacted_thinking", "data": "x"},
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "text", "text": "A"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "service_tier": "batch"},
    }  # fmt: skip
    deltas: list[Any] = []
    done = received("anthropic", [msgspec.json.encode(content)], stream=False, deltas=deltas)
    answer = done.answer
    assert answer is not None and answer.message is not None and (done.outcome, done.reason) == ("answered", "end_turn")
    assert [type(part) for part in answer.message.parts] == [Opaque, Opaque, Text, Call]
    assert answer.message.calls[0].arguments == '{"x":1}' and answer.tier == "batch"
    assert answer.usage == ({"at": "usage", "usage": content["usage"], "frame": 1},)
    assert [tuple(one) for one in deltas] == [("thinking", "Hm."), ("text", "A"), ("call", '{"x":1}')]


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("overloaded_error", 529, True),
        ("api_error", 500, True),
        ("invalid_request_error", 400, False),
        ("new", 0, True),
    ],
)
def test_an_error_event(kind: str, status: int, retryable: bool) -> None:
    """OBS-05, LOOP-14: a cut with what came before it; whether it may pass is told by its type, not by its words."""
    frame = msgspec.json.encode({"type": "error", "error": {"type": kind, "message": "503 overloaded 401"}})
    done = received("anthropic", [*ANTHROPIC[:8], b"event: error\ndata: " + frame + b"\n\n"])
    answer = done.answer
    assert answer is not None and (done.outcome, done.reason, done.retryable) == ("cut", "error_frame", retryable)
    assert (answer.error_status, answer.error) == (status, "503 overloaded 401") and len(answer.usage) == 1
    assert answer.message is not None and answer.message.text == "Grüße an 🐈."
    alone = received("anthropic", [frame], stream=False)
    assert (alone.outcome, alone.retryable) == ("failed", retryable)


def test_blocks_that_nobody_knows() -> None:
    """OBS-05: a block of a kind that came later is kept as it was and goes back so, with what it was called with."""

    def event(**fields: Any) -> bytes:
        return b"data: " + msgspec.json.encode(fields) + b"\n\n"

    known = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "x", "deep": [1, None]}],
    }
    frames = [
        ANTHROPIC[0],
        event(type="content_block_start", index=0, content_block=known),
        event(type="content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"query":'}),
        event(type="content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": ' "cats"}'}),
        event(type="content_block_stop", index=0),
        event(type="content_block_start", index=1, content_block=found),
        event(type="content_block_start", index=2, content_block={"type": "text", "text": ""}),
        event(type="content_block_delta", index=2, delta={"type": "citations_delta", "citation": {"title": "Cats"}}),
        event(type="content_block_delta", index=2, delta={"type": "text_delta", "text": "Cats."}),
        event(type="an_event_of_tomorrow", index=3),
        *ANTHROPIC[-2:],
    ]
    answer = received("anthropic", frames).answer
    assert answer is not None and answer.message is not None and answer.cut == ""
    assert answer.message.text == "Cats." and answer.message.calls == ()
    shown = body(ASKED, answer.message, Message("user", (Text("And?"),)))["messages"][1]["content"]
    assert shown == [known | {"input": {"query": "cats"}}, found, {"type": "text", "text": "Cats."}]


def test_calls_stand_behind_all_else() -> None:
    """LOOP-03: a text that another protocol has behind a call stands before it here, where its result has to follow."""
    made = Message("assistant", (Call("a", "grep", "{}"), Text("Searching."), THOUGHT))
    kinds = [block["type"] for block in body(ASKED, made, RESULT)["messages"][1]["content"]]
    assert kinds == ["text", "thinking", "tool_use"]


def test_a_blank_system_prompt_is_none() -> None:
    """LOOP-13: the API refuses an empty one."""
    window = Window(" \n", [ASKED], [])
    assert "system" not in msgspec.json.decode(PROTOCOL.body("m", window, Parameters(), takes=USUAL))
