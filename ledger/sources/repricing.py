"""Pricing again: every span by what the book chooses now, as events; the figures before stay visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from ledger.accounts.catchup import View, snapshot
from ledger.accounts.repricing import Move, PricedSpan, bodies, decide, followed
from ledger.errors import LogUnavailable, UsageError
from ledger.events.envelope import NewEvent
from ledger.events.registry import decode
from ledger.ids import new_id
from ledger.log.log import Log
from ledger.prices.book import Book
from ledger.prices.quote import Quote
from ledger.sources.quotes import append_to_book, recorded_quotes, recording

_ATTEMPTS = 5
_MODEL_SPANS = """SELECT p.span_id, d.model, p.occurred_at, q.sha256, p.cost_nanousd, p.source_position,
  p.source_index, d.provider
FROM gen_spans AS p JOIN gen_dimensions AS d ON d.dimension_id = p.dimension_id
LEFT JOIN gen_quotes AS q ON q.quote_key = p.quote
WHERE d.kind = 'model' AND d.model <> ''
  AND (p.input_uncached IS NOT NULL OR p.cache_read IS NOT NULL OR p.output IS NOT NULL)
ORDER BY p.source_position"""
"""Spans that a price can price: where no token was reported, no price makes a cost."""


class Repriced(NamedTuple):
    """What a repricing moved."""

    moves: list[Move]
    quotes: dict[str, Quote]
    """Every quote that a move names."""
    costs: dict[str, int | None]
    """Cost of every moved span afterwards, nano-dollars."""
    position: int
    """The accounts afterwards are as of this position."""


def reprice(log: Log, model: str | None, reason: str) -> Repriced:
    """Price every span (of one model, if named) by what the book chooses now; a second time does nothing.

    Raises LogReadOnly, UsageError for a model that the log does not have, LogUnavailable where other
    programs change the prices all the time.
    """
    log.check_writable()
    for _ in range(_ATTEMPTS):
        version = log.stream_version(log.book_stream)
        recorded = recorded_quotes(log)
        with snapshot(log) as view:
            if model is not None:
                _check_model(view, model)
            choose = _Chooser(log, view, recorded)
            moves = decide(choose.spans(), choose.quotes, model)
            position = view.position
        if not moves:
            return Repriced([], {}, {}, position)
        unknown = sorted({move.new for move in moves} - recorded.keys())
        events = [recording(log, choose.quotes[name]) for name in unknown]
        events += [NewEvent(body=body, event_id=new_id()) for body in bodies(moves, reason)]
        if append_to_book(log, version, events):
            return _outcome(log, moves, choose.quotes)
    raise LogUnavailable(f"{log.place}: other programs change the prices at the same time: run this again")


def _check_model(view: View, model: str) -> None:
    asked = "SELECT 1 FROM gen_dimensions WHERE kind = 'model' AND model = ? LIMIT 1"
    if view.store.query(asked, model).fetchone() is None:
        raise UsageError(f"--model {model}: the log has no such model: `ledger report --by model` lists them")


def _outcome(log: Log, moves: list[Move], quotes: dict[str, Quote]) -> Repriced:
    wanted = msgspec.json.encode([span.span_id for move in moves for span in move.spans]).decode()
    with snapshot(log) as view:
        costs = dict(view.store.all("costs_of_spans", wanted))
        return Repriced(moves, quotes, costs, view.position)


class _Chooser:
    """Asks the book again what prices each span, in the words in which the import asked."""

    def __init__(self, log: Log, view: View, recorded: dict[str, Quote]) -> None:
        self.log, self.view = log, view
        self.book = Book.bundled().with_quotes(recorded.values())
        self.quotes = dict(recorded)
        rows = view.store.all("all_quotes")
        names = {key: name for key, name, *_ in rows}
        self.replaced = {name: names[after] for _, name, _, after, _ in rows if after}

    def spans(self) -> Iterator[PricedSpan]:
        """Yield every model span that a price can price."""
        provider_of = self._providers()
        for row in self.view.store.query(_MODEL_SPANS):
            span_id, model, occurred_at, quote, cost, position, index, provider = row
            choice = self._choice(provider_of(position, index, provider), model, occurred_at)
            yield PricedSpan(span_id, model, occurred_at, quote or "", choice, cost)

    def _choice(self, provider: str, model: str, at_us: int) -> str:
        quote = self.book.find(provider, model, at_us)
        if quote is None:
            return ""
        self.quotes.setdefault(quote.name, quote)
        # A quote that the log says was replaced stands for what replaced it.
        return followed(quote.name, self.replaced)

    def _providers(self) -> Callable[[int, int, str], str]:
        """Return the function from an observation's place to the provider that its event names.

        The accounts fill in a client's usual provider where its log names none; the book must not.
        """
        last: tuple[int, Any] = (0, None)

        def provider(position: int, index: int, booked: str) -> str:
            nonlocal last
            if position != last[0]:
                event = self.log.event_at(position)
                last = position, decode(event.type, event.schema, event.data)
            contexts = getattr(last[1], "contexts", None)
            return contexts[last[1].observations[index].c].provider if contexts else booked

        return provider
