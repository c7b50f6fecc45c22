"""Golden logs: sessions of an older program are read, decided upon and accounted for as they were (LOOP-27)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import golden
import pytest

from agent.decide import decide
from agent.state import Place, State
from ledger.events import runs
from ledger.events.registry import decode
from ledger.invariants import check
from ledger.log.log import Log

NAMED = pytest.mark.parametrize("name", golden.names())


def _open(name: str, folder: Path) -> Log:
    return Log.open(golden.unpacked(name, folder))


def _missing(before: Any, now: Any, where: str = "") -> list[str]:
    """Return where something that was said once is said otherwise now; what is new is no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            text for key, value in before.items() for text in _missing(value, now.get(key, "nothing"), f"{where}/{key}")
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [text for place, (old, new) in pairs for text in _missing(old, new, f"{where}/{place}")]
    return [] if before == now else [f"{where}: {before} became {now}"]


@NAMED
def test_every_decision_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    """At every prefix that a decision followed, `decide` says today what was done then (the loop is a fold)."""
    with _open(name, tmp_path) as log:
        for stream, events in golden.run_streams(log).items():
            found = list(golden.decisions(State(), events))
            assert [text for one in found if (text := golden.differs(*one))] == []
            taken = Counter(type(action).__name__ for action, *_ in found)
            assert dict(sorted(taken.items())) == golden.kept(name)["streams"][stream]["decisions"]


@NAMED
def test_every_prefix_folds(name: str, tmp_path: Path) -> None:
    """Each prefix can be decided upon, but where a request is on its way; folding on from it gives the whole."""
    with _open(name, tmp_path) as log:
        for events in golden.run_streams(log).values():
            state = State()
            for event in events:
                body = decode(event.type, event.schema, event.data)
                state.take(Place(event.version, event.turn or "", event.span or ""), body)
                if state.open_request is None:
                    assert decide(state) == decide(state)
            assert (state.version, state.open_request, state.open_tools, state.questions) == (len(events), None, {}, {})


@NAMED
def test_state_and_accounts_are_the_kept_ones(name: str, tmp_path: Path) -> None:
    """Conversation, outcomes, spans, tokens and money are what they were; a new figure beside them is no difference."""
    with _open(name, tmp_path) as log:
        assert _missing(golden.kept(name), json.loads(json.dumps(golden.folded(log)))) == []
        assert [one for one in check(log, full=True) if not one.ok] == []


def test_what_was_recorded_has_everything() -> None:
    """Every outcome, every end of a request, every decision is in a golden log."""
    outcomes: set[str] = set()
    taken: set[str] = set()
    statuses: set[str] = set()
    for name in golden.names():
        one = golden.kept(name)
        outcomes |= {turn["outcome"] for session in one["sessions"].values() for turn in session["turns"]}
        taken |= {decision for stream in one["streams"].values() for decision in stream["decisions"]}
        statuses |= {span[2] for span in one["spans"] if span[0] == "model"}
    assert outcomes >= {"ok", "interrupted", "iteration_limit", "budget_exhausted", "error"}
    assert taken == {"CallModel", "RunTools", "AddResults", "ScheduleRetry", "TakeFallback", "EndTurn"}
    assert statuses >= {"succeeded", "failed", "cut", "lost"}


def test_a_decision_that_changed_is_found(tmp_path: Path) -> None:
    """Twin: with another limit, another delay or another call in the log, the comparison says so."""
    with _open(next(name for name in golden.names() if "retries" in name), tmp_path) as log:
        (events,) = golden.run_streams(log).values()
        found = list(golden.decisions(State(), events))
    for action, body, span in found:
        if isinstance(body, runs.RequestSent):
            assert golden.differs(action, runs.RequestSent(**{**_fields(body), "attempt": body.attempt + 1}), span)
        elif isinstance(body, runs.RetryScheduled):
            assert golden.differs(action, runs.RetryScheduled(body.reason, 10**9, body.until), span)
        elif isinstance(body, runs.TurnEnded):
            assert golden.differs(action, runs.TurnEnded("error"), span)
    assert _missing({"a": {"b": 1}}, {"a": {"b": 2}}) and not _missing({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}})


def _fields(body: runs.RequestSent) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__struct_fields__}
