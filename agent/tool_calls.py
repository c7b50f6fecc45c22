"""The effect of running a batch of tool calls, and of putting their results into the conversation."""

from __future__ import annotations

import time
from collections.abc import Iterable

from agent.actions import AddResults, RunTools
from agent.approvals import DENIED, Question, reason_to_ask
from agent.draft import Draft
from agent.leftovers import marked
from agent.stage import Stage
from agent.tools.registry import run_tool, shown, tool_named
from agent.tools.tool import Tool, ToolOutput
from ledger import faults
from ledger.events import runs
from ledger.ids import id_text, new_id
from ledger.wire.conversation import Call, Message, Result, message_bytes

NOT_RUN = "Not run: the turn was stopped before this call."


async def run_tools(stage: Stage, action: RunTools) -> None:
    """Run calls one after the other, in order. A stop ends the batch; what did not run begins no span."""
    newest = next(one for one in reversed(stage.run.state.messages) if one.role == "assistant")
    calls = {call.id: call for call in stage.conversation.message(newest.blob).calls}
    for reference in action.calls:
        if stage.stops.reason:
            return
        await _run_one(stage, calls[reference.id])


async def _run_one(stage: Stage, call: Call) -> None:
    tool = tool_named(call.name)
    answer = await _asked(stage, tool, call) if tool else "allowed"
    if not answer:
        return  # stopped while it was asked
    span = id_text(new_id())
    stage.run.commit(lambda: _begun(stage, call, span))
    if answer == "denied":
        output, ran_us = ToolOutput(DENIED, status="denied"), 0
    else:
        faults.point("effect:tool")
        output, ran_us = await _worked(stage, call, span)
    stage.run.commit(lambda: _ended(stage, call, span, output, ran_us))


async def _worked(stage: Stage, call: Call, span: str) -> tuple[ToolOutput, int]:
    """Run a call; return what came of it and how long it worked (microseconds)."""
    began = time.monotonic_ns()
    output = ToolOutput("ERROR: cancelled: the turn was stopped while this ran.", status="cancelled")
    with stage.stops.effect():
        context = stage.tools._replace(environment=marked(stage.tools.environment, span))
        output = await run_tool(call.name, call.arguments, context)
    return output, (time.monotonic_ns() - began) // 1000


async def _asked(stage: Stage, tool: Tool, call: Call) -> str:
    """Return `allowed` or `denied`, empty where the question was stopped. Nothing is asked that needs no answer."""
    configuration = stage.run.state.configuration
    assert configuration is not None
    reason = reason_to_ask(configuration.approval, tool.capabilities)
    if not reason:
        return "allowed"
    question = Question(tool.name, stage.masker(shown(tool, call.arguments)), reason)
    span, draft = id_text(new_id()), stage.run.draft()
    what = draft.keep(question.shown)
    if (tool.name, what) in stage.run.state.allowed:
        return "allowed"
    draft.add(runs.ApprovalAsked(call=call.id, tool=tool.name, what=what, reason=reason), span=span)
    stage.run.commit(lambda: draft)
    began, answer = time.monotonic_ns(), None
    with stage.stops.effect():
        answer = await stage.approver.ask(question)
    waited_us = (time.monotonic_ns() - began) // 1000
    said = answer or None
    answered = runs.ApprovalAnswered(
        answer=said.answer if said else "denied",
        by=said.by if said else "nobody",
        scope=said.scope if said else "once",
        waited_us=waited_us,
    )

    def make() -> Draft:
        draft = stage.run.draft()
        draft.add(answered, span=span)
        if said and said.answer == "denied":
            draft.add(
                runs.GateRefused(gate="approval", rule=reason, reason=said.by, tool=tool.name, call=call.id), span=span
            )
        return draft

    stage.run.commit(make)
    return said.answer if said else ""


def _begun(stage: Stage, call: Call, span: str) -> Draft:
    draft = stage.run.draft()
    text = call.arguments
    arguments = draft.keep(text)
    draft.add(
        runs.ToolCalled(tool=call.name, call=call.id, arguments=arguments, arguments_bytes=len(text.encode())),
        span=span,
    )
    return draft


def _ended(stage: Stage, call: Call, span: str, output: ToolOutput, ran_us: int) -> Draft:
    draft = stage.run.draft()
    text = stage.masker(output.text)
    if output.status == "refused":
        draft.add(
            runs.GateRefused(gate="paths", rule=output.rule, reason="refused", tool=call.name, call=call.id), span=span
        )
    result = draft.keep(text or "(no output)")
    draft.add(
        runs.ToolReturned(
            status=output.status, result=result, result_bytes=len(text.encode()), truncated=output.truncated,
            exit_code=output.exit_code, waited_us=0, ran_us=ran_us,
        ),
        span=span,
    )  # fmt: skip
    return draft


def add_results(stage: Stage, action: AddResults) -> None:
    """Put one result for each call of a batch into the conversation, in the order of the calls (LOOP-03, LOOP-04)."""

    def make() -> Draft:
        draft = stage.run.draft()
        answer_calls(stage, draft, action.calls)
        return draft

    stage.run.commit(make)


def answer_calls(stage: Stage, draft: Draft, calls: Iterable[runs.CallReference]) -> None:
    """Add the message that answers each call, whether or not it ran."""
    for call in calls:
        message = _result(stage, call)
        content = message_bytes(message)
        blob = draft.keep(content)
        stage.conversation.learn(blob, message)
        draft.add(runs.MessageAdded(role="tool", blob=blob, size_bytes=len(content), answers=call.id))


def _result(stage: Stage, call: runs.CallReference) -> Message:
    run = stage.run.state.tool_runs.get(call.id)
    if run is None or run.returned is None:
        return Message("tool", (Result(call.id, call.name, NOT_RUN, is_error=True),))
    content = stage.run.log.blob(bytes.fromhex(run.returned.result))
    text = "ERROR: the result of this call was purged." if content is None else content.decode("utf-8", "replace")
    return Message("tool", (Result(call.id, call.name, text, is_error=run.returned.status != "ok"),))
