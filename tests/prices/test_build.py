"""The book is made of genai-prices and our overlay, reproducibly, and every disagreement is on record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from genai_prices.types import Usage as GenaiUsage

from ledger.prices.book import BOOK_FILE, Book
from ledger.prices.build import book_bytes, installed, main
from ledger.prices.catalogue import records
from ledger.prices.overlay import Factor, Overlay, Patch, Span, load_overlay, merge
from ledger.prices.pricing import price
from ledger.prices.quote import CLASSES, STANDARD, Band, Quote
from ledger.prices.record import BookError, Period, Record
from ledger.prices.refresh import fresh_book, fresh_quotes
from ledger.wire.usage import Usage

PROVIDERS, VERSION = installed()


def test_the_committed_book_is_what_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m ledger.prices.build` after a change of the overlay or of genai-prices."""
    assert book_bytes(PROVIDERS, VERSION, load_overlay()) == BOOK_FILE.read_bytes()
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "the book is current\n"


def test_genai_prices_itself_gives_the_same_cost() -> None:
    """Every model that is not overruled, standard tier, below and above every threshold, in every period."""
    overlay = load_overlay()
    kept, _ = records(PROVIDERS)
    names = {(record.provider, record.model) for record in kept}
    names -= {
        (provider, name)
        for provider, patches in overlay.models.items()
        for name, patch in patches.items()
        if patch.spans is not None or STANDARD in patch.tiers
    }
    book, compared = Book.bundled(), 0
    for provider in PROVIDERS:
        for model in provider.models:
            if (provider.id, model.id) not in names:
                continue
            for quote in book.quotes(provider.id, model.id):
                for scale in (1, 1000):
                    compared += _same_cost(provider, model, quote, scale)
    assert compared > 4000


def _same_cost(provider: Any, model: Any, quote: Quote, scale: int) -> bool:
    """Compare one request; only the classes that the quote lists, as genai-prices knows no unlisted rate."""
    rates = dict(zip(CLASSES, quote.tiers[STANDARD][0].rates(), strict=True))
    counts = {what: n * scale for what, n in zip(CLASSES, (700, 600, 500, 400, 300), strict=True)}
    counts = {what: count if rates[what] is not None else 0 for what, count in counts.items()}
    written = counts["cache_write_5m"] + counts["cache_write_1h"]
    asked = {
        "input_tokens": counts["input"] + counts["cache_read"] + written,
        "cache_read_tokens": counts["cache_read"],
        "cache_write_tokens": written,
        "cache_write_1h_tokens": counts["cache_write_1h"],
        "output_tokens": counts["output"],
    }
    start_us, end_us = quote.valid_us
    at_us = start_us if start_us is not None else (end_us or 1_796_000_000_000_000) - 1
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    theirs = model.calc_price(GenaiUsage(**asked), provider, genai_request_timestamp=when)
    ours = price(
        quote,
        Usage(
            input_uncached=counts["input"],
            cache_read=counts["cache_read"],
            cache_write_5m=counts["cache_write_5m"],
            cache_write_1h=counts["cache_write_1h"],
            output=counts["output"],
        ),
    )
    assert ours.cost_nanousd is not None, (model.id, ours.reason)
    # A rate that genai-prices has as a float is off by less than a nano-dollar in a thousand dollars.
    assert abs(ours.cost_nanousd - theirs.total_price * 10**9) <= 2, (provider.id, model.id, quote.valid_from)
    return True


def test_where_the_sources_disagree() -> None:
    """Pinned: genai-prices is overruled for these names, and keeps its word for those; each with a reason."""
    overlay = load_overlay()
    overruled = {
        f"{provider}/{name}": patch.why
        for provider, patches in overlay.models.items()
        for name, patch in patches.items()
        if patch.spans is not None
    }
    assert all(overruled.values()) and all(overlay.decisions.values()) and all(overlay.left_out.values())
    moving = {name for name, why in overruled.items() if why.startswith("a name that moves")}
    assert overruled.keys() - moving == {
        "deepseek/deepseek-chat",
        "deepseek/deepseek-reasoner",
        "deepseek/deepseek-v3.2",
        "deepseek/deepseek-v4-flash",
        "deepseek/deepseek-v4-pro",
        "mistral/magistral-medium-latest",
        "mistral/magistral-small-latest",
        "mistral/mistral-large-latest",
        "mistral/mistral-medium",
        "x-ai/grok-3",
        "x-ai/grok-4-0709",
        "x-ai/grok-4-1-fast-non-reasoning",
        "x-ai/grok-4-1-fast-reasoning",
        "x-ai/grok-4-fast-non-reasoning",
        "x-ai/grok-4-fast-reasoning",
        "x-ai/grok-code-fast-1",
    }
    assert overlay.decisions.keys() == {
        "anthropic/*",
        "anthropic/claude-fable-5-2",
        "anthropic/claude-sonnet-4-5",
        "google/gemini-3.5-flash-lite",
        "google/gemini-pro-latest",
        "groq/openai/gpt-oss-safeguard-20b",
        "mistral/open-mistral-nemo",
        "openai/* context window",
        "openai/* web search",
        "openai/gpt-4.1",
        "openai/gpt-5.6-cyber",
        "x-ai/*",
    }


def test_what_is_left_out_has_a_reason() -> None:
    """A price that the usage of a response cannot decide is unknown, not nearly right."""
    _, left_out = records(PROVIDERS)
    assert left_out["deepseek/deepseek-chat"] == "a price by the time of day"
    assert left_out["perplexity/sonar"] == "priced by requests_kcount"
    assert left_out["openai/gpt-oss-120b"].startswith("the rate is not the seller's own")
    assert left_out["zhipuai/GLM-4.7"].startswith("flagship prices are those of the cheapest")
    assert left_out["github-copilot/gpt-4o"] == "no rate is listed"
    assert len(left_out) < 200


def test_free_models_cost_nothing_by_their_name() -> None:
    quotes = Book.bundled().quotes("openrouter", "qwen/qwen3-coder:free")
    assert [quote.tiers for quote in quotes] == [{STANDARD: (Band(input="0", cache_read="0", output="0"),)}]


# The overlay.


def overlay(**patch: object) -> Overlay:
    return Overlay(
        about="",
        sources={},
        checked_at="2026-11-30T00:00:00Z",
        left_out={},
        decisions={},
        models={"p": {"m": Patch(**patch)}},  # type: ignore[arg-type]
    )


def record(**period: object) -> Record:
    tiers = {STANDARD: (Band(input="2", output="4"),)}
    return Record("p", "m", frozenset({"m-alias"}), (Period(tiers=tiers, **period),))  # type: ignore[arg-type]


def test_a_patch_fills_what_is_missing() -> None:
    patch = overlay(tiers={STANDARD: (Band(cache_read="1"),), "flex": (Band(input="1"),)}, max_output=9)
    ((merged,), _) = merge([record()], patch)
    assert merged.periods[0].tiers == {
        STANDARD: (Band(input="2", cache_read="1", output="4"),),
        "flex": (Band(input="1"),),
    }
    assert merged.max_output == 9


def test_a_patch_cannot_contradict_in_silence() -> None:
    """A build stops; a refresh from a newer genai-prices keeps what that says."""
    for patch in (
        overlay(tiers={STANDARD: (Band(input="3"),)}),
        overlay(web_search_usd="0.02"),
        overlay(same_as="other"),
    ):
        searched = record(web_search_usd="0.01")
        with pytest.raises(BookError):
            merge([searched], patch)
        assert merge([searched], patch, strict=False)[0][0].periods[0].tiers == searched.periods[0].tiers


def test_tiers_hold_for_the_period_in_force_and_factors_for_all() -> None:
    old = Period(valid_until="2026-05-01T00:00:00Z", tiers={STANDARD: (Band(input="9"),)})
    new = Period(valid_from="2026-05-01T00:00:00Z", tiers={STANDARD: (Band(input="2"),)})
    patch = overlay(
        tiers={"flex": (Band(input="1"),)},
        factors=(
            Factor(by="region", word="us", times="1.1"),
            Factor(by="speed", word="fast", times="6", until="2027-01-01T00:00:00Z"),
        ),
    )
    ((merged,), _) = merge([Record("p", "m", periods=(old, new))], patch)
    told = [(p.valid_from, p.valid_until, sorted(p.tiers), p.multipliers) for p in merged.periods]
    both = {"region": {"us": "1.1"}, "speed": {"fast": "6"}}
    assert told == [
        (None, "2026-05-01T00:00:00Z", [STANDARD], both),
        ("2026-05-01T00:00:00Z", "2027-01-01T00:00:00Z", ["flex", STANDARD], both),
        ("2027-01-01T00:00:00Z", None, [STANDARD], {"region": {"us": "1.1"}}),
    ]


def test_spans_overrule() -> None:
    span = Span(valid_from="2026-11-01T00:00:00Z", tiers={STANDARD: (Band(input="7"),)})
    ((merged,), _) = merge([record()], overlay(spans=(span,), why="because"))
    assert [(p.valid_from, p.tiers) for p in merged.periods] == [(span.valid_from, span.tiers)]


# Refresh.


def test_fresh_is_what_is_shipped_while_the_package_is_the_same() -> None:
    fresh, shipped = fresh_book(), Book.bundled()
    for model in (("anthropic", "claude-opus-4-6"), ("openai", "gpt-5"), ("", "gemini-2.5-pro")):
        assert fresh.quotes(*model) == shipped.quotes(*model)
    names = [quote.model for quote in fresh_quotes([("", "claude-opus-4-6"), ("anthropic", "claude-opus-4-6")])]
    assert names == ["claude-opus-4-6"] * 3
    assert fresh_quotes([("", "acme-coder-9")]) == []
