"""Events of `hub` streams: what is decided for a whole session, by anyone, under the write lock."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ceilings of one root turn and all that it causes. None is no ceiling."""

    iterations: int | None = None
    """Answered model requests of the turn itself."""
    requests: int | None = None
    """Requests of the turn and all that it causes, every attempt counted."""
    tokens: int | None = None
    """Input and output of all those requests."""
    cost_nanousd: int | None = None
    """Money for all those requests."""
    wall_us: int | None = None
    """Time since the grant was opened, by the wall clock."""
    session_cost_nanousd: int | None = None
    """Money over all grants of the session."""
    month_cost_nanousd: int | None = None
    """Money over all sessions of the calendar month, UTC."""
    unknown_price: str = "refuse"
    """What a request of unknown price does where money is limited: `refuse`, or `warn` and go on."""


class GrantOpened(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of one root turn; a new prompt is a new grant."""

    grant: str
    """Its id."""
    limits: Limits
    """What it allows."""


class ReservationMade(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request may leave: the most that it can use and cost is set aside. The envelope's `span` is the request's."""

    grant: str
    """The grant that it is taken from."""
    tokens: int
    """Upper bound of all tokens of the request and its answer."""
    cost_nanousd: int | None = None
    """Upper bound of its cost; None where its price is unknown."""


class ReservationSettled(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request ended. Where what it used is unknown, its reservation stays as it is."""

    grant: str
    """The grant that it was taken from."""
    tokens: int | None = None
    """All tokens that it used, None where that is unknown."""
    cost_nanousd: int | None = None
    """What it cost, None where that is unknown: then the bound stays."""


class MonthObserved(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a month cost by the accounts, apart from the reservations of this stream. The newest counts."""

    cost_nanousd: int
    """What the spans of the month cost, as far as that is known."""
    unpriced: int = 0
    """Spans among them of which the cost is not known."""


class EndpointHeld(msgspec.Struct, frozen=True, omit_defaults=True):
    """An endpoint asked for a pause: whoever uses it with the same key leaves it alone until then."""

    provider: str
    """Whose endpoint it is."""
    until: int
    """When the pause ends by the wall clock, microseconds UTC."""
    delay_us: int
    """How long the pause is."""
    reason: str = "rate_limited"
    """The code of the failure."""
