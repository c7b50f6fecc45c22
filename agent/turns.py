"""How a turn begins: a prompt, or going on where the last one stopped."""

from __future__ import annotations

import msgspec

from agent.actions import EndTurn
from agent.configuration import Configuration, as_json
from agent.decide import stopped
from agent.draft import Draft
from agent.stage import Stage
from agent.tool_calls import answer_calls
from agent.workspaces import Place
from ledger.errors import UsageError
from ledger.events import runs
from ledger.ids import id_text, new_id
from ledger.wire.conversation import Message, Text, message_bytes


def start_turn(stage: Stage, prompt: str | None, configuration: Configuration, place: Place) -> None:
    """Begin a turn with a prompt; without one go on with the turn that is open, or take up the one that ended early.

    Where the last turn has its answer, nothing is begun: its process may have died before it showed it.
    Raises UsageError where there is nothing to go on with.
    """
    state = stage.run.state
    turn, continues = state.open_turn, ""
    if prompt is None:
        if turn is not None and (turn.stop is None or state.answered):
            stage.run.commit(lambda: _inputs(stage, stage.run.draft(), configuration))
            return
        if turn is None and state.answered:
            return
        continues = _left_off(stage)
    turn_id, grant = id_text(new_id()), id_text(new_id())

    def make() -> Draft:
        draft = Draft(stage.run.session_id)
        if state.opened is None:
            draft.add(runs.SessionOpened(folder=place.folder, root=place.root, branch=place.branch))
        if turn is not None:  # a new prompt leaves it, or it was stopped and its process died before it said so
            draft.turn = turn.id
            answer_calls(stage, draft, state.pending_calls)
            end = stopped(turn.stop) if turn.stop is not None else EndTurn("interrupted", "left")
            draft.add(runs.TurnEnded(outcome=end.outcome, reason=end.reason))
        draft.turn = turn_id
        draft.add(runs.TurnStarted(number=state.turns + 1, grant=grant, continues=continues))
        _inputs(stage, draft, configuration)
        if prompt is not None:
            _say(stage, draft, prompt)
        draft.others = stage.hub.open_grant(grant, configuration.limits, turn=turn_id)
        return draft

    stage.run.commit(make)


def _left_off(stage: Stage) -> str:
    """Return the turn that has no answer. Raises UsageError where there is none."""
    turn = stage.run.state.turn
    if turn is None:
        raise UsageError(f"session {stage.run.session_id}: has no turn to go on with: give a prompt")
    return turn.id


def _inputs(stage: Stage, draft: Draft, configuration: Configuration) -> Draft:
    """Add what decisions and requests depend on, as far as it is another than before."""
    state = stage.run.state
    if configuration != state.configuration:
        draft.add(runs.InputReceived(what="configuration", values=msgspec.Raw(as_json(configuration))))
    system = draft.keep(stage.system)
    if system != state.system:
        draft.add(runs.InputReceived(what="prompt", blob=system))
    tools = draft.keep(msgspec.json.encode(stage.schemas))
    if tools != state.tools:
        draft.add(runs.InputReceived(what="tools", blob=tools))
    draft.drop_kept()
    return draft


def _say(stage: Stage, draft: Draft, prompt: str) -> None:
    message = Message("user", (Text(stage.masker(prompt)),))
    content = message_bytes(message)
    blob = draft.keep(content)
    stage.conversation.learn(blob, message)
    draft.add(runs.MessageAdded(role="user", blob=blob, size_bytes=len(content)))
