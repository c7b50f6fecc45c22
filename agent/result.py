"""What a run came to, from the accounts: the object that JSON output and the last line of a stream are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from agent.configuration import Configuration
from ledger.accounts.catchup import View
from ledger.accounts.live_usage import CLIENT
from ledger.accounts.store import session_key
from ledger.events.runs import TurnEnded

_TURNS = """SELECT t.turn_id, r.number, r.who, r.agent, r.outcome, t.started_at, r.ended_at
FROM gen_turns AS t JOIN gen_run_turns AS r ON r.turn_key = t.turn_key WHERE t.session_key = ?
ORDER BY t.started_at, r.number"""
_SPANS = """SELECT t.turn_id, d.kind, d.model, d.status, s.attempt_kind, s.input_uncached, s.cache_read,
s.cache_write_5m, s.cache_write_1h, s.output, s.cost_nanousd, s.ran_us, s.waited_us, s.lines
FROM gen_spans AS s JOIN gen_dimensions AS d ON d.dimension_id = s.dimension_id
JOIN gen_turns AS t ON t.turn_key = s.turn_key WHERE s.session_key = ? ORDER BY s.occurred_at, s.span_id"""


class Sums:
    """What spans add up to. Unknown is counted, never taken for zero."""

    def __init__(self) -> None:
        self.requests = self.succeeded = self.retries = self.fallbacks = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.unknown_spans = self.unpriced_spans = 0
        self.cost_nanousd = 0
        self.ran_us = self.waited_us = 0
        self.model = ""
        """The model that answered last."""

    def add(self, row: tuple[Any, ...]) -> None:
        """Take in a span: a row of the question for spans."""
        _, kind, model, status, attempt_kind, uncached, read, short, long, output, cost, ran, waited, lines = row
        self.ran_us += ran or 0
        self.waited_us += waited or 0
        if kind != "model":
            return
        if lines:  # not a call that the provider made beside the answer
            self.requests += 1
            self.succeeded += status == "succeeded"
            self.retries += attempt_kind == "retry"
            self.fallbacks += attempt_kind == "fallback"
        if status == "succeeded" or not self.model:
            self.model = model
        self.unknown_spans += uncached is None and read is None and output is None
        self.unpriced_spans += cost is None
        self.prompt_tokens += (uncached or 0) + (read or 0) + (short or 0) + (long or 0)
        self.completion_tokens += output or 0
        self.cost_nanousd += cost or 0

    def usage(self) -> dict[str, int]:
        """Return requests and tokens."""
        return {
            "requests": self.requests,
            "succeeded": self.succeeded,
            "retries": self.retries,
            "fallbacks": self.fallbacks,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "unknown_spans": self.unknown_spans,
            "unpriced_spans": self.unpriced_spans,
        }

    def cost_usd(self) -> float | None:
        """Return the known cost in USD: a lower bound where spans are unpriced, None where all are."""
        if self.requests and self.unpriced_spans >= self.requests:
            return None
        return float(Decimal(self.cost_nanousd) / 1_000_000_000)


def result(
    view: View, session_id: str, turn_id: str, *, outcome: str, reason: str, response: str, error: str
) -> dict[str, Any]:
    """Return what a run came to; sums are the session's, over all its turns and processes (OBS-36, -37, -39)."""
    key = session_key(CLIENT, session_id)
    turns = [tuple(row) for row in view.store.query(_TURNS, key)]
    sums: dict[str, Sums] = {row[0]: Sums() for row in turns}
    whole = Sums()
    for row in view.store.query(_SPANS, key):
        whole.add(tuple(row))
        if row[0] in sums:
            sums[row[0]].add(tuple(row))
    return {
        "response": response,
        "session": session_id,
        "turn": turn_id,
        "outcome": outcome,
        "reason": reason or None,
        "is_error": outcome != "ok",
        "error": error or None,
        "model": sums[turn_id].model if turn_id in sums else "",
        "usage": whole.usage(),
        "cost_usd": whole.cost_usd(),
        "turns": [_turn(row, sums[row[0]]) for row in turns],
    }


def limit_text(ended: TurnEnded, configuration: Configuration | None) -> str:
    """Return what is said of a limit that ended a turn by itself, empty where none did."""
    if configuration is None:
        return ""
    if ended.outcome == "iteration_limit":
        return (
            f"the model has answered {configuration.max_iterations:,} times, as often as --max-iterations allows: "
            "give more, then `agent run -c`"
        )
    wall_us = configuration.limits.wall_us
    if (ended.outcome, ended.reason) == ("budget_exhausted", "wall") and wall_us is not None:
        return f"the time of this turn is limited to {wall_us // 1_000_000:,} s, and is over: raise the limit to go on"
    return ""


def failure(session_id: str, error: str, reason: str, *, view: View | None, outcome: str = "error") -> dict[str, Any]:
    """Return the result of a run that could not begin, or whose end is not in the log.

    Without a view what a session that is named used is not known; without a session nothing was used.
    """
    if view is not None and session_id:
        last = view.store.query(_TURNS, session_key(CLIENT, session_id)).fetchall()
        turn = str(last[-1][0]) if last else ""
        return result(view, session_id, turn, outcome=outcome, reason=reason, response="", error=error)
    nothing: dict[str, int | None] = {**Sums().usage()}
    return {
        "response": "", "session": session_id, "turn": "", "outcome": outcome, "reason": reason, "is_error": True,
        "error": error, "model": "", "usage": dict.fromkeys(nothing) if session_id else nothing,
        "cost_usd": None if session_id else 0.0, "turns": [],
    }  # fmt: skip


def _turn(row: tuple[Any, ...], sums: Sums) -> dict[str, Any]:
    turn_id, number, who, agent, outcome, started_at, ended_at = row
    usage = sums.usage()
    return {
        "turn": turn_id,
        "number": number,
        "who": agent or who,
        "model": sums.model,
        "requests": usage["requests"],
        "succeeded": usage["succeeded"],
        "retries": usage["retries"],
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "unknown_spans": usage["unknown_spans"],
        "cost_usd": sums.cost_usd(),
        "ms": sums.ran_us // 1000,
        "waited_ms": sums.waited_us // 1000,
        "elapsed_ms": None if ended_at is None else (ended_at - started_at) // 1000,
        "outcome": outcome or "open",
    }
