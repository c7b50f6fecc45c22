"""Any interleaving of runs that reserve through hubs: at every prefix of the log, no grant is beyond its limits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from spending import NOW

from ledger.budget.bound import Bound
from ledger.budget.ceilings import Refusal
from ledger.budget.checks import faults
from ledger.budget.hub import HubState, Tally
from ledger.budget.reserve import Hub, append_with, hub_stream
from ledger.events.hubs import Limits
from ledger.events.registry import decode
from ledger.log.log import Log, StreamAppend

amounts = st.integers(0, 40)
maybe = st.none() | amounts
limits = st.builds(
    Limits,
    requests=st.none() | st.integers(0, 8),
    tokens=st.none() | st.integers(0, 120),
    cost_nanousd=st.none() | st.integers(0, 120),
    session_cost_nanousd=st.none() | st.integers(0, 200),
    unknown_price=st.sampled_from(["refuse", "warn"]),
)
steps = st.one_of(
    st.tuples(st.just("reserve"), st.integers(0, 2), st.integers(0, 1), amounts, maybe),
    st.tuples(st.just("settle"), st.integers(0, 2), st.integers(0, 30), maybe, maybe),
    # A decision that is taken now and committed later, when it may be stale.
    st.tuples(st.just("decide"), st.integers(0, 2), st.integers(0, 1), amounts, maybe),
    st.tuples(st.just("commit"), st.integers(0, 2)),
)


class Runs:
    """Three runs of one session, each with a hub of its own on a connection of its own."""

    def __init__(self, folder: str, grants: list[Limits]) -> None:
        self.logs = [Log.create(Path(folder) / "ledger.db") for _ in range(3)]
        self.hubs = [Hub(log, "s") for log in self.logs]
        self.pending: list[list[Any]] = [[], [], []]
        self.spans: list[str] = []
        for number, one in enumerate(grants):
            append_with(self.logs[0], lambda number=number, one=one: self.hubs[0].open_grant(f"g{number}", one))  # type: ignore[misc]

    def take(self, step: tuple[Any, ...]) -> None:
        """Do one step."""
        what, who, *rest = step
        log, hub = self.logs[who], self.hubs[who]
        if what == "commit":
            if self.pending[who]:
                append_with(log, self.pending[who].pop())
        elif what == "settle":
            if self.spans:
                span = self.spans[rest[0] % len(self.spans)]
                append_with(log, lambda: hub.settle(span, tokens=rest[1], cost_nanousd=rest[2]) or [])
        else:
            grant, tokens, cost = rest
            span = f"a{len(self.spans)}"
            self.spans.append(span)

            def make() -> list[StreamAppend] | Refusal:
                return hub.reserve(f"g{grant}", span, Bound(tokens, cost), NOW)

            if what == "reserve":
                append_with(log, make)
            else:
                self.pending[who].append(_stale_first(make))


def _stale_first(make: Any) -> Any:
    """What was decided now is tried first, then it is decided again."""
    kept = [make()]
    return lambda: kept.pop() if kept else make()


def within(limit: int | None, used: int, overrun: int) -> bool:
    return limit is None or used <= limit + overrun


def assert_within(grant: Limits, own: Tally, session: Tally) -> None:
    """What is reserved and spent is within the limits, but for what requests took beyond their bounds."""
    assert grant.requests is None or own.requests <= grant.requests
    assert within(grant.tokens, own.spent_tokens + own.reserved_tokens, own.overrun_tokens)
    assert within(grant.cost_nanousd, own.spent_nanousd + own.reserved_nanousd, own.overrun_nanousd)
    assert grant.unknown_price == "warn" or grant.cost_nanousd is None or not own.unpriced


@settings(max_examples=60)
@given(st.lists(limits, min_size=2, max_size=2), st.lists(steps, max_size=30))
def test_at_every_prefix_no_grant_is_beyond_its_limits(grants: list[Limits], script: list[tuple[Any, ...]]) -> None:
    """AGT-22, OBS-55: stale decisions, late settlements and unknown ends included; the check agrees."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder, grants)
        try:
            for step in script:
                runs.take(step)
            log = runs.logs[0]
            state = HubState()
            for event in log.stream_events(hub_stream("s"), 0, 10_000):
                before = state.total.spent_nanousd + state.total.reserved_nanousd
                body = decode(event.type, event.schema, event.data)
                assert state.apply(event, body) == ""
                for grant in state.grants.values():
                    assert_within(grant.limits, grant.tally, state.total)
                if event.type == "reservation.made":
                    limit = state.grants[body.grant].limits.session_cost_nanousd
                    assert limit is None or before + (body.cost_nanousd or 0) <= limit
            for hub in runs.hubs:
                assert (hub.state.total, hub.state.held) == (state.total, state.held)
            totals = [grant.tally for grant in state.grants.values()]
            for name in Tally.__struct_fields__:
                assert sum(getattr(one, name) for one in totals) == getattr(state.total, name)
            assert list(faults(log, log.head_position())) == []
        finally:
            for log in runs.logs:
                log.close()
