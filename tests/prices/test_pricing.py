"""Every rule of the price book with a figure worked out by hand: exact, or unknown (OBS-51, OBS-24)."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from ledger.prices.book import Book
from ledger.prices.pricing import Priced, exact_usd, lines, price
from ledger.prices.quote import Band, PriceError, Quote
from ledger.wire.usage import Usage

USD = 10**9
BOOK = Book.bundled()


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**6


def cost(model: str, usage: Usage, provider: str = "anthropic", at: str = "2026-11-30") -> Priced:
    quote = BOOK.find(provider, model, us(at))
    assert quote is not None, model
    return bare(price(quote, usage))


def bare(priced: Priced) -> Priced:
    """What is compared by hand: cost, bounds, rules, reason. The products have tests of their own."""
    return msgspec.structs.replace(priced, products=(), denominator=1)


def known(model: str, usage: Usage, provider: str = "anthropic", at: str = "2026-11-30") -> int:
    priced = cost(model, usage, provider, at)
    assert priced.cost_nanousd is not None, priced.reason
    return priced.cost_nanousd


def usage(
    uncached: int | None = 0,
    read: int | None = 0,
    write_5m: int | None = 0,
    write_1h: int | None = 0,
    output: int | None = 0,
    **more: object,
) -> Usage:
    return Usage(
        input_uncached=uncached,
        cache_read=read,
        cache_write_5m=write_5m,
        cache_write_1h=write_1h,
        output=output,
        **more,  # type: ignore[arg-type]
    )


def test_every_class_has_its_own_rate() -> None:
    """Opus 4.5: 1,000 x 5 + 2,000 x 0.5 + 3,000 x 6.25 + 4,000 x 10 + 5,000 x 25 USD/M = 0.18975 USD."""
    assert known("claude-opus-4-5-20251101", usage(1000, 2000, 3000, 4000, 5000)) == 189_750_000


def test_one_hour_write() -> None:
    """Opus 4.5, 100,000 tokens written for one hour: 0.1 x 10 USD = 1 USD, not 0.625."""
    assert known("claude-opus-4-5-20251101", usage(write_1h=100_000)) == 1 * USD


def test_long_context_prices_the_whole_request() -> None:
    """Sonnet 4.5, 100k input + 200k read + 1,000 output: 0.1 x 6 + 0.2 x 0.6 + 0.001 x 22.5 = 0.7425 USD."""
    priced = cost("claude-sonnet-4-5-20250929", usage(100_000, 200_000, output=1000), at="2026-03-10")
    assert priced == Priced(cost_nanousd=742_500_000, rules=("above:200000",))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # Exactly at the threshold: 0.2 x 3 = 0.6 USD. One token more, of any input class: the upper rates.
        ((200_000, 0, 0, 0), 600_000_000),
        ((200_001, 0, 0, 0), 1_200_006_000),
        ((200_000, 1, 0, 0), 1_200_000_600),
        ((200_000, 0, 1, 0), 1_200_007_500),
        ((200_000, 0, 0, 1), 1_200_012_000),
    ],
)
def test_the_threshold_counts_all_input_and_must_be_exceeded(counts: tuple[int, int, int, int], expected: int) -> None:
    assert known("claude-sonnet-4-5", usage(*counts)) == expected


def test_output_does_not_count_to_the_threshold() -> None:
    """200,000 x 3 + 100,000 x 15 USD/M = 2.1 USD."""
    assert known("claude-sonnet-4-5", usage(200_000, output=100_000)) == 2_100_000_000


def test_dated_prices() -> None:
    """Opus 4.6, 300,000 input: 10 USD/M until 2026-03-13, flat 5 USD/M from then on."""
    assert known("claude-opus-4-6", usage(300_000), at="2026-03-12") == 3 * USD
    assert known("claude-opus-4-6", usage(300_000), at="2026-03-13") == 1_500_000_000
    # GPT-5.6 Luna fell by 80 % on 2026-07-30: 1 -> 0.2 USD/M.
    assert known("gpt-5.6-luna", usage(100_000, None, None, None), "openai", "2026-07-29") == 100_000_000
    assert known("gpt-5.6-luna", usage(100_000, None, None, None), "openai", "2026-07-30") == 20_000_000


def test_unknown_split_is_priced_as_five_minutes_and_a_lower_bound() -> None:
    """Opus 4.5, 5,000 written for an unknown time: 5,000 x 6.25 USD/M = 0.03125 USD or more."""
    priced = cost("claude-opus-4-5", usage(write_5m=5000, write_1h=None, unsplit_cache_write=True))
    assert priced == Priced(cost_nanousd=31_250_000, lower_bound=True, rules=("cache_write_as_5m",))
    nothing_written = cost("claude-opus-4-5", usage(1, write_1h=None, unsplit_cache_write=True))
    assert not nothing_written.lower_bound


def test_cache_reads_are_never_derived() -> None:
    """A million tokens read: 0.05 x input on Opus 5.5 (0.2), 0.025 x on Fable 5.1 (0.25), 0.1 x on Opus 5."""
    assert known("claude-opus-5-5", usage(read=10**6)) == 200_000_000
    assert known("claude-fable-5-1", usage(read=10**6)) == 250_000_000
    assert known("claude-opus-5", usage(read=10**6)) == 500_000_000


def test_a_class_with_tokens_and_no_rate_is_unknown() -> None:
    """gpt-5-pro lists no cached rate: 10 tokens read are unknown, none are free of doubt (1,000 x 15)."""
    assert cost("gpt-5-pro", usage(1000, 10), "openai") == Priced(reason="no rate is listed for cache_read")
    assert known("gpt-5-pro", usage(1000, 0), "openai") == 15_000_000


def test_batch_as_listed_and_half_where_not_listed() -> None:
    """Opus 4.5 batch, 1,000 of every class: (2.5 + 0.25 + 3.125 + 5 + 12.5) USD/M x 1,000 = 0.023375 USD."""
    priced = cost("claude-opus-4-5", usage(1000, 1000, 1000, 1000, 1000, service_tier="batch"))
    assert priced == Priced(cost_nanousd=23_375_000, rules=("tier:batch",))
    # Mythos 5.1 has no batch rate for one hour writes: half of 20.
    mythos = cost("claude-mythos-5-1", usage(write_1h=1000, service_tier="batch"))
    assert mythos == Priced(cost_nanousd=10_000_000, rules=("tier:batch", "batch_half"))
    # gpt-4.1: input 1 as listed, cached half of 0.5.
    assert known("gpt-4.1", usage(1000, 1000, service_tier="batch"), "openai") == 1_250_000
    # A model without a batch row: claude-opus-4-1, half of 15.
    assert known("claude-opus-4-1", usage(1000, service_tier="batch")) == 7_500_000


def test_batch_of_a_long_request() -> None:
    """Sonnet 4.5 batch, 300,000 input: half of 6. GPT-5.5 pro: 30 as listed above 272,000, 15 below."""
    assert known("claude-sonnet-4-5", usage(300_000, service_tier="batch")) == 900_000_000
    assert known("gpt-5.5-pro", usage(300_000, service_tier="batch"), "openai") == 9 * USD
    assert known("gpt-5.5-pro", usage(200_000, service_tier="batch"), "openai") == 3 * USD


def test_batch_of_other_sellers_is_as_listed() -> None:
    """Gemini 2.5 Flash: 0.15 input, caching stays at 0.03. DeepSeek and Bedrock list no batch: unknown."""
    assert known("gemini-2.5-flash", usage(1000, 1000, service_tier="batch"), "google") == 180_000
    assert cost("deepseek-chat", usage(1, service_tier="batch"), "deepseek").cost_nanousd is None
    bedrock = "us.anthropic.claude-opus-4-5-20251101-v1:0"
    assert cost(bedrock, usage(1, service_tier="batch"), "aws").cost_nanousd is None


def test_inference_in_the_us() -> None:
    """Opus 4.6: 1.1 x on every class: 1,000 x (5 + 0.5 + 6.25 + 10 + 25) x 1.1 USD/M = 0.051425 USD."""
    every = usage(1000, 1000, 1000, 1000, 1000, region="us")
    assert cost("claude-opus-4-6", every) == Priced(cost_nanousd=51_425_000, rules=("region:us",))
    assert known("claude-sonnet-4-6", usage(1000, region="us")) == 3_300_000
    # With batch: 1,000 x 2.5 x 1.1.
    assert known("claude-opus-4-6", usage(1000, region="us", service_tier="batch")) == 2_750_000


@pytest.mark.parametrize("region", ["us", "eu", "US", "us-east-1", "mars"])
def test_a_region_that_is_not_listed_is_unknown(region: str) -> None:
    priced = cost("claude-sonnet-4-5", usage(1000, region=region))
    assert priced == Priced(reason=f"region {region!r} has no listed price")
    if region != "us":
        assert cost("claude-opus-4-6", usage(1000, region=region)).cost_nanousd is None


@pytest.mark.parametrize("region", [None, "", "global", "not_available"])
@pytest.mark.parametrize("speed", [None, "", "standard"])
@pytest.mark.parametrize("tier", [None, "", "standard", "default", "on_demand"])
def test_plain_words_are_standard(region: str | None, speed: str | None, tier: str | None) -> None:
    said = usage(1000, region=region, speed=speed, service_tier=tier)
    assert cost("claude-opus-4-6", said) == Priced(cost_nanousd=5_000_000)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-4-6", 30_000_000),  # 6 x 5
        ("claude-opus-4-8", 10_000_000),  # 2 x 5
        ("claude-opus-5", 10_000_000),
        ("claude-opus-5-5", 8_000_000),  # 2 x 4
        ("claude-opus-4-5", None),
        ("claude-opus-4-7", None),
        ("claude-sonnet-4-6", None),
        ("claude-haiku-4-5", None),
    ],
)
def test_fast_mode(model: str, expected: int | None) -> None:
    assert cost(model, usage(1000, speed="fast")).cost_nanousd == expected


def test_fast_mode_is_on_every_class_and_ends() -> None:
    """Opus 5 fast and in the US: 1,000 x (5 + 0.5 + 6.25 + 10 + 25) x 2 x 1.1 = 0.10285 USD."""
    every = usage(1000, 1000, 1000, 1000, 1000, speed="fast", region="us")
    priced = cost("claude-opus-5", every)
    assert priced == Priced(cost_nanousd=102_850_000, rules=("speed:fast", "region:us"))
    assert cost("claude-opus-4-6", usage(1, speed="fast"), at="2027-01-01").cost_nanousd is None
    # Not offered with another tier, and no other speed is known.
    assert cost("claude-opus-5", usage(1, speed="fast", service_tier="batch")).cost_nanousd is None
    assert cost("claude-opus-5", usage(1, speed="turbo")).reason == "speed 'turbo' has no listed price"


def test_web_searches_are_on_top() -> None:
    """Opus 4.5, 100 input and 700 output: 0.018 USD, and 3 searches at 10 USD per 1,000: 0.048 USD."""
    assert known("claude-opus-4-5-20251101", usage(100, output=700)) == 18_000_000
    priced = cost("claude-opus-4-5-20251101", usage(100, output=700, web_searches=3))
    assert priced == Priced(cost_nanousd=48_000_000, rules=("web_search",))


def test_web_searches_are_neither_halved_nor_multiplied() -> None:
    """Opus 4.6 batch in the US, 1,000 input: 2.75 million nano-dollars and 10 million a search."""
    said = usage(1000, web_searches=1, service_tier="batch", region="us")
    assert known("claude-opus-4-6", said) == 2_750_000 + 10_000_000


def test_web_searches_without_a_price_are_unknown() -> None:
    searched = usage(1000, web_searches=1)
    assert cost("claude-3-haiku", searched).reason == "web searches have no listed price"
    assert known("claude-3-haiku", usage(1000, web_searches=0)) == 250_000


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        # GPT-6.1 Sol, 1,000 input and 1,000 output.
        ("default", 12_000_000),
        ("batch", 6_000_000),
        ("flex", 6_000_000),
        ("priority", 24_000_000),
        ("fast", 24_000_000),
        ("ultrafast", 72_000_000),
        ("auto", None),
        ("scale", None),
        ("Standard", None),
        ("hyper", None),
    ],
)
def test_tiers_as_listed(tier: str, expected: int | None) -> None:
    said = usage(1000, 0, 0, None, 1000, service_tier=tier)
    assert cost("gpt-6.1-sol", said, "openai").cost_nanousd == expected


def test_tiers_that_are_not_listed() -> None:
    """Anthropic's priority tier is bought ahead; Codex 5.3 has no flex; GPT-5.5's priority is short only."""
    priority = cost("claude-opus-4-5", usage(1, service_tier="priority"))
    assert priority.reason == "service tier 'priority' has no listed price"
    assert cost("gpt-5.3-codex", usage(1, service_tier="flex"), "openai").cost_nanousd is None
    assert known("gpt-5.5", usage(272_000, service_tier="priority"), "openai") == 3_400_000_000
    over = cost("gpt-5.5", usage(272_001, service_tier="priority"), "openai")
    assert over.reason == "no rate is listed for input above 272000 tokens"


def test_gemini_tiers_from_the_overlay() -> None:
    """Gemini 2.5 Pro, 1,000 input: flex 0.625, priority 2.25; above 200,000 1.25 and 4.5 USD/M."""
    assert known("gemini-2.5-pro", usage(1000, service_tier="flex"), "google") == 625_000
    assert known("gemini-2.5-pro", usage(1000, service_tier="priority"), "google") == 2_250_000
    assert known("gemini-2.5-pro", usage(400_000, service_tier="flex"), "google") == 500_000_000
    assert known("gemini-2.5-pro", usage(400_000, service_tier="priority"), "google") == 1_800_000_000


def test_xai_counts_the_threshold_itself() -> None:
    """Grok 4.6: 200,000 tokens are long context at xAI: 0.2 x 4 USD; one less is 0.199999 x 2."""
    assert known("grok-4.6", usage(200_000), "xai") == 800_000_000
    assert known("grok-4.6", usage(199_999), "xai") == 399_998_000


def test_bedrock_and_vertex_and_openrouter_have_their_own_prices() -> None:
    """Opus 4.5, 1,000 input: Bedrock 5.5 in a region and 5 globally, Vertex 5."""
    for region, expected in (("us.", 5_500_000), ("", 5_500_000), ("global.", 5_000_000)):
        assert known(f"{region}anthropic.claude-opus-4-5-20251101-v1:0", usage(1000), "") == expected
    assert known("vertex_ai/claude-opus-4-5@20251101", usage(1000), "") == 5_000_000
    assert known("anthropic/claude-opus-4.5", usage(1000), "openrouter") == 5_000_000


# What is not known.


def test_no_count_at_all_is_unknown() -> None:
    assert cost("claude-opus-4-5", Usage()) == Priced(reason="no token count was reported")
    assert cost("claude-opus-4-5", Usage(web_searches=3)).cost_nanousd is None


def test_zero_tokens_cost_nothing_and_are_known() -> None:
    assert cost("claude-opus-4-5", usage()) == Priced(cost_nanousd=0)


def test_input_of_unknown_cached_part_is_an_upper_bound() -> None:
    """GPT-5, 1,000 input of which an unknown part was cached, 100 output: 0.00225 USD or less."""
    said = Usage(input_uncached=1000, output=100, upper_bound=True)
    priced = cost("gpt-5", said, "openai")
    assert priced == Priced(cost_nanousd=2_250_000, upper_bound=True, rules=("input_at_full_rate",))


def test_old_shape_without_cache_counts_is_a_lower_bound() -> None:
    """Claude 3 Opus, 1,311 input and 53 output with no word about the cache: 0.02364 USD or more."""
    priced = cost("claude-3-opus-20240229", Usage(input_uncached=1311, output=53))
    assert (priced.cost_nanousd, priced.lower_bound) == (23_640_000, True)
    assert priced.rules[0] == "unreported:cache_read"


def test_a_class_that_has_no_price_is_no_loss_when_unreported() -> None:
    """GPT-5 has no write rates and an embedding no output rate: exact without them."""
    assert not cost("gpt-5", Usage(input_uncached=1, cache_read=0, output=1), "openai").lower_bound
    assert cost("text-embedding-3-small", Usage(input_uncached=50_000), "openai") == Priced(cost_nanousd=1_000_000)


def test_output_that_is_unknown_is_a_lower_bound() -> None:
    priced = cost("gpt-5", usage(1000, output=None), "openai")
    assert priced == Priced(cost_nanousd=1_250_000, lower_bound=True, rules=("unreported:output",))


def test_reasoning_is_inside_output_and_not_priced_again() -> None:
    assert known("gpt-5", usage(output=1000, reasoning=900), "openai") == 10_000_000


def test_billed_units_are_what_is_priced() -> None:
    """Command R7B, 500 tokens of which 7 in and 11 out are billed: 7 x 37.5 + 11 x 150 = 1,912.5 -> 1,912."""
    said = Usage(input_uncached=500, output=11, billed_input=7, billed_output=11)
    assert cost("command-r7b-12-2024", said, "cohere") == Priced(cost_nanousd=1912, rules=("billed_units",))


# The arithmetic.


@pytest.mark.parametrize(
    ("rate", "tokens", "expected"),
    [
        ("0.0005", 1, 0),  # 0.5 nano-dollars: a tie, to the even 0
        ("0.0005", 3, 2),  # 1.5: to the even 2
        ("0.0005", 5, 2),  # 2.5: to the even 2
        ("0.000500001", 1, 1),  # just above a tie
        ("0.000499999", 1, 0),
        ("0.000000001", 10**9, 1000),
    ],
)
def test_one_rounding_half_to_even(rate: str, tokens: int, expected: int) -> None:
    quote = Quote(provider="", model="m", tiers={"standard": (Band(input=rate),)}, source="test")
    assert price(quote, usage(tokens)).cost_nanousd == expected


def test_the_rounding_is_once_a_span_not_once_a_class() -> None:
    """Two classes of half a nano-dollar each are one, where rounding each would give none."""
    half = Band(input="0.0005", output="0.0005")
    quote = Quote(provider="", model="m", tiers={"standard": (half,)}, source="test")
    assert price(quote, usage(1, output=1)).cost_nanousd == 1


def test_lines_add_up_to_the_cost() -> None:
    """Opus 4.6 batch in the US with a search: each product exact, 1.1 x 2.5 USD/M = 2,750 nano a token."""
    quote = BOOK.find("anthropic", "claude-opus-4-6", us("2026-11-30"))
    assert quote is not None
    priced = price(quote, usage(1000, output=10, web_searches=2, service_tier="batch", region="us"))
    told = lines(priced)
    assert [(line.what, line.count, line.rate_nanousd, line.amount_nanousd) for line in told] == [
        ("input", 1000, "2750", "2750000"),
        ("output", 10, "13750", "137500"),
        ("web_search", 2, "10000000", "20000000"),
    ]
    assert [(line.rate_usd, line.amount_usd) for line in told] == [
        ("2.75", "0.00275"),
        ("13.75", "0.0001375"),
        ("0.01", "0.02"),
    ]
    assert (priced.cost_nanousd, exact_usd(priced)) == (22_887_500, "0.0228875")
    assert lines(price(quote, usage(1, region="mars"))) == ()


def test_what_was_rounded_off_is_shown() -> None:
    """OBS-55: 3 tokens at 0.0005 USD/M are 1.5 nano-dollars; the cost is the even 2, the lines say 1.5."""
    quote = Quote(provider="", model="m", tiers={"standard": (Band(input="0.0005"),)}, source="test")
    priced = price(quote, usage(3))
    assert (priced.cost_nanousd, exact_usd(priced)) == (2, "0.0000000015")
    assert [line.amount_nanousd for line in lines(priced)] == ["1.5"]


def test_a_malformed_quote_is_an_error_not_a_price() -> None:
    for rate in ("free", "-1", "1e3", "", "0.0000000001", "١"):
        quote = Quote(provider="", model="m", tiers={"standard": (Band(input=rate),)}, source="test")
        with pytest.raises(PriceError):
            price(quote, usage(1))


def test_a_quote_without_a_standard_tier_prices_nothing() -> None:
    quote = Quote(provider="anthropic", model="m", source="test")
    assert price(quote, usage(1)).reason == "service tier 'standard' has no listed price"
    assert price(quote, usage(1, service_tier="batch")).cost_nanousd is None


def test_invented_tiers_do_not_fill_the_memory() -> None:
    quote = Quote(provider="", model="m", tiers={"standard": (Band(input="1"),)}, source="test")
    for number in range(500):
        assert price(quote, usage(1, service_tier=f"tier{number}")).cost_nanousd is None
    assert len(quote.__dict__["schemes"]) <= 64
    assert price(quote, usage(1)).cost_nanousd == 1000
