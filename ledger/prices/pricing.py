"""Usage x quote = integer nano-dollars, or unknown with the reason (OBS-51).

Arithmetic. A price is a sum of integer products and **one rounding a span**, half to even, to whole
nano-dollars. No floating point and no decimal takes part.

Names in `Priced.rules`:

| rule | meaning |
|---|---|
| `tier:NAME` | the rates of a service tier other than standard |
| `batch_half` | a batch rate that is not listed: half of standard (Anthropic, OpenAI) |
| `above:N` | all input exceeds N tokens: the whole request at the rates of the upper band |
| `region:NAME`, `speed:NAME` | a factor on every token class, not on searches |
| `web_search` | a fee a search on top of tokens, the same in every tier |
| `billed_units` | the provider bills other counts than it reports as tokens (Cohere) |
| `cache_write_as_5m` | cache writes of unknown duration at the 5 minute rate: a lower bound |
| `input_at_full_rate` | the cached part of the input is unknown: an upper bound |
| `unreported:CLASS` | a class that has a price was not reported and adds nothing: a lower bound |

Unknown, never standard: a tier, speed or region that the quote does not list, a class with tokens and no
rate, a search without a price, a fast request under another tier than standard, no token count at all.
"""

from __future__ import annotations

import msgspec

from ledger.prices.quote import CLASSES, Quote
from ledger.prices.scheme import Rated, Scheme, scheme_of
from ledger.wire.usage import Usage

Counts = tuple[int | None, int | None, int | None, int | None, int | None]
_WRITES = {"cache_write_5m", "cache_write_1h"}
_NANO, _MILLION = 10**9, 10**6


Product = tuple[str, int, int]
"""What was charged (a token class, or `web_search`), how many, and the rate: over the price's denominator."""


class Priced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a span costs under one quote: an integer, or None and the reason.

    The cost is the sum of `products`, divided by `denominator` and rounded once. `lines` shows them as decimals.
    """

    cost_nanousd: int | None = None
    lower_bound: bool = False
    """The true cost is this or more."""
    upper_bound: bool = False
    """The true cost is this or less."""
    rules: tuple[str, ...] = ()
    reason: str = ""
    """Why the cost is unknown, in one line; empty where it is known."""
    products: tuple[Product, ...] = ()
    """One a class with tokens; empty where the cost is unknown."""
    denominator: int = 1


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One product of a price as decimals. Exact: the amounts add up to the cost before rounding."""

    what: str
    """A token class, or `web_search`."""
    count: int
    rate_nanousd: str
    """Nano-dollars a token or a search, every factor included ("1000" is 1 USD per million tokens)."""
    amount_nanousd: str
    """count x rate, a decimal."""
    rate_usd: str
    """The rate as prices are listed: US dollars per million tokens, or a search."""
    amount_usd: str
    """The amount in US dollars."""


def price(quote: Quote, usage: Usage) -> Priced:
    """The cost of one response under one quote: exact integers, one rounding (half to even), or unknown.

    Pure. Tokens of a bucket that is unknown (None) add nothing; whether that makes the cost a bound is
    stated in the result. Raises PriceError only where the quote itself is not well formed.
    """
    if usage.unknown:
        return Priced(reason="no token count was reported")
    scheme = scheme_of(quote, usage.service_tier, usage.speed, usage.region)
    if scheme.reason:
        return Priced(reason=scheme.reason)
    counts, rules = _counts(usage)
    band = _band(scheme, counts)
    products = []
    for what, count, rate in zip(CLASSES, counts, band.rates, strict=True):
        if count:
            if rate is None:
                return Priced(reason=_unlisted(counts, band))
            products.append((what, count, rate))
    if usage.web_searches:
        if scheme.search is None:
            return Priced(reason="web searches have no listed price")
        products.append(("web_search", usage.web_searches, scheme.search))
        rules = (*rules, "web_search")
    cost_nanousd = _half_even(sum([count * rate for _, count, rate in products]), scheme.denominator)
    lower, upper, rules = False, False, band.rules + rules
    if None in counts or usage.upper_bound or usage.unsplit_cache_write:
        lower, upper, rules = _bounded(usage, counts, band, rules)
    return Priced(
        cost_nanousd=cost_nanousd,
        lower_bound=lower,
        upper_bound=upper,
        rules=rules,
        products=tuple(products),
        denominator=scheme.denominator,
    )


def lines(priced: Priced) -> tuple[Line, ...]:
    """The products that a price is the sum of, one a class with tokens; empty where the cost is unknown."""
    below = priced.denominator
    return tuple(
        Line(
            what=what,
            count=count,
            rate_nanousd=_decimal(rate, below),
            amount_nanousd=_decimal(count * rate, below),
            rate_usd=_decimal(rate, below * (_NANO if what == "web_search" else _NANO // _MILLION)),
            amount_usd=_decimal(count * rate, below * _NANO),
        )
        for what, count, rate in priced.products
    )


def exact_usd(priced: Priced) -> str:
    """The sum of the products before it was rounded, in US dollars, a decimal."""
    return _decimal(sum(count * rate for _, count, rate in priced.products), priced.denominator * _NANO)


def _counts(usage: Usage) -> tuple[Counts, tuple[str, ...]]:
    """The five counts to price, in the order of CLASSES: what is billed where that is said, else tokens."""
    entered, left = usage.input_uncached, usage.output
    rules: tuple[str, ...] = ()
    if usage.billed_input is not None or usage.billed_output is not None:
        entered = entered if usage.billed_input is None else usage.billed_input
        left = left if usage.billed_output is None else usage.billed_output
        rules = ("billed_units",)
    return (entered, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h, left), rules


def _band(scheme: Scheme, counts: Counts) -> Rated:
    """The band of a request: chosen by all of its input, and it prices the whole request."""
    bands = scheme.bands
    if len(bands) == 1:
        return bands[0]
    all_input = (counts[0] or 0) + (counts[1] or 0) + (counts[2] or 0) + (counts[3] or 0)
    for band in bands:
        if all_input > band.above:
            return band
    return bands[-1]


def _half_even(total: int, denominator: int) -> int:
    """total / denominator to the nearest integer, a tie to the even one."""
    whole, rest = divmod(total, denominator)
    twice = rest * 2
    if twice > denominator or (twice == denominator and whole & 1):
        return whole + 1
    return whole


def _bounded(usage: Usage, counts: Counts, band: Rated, rules: tuple[str, ...]) -> tuple[bool, bool, tuple[str, ...]]:
    """Whether unknown counts make a cost a lower and an upper bound, and the rules with what says so."""
    missing = [f"unreported:{what}" for what in _unreported(usage, counts, band)]
    if usage.unsplit_cache_write and usage.cache_write_5m:
        missing.insert(0, "cache_write_as_5m")
    notes = ("input_at_full_rate",) if usage.upper_bound else ()
    return bool(missing), usage.upper_bound, (*rules, *notes, *missing)


def _unreported(usage: Usage, counts: Counts, band: Rated) -> list[str]:
    """The classes that may have cost something and were not reported.

    A class without a listed rate cannot have been charged, so not to report it is no loss (an OpenAI answer
    without 1 hour writes, an embedding without output). Writes count as reported when either kind is.
    """
    rated = zip(CLASSES, counts, band.rates, strict=True)
    missing = {what for what, count, rate in rated if count is None and rate}
    if usage.upper_bound:
        # Their tokens stand in the uncached input and are priced there.
        missing -= {"cache_read"} | _WRITES
    if usage.cache_write_5m is not None or usage.cache_write_1h is not None:
        missing -= _WRITES
    return [what for what in CLASSES if what in missing]


def _unlisted(counts: Counts, band: Rated) -> str:
    rated = zip(CLASSES, counts, band.rates, strict=True)
    missing = ", ".join(what for what, count, rate in rated if count and rate is None)
    over = f" above {band.above} tokens" if band.above else ""
    return f"no rate is listed for {missing}{over}"


def _decimal(numerator: int, denominator: int) -> str:
    """An exact decimal. A denominator made of decimals and halves divides a power of ten."""
    places, power = 0, 1
    while power % denominator:
        places, power = places + 1, power * 10
    whole, rest = divmod(numerator * (power // denominator), power)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".") if places else str(whole)
