"""Reserving: the hub's part of the commits in which a request leaves and ends. Nothing is reserved apart from them.

Whoever runs a request asks the hub for appends and puts them into one `Log.append` with the events of its own stream.
They stand at the version of the hub that was decided upon: where another run was faster, the append conflicts, the
news are folded and it is decided again. Event ids are kept, so that the same is never appended twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ledger.budget.bound import Bound
from ledger.budget.ceilings import Refusal, of_month, refusal
from ledger.budget.hub import HubState, elsewhere
from ledger.errors import EventIdReused, VersionConflict
from ledger.events.envelope import NewEvent
from ledger.events.hubs import GrantOpened, Limits, MonthObserved, ReservationMade, ReservationSettled
from ledger.events.registry import decode
from ledger.ids import new_id
from ledger.log.blobs import Blob
from ledger.log.log import Log, StreamAppend

HUB = "hub:"
"""How the names of these streams begin."""
OBSERVE_EVERY_US = 60_000_000
"""How old the figure may be that a month cost apart from its stream."""
_PROPOSED_MAX = 64
_EDGE_US = 3600 * 1_000_000
"""Longer than from the decision of a reservation to its commit: it may stand in the stream of the month before."""


class Stream:
    """One hub stream, folded as far as it was read."""

    def __init__(self, log: Log, stream_id: str) -> None:
        self.log, self.stream_id = log, stream_id
        self.version = 0
        self.state = HubState()

    def refresh(self) -> HubState:
        """Fold what is new; return the state."""
        while page := self.log.stream_events(self.stream_id, self.version):
            for event in page:
                self.state.apply(event, decode(event.type, event.schema, event.data))
                self.version = event.version
        return self.state


Parts = list[tuple[Stream, list[Any]]]
"""Bodies of events by stream."""
Proposal = list[tuple[Stream, list[NewEvent]]]
"""What is to be appended to each stream, whatever its version will be."""


class Hub:
    """The hub of one session, as one process sees it. Not shared between threads, as its log."""

    def __init__(self, log: Log, session_id: str) -> None:
        self.log, self.session_id = log, session_id
        self._own = Stream(log, hub_stream(session_id))
        self._months: dict[str, Stream] = {}
        self._proposed: dict[tuple[str, str], Proposal] = {}
        """The newest proposals by kind and identity: a retry appends the same events."""

    @property
    def state(self) -> HubState:
        """What the hub holds now. Reads what is new; it is not to be changed."""
        return self._own.refresh()

    def open_grant(self, grant: str, limits: Limits, *, turn: str | None = None) -> list[StreamAppend]:
        """Return what to append with `turn.started`: the limits of a root turn. Nothing where it is open already."""
        if grant in self._own.refresh().grants and ("grant", grant) not in self._proposed:
            return []
        return self._propose(("grant", grant), [(self._own, [GrantOpened(grant, limits)])], turn, None)

    def reserve(
        self, grant: str, span: str, wanted: Bound, now_us: int, *, turn: str | None = None
    ) -> list[StreamAppend] | Refusal:
        """Return what to append with `request.sent`, or the ceiling that the request would break.

        `span` is the request's, `now_us` the wall clock (microseconds UTC). Nothing is written here, except that a
        limit of the month brings the accounts up to the log.
        Raises EventMissing where the grant is not open, EventIdReused where another process reserved the span.
        """
        state, key = self._own.refresh(), ("made", span)
        if span in state.held or span in state.ended:
            if key not in self._proposed:
                raise EventIdReused(f"request {span} is reserved already in {self._own.stream_id}: give it a new id")
            return self._at_heads(key)
        made = ReservationMade(grant, wanted.tokens, wanted.cost_nanousd)
        parts: Parts = [(self._own, [made])]
        spent = None
        if grant in state.grants and state.grants[grant].limits.month_cost_nanousd is not None:
            month = self._month(now_us)
            news = self._observe(month, now_us, self._proposed.get(key, []))
            of_stream = month.refresh()
            spent = of_month(of_stream, elsewhere(news[0], now_us) if news else of_stream.elsewhere)
            parts.append((month, [*news, made]))
        return refusal(state, grant, wanted, now_us, spent) or self._propose(key, parts, turn, span)

    def settle(
        self, span: str, *, tokens: int | None, cost_nanousd: int | None, turn: str | None = None
    ) -> list[StreamAppend]:
        """Return what to append with the end of a request: what it used, None for what is unknown.

        Nothing where it was never reserved, or another process settled it.
        """
        state, key = self._own.refresh(), ("settled", span)
        held = state.held.get(span)
        if held is None:
            known = self._proposed.get(key)
            body = known[0][1][0].body if known else None
            again = body is not None and (body.tokens, body.cost_nanousd) == (tokens, cost_nanousd)
            return self._at_heads(key) if again else []
        settled = ReservationSettled(held.grant, tokens, cost_nanousd)
        streams = [self._own]
        if held.grant in state.grants and state.grants[held.grant].limits.month_cost_nanousd is not None:
            months = {month.stream_id: month for month in (self._month(held.at), self._month(held.at - _EDGE_US))}
            streams += [month for month in months.values() if span in month.refresh().held]
        return self._propose(key, [(stream, [settled]) for stream in streams], turn, span)

    def _month(self, at_us: int) -> Stream:
        """The stream of the month of an instant."""
        from ledger.budget.month import month_of, month_stream  # few limit the month, and it needs the accounts

        month = month_of(at_us)
        if month not in self._months:
            self._months[month] = Stream(self.log, month_stream(self.log, month))
        return self._months[month]

    def _observe(self, month: Stream, now_us: int, proposed: Proposal) -> list[MonthObserved]:
        """What the month cost apart from its stream, to be appended; nothing where the stream says so and is fresh."""
        from ledger.budget.month import month_of, observe

        before = [event.body for _, events in proposed for event in events if isinstance(event.body, MonthObserved)]
        if before:
            return before
        known = month.refresh().elsewhere
        if known.at and now_us - known.at < OBSERVE_EVERY_US:
            return []
        return [observe(self.log, month_of(now_us), lambda: month.refresh().spans())]

    def _propose(self, key: tuple[str, str], parts: Parts, turn: str | None, span: str | None) -> list[StreamAppend]:
        """Return the appends of these bodies at the heads that are known, with the ids they had before."""
        known = self._proposed.get(key, [])
        if [(stream, [event.body for event in events]) for stream, events in known] != parts:
            self._proposed[key] = [
                (stream, [self._event(body, turn, span) for body in bodies]) for stream, bodies in parts
            ]
            while len(self._proposed) > _PROPOSED_MAX:
                del self._proposed[next(iter(self._proposed))]
        return self._at_heads(key)

    def _at_heads(self, key: tuple[str, str]) -> list[StreamAppend]:
        return [StreamAppend(stream.stream_id, stream.version, events) for stream, events in self._proposed[key]]

    def _event(self, body: Any, turn: str | None, span: str | None) -> NewEvent:
        of_request = None if isinstance(body, MonthObserved) else span
        return NewEvent(body=body, event_id=new_id(), session_id=self.session_id, turn=turn, span=of_request)


def hub_stream(session_id: str) -> str:
    """Return the stream of a session's hub."""
    return HUB + session_id


def append_with(
    log: Log, make: Callable[[], Sequence[StreamAppend] | Refusal], blobs: Sequence[tuple[bytes, Blob]] = ()
) -> list[int] | Refusal:
    """Append what `make` returns in one durable transaction; return the versions, or the refusal that it returned.

    `make` asks a `Hub` and adds the events of its own streams. It is asked again where a hub has moved on meanwhile.
    A conflict of any other stream is raised (VersionConflict): its owner decides what that means.
    """
    while True:
        made = make()
        if isinstance(made, Refusal):
            return made
        try:
            return log.append(made, blobs)
        except VersionConflict as conflict:
            if not conflict.stream_id.startswith(HUB) or conflict.found <= conflict.expected:
                raise
