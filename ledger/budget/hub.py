"""What the events of a hub say: which grants are open, what was spent of them, what is set aside. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ledger.events.envelope import Event
from ledger.events.hubs import GrantOpened, Limits, MonthObserved, ReservationMade, ReservationSettled

NO_GRANT = "the grant of a reservation is not open"
"""What `HubState.apply` says of every reservation in a month's stream: its grant is open in the session's hub."""
GRANT_AGAIN = "a grant is opened a second time"
RESERVED_AGAIN = "a request is reserved a second time"
SETTLED_AGAIN = "a request is settled a second time"
NOT_RESERVED = "a request is settled that was not reserved"
OTHER_GRANT = "a request is settled under another grant than it was reserved under"


class Held(NamedTuple):
    """A reservation that is open: its request has not ended."""

    grant: str
    tokens: int
    cost_nanousd: int | None
    """None where its price is unknown."""
    at: int
    """When it was made, microseconds UTC."""


class Tally(msgspec.Struct):
    """What a grant, a session or a month has used. What is spent is known, what is reserved is the most it can be."""

    requests: int = 0
    """All that were let go, each attempt one."""
    open: int = 0
    """Requests that have not ended."""
    kept: int = 0
    """Requests that ended and of which tokens or cost stayed unknown: their reservation counts, as it was made."""
    spent_tokens: int = 0
    reserved_tokens: int = 0
    """Bounds of the open and the kept ones."""
    spent_nanousd: int = 0
    reserved_nanousd: int = 0
    unpriced: int = 0
    """Requests of which neither the cost nor a bound of it is known: the money above is a lower bound by them."""
    overrun_tokens: int = 0
    """Tokens used beyond what had been set aside for the request."""
    overrun_nanousd: int = 0
    """Money spent beyond what had been set aside for the request; all of it where nothing could be."""

    def make(self, tokens: int, cost_nanousd: int | None) -> None:
        """A reservation was made."""
        self.requests += 1
        self.open += 1
        self.reserved_tokens += tokens
        if cost_nanousd is None:
            self.unpriced += 1
        else:
            self.reserved_nanousd += cost_nanousd

    def settle(self, held: Held, tokens: int | None, cost_nanousd: int | None) -> None:
        """Its request ended and used this much, None where that is unknown."""
        self.open -= 1
        self.kept += tokens is None or cost_nanousd is None
        if tokens is not None:
            self.reserved_tokens -= held.tokens
            self.spent_tokens += tokens
            self.overrun_tokens += max(0, tokens - held.tokens)
        if cost_nanousd is not None:
            if held.cost_nanousd is None:
                self.unpriced -= 1
            self.reserved_nanousd -= held.cost_nanousd or 0
            self.spent_nanousd += cost_nanousd
            self.overrun_nanousd += max(0, cost_nanousd - (held.cost_nanousd or 0))


class Grant(msgspec.Struct):
    """The limits of one root turn, and what it has used."""

    limits: Limits
    opened_at: int
    """Microseconds UTC."""
    tally: Tally


class Elsewhere(NamedTuple):
    """What a month cost apart from the reservations of its stream, as it was last observed."""

    cost_nanousd: int = 0
    unpriced: int = 0
    at: int = 0
    """When, microseconds UTC; 0 for never."""


def elsewhere(observed: MonthObserved, at: int) -> Elsewhere:
    """Return what an observation says, made at an instant (microseconds UTC)."""
    return Elsewhere(observed.cost_nanousd, observed.unpriced, at)


class HubState:
    """The fold of one hub stream: of a session, or of a month, whose reservations are of grants opened elsewhere."""

    def __init__(self) -> None:
        self.grants: dict[str, Grant] = {}
        self.total = Tally()
        """Of all reservations of the stream."""
        self.held: dict[str, Held] = {}
        """Span -> its reservation, while it is open."""
        self.ended: set[str] = set()
        """Spans that were settled."""
        self.elsewhere = Elsewhere()

    def spans(self) -> set[str]:
        """All requests that were ever reserved."""
        return self.ended.union(self.held)

    def apply(self, event: Event, body: Any) -> str:
        """Take in the next event; return what is wrong with it, empty where nothing is. A wrong one changes nothing,
        except that what is reserved counts for the stream also where its grant is not open (`NO_GRANT`)."""
        span = event.span or ""
        match body:
            case GrantOpened():
                if body.grant in self.grants:
                    return GRANT_AGAIN
                self.grants[body.grant] = Grant(body.limits, event.at, Tally())
            case ReservationMade():
                return self._make(span, body, event.at)
            case ReservationSettled():
                return self._settle(span, body)
            case MonthObserved():
                self.elsewhere = elsewhere(body, event.at)
        return ""

    def _make(self, span: str, made: ReservationMade, at: int) -> str:
        if span in self.held or span in self.ended:
            return RESERVED_AGAIN
        self.held[span] = Held(made.grant, made.tokens, made.cost_nanousd, at)
        self.total.make(made.tokens, made.cost_nanousd)
        grant = self.grants.get(made.grant)
        if grant is None:
            return NO_GRANT
        grant.tally.make(made.tokens, made.cost_nanousd)
        return ""

    def _settle(self, span: str, settled: ReservationSettled) -> str:
        held = self.held.get(span)
        if held is None:
            return SETTLED_AGAIN if span in self.ended else NOT_RESERVED
        if held.grant != settled.grant:
            return OTHER_GRANT
        del self.held[span]
        self.ended.add(span)
        self.total.settle(held, settled.tokens, settled.cost_nanousd)
        if (grant := self.grants.get(held.grant)) is not None:
            grant.tally.settle(held, settled.tokens, settled.cost_nanousd)
        return ""
