"""What must hold of what our own agent did: every effect is begun and ended, every call has its result, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ledger.events import runs
from ledger.events.envelope import Event
from ledger.findings import Finding

_BEGIN = (runs.RequestSent, runs.ToolCalled, runs.ApprovalAsked)
_END = (runs.RequestEnd, runs.ToolReturned, runs.ApprovalAnswered)
Keep = Callable[[Finding], None]


class _Run:
    """One stream, as far as it was read."""

    def __init__(self) -> None:
        self.epoch = 0
        self.turn = ""
        self.open: dict[str, str] = {}
        """Span that began -> the type of the event that began it."""
        self.pending: list[str] = []
        """Calls that wait for their results, in order."""


class Runs:
    """Reads the events of all runs, in any interleaving of the streams. `keep` is told what does not hold."""

    def __init__(self, keep: Keep, before: Callable[[Event], Iterable[tuple[Event, Any]]]) -> None:
        self._keep, self._before = keep, before
        self._runs: dict[str, _Run] = {}

    def take(self, event: Event, body: Any) -> None:
        """Take in an event; one of another kind of stream is passed over."""
        if not event.stream_id.startswith("run:"):
            return
        run = self._runs.get(event.stream_id)
        if run is None:
            run = self._runs[event.stream_id] = _Run()
            for earlier, told in self._before(event):
                self._read(run, earlier, told, lambda finding: None)
        self._read(run, event, body, self._keep)

    def _read(self, run: _Run, event: Event, body: Any, keep: Keep) -> None:
        for wrong in _wrong(run, event, body):
            keep(Finding(wrong, session=event.session_id or "", span=event.span or "", event=event.position,
                         stream=event.stream_id, version=event.version))  # fmt: skip
        if isinstance(body, _BEGIN):
            run.open[event.span or ""] = event.type
        elif isinstance(body, _END):
            run.open.pop(event.span or "", None)
        elif isinstance(body, runs.RunClaimed):
            run.epoch = body.epoch
        elif isinstance(body, runs.TurnStarted):
            run.turn = event.turn or ""
        elif isinstance(body, runs.TurnEnded):
            run.turn = ""
        elif isinstance(body, runs.MessageAdded) and not body.partial:
            if body.role == "tool":
                run.pending = [call for call in run.pending if call != body.answers]
            else:
                run.pending = [call.id for call in body.calls]


def _wrong(run: _Run, event: Event, body: Any) -> Iterator[str]:
    """Yield what an event breaks, in words."""
    span = event.span or ""
    if isinstance(body, _BEGIN) and span in run.open:
        yield "a span begins a second time before it ended"
    elif isinstance(body, _END) and span not in run.open:
        yield "a span ends that is not open: it never began, or ended before"
    elif isinstance(body, runs.RunClaimed) and body.epoch <= run.epoch:
        yield f"a claim of epoch {body.epoch} after one of {run.epoch}"
    elif isinstance(body, runs.RunReleased | runs.TurnEnded) and run.open:
        yield f"{len(run.open)} spans are open where the run rests: {', '.join(sorted(run.open.values()))}"
    elif isinstance(body, runs.TurnStarted) and run.turn:
        yield "a turn begins before the last one ended"
    elif isinstance(body, runs.MessageAdded) and not body.partial:
        yield from _wrong_message(run, body)


def _wrong_message(run: _Run, body: runs.MessageAdded) -> Iterator[str]:
    if body.role != "tool":
        if run.pending:
            yield f"a message of the {body.role} stands before the results of {len(run.pending)} calls"
    elif body.answers not in run.pending:
        yield f"a result for a call that does not wait for one: {body.answers}"
    elif body.answers != run.pending[0]:
        yield f"a result out of the order of the calls: {body.answers} before {run.pending[0]}"
