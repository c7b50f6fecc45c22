"""Single numbers and words out of JSON that somebody else wrote: a doubtful value is unknown, never zero.

Counts are whole tokens from 0 to 2**63-1, the largest integer that both databases hold. Costs are US
dollars.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

MAX_COUNT = 2**63 - 1
EMPTY: dict[str, Any] = {}

# Beyond these a cost is no dollar figure, and writing it without an exponent would take pages.
_COST_DIGITS_BEFORE, _COST_DIGITS_AFTER = 12, 40


def count(value: object) -> int | None:
    """`value` as a token count, or None (unknown) for what is none: null, bool, text, negative, 1.5, 2**63.

    A float or Decimal without a fraction is a count, since some servers write 12.0 for 12 (OBS-10).
    """
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    if type(value) is float:
        return int(value) if 0 <= value < MAX_COUNT and value.is_integer() else None
    if isinstance(value, Decimal) and value.is_finite() and 0 <= value <= MAX_COUNT:
        whole = int(value)
        return whole if whole == value else None
    return None


def first_count(usage: dict[str, Any], *names: str) -> int | None:
    """The first of `names` that holds a count: providers name one thing in several ways."""
    for name in names:
        found = count(usage.get(name))
        if found is not None:
            return found
    return None


def plus(*counts: int | None) -> int | None:
    """The sum of the known counts; None where none is known or the sum does not fit."""
    known = [each for each in counts if each is not None]
    total = sum(known)
    return total if known and total <= MAX_COUNT else None


def part_of(part: int | None, whole: int | None) -> int | None:
    """`part` where it can be a part of `whole`, else None: a part above its whole is no measurement."""
    return None if part is not None and whole is not None and part > whole else part


def inner(usage: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under `name`, empty where there is none."""
    found = usage.get(name)
    return found if type(found) is dict else EMPTY


def word(value: object) -> str | None:
    """A provider's word (tier, region, model), safe to store and to print, None where there is none."""
    if type(value) is not str or not value:
        return None
    if value.isprintable():
        return value
    # Control characters and lone surrogates would break a terminal or the database, not this program.
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in value)


def split_writes(written: int | None, five: int | None, hour: int | None) -> tuple[int | None, int | None, bool]:
    """Cache writes as (5 minutes, 1 hour, unsplit), from the stated total and the stated split.

    Where both are known the total wins: what the split leaves over stands in 5 minutes, and what it has too
    much is taken from the 1-hour part; either way the split is doubtful, `unsplit` is True and the cost a
    lower bound. A split of 0/0 beside a total erases nothing (rule 6 of the Claude Code import).
    """
    if written is None:
        return five, hour, False
    if five is None and hour is None:
        return written, 0, written > 0
    short, long = five or 0, hour or 0
    if short + long == written:
        return short, long, False
    if short + long < written:
        return written - long, long, True
    short = min(short, written)
    return short, written - short, True


def cost_of(usage: dict[str, Any]) -> Decimal | None:
    """The provider's or gateway's own figure inside `usage`, in US dollars, exact as it was written.

    `cost` is a number (OpenRouter) or an object with `total_cost`; xAI counts in ticks of 10**-10 dollars;
    gateways put an object with `cost_estimate` into the usage under their own name. Zero is a figure, a
    negative number is none.
    """
    for value in _cost_fields(usage):
        found = _dollars(value)
        if found is not None:
            return found
    return None


def _cost_fields(usage: dict[str, Any]) -> Iterator[object]:
    cost = usage.get("cost")
    yield cost.get("total_cost") if type(cost) is dict else cost
    ticks = count(usage.get("cost_in_usd_ticks"))
    yield None if ticks is None else Decimal(ticks).scaleb(-10)
    yield usage.get("cost_estimate")
    for value in usage.values():
        if type(value) is dict:
            yield value.get("cost_estimate")


def _dollars(value: object) -> Decimal | None:
    if type(value) is int or type(value) is float:
        # The text of a float is the shortest that means it, so no binary noise enters.
        value = Decimal(str(value)) if abs(value) < 10**_COST_DIGITS_BEFORE else None
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    if value.is_zero():
        return Decimal(0)
    fits = value.adjusted() < _COST_DIGITS_BEFORE and int(value.as_tuple().exponent) >= -_COST_DIGITS_AFTER
    return value if value > 0 and fits else None
