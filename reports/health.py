"""A check of what the log stands on: its value, its verdict, and what to do next; and how they are printed."""

from __future__ import annotations

import textwrap
import time
from typing import NamedTuple

from reports.output import put, put_csv, put_json
from reports.text import bold, counted, safe, terminal_columns

OK, WARN, BAD = "ok", "warn", "bad"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Check(NamedTuple):
    """One thing that was looked at."""

    check: str
    value: str
    verdict: str = OK
    advice: str = ""
    """What to do next, where the verdict is not ok or there is something to gain."""


def worst(checks: list[Check]) -> str:
    """Return the worst verdict."""
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in (BAD, WARN) if verdict in verdicts), OK)


def print_checks(checks: list[Check], format_: str) -> None:
    """Print checks; in a table nothing is cut, for a path without its end helps nobody."""
    if format_ == "json":
        put_json({"checks": [check._asdict() for check in checks], "verdict": worst(checks)})
    elif format_ == "csv":
        put_csv(Check._fields, [list(check) for check in checks])
    else:
        wide = max(len(check.check) for check in checks) + 2
        put(bold(f"{'check':<{wide}}verdict  value"))
        for check in checks:
            _put_wrapped(f"{check.check:<{wide}}{check.verdict:<7}  ", check.value)
        for check in checks:
            if check.advice:
                _put_wrapped(f"{check.check}: ", check.advice)


def _put_wrapped(head: str, text: str) -> None:
    room = max(20, terminal_columns() - len(head))
    lines = textwrap.wrap(safe(text), room, break_on_hyphens=False) or [""]
    put(head + f"\n{' ' * len(head)}".join(lines))


def size_text(size_bytes: int) -> str:
    """Return a size in the largest unit that leaves at least one."""
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.0f} {_UNITS[unit]}" if size >= 10 or not unit else f"{size:.1f} {_UNITS[unit]}"


def age_text(at_us: int, now_us: int | None = None) -> str:
    """Return how long ago an instant was (microseconds UTC)."""
    seconds = ((time.time_ns() // 1000 if now_us is None else now_us) - at_us) // 1_000_000
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(seconds // length, unit)} ago"
    return "just now" if seconds >= 0 else "in the future"
