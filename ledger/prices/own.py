"""Quotes that the user states: `ledger prices set`."""

from __future__ import annotations

from ledger.prices.book import USER
from ledger.prices.identity import provider_key
from ledger.prices.quote import (
    STANDARD,
    Band,
    PriceError,
    Quote,
    canonical_decimal,
    canonical_instant,
    instant_us,
)


def quote_from_rates(
    model: str,
    provider: str = "",
    *,
    input: str | None = None,
    output: str | None = None,
    cache_read: str | None = None,
    cache_write_5m: str | None = None,
    cache_write_1h: str | None = None,
    web_search_usd: str | None = None,
    valid_from: str | None = None,
    valid_until: str | None = None,
    context_window: int | None = None,
    max_output: int | None = None,
    source: str = USER,
    source_version: str = "",
    checked_at: str | None = None,
) -> Quote:
    """A quote from plain figures: USD per million tokens, USD a search, ISO 8601 instants.

    A class that is not given is not listed: tokens of it make the cost unknown, for cache rates are never
    derived from the input rate. An empty provider holds for any. Raises PriceError, one line, for what is no
    finite non-negative decimal of at most 9 decimals, for an empty model, for no rate at all and for an end
    that is not after the start.
    """
    if not model.strip() or model != model.strip() or not model.isprintable():
        raise PriceError("a quote needs the name of a model, without spaces around it")
    band = Band(
        input=_rate("input", input),
        cache_read=_rate("cache_read", cache_read),
        cache_write_5m=_rate("cache_write_5m", cache_write_5m),
        cache_write_1h=_rate("cache_write_1h", cache_write_1h),
        output=_rate("output", output),
    )
    if band == Band():
        raise PriceError(f"a quote for {model!r} needs at least one rate")
    start, end = canonical_instant(valid_from), canonical_instant(valid_until)
    start_us, end_us = instant_us(start), instant_us(end)
    if start_us is not None and end_us is not None and end_us <= start_us:
        raise PriceError(f"a quote cannot end at {end}, before it begins at {start}")
    return Quote(
        provider=provider_key(provider),
        model=model,
        valid_from=start,
        valid_until=end,
        tiers={STANDARD: (band,)},
        web_search_usd=None if web_search_usd is None else canonical_decimal(web_search_usd, "web_search_usd"),
        context_window=context_window,
        max_output=max_output,
        source=source,
        source_version=source_version,
        checked_at=canonical_instant(checked_at),
    )


def _rate(what: str, value: str | None) -> str | None:
    return None if value is None else canonical_decimal(value, what)
