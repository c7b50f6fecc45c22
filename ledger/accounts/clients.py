"""What differs from client to client in the fold: how responses are told apart and what their usage means."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.accounts.claims import Claim, Facts, Sight, by_copy, by_lineage, by_request, by_response, lone_claim
from ledger.events.sources import Cumulative, Response
from ledger.wire import anthropic, codex, gemini_cli, opencode
from ledger.wire.usage import Part, Usage

_decode = msgspec.json.Decoder().decode

PLACEHOLDER_OUTPUT_TOKENS = 10
"""A Claude Code response without any stop reason and with at most this much output is a placeholder."""


def quoted(native: str) -> str:
    """Return a native id that can stand between colons."""
    if native.isidentifier():  # most are: one look in place of four
        return native
    if ":" not in native and "%" not in native and "+" not in native and ";" not in native:
        return native
    return native.replace("%", "%25").replace(":", "%3A").replace("+", "%2B").replace(";", "%3B")


def group_of(client: str, observation: Any) -> str:
    """Return the id under which all sightings of one response meet."""
    if type(observation) is Cumulative:
        return f"{client}:~{observation.chain}"
    return group_of_id(client, observation.id)


def group_of_id(client: str, native: str) -> str:
    """Return the group of a response's id.

    That of opencode is `MESSAGE~INSTANT`: messages of one instant meet, since a fork's copies have other ids.
    """
    if client == "opencode":
        native = native.rpartition("~")[2]
    return f"{client}:{quoted(native)}"


def message_of(native: str) -> str:
    """Return the message's own id of an id of opencode."""
    return native.rpartition("~")[0] or native


def group_of_span(span_id: str) -> str:
    """Return the group that a span came from."""
    client, native, _ = span_id.split(":", 2)
    return f"{client}:{native}"


def variant_of_span(span_id: str) -> str:
    """Return the variant part of a span id, without what marks a row beside the response's own."""
    return span_id.split(":", 2)[2].partition("+")[0]


def decide(group_id: str, sights: list[Sight], facts: Facts) -> list[Claim]:
    """Return the responses that count among the sightings of one group, by the client's rule."""
    client, _, native = group_id.partition(":")
    if len(sights) == 1 and client != "codex":
        return [lone_claim(sights[0])]
    if client == "codex":
        return by_lineage(sights, facts) if native.startswith("~") else by_response(sights, facts)
    if client == "gemini":
        return by_response(sights, facts)
    return by_copy(sights, facts) if client == "opencode" else by_request(sights, facts)


def parts_of(client: str, observation: Any, provider: str) -> tuple[Part, ...]:
    """Return the rows that an observation's usage stands for; none for a failed request."""
    if type(observation) is Response:
        if client == "claude-code":
            return anthropic.parts_of_json(observation.usage)
        if client == "codex":
            return codex.parts_of_json(observation.usage)
        usage = _decode(observation.usage)
        if type(usage) is not dict:
            return ()
        if client == "opencode":
            return opencode.parts(usage, provider, observation.role)
        return gemini_cli.parts(usage) if client == "gemini" else codex.parts(usage)
    if type(observation) is Cumulative:
        total, before, last = observation.total, observation.before, observation.last
        return codex.step_of_json(total, before, last, carried=observation.carried)
    return ()


def usage_of(client: str, observation: Any, provider: str) -> Usage | None:
    """Return the usage of an observation that stands for one row of its own model; None of every other."""
    kind = type(observation)
    if kind is Response and client == "claude-code":
        usage = anthropic.usage_of_json(observation.usage)
    elif kind is Response and client == "codex":
        usage = codex.usage_of_json(observation.usage)
    elif kind is Cumulative:
        total, before, last = observation.total, observation.before, observation.last
        usage = codex.step_usage_of_json(total, before, last, carried=observation.carried)
    else:
        usage = None
    if usage is not None:
        return usage
    parts = parts_of(client, observation, provider)
    return parts[0].usage if len(parts) == 1 and parts[0].role == "message" and not parts[0].model else None


def is_placeholder(span_id: str, final: int, part: str, output: int | None) -> bool:
    """Return whether a response is only the opening of one whose end was never written."""
    if final or part or not span_id.startswith("claude-code:"):
        return False
    return (output or 0) <= PLACEHOLDER_OUTPUT_TOKENS


def provider_of(client: str, said: str) -> str:
    """Return the provider, where the log does not name one."""
    return said or {"claude-code": "anthropic", "codex": "openai", "gemini": "google"}.get(client, "")
