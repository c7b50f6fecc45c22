"""Gemini and Vertex `usageMetadata`: cached inside the prompt, tool-use prompt and thoughts outside.

Total = prompt + tool-use prompt + candidates + thoughts (OBS-22). Account rule (OBS-13): every frame of a
stream has a cumulative object that may fall; the *last* alone is the account. Nothing in the object says
whether a frame is the final one, so `partial` is not known here and stays False.

The object is protobuf JSON, which leaves zero fields out: with the object present a missing prompt or
candidates count is 0. `cache_read` and `reasoning` are still unknown where they are missing, so that what
was said and what was left out stay apart; it is no upper bound, since a left-out cached part is 0.
"""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import count, first_count, part_of, plus, word
from ledger.wire.usage import Part, Usage


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """The row of one `usageMetadata`; empty for an empty object, which says nothing."""
    if not usage:
        return ()
    prompt = _or_zero(usage, "promptTokenCount")
    tools = count(usage.get("toolUsePromptTokenCount"))
    cached = count(usage.get("cachedContentTokenCount"))
    thoughts = count(usage.get("thoughtsTokenCount"))
    output = _output(usage)
    # Tokens of a tool's answer are never cached, so a cached part greater than the prompt is clamped to it.
    uncached = None if prompt is None else plus(max(prompt - (cached or 0), 0), tools)
    counts = Usage(
        input_uncached=uncached,
        cache_read=cached,
        output=output,
        reasoning=part_of(thoughts, output),
        reported_total=count(usage.get("totalTokenCount")),
        tool_use_prompt=part_of(tools, uncached),
        service_tier=word(usage.get("serviceTier")),
    )
    return (Part(role="message", model="", usage=counts),)


def _output(usage: dict[str, Any]) -> int | None:
    """Candidates + thoughts; the live API calls the candidates `responseTokenCount`."""
    stated = first_count(usage, "candidatesTokenCount", "responseTokenCount")
    answer = stated if stated is not None else _or_zero(usage, "candidatesTokenCount")
    thoughts = _or_zero(usage, "thoughtsTokenCount")
    return None if answer is None or thoughts is None else plus(answer, thoughts)


def _or_zero(usage: dict[str, Any], name: str) -> int | None:
    """The count, 0 where protobuf left it out, None where something that is no count stands there."""
    return 0 if usage.get(name) is None else count(usage[name])
