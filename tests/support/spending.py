"""Requests as a run commits them: the intent with its reservation, the end with its settlement."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.budget.bound import Bound
from ledger.budget.ceilings import Refusal
from ledger.budget.reserve import Hub, append_with
from ledger.events.envelope import NewEvent
from ledger.events.hubs import Limits
from ledger.events.runs import RequestAnswered, RequestLost, RequestSent, SessionOpened, TurnStarted
from ledger.ids import new_id
from ledger.log.log import Log, StreamAppend

NOW = 1_796_000_000_000_000
"""2026-11-30 in microseconds."""


class Run:
    """One run of a session: its stream, and the session's hub as this run sees it."""

    def __init__(self, log: Log, session: str, name: str = "") -> None:
        self.log, self.hub = log, Hub(log, session)
        self.session, self.stream = session, f"run:{name or session}"
        self.version = log.stream_version(self.stream)

    def open(self, grant: str, limits: Limits) -> None:
        """Begin a root turn with these limits."""
        opened = [] if self.version else [SessionOpened(folder="/home/ada/work")]
        self._commit([*opened, TurnStarted(number=1, grant=grant)], None, lambda: self.hub.open_grant(grant, limits))

    def send(self, grant: str, span: str, wanted: Bound, now_us: int = NOW) -> Refusal | None:
        """Commit a request's intent; return the refusal where it may not leave."""
        sent = RequestSent(
            call=1, attempt=1, provider="p", model="m", protocol="openai-chat", endpoint="https://p/chat/completions",
            context=0, body_sha256="", body_bytes=0,
        )  # fmt: skip
        return self._commit([sent], span, lambda: self.hub.reserve(grant, span, wanted, now_us))

    def end(self, span: str, tokens: int | None, cost_nanousd: int | None, quote: str = "") -> None:
        """Commit a request's end, with what it used: all of it input."""
        body: Any = RequestLost()
        if tokens is not None:
            usage = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
            frame = msgspec.Raw(msgspec.json.encode({"at": "usage", "usage": usage}))
            body = RequestAnswered(status=200, protocol="openai-chat", usage=[frame], quote=quote)
        self._commit([body], span, lambda: self.hub.settle(span, tokens=tokens, cost_nanousd=cost_nanousd))

    def _commit(self, bodies: list[Any], span: str | None, of_hub: Any) -> Refusal | None:
        events = [NewEvent(body=one, event_id=new_id(), session_id=self.session, turn="t", span=span) for one in bodies]

        def make() -> list[StreamAppend] | Refusal:
            hubs = of_hub()
            return hubs if isinstance(hubs, Refusal) else [StreamAppend(self.stream, self.version, events), *hubs]

        done = append_with(self.log, make)
        if isinstance(done, Refusal):
            return done
        self.version += len(events)
        return None
