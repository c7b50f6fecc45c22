"""Windows of five hours, as subscriptions limit use: where they begin and end, and what that means for now. Pure.

Providers do not publish the rule by which their windows begin. This is the approximation of the public tools (the
`blocks` of ccusage, file session-blocks): a window begins at the full hour (UTC) of the first request and lasts five
hours; the first request after its end begins the next. Here the end is exclusive: a request on the stroke of it is in
the next window. Since windows begin on full hours and last whole ones, quarter-hours fall into one each, and sums by
quarter-hour are enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from reports.figures import Figures

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000
WINDOW_US = 5 * HOUR_US
WARNING_PERCENT = 80
"""From this share of a limit on there is a warning, as in the public tools."""


class Quarter(NamedTuple):
    """A quarter-hour in which a client sent requests."""

    at_us: int
    """When it begins."""
    answered: bool
    """Whether any of its requests did not fail: one that failed begins no window."""


class Window(NamedTuple):
    """Five hours, half-open."""

    begin_us: int

    @property
    def end_us(self) -> int:
        """The first instant that is not in it."""
        return self.begin_us + WINDOW_US


class Rate(NamedTuple):
    """How fast a window is used, over its active time: from its first request to its last."""

    active_us: int
    tokens_a_minute: float
    nanousd_an_hour: int | None
    """None where no cost is known."""


class Projection(NamedTuple):
    """What a window holds at its end if use goes on at the same rate until then."""

    left_us: int
    tokens: int
    cost_nanousd: int | None


def windows(quarters: Iterable[Quarter]) -> list[Window]:
    """Return the windows that quarter-hours (in order of time) begin."""
    found: list[Window] = []
    for quarter in quarters:
        if quarter.answered and (not found or quarter.at_us >= found[-1].end_us):
            found.append(Window(quarter.at_us - quarter.at_us % HOUR_US))
    return found


def rate(figures: Figures) -> Rate | None:
    """Return how fast a window was used; None where it was for less than a minute, from which nothing follows."""
    if figures.first_at is None or figures.last_at is None:
        return None
    active_us = figures.last_at - figures.first_at
    if active_us < MINUTE_US:
        return None
    cost = round(figures["cost_nanousd"] * HOUR_US / active_us) if figures["priced_spans"] else None
    return Rate(active_us, figures.tokens * MINUTE_US / active_us, cost)


def projection(window: Window, figures: Figures, now_us: int) -> Projection | None:
    """Return what a running window comes to; None for one that is over, and where no rate is known."""
    going = rate(figures)
    if going is None or not window.begin_us <= now_us < window.end_us:
        return None
    left_us = window.end_us - now_us
    cost = None
    if going.nanousd_an_hour is not None:
        cost = figures["cost_nanousd"] + going.nanousd_an_hour * left_us // HOUR_US
    return Projection(left_us, figures.tokens + round(going.tokens_a_minute * left_us / MINUTE_US), cost)
