"""Several processes that want the last of a limit at the same time: what is set aside never exceeds it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from books import argument
from spending import NOW, Run

from ledger.budget.bound import Bound
from ledger.budget.checks import faults
from ledger.budget.month import month_of
from ledger.budget.reserve import Stream
from ledger.events.hubs import Limits
from ledger.log.location import Place
from ledger.log.log import Log

SPENDER = Path(__file__).parent / "children" / "spender.py"
DOLLAR, CENT = 10**9, 10**7


def race(place: Place, sessions: list[str], grants: list[str], cost: int, times: int = 1) -> list[list[str | None]]:
    """Let a process of each session loose at the same time; return the code that each request of each one got."""
    children = []
    for number, (session, grant) in enumerate(zip(sessions, grants, strict=True)):
        words = [argument(place), session, f"child{number}", grant, cost, times]
        children.append(
            subprocess.Popen(
                [sys.executable, "-P", str(SPENDER), *map(str, words)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    try:
        for child in children:  # each has folded the hub and sees the same
            assert child.stdout is not None
            json.loads(child.stdout.readline())
        outcomes = []
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        for child in children:
            out, _ = child.communicate(timeout=60)
            assert child.returncode == 0
            outcomes.append(json.loads(out))
        return outcomes
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_four_runs_that_see_090_of_100_spent_cannot_all_pass(place: Place) -> None:
    """LOOP-09, OBS-55: four processes have folded 0.90 of 1.00 and want 0.08 each: exactly one request leaves."""
    with Log.open(place) as log:
        run = Run(log, "s")
        run.open("g", Limits(cost_nanousd=DOLLAR))
        assert run.send("g", "first", Bound(10, 90 * CENT)) is None
        run.end("first", 10, 90 * CENT)
        codes = race(place, ["s"] * 4, ["g"] * 4, 8 * CENT)
        assert sorted(code or "left" for one in codes for code in one) == ["cost", "cost", "cost", "left"]
        tally = run.hub.state.grants["g"].tally
        assert (tally.spent_nanousd, tally.reserved_nanousd, tally.requests) == (90 * CENT, 8 * CENT, 2)
        sent = [event for event in log.all_events() if event.type == "request.sent"]
        assert len(sent) == 2, "a request without a reservation left"
        assert list(faults(log, log.head_position())) == []


def test_many_small_ones_fill_the_limit_exactly(place: Place) -> None:
    """Four processes with ten requests each and room for 25: 25 leave, whoever they belong to."""
    with Log.open(place) as log:
        run = Run(log, "s")
        run.open("g", Limits(cost_nanousd=25 * CENT, session_cost_nanousd=DOLLAR))
        codes = [code for one in race(place, ["s"] * 4, ["g"] * 4, CENT, times=10) for code in one]
        assert (codes.count(None), codes.count("cost")) == (25, 15)
        assert run.hub.state.total.reserved_nanousd == 25 * CENT
        assert list(faults(log, log.head_position())) == []


def test_the_limit_of_the_month_holds_over_sessions(place: Place) -> None:
    """Four sessions, each with a hub of its own, share the month: 9 of 12 requests have room."""
    sessions = ["a", "b", "c", "d"]
    with Log.open(place) as log:
        for session in sessions:
            Run(log, session).open(f"g-{session}", Limits(month_cost_nanousd=9 * CENT))
        codes = [code for one in race(place, sessions, [f"g-{one}" for one in sessions], CENT, times=3) for code in one]
        assert (codes.count(None), codes.count("month_cost")) == (9, 3)
        month = Stream(log, f"hub:month:{month_of(NOW)}:{log.log_id}").refresh()
        assert month.total.reserved_nanousd == 9 * CENT
        assert sum(Run(log, one).hub.state.total.reserved_nanousd for one in sessions) == 9 * CENT
        assert list(faults(log, log.head_position())) == []


@pytest.mark.parametrize("limit", [Limits(requests=5), Limits(tokens=59)])
def test_requests_and_tokens_are_not_raced_either(place: Place, limit: Limits) -> None:
    """Requests and tokens are ceilings as money is."""
    with Log.open(place) as log:
        run = Run(log, "s")
        run.open("g", limit)
        codes = [code for one in race(place, ["s"] * 4, ["g"] * 4, CENT, times=3) for code in one]
        assert codes.count(None) == 5
        assert run.hub.state.total.reserved_tokens == 50
