"""Who may run a session: the claim, the fence, and what the next holder closes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.claims import LOST_RESULT, Held, claim, release
from agent.draft import Draft
from agent.run import Fenced, Run
from ledger.budget.bound import Bound
from ledger.budget.reserve import Hub
from ledger.events import runs
from ledger.events.hubs import Limits
from ledger.invariants import check
from ledger.log.alive import hold
from ledger.log.log import Log

SESSION = "0193a1b2-0000-7000-8000-00000000000a"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.create(tmp_path / "ledger.db") as made:
        yield made


def begun(log: Log) -> tuple[Run, Hub]:
    """Return a claimed run with an open turn, a request that was sent and a tool that was called."""
    run, hub = Run.load(log, SESSION), Hub(log, SESSION)
    claim(run, hub, hold(log, SESSION))

    def start() -> Draft:
        draft = Draft(SESSION, "turn1")
        draft.add(runs.SessionOpened(folder="/w"))
        draft.add(runs.TurnStarted(number=1, grant="g"))
        draft.others = hub.open_grant("g", Limits(), turn="turn1")
        return draft

    def send() -> Draft:
        draft = run.draft()
        draft.add(
            runs.RequestSent(
                call=1, attempt=1, provider="p", model="m", protocol="openai-chat", endpoint="", context=0,
                body_sha256="", body_bytes=0,
            ),
            span="s1",
        )  # fmt: skip
        draft.add(runs.ToolCalled(tool="grep", call="c", arguments="", arguments_bytes=2), span="t1")
        appends = hub.reserve("g", "s1", Bound(100, 7), 1, turn="turn1")
        assert isinstance(appends, list)
        draft.others = appends
        return draft

    run.commit(start)
    run.commit(send)
    return run, hub


def said(body: object) -> Draft:
    draft = Draft(SESSION)
    draft.add(body)
    return draft


def test_a_live_holder_is_named_and_keeps_its_session(log: Log) -> None:
    """A second process is told who holds the session (item 4: ownership)."""
    place = hold(log, SESSION)
    first = Run.load(log, SESSION)
    claim(first, Hub(log, SESSION), place)
    with pytest.raises(Held, match=r"being run by process \d+ on .*--take-over"):
        claim(Run.load(log, SESSION), Hub(log, SESSION), hold(log, SESSION))
    release(first)
    place.give_back()
    second = Run.load(log, SESSION)
    claim(second, Hub(log, SESSION), hold(log, SESSION))
    assert (second.epoch, second.state.claim and second.state.claim.reason) == (2, "resumed")


def test_a_fenced_run_stops_without_another_effect(log: Log) -> None:
    """Taken over on request: whatever the older holder appends then is refused, and says who has it."""
    first, hub = Run.load(log, SESSION), Hub(log, SESSION)
    claim(first, hub, hold(log, SESSION))
    second = Run.load(log, SESSION)
    claim(second, Hub(log, SESSION), hold(log, SESSION), take_over=True)
    before = log.head_position()
    with pytest.raises(Fenced, match="was taken over by process"):
        first.commit(lambda: said(runs.InputReceived(what="stop", reason="user")))
    assert log.head_position() == before


def test_what_a_dead_holder_left_open_is_closed(log: Log) -> None:
    """The next claim ends the request as lost, keeps its reservation, and gives the tool a result (OBS-49)."""
    begun(log)
    run, hub = Run.load(log, SESSION), Hub(log, SESSION)
    assert run.state.open_request is not None
    claim(run, hub, hold(log, SESSION), take_over=True)
    assert run.state.open_request is None
    assert not run.state.open_tools
    turn = run.state.open_turn
    assert turn is not None
    assert isinstance(turn.attempts[-1].end, runs.RequestLost)
    returned = run.state.tool_runs["c"].returned
    assert returned is not None
    assert (returned.status, log.blob(bytes.fromhex(returned.result))) == ("lost", LOST_RESULT.encode())
    tally = hub.state.grants["g"].tally
    assert (tally.open, tally.kept, tally.reserved_tokens, tally.reserved_nanousd) == (0, 1, 100, 7)


def test_closing_happens_once(log: Log) -> None:
    """A claim after the one that recovered finds nothing more to close."""
    begun(log)
    for _ in range(2):
        run = Run.load(log, SESSION)
        claim(run, Hub(log, SESSION), hold(log, SESSION), take_over=True)
    types = [event.type for event in log.all_events()]
    assert types.count("request.lost") == types.count("tool.returned") == types.count("reservation.settled") == 1


def test_who_left_something_open_lets_go_of_nothing(log: Log) -> None:
    """An error between an intent and its end: the claim stays, and the next holder closes what is open (OBS-49)."""
    run, _ = begun(log)
    release(run)
    assert not run.state.released
    second, hub = Run.load(log, SESSION), Hub(log, SESSION)
    claim(second, hub, hold(log, SESSION), take_over=True)
    release(second)
    assert second.state.released
    assert [one.name for one in check(log) if not one.ok] == []
