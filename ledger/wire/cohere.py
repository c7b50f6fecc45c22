"""Cohere v2: `tokens` are what the model saw, `billed_units` what is billed; both are kept, apart (OBS-22).

The billed input leaves out the prompt frame that Cohere adds, and may leave out more. `cached_tokens` at
the top level is a part of `tokens.input_tokens`. No total is given. Account rule (OBS-13): a stream has one
object, in message-end; the *last* is the account, and a stream without one is unknown.
"""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import count, inner
from ledger.wire.usage import Part, Usage


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """The row of one usage object, or of the `meta` object of the older version."""
    tokens, billed = inner(usage, "tokens"), inner(usage, "billed_units")
    given, cached = count(tokens.get("input_tokens")), count(usage.get("cached_tokens"))
    counts = Usage(
        input_uncached=None if given is None else max(given - (cached or 0), 0),
        cache_read=cached,
        output=count(tokens.get("output_tokens")),
        billed_input=count(billed.get("input_tokens")),
        billed_output=count(billed.get("output_tokens")),
        upper_bound=given is not None and cached is None,
    )
    return (Part(role="message", model="", usage=counts),)
