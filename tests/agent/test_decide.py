"""What a run does next, from its state alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agent.actions import AddResults, CallModel, EndTurn, Rest, RunTools, ScheduleRetry, TakeFallback
from agent.configuration import Configuration, Target, as_json
from agent.decide import backoff_us, decide
from agent.state import Place, State
from ledger.events import runs

MAIN = Target("openai", "gpt-5", "openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY")
SPARE = Target("anthropic", "claude-sonnet-4-5", "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY")


class Told:
    """A state that is told events one by one."""

    def __init__(self, **changes: Any) -> None:
        self.state = State()
        self.spans = 0
        configuration = msgspec.structs.replace(Configuration(MAIN), **changes)
        self.tell(runs.TurnStarted(number=1, grant="g"))
        self.tell(runs.InputReceived(what="configuration", values=msgspec.Raw(as_json(configuration))))
        self.tell(runs.MessageAdded(role="user", blob="aa", size_bytes=1))

    def tell(self, body: Any, span: str = "") -> None:
        self.state.take(Place(self.state.version + 1, "turn", span), body)

    def send(self, target: Target = MAIN, *, call: int = 1, attempt: int = 1, kind: str = "first") -> str:
        self.spans += 1
        span = f"s{self.spans}"
        sent = runs.RequestSent(
            call=call, attempt=attempt, kind=kind, provider=target.provider, model=target.model,
            protocol=target.protocol, endpoint="", context=1, body_sha256="", body_bytes=0,
        )  # fmt: skip
        self.tell(sent, span)
        return span

    def fail(self, reason: str = "server_error", *, retryable: bool = True, target: Target = MAIN, **more: Any) -> str:
        span = self.send(target)
        self.tell(runs.RequestFailed(reason=reason, retryable=retryable, **more), span)
        return span

    def answer(self, *calls: str, call: int = 1) -> None:
        self.tell(runs.RequestAnswered(status=200), self.send(call=call))
        made = [runs.CallReference(one, "grep") for one in calls]
        self.tell(runs.MessageAdded(role="assistant", blob="bb", size_bytes=1, calls=made))

    def result(self, call: str) -> None:
        self.tell(runs.MessageAdded(role="tool", blob="cc", size_bytes=1, answers=call))

    @property
    def next(self) -> Any:
        return decide(self.state)


def test_text_ends_the_turn() -> None:
    """A prompt is answered by a request; text without calls ends the turn (LOOP-01)."""
    told = Told()
    assert told.next == CallModel(MAIN, 1, 1, "first")
    told.answer()
    assert told.next == EndTurn("ok")
    told.tell(runs.TurnEnded(outcome="ok"))
    assert told.next == Rest()


def test_calls_run_and_their_results_go_back() -> None:
    """What did not run yet runs; when all have run, their results are added in order; then a request (LOOP-01)."""
    told = Told()
    told.answer("a", "b")
    first, second = runs.CallReference("a", "grep"), runs.CallReference("b", "grep")
    assert told.next == RunTools((first, second))
    told.tell(runs.ToolCalled(tool="grep", call="a", arguments="", arguments_bytes=2), "t1")
    told.tell(runs.ToolReturned(status="ok", result="", result_bytes=0), "t1")
    assert told.next == RunTools((second,))
    told.tell(runs.ToolCalled(tool="grep", call="b", arguments="", arguments_bytes=2), "t2")
    told.tell(runs.ToolReturned(status="lost", result="", result_bytes=0), "t2")
    assert told.next == AddResults((first, second))
    told.result("a")
    assert told.next == AddResults((second,))
    told.result("b")
    assert told.next == CallModel(MAIN, 2, 1, "first")


def test_retries_then_the_fallback_once_then_the_error() -> None:
    """max_retries retries, then the fallback with retries of its own, then an error (LOOP-14, LOOP-20)."""
    told = Told(fallback=SPARE, max_retries=1)
    span = told.fail()
    assert told.next == ScheduleRetry(span, "server_error", 500_000, None, MAIN)
    told.tell(runs.RetryScheduled(reason="server_error", delay_us=7, until=1_000), span)
    assert told.next == CallModel(MAIN, 1, 2, "retry", 1_000, 7)
    told.fail()
    assert told.next == TakeFallback("gpt-5", "claude-sonnet-4-5", "server_error")
    told.tell(runs.FallbackTaken(before="gpt-5", after="claude-sonnet-4-5", reason="server_error"))
    assert told.next == CallModel(SPARE, 1, 2, "fallback")
    span = told.fail(target=SPARE)
    assert isinstance(told.next, ScheduleRetry)
    told.tell(runs.RetryScheduled(reason="server_error", delay_us=7, until=1_000), span)
    told.fail(target=SPARE)
    assert told.next == EndTurn("error", "server_error")


def test_what_cannot_pass_is_not_tried_again() -> None:
    """A 401 is neither retried nor given to the fallback (LOOP-19)."""
    told = Told(fallback=SPARE)
    told.fail("unauthorized", retryable=False, status=401)
    assert told.next == EndTurn("error", "unauthorized")


def test_a_cut_is_tried_again_and_the_partial_text_is_no_answer() -> None:
    """What a cut stream left is kept beside the conversation, which still waits for its answer (OBS-05)."""
    told = Told()
    span = told.send()
    told.tell(runs.RequestCut(status=200, reason="no_finish", retryable=True), span)
    told.tell(runs.MessageAdded(role="assistant", blob="dd", size_bytes=1, partial=True))
    assert [one.role for one in told.state.messages] == ["user"]
    assert told.next == ScheduleRetry(span, "no_finish", 500_000, None, MAIN)


def test_a_cut_that_would_be_cut_again_is_not_tried_again() -> None:
    """An answer that is longer than any may be would be so again."""
    told = Told(fallback=SPARE)
    told.tell(runs.RequestCut(status=200, reason="too_long"), told.send())
    assert told.next == EndTurn("error", "too_long")


def test_what_a_dead_process_left_uses_up_no_retry() -> None:
    """A lost request says nothing of the endpoint (OBS-49)."""
    told = Told(max_retries=0)
    for _ in range(5):
        told.tell(runs.RequestLost(), told.send())
        assert isinstance(told.next, CallModel)
    told.fail()
    assert told.next == EndTurn("error", "server_error")


@pytest.mark.parametrize("limit", [1, 3])
def test_the_iteration_limit(limit: int) -> None:
    """As many round trips as allowed, then the turn stops (LOOP-02)."""
    told = Told(max_iterations=limit)
    for number in range(1, limit + 1):
        assert told.next == CallModel(MAIN, number, 1, "first")
        told.answer(f"c{number}", call=number)
        told.tell(runs.ToolCalled(tool="grep", call=f"c{number}", arguments="", arguments_bytes=2), f"t{number}")
        told.tell(runs.ToolReturned(status="ok", result="", result_bytes=0), f"t{number}")
        told.result(f"c{number}")
    assert told.next == EndTurn("iteration_limit")


def test_a_stop_leaves_no_call_without_a_result() -> None:
    """Calls that did not run get results that say so, then the turn ends: the conversation is valid (LOOP-09)."""
    told = Told()
    told.answer("a", "b")
    told.tell(runs.InputReceived(what="stop", reason="user"))
    assert isinstance(told.next, AddResults)
    told.result("a")
    told.result("b")
    assert told.next == EndTurn("interrupted")


def test_a_stop_that_comes_behind_the_answer_is_too_late() -> None:
    """The answer is there and nothing is left to stop: the turn ended well, and needs no continuing (LOOP-09)."""
    told = Told()
    told.answer()
    told.tell(runs.InputReceived(what="stop", reason="user"))
    assert told.next == EndTurn("ok")


def test_a_ceiling_ends_the_turn() -> None:
    """A refused request ends the turn with the ceiling's name (LOOP-27)."""
    told = Told()
    told.tell(runs.GateRefused(gate="budget", rule="cost", reason="refused"))
    assert told.next == EndTurn("budget_exhausted", "cost")


def test_a_refused_tool_call_does_not() -> None:
    """A gate that refuses a call is a result for the model (LOOP-06)."""
    told = Told()
    told.answer("a")
    told.tell(runs.GateRefused(gate="paths", rule="outside", reason="refused", tool="grep", call="a"))
    assert isinstance(told.next, RunTools)


def test_backoff_doubles_up_to_its_cap() -> None:
    """base * 2^(n-1), at most 30 s (LOOP-15)."""
    assert [backoff_us(number, 500) for number in (1, 2, 3)] == [500_000, 1_000_000, 2_000_000]
    assert backoff_us(20, 500) == backoff_us(10_000, 500) == 30_000_000
