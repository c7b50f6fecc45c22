"""Months in totals: the inside of one is the same month in every time zone, its edges are kept by the quarter-hour.

No zone is further from UTC than 14 hours, so an instant that lies within the second to the last but one UTC day of a
month lies in that month wherever it is looked at. Only the first and the last day need the finer cells.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from ledger.accounts.amounts import DAY_US

_EPOCH = date(1970, 1, 1).toordinal()


@lru_cache(maxsize=4096)
def inner_month(day_us: int) -> int | None:
    """Return the start of the second day of the month (microseconds UTC) where a UTC day is inside it, else None.

    `day_us` is the start of the day. A day beyond the calendar (years 1 to 9999) is at an edge.
    """
    ordinal = _EPOCH + day_us // DAY_US
    try:
        today, tomorrow = date.fromordinal(ordinal), date.fromordinal(ordinal + 1)
    except (ValueError, OverflowError):
        return None
    if today.day == 1 or tomorrow.day == 1:
        return None
    return day_us - (today.day - 2) * DAY_US


def inner_month_end(bucket_us: int) -> int:
    """Return where the inside of a month ends that begins at `bucket_us`: at the start of its last day."""
    day = bucket_us
    while inner_month(day) is not None:
        day += DAY_US
    return day
