"""What a run does next, from its state alone. Pure: the same state gives the same action, today and in a replay."""

from __future__ import annotations

from agent.actions import Action, AddResults, CallModel, EndTurn, Rest, RunTools, ScheduleRetry, TakeFallback
from agent.configuration import MAX_BACKOFF_MS, Configuration, Target
from agent.state import Attempt, State, Turn
from ledger.events.runs import InputReceived, RequestAnswered, RequestCancelled, RequestLost

_OURS = (RequestLost, RequestCancelled)
"""Ends that say nothing of the endpoint."""


def decide(state: State) -> Action:
    """Return the next action. The state must have no request and no tool that is still running."""
    turn, configuration = state.open_turn, state.configuration
    if turn is None or configuration is None:
        return Rest()
    calls = state.pending_calls
    if calls:
        waiting = tuple(call for call in calls if call.id not in state.tool_runs)
        # A stop leaves no call without a result: what did not run says so.
        return RunTools(waiting) if waiting and turn.stop is None else AddResults(calls)
    if state.answered:  # also where the stop came too late: there is nothing left that it could stop
        return EndTurn("ok")
    if turn.stop is not None:
        return stopped(turn.stop)
    if turn.refused is not None:
        return EndTurn("budget_exhausted" if turn.refused.gate == "budget" else "error", turn.refused.rule)
    if _unanswered(turn):
        return _another_attempt(turn, configuration)
    if turn.answered >= configuration.max_iterations:
        return EndTurn("iteration_limit")
    return CallModel(_target(turn, configuration), turn.call + 1, 1, "first")


def stopped(stop: InputReceived) -> EndTurn:
    """Return how a turn ends that was stopped."""
    return EndTurn("budget_exhausted", "wall") if stop.reason == "deadline" else EndTurn("interrupted")


def backoff_us(retry: int, base_ms: int) -> int:
    """Return how long to wait before the how-manieth retry: base * 2^(n-1), at most 30 s; microseconds (LOOP-15)."""
    return min(base_ms << min(retry - 1, 32), MAX_BACKOFF_MS) * 1000


def _unanswered(turn: Turn) -> bool:
    """Return whether the logical call that is being made was not answered by its last attempt."""
    return bool(turn.attempts) and not isinstance(turn.attempts[-1].end, RequestAnswered)


def _another_attempt(turn: Turn, configuration: Configuration) -> Action:
    last, target = turn.attempts[-1], _target(turn, configuration)
    end = last.end
    assert end is not None, "a request is still running"
    attempt = last.sent.attempt + 1
    if not _asked(last, target):
        return CallModel(target, turn.call, attempt, "fallback")
    if isinstance(end, _OURS):
        # That we went away says nothing of the endpoint: it is asked again, and no retry is used up.
        return CallModel(target, turn.call, attempt, "retry")
    if not end.retryable:
        return EndTurn("error", end.reason)
    failures = sum(_asked(one, target) and not isinstance(one.end, _OURS) for one in turn.attempts)
    if failures <= configuration.max_retries:
        if turn.retry is None:
            pause = backoff_us(failures, configuration.retry_base_ms)
            return ScheduleRetry(last.span, end.reason, pause, end.retry_after_us, target)
        return CallModel(target, turn.call, attempt, "retry", turn.retry.until, turn.retry.delay_us)
    if turn.fallback is None and configuration.fallback is not None:
        return TakeFallback(target.model, configuration.fallback.model, end.reason)
    return EndTurn("error", end.reason)


def _asked(attempt: Attempt, target: Target) -> bool:
    return (attempt.sent.provider, attempt.sent.model) == (target.provider, target.model)


def _target(turn: Turn, configuration: Configuration) -> Target:
    if turn.fallback is not None and configuration.fallback is not None:
        return configuration.fallback
    return configuration.target
