"""Request bodies over random conversations: no strict endpoint complains, and only what is new is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.rehearsal.strict import complaints, header_complaints
from ledger.wire import chat, messages
from ledger.wire.conversation import (
    Call,
    Message,
    Opaque,
    Parameters,
    Result,
    Text,
    ToolSchema,
    Window,
    message_bytes,
    message_of,
)
from ledger.wire.fragments import Fragments
from ledger.wire.protocols import PROTOCOLS, protocol
from ledger.wire.takes import takes

MODELS = {
    "openai-chat": [
        ("openai", "gpt-5.6"), ("openai", "gpt-4o"), ("ollama", "qwen3"), ("mistral", "devstral"), ("deepseek", "r"),
        ("groq", "openai/gpt-oss-20b"),
    ],
    "anthropic": [
        ("anthropic", "claude-3-haiku"), ("anthropic", "claude-sonnet-4-5"), ("anthropic", "claude-opus-4-8"),
        ("me", "glm-5"),
    ],
}  # fmt: skip
FRESH = {"openai-chat": chat.Chat, "anthropic": messages.Messages}
TOOLS = [
    ToolSchema("grep", "Search.", msgspec.Raw(b'{"type":"object","properties":{"x":{"type":"integer"}}}')),
    ToolSchema("list_dir", "List.", msgspec.Raw(b'{"type":"object","properties":{}}')),
]
LETTERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORDS = LETTERS.filter(lambda text: text.strip())
ARGUMENTS = st.sampled_from(['{"x":1}', "{}", "", "{oops", "[1]", '"text"', "null", '{"x":"\\ud83d\\ude00"}'])
IDS = st.sampled_from(["call", "toolu_01", "functions.grep:0", "x" * 70, "é", "a b"])
SIGNED = st.builds(
    lambda text, signature: Opaque(
        "anthropic",
        msgspec.Raw(msgspec.json.encode({"type": "thinking", "thinking": text, "signature": signature})),
        "claude-sonnet-4-5",
    ),
    LETTERS,
    st.sampled_from(["c2ln", ""]),
)
REASONED = st.builds(
    lambda text: Opaque("openai-chat", msgspec.Raw(msgspec.json.encode({"reasoning_content": text})), "qwen3"), WORDS
)
REDACTED = st.just(Opaque("anthropic", msgspec.Raw(b'{"type":"redacted_thinking","data":"eA=="}'), "claude-opus-4-8"))
THOUGHTS = st.lists(SIGNED | REASONED | REDACTED, max_size=2)


@st.composite
def steps(draw: st.DrawFn, prefix: str) -> list[Message]:
    """Draw an assistant message with its calls in any place, and their results."""
    calls = [
        Call(f"{prefix}{number}{draw(IDS)}", draw(st.sampled_from(["grep", "list_dir"])), draw(ARGUMENTS))
        for number in range(draw(st.integers(1, 3)))
    ]
    parts: list[Any] = [*draw(THOUGHTS), *map(Text, draw(st.lists(LETTERS, max_size=2))), *calls]
    if draw(st.booleans()):
        parts.append(Text(draw(LETTERS)))
    made = [Message("assistant", tuple(parts))]
    for call in calls:
        result = Result(call.id, call.name, draw(LETTERS), is_error=draw(st.booleans()))
        made.append(Message("tool", (result,)))
    return made


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Draw a conversation that awaits an answer: prompts, steps, answers that may say nothing, interrupted turns."""
    found: list[Message] = []
    for turn in range(draw(st.integers(1, 3))):
        found.append(Message("user", (Text(draw(WORDS)),)))
        for step in range(draw(st.integers(0, 2))):
            found += draw(steps(f"{turn}{step}"))
        answer = draw(st.none() | st.builds(lambda t, s: Message("assistant", (*t, Text(s))), THOUGHTS, LETTERS))
        if answer is not None:
            found += [answer, Message("user", (Text(draw(WORDS)),))]
    return found


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=150, deadline=None)
@given(conversations(), st.data())
def test_a_strict_endpoint_never_complains(name: str, conversation: list[Message], data: st.DataObject) -> None:
    """LOOP-03, LOOP-09, LOOP-20: whatever was said, by whichever model, and whoever is asked now."""
    provider, model = data.draw(st.sampled_from(MODELS[name]))
    parameters = Parameters(
        max_output_tokens=data.draw(st.sampled_from([None, 900, 8_000])),
        temperature=data.draw(st.sampled_from([None, 0.0, 0.7])),
        thinking=data.draw(st.booleans()),
        stream=data.draw(st.booleans()),
    )
    window, given_to = Window(data.draw(LETTERS), conversation, TOOLS), takes(provider, model, name, 16_000)
    body = protocol(name).body(model, window, parameters, takes=given_to)
    assert complaints(name, msgspec.json.decode(body)) == []
    assert header_complaints(name, protocol(name).headers("k" * 20)) == []
    again = Window(window.system, [message_of(message_bytes(one)) for one in conversation], list(TOOLS))
    assert FRESH[name]().body(model, again, parameters, takes=given_to) == body


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=80, deadline=None)
@given(conversations())
def test_what_the_model_is_shown_is_what_was_said(name: str, conversation: list[Message]) -> None:
    """LOOP-03, LOOP-04: every prompt, every text but its blanks, every call and result, in order and once."""
    body = msgspec.json.decode(
        protocol(name).body("m", Window("", conversation, TOOLS), Parameters(), takes=takes("me", "m", name, None))
    )
    # Blanks aside: one protocol leaves them out. Where one text ends and the next begins: one joins two prompts.
    shown = "".join(text for one in body["messages"] for text in _shown(one))
    assert shown == "".join(text for one in conversation for text in _said(one))


def _said(message: Message) -> list[str]:
    if message.role == "tool":
        return [f"<result {part.text}>" for part in message.parts if isinstance(part, Result)]
    return ["".join(message.text.split()), *(f"<call {call.name}>" for call in message.calls)]


def _shown(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    if message["role"] == "tool":
        return [f"<result {content}>"]
    if isinstance(content, str):
        calls = [call["function"]["name"] for call in message.get("tool_calls", ())]
        return ["".join(content.split()), *(f"<call {name}>" for name in calls)]
    results = [f"<result {block['content']}>" for block in content if block["type"] == "tool_result"]
    texts = ["".join(block["text"].split()) for block in content if block["type"] == "text"]
    return results + texts + [f"<call {block['name']}>" for block in content if block["type"] == "tool_use"]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_only_the_new_message_is_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOOP-13: a conversation of 200 messages that grows by one costs the writing of one, not of 201."""
    written: list[Message] = []
    speaks = FRESH[name]()
    fragments = speaks._fragments
    assert isinstance(fragments, Fragments)
    write = fragments._write

    def counting(message: Message, style: Any) -> Any:
        written.append(message)
        return write(message, style)

    monkeypatch.setattr(fragments, "_write", counting)
    found = [Message("user", (Text("Do it."),))]
    for number in range(100):
        found.append(Message("assistant", (Call(f"c{number}", "grep", '{"x":1}'),)))
        found.append(Message("tool", (Result(f"c{number}", "grep", "line"),)))
    given_to = takes("me", "m", name, None)
    speaks.body("m", Window("s", found, TOOLS), Parameters(), takes=given_to)
    assert len(written) == 201
    written.clear()
    found += [Message("user", (Text("Go on."),))]
    speaks.body("m", Window("s", found, TOOLS), Parameters(), takes=given_to)
    assert written == found[-1:]
    written.clear()
    speaks.body("m", Window("other", found, []), Parameters(stream=False), takes=given_to)
    assert written == []
