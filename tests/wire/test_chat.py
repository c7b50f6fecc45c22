"""Chat completions: what is written, and how servers differ in what they answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from wire_server import received

from ledger.wire.chat import PROTOCOL
from ledger.wire.conversation import Call, Message, Opaque, Parameters, Result, Text, ToolSchema, Window
from ledger.wire.protocols import Answer
from ledger.wire.takes import Takes, takes

TOOL = ToolSchema("grep", "Search.", msgspec.Raw(b'{"type":"object","properties":{}}'))
ASKED = Message("user", (Text("Hi."),))
USUAL = Takes()


def body(*messages: Message, takes: Takes = USUAL, tools: bool = True, model: str = "m", **more: Any) -> dict[str, Any]:
    window = Window("Be brief.", messages or (ASKED,), [TOOL] if tools else [])
    found = msgspec.json.decode(PROTOCOL.body(model, window, Parameters(**more), takes=takes))
    assert isinstance(found, dict)
    return found


def streamed(*chunks: dict[str, Any], done: bool = True) -> Answer:
    frames = [b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks]
    answer = received("openai-chat", [*frames, b"data: [DONE]\n\n"] if done else frames).answer
    assert answer is not None
    return answer


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"function": function, **more}


def called(*groups: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of the calls of a stream with these `tool_calls`, one list a chunk."""
    answer = streamed(*(delta(tool_calls=group) for group in groups), delta("tool_calls"))
    assert answer.cut == "" and answer.message is not None
    return [(call.id, call.name, call.arguments) for call in answer.message.calls]


def test_a_request() -> None:
    """LOOP-13, OBS-10: the parts of a request; usage is always asked for where it streams, and only there."""
    found = body()
    assert found["messages"][0] == {"role": "system", "content": "Be brief."}
    assert found["tools"][0]["function"] == {"name": "grep", "description": "Search.", "parameters": {
        "type": "object", "properties": {}}}  # fmt: skip
    assert (found["stream"], found["stream_options"]) == (True, {"include_usage": True})
    assert not {"max_tokens", "max_completion_tokens", "temperature", "reasoning_effort"} & set(found)
    whole = body(stream=False, tools=False)
    assert not {"stream", "stream_options", "tools"} & set(whole)


def test_what_the_model_takes() -> None:
    """LOOP-13: limit, temperature and effort are sent under their names, and only where the model takes them."""
    asked = {"max_output_tokens": 9, "temperature": 0.5, "thinking": True}
    usual = body(**asked)
    assert (usual["max_tokens"], usual["temperature"], usual["reasoning_effort"]) == (9, 0.5, "high")
    for model, tools, effort in [
        ("o3", True, "high"), ("gpt-5", True, "high"), ("gpt-5.4", True, None), ("gpt-5.4", False, "high"),
        ("gpt-5.6-sol", True, "none"), ("gpt-5.6", False, "high"), ("gpt-4o", True, None),
    ]:  # fmt: skip
        found = body(takes=takes("openai", model, "openai-chat", None), model=model, tools=tools, **asked)
        assert found["max_completion_tokens"] == 9 and "max_tokens" not in found
        assert ("temperature" in found) is (model == "gpt-4o")
        assert found.get("reasoning_effort") == effort, model
    unasked = body(takes=takes("openai", "gpt-5.6", "openai-chat", None))
    assert unasked["reasoning_effort"] == "none"  # beside tools the model answers 400 to anything else, and to silence


def test_the_same_window_gives_the_same_bytes() -> None:
    """OBS-49: a request can be made again from its parts, by another process too."""
    from ledger.wire.chat import Chat

    messages = [
        ASKED,
        Message("assistant", (Text("Yes."), Call("a", "grep", "{}"))),
        Message("tool", (Result("a", "grep", "x"),)),
    ]
    window, parameters = Window("s", messages, [TOOL]), Parameters(max_output_tokens=5)
    first = PROTOCOL.body("m", window, parameters, takes=Takes())
    assert PROTOCOL.body("m", window, parameters, takes=Takes()) == first
    copied = msgspec.msgpack.decode(msgspec.msgpack.encode(messages[:1]), type=list[Message])
    assert Chat().body("m", Window("s", [*copied, *messages[1:]], [TOOL]), parameters, takes=Takes()) == first


def test_a_conversation_with_calls() -> None:
    """LOOP-13: calls keep their order and results; a message that says nothing is left out."""
    found = body(
        ASKED,
        Message("assistant", (Call("a", "grep", "{oops"), Call("b", "grep", ""))),
        Message("tool", (Result("a", "grep", "no JSON", is_error=True),)),
        Message("tool", (Result("b", "grep", "2"),)),
        Message("assistant", (Opaque("anthropic", msgspec.Raw(b'{"type":"thinking"}')),)),
    )["messages"][2:]
    assert [one["role"] for one in found] == ["assistant", "tool", "tool"]
    assert [call["function"]["arguments"] for call in found[0]["tool_calls"]] == ["{oops", "{}"]
    assert found[0]["content"] == "" and [one["tool_call_id"] for one in found[1:]] == ["a", "b"]


def test_thoughts_go_back_to_the_model_that_had_them() -> None:
    """LOOP-20: between calls they go back; behind an answer, to another model and to who refuses them they do not."""
    thought = Opaque("openai-chat", msgspec.Raw(b'{"reasoning_content":"Hm."}'), "r1")
    with_call = Message("assistant", (thought, Call("a", "grep", "{}")))
    result = Message("tool", (Result("a", "grep", "x"),))
    for message, model, given, expected in [
        (with_call, "r1", Takes(), True), (with_call, "other", Takes(), False),
        (with_call, "r1", Takes(thoughts=False), False),
        (Message("assistant", (thought, Text("A"))), "r1", Takes(), False),
    ]:  # fmt: skip
        assert (
            "reasoning_content" in body(ASKED, message, result, model=model, takes=given)["messages"][2]
        ) is expected


def test_ids_of_calls_are_fitted() -> None:
    """LOOP-20: what another server named too long, or Mistral does not take, gets an id that fits, both times."""
    long = "functions.grep:0/" + "x" * 60
    messages = [ASKED, Message("assistant", (Call(long, "grep", "{}"),)), Message("tool", (Result(long, "grep", "x"),))]
    for given, size in ((Takes(), 37), (takes("mistral", "m", "openai-chat", None), 9)):
        call, result = body(*messages, takes=given)["messages"][2:]
        assert call["tool_calls"][0]["id"] == result["tool_call_id"] and len(result["tool_call_id"]) == size


CALLS: dict[str, tuple[list[list[dict[str, Any]]], list[tuple[str, str, str]]]] = {
    "OpenAI: two at once, interleaved": (
        [[piece("f", "", index=0, id="a")], [piece("g", "", index=1, id="b")],
         [piece(None, '{"x"', index=0), piece(None, "{", index=1)],
         [piece(None, ":1}", index=0), piece(None, "}", index=1)]],
        [("a", "f", '{"x":1}'), ("b", "g", "{}")],
    ),
    "whole in one chunk": (
        [[piece("f", '{"x":1}', index=0, id="a"), piece("g", "{}", index=1, id="b")]],
        [("a", "f", '{"x":1}'), ("b", "g", "{}")],
    ),
    "Ollama: arguments as an object": ([[piece("f", {"x": 1}, index=0, id="a")]], [("a", "f", '{"x":1}')]),
    "no index, with ids": (
        [[piece("f", "{", id="a")], [piece(None, "}", id="a")], [piece("f", "{}", id="b")]],
        [("a", "f", "{}"), ("b", "f", "{}")],
    ),
    "no index, no ids": (
        [[piece("f", '{"x"')], [piece(None, ":1}")], [piece("f", '{"x":2}')]],
        [("call_0", "f", '{"x":1}'), ("call_1", "f", '{"x":2}')],
    ),
    "every call counted as 0": (
        [[piece("f", '{"x":1}', index=0, id="a")], [piece("f", '{"x":2}', index=0, id="b")]],
        [("a", "f", '{"x":1}'), ("b", "f", '{"x":2}')],
    ),
    "a new id for every piece": (
        [[piece("f", "{", index=0, id="a")], [piece(None, "}", index=0, id="b")]], [("a", "f", "{}")],
    ),
    "name and id again in every piece": (
        [[piece("f", '{"x"', index=0, id="a")], [piece("f", ":1}", index=0, id="a")],
         [piece("f", "", index=0, id="a")]],
        [("a", "f", '{"x":1}')],
    ),
    "two calls with one id": (
        [[piece("f", "{}", index=0, id="a")], [piece("g", "{}", index=1, id="a")]],
        [("a", "f", "{}"), ("a", "g", "{}")],
    ),
    "no arguments at all": ([[piece("f", index=0, id="a")]], [("a", "f", "{}")]),
    "what is no JSON is kept as it is": ([[piece("f", "{oops", index=0, id="a")]], [("a", "f", "{oops")]),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_calls_out_of_pieces(case: str) -> None:
    """LOOP-08: however a server divides and names its calls, they come out whole and in order."""
    groups, expected = CALLS[case]
    assert called(*groups) == expected


def test_thinking_under_its_names() -> None:
    """OBS-05: `reasoning_content`, `reasoning`, both with one text, and a part of a list are thinking, once."""
    for chunk in (
        {"reasoning_content": "Hm."}, {"reasoning": "Hm."}, {"reasoning": "Hm.", "reasoning_content": "Hm."},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
    ):  # fmt: skip
        answer = streamed(delta(**chunk), delta("stop", content="A"))
        assert answer.message is not None and answer.message.text == "A"
        opaque = answer.message.parts[0]
        assert isinstance(opaque, Opaque) and b"Hm." in bytes(opaque.data) and bytes(opaque.data).count(b"Hm.") == 1
        assert opaque.model == "m"


def test_reasoning_details_go_back_whole() -> None:
    """LOOP-20: OpenRouter's signed pieces are joined by index, as it wants them back."""
    parts = [
        {"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm"}]},
        {"reasoning": "m.", "reasoning_details": [{"index": 0, "text": "m.", "signature": "s"}]},
    ]
    answer = streamed(*(delta(**part) for part in parts), delta("stop", content="A"))
    assert answer.message is not None and isinstance(answer.message.parts[0], Opaque)
    assert msgspec.json.decode(answer.message.parts[0].data) == {
        "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hmm.", "signature": "s"}]
    }


def test_where_usage_stands() -> None:
    """OBS-10, OBS-13: in a last chunk, in the choice, under `x_groq`; null says nothing."""
    used = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    in_choice = delta("stop", content="A")
    in_choice["choices"][0]["usage"] = used
    for chunks, places in [
        ([delta("stop") | {"usage": None}, {"choices": [], "usage": used}], ["usage"]),
        ([in_choice], ["choices.usage"]),
        ([delta("stop") | {"usage": used, "x_groq": {"usage": used}}], ["usage", "x_groq.usage"]),
        ([delta("stop")], []),
    ]:
        answer = streamed(*chunks)
        assert [frame["at"] for frame in answer.usage] == places and answer.cut == ""
        assert all(frame["usage"] == used for frame in answer.usage)


ERRORS = [
    ({"error": {"message": "Busy.", "code": 502}}, "Busy.", 502),
    ({"error": {"message": "Busy.", "code": "rate_limit_exceeded"}}, "Busy.", 429),
    ({"error": {"message": "No.", "type": "invalid_request_error", "code": None}}, "No.", 400),
    ({"error": "Busy."}, "Busy.", 0),
    ({"error": {"odd": 1}}, '{"odd":1}', 0),
]


@pytest.mark.parametrize(("frame", "text", "status"), ERRORS)
def test_an_error_inside_a_200(frame: dict[str, Any], text: str, status: int) -> None:
    """OBS-05, LOOP-14: an error frame is a cut with what came before it; alone in a whole body it is a failure."""
    answer = streamed(delta(content="So far"), frame, done=False)
    assert (answer.cut, answer.error, answer.error_status) == ("error_frame", text, status)
    assert answer.message is not None and answer.message.text == "So far"
    alone = received("openai-chat", [msgspec.json.encode(frame)], stream=False)
    assert (alone.outcome, alone.status, text.rstrip(".") in alone.error) == ("failed", 200, True)
    assert alone.retryable is (status != 400)


def test_an_error_as_finish_reason() -> None:
    """OBS-05: OpenRouter's finish reason `error` is no proper end; usage and id in its chunk are kept."""
    last = delta("error", content="") | {"error": {"code": 502, "message": "x"}, "usage": {"prompt_tokens": 1}}
    answer = streamed(delta(content="A"), last)
    assert (answer.cut, answer.error_status, len(answer.usage)) == ("error_frame", 502, 1)


def test_a_whole_response() -> None:
    """OBS-05: text, calls and usage of a response that is not streamed; calls may all lack id and index."""
    message = {"role": "assistant", "content": "A", "tool_calls": [piece("f", {"x": 1}), piece("f", '{"x":2}')]}
    content = {
        "id": "c",
        "model": "m-1",
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"a": 1},
    }
    done = received("openai-chat", [b"\n\n", msgspec.json.encode(content)], stream=False)
    answer = done.answer
    assert (
        answer is not None and answer.message is not None and (done.outcome, done.reason) == ("answered", "tool_calls")
    )
    assert [call.arguments for call in answer.message.calls] == ['{"x":1}', '{"x":2}'] and len(answer.usage) == 1


def test_a_whole_response_where_a_stream_was_asked() -> None:
    """OBS-05: what comes is told by how it begins, not by what its header says."""
    content = msgspec.json.encode({"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}]})
    frames = [b"data: " + msgspec.json.encode(delta("stop", content="A")) + b"\n\n", b"data: [DONE]\n\n"]
    for kind in ("text/event-stream", "application/json", "text/plain", "text/html"):
        for pieces in ([content], frames, [b"da", b"ta: " + frames[0][6:], frames[1]]):
            assert received("openai-chat", pieces, headers={"content-type": kind}).outcome == "answered"
