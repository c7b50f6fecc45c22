"""Quotes as they are shown: names cut to 12 digits, rates in USD per million tokens, unknown said so."""

from __future__ import annotations

from typing import Any

from ledger.prices.quote import CLASSES, STANDARD, Band, Quote
from reports.text import Column

NAME_DIGITS = 12
UNKNOWN = "unknown"
"""A class that is not listed: tokens of it have no known price, which is not to say that they are free."""

RATE_COLUMNS = (
    Column("input", right=True),
    Column("cache read", right=True, rank=1),
    Column("write 5m", right=True, rank=2),
    Column("write 1h", right=True, rank=2),
    Column("output", right=True),
)
CSV_HEADER = (
    "provider", "model", "tier", "above_tokens", *CLASSES, "web_search_usd", "valid_from", "valid_until", "source",
    "source_version", "checked_at", "quote",
)  # fmt: skip


def short(name: str) -> str:
    """Return the first digits of a quote's name; `(none)` for no quote."""
    return name[:NAME_DIGITS] or "(none)"


def rates(band: Band) -> list[str]:
    """Return the five rates of a band for a table, in the order of RATE_COLUMNS."""
    return [rate if rate is not None else UNKNOWN for rate in band.rates()]


def base_band(quote: Quote) -> Band:
    """Return the rates of a plain request."""
    bands = quote.tiers.get(STANDARD, ())
    return bands[0] if bands else Band()


def tiers(quote: Quote) -> list[tuple[str, tuple[Band, ...]]]:
    """Return (tier, bands), the standard tier first."""
    return sorted(quote.tiers.items(), key=lambda item: (item[0] != STANDARD, item[0]))


def day(instant: str | None, open_end: str = "-") -> str:
    """Return an instant of a quote; its day alone where it is a midnight (UTC)."""
    return open_end if instant is None else instant.removesuffix("T00:00:00Z")


def more(quote: Quote) -> str:
    """Return what a quote has beside its plain rates, in a few words."""
    words = [f"> {band.above:,}" for band in quote.tiers.get(STANDARD, ()) if band.above]
    words += [tier for tier in quote.tiers if tier != STANDARD]
    words += [f"{word} x{factor}" for factors in quote.multipliers.values() for word, factor in factors.items()]
    return ", ".join(words)


def source(quote: Quote) -> str:
    """Return who says so."""
    return f"{quote.source} {quote.source_version}".strip()


def as_json(quote: Quote) -> dict[str, Any]:
    """Return a quote as an object; a rate that is not listed is null."""
    rated = {
        tier: [{"above_tokens": band.above, **dict(zip(CLASSES, band.rates(), strict=True))} for band in bands]
        for tier, bands in tiers(quote)
    }
    return {
        "quote": quote.name,
        "provider": quote.provider or None,
        "model": quote.model,
        "valid_from": quote.valid_from,
        "valid_until": quote.valid_until,
        "usd_per_million_tokens": rated,
        "multipliers": quote.multipliers,
        "web_search_usd": quote.web_search_usd,
        "context_window": quote.context_window,
        "max_output": quote.max_output,
        "source": quote.source,
        "source_version": quote.source_version or None,
        "checked_at": quote.checked_at,
    }


def csv_rows(quote: Quote) -> list[list[Any]]:
    """Return a row of CSV_HEADER for every tier and band."""
    about = [quote.valid_from, quote.valid_until, quote.source, quote.source_version, quote.checked_at, quote.name]
    return [
        [quote.provider, quote.model, tier, band.above, *band.rates(), quote.web_search_usd, *about]
        for tier, bands in tiers(quote)
        for band in bands
    ]
