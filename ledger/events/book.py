"""Events of the `book` stream: prices, and what was learnt about them later."""

from __future__ import annotations

import msgspec


class QuoteRecorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dated price with its source was used for the first time, or set by the user."""

    sha256: str
    """The quote's name: digest of all that determines a price."""
    quote: msgspec.Raw
    """The quote itself (ledger.prices.quote.Quote): rates as decimals in USD per million tokens."""


class QuoteSuperseded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A quote was wrong or incomplete: what it priced is priced by another, the old figure stays visible."""

    old: str
    """The name of the quote that is not used any more."""
    new: str
    """The name of the quote in its place."""
    reason: str
    """A code, not a text."""


class SpanPriced(msgspec.Struct, frozen=True, omit_defaults=True):
    """Spans that had no price get one."""

    spans: list[str]
    """Span ids."""
    quote: str
    """The name of the quote that prices them."""
    reason: str
    """A code, not a text."""
