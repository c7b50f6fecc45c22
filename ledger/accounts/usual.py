"""The usual response: nothing was known of it, it stands in one place, and it is one row. A straight way to that row.

More than nine of ten responses are of this kind, so what a fold costs is decided here: no sighting, claim or typed row
is made on the way, and what all responses of a place have in common is looked up once. `fold` gives the same rows the
long way (sights, claims, booking); a test compares the two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ledger.accounts import clients
from ledger.accounts.booking import Body, Booking, nano
from ledger.accounts.known import Known, Turns
from ledger.accounts.prices import KnownQuote, QuoteBook
from ledger.accounts.rows import UNKNOWN, Dimensions
from ledger.accounts.sights import rank_of, rank_of_parts
from ledger.accounts.store import quote_key, session_key
from ledger.accounts.totals import TotalsChange
from ledger.events import sources as seen

CLIENTS = frozenset(("claude-code", "codex", "gemini"))
"""Those of whose responses this module knows how one that stands alone is named and what makes it final."""
_PLACES_MAX = 4096


class Place:
    """A context of a file: whose books its responses are in, and what they have in common."""

    __slots__ = (
        "agent_id", "client", "context", "dimensions", "epoch", "key", "named", "owner", "session", "sidechain",
    )  # fmt: skip

    def __init__(self, client: str, context: seen.Context) -> None:
        self.client, self.context = client, context
        self.key = session_key(client, context.session)
        """The key of the native session."""
        self.sidechain = 1 if context.sidechain else 0
        self.epoch = -1
        self.session: Any = None
        self.owner, self.agent_id = 0, ""
        """The account: a session, and a sub-agent in it."""
        self.named = ""
        self.dimensions: dict[str, int] = {}
        """Model -> key of the dimensions of a response that succeeded here."""

    def look_up(self, known: Known, booking: Booking) -> None:
        """Find out again what may have become another since the last time."""
        self.session = known.session(self.key)
        account = known.account(self.key, self.context.agent)
        self.owner, self.agent_id = account
        self.named = booking.agent_name(self.key, account, self.context.sidechain)
        self.dimensions.clear()
        self.epoch = known.epoch

    def dimension(self, known: Known, model: str) -> int:
        """Return the key of the dimensions of a response of this model that succeeded here."""
        found = self.dimensions.get(model)
        if found is None:
            context, named = self.context, self.named
            provider = clients.provider_of(self.client, context.provider)
            who = "agent" if named else "main"
            values = Dimensions(
                context.project, context.branch, self.client, who, named, provider, model, "model", "", "succeeded"
            )
            found = self.dimensions[model] = known.dimension(values)
        return found


Seen = tuple[Place, Any, Body, int, int]
"""An observation where it stands: place, observation, the body that holds it, position and index."""
Row = tuple[Any, ...]


class Usual:
    """Makes and counts the rows of usual responses."""

    def __init__(self, known: Known, book: QuoteBook, booking: Booking) -> None:
        self.known, self.book, self.booking = known, book, booking
        self.turns_of: dict[Place, Turns] = {}
        """The places of the responses that were booked last, each with the turns of its account."""
        self._places: dict[tuple[str, seen.Context], Place] = {}

    def place(self, client: str, context: seen.Context) -> Place:
        """Return the place that a context of a client's file is."""
        key = (client, context)
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= _PLACES_MAX:
                self._places.clear()
            place = self._places[key] = Place(client, context)
        return place

    def merged(self, found: list[Seen]) -> Seen | None:
        """Return several observations of one place as one, where that is plain: lines of a response that grew.

        The fullest tells the figures. None where they are of several places, or of two it is not clear which is fuller.
        """
        if len(found) == 1:
            return found[0]
        (place, first, *_), ranks = found[0], []
        for at, one, *_ in found:
            if at is not place or type(one) is not seen.Response or one.nested or one.request != first.request:
                return None
            parts = clients.parts_of(place.client, one, place.context.provider)
            ranks.append(rank_of_parts(parts))
        fullest = max(ranks)
        if ranks.count(fullest) > 1 or place.client != "claude-code":
            return None
        _, best, body, position, index = found[ranks.index(fullest)]
        ones = [one for _, one, *_ in found]
        whole = msgspec.structs.replace(
            best, at=min(one.at for one in ones), last_at=max(max(one.at, one.last_at) for one in ones),
            lines=sum(one.lines for one in ones), stop=max(one.stop for one in ones),
        )  # fmt: skip
        return place, whole, body, position, index

    def book_all(
        self, found: Iterable[tuple[str, Seen]], change: TotalsChange, unusual: Callable[[str, Seen], None]
    ) -> list[Row]:
        """Return the rows (USUAL) of responses that are new, by group, and add them to the totals.

        Those that turn out not to be usual are handed to `unusual`.
        """
        known, usage_of, count = self.known, clients.usage_of, change.add_usual
        quotes = _Quotes(self.book)
        rows: list[Row] = []
        turns_of: dict[Place, Turns] = {}
        self.turns_of = turns_of
        for group_id, one_seen in found:
            place, one, body, position, index = one_seen
            if place.epoch != known.epoch:
                place.look_up(known, self.booking)
            client, kind = place.client, type(one)
            if kind is seen.Response and not one.nested and client in CLIENTS:
                claude = client == "claude-code"
                variant = "" if client == "codex" else clients.quoted(one.request)
                final, last_at = bool(one.stop) or not claude, one.last_at
                cost_told = one.cost
            elif kind is seen.Cumulative and client == "codex":
                if place.session.has_records:
                    continue  # its responses have records of their own: its totals do not count
                variant, final, last_at, cost_told = place.session.session_id, True, 0, ""
            else:
                unusual(group_id, one_seen)
                continue
            usage = usage_of(client, one, place.context.provider)
            if usage is None:
                unusual(group_id, one_seen)
                continue
            at = one.at
            turns = turns_of.get(place)
            if turns is None:
                turns = turns_of[place] = known.turns(place.owner, place.agent_id)
            if at > turns.last_at:
                turns.last_at = at
            since = bisect_right(turns.starts, at)
            turn_key = turns.keys[since - 1] if since else known.turn(place.owner, place.agent_id, at)
            dimension_id = place.dimensions.get(one.model) or place.dimension(known, one.model)
            span_id = f"{group_id}:{variant}"
            named, named_by, priced_by = quotes[body.quotes[one.quote]] if 0 <= one.quote < len(body.quotes) else _NONE
            if quotes.apart:
                named_by, priced_by = self.book.of_span(span_id, named)
            cost, lower, upper = priced_by.price(usage) if priced_by else (None, False, False)
            first = cost if named_by is priced_by else (named_by.price(usage)[0] if named_by else None)
            # Numbers and not truth values: the driver binds those at once.
            partial = 0 if final else int(clients.is_placeholder(span_id, 0, "", usage.output))
            lower_bound = 1 if lower or partial or usage.unsplit_cache_write else 0
            upper_bound = 1 if upper or usage.upper_bound else 0
            reported = nano(cost_told) if cost_told else None
            uncached, read, output = usage.input_uncached, usage.cache_read, usage.output
            short, long, reasoning = usage.cache_write_5m, usage.cache_write_1h, usage.reasoning
            total, searches = usage.reported_total, usage.web_searches
            row = (
                span_id, place.owner, place.agent_id, turn_key, dimension_id, at, last_at if last_at > at else at,
                UNKNOWN if uncached is None else uncached, UNKNOWN if read is None else read,
                UNKNOWN if short is None else short, UNKNOWN if long is None else long,
                UNKNOWN if output is None else output, UNKNOWN if reasoning is None else reasoning,
                UNKNOWN if total is None else total, UNKNOWN if searches is None else searches,
                partial, lower_bound, upper_bound,
                UNKNOWN if cost is None else cost, named, priced_by.key if priced_by else 0,
                UNKNOWN if first is None else first, UNKNOWN if reported is None else reported, position, index,
                1 if final else 0, one.lines, rank_of(usage), place.sidechain,
            )  # fmt: skip
            rows.append(row)
            count(at, place.owner, dimension_id, usage, cost, reported, partial, lower_bound, upper_bound, one.lines)
        return rows


_Quoted = tuple[int, KnownQuote | None, KnownQuote | None]
_NONE: _Quoted = (0, None, None)


class _Quotes(dict[str, _Quoted]):
    """Name of a quote -> its key, the quote, and the one that prices today what names it; as of now."""

    def __init__(self, book: QuoteBook) -> None:
        super().__init__()
        self.book, self.apart = book, book.any_apart()

    def __missing__(self, name: str) -> _Quoted:
        key = quote_key(name)
        found = self[name] = key, *self.book.of_span("", key)
        return found
