"""A limit of the month: what counts in it, over sessions that limit it and sessions that do not."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import time_machine
from books import SAMPLE
from spending import Run

from ledger.accounts.catchup import snapshot
from ledger.budget import reserve
from ledger.budget.bound import Bound
from ledger.budget.checks import faults
from ledger.budget.month import month_bounds, month_of, month_stream, observe
from ledger.budget.reserve import Hub, Stream, append_with
from ledger.events.book import QuoteRecorded
from ledger.events.envelope import NewEvent
from ledger.events.hubs import Limits, MonthObserved
from ledger.events.registry import decode
from ledger.ids import new_id
from ledger.keeping.copying import copy
from ledger.log.log import Log, StreamAppend
from ledger.prices.quote import Band, Quote
from ledger.sources.importer import run_import

CENT = 10**7
LIMIT = Limits(month_cost_nanousd=100 * CENT)
QUOTE = Quote(provider="p", model="m", tiers={"standard": (Band(input="10", output="10"),)}, source="test")
"""A cent for a thousand tokens."""


def now() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def priced(book: Log) -> Log:
    """A log that knows the price of the model."""
    recorded = QuoteRecorded(sha256=QUOTE.name, quote=msgspec.Raw(QUOTE.to_json()))
    book.append([StreamAppend(book.book_stream, 0, [NewEvent(body=recorded, event_id=new_id())])])
    return book


def begin(log: Log, session: str, limits: Limits) -> Run:
    """A session with a turn under these limits; its grant has the session's name."""
    run = Run(log, session)
    run.open(session, limits)
    return run


def spend(run: Run, span: str, cents: int, *, bound: int | None = None) -> str:
    """Send a request that takes this many cents; return the code of the refusal, empty where it left."""
    refused = run.send(run.session, span, Bound(cents * 1000, (bound or cents) * CENT), now())
    if refused is None:
        run.end(span, cents * 1000, cents * CENT, quote=QUOTE.name)
    return refused.code if refused else ""


def month(log: Log) -> Stream:
    stream = Stream(log, month_stream(log, month_of(now())))
    stream.refresh()
    return stream


def observations(log: Log) -> list[MonthObserved]:
    events = log.stream_events(month(log).stream_id)
    return [decode(one.type, one.schema, one.data) for one in events if one.type == "month.observed"]


def accounted(log: Log) -> int:
    """The cost of all spans by the accounts."""
    with snapshot(log) as view:
        return int(view.store.query("SELECT coalesce(sum(cost_nanousd), 0) FROM gen_spans").fetchone()[0])


def test_what_sessions_without_the_limit_spent_counts(priced: Log) -> None:
    """The first reservation of the month observes what the accounts have, and says so in its own commit."""
    spend(begin(priced, "free", Limits()), "a", 60)
    run = begin(priced, "s", LIMIT)
    refused = run.send("s", "b", Bound(1, 41 * CENT), now())
    assert refused is not None
    assert (refused.code, refused.spent, refused.reserved, refused.wanted) == ("month_cost", 60 * CENT, 0, 41 * CENT)
    assert observations(priced) == [], "a refused request writes nothing"
    assert run.send("s", "c", Bound(1, 40 * CENT), now()) is None
    assert observations(priced) == [MonthObserved(60 * CENT)]
    assert list(faults(priced, priced.head_position())) == []


@pytest.mark.parametrize("every_us", [0, reserve.OBSERVE_EVERY_US])
def test_nothing_counts_twice_however_often_it_is_observed(
    priced: Log, monkeypatch: pytest.MonkeyPatch, every_us: int
) -> None:
    """Requests of the stream are in the accounts too: the month is full at exactly its limit, and not before."""
    monkeypatch.setattr(reserve, "OBSERVE_EVERY_US", every_us)
    spend(begin(priced, "free", Limits()), "a", 40)
    runs = [begin(priced, name, LIMIT) for name in ("s", "t")]
    codes = [spend(runs[number % 2], f"b{number}", 10) for number in range(8)]
    assert codes == [""] * 6 + ["month_cost"] * 2
    assert accounted(priced) == 100 * CENT
    assert set(observations(priced)) == {MonthObserved(40 * CENT)}
    assert len(observations(priced)) == (1 if every_us else 6)
    assert month(priced).state.total.spent_nanousd == 60 * CENT
    assert list(faults(priced, priced.head_position())) == []


def test_what_is_spent_elsewhere_later_is_seen_later(priced: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that is old is observed again."""
    free, run = begin(priced, "free", Limits()), begin(priced, "s", LIMIT)
    assert spend(run, "a", 10) == ""
    spend(free, "b", 80)
    assert spend(run, "c", 10) == "", "within a minute the figure stands"
    monkeypatch.setattr(reserve, "OBSERVE_EVERY_US", 0)
    assert spend(run, "d", 10) == "month_cost"
    assert observations(priced) == [MonthObserved(0)]


def test_a_lost_request_keeps_its_reservation_in_the_month(priced: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """OBS-49: it is in the accounts with an unknown cost, and in the stream with its bound: that one counts."""
    monkeypatch.setattr(reserve, "OBSERVE_EVERY_US", 0)
    run = begin(priced, "s", LIMIT)
    assert run.send("s", "a", Bound(1, 70 * CENT), now()) is None
    later = Run(priced, "s")
    later.end("a", None, None)
    assert [spend(later, "b", 20), spend(later, "c", 20)] == ["", "month_cost"]
    assert observations(priced) == [MonthObserved(0), MonthObserved(0)]
    tally = month(priced).state.total
    assert (tally.kept, tally.reserved_nanousd, tally.spent_nanousd) == (1, 70 * CENT, 20 * CENT)


def test_less_than_was_reserved_frees_the_rest(priced: Log) -> None:
    """Settlements stand in the month's stream too, in the same commit."""
    run = begin(priced, "s", LIMIT)
    assert [spend(run, f"a{number}", 1, bound=90) for number in range(3)] == ["", "", ""]
    assert (month(priced).state.total.spent_nanousd, month(priced).state.held) == (3 * CENT, {})


def test_a_retry_repeats_the_observation(priced: Log) -> None:
    """An append of which nobody knows whether it came through is done again with the same events."""
    begin(priced, "s", LIMIT)
    hub = Hub(priced, "s")

    def make() -> list[StreamAppend]:
        made = hub.reserve("s", "a", Bound(1, CENT), now())
        assert isinstance(made, list)
        return made

    first = append_with(priced, make)
    count = priced.head_position()
    assert append_with(priced, make) == first
    assert priced.head_position() == count


def test_a_request_ends_in_the_month_in_which_it_was_decided(log: Log) -> None:
    """Decided before midnight, committed after it, ended a day later by another process: in the old month's stream."""
    midnight = month_bounds("2031-03")[0]
    with time_machine.travel((midnight + 2_000_000) / 1e6, tick=False):
        run = begin(log, "s", LIMIT)
        assert run.send("s", "a", Bound(1, 5 * CENT), midnight - 1_000_000) is None
    with time_machine.travel((midnight + 86_400_000_000) / 1e6, tick=False):
        Run(log, "s").end("a", 1, 3 * CENT)
    old, new = (Stream(log, month_stream(log, name)).refresh() for name in ("2031-02", "2031-03"))
    assert (old.total.spent_nanousd, old.held, new.total.requests) == (3 * CENT, {}, 0)
    assert list(faults(log, log.head_position())) == []


def test_what_was_imported_does_not_count(log: Log) -> None:
    """Other clients have limits of their own, and a subscription may have paid for what they show."""
    run_import(log, ("claude-code", "codex"), SAMPLE, use_environment=False)
    with snapshot(log) as view:
        row = view.store.query("SELECT min(occurred_at), sum(cost_nanousd) FROM gen_spans").fetchone()
    assert row[1] > 0
    assert observe(log, month_of(row[0]), list) == MonthObserved(0)


def test_two_logs_in_one_place_have_a_month_each(tmp_path: Path) -> None:
    """Logs of two machines are copied into one: their months are streams of their own, and both are sound."""
    with Log.create(tmp_path / "team.db") as team:
        for name in ("one", "two"):
            with Log.create(tmp_path / f"{name}.db") as own:
                run = begin(own, name, LIMIT)
                assert run.send(name, f"{name}-a", Bound(1, CENT), now()) is None
                copy(own, team)
        months = [head.stream_id for head in team.heads() if head.stream_id.startswith("hub:month:")]
        assert len(months) == 2
        assert list(faults(team, team.head_position())) == []


def test_months_are_those_of_utc() -> None:
    """From the first instant of a month to the first of the next."""
    for name, days in (("2026-12", 31), ("2028-02", 29), ("2026-02", 28)):
        begins, ends = month_bounds(name)
        assert datetime.fromtimestamp(begins / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S") == f"{name}-01 00:00:00"
        assert ends - begins == days * 86_400_000_000
        assert [month_of(at) == name for at in (begins - 1, begins, ends - 1, ends)] == [False, True, True, False]
