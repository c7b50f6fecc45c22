"""The book: dated, offline, laid over by what was recorded; and cheap to open (OBS-51)."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise

from msgspec.structs import replace

from ledger.prices.book import Book
from ledger.prices.own import quote_from_rates
from ledger.prices.quote import Quote

BOOK = Book.bundled()
TODAY_US = 1_796_000_000_000_000  # 2026-11-30


def found(book: Book, provider: str, model: str, at_us: int = TODAY_US) -> Quote:
    quote = book.find(provider, model, at_us)
    assert quote is not None
    return quote


def test_a_quote_says_where_it_is_from() -> None:
    plain = found(BOOK, "anthropic", "claude-opus-4-5")
    assert (plain.source, plain.source_version, plain.checked_at) == (
        "genai-prices",
        "0.2.3",
        "2026-11-30T00:00:00Z",
    )
    both = found(BOOK, "anthropic", "claude-opus-5")
    assert (both.source, both.source_version) == ("genai-prices+overlay", "0.2.3+2026-11-30")
    own = found(BOOK, "anthropic", "claude-mythos-5-1")
    assert (own.source, own.source_version) == ("overlay", "2026-11-30")


def test_periods_do_not_overlap() -> None:
    for provider, model in BOOK.models():
        quotes = BOOK.quotes(provider, model)
        for earlier, later in pairwise(quotes):
            assert earlier.valid_us[1] is not None and later.valid_us[0] is not None
            assert earlier.valid_us[1] <= later.valid_us[0]


def test_the_same_quote_under_every_name() -> None:
    assert found(BOOK, "", "claude-opus-4-5-20251101").name == found(BOOK, "anthropic", "claude-opus-4-5").name


def test_limits() -> None:
    assert BOOK.limits("anthropic", "claude-opus-4-5-20251101") == (200_000, 64_000)
    assert BOOK.context_window("openai", "gpt-5") == 272_000
    assert BOOK.context_window("openai", "gpt-5.1-codex") == 400_000
    assert BOOK.max_output("openai", "gpt-5") == 128_000
    assert BOOK.limits("", "acme-coder-9") == (None, None)


def test_what_the_user_says_wins() -> None:
    """Then the newest recorded, then the shipped; each only where it is valid."""
    mine = quote_from_rates("claude-opus-4-5", "anthropic", input="1", output="2", valid_from="2026-06-01")
    older = replace(mine, source="genai-prices", source_version="0.2.4")
    newer = replace(older, source_version="0.2.5")
    book = BOOK.with_quotes([mine, older]).with_quotes([newer])
    dated = "claude-opus-4-5-20251101"
    assert found(book, "anthropic", dated) is mine
    assert found(book, "", dated) is mine
    assert found(BOOK.with_quotes([older, newer]), "anthropic", dated) is newer
    assert found(BOOK.with_quotes([newer, older]), "anthropic", dated) is older
    before_us = 1_779_000_000_000_000  # 2026-05-17
    assert found(book, "anthropic", dated, before_us) == found(BOOK, "anthropic", dated)
    # Another seller's price stays what it was.
    bedrock = "us.anthropic.claude-opus-4-5-20251101-v1:0"
    assert found(book, "aws", bedrock) == found(BOOK, "aws", bedrock)
    # And the first book is as it was.
    assert found(BOOK, "anthropic", dated).source == "genai-prices"


def test_a_model_that_only_the_user_knows() -> None:
    anywhere = quote_from_rates("acme-coder-9", input="1", output="2", context_window=32_000)
    book = BOOK.with_quotes([anywhere])
    for provider in ("", "acme", "anthropic"):
        assert found(book, provider, "acme-coder-9") is anywhere
    assert found(book, "", "acme-coder-9-20260101") is anywhere
    assert book.find("", "acme-coder-9-foo", TODAY_US) is None
    assert book.limits("", "acme-coder-9") == (32_000, None)
    assert ("", "acme-coder-9") in book.models()


def test_two_sellers_and_none_named_is_unknown() -> None:
    one = quote_from_rates("acme-coder-9", "acme", input="1")
    other = quote_from_rates("acme-coder-9", "umbrella", input="2")
    book = BOOK.with_quotes([one, other])
    assert book.find("", "acme-coder-9", TODAY_US) is None
    assert found(book, "umbrella", "acme-coder-9") is other
    assert found(BOOK.with_quotes([one]), "", "acme-coder-9") is one
    # A reseller's recorded price is not the maker's.
    resold = quote_from_rates("claude-opus-5", "github-copilot", input="1", output="1")
    assert found(BOOK.with_quotes([resold]), "", "claude-opus-5").provider == "anthropic"


def test_other_names_of_a_model() -> None:
    assert "gpt-5-codex" in BOOK.names("openai", "gpt-5")


BANNED = ("genai_prices", "pydantic", "httpx", "fractions", "sqlalchemy", "typer", "rich", "hashlib")


def test_import_budget() -> None:
    """To open the book and price a span loads msgspec and the standard library, and no price package."""
    code = f"""
import sys
import ledger.prices.book, ledger.prices.pricing, ledger.prices.quote, ledger.prices.identity
from ledger.prices.book import Book
from ledger.prices.pricing import price
from ledger.wire.usage import Usage
quote = Book.bundled().find("", "claude-opus-4-5-20251101", {TODAY_US})
assert price(quote, Usage(input_uncached=1, output=1)).cost_nanousd == 30_000
loaded = [name for name in {BANNED!r} if name in sys.modules]
assert not loaded, loaded
own = {{name.split(".")[1] for name in sys.modules if name.startswith("ledger.")}}
assert own == {{"prices", "wire", "errors"}}, own
parts = {{name.split(".")[2] for name in sys.modules if name.startswith("ledger.prices.")}}
assert parts == {{"book", "identity", "pricing", "quote", "scheme"}}, parts
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_opening_the_book_is_cheap() -> None:
    """Three models from a cold book: some 3 ms; the limit allows for a loaded machine. The best of five."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        book = Book.bundled()
        for name in ("claude-opus-4-5-20251101", "gpt-5.3-codex", "gemini-2.5-pro"):
            found(book, "", name)
        times.append(time.perf_counter() - begun)
    assert min(times) < 0.010
