"""Days, weeks and months where the viewer lives, and the dates that commands accept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.accounts.amounts import QUARTER_HOUR_US
from ledger.errors import UsageError
from reports.periods import Zone, iso, parse_day

ZONES = sorted(available_timezones())
DAY_US = 86_400_000_000
MINUTE_US = 60_000_000
EARLIEST_US = -62_135_596_800_000_000
LATEST_US = 253_402_300_799_999_999
"""The ends of the calendar: 0001-01-01 and the last microsecond of 9999."""

MINUTE_PAST_MIDNIGHT = {"America/Goose_Bay", "America/Moncton", "America/St_Johns", "Canada/Newfoundland"}
"""Zones whose clocks went back at 00:01, into the day before, in autumns from 1987 to 2010. No other zone's day
ever changed in the middle of a quarter hour since 1980."""


def us(text: str) -> int:
    """Return an ISO 8601 instant in microseconds UTC."""
    return round(datetime.fromisoformat(text).timestamp()) * 1_000_000


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A function that moves this process to another time zone, and back at the end."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


# labels


@pytest.mark.parametrize(
    ("zone", "at", "day", "week", "month"),
    [
        ("UTC", "2026-11-30T00:00:00Z", "2026-11-30", "2026-W49", "2026-11"),
        ("UTC", "2026-11-29T23:59:59Z", "2026-11-29", "2026-W48", "2026-11"),
        ("utc", "2026-12-01T00:00:00Z", "2026-12-01", "2026-W49", "2026-12"),
        ("Europe/Berlin", "2026-11-30T22:59:59Z", "2026-11-30", "2026-W49", "2026-11"),
        ("Europe/Berlin", "2026-11-30T23:00:00Z", "2026-12-01", "2026-W49", "2026-12"),
        ("Europe/Berlin", "2026-07-31T21:59:59Z", "2026-07-31", "2026-W31", "2026-07"),
        ("Europe/Berlin", "2026-07-31T22:00:00Z", "2026-08-01", "2026-W31", "2026-08"),
        ("Asia/Kolkata", "2026-11-30T18:29:59Z", "2026-11-30", "2026-W49", "2026-11"),
        ("Asia/Kolkata", "2026-11-30T18:30:00Z", "2026-12-01", "2026-W49", "2026-12"),
        ("Asia/Kathmandu", "2026-11-30T18:14:59Z", "2026-11-30", "2026-W49", "2026-11"),
        ("Asia/Kathmandu", "2026-11-30T18:15:00Z", "2026-12-01", "2026-W49", "2026-12"),
        ("Pacific/Kiritimati", "2026-12-31T10:00:00Z", "2027-01-01", "2026-W53", "2027-01"),
        ("America/Los_Angeles", "2027-01-01T07:59:59Z", "2026-12-31", "2026-W53", "2026-12"),
    ],
)
def test_the_names_of_an_instant(zone: str, at: str, day: str, week: str, month: str) -> None:
    """`2026-11-30`, ISO `2026-W49` and `2026-11`, in the zone asked for (OBS-02)."""
    names = {period: Zone(zone).label(period)(us(at)) for period in ("day", "week", "month")}
    assert names == {"day": day, "week": week, "month": month}


@pytest.mark.parametrize(
    ("day", "week"),
    [
        ("2020-12-31", "2020-W53"),
        ("2021-01-03", "2020-W53"),
        ("2021-01-04", "2021-W01"),
        ("2024-12-29", "2024-W52"),
        ("2024-12-30", "2025-W01"),
        ("2025-12-28", "2025-W52"),
        ("2025-12-29", "2026-W01"),
        ("2026-12-31", "2026-W53"),
        ("2027-01-03", "2026-W53"),
        ("2027-01-04", "2027-W01"),
        ("0001-01-01", "0001-W01"),
    ],
)
def test_iso_weeks_at_the_ends_of_years(day: str, week: str) -> None:
    """A week belongs to the year of its Thursday (ISO 8601)."""
    assert Zone("UTC").label("week")(us(f"{day}T12:00:00Z")) == week


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
def test_a_day_with_a_clock_change_has_its_own_length(day: str, hours: int) -> None:
    """Every hour of such a day has its name, the repeated and the skipped one included."""
    zone, begin = Zone("Europe/Berlin"), date.fromisoformat(day)
    first, last = zone.midnight_us(begin), zone.midnight_us(begin + timedelta(days=1))
    assert last - first == hours * 3_600_000_000
    label = zone.label("day")
    assert {label(at) for at in range(first, last, QUARTER_HOUR_US)} == {day}
    assert label(first - 1) < day < label(last)


@pytest.mark.parametrize(
    ("zone", "day", "begins"),
    [
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),  # 00:00 was skipped
        ("Atlantic/Azores", "2026-10-25", "2026-10-25T00:00:00Z"),  # 00:00 came twice
        ("America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"),
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),  # the whole day was skipped
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"),
    ],
)
def test_a_midnight_that_is_skipped_or_comes_twice(
    zone: str, day: str, begins: str, machine: Callable[[str], None]
) -> None:
    """A day begins at its first instant, by name and as the machine's own zone."""
    machine(zone)
    for one in (Zone(zone), Zone(None)):
        assert one.midnight_us(date.fromisoformat(day)) == us(begins)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ZONES), st.dates(date(1980, 1, 1), date(2037, 12, 31)))
def test_every_midnight_falls_on_a_quarter_hour(zone: str, day: date) -> None:
    """What lets totals by quarter hour answer in any zone (OBS-19)."""
    assert Zone(zone).midnight_us(day) % QUARTER_HOUR_US == 0


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([zone for zone in ZONES if zone not in MINUTE_PAST_MIDNIGHT]),
    st.dates(date(1980, 1, 1), date(2037, 12, 31)),
    st.integers(0, DAY_US - 1),
)
def test_a_quarter_hour_is_of_one_day(zone: str, day: date, past: int) -> None:
    """The name of a bucket's beginning is the name of every instant in it (OBS-19)."""
    at = us(f"{day}T00:00:00Z") + past
    names = Zone(zone)
    for period in ("day", "week", "month"):
        assert names.label(period)(at) == names.label(period)(at - at % QUARTER_HOUR_US)


def test_the_days_that_change_within_a_quarter_hour_are_long_past() -> None:
    """Newfoundland put its clocks back at 00:01 until 2010: a quarter hour of those nights has the later day's name."""
    zone = Zone("America/St_Johns")
    bucket = us("2010-11-07T02:30:00Z")
    assert zone.date(bucket) == date(2010, 11, 7)
    assert zone.date(bucket + 2 * MINUTE_US) == date(2010, 11, 6)
    since = us("2011-11-01T00:00:00Z")
    for name in sorted(MINUTE_PAST_MIDNIGHT):
        label = Zone(name).label("day")
        for night in range(0, 16 * 365, 7):
            begin = since + night * DAY_US
            for minute in (149, 150, 151, 209, 210, 211, 239, 240, 241):
                at = begin + minute * MINUTE_US
                assert label(at) == label(at - at % QUARTER_HOUR_US)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ZONES), st.dates(date(1980, 1, 1), date(2037, 12, 31)))
def test_a_day_begins_where_the_one_before_ends(zone: str, day: date) -> None:
    """Half-open days of one zone leave no instant out and take none twice."""
    names = Zone(zone)
    begin, end = names.midnight_us(day), names.midnight_us(day + timedelta(days=1))
    assert begin <= end
    if begin < end:  # else the day was skipped
        assert names.date(begin) == day
        assert names.date(end) > day


# the machine's own zone


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia", "UTC"])
def test_the_machine_s_zone_says_what_its_name_says(zone: str, machine: Callable[[str], None]) -> None:
    """Without --tz the days are those of this machine."""
    machine(zone)
    own, named = Zone(None), Zone(zone)
    for day in range(400):
        begin = date(2026, 1, 1) + timedelta(days=day)
        at = named.midnight_us(begin)
        assert own.midnight_us(begin) == at
        for instant in (at - 1, at, at + 1, at + DAY_US // 2):
            assert own.date(instant) == named.date(instant)
            assert own.moment(instant).replace(tzinfo=None) == named.moment(instant).replace(tzinfo=None)


def test_only_utc_is_utc(machine: Callable[[str], None]) -> None:
    names = ("UTC", "utc", "Z", "GMT", "Europe/Berlin", "Africa/Abidjan")
    assert [Zone(name).is_utc for name in names] == [True, True, True, True, False, False]
    for name, utc in (("UTC", True), ("Europe/London", False), ("Asia/Kathmandu", False)):
        machine(name)
        assert Zone(None).is_utc == utc


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("at", [EARLIEST_US, LATEST_US])
def test_any_time_that_a_log_can_claim_has_a_name(zone: str | None, at: int, machine: Callable[[str], None]) -> None:
    """A log may say 9999-12-31T23:59:59Z, which is no time of Tokyo's calendar: no traceback, the UTC day."""
    machine("Asia/Tokyo" if at > 0 else "America/New_York")
    names = Zone(zone)
    assert str(names.date(at)) in ("9999-12-31", "0001-01-01")
    assert names.moment(at).year in (1, 9999)
    assert [names.label(period)(at)[:4] for period in ("day", "week", "month")] == [names.label("month")(at)[:4]] * 3


@pytest.mark.parametrize(
    "name", ["Europe", "Europe/Bielefeld", "../etc/passwd", "/etc/passwd", "x\0y", "é", "tzdata.zi", "a" * 300]
)
def test_a_zone_that_there_is_not(name: str) -> None:
    """One line that names the option and what to use instead."""
    with pytest.raises(UsageError) as refused:
        Zone(name)
    assert str(refused.value) == f"--tz {name}: unknown time zone: use a name such as UTC or Europe/Berlin"


# dates on a command line

NOW = us("2026-11-30T23:30:00Z")
"""A Monday in UTC and already Tuesday in Berlin."""


@pytest.mark.parametrize(
    ("text", "zone", "begins"),
    [
        ("2026-11-30", "UTC", "2026-11-30T00:00:00Z"),
        ("2026-11-30", "Europe/Berlin", "2026-11-29T23:00:00Z"),
        ("2026-07-01", "Europe/Berlin", "2026-06-30T22:00:00Z"),
        ("2026-11-30", "Asia/Kathmandu", "2026-11-29T18:15:00Z"),
        ("2026-11", "UTC", "2026-11-01T00:00:00Z"),
        ("2026-11", "Europe/Berlin", "2026-10-31T23:00:00Z"),
        ("today", "UTC", "2026-11-30T00:00:00Z"),
        ("today", "Europe/Berlin", "2026-11-30T23:00:00Z"),
        ("yesterday", "UTC", "2026-11-29T00:00:00Z"),
        ("Yesterday", "Europe/Berlin", "2026-11-29T23:00:00Z"),
        ("7d", "UTC", "2026-11-23T00:00:00Z"),
        ("7d", "Europe/Berlin", "2026-11-23T23:00:00Z"),
        ("0d", "UTC", "2026-11-30T00:00:00Z"),
        (" 1D ", "UTC", "2026-11-29T00:00:00Z"),
        ("365d", "UTC", "2025-11-30T00:00:00Z"),
    ],
)
def test_every_form_of_a_day(text: str, zone: str, begins: str) -> None:
    assert parse_day(text, Zone(zone), NOW) == us(begins)


def test_seven_days_ago_over_a_clock_change() -> None:
    """`7d` is a midnight and not 168 hours."""
    berlin = Zone("Europe/Berlin")
    assert parse_day("7d", berlin, us("2026-10-28T12:00:00Z")) == us("2026-10-20T22:00:00Z")
    assert parse_day("7d", berlin, us("2026-04-01T12:00:00Z")) == us("2026-03-24T23:00:00Z")


@pytest.mark.parametrize(
    "text",
    ["", " ", "d", "7", "-7d", "7.5d", "²d", "tomorrow", "2026", "2026-13", "2026-00", "2026-02-30", "2026-1",
     "2026-1-1", "30.11.2026", "11/30/2026", "2026-11-30T12:00:00Z", "99999999d", "9" * 30 + "d", "0000-01-01",
     "10000-01-01", "\x00"],
)  # fmt: skip
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_what_is_no_day(text: str, zone: str | None) -> None:
    """One line that names the option and shows every form."""
    for option in ("--since", "--until"):
        with pytest.raises(UsageError) as refused:
            parse_day(text, Zone(zone), NOW, option)
        line = str(refused.value)
        assert line == f"{option} {text or repr(text)}: not a day: use 2026-11-30, 2026-11, today, yesterday or 7d"


def test_a_day_before_the_calendar_of_a_zone() -> None:
    """The first day of the calendar began in Kolkata before there was one."""
    assert parse_day("0001-01-01", Zone("UTC"), NOW) == EARLIEST_US
    with pytest.raises(UsageError):
        parse_day("0001-01-01", Zone("Asia/Kolkata"), NOW)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=14), st.sampled_from([None, "UTC", "Asia/Kathmandu"]))
def test_any_text_is_a_midnight_or_the_one_error(text: str, zone: str | None) -> None:
    names = Zone(zone)
    try:
        at = parse_day(text, names, NOW)
    except UsageError:
        return
    assert names.midnight_us(names.date(at)) == at


@settings(max_examples=200, deadline=None)
@given(st.dates(date(1980, 1, 1), date(2100, 1, 1)), st.sampled_from(ZONES))
def test_the_name_of_a_day_is_a_day(day: date, zone: str) -> None:
    """What a report calls a day can be given back to --since."""
    names = Zone(zone)
    at = parse_day(day.isoformat(), names, NOW)
    assert at == names.midnight_us(day)
    assert parse_day(day.isoformat()[:7], names, NOW) == names.midnight_us(day.replace(day=1))


def test_instants_in_json() -> None:
    """ISO 8601 in UTC with milliseconds; unknown stays unknown."""
    assert iso(None) is None
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(us("2026-11-30T12:34:56Z") + 789_999) == "2026-11-30T12:34:56.789Z"
    assert iso(LATEST_US) == "9999-12-31T23:59:59.999Z"
    assert datetime.fromisoformat(iso(EARLIEST_US) or "").astimezone(UTC).year == 1
