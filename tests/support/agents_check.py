"""What must hold of a log and of what the endpoint saw, when the runs of a world have ended: every request is a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec
from agents import World

from agent.result import result
from agent.state import Place, State
from ledger.accounts.catchup import snapshot
from ledger.budget.reserve import Hub
from ledger.events import runs
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.invariants import check
from ledger.log.log import Log
from ledger.wire.conversation import Parameters, ToolSchema, Window, message_of
from ledger.wire.protocols import protocol
from ledger.wire.takes import takes


class Told:
    """One run's stream, read from its beginning."""

    def __init__(self, session: str) -> None:
        self.session, self.state = session, State()
        self.sent: dict[str, runs.RequestSent] = {}
        self.ends: dict[str, runs.RequestEnd] = {}
        self.bodies: dict[str, str] = {}
        """Span -> sha256 of the bytes of its request, made again from the log."""
        self.calls: Counter[str] = Counter()
        """Call -> how often it was begun."""

    def take(self, log: Log, event: Event, body: Any) -> None:
        """Take in the next event."""
        span = event.span or ""
        self.state.take(Place(event.version, event.turn or "", span), body)
        if isinstance(body, runs.RequestSent):
            self.sent[span] = body
            self.bodies[span] = sha256(_made_again(log, self.state, body)).hexdigest()
        elif isinstance(body, runs.RequestEnd):
            self.ends[span] = body
        elif isinstance(body, runs.ToolCalled):
            self.calls[body.call] += 1


def _made_again(log: Log, state: State, sent: runs.RequestSent) -> bytes:
    """Return the bytes of a request from what the log keeps of it."""

    def text(name: str) -> bytes:
        content = log.blob(bytes.fromhex(name))
        assert content is not None
        return content

    assert state.shown.version == sent.context
    parameters = msgspec.json.decode(sent.parameters, type=Parameters)
    window = Window(
        text(state.shown.system).decode(),
        [message_of(text(name)) for name in state.shown.messages],
        msgspec.json.decode(text(state.shown.tools), type=list[ToolSchema]),
    )
    taken = takes(sent.provider, sent.model, sent.protocol, None)
    taken = taken._replace(max_output_tokens=parameters.max_output_tokens)
    return protocol(sent.protocol).body(sent.model, window, parameters, takes=taken)


def told(log: Log) -> list[Told]:
    """Read all runs of a log that have a turn."""
    found: dict[str, Told] = {}
    for event in log.all_events():
        if event.stream_id.startswith("run:"):
            one = found.setdefault(event.stream_id, Told(event.session_id or ""))
            one.take(log, event, decode(event.type, event.schema, event.data))
    return [one for one in found.values() if one.state.turn is not None]


def wrong(world: World, *, answer: str = "", full: bool = True) -> list[str]:
    """Return what does not hold of a world whose runs have ended, in words; the answer is the text of the last step."""
    seen = world.seen()
    with world.open() as log:
        sessions = told(log)
        return [
            *(f"invariant {one.name}: {one.found[:3]}" for one in check(log, full=full) if not one.ok),
            *(f"the endpoint answered {one['status']}: {one}" for one in seen if one["status"] in (400, 422)),
            *_unmatched(seen, sessions),
            *(text for one in sessions for text in _wrong_session(log, one, answer)),
        ]


def _unmatched(seen: list[dict[str, Any]], sessions: list[Told]) -> Iterator[str]:
    """Yield requests without a row, and rows without a request that were not lost before they left."""
    left = Counter(one["sha256"] for one in seen)
    by_id = {one["request_id"]: one for one in seen}
    lost: Counter[str] = Counter()
    for session in sessions:
        for span, sent in session.sent.items():
            end = session.ends.get(span)
            if session.bodies[span] != sent.body_sha256:
                yield f"the bytes of {span} cannot be made again"
            if isinstance(end, runs.RequestLost | runs.RequestCancelled) and not end.request_id:
                lost[sent.body_sha256] += 1
                continue
            request = by_id.pop(end.request_id, None) if end is not None and end.request_id else None
            if request is None:
                yield f"the row {span} ({type(end).__name__}) is of no request that the endpoint saw"
            elif (request["sha256"], request["status"]) != (sent.body_sha256, end.status if end else None):
                yield f"the row {span} is not the request {request}"
            left[sent.body_sha256] -= 1
    for body, count in left.items():
        if count < 0 or count > lost[body]:
            yield f"the endpoint saw {count} requests {body} that have no row, and {lost[body]} rows have no end"


def _wrong_session(log: Log, session: Told, answer: str) -> Iterator[str]:
    state, name = session.state, session.session
    if set(session.sent) != set(session.ends):
        yield f"{name}: requests without an end: {set(session.sent) ^ set(session.ends)}"
    held = Hub(log, name).state.held
    if held:
        yield f"{name}: reservations are open: {held}"
    yield from (f"{name}: call {call} ran {count} times" for call, count in session.calls.items() if count > 1)
    yield from _wrong_conversation(session)
    if answer:
        last = message_of(log.blob(bytes.fromhex(state.messages[-1].blob)) or b"")
        if (last.role, last.text, last.calls) != ("assistant", answer, ()):
            yield f"{name}: the last word is {last}"
        if state.turn is None or state.turn.ended is None or state.turn.ended.outcome != "ok":
            yield f"{name}: the last turn has not ended well"
    yield from _wrong_account(log, session)


def _wrong_conversation(session: Told) -> Iterator[str]:
    """Yield where calls and results do not stand in order, each once, the results right behind their calls."""
    waiting: list[str] = []
    for message in session.state.messages:
        if message.role == "tool":
            if not waiting or waiting.pop(0) != message.answers:
                yield f"{session.session}: a result for {message.answers} out of place"
        elif waiting:
            yield f"{session.session}: {waiting} have no result"
        if message.role == "assistant":
            waiting = [call.id for call in message.calls]
    ids = [call.id for message in session.state.messages for call in message.calls]
    if len(set(ids)) != len(ids):
        yield f"{session.session}: two calls have one id"


def _wrong_account(log: Log, session: Told) -> Iterator[str]:
    """Yield where the account of a session differs from the sum of what the provider reported, response by response."""
    with snapshot(log) as view:
        usage = result(view, session.session, "", outcome="", reason="", response="", error="")["usage"]
    ends = session.ends.values()
    answered = [end for end in ends if isinstance(end, runs.RequestAnswered)]
    prompt, completion = (sum(part) for part in zip((0, 0), *(_reported(end) for end in ends), strict=True))
    retries = sum(sent.kind == "retry" for sent in session.sent.values())
    found = [usage[name] for name in ("requests", "succeeded", "retries", "prompt_tokens", "completion_tokens")]
    wanted = [len(session.sent), len(answered), retries, prompt, completion]
    if found != wanted:
        yield f"{session.session}: the account says {found}, the rows {wanted}"
    ids = [end.response_id for end in ends if end.response_id]
    if len(set(ids)) != len(ids):
        yield f"{session.session}: a response has two rows"


def _reported(end: runs.RequestEnd) -> tuple[int, int]:
    """Return (input, output) tokens that the frames of a response report, by the rules of both protocols."""
    prompt = completion = 0
    for frame in end.usage:
        usage = msgspec.json.decode(frame)["usage"]
        if "prompt_tokens" in usage:
            prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
        elif "input_tokens" in usage:
            kinds = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            prompt, completion = sum(usage.get(kind) or 0 for kind in kinds), usage.get("output_tokens") or completion
        else:
            completion = usage.get("output_tokens") or completion
    return prompt, completion
