"""How a request is committed together with its reservation, retried, and settled, on each kind of database."""

from __future__ import annotations

import pytest
from spending import NOW, Run

from ledger.budget.bound import Bound
from ledger.budget.ceilings import Refusal
from ledger.budget.reserve import Hub, append_with, hub_stream
from ledger.errors import EventIdReused, EventMissing, VersionConflict
from ledger.events.envelope import NewEvent
from ledger.events.hubs import Limits
from ledger.events.runs import RunReleased
from ledger.ids import new_id
from ledger.log.location import Place
from ledger.log.log import Log, StreamAppend

CENT = 10**7
LIMIT = Limits(cost_nanousd=100 * CENT)


def types(log: Log) -> list[str]:
    return [event.type for event in log.all_events()]


def test_a_request_and_its_reservation_are_one_commit(book: Log) -> None:
    """OBS-03, OBS-30: the intent is in the run, what is set aside in the hub, under one span; so is the end."""
    run = Run(book, "s")
    run.open("g", LIMIT)
    assert run.send("g", "a", Bound(10, 20 * CENT)) is None
    run.end("a", 7, 5 * CENT)
    assert types(book) == [
        "session.opened", "turn.started", "grant.opened", "request.sent", "reservation.made", "request.answered",
        "reservation.settled",
    ]  # fmt: skip
    hub = book.stream_events(hub_stream("s"))
    assert [(one.span, one.session_id) for one in hub] == [(None, "s"), ("a", "s"), ("a", "s")]
    tally = run.hub.state.grants["g"].tally
    assert (tally.spent_nanousd, tally.reserved_nanousd, tally.open) == (5 * CENT, 0, 0)
    assert run.hub.state.grants["g"].opened_at == hub[0].at


def test_a_refused_request_writes_nothing(book: Log) -> None:
    """The refusal says spent, reserved, wanted and limit, and the log is as it was."""
    run = Run(book, "s")
    run.open("g", LIMIT)
    run.send("g", "a", Bound(10, 90 * CENT))
    before = types(book)
    assert run.send("g", "b", Bound(10, 20 * CENT)) == Refusal("cost", 0, 90 * CENT, 20 * CENT, 100 * CENT, 0, "cost")
    assert types(book) == before


def test_the_state_outlives_the_process(place: Place) -> None:
    """LOOP-27, OBS-37: what a grant has left is folded from the log alone; who recovers settles what was lost."""
    with Log.open(place) as log:
        run = Run(log, "s")
        run.open("g", LIMIT)
        run.send("g", "a", Bound(10, 60 * CENT))
    with Log.open(place) as log:
        later = Run(log, "s")
        assert later.hub.open_grant("g", LIMIT) == [], "a grant that is open is not opened again"
        later.end("a", None, None)
        refused = later.send("g", "b", Bound(10, 60 * CENT))
        assert refused is not None and (refused.spent, refused.reserved) == (0, 60 * CENT)
        assert later.hub.settle("a", tokens=1, cost_nanousd=1) == [], "it ends once"
        assert later.hub.settle("never", tokens=1, cost_nanousd=1) == []


def test_a_retry_appends_the_same_events(book: Log) -> None:
    """An append of which nobody knows whether it came through is done again, as often as one likes."""
    hub = Hub(book, "s")
    for make in (
        lambda: hub.open_grant("g", LIMIT),
        lambda: hub.reserve("g", "a", Bound(10, 20 * CENT), NOW),
        lambda: hub.settle("a", tokens=3, cost_nanousd=CENT),
    ):
        first = append_with(book, make)
        count = len(types(book))
        assert append_with(book, make) == first
        assert append_with(book, make) == first
        assert len(types(book)) == count
    assert (hub.state.total.requests, hub.state.total.spent_nanousd) == (1, CENT)


def test_a_retry_of_a_reservation_is_no_second_decision(book: Log) -> None:
    """What was let go is not refused afterwards, when others have taken the rest."""
    hub, other = Hub(book, "s"), Hub(book, "s")
    append_with(book, lambda: hub.open_grant("g", LIMIT))
    first = append_with(book, lambda: hub.reserve("g", "a", Bound(10, 50 * CENT), NOW))
    append_with(book, lambda: other.reserve("g", "b", Bound(10, 50 * CENT), NOW))
    assert append_with(book, lambda: hub.reserve("g", "a", Bound(10, 50 * CENT), NOW)) == first


def test_the_event_keeps_its_id_while_the_hub_moves_on(book: Log) -> None:
    """A conflict of the hub changes the version, not the event."""
    hub, other = Hub(book, "s"), Hub(book, "s")
    append_with(book, lambda: hub.open_grant("g", LIMIT))
    stale = hub.reserve("g", "a", Bound(10, CENT), NOW)
    append_with(book, lambda: other.reserve("g", "b", Bound(10, CENT), NOW))
    fresh = hub.reserve("g", "a", Bound(10, CENT), NOW)
    assert not isinstance(stale, Refusal) and not isinstance(fresh, Refusal)
    assert (stale[0].expected_version, fresh[0].expected_version) == (1, 2)
    assert stale[0].events == fresh[0].events
    with pytest.raises(VersionConflict):
        book.append(stale)
    assert book.append(fresh) == [3]


def test_a_decision_is_taken_again_where_the_hub_moved_on(book: Log) -> None:
    """Between the decision and the commit another run takes what is left: nothing leaves on what was true before."""
    hub, other = Hub(book, "s"), Hub(book, "s")
    append_with(book, lambda: hub.open_grant("g", LIMIT))
    asked = 0

    def make() -> list[StreamAppend] | Refusal:
        nonlocal asked
        asked += 1
        found = hub.reserve("g", "a", Bound(10, 60 * CENT), NOW)
        if asked == 1:
            append_with(book, lambda: other.reserve("g", "b", Bound(10, 60 * CENT), NOW))
        return found

    refused = append_with(book, make)
    assert isinstance(refused, Refusal) and (refused.reserved, asked) == (60 * CENT, 2)


def test_a_conflict_of_the_run_is_not_hidden(book: Log) -> None:
    """A fenced process must not go on: a conflict of its own stream comes through, and nothing was reserved."""
    run = Run(book, "s")
    run.open("g", LIMIT)
    released = NewEvent(body=RunReleased(epoch=1), event_id=new_id())
    book.append([StreamAppend(run.stream, run.version, [released])])
    with pytest.raises(VersionConflict) as raised:
        run.send("g", "a", Bound(10, CENT))
    assert raised.value.stream_id == run.stream
    assert run.hub.state.total.requests == 0


def test_a_span_that_another_process_reserved_is_an_error(book: Log) -> None:
    """One request has one reservation."""
    hub = Hub(book, "s")
    append_with(book, lambda: hub.open_grant("g", LIMIT))
    append_with(book, lambda: hub.reserve("g", "a", Bound(10, CENT), NOW))
    with pytest.raises(EventIdReused):
        Hub(book, "s").reserve("g", "a", Bound(10, CENT), NOW)


def test_nothing_is_reserved_of_a_grant_that_is_not_open(book: Log) -> None:
    """The grant comes first, with the turn."""
    with pytest.raises(EventMissing):
        Hub(book, "s").reserve("g", "a", Bound(10, CENT), NOW)


def test_a_step_costs_the_same_after_many(book: Log) -> None:
    """A hub reads what is new, whatever its length: 200 requests, each page of the stream read once."""
    hub = Hub(book, "s")
    append_with(book, lambda: hub.open_grant("g", Limits()))
    read: list[int] = []
    whole = book.stream_events

    def counted(stream_id: str, after: int = 0, limit: int = 500) -> list[object]:
        page = whole(stream_id, after, limit)
        read.append(len(page))
        return page  # type: ignore[return-value]

    book.stream_events = counted  # type: ignore[method-assign, assignment]
    for number in range(200):
        span, wanted = f"a{number}", Bound(10, CENT)
        append_with(book, lambda span=span, wanted=wanted: hub.reserve("g", span, wanted, NOW))  # type: ignore[misc]
        append_with(book, lambda span=span: hub.settle(span, tokens=1, cost_nanousd=1))  # type: ignore[misc]
    assert sum(read) == 400 and max(read) == 1
    assert hub.state.total.spent_nanousd == 200
