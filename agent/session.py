"""A session from the outside: begin it or find it, take the right to run it, let its turn run, say what it came to."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from anyio.abc import TaskStatus

from agent import leftovers
from agent.approvals import Nobody, approver
from agent.claims import claim, release
from agent.configuration import Configuration
from agent.faces.face import Beginning, Face, Texts
from agent.loop import run_turn
from agent.models import key_of
from agent.prompt import system_prompt
from agent.result import limit_text, result
from agent.run import Run
from agent.secrets import Masker
from agent.stage import Stage
from agent.tools.registry import TOOLS
from agent.tools.tool import ToolContext
from agent.turns import start_turn
from agent.workspaces import Place
from ledger.accounts.catchup import snapshot
from ledger.budget.reserve import Hub
from ledger.events.runs import TurnEnded
from ledger.log.alive import Hold, hold
from ledger.log.log import Log
from ledger.prices.book import Book
from ledger.sources.quotes import recorded_quotes

if TYPE_CHECKING:
    import httpx


_COLLECT = (700, 10, 10)
"""When cycles are collected: as the interpreter does it by itself."""
_PLACE_EVERY_S = 0.2
"""How often a process that took a session over looks for the place of the one that had it."""


class Asked(NamedTuple):
    """What `agent run` was asked for."""

    prompt: str | None
    """None: go on with the turn that is open."""
    session: str
    """Its id."""
    resumed: bool
    """Whether the session is there already."""
    configuration: Configuration
    place: Place
    take_over: bool = False


def run_session(log: Log, asked: Asked, face: Face) -> dict[str, Any]:
    """Run a turn to its end and return the result. Raises UsageError, Held, Fenced, LogUnavailable."""
    session_id = asked.session
    run = Run.load(log, session_id)
    place = hold(log, f"run:{session_id}")
    try:
        hub = Hub(log, session_id)
        claim(run, hub, place, take_over=asked.take_over)
        run.observers.append(face.event)
        configuration = asked.configuration
        stage = _stage(run, hub, asked, face)
        try:
            start_turn(stage, asked.prompt, configuration, asked.place)
            can_ask = not isinstance(stage.approver, Nobody)
            face.out.on_error = lambda: stage.stops.ask("signal")  # nobody reads any more
            beginning = Beginning(session_id, asked.resumed, asked.place.folder, configuration, can_ask)
            anyio.run(_run, stage, place, face, beginning)
        except BaseExceptionGroup as group:  # of the tasks beside the turn, which raise nothing: one error is in it
            raise _first(group) from group
        finally:
            release(run)
    finally:
        place.give_back()
    return outcome(run, face.texts)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _stage(run: Run, hub: Hub, asked: Asked, face: Face) -> Stage:
    configuration, place = asked.configuration, asked.place

    def client() -> httpx.AsyncClient:
        from ledger.wire.exchange import new_client  # httpx takes a tenth of a second to load

        return new_client()

    return Stage(
        run,
        hub,
        client=client,
        system=system_prompt(place.folder, place.branch, configuration.approval),
        schemas=[tool.schema() for tool in TOOLS],
        tools=ToolContext.of(place.folder),
        approver=approver(),
        masker=Masker.of_environment(),
        book=Book.bundled().with_quotes(recorded_quotes(run.log).values()),
        keys=key_of,
        on_delta=face.delta,
    )


async def _run(stage: Stage, place: Hold, face: Face, beginning: Beginning) -> None:
    """Let the turn run, with signals and the deadline of its grant turned into stops."""
    # Commands collect cycles rarely, since they live for a moment. A run lives for hours, and the HTTP library leaves
    # cycles that hold whole request bodies.
    gc.freeze()
    gc.set_threshold(*_COLLECT)

    def leave() -> None:
        face.result(outcome(stage.run, face.texts, left="interrupted"))

    async with _stops(stage, place, leave), _closing(stage):
        face.begin(beginning)  # not before signals are heard: what began to be shown is shown to its end
        await run_turn(stage)


@asynccontextmanager
async def _closing(stage: Stage) -> AsyncIterator[None]:
    """Close the client of a stage at the end, if it was ever made."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await stage.close()


@asynccontextmanager
async def _stops(stage: Stage, place: Hold, on_leaving: Callable[[], None]) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(_signals, stage, on_leaving)
        tasks.start_soon(_deadline, stage)
        tasks.start_soon(_take_place, place)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _signals(stage: Stage, on_leaving: Callable[[], None], *, task_status: TaskStatus[None]) -> None:
    """The first signal stops what runs; the second ends the process, and what it had begun is closed by the next.

    `on_leaving` is called before the second one ends it.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if stage.stops.reason:
                try:
                    leftovers.end(stage.run.state.open_tools)
                    on_leaving()
                finally:
                    os._exit(130)
            stage.stops.ask("user" if number == signal.SIGINT else "signal")


async def _take_place(place: Hold) -> None:
    """Be found alive also after a take-over: the place is free when the process from which it was taken has ended."""
    while not place.try_take():
        await anyio.sleep(_PLACE_EVERY_S)


async def _deadline(stage: Stage) -> None:
    """Stop when the time of the grant is over, counted from its opening, over restarts."""
    turn = stage.run.state.open_turn
    grant = stage.hub.state.grants.get(turn.started.grant) if turn else None
    if grant is not None and grant.limits.wall_us is not None:
        await anyio.sleep(max(0, grant.opened_at + grant.limits.wall_us - stage.clock()) / 1e6)
        stage.stops.ask("deadline")


def outcome(run: Run, texts: Texts, *, left: str = "open") -> dict[str, Any]:
    """Return what the newest turn of a run came to; `left` is its outcome where it has not ended."""
    from ledger.wire.conversation import message_of

    turn = run.state.turn
    ended = turn.ended if turn and turn.ended else TurnEnded(outcome=left)
    last = run.state.messages[-1] if run.state.messages else None
    response = ""
    if last is not None and last.role == "assistant" and ended.outcome == "ok":
        content = run.log.blob(bytes.fromhex(last.blob))
        response = message_of(content).text if content is not None else ""
    error = texts(ended.error)
    if turn and turn.refused is not None and not error:
        error = texts(turn.refused.text)
    error = error or limit_text(ended, run.state.configuration)
    with snapshot(run.log) as view:
        return result(
            view, run.session_id, turn.id if turn else "", outcome=ended.outcome, reason=ended.reason,
            response=response, error=error,
        )  # fmt: skip


def texts_of(log: Log) -> Texts:
    """Return what reads stored texts by their names; an empty text for what is not there."""

    def text(sha256: str) -> str:
        content = log.blob(bytes.fromhex(sha256)) if sha256 else None
        return content.decode("utf-8", "replace") if content is not None else ""

    return text
