"""What a changed price book means for spans that were priced before: pure decisions over plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ledger.events.book import QuoteSuperseded, SpanPriced
from ledger.prices.identity import provider_key
from ledger.prices.quote import Quote, changed

SPANS_PER_EVENT = 200
_BEGINNING, _END = -(1 << 62), 1 << 62
"""Before and after every instant that a span can have, microseconds UTC."""


class PricedSpan(NamedTuple):
    """A model span, what prices it today, and what the book chooses for its time."""

    span_id: str
    model: str
    occurred_at: int
    """Microseconds UTC."""
    quote: str
    """Name of the quote that prices it, empty where none does."""
    choice: str
    """Name of the quote that the book chooses now, empty where it knows no price."""
    cost_nanousd: int | None


class Move(NamedTuple):
    """Spans of one model that go from one quote to another."""

    model: str
    old: str
    """Name of the quote that they leave, empty for spans without a price."""
    new: str
    spans: tuple[PricedSpan, ...]
    superseded: bool
    """The whole quote is replaced, and not only for these spans."""


def decide(spans: Iterable[PricedSpan], quotes: Mapping[str, Quote], model: str | None = None) -> list[Move]:
    """Return the moves that bring every span (of one model, if named) to the book's choice. Pure.

    Where the book knows no price any more the old one stays: what was paid then does not become unknown.
    A quote is superseded as a whole where all its spans move to one other quote, and that wins over it in
    everything that may yet be read: else a later import would be given a price that never held for it.
    """
    moving: dict[tuple[str, str], dict[str, list[PricedSpan]]] = {}
    staying: set[str] = set()
    for span in spans:
        if not span.choice or span.choice == span.quote or model not in (None, span.model):
            staying.add(span.quote)
        else:
            moving.setdefault((span.quote, span.choice), {}).setdefault(span.model, []).append(span)
    goals = Counter(old for old, _ in moving)
    moves = []
    for (old, new), by_model in sorted(moving.items()):
        every = [span for found in by_model.values() for span in found]
        whole = bool(old) and old not in staying and goals[old] == 1 and _wins(quotes[new], quotes[old], every)
        moves += [Move(name, old, new, tuple(found), whole) for name, found in sorted(by_model.items())]
    return moves


def _wins(new: Quote, old: Quote, spans: Iterable[PricedSpan]) -> bool:
    """Return whether the new quote was chosen over the old one and holds wherever and whenever that does."""
    if not all(old.covers(span.occurred_at) for span in spans):
        return False  # it only took the place of one that does not hold there
    if new.model != old.model or new.provider not in ("", provider_key(old.provider)):
        return False
    (begin, end), (old_begin, old_end) = _validity(new), _validity(old)
    return begin <= old_begin and old_end <= end


def bodies(moves: Iterable[Move], reason: str) -> list[QuoteSuperseded | SpanPriced]:
    """Return the events that make the moves: one a superseded quote, else up to 1,000 spans an event."""
    superseded = {(move.old, move.new) for move in moves if move.superseded}
    apart: dict[str, list[str]] = {}
    for move in moves:
        if not move.superseded:
            apart.setdefault(move.new, []).extend(span.span_id for span in move.spans)
    whole = [QuoteSuperseded(old, new, reason) for old, new in sorted(superseded)]
    single = [
        SpanPriced(chunk, quote, reason) for quote, span_ids in apart.items() for chunk in _chunks(sorted(span_ids))
    ]
    return [*whole, *single]


def _chunks(span_ids: list[str]) -> Iterable[list[str]]:
    return (span_ids[first : first + SPANS_PER_EVENT] for first in range(0, len(span_ids), SPANS_PER_EVENT))


def followed(name: str, replaced: Mapping[str, str]) -> str:
    """Return what a quote's name stands for after all that superseded it."""
    seen = {name}
    while (after := replaced.get(name, "")) and after not in seen:
        seen.add(after)
        name = after
    return name


class Difference(NamedTuple):
    """A quote that says something else than the one in force."""

    old: Quote | None
    new: Quote
    what: tuple[str, ...]
    """Dotted names of what differs; `("quote",)` where nothing was known before."""


def difference(new: Quote, laid: Iterable[Quote]) -> Difference | None:
    """Return how a quote differs from those in force during its time, None where it says the same.

    `laid` are the quotes of the same model, the one that wins first. Prices change only where a quote begins
    or ends, so it is enough to look there.
    """
    known = list(laid)
    begin, end = _validity(new)
    turns = {bound for quote in known for bound in _validity(quote) if begin < bound < end}
    for at_us in sorted({begin, *turns}):
        old = next((quote for quote in known if quote.covers(at_us)), None)
        what = changed(old, new)
        if what:
            return Difference(old, new, what)
    return None


def _validity(quote: Quote) -> tuple[int, int]:
    """Return the instants at which a quote begins and ends, microseconds UTC."""
    begin, end = quote.valid_us
    return _BEGINNING if begin is None else begin, _END if end is None else end
