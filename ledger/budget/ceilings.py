"""May this request leave? The ceilings of a grant, of its session and of the month, in one pure function."""

from __future__ import annotations

from typing import NamedTuple

from ledger.budget.bound import Bound
from ledger.budget.hub import Elsewhere, HubState, Tally
from ledger.errors import EventMissing
from ledger.events.hubs import Limits

REFUSE, WARN = "refuse", "warn"
"""The policies for a request of unknown price where money is limited."""

_NAMES = {
    "wall": "the time of this turn is",
    "requests": "requests of this turn are",
    "tokens": "tokens of this turn are",
    "cost": "the cost of this turn is",
    "session_cost": "the cost of this session is",
    "month_cost": "the cost of this month is",
}
_MONEY = ("cost", "session_cost", "month_cost")


class Refusal(NamedTuple):
    """A request that must not leave, and the ceiling that it would break.

    Figures are nano-dollars where money is limited, microseconds for `wall`, else counts.
    """

    code: str
    """`wall`, `requests`, `tokens`, `price_unknown`, `cost`, `session_cost`, `month_cost`."""
    spent: int
    """What is known to be used."""
    reserved: int
    """What open requests, and those of which nobody knows what they used, can have used at most."""
    wanted: int | None
    """What this request can use at most, None where its price is unknown."""
    limit: int
    unpriced: int = 0
    """Requests that may have cost more than is known here: `spent` is a lower bound by them."""
    ceiling: str = ""
    """Which limit: the code, except for `price_unknown`, where it is the limit of money that cannot be held."""

    @property
    def text(self) -> str:
        """One line for people."""
        show = {"wall": _seconds}.get(self.ceiling, _usd if self.ceiling in _MONEY else _count)
        limit = f"{_NAMES[self.ceiling]} limited to {show(self.limit)}"
        if self.code == "wall":
            return f"{limit}, and {show(self.spent)} have passed: raise the limit to go on"
        more = f" (and {_count(self.unpriced)} requests of unknown cost)" if self.unpriced else ""
        used = f"{show(self.spent)} spent{more}, {show(self.reserved)} reserved"
        if self.code == "price_unknown":
            return f"{limit}, and the price of this request is not known ({used}): state it with `ledger prices set`"
        wanted = "an unknown sum" if self.wanted is None else show(self.wanted)
        return f"{limit}: {used}, this request may take {wanted}: raise the limit to go on"


def refusal(hub: HubState, grant: str, wanted: Bound, now_us: int, month: Tally | None = None) -> Refusal | None:
    """Return the first ceiling that a request would break, None where it may leave.

    `now_us` is the wall clock (microseconds UTC). `month` is what `of_month` says, needed where the grant limits the
    month. Raises EventMissing where the grant is not open in the hub.
    """
    found = hub.grants.get(grant)
    if found is None:
        raise EventMissing(f"grant {grant} is not open in its session's hub: run `ledger verify`")
    limits, own = found.limits, found.tally
    passed = now_us - found.opened_at
    if limits.wall_us is not None and passed >= limits.wall_us:
        return Refusal("wall", passed, 0, 0, limits.wall_us, ceiling="wall")
    if limits.requests is not None and own.requests >= limits.requests:
        return Refusal("requests", own.requests - own.open, own.open, 1, limits.requests, ceiling="requests")
    if limits.tokens is not None and own.spent_tokens + own.reserved_tokens + wanted.tokens > limits.tokens:
        return Refusal("tokens", own.spent_tokens, own.reserved_tokens, wanted.tokens, limits.tokens, ceiling="tokens")
    for ceiling, tally in (("cost", own), ("session_cost", hub.total), ("month_cost", month or Tally())):
        if (refused := money_refusal(ceiling, limits, tally, wanted.cost_nanousd)) is not None:
            return refused
    return None


def money_refusal(ceiling: str, limits: Limits, tally: Tally, wanted_nanousd: int | None) -> Refusal | None:
    """Return the refusal of one ceiling of money (`cost`, `session_cost`, `month_cost`), None where it holds."""
    limit: int | None = getattr(limits, f"{ceiling}_nanousd")
    if limit is None:
        return None
    used = tally.spent_nanousd + tally.reserved_nanousd
    if wanted_nanousd is None and limits.unknown_price != WARN:
        code = "price_unknown"
    elif used + (wanted_nanousd or 0) > limit or (wanted_nanousd is None and used == limit):
        code = ceiling
    else:
        return None
    return Refusal(code, tally.spent_nanousd, tally.reserved_nanousd, wanted_nanousd, limit, tally.unpriced, ceiling)


def of_month(stream: HubState, elsewhere: Elsewhere) -> Tally:
    """Return the money of a month: what its stream holds, and what it cost apart from that."""
    inside = stream.total
    return Tally(
        spent_nanousd=inside.spent_nanousd + elsewhere.cost_nanousd,
        reserved_nanousd=inside.reserved_nanousd,
        unpriced=inside.unpriced + elsewhere.unpriced,
    )


def limits_money(limits: Limits) -> bool:
    """Return whether any money is limited: then a request of unknown price is refused, or goes with a warning."""
    money = (limits.cost_nanousd, limits.session_cost_nanousd, limits.month_cost_nanousd)
    return any(limit is not None for limit in money)


def _count(number: int) -> str:
    return f"{number:,}"


def _seconds(us: int) -> str:
    return f"{us // 1_000_000:,} s"


def _usd(nanousd: int) -> str:
    """Exact dollars, with two decimals at least."""
    whole, rest = divmod(nanousd, 10**9)
    decimals = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{whole:,}.{decimals} USD"
