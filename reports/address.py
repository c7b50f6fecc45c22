"""Addresses of figures: what `ledger report` writes beside a row and `ledger explain` opens.

    month=2026-11,model=claude-opus-4-5          a row of `--by month,model`
    agent=,day=2026-11-03,tz=Europe/Berlin       empty values, and the zone of days
    total,project~webshop,since=2026-11-01       a total, and the filters of its report
    5e551011#3                                   a turn of a session (read by reports/explain_find)

Parts stand between commas. `NAME=VALUE` is exactly this value, in any dimension that a report groups by.
`session~` and `project~` keep what their filters keep: ids that begin so, folders that end so. `since=`, `until=`
and `tz=` are a report's options. In names and values every sign but letters, digits and `-._/:@+` is written as in a
URL (`%2C` is a comma), so that an address is one word in a shell. Pure: nothing here reads a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ledger.errors import UsageError
from ledger.labels import NONE
from reports.periods import PERIODS
from reports.query import Question

TOTAL = "total"
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:@+")
_LOOSE = ("session", "project")
"""The filters that keep more than one value."""
_OPTIONS = ("since", "until", "tz")


class RowAddress(NamedTuple):
    """What the address of a row or a total says."""

    values: tuple[tuple[str, str], ...]
    """(dimension, exact value); none for a total."""
    options: dict[str, str]
    """Options of the report: `session`, `project`, `since`, `until`, `tz`."""


def row_address(question: Question, key: Iterable[str]) -> str:
    """Return the address of a row of a report: its values, then what else the report kept."""
    values = [f"{escaped(name)}={escaped(value)}" for name, value in zip(question.by, key, strict=True)]
    return ",".join([*values, *_kept(question, question.by)])


def total_address(question: Question) -> str:
    """Return the address of a report's total."""
    return ",".join([TOTAL, *_kept(question, ())])


def _kept(question: Question, by: tuple[str, ...]) -> list[str]:
    parts = []
    for name, value in question.filters:
        if name in _LOOSE:
            parts.append(f"{name}~{escaped(value)}")
        elif name not in by:
            parts.append(f"{escaped(name)}={escaped(value)}")
    zone = question.zone
    for name, at_us in (("since", question.since_us), ("until", question.until_us)):
        if at_us is not None:
            parts.append(f"{name}={zone.date(at_us).isoformat()}")
    timely = set(question.by) & set(PERIODS) or question.since_us is not None or question.until_us is not None
    return [*parts, f"tz={escaped(zone.name)}"] if timely and zone.name else parts


def is_row(text: str) -> bool:
    """Return whether a text is the address of a row or a total, and not a session's, turn's or span's name."""
    return text == TOTAL or text.startswith(f"{TOTAL},") or any(sign in text for sign in "=~")


def parse_row(text: str) -> RowAddress:
    """Return what an address says. Raises UsageError in one line."""
    values: dict[str, str] = {}
    options: dict[str, str] = {}
    for number, part in enumerate(text.split(",")):
        if part == TOTAL and not number:
            continue
        if part == TOTAL:
            raise UsageError(f"{text}: `{TOTAL}` begins an address and stands in it once: leave this one out")
        place = min((found for sign in "=~" if (found := part.find(sign)) >= 0), default=-1)
        if place <= 0:
            raise UsageError(
                f"{text}: {part or 'an empty part'} is not NAME=VALUE: copy an address from "
                "`ledger report --format json`, and write a comma in a value as %2C"
            )
        name, sign, value = plain(part[:place]), part[place], part[place + 1 :]
        if sign == "~" and name not in _LOOSE:
            raise UsageError(f"{text}: {name}~ is unknown: use {name}=, or one of session~ and project~")
        into = options if sign == "~" or name in _OPTIONS else values
        if name in into:
            raise UsageError(f"{text}: says {name} twice: leave one out")
        into[name] = "" if value == NONE else plain(value)
    return RowAddress(tuple(values.items()), options)


def escaped(text: str) -> str:
    """Return a value as it stands in an address."""
    if _PLAIN.issuperset(text):
        return text
    return "".join(char if char in _PLAIN or (not char.isascii() and char.isalnum()) else _hex(char) for char in text)


def _hex(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def plain(text: str) -> str:
    """Return the value that stands in an address; a percent sign that escapes nothing stands for itself."""
    if "%" not in text:
        return text
    raw, place = bytearray(), 0
    while place < len(text):
        digits = text[place + 1 : place + 3]
        if text[place] == "%" and len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raw.append(int(digits, 16))
            place += 3
        else:
            raw += text[place].encode("utf-8", "surrogatepass")
            place += 1
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise UsageError(f"{text}: what its percent signs stand for is no text: write them as in a URL") from None
