"""The right to run: one process at a time, found by a lock, fenced by an epoch; what a dead one left is closed."""

from __future__ import annotations

import os

from agent import leftovers
from agent.draft import Draft
from agent.run import Run
from agent.state import ToolRun
from ledger.budget.reserve import Hub
from ledger.errors import LedgerError
from ledger.events import runs
from ledger.ids import id_text, new_id
from ledger.log.alive import Hold

LOST_RESULT = (
    "ERROR: the agent's process died while this ran. Whether it took effect is not known: check before you do it again."
)


class Held(LedgerError):
    """A live process has the session."""


def claim(run: Run, hub: Hub, hold: Hold, *, take_over: bool = False) -> None:
    """Take the right to run, and close what the holder before left open.

    `hold` is the lock of a live holder: where somebody else has it, the claim is refused unless `take_over`.
    Raises Held with who has it.
    """
    before = run.state.claim
    alive = not hold.try_take()
    if alive and not take_over:
        who = f"process {before.pid} on {before.host}" if before else "another process"
        raise Held(
            f"session {run.session_id} is being run by {who}: wait for it, stop it, or give --take-over to take it away"
        )
    reason = "begun"
    if before is not None:
        reason = "taken" if alive else "resumed" if run.state.released else "recovered"
    epoch = before.epoch + 1 if before else 1
    claimed = runs.RunClaimed(epoch=epoch, host=os.uname().nodename, pid=os.getpid(), reason=reason)
    run.epoch = epoch
    leftovers.end(run.state.open_tools)

    def make() -> Draft:
        draft = run.draft()
        draft.add(claimed)
        _close(run, hub, draft)
        return draft

    run.commit(make)


def _close(run: Run, hub: Hub, draft: Draft) -> None:
    """End what was begun and did not end. What a request used is not known, so its reservation is kept."""
    state = run.state
    request = state.open_request
    if request is not None:
        lost = runs.RequestLost(reason="process_died", protocol=request.sent.protocol, quote=request.sent.quote)
        draft.add(lost, span=request.span)
        draft.others = hub.settle(request.span, tokens=None, cost_nanousd=None, turn=draft.turn or None)
    for span in state.questions:
        draft.add(runs.ApprovalAnswered(answer="denied", by="nobody"), span=span)
    for open_tool in state.open_tools.values():
        _lose(open_tool, draft)


def _lose(tool: ToolRun, draft: Draft) -> None:
    result = draft.keep(LOST_RESULT)
    draft.add(runs.ToolReturned(status="lost", result=result, result_bytes=len(LOST_RESULT)), span=tool.span)


def release(run: Run) -> None:
    """Say that this process will not act on the run any more.

    Where an effect has no end, because an error came in between, nothing is said: the next holder closes it.
    """
    state = run.state
    if run.epoch and not (state.released or state.open_request or state.open_tools or state.questions):

        def make() -> Draft:
            draft = Draft(run.session_id)
            draft.add(runs.RunReleased(epoch=run.epoch))
            return draft

        run.commit(make)


def new_session_id() -> str:
    """Return the id of a new session: a UUIDv7."""
    return id_text(new_id())
