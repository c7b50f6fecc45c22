"""A stream is cut wherever it ends before its proper end, and what had arrived is kept."""

from __future__ import annotations

import random
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_server import QUICK, STREAMS, received

from ledger.wire.conversation import Call, Message, Opaque, Text
from ledger.wire.dialects import read
from ledger.wire.exchange import Exchange
from ledger.wire.protocols import Answer, Delta

NAMES = sorted(STREAMS)
ENDPOINTS = {"openai-chat": "/chat/completions", "anthropic": "/v1/messages"}
PROPER = {"openai-chat": {b"tool_calls", b"[DONE]"}, "anthropic": {b"message_stop"}}
TEXT = "Grüße an 🐈."


def whole(name: str) -> bytes:
    return b"".join(STREAMS[name])


@cache
def complete(name: str) -> Answer:
    answer = received(name, STREAMS[name]).answer
    assert answer is not None
    return answer


def shown(message: Message | None) -> tuple[str, str, str]:
    """Return text, thinking and arguments of what arrived."""
    if message is None:
        return "", "", ""
    thoughts = [msgspec.json.decode(part.data) for part in message.parts if isinstance(part, Opaque)]
    said = "".join(one.get("thinking", "") + one.get("reasoning_content", "") for one in thoughts)
    return message.text, said, "".join(call.arguments for call in message.calls if call.arguments != "{}")


def check_cut(name: str, done: Exchange) -> None:
    """What is cut holds a beginning of everything, and never more usage than there was."""
    answer, full = done.answer, complete(name)
    assert answer is not None and done.outcome == "cut" and done.retryable and done.reason, done.error
    assert all(b.startswith(a) for a, b in zip(shown(answer.message), shown(full.message), strict=True))
    counted = [[frame["usage"] for frame in one.usage] for one in (answer, full)]
    assert all(usage in counted[1] for usage in counted[0])
    assert done.error.startswith("server: ") and "\n" not in done.error


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_stream_is_answered(name: str) -> None:
    """OBS-05, OBS-10: text, signed thinking, the call, usage, ids, tier and finish reason of an answer."""
    done = received(name, STREAMS[name])
    answer = complete(name)
    assert (done.outcome, done.status, done.error, answer.cut) == ("answered", 200, "", "")
    assert done.reason == answer.finish == {"openai-chat": "tool_calls", "anthropic": "tool_use"}[name]
    assert (answer.response_id, answer.model) == ({"openai-chat": "c1", "anthropic": "m1"}[name], "m-1")
    assert answer.tier == {"openai-chat": "default", "anthropic": "standard"}[name]
    assert answer.message is not None
    kinds = [type(part) for part in answer.message.parts]
    assert kinds == [Opaque, Text, Call] and shown(answer.message) == (TEXT, "Hm, ", '{"x": 1}')
    assert answer.message.calls == (Call("a", "grep", '{"x": 1}'),)
    usage = read("", ENDPOINTS[name], list(answer.usage), stream=True)
    assert (usage.parts[0].usage.input_uncached, usage.parts[0].usage.output, usage.partial) == (11, 7, False)


@pytest.mark.parametrize("breaks", [False, True], ids=["ended", "broken"])
@pytest.mark.parametrize("name", NAMES)
def test_cut_at_every_frame(name: str, breaks: bool) -> None:
    """OBS-05: cut behind each frame, by an end or by a broken connection: text and usage so far are kept."""
    frames = STREAMS[name]
    for number in range(len(frames)):
        done = received(name, frames[:number], breaks=breaks)
        check_cut(name, done)
        if breaks:
            assert done.reason == "closed"


@pytest.mark.parametrize("name", NAMES)
def test_cut_at_every_byte(name: str) -> None:
    """OBS-05: a connection that breaks after any byte is a cut, until the stream has said that it ends."""
    content = whole(name)
    end = (
        content.index(b"[DONE]") + len(b"[DONE]")
        if name == "openai-chat"
        else content.index(b'{"type":"message_stop"}')
    )
    for offset in random.Random(7).sample(range(end), 150):
        check_cut(name, received(name, [content[:offset]], breaks=True))


@pytest.mark.parametrize("name", NAMES)
def test_what_breaks_behind_the_end_breaks_nothing(name: str) -> None:
    """OBS-05: a reset behind `[DONE]` or `message_stop` takes nothing from the answer."""
    done = received(name, STREAMS[name], breaks=True)
    assert (done.outcome, done.answer) == ("answered", complete(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_end_of_the_bytes_may_lack_its_empty_line(name: str) -> None:
    """OBS-05: the last event counts without the newlines behind it."""
    done = received(name, [whole(name).rstrip(b"\n")], headers={"content-type": "text/event-stream"})
    assert (done.outcome, done.answer) == ("answered", complete(name))


def test_without_done_it_is_cut() -> None:
    """OBS-05: a finish reason and no `[DONE]` is cut, whether or not the framing tells that the body ended."""
    frames = STREAMS["openai-chat"][:-1]
    for more in ({}, {"headers": {"content-type": "text/event-stream"}}):
        done = received("openai-chat", frames, **more)
        assert (done.outcome, done.reason) == ("cut", "no_done")


@pytest.mark.parametrize("name", NAMES)
def test_an_end_without_a_reason_is_none(name: str) -> None:
    """OBS-05: `[DONE]` and `message_stop` alone are no proper end."""
    mark = {"openai-chat": b'"finish_reason"', "anthropic": b'"message_delta"'}[name]
    done = received(name, [frame for frame in STREAMS[name] if mark not in frame])
    assert (done.outcome, done.reason) == ("cut", "no_finish")
    check_cut(name, done)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_where_bytes_are_divided_makes_no_difference(name: str, data: st.DataObject) -> None:
    """OBS-05: any division of the bytes gives the same answer and the same pieces to whoever listens."""
    content = data.draw(
        st.sampled_from([whole(name), whole(name).replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + whole(name)])
    )
    places = sorted(data.draw(st.sets(st.integers(0, len(content)), max_size=40)))
    pieces = [content[a:b] for a, b in zip([0, *places], [*places, len(content)], strict=True)]
    heard: list[Delta] = []
    done = received(name, pieces, deltas=heard)
    assert done.answer == complete(name)
    assert "".join(one.text for one in heard if one.kind == "text") == TEXT
    assert "".join(one.text for one in heard if one.kind == "call") == '{"x": 1}'


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(noise=st.binary(min_size=1, max_size=8), data=st.data())
def test_noise_never_fails_and_divides_alike(name: str, noise: bytes, data: st.DataObject) -> None:
    """OBS-05: bytes that do not belong there end in an outcome, the same however they are divided."""
    content = whole(name)
    place = data.draw(st.integers(0, len(content)))
    content = content[:place] + noise + content[place:]
    middle = data.draw(st.integers(0, len(content)))
    one, other = received(name, [content]), received(name, [content[:middle], content[middle:]])
    assert one.outcome in ("answered", "cut", "failed")
    assert (one.outcome, one.reason, one.error, one.answer) == (other.outcome, other.reason, other.error, other.answer)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "error", "tool_use", "text_delta"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
        "type", "choices", "delta", "content", "tool_calls", "function", "index", "id", "usage", "error", "message",
        "content_block", "finish_reason", "name", "arguments", "code", "reasoning_details",
    ]), inner, max_size=4), max_leaves=12,
))  # fmt: skip
def test_json_of_any_shape_is_read(name: str, shape: object) -> None:
    """OBS-05: an endpoint that sends JSON of another shape gets an outcome, never an exception."""
    for kind in ("message_start", "content_block_start", "content_block_delta", "message_delta"):
        given_type = {**shape, "type": kind} if isinstance(shape, dict) else shape
        received(name, [b"data: " + msgspec.json.encode(given_type) + b"\n\n"])
    done = received(name, [msgspec.json.encode(shape)], stream=False)
    assert done.outcome in ("answered", "cut", "failed") and QUICK.max_bytes


@pytest.mark.parametrize("name", NAMES)
def test_invalid_utf8_is_a_cut(name: str) -> None:
    """OBS-05: a text with bytes that are no UTF-8 is not what was sent: partial, read on for its usage."""
    done = received(name, [whole(name).replace("ü".encode(), b"\xff")])
    answer = done.answer
    assert answer is not None and (done.outcome, done.reason, answer.cut) == ("cut", "not_utf8", "not_utf8")
    assert answer.message is not None and answer.message.text == TEXT.replace("ü", "\ufffd")
    assert answer.usage == complete(name).usage


@pytest.mark.parametrize("name", NAMES)
def test_usage_in_every_chunk_is_bounded(name: str) -> None:
    """OBS-13: a server that counts in each of many chunks does not swell the event; the last count is among them."""
    frames = STREAMS[name]
    if name == "openai-chat":
        many = [
            b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":%d}}\n\n' % n for n in range(5000)
        ]
    else:
        many = [b'data: {"type":"message_delta","delta":{},"usage":{"output_tokens":%d}}\n\n' % n for n in range(5000)]
    answer = received(name, [*frames[:3], *many, *frames[3:]], limits=QUICK._replace(max_bytes=1 << 20)).answer
    assert answer is not None and answer.cut == "" and len(answer.usage) == 32
    usage = read("", ENDPOINTS[name], list(answer.usage), stream=True)
    assert usage.parts[0].usage.output == 7 and usage.parts[0].usage.input_uncached == 11
