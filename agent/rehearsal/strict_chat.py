"""What is wrong with a request for chat completions.

Sources: OpenAI's API reference, "Create chat completion" (roles, what each message has, limits of names, at most 128
tools, `stream_options` only with `stream`), and what its errors 400 state: "An assistant message with 'tool_calls' must
be followed by tool messages responding to each 'tool_call_id'", "messages with role 'tool' must be a response to a
preceding message with 'tool_calls'", "Invalid value for 'content': expected a string, got null", "[] is too short -
'messages.n.tool_calls'", "string too long. Expected a string with maximum length 40" (ids of calls), "'tool_choice' is
only allowed when 'tools' are specified", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not
supported".

Other servers of this protocol are stricter, and the rules are theirs too: the system message is the first (chat
templates of Qwen, by vLLM and llama.cpp), there is a user message (the same), the last message is of a user or a tool
(Mistral: "Expected last role User or Tool"). This project's own: results stand in the order of their calls, and no id
of a call comes twice in a conversation.
"""

from __future__ import annotations

import re
from typing import Any

from agent.rehearsal.strict_words import Complaints, check_parameters, kind

_FIELDS = re.findall(
    r"\w+",
    """
    model messages audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata modalities n
    parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort
    response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools
    top_logprobs top_p user verbosity web_search_options
    """,
)
_MESSAGE_FIELDS = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    # reasoning_content is what DeepSeek, vLLM and llama.cpp take back; OpenAI has no field for it.
    "assistant": frozenset({"role", "content", "name", "refusal", "audio", "tool_calls", "reasoning_content"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_PARTS = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_TIERS = ("auto", "default", "flex", "scale", "priority")
_LONGEST_ID, _LONGEST_NAME, _MOST_TOOLS, _LONGEST_DESCRIPTION = 40, 64, 128, 1024


def chat_complaints(body: dict[str, Any]) -> list[str]:
    """Return what is wrong with the body of a request for chat completions, each as `where: what`."""
    found = Complaints()
    found.known("", body, _FIELDS)
    found.text("model", body.get("model"), empty=False)
    names = _check_tools(found, body)
    _check_choice(found, body, names)
    _check_parameters(found, body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        found.add("messages", "expected a non-empty array")
        return found.found
    sound = [_check_message(found, f"messages.{place}", message) for place, message in enumerate(messages)]
    if all(sound):
        _check_order(found, messages)
        _check_calls(found, messages)
    return found.found


def _check_parameters(found: Complaints, body: dict[str, Any]) -> None:
    found.number(body, "temperature", 0, 2)
    found.number(body, "top_p", 0, 1)
    found.number(body, "n", 1, 128, whole=True)
    for name in ("max_tokens", "max_completion_tokens"):
        found.number(body, name, 1, 10**9, whole=True)
    if "max_tokens" in body and "max_completion_tokens" in body:
        found.add("max_tokens", "setting max_tokens and max_completion_tokens at the same time is not supported")
    for name in ("stream", "store", "parallel_tool_calls", "logprobs"):
        found.flag("", body, name)
    if "reasoning_effort" in body:
        found.word("reasoning_effort", body["reasoning_effort"], _EFFORTS)
    if "service_tier" in body:
        found.word("service_tier", body["service_tier"], _TIERS)
    if "stream_options" not in body:
        return
    options = body["stream_options"]
    if body.get("stream") is not True:
        found.add("stream_options", "is only allowed when stream is enabled")
    if not isinstance(options, dict):
        found.add("stream_options", f"expected an object, got {kind(options)}")
        return
    found.known("stream_options", options, ("include_usage", "include_obfuscation"))
    for name in options:
        found.flag("stream_options", options, name)


def _check_tools(found: Complaints, body: dict[str, Any]) -> set[str]:
    """Check the tools; return their names."""
    names: set[str] = set()
    if "tools" not in body:
        if "parallel_tool_calls" in body:
            found.add("parallel_tool_calls", "is only allowed when tools are specified")
        return names
    tools = body["tools"]
    if not isinstance(tools, list) or not 1 <= len(tools) <= _MOST_TOOLS:
        found.add("tools", f"expected an array of 1 to {_MOST_TOOLS} tools")
        return names
    for place, tool in enumerate(tools):
        where = f"tools.{place}"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            found.add(where, "expected an object with type function and a function")
            continue
        found.known(where, tool, ("type", "function"))
        found.known(f"{where}.function", function, ("name", "description", "parameters", "strict"))
        if found.name(f"{where}.function.name", function.get("name"), _LONGEST_NAME):
            if function["name"] in names:
                found.add(f"{where}.function.name", f"{function['name']} is the name of two tools")
            names.add(function["name"])
        _check_function(found, f"{where}.function", function)
    return names


def _check_function(found: Complaints, where: str, function: dict[str, Any]) -> None:
    description = function.get("description", "")
    if found.text(f"{where}.description", description) and len(description) > _LONGEST_DESCRIPTION:
        found.add(f"{where}.description", f"string too long: {len(description)} of {_LONGEST_DESCRIPTION} characters")
    if "parameters" not in function:
        return
    check_parameters(found, f"{where}.parameters", function["parameters"])
    schema = function["parameters"]
    if function.get("strict") is True and isinstance(schema, dict):
        # "Structured outputs": with strict every property is required, and others are forbidden.
        if schema.get("additionalProperties") is not False:
            found.add(f"{where}.parameters.additionalProperties", "must be false where strict is true")
        required = schema.get("required")
        if not isinstance(required, list) or any(name not in required for name in schema.get("properties") or ()):
            found.add(f"{where}.parameters.required", "must have every property where strict is true")


def _check_choice(found: Complaints, body: dict[str, Any], names: set[str]) -> None:
    if "tool_choice" not in body:
        return
    choice = body["tool_choice"]
    if "tools" not in body:
        found.add("tool_choice", "is only allowed when tools are specified")
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if choice.get("type") != "function" or name not in list(names):
            found.add("tool_choice", f"{name!r} is not the name of a tool")
    else:
        found.word("tool_choice", choice, ("none", "auto", "required"))


def _check_message(found: Complaints, where: str, message: Any) -> bool:
    """Check one message by itself; tell whether its role and its calls can be relied on."""
    if not isinstance(message, dict):
        found.add(where, f"expected an object, got {kind(message)}")
        return False
    role = message.get("role")
    if not isinstance(role, str) or role not in _MESSAGE_FIELDS:
        found.add(f"{where}.role", f"{role!r} is not one of {', '.join(_MESSAGE_FIELDS)}")
        return False
    found.known(where, message, _MESSAGE_FIELDS[role])
    sound = True
    if role == "tool":
        sound = found.text(f"{where}.tool_call_id", message.get("tool_call_id"), empty=False)
    if "tool_calls" in message and role == "assistant":
        sound = _check_tool_calls(found, f"{where}.tool_calls", message["tool_calls"])
    content = message.get("content")
    says_otherwise = role == "assistant" and ("tool_calls" in message or message.get("refusal"))
    if content is not None or not says_otherwise:
        _check_content(found, f"{where}.content", content, _PARTS.get(role, ("text",)))
    if message.get("refusal") is not None:
        found.text(f"{where}.refusal", message["refusal"])
    if "reasoning_content" in message:
        found.text(f"{where}.reasoning_content", message["reasoning_content"])
    return sound


def _check_content(found: Complaints, where: str, content: Any, kinds: tuple[str, ...]) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        found.add(where, f"expected a string, got {kind(content)}")
        return
    if not content:
        found.add(where, "[] is too short")
    for place, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") not in kinds:
            found.add(f"{where}.{place}.type", f"expected a part of type {', '.join(kinds)}")
        elif part["type"] in ("text", "refusal"):
            found.known(f"{where}.{place}", part, ("type", part["type"]))
            found.text(f"{where}.{place}.{part['type']}", part.get(part["type"]))
        elif not isinstance(part.get(part["type"]), dict):
            found.add(f"{where}.{place}.{part['type']}", "expected an object")


def _check_tool_calls(found: Complaints, where: str, calls: Any) -> bool:
    if not isinstance(calls, list) or not calls:
        found.add(where, "[] is too short" if calls == [] else f"expected an array, got {kind(calls)}")
        return False
    sound = True
    for place, call in enumerate(calls):
        told = f"{where}.{place}"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            found.add(told, "expected an object with id, type function and a function")
            sound = False
            continue
        found.known(told, call, ("id", "type", "function"))
        found.known(f"{told}.function", function, ("name", "arguments"))
        sound &= found.text(f"{told}.id", call.get("id"), empty=False)
        if sound and len(call["id"]) > _LONGEST_ID:
            found.add(f"{told}.id", f"string too long: expected a string with maximum length {_LONGEST_ID}")
        found.name(f"{told}.function.name", function.get("name"), _LONGEST_NAME)
        found.text(f"{told}.function.arguments", function.get("arguments"))
    return sound


def _check_order(found: Complaints, messages: list[dict[str, Any]]) -> None:
    roles = [message["role"] for message in messages]
    if "user" not in roles:
        found.add("messages", "there is no user message")
    for place, role in enumerate(roles):
        if role in ("system", "developer") and place:
            found.add(f"messages.{place}.role", f"a {role} message must be the first")
    if roles[-1] not in ("user", "tool"):
        found.add(f"messages.{len(roles) - 1}.role", "expected the last message to be of role user or tool")


def _check_calls(found: Complaints, messages: list[dict[str, Any]]) -> None:
    """Every call has its result right behind its message, and every result its call."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages.{place}"
        if message["role"] == "tool":
            _take_result(found, where, message["tool_call_id"], open_calls)
            continue
        _still_open(found, where, open_calls)
        open_calls = [call["id"] for call in message.get("tool_calls", ())] if message["role"] == "assistant" else []
        for call_id in open_calls:
            if call_id in seen:
                found.add(f"{where}.tool_calls", f"the id {call_id} is the id of two calls")
            seen.add(call_id)
    _still_open(found, "messages", open_calls)


def _take_result(found: Complaints, where: str, call_id: str, open_calls: list[str]) -> None:
    if call_id not in open_calls:
        found.add(
            f"{where}.tool_call_id",
            f"messages with role tool must be a response to a preceding message with tool_calls: {call_id} is not",
        )
        return
    if open_calls[0] != call_id:
        found.add(f"{where}.tool_call_id", f"results stand in the order of the calls: expected {open_calls[0]}")
    open_calls.remove(call_id)


def _still_open(found: Complaints, where: str, open_calls: list[str]) -> None:
    if open_calls:
        found.add(
            where,
            "an assistant message with tool_calls must be followed by tool messages responding to each tool_call_id: "
            f"{', '.join(open_calls)} had none",
        )
