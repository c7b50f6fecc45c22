"""Whether a request is well-formed: what the strictest endpoint of a protocol would answer 400 to. Pure.

The rules are those that providers document, or that their answers state; `strict_chat` and `strict_anthropic` say
from where. Three rules are this project's own, and are marked so there: results stand in the order of their calls, the
ids of calls are unique in a conversation of either protocol, and the conversation does not end with the model's word.
"""

from __future__ import annotations

from typing import Any

from agent.rehearsal.strict_anthropic import anthropic_complaints
from agent.rehearsal.strict_chat import chat_complaints
from agent.rehearsal.strict_words import Signature


def complaints(protocol: str, body: Any, *, signature: Signature | None = None) -> list[str]:
    """Return what is wrong with a request's body, each as `where: what`; empty for a well-formed one.

    `protocol` is `openai-chat` or `anthropic`. With `signature`, signed thinking must carry what that makes of it.
    """
    if not isinstance(body, dict):
        return ["body: is no object"]
    if protocol == "anthropic":
        return anthropic_complaints(body, signature)
    return chat_complaints(body)


def header_complaints(protocol: str, headers: dict[str, str]) -> list[str]:
    """Return what is wrong with a request's headers, whose names are in small letters."""
    found = []
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        found.append("content-type: must be application/json")
    if protocol == "anthropic" and not headers.get("anthropic-version"):
        found.append("anthropic-version: header is required")
    return found
