"""A calendar month (UTC) over all sessions of the agent: its stream, and what it cost apart from that.

What other clients did is imported and does not count: they have limits of their own, and many are paid for by
subscription. Which rows of the accounts do count is decided in docs/decisions/0019-ceilings.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from ledger.accounts.amounts import GRAIN_DAY
from ledger.accounts.catchup import View, snapshot
from ledger.events.hubs import MonthObserved
from ledger.log.log import Log

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES_AT_ONCE = 500


def month_of(at_us: int) -> str:
    """Return the calendar month of an instant (microseconds UTC), like `2026-12`."""
    return f"{_EPOCH + timedelta(microseconds=at_us):%Y-%m}"


def month_stream(log: Log, month: str) -> str:
    """Return the stream in which a month's reservations stand.

    It names the log too, as the book does: two logs that are copied into one place have a month each.
    """
    return f"hub:month:{month}:{log.log_id}"


def month_bounds(month: str) -> tuple[int, int]:
    """Return the first instant of a month and of the next one (microseconds UTC)."""
    first = datetime.strptime(f"{month}-01", "%Y-%m-%d").replace(tzinfo=UTC)
    following = (first + timedelta(days=31)).replace(day=1)
    microsecond = timedelta(microseconds=1)
    return (first - _EPOCH) // microsecond, (following - _EPOCH) // microsecond


def observe(log: Log, month: str, reserved: Callable[[], Iterable[str]]) -> MonthObserved:
    """Bring the accounts up to the log and return what a month cost apart from the requests of its stream.

    `reserved` returns the spans of that stream. It is asked when the accounts are held still: whatever they contain was
    reserved before. Such a request counts in the stream alone, so nothing counts twice. Raises LogUnavailable.
    """
    from ledger.accounts.live_usage import CLIENT, span_id  # a part of the fold, which a name of a stream does not need

    begin, end = month_bounds(month)
    with snapshot(log) as view:
        cost, unpriced = _sum(
            view,
            "SELECT sum(t.cost_nanousd), sum(t.unpriced_spans) FROM gen_totals t JOIN gen_dimensions n "
            "ON n.dimension_id = t.dimension_id WHERE n.client = ? AND t.grain = ? AND t.bucket >= ? AND t.bucket < ?",
            (CLIENT, GRAIN_DAY, begin, end),
        )
        names = [span_id(span) for span in reserved()]
        for first in range(0, len(names), _NAMES_AT_ONCE):
            some = names[first : first + _NAMES_AT_ONCE]
            inside, open_ = _sum(
                view,
                "SELECT sum(cost_nanousd), sum(CASE WHEN cost_nanousd IS NULL THEN 1 ELSE 0 END) FROM gen_spans "
                f"WHERE span_id IN ({', '.join('?' * len(some))}) AND occurred_at >= ? AND occurred_at < ?",
                (*some, begin, end),
            )
            cost, unpriced = cost - inside, unpriced - open_
    return MonthObserved(cost, unpriced)


def _sum(view: View, sql: str, parameters: Sequence[object]) -> tuple[int, int]:
    """Two sums, of no rows 0."""
    first, second = view.store.query(sql, *parameters).fetchone()
    return int(first or 0), int(second or 0)
