"""One span opened: where it was read, what it used, which price it has, and how that was worked out.

Nothing is taken over from the accounts that can be worked out again: tokens are read again from the event, the
price is computed again by the function that the fold prices with. So what is listed checks what is booked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ledger.accounts.amounts import DIMENSIONS, TOKEN_CLASSES
from ledger.accounts.booking import Booking, copy_of
from ledger.accounts.catchup import View
from ledger.accounts.known import Known
from ledger.accounts.prices import QuoteBook
from ledger.accounts.rows import Dimensions, SpanRow, contribution
from ledger.events.book import QuoteSuperseded, SpanPriced
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.log.log import Log
from ledger.prices.pricing import Priced, price
from ledger.prices.quote import Quote
from ledger.wire.usage import Usage
from reports.explain_find import Found

_EVENTS_KEPT = 32
"""How many events are kept decoded: spans come by time, and those of one file lie in few events."""
_SOURCES_KEPT = 1000
TABLES = (
    "gen_spans AS p JOIN gen_sessions AS s ON s.session_key = p.session_key "
    "JOIN gen_dimensions AS d ON d.dimension_id = p.dimension_id"
)
"""The tables that the conditions of a Found speak of."""


class Place(NamedTuple):
    """Where the log read a span's figures."""

    event: int
    """Position of the event."""
    observation: int
    """Index of the observation in it."""
    stream: str
    file: str
    """Path of the file on the host that imported it, empty for what has no file."""
    offset: int | None
    """Where its line begins in the file, bytes; None where it was read as a record."""
    record: int | None
    """The number of the record among those that the event is of, None where it was read as a line."""


class Pricing(NamedTuple):
    """A quote, and what it makes of a span's usage."""

    quote: Quote
    priced: Priced


class Repricing(NamedTuple):
    """An event that gave a span another price."""

    event: int
    at: int
    """When it was recorded, microseconds UTC."""
    reason: str


class Opened(NamedTuple):
    """A span with all that its figures come from."""

    session_id: str
    turn: str
    """The id of its turn's prompt, empty where the log has none."""
    row: SpanRow
    """As the accounts have it."""
    values: Dimensions
    again: SpanRow
    """The same, with usage, cost and bounds worked out again from the event and the quote."""
    place: Place
    usage: Usage | None
    final: Pricing | None
    """By the quote in force, None where none prices it."""
    first: Pricing | None
    """By the quote that its event names, where that is another one; None also where it named none."""
    repriced: tuple[Repricing, ...]
    """Why the price is another one than its event names."""

    @property
    def amounts(self) -> tuple[int, ...]:
        """What the span adds to every figure, by what was worked out again, in the order of AMOUNTS."""
        return contribution(self.again, self.values.kind, self.values.status)

    @property
    def agrees(self) -> bool:
        """Whether the accounts say the same of this span."""
        return self.amounts == contribution(self.row, self.values.kind, self.values.status)


class Opener:
    """Opens spans of one snapshot, in bounded memory."""

    def __init__(self, log: Log, view: View) -> None:
        self.log, self.store = log, view.store
        self._events: dict[int, tuple[str, str]] = {}
        self._paths: dict[str, str] = {}
        self._book = QuoteBook(view.store)
        self._booking = Booking(Known(view.store), self._book, self._event_at)
        self._repricings: _Repricings | None = None

    def spans(self, found: Found) -> Iterator[Opened]:
        """Yield the spans behind a figure, opened, by time."""
        width = len(DIMENSIONS)
        columns = ["s.session_id", "t.turn_id", *(f"d.{name}" for name in DIMENSIONS)]
        columns += [f"p.{name}" for name in SpanRow.__struct_fields__]
        sql = (
            f"SELECT {', '.join(columns)} FROM {TABLES}{found.joins} LEFT JOIN gen_turns AS t "
            f"ON t.turn_key = p.turn_key WHERE {' AND '.join(('1 = 1', *found.where))} "
            "ORDER BY p.occurred_at, p.span_id"
        )
        for session_id, turn, *rest in self.store.stream(sql, *found.parameters):
            yield self.open(session_id, turn or "", Dimensions(*rest[:width]), SpanRow(*rest[width:]))

    def open(self, session_id: str, turn: str, values: Dimensions, row: SpanRow) -> Opened:
        """Open one span."""
        if len(self._booking.bodies) >= _EVENTS_KEPT:
            self._booking.bodies.clear()
            self._events.clear()
        usage = self._booking.usage_of(row) if values.kind == "model" else None
        again = copy_of(row)
        first = final = None
        if values.kind == "model":
            _forget(again)
        if usage is not None:
            for name in (*TOKEN_CLASSES, "reported_total", "web_searches"):
                setattr(again, name, getattr(usage, name))
            self._booking.price(again, usage)
            named, used = self._book.of_span(row.span_id, row.named_quote)
            final = Pricing(used.quote, price(used.quote, usage)) if used else None
            if named and named is not used:
                first = Pricing(named.quote, price(named.quote, usage))
        moved = row.quote != row.named_quote and row.quote != 0
        repriced = self._why(row, final) if moved else ()
        return Opened(session_id, turn, row, values, again, self._place(row), usage, final, first, repriced)

    def _event_at(self, position: int) -> Event:
        event = self.log.event_at(position)
        self._events[position] = event.stream_id, event.type
        return event

    def _place(self, row: SpanRow) -> Place:
        position, index = row.source_position, row.source_index
        body: Any = self._booking.body(position)
        if position not in self._events:
            self._event_at(position)
        stream, type_ = self._events[position]
        observations = getattr(body, "observations", ())
        number = observations[index].o if index < len(observations) else None
        offset, record = (number, None) if type_ == "lines.observed" else (None, number)
        return Place(position, index, stream, self._path(stream), offset, record)

    def _path(self, stream: str) -> str:
        path = self._paths.get(stream)
        if path is None:
            if len(self._paths) >= _SOURCES_KEPT:
                self._paths.clear()
            found = self.store.query("SELECT path FROM gen_sources WHERE stream_id = ?", stream).fetchone()
            path = self._paths[stream] = found[0] if found else ""
        return path

    def _why(self, row: SpanRow, final: Pricing | None) -> tuple[Repricing, ...]:
        if self._repricings is None:
            self._repricings = _Repricings(self.log)
        named = self._quote_name(row.named_quote)
        return self._repricings.of(row.span_id, named, final.quote.name if final else "")

    def _quote_name(self, key: int) -> str:
        row = self.store.one("quote", key) if key else None
        return row[1] if row else ""


def _forget(row: SpanRow) -> None:
    """Take away everything that is worked out from usage and quote: what is not found again is then unknown."""
    for name in (*TOKEN_CLASSES, "reported_total", "web_searches", "cost_nanousd", "first_cost_nanousd"):
        setattr(row, name, None)
    row.partial = row.lower_bound = row.upper_bound = row.quote = 0


class _Repricings:
    """What the books of the log say of prices that changed; read once, and only where one did."""

    def __init__(self, log: Log) -> None:
        self.replaced: dict[str, list[tuple[str, Repricing]]] = {}
        """Name of a quote -> what replaced it, each time."""
        self.apart: dict[str, tuple[str, Repricing]] = {}
        """Span id -> the quote that it was given by itself at last."""
        for event in log.book_events():
            if event.type not in ("quote.superseded", "span.priced"):
                continue
            body = decode(event.type, event.schema, event.data)
            why = Repricing(event.position, event.at, body.reason)
            if isinstance(body, QuoteSuperseded):
                self.replaced.setdefault(body.old, []).append((body.new, why))
            elif isinstance(body, SpanPriced):
                for span_id in body.spans:
                    self.apart[span_id] = body.quote, why

    def of(self, span_id: str, name: str, final: str) -> tuple[Repricing, ...]:
        """Return the events that led from the quote `name` to the one that prices a span now, in order."""
        path: list[Repricing] = []
        if span_id in self.apart:
            name, why = self.apart[span_id]
            path.append(why)
        seen = {name}
        while name != final and name in self.replaced:
            name, why = self.replaced[name][-1]
            if name in seen:
                break
            seen.add(name)
            path.append(why)
        return tuple(path)
