"""The bound of a request: no response whose tokens are within it costs more, whatever the provider says of it."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ledger.budget.bound import ANY, UNKNOWN_OUTPUT_TOKENS, Bound, bound, reported_tokens
from ledger.prices.book import Book
from ledger.prices.pricing import price
from ledger.prices.quote import CLASSES, Band, Quote
from ledger.wire.usage import Usage

AT = 1_796_000_000_000_000
BUCKETS = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")
BOOK = Book.bundled()

rates = st.one_of(
    st.sampled_from(["0", "0.3", "3", "3.75", "6", "0.083333333", "150"]),
    st.decimals(0, 1000, places=9, allow_nan=False).map(lambda number: format(number, "f")),
)
factors = st.sampled_from(["0.5", "1", "1.1", "2", "6", "0.333333333"])
thresholds = st.sampled_from([[0], [0, 200_000], [0, 1_000, 272_000]])


@st.composite
def bands(draw: st.DrawFn, listed: st.SearchStrategy[str | None]) -> tuple[Band, ...]:
    return tuple(Band(above=above, **{name: draw(listed) for name in CLASSES}) for above in draw(thresholds))


@st.composite
def quotes(draw: st.DrawFn) -> Quote:
    maybe = st.one_of(st.none(), rates)
    tiers = {"standard": draw(bands(draw(st.sampled_from([rates, maybe]))))}
    for tier in draw(st.sets(st.sampled_from(["batch", "priority", "flex"]))):
        tiers[tier] = draw(bands(maybe))
    multipliers = {"region": {"us": draw(factors)}, "speed": {"fast": draw(factors)}}
    return Quote(
        provider=draw(st.sampled_from(["anthropic", "google"])), model="m", tiers=tiers, multipliers=multipliers,
        max_output=draw(st.one_of(st.none(), st.integers(1, 200_000))), source="test",
    )  # fmt: skip


@st.composite
def usages(draw: st.DrawFn, within: Bound, speed: str, tiers: list[str], regions: list[str]) -> Usage:
    """A response whose tokens are within a bound, split over the classes in any way."""
    left = draw(st.integers(0, within.input_tokens) | st.just(within.input_tokens))
    counts: dict[str, int | None] = {}
    for name in draw(st.permutations(BUCKETS)):
        count = draw(st.integers(0, left) | st.just(left))
        left -= count
        counts[name] = count if count or draw(st.booleans()) else None
    return Usage(
        **counts,
        output=draw(st.integers(0, within.output_tokens) | st.just(within.output_tokens)),
        service_tier=draw(st.sampled_from(tiers)),
        speed=speed,
        region=draw(st.sampled_from(regions)),
        upper_bound=draw(st.booleans()),
        unsplit_cache_write=draw(st.booleans()),
    )


@given(st.data(), quotes())
def test_no_response_within_it_costs_more(data: st.DataObject, quote: Quote) -> None:
    """LOOP-02, OBS-51: for every tier, region, band and class, unless the request fixes them."""
    tier = data.draw(st.sampled_from([ANY, "standard", "priority"]))
    region = data.draw(st.sampled_from([ANY, "", "us"]))
    speed = data.draw(st.sampled_from(["standard", "fast"]))
    wanted = bound(
        quote,
        prefix_tokens=data.draw(st.none() | st.integers(0, 300_000)),
        new_bytes=data.draw(st.integers(0, 300_000)),
        max_output_tokens=data.draw(st.none() | st.integers(0, 64_000)),
        service_tier=tier,
        region=region,
        speed=speed,
    )
    tiers = ["standard", "default", "batch", "priority", "flex", "auto"] if tier == ANY else [tier]
    usage = data.draw(usages(wanted, speed, tiers, ["global", "us", "eu"] if region == ANY else [region]))
    cost = price(quote, usage).cost_nanousd
    if wanted.cost_nanousd is not None and cost is not None:
        assert cost <= wanted.cost_nanousd


@given(quotes(), st.integers(1, 400_000), st.integers(1, 64_000))
def test_it_is_unknown_only_where_the_standard_price_may_be(quote: Quote, entered: int, left: int) -> None:
    """OBS-51: a bound is known where the standard tier prices every such response."""
    wanted = bound(quote, prefix_tokens=None, new_bytes=entered, max_output_tokens=left)
    reached = [band for band in quote.tiers["standard"] if entered > band.above or not band.above]
    inputs = [any(rate is not None for rate in band.rates()[:4]) and band.output is not None for band in reached]
    assert (wanted.cost_nanousd is not None) == all(inputs)


def test_it_holds_for_every_model_of_the_book() -> None:
    """Each class alone, all input in it and all output, in every tier and region of the quote."""
    priced = 0
    for quote in filter(None, (BOOK.find(*name, AT) for name in BOOK.models())):
        for entered in (10, 150_000, 900_000):
            wanted = bound(quote, prefix_tokens=entered - 10, new_bytes=10, max_output_tokens=8_000).cost_nanousd
            for tier, region, name in product(quote.tiers, ("", *quote.multipliers.get("region", ())), BUCKETS):
                usage = Usage(**{name: entered, "output": 8_000}, service_tier=tier, region=region)
                cost = price(quote, usage).cost_nanousd
                if wanted is not None and cost is not None:
                    assert cost <= wanted, (quote.provider, quote.model, tier, region, name)
                    priced += 1
    assert priced > 1_000


def plain(**rest: str) -> Quote:
    band = Band(input="3", cache_read="0.3", cache_write_5m="3.75", cache_write_1h="6", output="15", **rest)  # type: ignore[arg-type]
    above = Band(above=200_000, input="6", cache_read="0.6", cache_write_5m="7.5", cache_write_1h="12", output="22.5")
    return Quote(provider="x", model="m", tiers={"standard": (band, above)}, source="test", max_output=64_000)


def test_the_arithmetic_of_one_by_hand() -> None:
    """9,000 tokens that were reported and 1,000 bytes, all written for an hour, and 2,000 of output."""
    found = bound(plain(), prefix_tokens=9_000, new_bytes=1_000, max_output_tokens=2_000)
    assert found == Bound(12_000, 10_000 * 6_000 + 2_000 * 15_000, 10_000, 2_000)


def test_the_band_for_much_input_counts_only_where_it_can_be_reached() -> None:
    """200,000 tokens are not above 200,000; one byte more makes the whole request dear."""
    below = bound(plain(), prefix_tokens=199_999, new_bytes=1, max_output_tokens=0)
    above = bound(plain(), prefix_tokens=200_000, new_bytes=1, max_output_tokens=0)
    assert (below.cost_nanousd, above.cost_nanousd) == (200_000 * 6_000, 200_001 * 12_000)


def test_the_limit_of_the_output_is_what_is_sent_then_what_is_known_then_a_default() -> None:
    """A limit that is not sent is the model's; a model that nobody knows has the documented one."""
    sent = bound(plain(), prefix_tokens=None, new_bytes=5, max_output_tokens=100)
    known = bound(plain(), prefix_tokens=None, new_bytes=5, max_output_tokens=None)
    told = bound(plain(), prefix_tokens=None, new_bytes=5, max_output_tokens=None, model_max_output=7)
    unknown = bound(None, prefix_tokens=None, new_bytes=5, max_output_tokens=None)
    assert [one.tokens for one in (sent, known, told, unknown)] == [105, 64_005, 12, 5 + UNKNOWN_OUTPUT_TOKENS]
    assert unknown.cost_nanousd is None


def test_a_free_model_has_a_bound_of_nothing_and_an_unpriced_one_has_none() -> None:
    """OBS-51: free is a price, and unknown is none."""
    free = Quote(provider="x", model="m", tiers={"standard": (Band(input="0", output="0"),)}, source="test")
    partly = Quote(provider="x", model="m", tiers={"standard": (Band(input="1"),)}, source="test")
    costs = [
        bound(one, prefix_tokens=None, new_bytes=5, max_output_tokens=5).cost_nanousd for one in (free, partly, None)
    ]
    assert costs == [0, None, None]


def test_what_was_reported_is_all_input_and_the_output() -> None:
    """The next request begins with both. Without either number there is no report."""
    assert reported_tokens(Usage(input_uncached=1, cache_read=2, cache_write_5m=4, output=8)) == 15
    assert reported_tokens(Usage(input_uncached=1, output=8, reported_total=20)) == 20
    assert reported_tokens(Usage(input_uncached=1)) is None
    assert reported_tokens(Usage(output=8)) is None
