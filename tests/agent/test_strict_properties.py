"""The strict endpoint over random conversations: the sound are taken, what lacks a piece is not (LOOP-03, LOOP-09)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.rehearsal.anthropic import signature
from agent.rehearsal.shown import shown
from agent.rehearsal.strict import complaints

WORDS = st.text(min_size=1, max_size=20).filter(lambda text: text.strip())
MAYBE = st.text(max_size=20)
# A turn: what the user says, the batches of calls that follow (text, number of calls, text of the results), the answer.
BATCHES = st.lists(st.tuples(MAYBE, st.integers(1, 4), MAYBE), max_size=4)
TURNS = st.lists(st.tuples(WORDS, BATCHES, WORDS), min_size=1, max_size=4)


def chat(turns: Any, *, open_turn: bool) -> dict[str, Any]:
    """Return a conversation in chat completions; the last turn is open where its answer is awaited."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
    for place, (asked, batches, answer) in enumerate(turns):
        messages.append({"role": "user", "content": asked})
        for number, (text, count, result) in enumerate(batches):
            ids = [f"call_{place}_{number}_{one}" for one in range(count)]
            calls = [{"id": one, "type": "function", "function": {"name": "a", "arguments": text}} for one in ids]
            messages.append({"role": "assistant", "content": text or None, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": one, "content": result} for one in ids]
        messages.append({"role": "assistant", "content": answer})
    messages = messages[:-1] if open_turn else [*messages, {"role": "user", "content": "And now?"}]
    return {"model": "m", "messages": messages}


def anthropic(turns: Any, *, open_turn: bool) -> dict[str, Any]:
    """Return the same conversation in messages."""
    messages: list[dict[str, Any]] = []
    for place, (asked, batches, answer) in enumerate(turns):
        messages.append({"role": "user", "content": asked})
        for number, (text, count, result) in enumerate(batches):
            ids = [f"toolu_{place}_{number}_{one}" for one in range(count)]
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
            blocks += [{"type": "tool_use", "id": one, "name": "a", "input": {}} for one in ids]
            messages.append({"role": "assistant", "content": blocks})
            results = [{"type": "tool_result", "tool_use_id": one, "content": result} for one in ids]
            messages.append({"role": "user", "content": results})
        messages.append({"role": "assistant", "content": answer})
    messages = messages[:-1] if open_turn else [*messages, {"role": "user", "content": "And now?"}]
    tools = [{"name": "a", "input_schema": {"type": "object"}}]
    return {"model": "m", "max_tokens": 10, "tools": tools, "messages": messages}


MAKERS = {"openai-chat": chat, "anthropic": anthropic}


@given(TURNS, st.booleans())
def test_a_sound_conversation_is_taken(turns: Any, open_turn: bool) -> None:
    """LOOP-09: whatever the texts, the batches and the turns; and where it stands is seen alike in both protocols."""
    seen = []
    for protocol, make in MAKERS.items():
        body = make(turns, open_turn=open_turn)
        assert complaints(protocol, body, signature=signature) == []
        seen.append(shown(protocol, body))
    expected = (len(turns), len(turns[-1][1])) if open_turn else (len(turns) + 1, 0)
    assert [(one.turn, one.position) for one in seen] == [expected] * 2
    if open_turn and turns[-1][1]:
        assert [one.last_result for one in seen] == [turns[-1][1][-1][2]] * 2


@given(TURNS, st.booleans(), st.data())
def test_a_conversation_that_lacks_a_call_or_a_result_is_refused(
    turns: Any, open_turn: bool, data: st.DataObject
) -> None:
    """LOOP-03: whichever one is taken away."""
    for protocol, make in MAKERS.items():
        body = make(turns, open_turn=open_turn)
        holders = _holders(protocol, body)
        if not holders:
            return
        holder, place = holders[data.draw(st.integers(0, len(holders) - 1))]
        del holder[place]
        assert complaints(protocol, body) != []


def _holders(protocol: str, body: dict[str, Any]) -> list[tuple[list[Any], int]]:
    """Return every list that a call or a result can be taken from, with where it stands in it."""
    messages = body["messages"]
    if protocol == "openai-chat":
        results = [(messages, place) for place, one in enumerate(messages) if one["role"] == "tool"]
        calls = [one["tool_calls"] for one in messages if "tool_calls" in one]
        return results + [(held, place) for held in calls for place in range(len(held))]
    contents = [one["content"] for one in messages if isinstance(one["content"], list)]
    return [(held, place) for held in contents for place, block in enumerate(held) if block["type"] != "text"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(TURNS, JSON, st.data())
def test_whatever_stands_anywhere_is_judged_and_never_an_error(turns: Any, other: Any, data: st.DataObject) -> None:
    """LOOP-09: any value in any place; what is found sound can also be answered."""
    for protocol, make in MAKERS.items():
        body = make(turns, open_turn=True)
        body |= {"tool_choice": {"type": "tool", "name": "a"}, "thinking": {"type": "disabled"}}
        places = list(_places(body))
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        holder[key] = other
        if not complaints(protocol, body, signature=signature):
            assert shown(protocol, body).turn > 0


def _places(value: Any) -> Any:
    """Yield every (holder, key) inside a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)
