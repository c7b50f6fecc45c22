"""Exact identity or unknown (OBS-51): what prices a model name, and what must not."""

from __future__ import annotations

import pytest

from ledger.prices.book import Book
from ledger.prices.identity import Candidate, candidates, provider_key

BOOK = Book.bundled()
TODAY_US = 1_796_000_000_000_000  # 2026-11-30

PRICED = [
    # provider, name in a log, seller and id in the book
    ("anthropic", "claude-opus-4-5", "anthropic", "claude-opus-4-5"),
    ("anthropic", "claude-opus-4-5-20251101", "anthropic", "claude-opus-4-5"),
    ("anthropic", "claude-opus-4-5-latest", "anthropic", "claude-opus-4-5"),
    ("anthropic", "claude-opus-4-5@20251101", "anthropic", "claude-opus-4-5"),
    ("Anthropic", "claude-opus-4-5", "anthropic", "claude-opus-4-5"),
    ("", "claude-opus-4-5-20251101", "anthropic", "claude-opus-4-5"),
    ("unknown", "claude-opus-4-5-20251101", "anthropic", "claude-opus-4-5"),
    ("", "claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5"),
    ("", "claude-haiku-4-5-20251001", "anthropic", "claude-haiku-4-5"),
    ("", "claude-sonnet-4-20250514", "anthropic", "claude-sonnet-4-0"),
    ("", "claude-opus-4-1-20250805", "anthropic", "claude-opus-4-1"),
    ("", "claude-3-5-haiku-20241022", "anthropic", "claude-3-5-haiku-latest"),
    ("", "claude-3-7-sonnet-20250219", "anthropic", "claude-3-7-sonnet-latest"),
    ("", "claude-3-opus-20240229", "anthropic", "claude-3-opus-latest"),
    ("", "claude-mythos-5-1", "anthropic", "claude-mythos-5-1"),
    ("openai", "gpt-5-codex", "openai", "gpt-5"),
    ("openai", "gpt-5.3-codex", "openai", "gpt-5.3-codex"),
    ("openai", "gpt-6-sol-2026-09-22", "openai", "gpt-6-sol"),
    ("openai", "gpt-4o", "openai", "gpt-4o"),
    ("openai", "gpt-4o-2024-11-20", "openai", "gpt-4o"),
    ("openai", "gpt-4o-2024-05-13", "openai", "gpt-4o-2024-05-13"),
    ("gemini", "gemini-2.5-pro", "google", "gemini-2.5-pro"),
    ("", "gemini-2.5-flash", "google", "gemini-2.5-flash"),
    ("xai", "grok-4.6", "x-ai", "grok-4.6"),
    ("mistral", "mistral-medium-latest", "mistral", "mistral-medium-latest"),
    ("groq", "openai/gpt-oss-120b", "groq", "openai/gpt-oss-120b"),
    ("zai", "glm-4.6", "zai", "GLM-4.6"),
    ("moonshot", "kimi-k3", "moonshotai", "kimi-k3"),
    # Cloud forms.
    ("", "us.anthropic.claude-opus-4-5-20251101-v1:0", "aws", "regional.anthropic.claude-opus-4-5-v1:0"),
    ("aws", "anthropic.claude-opus-4-5-20251101-v1:0", "aws", "regional.anthropic.claude-opus-4-5-v1:0"),
    ("anthropic", "eu.anthropic.claude-opus-4-5-v1:0", "aws", "regional.anthropic.claude-opus-4-5-v1:0"),
    (
        "bedrock",
        "global.anthropic.claude-opus-4-5-20251101-v1:0",
        "aws",
        "global.anthropic.claude-opus-4-5-v1:0",
    ),
    ("", "us.anthropic.claude-opus-5", "aws", "regional.anthropic.claude-opus-5"),
    ("", "anthropic.claude-sonnet-4-5-v1:0", "aws", "regional.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("aws", "openai.gpt-5.6-sol", "aws", "regional.openai.gpt-5.6-sol"),
    ("", "vertex_ai/claude-opus-4-5@20251101", "google", "claude-opus-4-5"),
    ("vertex", "claude-opus-4-1@20250805", "google", "claude-4-opus"),
    ("", "openrouter/anthropic/claude-opus-4.5", "openrouter", "anthropic/claude-opus-4.5"),
    ("openrouter", "anthropic/claude-opus-4.5", "openrouter", "anthropic/claude-opus-4.5"),
    ("openrouter", "openai/gpt-6-sol-20260922", "openrouter", "openai/gpt-6-sol"),
    ("github-copilot", "claude-opus-4.8", "github-copilot", "claude-opus-4.8"),
    ("cursor", "composer-2.5[fast=true]", "cursor", "composer-2.5-fast"),
]

UNKNOWN = [
    ("", ""),
    ("", "acme-coder-9"),
    ("anthropic", "acme-coder-9"),
    # A prefix is no identity.
    ("anthropic", "claude-opus-4-5-foo"),
    ("anthropic", "claude-opus-4-5x"),
    ("anthropic", "claude-opus-4"[:-1]),
    ("anthropic", "claude-opus-4-5-20251301"),  # no month 13
    ("anthropic", "claude-opus-4-5-20251100"),  # no day 0
    ("anthropic", "claude-opus-4-5-19991101"),
    ("anthropic", "claude-opus-4-5-2025110"),
    ("anthropic", "claude-opus-4-5-12345678"),
    ("anthropic", "claude-opus-4-5_20251101"),
    ("anthropic", "claude-opus-4-5-2025-11-01"),  # dashes only where the data says so
    ("anthropic", "claude-opus-4-5-20251101-20251101"),
    ("anthropic", "claude-opus-4-5-20251101-latest"),
    ("anthropic", "claude-opus-4-5-latest-20251101"),
    ("anthropic", "claude-opus-4-5-latest-latest"),
    ("anthropic", "claude-opus-4-5[1m]"),
    ("anthropic", "Claude-Opus-4-5"),
    ("anthropic", " claude-opus-4-5"),
    ("anthropic", "claude-opus-4-5\n"),
    ("anthropic", "anthropic/claude-opus-4-5"),
    ("openai", "gpt-5.2-proo"),
    ("openai", "gpt-6-sol-2026-13-22"),
    ("openai", "gpt-6-sol-YYYY-MM-DD"),  # how the book spells it is no name
    ("openai", "ft:gpt-4o-2024-08-06:acme::id"),
    # Another seller's model.
    ("openai", "claude-opus-4-5"),
    ("anthropic", "gpt-5"),
    # A seller that the book does not know has no prices, however well known the model is.
    ("acme", "claude-opus-4-5"),
    ("gateway", "claude-sonnet-4-5"),
    ("ollama", "gpt-oss-120b"),
    # Without a provider: open weights that anyone sells, two makers, or a reseller's name.
    ("", "gpt-oss-120b"),
    ("", "glm-4.6"),
    ("", "llama3"),
    ("", "openai/gpt-oss-120b"),
    ("", "anthropic/claude-opus-4.5"),
    ("", "claude-opus-4.5"),
    # Cloud forms that are none.
    ("aws", "claude-opus-4-5"),
    ("", "mars.anthropic.claude-opus-4-5-20251101-v1:0"),
    ("", "us.anthropic.claude-opus-4-5-foo-v1:0"),
    ("", "us.anthropic.claude-opus-9-v1:0"),
    ("openrouter", "anthropic/claude-opus-4.5-foo"),
    ("openrouter", "claude-opus-4-5-20251101"),
    ("openai", "vertex_ai/claude-opus-4-5@20251101"),
    # A price that depends on the time of day (DeepSeek's V4 since 2026-08-17).
    ("deepseek", "deepseek-v4-flash"),
    ("deepseek", "deepseek-flash"),
]


@pytest.mark.parametrize(("provider", "model", "seller", "entry"), PRICED)
def test_priced(provider: str, model: str, seller: str, entry: str) -> None:
    quote = BOOK.find(provider, model, TODAY_US)
    assert quote is not None
    assert (quote.provider, quote.model) == (seller, entry)


@pytest.mark.parametrize(("provider", "model"), UNKNOWN)
def test_unknown(provider: str, model: str) -> None:
    assert BOOK.find(provider, model, TODAY_US) is None


def test_every_name_of_the_book_is_exact_and_no_prefix_of_it_is_by_accident() -> None:
    """Each first-party id with `-foo` behind it has no price."""
    for provider, model in BOOK.models():
        assert BOOK.quotes(provider, model), (provider, model)
        assert BOOK.quotes(provider, f"{model}-foo") == (), (provider, model)


def test_the_exact_name_comes_first() -> None:
    assert candidates("openai", "gpt-4o-20240513") == (
        Candidate("openai", "gpt-4o-20240513"),
        Candidate("openai", "gpt-4o"),
    )


def test_a_dated_name_with_a_price_of_its_own_is_never_priced_by_the_undated_one() -> None:
    """gpt-4o-2024-05-13 is 5 USD/M, gpt-4o 2.5. mistral-large-latest moved: unknown between two dates."""
    dated = BOOK.find("openai", "gpt-4o-2024-05-13", TODAY_US)
    undated = BOOK.find("openai", "gpt-4o", TODAY_US)
    assert dated is not None and undated is not None
    assert (dated.tiers["standard"][0].input, undated.tiers["standard"][0].input) == ("5", "2.5")
    june_2026_us = 1_781_000_000_000_000
    assert BOOK.find("mistral", "mistral-large", june_2026_us) is not None
    assert BOOK.find("mistral", "mistral-large-latest", june_2026_us) is None


def test_provider_spellings() -> None:
    assert [provider_key(name) for name in ("XAI", "amazon-bedrock", "z.ai", "acme", " openai ", "")] == [
        "x-ai",
        "aws",
        "zai",
        "acme",
        "openai",
        "",
    ]
