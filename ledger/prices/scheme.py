"""A quote compiled for one service tier, speed and region: integer rates over one denominator, or the reason.

Pricing happens once a span in a fold of millions, so everything that does not depend on the counts is done
here, once a quote and combination. A rate of 1 USD per million tokens is 1,000 nano-dollars a token.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ledger.prices.quote import STANDARD, Band, Quote, scaled

BATCH = "batch"
STANDARD_NAMES = frozenset({None, "", "standard", "default", "on_demand"})
"""What providers call the tier that one gets without asking. `auto` is not one: it is what was asked for, and
it may have been served as priority or flex."""
PLAIN_SPEEDS = frozenset({None, "", "standard"})
PLAIN_REGIONS = frozenset({None, "", "not_available", "global"})
HALVES_BATCH = frozenset({"anthropic", "openai"})
"""The sellers that publish half price for every class of a batch."""

_SCALE = 10**9
"""What the decimals of a quote are multiplied with to be integers; also the nano-dollars of a dollar."""
_NANO_A_TOKEN = 1000
_SCHEMES_MAX = 64

Rates = tuple[int | None, ...]


class Rated(NamedTuple):
    """A compiled band: integer rates in the order of CLASSES, None where not listed, and the rules in it."""

    above: int
    rates: Rates
    rules: tuple[str, ...]


class Scheme(NamedTuple):
    """Bands from the highest down, the fee a search and their denominator; or why there is nothing."""

    bands: tuple[Rated, ...]
    search: int | None
    denominator: int
    reason: str


def scheme_of(quote: Quote, service_tier: str | None, speed: str | None, region: str | None) -> Scheme:
    """The scheme for what a response says of itself. Raises PriceError where the quote is not well formed."""
    asked = (service_tier, speed, region)
    known: dict[tuple[str | None, ...], Scheme] = quote.__dict__.setdefault("schemes", {})
    scheme = known.get(asked)
    if scheme is None:
        scheme = _compile(quote, *asked)
        if len(known) < _SCHEMES_MAX:
            # Bounded: a hostile log may carry any number of invented tiers.
            known[asked] = scheme
    return scheme


def _compile(quote: Quote, service_tier: str | None, speed: str | None, region: str | None) -> Scheme:
    tier = STANDARD if service_tier in STANDARD_NAMES else str(service_tier)
    if tier not in quote.tiers and not (tier == BATCH and _halves(quote)):
        return _nothing(f"service tier {tier[:40]!r} has no listed price")
    asked = []
    if speed not in PLAIN_SPEEDS:
        if tier != STANDARD:
            return _nothing(f"speed {str(speed)[:40]!r} under service tier {tier!r} has no listed price")
        asked.append(("speed", str(speed)))
    if region not in PLAIN_REGIONS:
        asked.append(("region", str(region)))
    factors, rules = [], [] if tier == STANDARD else [f"tier:{tier}"]
    for kind, word in asked:
        listed = quote.multipliers.get(kind, {}).get(word)
        if listed is None:
            return _nothing(f"{kind} {word[:40]!r} has no listed price")
        factors.append(scaled(listed))
        rules.append(f"{kind}:{word}")
    return _integers(quote, _bands(quote, tier), factors, tuple(rules))


def _nothing(reason: str) -> Scheme:
    return Scheme((), None, 1, reason)


def _halves(quote: Quote) -> bool:
    return quote.provider in HALVES_BATCH and STANDARD in quote.tiers


def _bands(quote: Quote, tier: str) -> list[Rated]:
    """The bands of a tier, in rates that are doubled and scaled so that half of one is an integer too.

    Where the standard tier has a higher band than another tier, that tier lists nothing for it: its base
    rate is not the price of a long request. A batch that halves has half of the standard rate there.
    """
    own, standard = quote.tiers.get(tier, ()), quote.tiers.get(STANDARD, ())
    halving = tier == BATCH and _halves(quote)
    bands = []
    for above in sorted({band.above for band in (*own, *standard)} | {0}):
        mine, plain = _at(own, above), _at(standard, above)
        if mine.above < plain.above:
            mine = Band(above=above)
        listed = tuple(None if rate is None else 2 * scaled(rate) for rate in mine.rates())
        halves = tuple(None if rate is None else scaled(rate) for rate in plain.rates()) if halving else listed
        rates = tuple(half if rate is None else rate for rate, half in zip(listed, halves, strict=True))
        rules = ("batch_half",) if rates != listed else ()
        bands.append(Rated(above, rates, rules + ((f"above:{above}",) if above else ())))
    return bands


def _at(bands: tuple[Band, ...], above: int) -> Band:
    """The band that holds just over `above` tokens; one without rates where a tier has none."""
    return max((band for band in bands if band.above <= above), key=lambda band: band.above, default=Band())


def _integers(quote: Quote, bands: list[Rated], factors: list[int], rules: tuple[str, ...]) -> Scheme:
    """Everything over one denominator, the highest band first, so that a price is integer products."""
    factor, denominator = _NANO_A_TOKEN, 2 * _SCALE
    for one in factors:
        factor, denominator = factor * one, denominator * _SCALE
    search = None if quote.web_search_usd is None else scaled(quote.web_search_usd) * denominator
    rows = [[None if rate is None else rate * factor for rate in band.rates] for band in bands]
    common = gcd(denominator, *(rate for row in rows for rate in [*row, search] if rate is not None))
    compiled = tuple(
        Rated(band.above, tuple(_over(rate, common) for rate in row), rules + band.rules)
        for band, row in zip(bands[::-1], rows[::-1], strict=True)
    )
    return Scheme(compiled, _over(search, common), denominator // common, "")


def _over(value: int | None, divisor: int) -> int | None:
    return None if value is None else value // divisor
