"""The effect of one request: its intent with its reservation, the exchange, its end with the settlement."""

from __future__ import annotations

import time
from typing import NamedTuple

import anyio
import msgspec

from agent.actions import CallModel
from agent.configuration import Target
from agent.draft import Draft
from agent.holds import held_us
from agent.stage import Stage
from ledger import faults
from ledger.budget.bound import Bound, bound
from ledger.budget.ceilings import Refusal
from ledger.errors import UsageError
from ledger.events import runs
from ledger.ids import id_text, new_id
from ledger.prices.quote import Quote
from ledger.wire.conversation import Call, Message, Opaque, Parameters, Result, Text, Window, message_bytes
from ledger.wire.exchange import Exchange, Limits, Outgoing, exchange
from ledger.wire.protocols import protocol
from ledger.wire.takes import takes

_ENDS: dict[str, type[runs.RequestEnd]] = {
    "answered": runs.RequestAnswered,
    "failed": runs.RequestFailed,
    "cut": runs.RequestCut,
    "cancelled": runs.RequestCancelled,
}
_SHORTER = (16_000, 8_000, 4_000, 2_000)
"""Output limits (tokens) that are tried where a ceiling has no room for more; less is no answer worth paying for."""
_HELPED = ("tokens", "cost", "session_cost", "month_cost")
"""Ceilings under which a shorter answer may fit."""
_TOTAL_S = 3600
"""A response may take long, but not for ever."""


class Prepared(NamedTuple):
    """A request that is ready to leave."""

    span: str
    target: Target
    outgoing: Outgoing
    parameters: Parameters
    context: runs.ContextAssembled | None
    """What it shows, where that is not what the one before showed."""
    quote: Quote | None
    bound: Bound


async def call_model(stage: Stage, action: CallModel) -> None:
    """Make one attempt of a logical call. A ceiling or a missing key refuses it before anything leaves."""
    waited_us = await _backoff(stage, action)
    if stage.stops.reason:
        return
    try:
        prepared = _prepare(stage, action)
    except UsageError as error:
        _refuse(stage, "key", "no_key", str(error))
        return
    refused = _commit_intent(stage, action, prepared, waited_us)
    if refused is not None:
        _refuse(stage, "budget", refused.code, refused.text)
        return
    faults.point("effect:request")
    done = Exchange()
    with stage.stops.effect():
        await exchange(
            stage.client(), prepared.outgoing, protocol(prepared.target.protocol), done,
            on_delta=stage.on_delta, limits=_limits(stage), clock=time.monotonic_ns,
        )  # fmt: skip
    faults.point("effect:response")
    _commit_end(stage, prepared, done)


async def _backoff(stage: Stage, action: CallModel) -> int:
    """Wait until an attempt may leave; return how long the call has waited then (microseconds).

    A retry waits for its own time, and every attempt for the end of a pause that the endpoint asked of anybody.
    """
    own = max(0, min(action.not_before - stage.clock(), action.delay_us)) if action.not_before else 0
    left = max(own, held_us(stage.run.log, action.target, stage.clock()) if not action.not_before else 0)
    if not action.not_before and not left:
        return 0
    began = time.monotonic_ns()
    with stage.stops.effect():
        await anyio.sleep(left / 1e6)
    return action.delay_us - own + (time.monotonic_ns() - began) // 1000


def _prepare(stage: Stage, action: CallModel) -> Prepared:
    """Return the request as it will leave. Raises UsageError where its key is missing.

    Where a ceiling has no room for the longest answer, a shorter one is asked for.
    """
    target = action.target
    key, speaks = stage.keys(target), protocol(target.protocol)
    context_window, most = stage.limits(target.provider, target.model)
    window = Window(stage.system, stage.conversation.messages(stage.run.state.messages), stage.schemas)
    quote, context = stage.quote(target.provider, target.model), _context(stage)
    taken = takes(target.provider, target.model, target.protocol, most, context_window)
    span = id_text(new_id())
    for room in (None, *_SHORTER):
        if room is not None:
            taken = taken._replace(max_output_tokens=min(room, taken.max_output_tokens or room))
        parameters = Parameters(
            max_output_tokens=taken.max_output_tokens,
            thinking=stage.configuration.thinking,
            stream=stage.configuration.stream,
        )
        body = speaks.body(target.model, window, parameters, takes=taken)
        wanted = _bound(stage, target, context, quote, body, parameters)
        if _fits(stage, span, wanted):
            break
    outgoing = Outgoing(speaks.url(target.base_url), speaks.headers(key), body, parameters.stream, target.model)
    return Prepared(span, target, outgoing, parameters, context, quote, wanted)


def _bound(
    stage: Stage, target: Target, context: runs.ContextAssembled | None, quote: Quote | None, body: bytes,
    parameters: Parameters,
) -> Bound:  # fmt: skip
    prefix = _reported(stage, target, context, body)
    return bound(
        quote,
        prefix_tokens=prefix[0] if prefix else None,
        new_bytes=len(body) - (prefix[1] if prefix else 0),
        max_output_tokens=parameters.max_output_tokens,
    )


def _fits(stage: Stage, span: str, wanted: Bound) -> bool:
    """Return whether no ceiling is in the way under which a shorter answer may fit. Nothing is reserved yet."""
    turn = stage.run.state.open_turn
    assert turn is not None
    found = stage.hub.reserve(turn.started.grant, span, wanted, stage.clock(), turn=turn.id)
    return not isinstance(found, Refusal) or found.code not in _HELPED


def _context(stage: Stage) -> runs.ContextAssembled | None:
    """Return what the request shows, as the difference to what the last one showed; None where it is the same."""
    state = stage.run.state
    shown, names = state.shown, tuple(one.blob for one in state.messages)
    kept = len(shown.messages)
    if names[:kept] != shown.messages:
        kept = next(number for number, (a, b) in enumerate(zip(names, shown.messages, strict=False)) if a != b)
    same = (shown.system, shown.tools) == (state.system, state.tools)
    if shown.version and same and kept == len(names) == len(shown.messages):
        return None
    return runs.ContextAssembled(
        base=shown.version, kept=kept, added=list(names[kept:]),
        system="" if state.system == shown.system else state.system,
        tools="" if state.tools == shown.tools else state.tools,
        tools_bytes=len(msgspec.json.encode(stage.schemas)),
    )  # fmt: skip


def _reported(
    stage: Stage, target: Target, context: runs.ContextAssembled | None, body: bytes
) -> tuple[int, int] | None:
    """Return (tokens, bytes) of the last answered request, where this one begins with all that it showed."""
    last = stage.last_report
    if last is None or last.target != target or last.body_bytes > len(body):
        return None
    state = stage.run.state
    if last.version != state.shown.version or (context is not None and context.kept < len(state.shown.messages)):
        return None
    if context is not None and (context.system or context.tools):
        return None
    return last.tokens, last.body_bytes


def _commit_intent(stage: Stage, action: CallModel, prepared: Prepared, waited_us: int) -> Refusal | None:
    """Commit that the request leaves together with its reservation; return the ceiling where there is no room."""
    refused: list[Refusal] = []
    turn = stage.run.state.open_turn
    assert turn is not None
    if prepared.quote is not None:
        stage.record(prepared.quote)

    def make() -> Draft:
        draft = stage.run.draft()
        refused.clear()
        appends = stage.hub.reserve(turn.started.grant, prepared.span, prepared.bound, stage.clock(), turn=turn.id)
        if isinstance(appends, Refusal):
            refused.append(appends)
            return draft
        if prepared.context is not None:
            draft.add(prepared.context)
        version = stage.run.state.version + 1 if prepared.context is not None else stage.run.state.shown.version
        draft.add(_sent(action, prepared, version, waited_us), span=prepared.span)
        draft.others = appends
        return draft

    stage.run.commit(make)
    return refused[0] if refused else None


def _sent(action: CallModel, prepared: Prepared, context: int, waited_us: int) -> runs.RequestSent:
    import hashlib

    target, outgoing = prepared.target, prepared.outgoing
    return runs.RequestSent(
        call=action.call, attempt=action.attempt, kind=action.kind, provider=target.provider, model=target.model,
        protocol=target.protocol, endpoint=outgoing.url, context=context,
        parameters=msgspec.Raw(msgspec.json.encode(prepared.parameters)),
        body_sha256=hashlib.sha256(outgoing.body).hexdigest(), body_bytes=len(outgoing.body),
        stream=prepared.parameters.stream, waited_us=waited_us,
        quote=prepared.quote.name if prepared.quote else "",
    )  # fmt: skip


def _refuse(stage: Stage, gate: str, rule: str, text: str) -> None:
    def make() -> Draft:
        draft = stage.run.draft()
        said = draft.keep(stage.masker(text))
        draft.add(runs.GateRefused(gate=gate, rule=rule, reason="refused", text=said))
        return draft

    stage.run.commit(make)


def _limits(stage: Stage) -> Limits:
    idle_s = stage.configuration.request_timeout_s
    return Limits(connect_s=min(idle_s, 30), idle_s=idle_s, total_s=max(_TOTAL_S, idle_s))


def _commit_end(stage: Stage, prepared: Prepared, done: Exchange) -> None:
    """Commit how the request ended, what it said, and the settlement of its reservation."""
    answer, target = done.answer, prepared.target
    outcome = done.outcome or "cancelled"
    asked = answer.model if answer and answer.model else target.model
    quote = stage.quote(target.provider, asked) or prepared.quote
    if quote is not None:
        stage.record(quote)
    message = _stored(stage, answer.message) if answer and answer.message is not None else None
    if message is None and outcome == "answered":
        message = Message("assistant", ())
    usage = [msgspec.Raw(msgspec.json.encode(frame)) for frame in answer.usage] if answer else []

    def make() -> Draft:
        draft = stage.run.draft()
        error = draft.keep(stage.masker(done.error))
        raw = draft.keep(stage.masker(done.raw))
        end = _ENDS[outcome](
            status=done.status, reason=done.reason or (stage.stops.reason if outcome == "cancelled" else ""),
            request_id=done.request_id, response_id=answer.response_id if answer else "",
            model=answer.model if answer else "", tier=answer.tier if answer else "", protocol=target.protocol,
            usage=usage, quote=quote.name if quote else "", raw=raw, error=error, ttft_us=done.ttft_us,
            ran_us=done.ran_us, retry_after_us=done.retry_after_us, retryable=done.retryable, unbilled=done.unbilled,
        )  # fmt: skip
        draft.add(end, span=prepared.span)
        if message is not None:
            _add(stage, draft, message, partial=outcome != "answered")
        tokens, cost = stage.settlement(end, target, quote, len(prepared.outgoing.body))
        draft.others = stage.hub.settle(prepared.span, tokens=tokens, cost_nanousd=cost, turn=draft.turn)
        return draft

    stage.run.commit(make)


def _add(stage: Stage, draft: Draft, message: Message, *, partial: bool) -> None:
    content = message_bytes(message)
    blob = draft.keep(content)
    stage.conversation.learn(blob, message)
    calls = [runs.CallReference(call.id, call.name) for call in message.calls]
    draft.add(runs.MessageAdded(role="assistant", blob=blob, size_bytes=len(content), calls=calls, partial=partial))


def _stored(stage: Stage, message: Message) -> Message:
    """Return an answer as it is kept and sent back: secrets masked, and every call under an id of its own."""
    taken = set(stage.run.state.call_ids)
    parts: list[Text | Call | Result | Opaque] = []
    for part in message.parts:
        if isinstance(part, Text):
            parts.append(Text(stage.masker(part.text)))
        elif isinstance(part, Call):
            name, number = part.id or "call", 2
            while name in taken:
                name, number = f"{part.id or 'call'}_{number}", number + 1
            taken.add(name)
            parts.append(Call(name, part.name, stage.masker(part.arguments)))
        else:
            parts.append(part)
    return Message(message.role, tuple(parts))
