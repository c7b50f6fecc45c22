"""The inside of a month is the same month in every zone; its edges are told apart by the quarter-hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.accounts.amounts import DAY_US
from ledger.accounts.months import inner_month, inner_month_end

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(*parts: int) -> int:
    return (datetime(*parts, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("day", "begin"),
    [
        ((2026, 2, 1), None),
        ((2026, 2, 2), (2026, 2, 2)),
        ((2026, 2, 27), (2026, 2, 2)),
        ((2026, 2, 28), None),
        ((2024, 2, 28), (2024, 2, 2)),
        ((2024, 2, 29), None),
        ((1969, 12, 30), (1969, 12, 2)),
        ((1969, 12, 31), None),
    ],
)
def test_the_days_of_a_month(day: tuple[int, ...], begin: tuple[int, ...] | None) -> None:
    assert inner_month(micros(*day)) == (None if begin is None else micros(*begin))


def test_a_day_beyond_the_calendar_is_at_an_edge() -> None:
    for day in (-(1 << 62) // DAY_US * DAY_US, (1 << 62) // DAY_US * DAY_US, micros(9999, 12, 31)):
        assert inner_month(day) is None


@given(at=st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), hours=st.integers(-12, 14))
def test_every_zone_agrees_on_the_month_of_an_instant_inside(at: datetime, hours: int) -> None:
    """An instant of the inside, and the bucket that stands for it, lie in one month wherever they are looked at."""
    at_us = (at.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    bucket = inner_month(at_us - at_us % DAY_US)
    if bucket is None:
        return
    zone = timezone(timedelta(hours=hours))
    seen = [(EPOCH + timedelta(microseconds=one)).astimezone(zone) for one in (at_us, bucket)]
    assert (seen[0].year, seen[0].month) == (seen[1].year, seen[1].month)
    assert bucket <= at_us < inner_month_end(bucket)
    assert inner_month(inner_month_end(bucket)) is None and inner_month(bucket - DAY_US) is None
