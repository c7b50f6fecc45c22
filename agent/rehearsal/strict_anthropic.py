"""What is wrong with a request for Anthropic's messages.

Sources: the Messages API reference (fields and their bounds); "Handle tool calls" (results follow their calls at once,
in one user message, before any text); "Define tools" (names, `input_schema`); "Extended thinking" (budget, temperature,
what a final assistant message begins with); "Prompt caching" (at most four breakpoints); and what its errors 400 state:
"roles must alternate between user and assistant", "first message must use the user role", "all messages must have
non-empty content", "text content blocks must be non-empty", "text content blocks must contain non-whitespace text",
"`tool_use` ids were found without `tool_result` blocks immediately after" (so also where text follows a `tool_use` in
its message), "unexpected `tool_use_id` found in `tool_result` blocks", "each tool_use must have a single result",
"`tool_use` ids must be unique", ids that match ^[a-zA-Z0-9_-]+$, "Unexpected role system", "This model does not support
assistant message prefill. The conversation must end with a user message", "Requests which have `tool_use` or
`tool_result` blocks in messages must define tools", "Invalid `signature` in `thinking` block".

The API itself has come to join messages of one role; that they alternate is what it documented first, and what
gateways still ask for. This project's own: results stand in the order of their calls.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from agent.rehearsal.strict_anthropic_fields import check_fields
from agent.rehearsal.strict_words import Complaints, Signature, kind

_TEXT, _USE, _RESULT = "text", "tool_use", "tool_result"
_THINKING = ("thinking", "redacted_thinking")
_BLOCK_FIELDS = {
    _TEXT: frozenset({"type", "text", "cache_control", "citations"}),
    _USE: frozenset({"type", "id", "name", "input", "cache_control", "caller"}),
    _RESULT: frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
}
_BLOCKS = {
    "user": (_TEXT, _RESULT, "image", "document", "search_result", "container_upload"),
    "assistant": (_TEXT, _USE, *_THINKING, "server_tool_use", "web_search_tool_result", "web_fetch_tool_result"),
}
_LONGEST_NAME = 128
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def anthropic_complaints(body: dict[str, Any], signature: Signature | None = None) -> list[str]:
    """Return what is wrong with the body of a request for messages, each as `where: what`."""
    found = Complaints()
    check_fields(found, body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        found.add("messages", "expected a non-empty array")
        return found.found
    sound = [_check_message(found, f"messages.{place}", message, signature) for place, message in enumerate(messages)]
    if all(sound):
        _check_roles(found, messages)
        _check_calls(found, messages)
        _check_thinking(found, body, messages)
        if "tools" not in body and any(block["type"] in (_USE, _RESULT) for one in messages for block in _blocks(one)):
            found.add("tools", "requests which have tool_use or tool_result blocks in messages must define tools")
    return found.found


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of a sound message; a string is one of text."""
    content = message["content"]
    return [{"type": _TEXT, "text": content}] if isinstance(content, str) else content


def _check_message(found: Complaints, where: str, message: Any, signature: Signature | None) -> bool:
    """Check one message by itself; tell whether its blocks can be relied on."""
    if not isinstance(message, dict):
        found.add(where, f"expected an object, got {kind(message)}")
        return False
    found.known(where, message, ("role", "content"))
    role = message.get("role")
    if not isinstance(role, str) or role not in _BLOCKS:
        hint = ": the Messages API takes a top-level system parameter" if role == "system" else ""
        found.add(f"{where}.role", f"unexpected role {role!r}{hint}")
        return False
    content = message.get("content")
    if isinstance(content, str):
        found.text(f"{where}.content", content, empty=False)
        return True
    if not isinstance(content, list):
        found.add(f"{where}.content", f"expected a string or an array, got {kind(content)}")
        return False
    if not content:
        found.add(f"{where}.content", "all messages must have non-empty content")
    sound = True
    for place, block in enumerate(content):
        sound &= _check_block(found, f"{where}.content.{place}", block, _BLOCKS[role], signature)
    return sound


def _check_block(
    found: Complaints, where: str, block: Any, kinds: tuple[str, ...], signature: Signature | None
) -> bool:
    if not isinstance(block, dict) or block.get("type") not in kinds:
        told = block.get("type") if isinstance(block, dict) else block
        found.add(f"{where}.type", f"{told!r} is not one of {', '.join(kinds)}")
        return False
    if block["type"] in _BLOCK_FIELDS:
        found.known(where, block, _BLOCK_FIELDS[block["type"]])
    match block["type"]:
        case "text":
            found.text(f"{where}.text", block.get("text"), empty=False)
            return isinstance(block.get("text"), str)
        case "tool_use":
            return _check_use(found, where, block)
        case "tool_result":
            return _check_result(found, where, block)
        case "thinking":
            _check_signed(found, where, block, signature)
        case "redacted_thinking":
            found.text(f"{where}.data", block.get("data"), empty=False)
    return True


def _check_use(found: Complaints, where: str, block: dict[str, Any]) -> bool:
    found.name(f"{where}.name", block.get("name"), _LONGEST_NAME)
    if not isinstance(block.get("input"), dict):
        found.add(f"{where}.input", f"expected an object, got {kind(block.get('input'))}")
    return _check_id(found, f"{where}.id", block.get("id"))


def _check_id(found: Complaints, where: str, given: Any) -> bool:
    if not isinstance(given, str) or _ID.fullmatch(given) is None:
        found.add(where, f"{given!r} does not match ^[a-zA-Z0-9_-]+$")
        return False
    return True


def _check_result(found: Complaints, where: str, block: dict[str, Any]) -> bool:
    found.flag(where, block, "is_error")
    content = block.get("content", "")
    if isinstance(content, list):
        for place, part in enumerate(content):
            told = f"{where}.content.{place}"
            if not isinstance(part, dict) or part.get("type") not in ("text", "image", "document", "search_result"):
                found.add(f"{told}.type", "expected a block of type text, image, document, search_result")
            elif part["type"] == _TEXT:
                found.text(f"{told}.text", part.get("text"), empty=False)
        content = ""
    if not isinstance(content, str):
        found.add(f"{where}.content", f"expected a string or an array, got {kind(content)}")
    return _check_id(found, f"{where}.tool_use_id", block.get("tool_use_id"))


def _check_signed(found: Complaints, where: str, block: dict[str, Any], signature: Signature | None) -> None:
    """What signs thinking is the provider's; whoever made it can tell whether it came back as it was."""
    if not found.text(f"{where}.thinking", block.get("thinking")):
        return
    signed = found.text(f"{where}.signature", block.get("signature"), empty=False)
    if signed and signature is not None and block["signature"] != signature(block["thinking"]):
        found.add(f"{where}.signature", "invalid signature in thinking block")


def _check_roles(found: Complaints, messages: list[dict[str, Any]]) -> None:
    roles = [message["role"] for message in messages]
    if roles[0] != "user":
        found.add("messages.0.role", "the first message must use the user role")
    if not any(block["type"] != _RESULT for block in _blocks(messages[0])):
        found.add("messages.0", "there is no user message before the results of tools")
    for place, (before, role) in enumerate(pairwise(roles), 1):
        if before == role:
            found.add(f"messages.{place}.role", f"roles must alternate between user and assistant: two {role} in a row")
    if roles[-1] != "user":
        found.add(f"messages.{len(roles) - 1}.role", "the conversation must end with a user message")


def _check_calls(found: Complaints, messages: list[dict[str, Any]]) -> None:
    """Every call has its result at the beginning of the next message, and every result its call in the one before."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        where, blocks = f"messages.{place}", _blocks(message)
        _check_results(found, where, [one for one in blocks if one["type"] == _RESULT], open_calls)
        kinds = [block["type"] for block in blocks]
        if _RESULT in kinds and _RESULT in kinds[kinds.count(_RESULT) :]:
            found.add(where, "tool_result blocks must stand at the beginning of their message")
        open_calls = [block["id"] for block in blocks if block["type"] == _USE]
        if any(one != _USE for one in kinds[_first_use(kinds) :]):
            found.add(where, "tool_use ids were found without tool_result blocks immediately after: another block is")
        for call_id in open_calls:
            if call_id in seen:
                found.add(where, f"tool_use ids must be unique: {call_id}")
            seen.add(call_id)
    _check_results(found, "messages", [], open_calls)


def _first_use(kinds: list[str]) -> int:
    return kinds.index(_USE) if _USE in kinds else len(kinds)


def _check_results(found: Complaints, where: str, results: list[dict[str, Any]], open_calls: list[str]) -> None:
    given = [block["tool_use_id"] for block in results]
    for call_id in given:
        if call_id not in open_calls:
            found.add(
                where, f"unexpected tool_use_id found in tool_result blocks: {call_id}: not in the message before"
            )
    for call_id in sorted(set(given)):
        if given.count(call_id) > max(open_calls.count(call_id), 1):
            found.add(where, f"each tool_use must have a single result: {call_id} has {given.count(call_id)}")
    missing = [call_id for call_id in open_calls if call_id not in given]
    if missing:
        told = ", ".join(missing)
        found.add(where, f"tool_use ids were found without tool_result blocks immediately after: {told}")
    elif len(given) == len(open_calls) and sorted(given) == sorted(open_calls) and given != open_calls:
        found.add(where, "results stand in the order of the calls")


def _check_thinking(found: Complaints, body: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    """With manual thinking the assistant message whose results come now begins with the thinking that led to it."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or len(messages) < 2:
        return
    if not any(block["type"] == _RESULT for block in _blocks(messages[-1])) or messages[-2]["role"] != "assistant":
        return
    first = _blocks(messages[-2])[0]["type"] if _blocks(messages[-2]) else ""
    if first not in _THINKING:
        where = f"messages.{len(messages) - 2}.content.0.type"
        found.add(where, f"expected thinking or redacted_thinking, but found {first}: thinking is enabled")
