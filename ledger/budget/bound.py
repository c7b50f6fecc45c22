"""The most that a request can use and cost, before it leaves. Pure.

Tokens. What the provider last reported for the beginning of the conversation, and one token for each byte of what
follows it (no tokenizer makes more tokens than bytes); without a report, one for each byte of the body. Then the
output limit: as it is sent, else what the model can give, else `UNKNOWN_OUTPUT_TOKENS`.

Money. Nobody knows before what will be read from a cache, written to it, in which service tier and in which region.
So all input is priced at the dearest class, in the dearest tier and region that the quote has, in every band that so
much input can reach, and the dearest of these is the bound. It holds for every response whose tokens are within it
and whose cost the quote knows; fees on top of tokens (searches) are not in it, since no request asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ledger.prices.quote import STANDARD, Quote
from ledger.prices.scheme import Rated, Scheme, scheme_of
from ledger.wire.usage import Usage

UNKNOWN_OUTPUT_TOKENS = 131_072
"""What an answer may have where no limit is sent and the model's is not known: no model of an unknown limit was seen
to give more, and one that does shows as an overrun. Whoever has a ceiling of tokens sends a limit."""
ANY = "*"
"""A service tier or region that the request does not fix."""


class Bound(NamedTuple):
    """What a request and its answer can be at most."""

    tokens: int
    """Input and output together."""
    cost_nanousd: int | None
    """None where the price is unknown."""
    input_tokens: int = 0
    output_tokens: int = 0


def bound(
    quote: Quote | None,
    *,
    prefix_tokens: int | None,
    new_bytes: int,
    max_output_tokens: int | None,
    model_max_output: int | None = None,
    service_tier: str = ANY,
    speed: str = STANDARD,
    region: str = ANY,
) -> Bound:
    """Return the most that a request can use and cost.

    `quote` prices the model that is asked, at this time; None: unknown. `prefix_tokens` is what `reported_tokens`
    gave for the last answered request of the same model, whose messages this one begins with, and `new_bytes` is the
    length of what was added since, as JSON; without a report (None) it is the length of the whole body.
    `max_output_tokens` is the limit that the request sends, None for none; `model_max_output` what the model can give
    (tokens), by default what the quote says. `service_tier`, `speed` and `region` are what the request fixes.
    """
    entered = (prefix_tokens or 0) + max(0, new_bytes)
    known = model_max_output if quote is None or model_max_output is not None else quote.max_output
    left = next(limit for limit in (max_output_tokens, known, UNKNOWN_OUTPUT_TOKENS) if limit is not None)
    cost = None if quote is None else _cost(quote, entered, left, (service_tier, speed, region))
    return Bound(entered + left, cost, entered, left)


def reported_tokens(usage: Usage) -> int | None:
    """Return the tokens of an answered request and its answer: what the next request begins with.

    None where input or output was not reported: then the bytes of the whole body are the bound.
    """
    if usage.input_uncached is None or usage.output is None:
        return None
    return max(usage.bucket_total or 0, usage.reported_total or 0)


def _cost(quote: Quote, entered: int, left: int, fixed: tuple[str, str, str]) -> int | None:
    """The dearest cost in nano-dollars, rounded up; None where the tier that is asked for lists no price for it."""
    tier, speed, region = fixed
    dearest: int | None = None
    for one in [STANDARD, *quote.tiers] if tier == ANY else [tier]:
        needed = tier != ANY or one == STANDARD
        for place in ["", *quote.multipliers.get("region", ())] if region == ANY else [region]:
            scheme = scheme_of(quote, one, speed, place)
            costs = list(_band_costs(scheme, entered, left))
            if needed and (scheme.reason or None in costs):
                return None
            dearest = max((cost for cost in (*costs, dearest) if cost is not None), default=None)
    return dearest


def _band_costs(scheme: Scheme, entered: int, left: int) -> Iterator[int | None]:
    """The cost in each band that so much input can reach, None where the band does not list what it takes."""
    ceiling = entered
    for band in scheme.bands:  # from the highest down: a request is in the highest that its input exceeds
        if entered > band.above or band is scheme.bands[-1]:
            yield _band_cost(band, min(entered, ceiling), left, scheme.denominator)
            ceiling = band.above


def _band_cost(band: Rated, entered: int, left: int, denominator: int) -> int | None:
    *inputs, output = band.rates
    listed = [rate for rate in inputs if rate is not None]
    if (entered and not listed) or (left and output is None):
        return None
    total = entered * max(listed, default=0) + left * (output or 0)
    return -(-total // denominator)
