"""Golden logs: whole sessions that were recorded once, and what folding them gave then.

`tests/cases/golden-logs/NAME.db.zst` is a log, `NAME.json` beside it what its accounts and its runs came to. Neither is
ever changed: `python tests/support/golden.py` records sessions under new names, beside those that are there.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

from agent import actions
from agent.decide import decide
from agent.result import result
from agent.state import Place, State
from ledger.accounts.catchup import View, snapshot
from ledger.events import runs
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.log.log import Log

FOLDER = Path(__file__).parents[1] / "cases" / "golden-logs"
_SCRATCH = Path("/tmp/tallybook-golden")
"""Where sessions are recorded: the path stands in their events."""
_OF_TURNS = (
    "number", "who", "model", "outcome", "requests", "succeeded", "retries", "prompt_tokens", "completion_tokens",
    "unknown_spans", "cost_usd",
)  # fmt: skip
_SPANS = """SELECT d.kind, d.model, d.status, s.attempt_kind, s.input_uncached, s.cache_read, s.cache_write_5m,
s.cache_write_1h, s.output, s.cost_nanousd, s.ran_us, s.waited_us, s.occurred_at
FROM gen_spans AS s JOIN gen_dimensions AS d ON d.dimension_id = s.dimension_id ORDER BY s.occurred_at, s.span_id"""


def names() -> list[str]:
    """Return the names of all golden logs."""
    return sorted(path.name.removesuffix(".db.zst") for path in FOLDER.glob("*.db.zst"))


def unpacked(name: str, folder: Path) -> Path:
    """Write a golden log into a folder; return where."""
    path = folder / f"{name}.db"
    path.write_bytes(zstandard.decompress((FOLDER / f"{name}.db.zst").read_bytes()))
    return path


def kept(name: str) -> dict[str, Any]:
    """Return what a golden log came to when it was recorded."""
    return json.loads((FOLDER / f"{name}.json").read_text())  # type: ignore[no-any-return]


def folded(log: Log) -> dict[str, Any]:
    """Return what a log comes to now: by stream the state and the decisions, and the accounts."""
    streams: dict[str, Any] = {}
    for stream, events in run_streams(log).items():
        state = State()
        taken = Counter(type(action).__name__ for action, *_ in decisions(state, events))
        last = state.turn
        streams[stream] = {
            "version": state.version,
            "turns": state.turns,
            "outcome": last.ended.outcome if last and last.ended else None,
            "epoch": state.claim.epoch if state.claim else None,
            "released": state.released,
            "messages": [[one.role, one.blob, [call.id for call in one.calls], one.answers] for one in state.messages],
            "shown": list(state.shown.messages),
            "decisions": dict(sorted(taken.items())),
        }
    with snapshot(log) as view:
        spans = [list(row) for row in view.store.query(_SPANS)]
        sessions = {stream: _came_to(view, stream.removeprefix("run:")) for stream in streams}
    return {"streams": streams, "spans": spans, "sessions": sessions}


def _came_to(view: View, session: str) -> dict[str, Any]:
    """Return what a session and its turns cost, in figures that the account is about."""
    whole = result(view, session, "", outcome="", reason="", response="", error="")
    turns = [{name: turn[name] for name in _OF_TURNS} for turn in whole["turns"]]
    return {"usage": whole["usage"], "cost_usd": whole["cost_usd"], "turns": turns}


def run_streams(log: Log) -> dict[str, list[Event]]:
    """Return the events of each run, in order."""
    found: dict[str, list[Event]] = {}
    for event in log.all_events():
        if event.stream_id.startswith("run:"):
            found.setdefault(event.stream_id, []).append(event)
    return found


def decisions(state: State, events: list[Event]) -> Iterator[tuple[actions.Action, Any, str]]:
    """Fold events into a state; at each that carries out a decision yield (what `decide` says there, it, its span)."""
    for event in events:
        body = decode(event.type, event.schema, event.data)
        if type(body) in _CARRIED_OUT and _is_decision(body):
            yield decide(state), body, event.span or ""
        state.take(Place(event.version, event.turn or "", event.span or ""), body)


def _is_decision(body: Any) -> bool:
    """Return whether an event carries out what `decide` said, of the kinds that also come otherwise."""
    if isinstance(body, runs.MessageAdded):
        return body.role == "tool"
    if isinstance(body, runs.GateRefused):
        return not body.call
    return not (isinstance(body, runs.TurnEnded) and body.reason == "left")


def differs(action: actions.Action, body: Any, span: str) -> str:
    """Return in what the decision of today is not the recorded one, empty where it is the same."""
    fits = _CARRIED_OUT[type(body)](action, body, span)
    return "" if fits else f"{type(body).__name__}: {body}: today {action}"


def _sends(action: Any, body: runs.RequestSent, span: str) -> bool:
    asked = (body.call, body.attempt, body.kind, body.provider, body.model, body.protocol)
    return isinstance(action, actions.CallModel) and asked == (
        action.call, action.attempt, action.kind, action.target.provider, action.target.model, action.target.protocol,
    )  # fmt: skip


def _calls_model(action: Any, body: Any, span: str) -> bool:
    return isinstance(action, actions.CallModel)


def _waits(action: Any, body: runs.RetryScheduled, span: str) -> bool:
    return (
        isinstance(action, actions.ScheduleRetry)
        and (action.span, action.reason, action.retry_after_us) == (span, body.reason, body.retry_after_us)
        and (action.backoff_us // 2 <= body.delay_us <= action.backoff_us or body.delay_us == body.retry_after_us)
    )


def _falls_back(action: Any, body: runs.FallbackTaken, span: str) -> bool:
    return action == actions.TakeFallback(body.before, body.after, body.reason)  # type: ignore[no-any-return]


def _runs(action: Any, body: runs.ToolCalled | runs.ApprovalAsked, span: str) -> bool:
    return isinstance(action, actions.RunTools) and action.calls[0].id == body.call


def _adds(action: Any, body: runs.MessageAdded, span: str) -> bool:
    return isinstance(action, actions.AddResults) and action.calls[0].id == body.answers


def _ends(action: Any, body: runs.TurnEnded, span: str) -> bool:
    return action == actions.EndTurn(body.outcome, body.reason)  # type: ignore[no-any-return]


_CARRIED_OUT: dict[type, Callable[[Any, Any, str], bool]] = {
    runs.ContextAssembled: _calls_model,
    runs.RequestSent: _sends,
    runs.GateRefused: _calls_model,
    runs.RetryScheduled: _waits,
    runs.FallbackTaken: _falls_back,
    runs.ToolCalled: _runs,
    runs.ApprovalAsked: _runs,
    runs.MessageAdded: _adds,
    runs.TurnEnded: _ends,
}
"""Events that carry out a decision, and whether an action is that decision."""


# Recording.

_WORK = """[[step]]
text = "I look."
thinking = "Where is it?"
calls = [
    { tool = "write_file", arguments = { path = "notes.txt", content = "one\\n" } },
    { tool = "read_file", arguments = { path = "../outside.txt" } },
]
faults = [{ status = 503 }, { status = 429, retry_after = "0" }]
[[step]]
text = "Now I change it."
calls = [{ tool = "edit_file", arguments = { path = "notes.txt", old_string = "one", new_string = "two" } }]
faults = [{ cut_after = 3 }]
"""
_RUN = """[[step]]
calls = [
    { tool = "run_command", arguments = { command = "echo begun >> lines.txt; sleep 0.3" } },
    { tool = "run_command", arguments = { command = "cat lines.txt" } },
]
"""
_END = '[[step]]\ntext = "It is done."\n'
_GONE = '[[step]]\nmodel = "rehearsed-1"\nfaults = [{ status = 503, always = true }]\n'
_SPARE = '[[step]]\nmodel = "rehearsed-2"\ntext = "It is done."\n'


def _ok(world: Any) -> None:
    assert world.run("Do it.", "--fallback-model", "rehearsed-2").code == 0


def _interrupted(world: Any) -> None:
    from agents import signalled, wait_until

    process = world.start("Do it.")
    wait_until(lambda: world.lines() == ["begun"], "the command")
    assert signalled(process, signal.SIGINT).code == 130
    assert world.run(None).code == 0


def _iteration_limit(world: Any) -> None:
    assert world.run("Do it.", "--max-iterations", "2").code == 1


def _budget_exhausted(world: Any) -> None:
    assert world.run("Do it.", "--max-cost", "0.14").code == 1
    assert world.run(None, "--max-cost", "5").code == 0


def _error(world: Any) -> None:
    assert world.run("Do it.", "--max-retries", "1").code == 1


def _lost(world: Any) -> None:
    for prompt, fault in (("Do it.", "effect:response:2"), (None, "effect:tool"), (None, "before:TurnEnded")):
        assert world.run(prompt, fault=fault).code == -signal.SIGKILL
    assert world.run(None).code == 0


def _asked(world: Any) -> None:
    assert world.run("Do it.", "--approval-policy", "on-request").code == 0


_PRICED = {"speaks": "anthropic", "model": "anthropic/claude-sonnet-4-5"}
_SESSIONS: dict[str, tuple[str, Callable[[Any], None], dict[str, str]]] = {
    "ok-retries-cut-fallback": (_WORK + _GONE + _SPARE, _ok, {}),
    "interrupted": (_RUN + _END, _interrupted, {}),
    "iteration-limit": (_WORK + _RUN + _END, _iteration_limit, {"speaks": "anthropic"}),
    "budget-exhausted": (_WORK + _RUN + _END, _budget_exhausted, _PRICED),
    "error": (_WORK + _GONE, _error, {}),
    "lost": (_WORK + _RUN + _END, _lost, {"speaks": "anthropic"}),
    "asked": (_WORK + _RUN + _END, _asked, {}),
}


def record() -> None:
    """Record every session under the next number. What is there is never written over."""
    from agents import World

    number = 1 + max((int(name.partition("-")[0]) for name in names()), default=0)
    FOLDER.mkdir(exist_ok=True)
    for name, (script, play, options) in _SESSIONS.items():
        shutil.rmtree(_SCRATCH, ignore_errors=True)
        with World(_SCRATCH, script, **options) as world:  # type: ignore[arg-type]
            play(world)
        path = Path(world.database)
        with Log.open(path) as log:
            came_to = folded(log)
            log.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        target = FOLDER / f"{number:02}-{name}.db.zst"
        with target.open("xb") as file:
            file.write(zstandard.compress(path.read_bytes(), 19))
        with target.with_name(f"{number:02}-{name}.json").open("x") as text:
            json.dump(came_to, text, indent=1)
            text.write("\n")
        sys.stdout.write(f"{target.name}: {target.stat().st_size:,} bytes\n")
    shutil.rmtree(_SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    record()
