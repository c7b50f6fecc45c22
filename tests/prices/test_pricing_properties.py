"""Pricing against a reference written with Decimal, and the laws of a price (OBS-51, OBS-26)."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal

from hypothesis import given
from hypothesis import strategies as st

from ledger.prices.pricing import exact_usd, lines, price
from ledger.prices.quote import Band, Quote
from ledger.wire.usage import Usage

CLASSES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
BUCKETS = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
EXACT = Context(prec=80)

rates = st.one_of(
    st.sampled_from(["0", "0.0005", "0.3", "1.5", "3", "3.75", "0.025", "0.003625", "0.083333333", "150"]),
    st.decimals(0, 1000, places=9, allow_nan=False).map(lambda number: format(number, "f")),
)
tokens = st.integers(0, 10**7)
factors = st.sampled_from(["1", "1.1", "2", "6", "0.333333333"])


def bands_of(above: list[int], listed: st.SearchStrategy[str | None]) -> st.SearchStrategy[tuple[Band, ...]]:
    band = st.fixed_dictionaries(dict.fromkeys(CLASSES, listed))
    return st.tuples(*(band for _ in above)).map(
        lambda rows: tuple(Band(above=limit, **row) for limit, row in zip(above, rows, strict=True))
    )


thresholds = st.sampled_from([[0], [0, 200_000], [0, 100_000, 272_000]])


@st.composite
def quotes(draw: st.DrawFn, complete: bool = True) -> Quote:
    listed = rates if complete else st.one_of(st.none(), rates)
    tiers = {"standard": draw(bands_of(draw(thresholds), listed))}
    for tier in draw(st.sets(st.sampled_from(["batch", "priority"]))):
        tiers[tier] = draw(bands_of(draw(thresholds), st.one_of(st.none(), rates)))
    return Quote(
        provider=draw(st.sampled_from(["anthropic", "openai", "google"])),
        model="m",
        tiers=tiers,
        multipliers={"region": {"us": draw(factors)}, "speed": {"fast": draw(factors)}},
        web_search_usd=draw(st.one_of(st.just("0.01"), st.just("0.0025"), st.none() if not complete else st.just("0"))),
        source="test",
    )


@st.composite
def usages(draw: st.DrawFn, plain: bool = False) -> Usage:
    counts = {bucket: draw(tokens) for bucket in BUCKETS}
    if plain:
        return Usage(**counts)
    return Usage(
        **{bucket: draw(st.one_of(st.none(), st.just(count))) for bucket, count in counts.items()},
        web_searches=draw(st.one_of(st.none(), st.integers(0, 20))),
        service_tier=draw(st.sampled_from([None, "standard", "default", "batch", "priority", "flex", "auto"])),
        speed=draw(st.sampled_from([None, "standard", "fast", "warp"])),
        region=draw(st.sampled_from([None, "global", "not_available", "us", "eu"])),
        upper_bound=draw(st.booleans()),
        unsplit_cache_write=draw(st.booleans()),
    )


def reference(quote: Quote, usage: Usage) -> int | None:
    """The rules once more, slowly: Decimal, no compiled form, no shared code."""
    if usage.input_uncached is None and usage.output is None and usage.cache_read is None:
        return None
    tier = "standard" if usage.service_tier in (None, "", "standard", "default") else usage.service_tier
    halving = tier == "batch" and quote.provider != "google"
    if tier not in quote.tiers and not halving:
        return None
    factor = Decimal(1)
    for kind, word, plain in (
        ("speed", usage.speed, (None, "standard")),
        ("region", usage.region, (None, "global", "not_available")),
    ):
        if word in plain:
            continue
        if word not in quote.multipliers[kind] or (kind == "speed" and tier != "standard"):
            return None
        factor = EXACT.multiply(factor, Decimal(quote.multipliers[kind][word]))
    counts = [getattr(usage, bucket) or 0 for bucket in BUCKETS]
    size = sum(counts[:4])
    plain_band = [band for band in quote.tiers["standard"] if size > band.above or band.above == 0][-1]
    reach = [band for band in quote.tiers.get(tier, ()) if size > band.above or band.above == 0]
    band = reach[-1] if reach and reach[-1].above >= plain_band.above else Band()
    total = Decimal(0)
    for what, count in zip(CLASSES, counts, strict=True):
        rate = getattr(band, what)
        if rate is None and halving and getattr(plain_band, what) is not None:
            rate = Decimal(getattr(plain_band, what)) / 2
        if count and rate is None:
            return None
        if count:
            usd = EXACT.multiply(EXACT.multiply(Decimal(count), Decimal(rate)), factor) / 10**6
            total = EXACT.add(total, usd)
    if usage.web_searches:
        if quote.web_search_usd is None:
            return None
        total = EXACT.add(total, usage.web_searches * Decimal(quote.web_search_usd))
    return int((total * 10**9).quantize(Decimal(1), rounding=ROUND_HALF_EVEN, context=EXACT))


@given(quotes(complete=False), usages())
def test_equal_to_the_reference(quote: Quote, usage: Usage) -> None:
    assert price(quote, usage).cost_nanousd == reference(quote, usage)


@given(quotes(complete=False), usages())
def test_unknown_has_a_reason_and_no_bounds_and_known_has_none(quote: Quote, usage: Usage) -> None:
    priced = price(quote, usage)
    if priced.cost_nanousd is None:
        assert priced.reason and "\n" not in priced.reason
        assert not (priced.lower_bound or priced.upper_bound or priced.rules)
    else:
        assert priced.cost_nanousd >= 0
        assert not priced.reason


@given(quotes(complete=False), usages())
def test_the_same_price_again_and_from_the_recorded_json(quote: Quote, usage: Usage) -> None:
    first = price(quote, usage)
    assert price(quote, usage) == first
    assert price(Quote.from_json(quote.to_json()), usage) == first


@given(quotes(complete=False), usages())
def test_lines_add_up(quote: Quote, usage: Usage) -> None:
    """OBS-55: the lines of a price are exact, and rounding their sum once is the price."""
    priced = price(quote, usage)
    total = Decimal(0)
    for line in lines(priced):
        assert EXACT.multiply(Decimal(line.rate_nanousd), Decimal(line.count)) == Decimal(line.amount_nanousd)
        total = EXACT.add(total, Decimal(line.amount_nanousd))
    assert int(total.quantize(Decimal(1), ROUND_HALF_EVEN, EXACT)) == (priced.cost_nanousd or 0)
    assert EXACT.multiply(Decimal(exact_usd(priced)), Decimal(10**9)) == total


@st.composite
def flat_quotes(draw: st.DrawFn) -> Quote:
    """One band: with more, a price jumps at a threshold and no longer adds up, as it must."""
    return Quote(provider="x", model="m", tiers={"standard": draw(bands_of([0], rates))}, source="test")


@given(flat_quotes(), usages(plain=True), usages(plain=True))
def test_additive_up_to_one_rounding_a_span(quote: Quote, one: Usage, other: Usage) -> None:
    """Each of the three prices is off by at most half a nano-dollar."""
    both = Usage(**{bucket: getattr(one, bucket) + getattr(other, bucket) for bucket in BUCKETS})
    parts = (price(quote, one).cost_nanousd or 0) + (price(quote, other).cost_nanousd or 0)
    assert abs(parts - (price(quote, both).cost_nanousd or 0)) <= 1


@given(flat_quotes(), usages(plain=True), st.sampled_from(BUCKETS), tokens)
def test_more_tokens_never_cost_less(quote: Quote, usage: Usage, bucket: str, more: int) -> None:
    counts = {name: getattr(usage, name) for name in BUCKETS}
    larger = Usage(**{**counts, bucket: counts[bucket] + more})
    assert (price(quote, larger).cost_nanousd or 0) >= (price(quote, usage).cost_nanousd or 0)


@given(quotes(), usages(plain=True), st.sampled_from(BUCKETS[1:]))
def test_a_bucket_that_becomes_known_confirms_the_lower_bound(quote: Quote, usage: Usage, bucket: str) -> None:
    """With flat rates: hiding a bucket gives a lower bound of the true cost."""
    flat = Quote(provider="x", model="m", tiers={"standard": quote.tiers["standard"][:1]}, source="test")
    counts = {name: getattr(usage, name) for name in BUCKETS}
    hidden = price(flat, Usage(**{**counts, bucket: None}))
    assert (hidden.cost_nanousd or 0) <= (price(flat, usage).cost_nanousd or 0)
