"""Usage as Gemini CLI writes it into its session files: six flat counts, 0 where the API said nothing.

Fields: `input` (prompt; the cached part is inside), `output` (candidates), `cached`, `thoughts`, `tool` (prompt of
tool use, outside the prompt), `total`. Source: `recordMessageTokens` of Gemini CLI 0.27 to 0.61, measured against an
endpoint that counted. Where the counts add up to `total` in another way only (cached outside the input, thoughts
inside the output), that way holds: the total is the API's own sum.
"""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import count, part_of, plus
from ledger.wire.usage import Part, Usage


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """Return the one row of a message's `tokens`."""
    prompt, output = count(usage.get("input")), count(usage.get("output"))
    cached, thoughts, tool = (count(usage.get(name)) for name in ("cached", "thoughts", "tool"))
    total = count(usage.get("total")) or None  # the client writes 0 where the API gave no total
    outside, inside = _ways(prompt, output, cached or 0, thoughts or 0, tool or 0, total)
    uncached = prompt if outside or prompt is None else max(prompt - (cached or 0), 0)
    input_uncached = None if uncached is None else plus(uncached, tool)
    whole = output if inside or output is None else plus(output, thoughts)
    counts = Usage(
        input_uncached=input_uncached,
        cache_read=cached if outside else part_of(cached, prompt),
        output=whole,
        reasoning=part_of(thoughts, whole),
        reported_total=total,
        tool_use_prompt=part_of(tool, input_uncached),
        upper_bound=input_uncached is not None and cached is None,
    )
    return (Part(role="message", model="", usage=counts),)


def _ways(
    prompt: int | None, output: int | None, cached: int, thoughts: int, tool: int, total: int | None
) -> tuple[bool, bool]:
    """Return whether the cached part is outside the prompt, and whether the thoughts are inside the output."""
    if prompt is None or output is None or total is None or total == prompt + output + thoughts + tool:
        return False, False
    known = prompt + output + tool
    ways = ((total == known + thoughts + cached, (True, False)), (total == known, (False, True)),
            (total == known + cached, (True, True)))  # fmt: skip
    return next((way for fits, way in ways if fits), (False, False))
