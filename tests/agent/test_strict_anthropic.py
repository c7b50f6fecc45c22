"""What the strict endpoint of Anthropic's messages refuses, each with its reason, and what it takes (LOOP-03, -09)."""

from __future__ import annotations

from typing import Any

import pytest

from agent.rehearsal.anthropic import signature
from agent.rehearsal.strict import complaints

USER = {"role": "user", "content": "Do it."}
SAYS = {"role": "assistant", "content": "Yes."}
MARK = {"type": "ephemeral"}


def text(words: str = "Words.", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | more


def use(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read_file", "input": {}} | more


def result(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "text"} | more


def thought(words: str = "Hm.") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": signature("Hm.")}


def says(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def hears(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    tools = [{"name": "read_file", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}]
    return {"model": "m", "max_tokens": 4096, "messages": list(messages), "tools": tools} | more


def found(given: Any) -> list[str]:
    return complaints("anthropic", given, signature=signature)


THINKING = {"type": "enabled", "budget_tokens": 1024}


class TestTaken:
    @pytest.mark.parametrize(
        "given",
        [
            body(USER),
            body(USER, SAYS, USER),
            body(USER, says(use("a")), hears(result("a"))),
            body(USER, says(text(), use("a"), use("b")), hears(result("a"), result("b"), text()), SAYS, USER),
            body(
                USER,
                says(use("a")),
                hears(result("a", content=[text()], is_error=True)),
                says(use("b")),
                hears(result("b")),
            ),
            body(USER, says(use("a")), hears(result("a", content=""))),
            body(USER, says(use("a")), hears({"type": "tool_result", "tool_use_id": "a"})),
            body(USER, says(thought(), text(), use("a")), hears(result("a")), thinking=THINKING),
            body(USER, says(text(), use("a")), hears(result("a")), thinking={"type": "adaptive"}),
            body(
                USER, says({"type": "redacted_thinking", "data": "x"}, use("a")), hears(result("a")), thinking=THINKING
            ),
            body(USER, system="You are an agent.", stream=True, temperature=1, output_config={"effort": "high"}),
            body(USER, system=[text(cache_control=MARK)], tool_choice={"type": "auto"}),
            body(hears(text(cache_control=MARK | {"ttl": "1h"}))),
            body(USER, cache_control=MARK),
            {"model": "m", "max_tokens": 1, "messages": [USER]},
        ],
    )
    def test_a_sound_request_is_taken(self, given: Any) -> None:
        """LOOP-09: a well-formed conversation is never refused."""
        assert found(given) == []


class TestConversation:
    @pytest.mark.parametrize(
        ("messages", "told"),
        [
            ([], "messages: expected a non-empty array"),
            ([None], "messages.0: expected an object, got null"),
            ([SAYS, USER], "messages.0.role: the first message must use the user role"),
            ([USER, SAYS], "messages.1.role: the conversation must end with a user message"),
            ([USER, USER], "messages.1.role: roles must alternate between user and assistant"),
            ([USER, SAYS, SAYS, USER], "messages.2.role: roles must alternate"),
            (
                [{"role": "system", "content": "s"}, USER],
                "messages.0.role: unexpected role 'system': .* top-level system",
            ),
            ([USER, {"role": "tool", "content": "s"}], "messages.1.role: unexpected role 'tool'"),
            ([{"role": "user", "content": None}], "messages.0.content: expected a string or an array, got null"),
            ([{"role": "user", "content": ""}], "messages.0.content: must be non-empty"),
            ([{"role": "user", "content": " \n"}], "messages.0.content: must be non-empty and not only whitespace"),
            ([hears()], "messages.0.content: all messages must have non-empty content"),
            ([hears(text(""))], "messages.0.content.0.text: must be non-empty"),
            ([hears(text(" "))], "messages.0.content.0.text: must be non-empty and not only whitespace"),
            ([hears({"type": "text", "text": None})], "messages.0.content.0.text: expected a string, got null"),
            ([USER, says(text("")), USER], "messages.1.content.0.text: must be non-empty"),
            ([USER | {"name": "me"}], "messages.0.name: extra inputs"),
            ([hears(text(index=0))], "messages.0.content.0.index: extra inputs"),
            ([hears(use("a"))], "messages.0.content.0.type: 'tool_use' is not one of"),
            ([USER, says(result("a")), USER], "messages.1.content.0.type: 'tool_result' is not one of"),
            ([hears(thought())], "messages.0.content.0.type: 'thinking' is not one of"),
            ([hears("text")], "messages.0.content.0.type: 'text' is not one of"),
        ],
    )
    def test_a_message_that_is_malformed(self, messages: list[Any], told: str) -> None:
        """LOOP-09: roles alternate, nothing is empty or null, blocks stand where they may."""
        assert_told(body(*messages), told)

    @pytest.mark.parametrize(
        ("messages", "told"),
        [
            ([USER, says(use("a"))], "messages: .*without tool_result blocks immediately after: a"),
            ([USER, says(use("a")), USER], "messages.2: .*without tool_result blocks immediately after: a"),
            ([USER, says(use("a"), use("b")), hears(result("a"))], "messages.2: .*immediately after: b"),
            ([USER, says(use("a")), hears(text())], "messages.2: .*immediately after: a"),
            ([USER, says(use("a")), USER, SAYS, hears(result("a"))], "messages.4: unexpected tool_use_id found.*: a"),
            ([hears(text(), result("a"))], "messages.0: unexpected tool_use_id found"),
            ([hears(result("a"))], "messages.0: there is no user message"),
            ([USER, SAYS, hears(result("a"))], "messages.2: unexpected tool_use_id found"),
            ([USER, says(use("a")), hears(result("b"))], "messages.2: unexpected tool_use_id found"),
            (
                [USER, says(use("a")), hears(result("a"), result("a"))],
                "messages.2: each tool_use must have a single result",
            ),
            ([USER, says(use("a")), hears(text(), result("a"))], "messages.2: .*at the beginning of their message"),
            (
                [USER, says(use("a"), use("b")), hears(result("a"), text(), result("b"))],
                "messages.2: .*at the beginning of their message",
            ),
            (
                [USER, says(use("a"), use("b")), hears(result("b"), result("a"))],
                "messages.2: .*in the order of the calls",
            ),
            ([USER, says(use("a"), text()), hears(result("a"))], "messages.1: .*immediately after: another block is"),
            (
                [USER, says(use("a"), use("a")), hears(result("a"), result("a"))],
                "messages.1: tool_use ids must be unique: a",
            ),
            (
                [USER, says(use("a")), hears(result("a")), says(use("a")), hears(result("a"))],
                "messages.3: tool_use ids must be unique: a",
            ),
        ],
    )
    def test_calls_and_results_that_do_not_match(self, messages: list[Any], told: str) -> None:
        """LOOP-03, LOOP-04: each call has one result, in the next message, first in it, in order."""
        assert_told(body(*messages), told)

    @pytest.mark.parametrize(
        ("block", "told"),
        [
            ({"id": "a.b"}, "id: 'a.b' does not match"),
            ({"id": ""}, "id: '' does not match"),
            ({"id": None}, "id: None does not match"),
            ({"name": "a b"}, "name: 'a b' does not match"),
            ({"input": "{}"}, "input: expected an object, got a string"),
            ({"input": None}, "input: expected an object, got null"),
            ({"index": 0}, "index: extra inputs"),
        ],
    )
    def test_a_call_that_is_malformed(self, block: dict[str, Any], told: str) -> None:
        """LOOP-03: id, name and input."""
        assert_told(body(USER, says(use("a") | block), hears(result("a"))), told)

    @pytest.mark.parametrize(
        ("block", "told"),
        [
            ({"tool_use_id": 5}, "tool_use_id: 5 does not match"),
            ({"content": None}, "content: expected a string or an array, got null"),
            ({"content": {"x": 1}}, "content: expected a string or an array, got an object"),
            ({"content": [text("")]}, "content.0.text: must be non-empty"),
            ({"content": [use("b")]}, "content.0.type: expected a block of type text"),
            ({"is_error": "yes"}, "is_error: expected a boolean"),
            ({"name": "read_file"}, "name: extra inputs"),
        ],
    )
    def test_a_result_that_is_malformed(self, block: dict[str, Any], told: str) -> None:
        """LOOP-05: a result is never null."""
        assert_told(body(USER, says(use("a")), hears(result("a") | block)), told)

    def test_calls_without_tools(self) -> None:
        """TOOL-05: a conversation with calls must define tools."""
        given = body(USER, says(use("a")), hears(result("a")))
        del given["tools"]
        assert_told(given, "tools: requests which have tool_use or tool_result blocks in messages must define tools")

    @pytest.mark.parametrize(
        ("message", "told"),
        [
            (says(use("a")), "messages.1.content.0.type: expected thinking or redacted_thinking, but found tool_use"),
            (says(text(), use("a")), "but found text"),
            (says(thought("Another."), use("a")), "messages.1.content.0.signature: invalid signature"),
            (says(thought() | {"signature": ""}, use("a")), "signature: must be non-empty"),
            (says({"type": "thinking", "thinking": "Hm."}, use("a")), "signature: expected a string, got null"),
        ],
    )
    def test_thinking_that_did_not_come_back(self, message: Any, told: str) -> None:
        """LOOP-24: with thinking enabled, what was thought before the call comes back as it was."""
        assert_told(body(USER, message, hears(result("a")), thinking=THINKING), told)


class TestFields:
    @pytest.mark.parametrize(
        ("more", "told"),
        [
            ({"model": ""}, "model: must be non-empty"),
            ({"max_tokens": 0}, "max_tokens: 0 is not within"),
            ({"max_tokens": None}, "max_tokens: expected an integer, got null"),
            ({"stream_options": {}}, "stream_options: extra inputs"),
            ({"reasoning_effort": "high"}, "reasoning_effort: extra inputs"),
            ({"temperature": 1.5}, "temperature: 1.5 is not within 0 and 1"),
            ({"temperature": 1, "top_p": 1}, "temperature and top_p cannot both be specified"),
            ({"stream": None}, "stream: expected a boolean, got null"),
            ({"system": ""}, "system: must be non-empty"),
            ({"system": None}, "system: expected a string, got null"),
            ({"system": [text("")]}, "system.0.text: must be non-empty"),
            ({"system": [use("a")]}, "system.0: expected a block of type text"),
            (
                {"thinking": {"type": "enabled", "budget_tokens": 1000}},
                "budget_tokens: expected an integer of at least 1024",
            ),
            ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "max_tokens: must be greater than"),
            ({"thinking": True}, "thinking: expected an object"),
            ({"thinking": THINKING, "temperature": 0}, "temperature: may only be set to 1 when thinking is enabled"),
            ({"thinking": THINKING, "tool_choice": {"type": "any"}}, "thinking may not be enabled when tool_choice"),
            ({"output_config": {"effort": "huge"}}, "output_config.effort: 'huge' is not one of"),
            ({"tools": {}}, "tools: expected an array, got an object"),
            ({"tools": [{"name": "a"}]}, "tools.0.input_schema: expected a JSON schema, got null"),
            ({"tools": [{"name": "a.b", "input_schema": {"type": "object"}}]}, "tools.0.name: 'a.b' does not match"),
            ({"tools": [{"name": "a", "input_schema": {"type": "object"}}] * 2}, "tool names must be unique: a"),
            ({"tools": [{"type": "function", "function": {}}]}, "tools.0.name: None does not match"),
            ({"tools": [{"name": "a", "parameters": {}}]}, "tools.0.parameters: extra inputs"),
            ({"tool_choice": "auto"}, "tool_choice: expected an object, got a string"),
            ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name: 'x' is not the name of a tool"),
            (
                {"tools": [], "tool_choice": {"type": "auto"}},
                "tool_choice: may only be specified while providing tools",
            ),
            ({"system": [text(cache_control={"type": "forever"})]}, "system.0.cache_control: expected type ephemeral"),
            ({"system": [text(cache_control=MARK)] * 5}, "cache_control: .*4 .*5"),
        ],
    )
    def test_a_field_that_is_malformed(self, more: dict[str, Any], told: str) -> None:
        """LOOP-13, LOOP-24: parameters are sent as they are taken, and only these."""
        assert_told(body(USER) | more, told)

    def test_max_tokens_is_needed(self) -> None:
        """LOOP-13: this protocol cannot leave it out."""
        assert found({"model": "m", "messages": [USER]}) == ["max_tokens: field required"]


def assert_told(given: Any, told: str) -> None:
    import re

    complained = found(given)
    assert any(re.search(told, one) for one in complained), complained
