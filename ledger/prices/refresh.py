"""Fresh quotes from the installed genai-prices, to be held against what is recorded: `ledger prices refresh`.

The shipped book is made of the version that this program was built with; a newer genai-prices may be
installed beside it. Nothing here goes to the network.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.prices.book import Book
from ledger.prices.build import book_bytes, installed
from ledger.prices.overlay import load_overlay
from ledger.prices.quote import Quote, changed


def fresh_book() -> Book:
    """The book of the installed genai-prices under our overlay, made in memory (about half a second)."""
    providers, version = installed()
    return Book.from_bytes(book_bytes(providers, version, load_overlay(), strict=False))


def fresh_quotes(models: Iterable[tuple[str, str]]) -> list[Quote]:
    """All quotes of these (provider, model) pairs, every period, each once. Unknown models have none."""
    book = fresh_book()
    found = {quote.name: quote for provider, model in models for quote in book.quotes(provider, model)}
    return list(found.values())


__all__ = ["changed", "fresh_book", "fresh_quotes"]
