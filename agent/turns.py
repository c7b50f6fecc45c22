"""How a turn begins: a prompt, or going on where the last one stopped."""

from __future__ import annotations

import msgspec

from agent.configuration import Configuration, as_json
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

    Raises UsageError where there is nothing to go on with.
    """
    state = stage.run.state
    if prompt is None and state.open_turn is not None:
        stage.run.commit(lambda: _inputs(stage, stage.run.draft(), configuration))
        return
    continues = ""
    if prompt is None:
        continues = _left_off(stage)
    turn_id, grant = id_text(new_id()), id_text(new_id())

    def make() -> Draft:
        draft = Draft(stage.run.session_id)
        if state.opened is None:
            draft.add(runs.SessionOpened(folder=place.folder, root=place.root, branch=place.branch))
        if state.open_turn is not None:  # a new prompt leaves it
            draft.turn = state.open_turn.id
            answer_calls(stage, draft, state.pending_calls)
            draft.add(runs.TurnEnded(outcome="interrupted", reason="left"))
        draft.turn = turn_id
        draft.add(runs.TurnStarted(number=state.turns + 1, grant=grant, continues=continues))
        _inputs(stage, draft, configuration)
        if prompt is not None:
            _say(stage, draft, prompt)
        draft.others = stage.hub.open_grant(grant, configuration.limits, turn=turn_id)
        return draft

    stage.run.commit(make)


def _left_off(stage: Stage) -> str:
    """Return the turn that ended before its answer. Raises UsageError where none did."""
    state = stage.run.state
    turn = state.turn
    if turn is None or turn.ended is None or not state.messages or state.messages[-1].role == "assistant":
        raise UsageError(f"session {stage.run.session_id}: its last turn has its answer: give a prompt")
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
