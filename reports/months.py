"""Questions by month: which rows of totals answer them, and the months in which the database sums them."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

from ledger.accounts.amounts import DAY_US, GRAIN_DAY, GRAIN_EDGE, GRAIN_MONTH
from ledger.accounts.catchup import View
from reports.periods import Zone

_MONTHS_MAX = 240
"""So many months are told apart by the database; where there are more, that is done here, row by row."""
_CALENDAR = (2, 9997)
"""The first and the last year whose months have neighbours in every zone."""


def begins_month(zone: Zone, at_us: int) -> bool:
    """Return whether a month begins at an instant."""
    moment = zone.moment(at_us)
    return moment.day == 1 and not (moment.hour or moment.minute or moment.second or moment.microsecond)


def _month_span(view: View) -> tuple[int, int] | None:
    """Return the first and the last bucket of the grains of months, None where there is none."""
    sql = "SELECT min(bucket), max(bucket) FROM gen_totals WHERE grain = ?"
    found = [view.store.query(sql, grain).fetchone() for grain in (GRAIN_MONTH, GRAIN_EDGE)]
    bounds = [(int(first), int(last)) for first, last in found if first is not None]
    return (min(first for first, _ in bounds), max(last for _, last in bounds)) if bounds else None


def _months(view: View, zone: Zone) -> list[int]:
    """Return the instants at which the months begin in which there are spans, and the next one; none if too many."""
    span = _month_span(view)
    if span is None:
        return []
    first, last = (zone.date(at) for at in span)
    numbers = range(first.year * 12 + first.month - 1, last.year * 12 + last.month + 1)
    if len(numbers) > _MONTHS_MAX or first.year < _CALENDAR[0] or last.year > _CALENDAR[1]:
        return []
    return [zone.midnight_us(date(number // 12, number % 12 + 1, 1)) for number in numbers]


def month_begin(view: View, zone: Zone) -> str:
    """Return the column that has the begin of a bucket's month: the database then sums one row a month."""
    begins = _months(view, zone)
    if not begins:
        return "t.bucket"
    steps = pairwise(begins)
    return f"CASE {' '.join(f'WHEN t.bucket < {end} THEN {begin}' for begin, end in steps)} END"


def utc_months(view: View) -> str | None:
    """Return what stands for the totals of months where days are UTC days: their insides, and days at their edges."""
    begins = _months(view, Zone("UTC"))
    if not begins:
        return None
    days = ", ".join(str(day) for begin in begins for day in (begin - DAY_US, begin))
    return (
        f"(SELECT * FROM gen_totals WHERE grain = {GRAIN_MONTH} UNION ALL "
        f"SELECT * FROM gen_totals WHERE grain = {GRAIN_DAY} AND bucket IN ({days}))"
    )
