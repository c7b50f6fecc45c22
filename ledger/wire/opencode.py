"""Usage as opencode writes it: `tokens` of a message, disjoint but for the reasoning.

Fields: `input` (uncached), `output`, `reasoning`, `cache.read`, `cache.write`, and `total` in newer versions.
Measured against an endpoint that counted, through the clients' own adapters of four APIs:

- 1.18: `output` is without the reasoning, and `total` has both.
- 1.2: the output is as the adapter gives it, and `total` says whether the reasoning is inside: outside with Google's
  API, inside with the others.
- 1.1: the same without a `total`: then the provider's name decides.

A zero is the client's own where the API said nothing; all zeros are no usage. The client asks for five-minute cache
writes only (seen in its requests).
"""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import count, inner, part_of, plus
from ledger.wire.usage import Part, Usage

_GOOGLE = ("google", "gemini", "vertex")


def parts(usage: dict[str, Any], provider: str, role: str) -> tuple[Part, ...]:
    """Return the one row of a message's `tokens`; `role` is `compaction` where the client says so."""
    uncached, output, reasoning = (count(usage.get(name)) for name in ("input", "output", "reasoning"))
    cache = inner(usage, "cache")
    read, written = count(cache.get("read")), count(cache.get("write"))
    total = count(usage.get("total")) or None
    if not any((uncached, output, reasoning, read, written, total)):
        return ()  # no request takes nothing and gives nothing: the API told no usage
    whole = output
    known = plus(uncached, output, read, written) or 0
    if output is not None and reasoning and _outside(known, reasoning, total, provider):
        whole = plus(output, reasoning)
    counts = Usage(
        input_uncached=uncached,
        cache_read=read,
        cache_write_5m=written,
        cache_write_1h=None if written is None else 0,
        output=whole,
        reasoning=part_of(reasoning, whole),
        reported_total=total,
        upper_bound=uncached is not None and read is None,
    )
    return (Part(role=role or "message", model="", usage=counts),)


def _outside(known: int, reasoning: int, total: int | None, provider: str) -> bool:
    """Return whether the reasoning stands beside the output: by the total where there is one."""
    if total is not None and total in (known, known + reasoning):
        return total != known
    lowered = provider.lower()
    return "vertex-anthropic" not in lowered and any(name in lowered for name in _GOOGLE)
