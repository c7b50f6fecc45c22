"""Days, weeks and months in the viewer's time zone, and the dates that commands accept."""

from __future__ import annotations

import datetime as calendar
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from ledger.errors import UsageError

PERIODS = ("day", "week", "month")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Zone:
    """A time zone by name, or that of the machine where none is given."""

    def __init__(self, name: str | None) -> None:
        self.name = name or ""
        self._zone: tzinfo | None = None
        if name and name.upper() in ("UTC", "Z", "GMT"):
            self._zone = UTC
        elif name:
            self._zone = _named(name)

    @property
    def is_utc(self) -> bool:
        """True where days are UTC days: the zone is UTC by name, or the machine's is."""
        if self._zone is None:
            return time.tzname == ("UTC", "UTC") and not (time.timezone or time.daylight)
        return self._zone is UTC

    def date(self, at_us: int) -> calendar.date:
        """Return the calendar day of an instant; at the ends of the calendar the UTC day."""
        if self._zone is UTC:
            return _from_days(at_us // 86_400_000_000)
        try:
            if self._zone is None:
                local = time.localtime(at_us // 1_000_000)
                return calendar.date(local.tm_year, local.tm_mon, local.tm_mday)
            return (_EPOCH + timedelta(microseconds=at_us)).astimezone(self._zone).date()
        except (OverflowError, ValueError):  # a log may claim any time, also in the last hours of the year 9999
            return _from_days(at_us // 86_400_000_000)

    def midnight_us(self, day: calendar.date) -> int:
        """Return the instant at which a day begins: its first, where a clock change repeats or skips it."""
        moment = datetime(day.year, day.month, day.day, tzinfo=self._zone)
        if self._zone is None:  # not by time.mktime: of a midnight that comes twice it takes either
            return round(moment.timestamp()) * 1_000_000
        return (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND

    def moment(self, at_us: int) -> datetime:
        """Return an instant as a date and time of this zone; at the ends of the calendar as one of UTC."""
        moment = _EPOCH + timedelta(microseconds=at_us)
        try:
            return moment.astimezone(self._zone)
        except (OverflowError, ValueError):
            return moment

    def label(self, period: str) -> Callable[[int], str]:
        """Return the function from an instant to the name of its day, week (ISO) or month."""
        if period == "day":
            return lambda at_us: self.date(at_us).isoformat()
        if period == "month":
            return lambda at_us: self.date(at_us).isoformat()[:7]
        return lambda at_us: _week(self.date(at_us))


def _named(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"--tz {name}: unknown time zone: use a name such as UTC or Europe/Berlin") from None


def _from_days(days: int) -> calendar.date:
    return calendar.date.fromordinal(days + 719_163)


def _week(day: calendar.date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


def parse_day(text: str, zone: Zone, now_us: int, option: str = "--since") -> int:
    """Return the instant at which the named day begins: `2026-11-30`, `2026-11`, `today`, `yesterday`, `7d`.

    `7d` is the midnight seven days ago. Raises UsageError for anything else, naming the option.
    """
    today = zone.date(now_us)
    word = text.strip().lower()
    try:
        if word == "today":
            return zone.midnight_us(today)
        if word == "yesterday":
            return zone.midnight_us(today - timedelta(days=1))
        if word.endswith("d") and word[:-1].isdigit():
            return zone.midnight_us(today - timedelta(days=int(word[:-1])))
        if len(word) == 7:
            word += "-01"
        return zone.midnight_us(calendar.date.fromisoformat(word))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} {text or repr(text)}: not a day: use 2026-11-30, 2026-11, today, yesterday or 7d"
        ) from None


def iso(at_us: int | None) -> str | None:
    """Return an instant as ISO 8601 in UTC with milliseconds."""
    if at_us is None:
        return None
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
