"""A run: its stream, its claim, its state. The one place that appends to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.draft import Draft
from agent.state import Place, State, fold
from ledger import faults
from ledger.errors import LedgerError, VersionConflict
from ledger.log.log import Log, StreamAppend

Observer = Callable[[Place, Any], None]
"""Told of every event of the run after its commit: (place, body)."""


class Fenced(LedgerError):
    """Another process took the run over: this one stops without another effect."""


class Run:
    """One run, while this process holds its claim. Not shared between threads."""

    def __init__(self, log: Log, session_id: str, stream_id: str, state: State) -> None:
        self.log, self.session_id, self.stream_id, self.state = log, session_id, stream_id, state
        self.epoch = 0
        """Of this process's claim, 0 before it has one."""
        self.observers: list[Observer] = []

    @classmethod
    def load(cls, log: Log, session_id: str) -> Run:
        """Fold the root run of a session from the log. A session that is not there has version 0."""
        stream_id = f"run:{session_id}"
        return cls(log, session_id, stream_id, fold(_stream(log, stream_id, 0)))

    def draft(self) -> Draft:
        """Return an empty draft in the open turn."""
        turn = self.state.open_turn
        return Draft(self.session_id, turn.id if turn else "")

    def commit(self, make: Callable[[], Draft]) -> Draft:
        """Append what `make` returns in one durable transaction, and fold it.

        `make` is asked again where only another stream moved on meanwhile (a hub's ceiling is then decided anew).
        Raises Fenced where another process claimed the run, LogUnavailable, LogReadOnly.
        """
        while True:
            draft = make()
            name = draft.events[0].new.body.__class__.__name__ if draft.events else ""
            faults.point(f"before:{name}")
            own = StreamAppend(self.stream_id, self.state.version, [one.new for one in draft.events])
            try:
                self.log.append([*([own] if draft.events else []), *draft.others], draft.blobs)
            except VersionConflict as conflict:
                if conflict.stream_id == self.stream_id:
                    raise self._fenced(conflict) from conflict
                continue
            faults.point(f"after:{name}")
            for place, body in draft.placed(self.state.version):
                self.state.take(place, body)
                for observer in self.observers:
                    observer(place, body)
            return draft

    def _fenced(self, conflict: VersionConflict) -> LedgerError:
        """Return the error that the news of the stream are."""
        news = fold(_stream(self.log, self.stream_id, 0))
        claim = news.claim
        if claim is None or claim.epoch == self.epoch:
            return conflict
        return Fenced(
            f"session {self.session_id} was taken over by process {claim.pid} on {claim.host}: this one has stopped; "
            "what it had begun is recorded there"
        )


def _stream(log: Log, stream_id: str, after: int) -> Any:
    while page := log.stream_events(stream_id, after):
        yield from page
        after = page[-1].version
