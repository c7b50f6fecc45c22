"""The loop: fold, decide, act. All that an agent does is one of these actions, and each begins and ends as an event."""

from __future__ import annotations

import secrets

from agent.actions import AddResults, CallModel, EndTurn, Rest, RunTools, ScheduleRetry, TakeFallback
from agent.decide import decide
from agent.draft import Draft
from agent.holds import BUSY, holding
from agent.model_call import call_model
from agent.stage import Stage
from agent.tool_calls import add_results, run_tools
from ledger.events import runs


async def run_turn(stage: Stage) -> None:
    """Go on with the open turn until it has ended. Where it was killed and where it goes on makes no difference.

    Raises Fenced where another process took the run over, LogUnavailable where the log cannot be written any more.
    """
    while True:
        _note_stop(stage)
        match decide(stage.run.state):
            case CallModel() as action:
                await call_model(stage, action)
            case RunTools() as action:
                await run_tools(stage, action)
            case AddResults() as action:
                add_results(stage, action)
            case ScheduleRetry() as action:
                _schedule_retry(stage, action)
            case TakeFallback(before, after, reason):
                _append(stage, runs.FallbackTaken(before=before, after=after, reason=reason))
            case EndTurn() as action:
                _end_turn(stage, action)
            case Rest():
                return


def _note_stop(stage: Stage) -> None:
    """What somebody asked for from outside becomes an event of the run: only then it is decided upon."""
    turn = stage.run.state.open_turn
    if stage.stops.reason and turn is not None and turn.stop is None:
        _append(stage, runs.InputReceived(what="stop", reason=stage.stops.reason))


def _schedule_retry(stage: Stage, action: ScheduleRetry) -> None:
    """Jitter is drawn here and recorded: four agents that failed together do not come back together (LOOP-16)."""
    jittered = action.backoff_us * (500 + secrets.randbelow(501)) // 1000
    delay = max(jittered, action.retry_after_us or 0)
    until = stage.clock() + delay
    retry = runs.RetryScheduled(reason=action.reason, delay_us=delay, until=until, retry_after_us=action.retry_after_us)

    def make() -> Draft:
        draft = stage.run.draft()
        draft.add(retry, span=action.span)
        if action.reason in BUSY:  # the others who use this key need not find out for themselves
            draft.others = holding(stage.run.log, action.target, action.reason, until, delay)
        return draft

    stage.run.commit(make)


def _end_turn(stage: Stage, action: EndTurn) -> None:
    turn = stage.run.state.open_turn
    ends = [one.end for one in turn.attempts if one.end is not None and one.end.error] if turn else []
    error = ends[-1].error if action.outcome == "error" and ends else ""
    _append(stage, runs.TurnEnded(outcome=action.outcome, reason=action.reason, error=error))


def _append(stage: Stage, body: object, span: str = "") -> None:
    def make() -> Draft:
        draft = stage.run.draft()
        draft.add(body, span=span)
        return draft

    stage.run.commit(make)
