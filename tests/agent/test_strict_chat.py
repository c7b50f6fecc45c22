"""What the strict endpoint of chat completions refuses, each with its reason, and what it takes (LOOP-03, -05, -09)."""

from __future__ import annotations

from typing import Any

import pytest

from agent.rehearsal.strict import complaints, header_complaints

SYSTEM = {"role": "system", "content": "You are an agent."}
USER = {"role": "user", "content": "Do it."}
SAYS = {"role": "assistant", "content": "Yes."}


def calling(*ids: str, **more: Any) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "read_file", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls} | more


def result(call_id: str, content: Any = "text", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content} | more


def tool(name: str = "read_file", **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"type": "function", "function": {"name": name, "description": "Reads.", "parameters": schema} | more}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), "tools": [tool()]} | more


def found(given: Any) -> list[str]:
    return complaints("openai-chat", given)


class TestTaken:
    @pytest.mark.parametrize(
        "given",
        [
            body(USER),
            body(SYSTEM, USER),
            body(SYSTEM | {"role": "developer"}, USER, SAYS, USER),
            body(USER, USER),
            body({"role": "user", "content": ""}),
            body(USER, calling("a"), result("a")),
            body(USER, calling("a", "b", content="Two."), result("a"), result("b", ""), SAYS, USER),
            body(USER, calling("a"), result("a"), calling("b"), result("b")),
            body(USER, calling("a", content=""), result("a", [{"type": "text", "text": "t"}])),
            body(USER, calling("a", reasoning_content="Hm."), result("a")),
            body({"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {}}]}),
            body(USER, {"role": "assistant", "content": None, "refusal": "No."}, USER),
            body(USER, stream=True, stream_options={"include_usage": True}, temperature=0, max_completion_tokens=10),
            body(USER, reasoning_effort="high", tool_choice="auto", parallel_tool_calls=True, max_tokens=1),
            body(USER, tool_choice={"type": "function", "function": {"name": "read_file"}}),
            {"model": "m", "messages": [USER]},
            # Models write anything as arguments, and their own words come back to them.
            body(
                USER,
                calling()
                | {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": "{"}}]},
                result("a"),
            ),
        ],
    )
    def test_a_sound_request_is_taken(self, given: Any) -> None:
        """LOOP-09: a well-formed conversation is never refused."""
        assert found(given) == []


class TestConversation:
    @pytest.mark.parametrize(
        ("messages", "where", "told"),
        [
            ([], "messages", "non-empty array"),
            ([None], "messages.0", "expected an object, got null"),
            ([{"role": "system", "content": "s"}], "messages", "there is no user message"),
            ([USER, SAYS], "messages.1.role", "last message"),
            ([USER, SYSTEM], "messages.1.role", "system message must be the first"),
            ([USER, SYSTEM, USER], "messages.1.role", "system message must be the first"),
            ([{"role": "robot", "content": "x"}], "messages.0.role", "'robot' is not one of"),
            ([{"role": "function", "name": "f", "content": "x"}], "messages.0.role", "'function' is not one of"),
            ([{"content": "x"}], "messages.0.role", "None is not one of"),
            ([{"role": "user"}], "messages.0.content", "expected a string, got null"),
            ([{"role": "user", "content": None}], "messages.0.content", "expected a string, got null"),
            ([{"role": "user", "content": 5}], "messages.0.content", "expected a string, got an integer"),
            ([{"role": "user", "content": []}], "messages.0.content", "[] is too short"),
            ([{"role": "user", "content": [{"type": "tool_use"}]}], "messages.0.content.0.type", "expected a part"),
            ([{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text", "got null"),
            ([USER | {"extra": 1}], "messages.0.extra", "not permitted"),
            ([USER, {"role": "assistant", "content": None}, USER], "messages.1.content", "got null"),
            ([USER, {"role": "assistant"}, USER], "messages.1.content", "got null"),
            ([USER, SAYS | {"tool_calls": []}, USER], "messages.1.tool_calls", "[] is too short"),
            ([USER, SAYS | {"tool_calls": None}, USER], "messages.1.tool_calls", "expected an array, got null"),
            ([USER, SAYS | {"function_call": {}}, USER], "messages.1.function_call", "not permitted"),
            ([USER, calling("a"), result("a", None)], "messages.2.content", "expected a string, got null"),
            ([USER, calling("a"), {"role": "tool", "tool_call_id": "a"}], "messages.2.content", "got null"),
            ([USER, calling("a"), result("a", {"x": 1})], "messages.2.content", "got an object"),
            ([USER, calling("a"), {"role": "tool", "content": ""}], "messages.2.tool_call_id", "got null"),
            ([USER, calling("a"), result("a", name="read_file")], "messages.2.name", "not permitted"),
        ],
    )
    def test_a_message_that_is_malformed(self, messages: list[Any], where: str, told: str) -> None:
        """LOOP-05, LOOP-09: unknown roles, null content, wrong kinds, unknown fields."""
        assert any(one.startswith(f"{where}: ") and told in one for one in found(body(*messages))), found(
            body(*messages)
        )

    @pytest.mark.parametrize(
        ("messages", "where", "told"),
        [
            ([USER, calling("a")], "messages", "a had none"),
            ([USER, calling("a"), USER], "messages.2", "a had none"),
            ([USER, calling("a"), SAYS, result("a"), USER], "messages.2", "a had none"),
            ([USER, calling("a", "b"), result("a"), USER], "messages.3", "b had none"),
            ([USER, calling("a", "b"), result("a"), SAYS, USER], "messages.3", "b had none"),
            ([USER, calling("a"), SYSTEM, result("a")], "messages.2", "a had none"),
            ([USER, result("a")], "messages.1.tool_call_id", "must be a response to a preceding message"),
            ([USER, SAYS, result("a")], "messages.2.tool_call_id", "must be a response to a preceding message"),
            ([USER, calling("a"), result("b")], "messages.2.tool_call_id", "must be a response"),
            ([USER, calling("a"), result("a"), result("a")], "messages.3.tool_call_id", "must be a response"),
            ([USER, calling("a"), result("a"), USER, result("a")], "messages.4.tool_call_id", "must be a response"),
            (
                [USER, calling("a", "b"), result("b"), result("a")],
                "messages.2.tool_call_id",
                "in the order of the calls",
            ),
            ([USER, calling("a", "a"), result("a"), result("a")], "messages.1.tool_calls", "the id of two calls"),
            (
                [USER, calling("a"), result("a"), calling("a"), result("a")],
                "messages.3.tool_calls",
                "the id of two calls",
            ),
        ],
    )
    def test_calls_and_results_that_do_not_match(self, messages: list[Any], where: str, told: str) -> None:
        """LOOP-03, LOOP-04: each call has one result, at once, in order; each result its call."""
        assert any(one.startswith(f"{where}: ") and told in one for one in found(body(*messages))), found(
            body(*messages)
        )

    @pytest.mark.parametrize(
        ("call", "told"),
        [
            ({"id": ""}, "id: must be non-empty"),
            ({"id": None}, "id: expected a string, got null"),
            ({"id": "x" * 41}, "id: string too long"),
            ({"type": "custom"}, "expected an object with id, type function"),
            ({"index": 0}, "index: extra inputs are not permitted"),
            ({"function": {"name": "a b", "arguments": "{}"}}, "does not match ^[a-zA-Z0-9_-]{1,64}$"),
            ({"function": {"name": "", "arguments": "{}"}}, "does not match"),
            ({"function": {"name": "a", "arguments": {}}}, "arguments: expected a string, got an object"),
            ({"function": {"name": "a"}}, "arguments: expected a string, got null"),
            ({"function": None}, "expected an object with id, type function"),
        ],
    )
    def test_a_call_that_is_malformed(self, call: dict[str, Any], told: str) -> None:
        """LOOP-03: id, type, name and arguments."""
        sound = {"id": "a", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [sound | call]}
        assert any(told in one for one in found(body(USER, message, result("a")))), found(
            body(USER, message, result("a"))
        )


class TestFields:
    @pytest.mark.parametrize(
        ("more", "told"),
        [
            ({"model": ""}, "model: must be non-empty"),
            ({"model": None}, "model: expected a string"),
            ({"messages": {}}, "messages: expected a non-empty array"),
            ({"max_token": 1}, "max_token: extra inputs"),
            ({"temperature": 2.5}, "temperature: 2.5 is not within 0 and 2"),
            ({"temperature": None}, "temperature: expected a number, got null"),
            ({"max_tokens": 0}, "max_tokens: 0 is not within"),
            ({"max_tokens": 1.5}, "max_tokens: expected an integer, got a number"),
            ({"max_tokens": 1, "max_completion_tokens": 1}, "at the same time is not supported"),
            ({"stream": "yes"}, "stream: expected a boolean"),
            ({"stream_options": {"include_usage": True}}, "stream_options: is only allowed when stream is enabled"),
            ({"stream": True, "stream_options": {"usage": True}}, "stream_options.usage: extra inputs"),
            ({"stream": True, "stream_options": None}, "stream_options: expected an object"),
            ({"reasoning_effort": "huge"}, "reasoning_effort: 'huge' is not one of"),
            ({"tools": []}, "tools: expected an array of 1 to 128"),
            ({"tools": [tool(f"t{number}") for number in range(129)]}, "tools: expected an array of 1 to 128"),
            ({"tools": [tool(), tool()]}, "read_file is the name of two tools"),
            ({"tools": [tool("a.b")]}, "tools.0.function.name: 'a.b' does not match"),
            ({"tools": [{"name": "a"}]}, "tools.0: expected an object with type function"),
            ({"tools": [tool(description="x" * 1025)]}, "tools.0.function.description: string too long"),
            ({"tools": [tool(strict=True)]}, "additionalProperties: must be false where strict is true"),
            ({"tool_choice": "always"}, "tool_choice: 'always' is not one of"),
            ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "'x' is not the name of a tool"),
        ],
    )
    def test_a_field_that_is_malformed(self, more: dict[str, Any], told: str) -> None:
        """LOOP-13, LOOP-23: parameters are sent as they are taken, and only these."""
        assert any(told in one for one in found(body(USER) | more)), found(body(USER) | more)

    @pytest.mark.parametrize("name", ["tool_choice", "parallel_tool_calls"])
    def test_what_needs_tools(self, name: str) -> None:
        """TOOL-05: neither goes without tools."""
        given = {"model": "m", "messages": [USER], name: "auto" if name == "tool_choice" else True}
        assert found(given) == [f"{name}: is only allowed when tools are specified"]

    @pytest.mark.parametrize(
        ("schema", "told"),
        [
            (None, "expected a JSON schema, got null"),
            ({}, "type: must be object"),
            ({"type": "string"}, "type: must be object"),
            ({"type": "object", "anyOf": []}, "anyOf is not supported at the top level"),
            ({"type": "object", "properties": []}, "properties: expected an object"),
            ({"type": "object", "properties": {"a": {"type": "str"}}}, "properties.a.type: 'str' is not a JSON"),
            ({"type": "object", "properties": {"a": {"type": "array"}}}, "properties.a: array schema missing items"),
            ({"type": "object", "properties": {"a": {"enum": []}}}, "properties.a.enum: must be a non-empty"),
            (
                {"type": "object", "properties": {"a": {"description": 1}}},
                "properties.a.description: expected a string",
            ),
            ({"type": "object", "properties": {"a": 1}}, "properties.a: expected a JSON schema, got an integer"),
            ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "'#/$defs/b' is not among $defs"),
            ({"type": "object", "properties": {"a": {"anyOf": [{"type": "x"}]}}}, "properties.a.anyOf.0.type: 'x'"),
            ({"type": "object", "required": ["a"]}, "required: 'a' is not among the properties"),
            ({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}, "required: has non-unique"),
            ({"type": "object", "required": "a"}, "required: expected an array of strings"),
        ],
    )
    def test_a_tool_schema_that_is_malformed(self, schema: Any, told: str) -> None:
        """TOOL-05: in both protocols."""
        given = body(USER, tools=[tool(parameters=schema)])
        assert any(told in one for one in found(given)), found(given)
        other = {"model": "m", "max_tokens": 1, "messages": [USER], "tools": [{"name": "a", "input_schema": schema}]}
        assert any(told in one for one in complaints("anthropic", other)), complaints("anthropic", other)

    def test_references_that_are_there(self) -> None:
        """TOOL-05: a schema with definitions is taken."""
        schema = {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/b"}, "c": {"type": ["array", "null"], "items": {"type": "string"}}},
            "$defs": {"b": {"type": "object", "properties": {}}},
            "additionalProperties": False,
        }
        assert found(body(USER, tools=[tool(parameters=schema)])) == []


def test_headers() -> None:
    """LOOP-13: the content type, and Anthropic's version."""
    assert header_complaints("openai-chat", {"content-type": "application/json; charset=utf-8"}) == []
    assert header_complaints("openai-chat", {}) == ["content-type: must be application/json"]
    assert header_complaints("anthropic", {"content-type": "application/json"}) == [
        "anthropic-version: header is required"
    ]


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
@pytest.mark.parametrize("given", [None, [], "x", 5])
def test_a_body_that_is_no_object(protocol: str, given: Any) -> None:
    """LOOP-09: said as such."""
    assert complaints(protocol, given) == ["body: is no object"]
