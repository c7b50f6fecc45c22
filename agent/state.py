"""The state of a run: a fold over its own stream. Pure; what it needs from outside is an event of that stream first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from agent.configuration import Configuration, of_json
from ledger.events import runs
from ledger.events.envelope import Event
from ledger.events.registry import decode


class Place(NamedTuple):
    """Where an event stands: its version in the stream, and the turn and span it belongs to, empty for none."""

    version: int
    turn: str = ""
    span: str = ""


class MessageReference(NamedTuple):
    """A message of the conversation: what decisions need of it, and the name of its text."""

    blob: str
    role: str
    calls: tuple[runs.CallReference, ...]
    answers: str


class Attempt(NamedTuple):
    """One request of the logical call that is being made, and how it ended."""

    span: str
    sent: runs.RequestSent
    end: runs.RequestEnd | None


class ToolRun(NamedTuple):
    """A tool call that began, and how it ended."""

    span: str
    called: runs.ToolCalled
    returned: runs.ToolReturned | None


class Turn:
    """The turn that is open, or the last one."""

    def __init__(self, turn_id: str, started: runs.TurnStarted) -> None:
        self.id, self.started = turn_id, started
        self.ended: runs.TurnEnded | None = None
        self.answered = 0
        """How many logical calls were answered."""
        self.call = 0
        """The number of the logical call that is being made, or was made last."""
        self.attempts: list[Attempt] = []
        """Its attempts; empty when it was answered."""
        self.retry: runs.RetryScheduled | None = None
        """The wait that stands before the next attempt."""
        self.fallback: runs.FallbackTaken | None = None
        self.refused: runs.GateRefused | None = None
        """Why the next request may not leave: a ceiling, or a key that is not there."""
        self.stop: runs.InputReceived | None = None
        """Who asked to stop."""


class Shown(NamedTuple):
    """What the newest `context.assembled` shows."""

    version: int
    messages: tuple[str, ...]
    system: str
    tools: str


class State:
    """Everything that `decide` looks at. `apply` is the fold."""

    def __init__(self) -> None:
        self.version = 0
        """Of the stream's newest event."""
        self.claim: runs.RunClaimed | None = None
        self.released = False
        self.opened: runs.SessionOpened | None = None
        self.configuration: Configuration | None = None
        self.system = ""
        """sha256 of the system prompt."""
        self.tools = ""
        """sha256 of the JSON list of tool schemas."""
        self.messages: list[MessageReference] = []
        """The conversation, in order; what a cut stream left is not a part of it."""
        self.call_ids: set[str] = set()
        """The ids of all tool calls of the conversation."""
        self.turns = 0
        self.turn: Turn | None = None
        self.shown = Shown(0, (), "", "")
        self.tool_runs: dict[str, ToolRun] = {}
        """Of the newest assistant message: call id -> its run."""
        self.open_tools: dict[str, ToolRun] = {}
        """Spans of tools that began and did not end."""
        self.questions: dict[str, runs.ApprovalAsked] = {}
        """Approvals that were asked and not answered, by span."""
        self.allowed: set[tuple[str, str]] = set()
        """(tool, sha256 of what was shown) that the user allowed for the session."""

    @property
    def open_turn(self) -> Turn | None:
        """The turn that began and did not end."""
        return self.turn if self.turn is not None and self.turn.ended is None else None

    @property
    def open_request(self) -> Attempt | None:
        """The request that was sent and did not end."""
        turn = self.turn
        return turn.attempts[-1] if turn and turn.attempts and turn.attempts[-1].end is None else None

    @property
    def answered(self) -> bool:
        """Whether the last word is the model's, and calls for no tool."""
        return bool(self.messages) and self.messages[-1].role == "assistant" and not self.messages[-1].calls

    @property
    def pending_calls(self) -> tuple[runs.CallReference, ...]:
        """The tool calls of the newest assistant message that have no tool message yet, in order."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message.role == "tool":
                answered.add(message.answers)
            else:
                return tuple(call for call in message.calls if call.id not in answered)
        return ()

    def take(self, place: Place, body: Any) -> None:
        """Take in the next event of the stream."""
        _APPLY.get(type(body), _nothing)(self, place, body)
        self.version = place.version


def fold(events: Iterable[Event], state: State | None = None) -> State:
    """Return the state after these events of one stream, in order.

    Raises LogTooNew for an event that this program does not know.
    """
    state = state or State()
    for event in events:
        body = decode(event.type, event.schema, event.data)
        state.take(Place(event.version, event.turn or "", event.span or ""), body)
    return state


def _nothing(state: State, place: Place, body: Any) -> None:
    """What changes nothing that decisions look at."""


def _claimed(state: State, place: Place, body: runs.RunClaimed) -> None:
    state.claim, state.released = body, False


def _released(state: State, place: Place, body: runs.RunReleased) -> None:
    state.released = True


def _opened(state: State, place: Place, body: runs.SessionOpened) -> None:
    state.opened = body


def _input(state: State, place: Place, body: runs.InputReceived) -> None:
    if body.what == "configuration":
        state.configuration = of_json(body.values)
    elif body.what == "prompt":
        state.system = body.blob
    elif body.what == "tools":
        state.tools = body.blob
    elif body.what == "stop" and state.open_turn is not None:
        state.open_turn.stop = body


def _turn_started(state: State, place: Place, body: runs.TurnStarted) -> None:
    state.turns = body.number
    state.turn = Turn(place.turn, body)


def _turn_ended(state: State, place: Place, body: runs.TurnEnded) -> None:
    if state.turn is not None:
        state.turn.ended = body


def _message(state: State, place: Place, body: runs.MessageAdded) -> None:
    if body.partial:
        return
    state.messages.append(MessageReference(body.blob, body.role, tuple(body.calls), body.answers))
    if body.role == "assistant":
        state.tool_runs = {}
        state.call_ids.update(call.id for call in body.calls)


def _assembled(state: State, place: Place, body: runs.ContextAssembled) -> None:
    before = state.shown
    kept = before.messages[: body.kept] if body.base == before.version else ()
    state.shown = Shown(place.version, (*kept, *body.added), body.system or before.system, body.tools or before.tools)


def _sent(state: State, place: Place, body: runs.RequestSent) -> None:
    turn = state.turn
    if turn is None:
        return
    if body.call != turn.call:
        turn.call, turn.attempts = body.call, []
    turn.attempts.append(Attempt(place.span, body, None))
    turn.retry = turn.refused = None


def _ended(state: State, place: Place, body: runs.RequestEnd) -> None:
    turn = state.turn
    if turn is None:
        return
    turn.attempts = [one._replace(end=body) if one.span == place.span else one for one in turn.attempts]
    if isinstance(body, runs.RequestAnswered):
        turn.answered += 1


def _retry(state: State, place: Place, body: runs.RetryScheduled) -> None:
    if state.turn is not None:
        state.turn.retry = body


def _fallback(state: State, place: Place, body: runs.FallbackTaken) -> None:
    if state.turn is not None:
        state.turn.fallback = body


def _refused(state: State, place: Place, body: runs.GateRefused) -> None:
    if state.turn is not None and not body.call:  # not one tool's call, but a request
        state.turn.refused = body


def _tool_called(state: State, place: Place, body: runs.ToolCalled) -> None:
    run = ToolRun(place.span, body, None)
    state.tool_runs[body.call] = state.open_tools[run.span] = run


def _tool_returned(state: State, place: Place, body: runs.ToolReturned) -> None:
    run = state.open_tools.pop(place.span, None)
    if run is not None:
        state.tool_runs[run.called.call] = run._replace(returned=body)


def _asked(state: State, place: Place, body: runs.ApprovalAsked) -> None:
    state.questions[place.span] = body


def _answered(state: State, place: Place, body: runs.ApprovalAnswered) -> None:
    question = state.questions.pop(place.span, None)
    if question is not None and body.answer == "allowed" and body.scope == "session":
        state.allowed.add((question.tool, question.what))


_APPLY: dict[type, Callable[[State, Place, Any], None]] = {
    runs.RunClaimed: _claimed,
    runs.RunReleased: _released,
    runs.SessionOpened: _opened,
    runs.InputReceived: _input,
    runs.TurnStarted: _turn_started,
    runs.TurnEnded: _turn_ended,
    runs.MessageAdded: _message,
    runs.ContextAssembled: _assembled,
    runs.RequestSent: _sent,
    runs.RequestAnswered: _ended,
    runs.RequestFailed: _ended,
    runs.RequestCut: _ended,
    runs.RequestCancelled: _ended,
    runs.RequestLost: _ended,
    runs.RetryScheduled: _retry,
    runs.FallbackTaken: _fallback,
    runs.GateRefused: _refused,
    runs.ToolCalled: _tool_called,
    runs.ToolReturned: _tool_returned,
    runs.ApprovalAsked: _asked,
    runs.ApprovalAnswered: _answered,
}
