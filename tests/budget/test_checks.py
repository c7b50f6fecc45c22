"""What the check of hubs finds in logs that no hub would write, and that it finds nothing in others."""

from __future__ import annotations

from typing import Any

from spending import NOW, Run

from ledger.budget.bound import Bound
from ledger.budget.checks import faults
from ledger.budget.hub import GRANT_AGAIN, NO_GRANT, NOT_RESERVED, RESERVED_AGAIN, SETTLED_AGAIN
from ledger.budget.month import month_of, month_stream
from ledger.events.envelope import NewEvent
from ledger.events.hubs import GrantOpened, Limits, MonthObserved, ReservationMade, ReservationSettled
from ledger.events.sources import SourceOpened
from ledger.ids import new_id
from ledger.log.log import Log, StreamAppend

CENT = 10**7
Said = tuple[str | None, Any]


def write(log: Log, stream: str, *said: Said) -> None:
    """Append events as they are, without asking a hub."""
    events = [NewEvent(body=body, event_id=new_id(), session_id="s", span=span) for span, body in said]
    log.append([StreamAppend(stream, log.stream_version(stream), events)])


def found(log: Log, since: int = 0) -> list[tuple[str, int | None, str]]:
    """What is wrong, at which version, of which span."""
    return [(one.what, one.version, one.span) for one in faults(log, log.head_position(), since)]


def opened(grant: str = "g", **limits: Any) -> Said:
    return None, GrantOpened(grant, Limits(**limits))


def made(span: str, tokens: int = 1, cost: int | None = CENT, grant: str = "g") -> Said:
    return span, ReservationMade(grant, tokens, cost)


def settled(span: str, tokens: int | None = 1, cost: int | None = CENT, grant: str = "g") -> Said:
    return span, ReservationSettled(grant, tokens, cost)


def test_what_does_not_fit_is_found_where_it_stands(log: Log) -> None:
    """Every reservation belongs to an open grant, is made once and settled at most once."""
    write(log, "other", (None, SourceOpened("codex", "/p", "/")))
    write(
        log, "hub:s", made("early"), opened(), made("a"), made("a"), settled("a"), settled("a"), settled("b"), opened()
    )
    assert found(log) == [
        (NO_GRANT, 1, "early"), (RESERVED_AGAIN, 4, "a"), (SETTLED_AGAIN, 6, "a"), (NOT_RESERVED, 7, "b"),
        (GRANT_AGAIN, 8, ""),
    ]  # fmt: skip
    first = next(iter(faults(log, log.head_position())))
    assert (first.event, first.stream, first.session) == (2, "hub:s", "s")


def test_a_reservation_beyond_a_ceiling_is_found(log: Log) -> None:
    """Spend is within the grant at every prefix: the third of three is one too many, of each kind."""
    limits = {
        "cost": {"cost_nanousd": 2 * CENT},
        "requests": {"requests": 2},
        "session_cost": {"session_cost_nanousd": 2 * CENT},
        "tokens": {"tokens": 2},
    }
    for code, one in limits.items():
        write(log, f"hub:{code}", opened(**one), made("a"), made("b"), settled("a"), made("c"), settled("c", 0, 0))
    wrong = list(faults(log, log.head_position()))
    assert [(one.stream, one.version, one.span) for one in wrong] == [(f"hub:{code}", 5, "c") for code in limits]
    assert all(f"({code})" in one.what for code, one in zip(limits, wrong, strict=True))
    assert wrong[0].expected == str(2 * CENT)


def test_an_unknown_price_is_found_only_where_it_was_to_be_refused(log: Log) -> None:
    """OBS-51: the policy of the grant decides."""
    write(log, "hub:a", opened(cost_nanousd=CENT), made("a", cost=None))
    write(log, "hub:b", opened(cost_nanousd=CENT, unknown_price="warn"), made("b", cost=None))
    write(log, "hub:c", opened(tokens=1), made("c", cost=None))
    assert [one.span for one in faults(log, log.head_position())] == ["a"]


def test_an_overrun_is_no_fault_and_what_leaves_after_it_is(log: Log) -> None:
    """A request that took more than was set aside was let go rightly; the next one was not."""
    write(log, "hub:s", opened(cost_nanousd=3 * CENT), made("a"), settled("a", 1, 3 * CENT))
    assert found(log) == []
    write(log, "hub:s", made("b"))
    assert [one.span for one in faults(log, log.head_position())] == ["b"]


def test_the_month_is_held_against_the_limit_of_whoever_reserves(log: Log) -> None:
    """What it cost elsewhere counts, and a reservation that the month does not have is missed."""
    month = month_stream(log, month_of(NOW))
    write(log, month, (None, MonthObserved(8 * CENT)), made("a"), made("b"), made("c", grant="of nobody that was read"))
    write(log, "hub:s", opened(month_cost_nanousd=9 * CENT), made("a"), made("b"), made("d"))
    wrong = list(faults(log, log.head_position()))
    assert [(one.stream, one.span) for one in wrong] == [(month, "b"), ("hub:s", "d")]
    assert "month_cost" in wrong[0].what and "its stream does not have" in wrong[1].what


def test_only_what_is_new_is_looked_at(log: Log) -> None:
    """Since a position: an old fault is not found again, a new one is judged by all that was before it."""
    write(log, "hub:old", made("x"))
    write(log, "hub:s", opened(requests=1), made("a"))
    since = log.head_position()
    assert found(log, since) == []
    write(log, "hub:s", made("b"))
    assert [one.span for one in faults(log, log.head_position(), since)] == ["b"]
    assert [one.span for one in faults(log, log.head_position() - 1)] == ["x"]


def test_an_event_that_cannot_be_read_ends_the_look_at_its_hub(log: Log) -> None:
    """The catalogue's check names it; this one does not fall over it."""
    write(log, "hub:s", opened(), made("a"))
    for (name,) in log.connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        log.connection.execute(f'DROP TRIGGER "{name}"')
    log.connection.execute("UPDATE events SET data = '{}' WHERE version = 2")
    write(log, "hub:s", made("b", grant="not open"))
    assert found(log) == []


def test_nothing_is_found_in_what_a_run_wrote(log: Log) -> None:
    """Reserved, settled, lost and refused."""
    run = Run(log, "s")
    run.open("g", Limits(cost_nanousd=3 * CENT, requests=4, tokens=100, session_cost_nanousd=10 * CENT))
    assert run.send("g", "a", Bound(10, CENT)) is None
    run.end("a", 5, 0)
    assert run.send("g", "b", Bound(10, 2 * CENT)) is None
    run.end("b", None, None)
    assert run.send("g", "c", Bound(10, 2 * CENT)) is not None
    assert found(log) == []
