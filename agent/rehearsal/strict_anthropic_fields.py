"""What is wrong with everything but the messages in a request for Anthropic's messages. Sources: `strict_anthropic`."""

from __future__ import annotations

import re
from typing import Any

from agent.rehearsal.strict_words import Complaints, check_parameters, kind

_FIELDS = re.findall(
    r"\w+",
    """
    model messages max_tokens cache_control container context_management inference_geo mcp_servers metadata
    output_config service_tier speed stop_sequences stream system temperature thinking tool_choice tools top_k
    top_p
    """,
)
_TOOL_FIELDS = re.findall(
    r"\w+",
    """
    name description input_schema type cache_control strict defer_loading allowed_callers eager_input_streaming
    input_examples
    """,
)
_LONGEST_NAME, _MOST_BREAKPOINTS, _LEAST_BUDGET = 128, 4, 1024


def check_fields(found: Complaints, body: dict[str, Any]) -> None:
    """Check a request's parameters, its system prompt, its tools and its cache breakpoints."""
    found.known("", body, _FIELDS)
    found.text("model", body.get("model"), empty=False)
    if "max_tokens" not in body:
        found.add("max_tokens", "field required")
    found.number(body, "max_tokens", 1, 10**9, whole=True)
    found.number(body, "temperature", 0, 1)
    found.number(body, "top_p", 0, 1)
    found.number(body, "top_k", 0, 10**9, whole=True)
    if "temperature" in body and "top_p" in body:
        found.add("temperature", "temperature and top_p cannot both be specified")
    found.flag("", body, "stream")
    if "service_tier" in body:
        found.word("service_tier", body["service_tier"], ("auto", "standard_only"))
    if "output_config" in body:
        _check_output(found, body["output_config"])
    _check_system(found, body)
    _check_tools(found, body)
    _check_thinking(found, body)
    _check_breakpoints(found, body)


def _check_output(found: Complaints, output: Any) -> None:
    if not isinstance(output, dict):
        found.add("output_config", f"expected an object, got {kind(output)}")
    elif "effort" in output:
        found.word("output_config.effort", output["effort"], ("low", "medium", "high", "xhigh", "max"))


def _check_system(found: Complaints, body: dict[str, Any]) -> None:
    system = body.get("system", "said")
    if isinstance(system, list):
        for place, block in enumerate(system):
            if not isinstance(block, dict) or block.get("type") != "text":
                found.add(f"system.{place}", "expected a block of type text")
            else:
                found.text(f"system.{place}.text", block.get("text"), empty=False)
    else:
        found.text("system", system, empty=False)


def _check_tools(found: Complaints, body: dict[str, Any]) -> None:
    tools = body.get("tools", [])
    if not isinstance(tools, list):
        found.add("tools", f"expected an array, got {kind(tools)}")
        return
    names: set[str] = set()
    for place, tool in enumerate(tools):
        where = f"tools.{place}"
        if not isinstance(tool, dict):
            found.add(where, f"expected an object, got {kind(tool)}")
            continue
        if found.name(f"{where}.name", tool.get("name"), _LONGEST_NAME):
            if tool["name"] in names:
                found.add(f"{where}.name", f"tool names must be unique: {tool['name']}")
            names.add(tool["name"])
        if tool.get("type", "custom") != "custom":
            continue  # a tool of the provider's own, with fields of its own
        found.known(where, tool, _TOOL_FIELDS)
        found.text(f"{where}.description", tool.get("description", ""))
        check_parameters(found, f"{where}.input_schema", tool.get("input_schema"))
    _check_choice(found, body, names)


def _check_choice(found: Complaints, body: dict[str, Any], names: set[str]) -> None:
    if "tool_choice" not in body:
        return
    choice = body["tool_choice"]
    if not names:
        found.add("tool_choice", "may only be specified while providing tools")
    if not isinstance(choice, dict):
        found.add("tool_choice", f"expected an object, got {kind(choice)}")
        return
    found.known("tool_choice", choice, ("type", "name", "disable_parallel_tool_use"))
    found.word("tool_choice.type", choice.get("type"), ("auto", "any", "tool", "none"))
    if choice.get("type") == "tool" and choice.get("name") not in list(names):
        found.add("tool_choice.name", f"{choice.get('name')!r} is not the name of a tool")


def _check_thinking(found: Complaints, body: dict[str, Any]) -> None:
    if "thinking" not in body:
        return
    thinking = body["thinking"]
    if not isinstance(thinking, dict):
        found.add("thinking", f"expected an object, got {kind(thinking)}")
        return
    found.known("thinking", thinking, ("type", "budget_tokens", "display"))
    found.word("thinking.type", thinking.get("type"), ("enabled", "adaptive", "disabled"))
    if thinking.get("type") == "disabled":
        return
    if body.get("temperature", 1) != 1:
        found.add("temperature", "may only be set to 1 when thinking is enabled")
    if "top_k" in body:
        found.add("top_k", "must be unset when thinking is enabled")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        found.add("tool_choice", "thinking may not be enabled when tool_choice forces tool use")
    if thinking.get("type") == "enabled":
        _check_budget(found, thinking.get("budget_tokens"), body.get("max_tokens"))


def _check_budget(found: Complaints, budget: Any, max_tokens: Any) -> None:
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < _LEAST_BUDGET:
        found.add("thinking.budget_tokens", f"expected an integer of at least {_LEAST_BUDGET}, got {budget!r}")
    elif isinstance(max_tokens, int) and max_tokens <= budget:
        found.add("max_tokens", "must be greater than thinking.budget_tokens")


def _check_breakpoints(found: Complaints, body: dict[str, Any]) -> None:
    """Look at every cache_control: of tools, system and messages, results' own blocks included."""
    marks: list[tuple[str, dict[str, Any]]] = []
    _marks(marks, "tools", body.get("tools"))
    _marks(marks, "system", body.get("system"))
    messages = body.get("messages")
    for place, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            _marks(marks, f"messages.{place}.content", message.get("content"))
    _marks(marks, "body", [body])
    for where, block in marks:
        _check_mark(found, f"{where}.cache_control", block)
    if len(marks) > _MOST_BREAKPOINTS:
        found.add(
            "cache_control", f"a maximum of {_MOST_BREAKPOINTS} blocks with cache_control may be provided: {len(marks)}"
        )


def _marks(marks: list[tuple[str, dict[str, Any]]], where: str, blocks: Any) -> None:
    for place, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if isinstance(block, dict):
            if block.get("cache_control") is not None:
                marks.append((f"{where}.{place}", block))
            if block.get("type") == "tool_result":
                _marks(marks, f"{where}.{place}.content", block.get("content"))


def _check_mark(found: Complaints, where: str, block: dict[str, Any]) -> None:
    mark = block["cache_control"]
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h"):
        found.add(where, "expected type ephemeral, with ttl 5m or 1h")
    if block.get("type") in ("thinking", "redacted_thinking"):
        found.add(where, "thinking blocks cannot be cached by themselves")
