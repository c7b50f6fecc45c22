"""`ledger prices` and `ledger reprice`: what models cost, and what a new price makes of what was imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.accounts.catchup import snapshot
from ledger.errors import UsageError
from ledger.log.log import Log
from ledger.prices.book import Book
from ledger.prices.own import quote_from_rates
from ledger.prices.quote import Quote
from ledger.sources.quotes import recorded_quotes, state
from reports.output import put, put_csv, put_json
from reports.periods import iso
from reports.quotes import (
    CSV_HEADER,
    RATE_COLUMNS,
    UNKNOWN,
    as_json,
    base_band,
    csv_rows,
    day,
    more,
    rates,
    short,
    source,
    tiers,
)
from reports.repricing import refresh, reprice
from reports.text import Column, safe, table

__all__ = ["list_prices", "refresh", "reprice", "set_price", "show_prices"]

_RATES = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_USES = "SELECT q.sha256, count(*) FROM gen_spans AS p JOIN gen_quotes AS q ON q.quote_key = p.quote GROUP BY q.sha256"


def list_prices(log: Log, format_: str, *, everything: bool) -> int:
    """Print the quotes of the log; with `everything`, also every model that the price book knows."""
    recorded = recorded_quotes(log)
    found = dict(recorded)
    if everything:
        book = Book.bundled().with_quotes(recorded.values())
        found |= {quote.name: quote for seller in book.models() for quote in book.quotes(*seller)}
    quotes = sorted(found.values(), key=lambda one: (one.provider, one.model, one.valid_from or "", one.name))
    uses = _uses(log)
    if format_ == "json":
        put_json([{**as_json(one), **_use(one, uses, recorded)} for one in quotes])
    elif format_ == "csv":
        rows = [[*row, uses.get(one.name, 0)] for one in quotes for row in csv_rows(one)]
        put_csv([*CSV_HEADER, "spans"], rows)
    elif quotes:
        put(_list_table(quotes, uses))
        put("USD per million tokens; `ledger prices show MODEL` has every tier")
    else:
        put(
            "the log has no prices yet: `ledger import` records those it uses, "
            "`ledger prices list --all` shows what the price book has"
        )
    return 0


def _uses(log: Log) -> dict[str, int]:
    """Return how many spans each quote prices."""
    with snapshot(log) as view:
        return dict(view.store.query(_USES).fetchall())


def _use(quote: Quote, uses: dict[str, int], recorded: dict[str, Quote]) -> dict[str, Any]:
    return {"recorded": quote.name in recorded, "spans": uses.get(quote.name, 0)}


def _list_table(quotes: list[Quote], uses: dict[str, int]) -> str:
    columns = [
        Column("model"), Column("provider", rank=4), *RATE_COLUMNS, Column("spans", right=True, rank=3),
        Column("quote", rank=3), Column("from", rank=5), Column("until", rank=5), Column("source", rank=6),
        Column("checked", rank=7), Column("also has", rank=8),
    ]  # fmt: skip
    rows = [
        [
            one.model, one.provider or "any", *rates(base_band(one)), f"{uses.get(one.name, 0):,}", short(one.name),
            day(one.valid_from), day(one.valid_until), source(one), day(one.checked_at, "unknown")[:10], more(one),
        ]
        for one in quotes
    ]  # fmt: skip
    return table(columns, rows)


def show_prices(log: Log, model: str, provider: str | None, format_: str) -> int:
    """Print every quote of a model, the one that wins first. Raises UsageError where there is none."""
    recorded = recorded_quotes(log)
    book = Book.bundled().with_quotes(recorded.values())
    quotes = _quotes_of(book, model, provider)
    if not quotes:
        raise UsageError(_no_price(book, model, provider))
    uses, now_us = _uses(log), _now_us()
    in_force = {one.name for seller in {one.provider for one in quotes} if (one := book.find(seller, model, now_us))}
    if format_ == "json":
        extra = [{"in_force": one.name in in_force, **_use(one, uses, recorded)} for one in quotes]
        put_json([{**as_json(one), **more_of} for one, more_of in zip(quotes, extra, strict=True)])
    elif format_ == "csv":
        rows = [[*row, one.name in in_force, uses.get(one.name, 0)] for one in quotes for row in csv_rows(one)]
        put_csv([*CSV_HEADER, "in_force", "spans"], rows)
    else:
        put(_show_table(quotes, uses, in_force))
        for line in dict.fromkeys(_notes(quotes)):
            put(safe(line))
    return 0


def _quotes_of(book: Book, model: str, provider: str | None) -> list[Quote]:
    """Return the quotes under one seller, or under its maker and else under all who sell the model."""
    found = list(book.quotes(provider or "", model))
    if not found and not provider:
        sellers = dict.fromkeys(seller for seller, _ in book.models())
        found = [one for seller in sellers for one in book.quotes(seller, model)]
    first: dict[str, Quote] = {}
    for one in found:
        first.setdefault(one.name, one)  # the log's own before the same one of the shipped book
    return list(first.values())


def _no_price(book: Book, model: str, provider: str | None) -> str:
    from difflib import get_close_matches

    near = get_close_matches(model, dict.fromkeys(name for _, name in book.models()), 3)
    hint = f" (near: {', '.join(near)})" if near and not provider else ""
    seller = f" of {provider}" if provider else ""
    return f"{model}{seller}: no price is known{hint}: state one with `ledger prices set {model} --input 1 --output 4`"


def _now_us() -> int:
    import time

    return time.time_ns() // 1000


def _show_table(quotes: list[Quote], uses: dict[str, int], in_force: set[str]) -> str:
    several = len({(one.provider, one.model) for one in quotes}) > 1
    columns = [
        Column("model", rank=0 if several else 3), Column("provider", rank=0 if several else 3), Column("from"),
        Column("until", rank=1), Column("tier"), Column("above", right=True, rank=2), *RATE_COLUMNS,
        Column("a search", right=True, rank=3), Column("now", rank=4), Column("spans", right=True, rank=5),
        Column("source", rank=6), Column("quote", rank=7),
    ]  # fmt: skip
    rows = [
        [
            one.model, one.provider or "any", day(one.valid_from), day(one.valid_until), tier,
            f"{band.above:,}" if band.above else "-", *rates(band), one.web_search_usd or UNKNOWN,
            "in force" if one.name in in_force else "", f"{uses.get(one.name, 0):,}", source(one), short(one.name),
        ]
        for one in quotes
        for tier, bands in tiers(one)
        for band in bands
    ]  # fmt: skip
    return table(columns, rows)


def _notes(quotes: Iterable[Quote]) -> Iterable[str]:
    yield "USD per million tokens; where quotes overlap in time, the first that is valid wins"
    for one in quotes:
        factors = [
            f"{kind} {word} x {factor}" for kind, words in one.multipliers.items() for word, factor in words.items()
        ]
        if factors:
            begin, end = day(one.valid_from, "the beginning"), day(one.valid_until, "further notice")
            yield f"every token class from {begin} until {end}: {', '.join(factors)}"
    for one in quotes:
        if one.context_window:
            yield f"context window: {one.context_window:,} tokens"


def set_price(log: Log, model: str, given: dict[str, str | None]) -> int:
    """Record a price that the user states, and say how it gets to what is imported already.

    `given` has `provider`, the rates in USD per million tokens, `web_search` in USD each, `valid_from` and
    `valid_until`, each a text or None. Raises PriceError and UsageError.
    """
    if all(given.get(name) is None for name in _RATES):
        raise UsageError(f"a price for {model} needs a rate: add for example --input 1 --output 4")
    quote = quote_from_rates(
        model,
        given.get("provider") or "",
        input=given.get("input"),
        output=given.get("output"),
        cache_read=given.get("cache_read"),
        cache_write_5m=given.get("cache_write_5m"),
        cache_write_1h=given.get("cache_write_1h"),
        web_search_usd=given.get("web_search"),
        valid_from=given.get("valid_from"),
        valid_until=given.get("valid_until"),
        checked_at=iso(_now_us()),
    )
    stated = state(log, quote)
    if stated is None:
        put(safe(f"{model}: {_said(quote)}: you have set this already, nothing was changed"))
    else:
        put(
            safe(f"{model}: {_said(stated)}: set as quote {short(stated.name)}; ")
            + "`ledger reprice` applies it to what is already imported"
        )
    return 0


def _said(quote: Quote) -> str:
    """Return a price of the user's own in one line."""
    band = base_band(quote)
    named = zip(("input", "cache read", "write 5m", "write 1h", "output"), band.rates(), strict=True)
    words = ", ".join(f"{what} {rate}" for what, rate in named if rate is not None) + " USD per million tokens"
    if quote.web_search_usd is not None:
        words += f", {quote.web_search_usd} USD a web search"
    words += f" at {quote.provider}" if quote.provider else ""
    words += f" from {day(quote.valid_from)}" if quote.valid_from else ""
    return words + (f" until {day(quote.valid_until)}" if quote.valid_until else "")
