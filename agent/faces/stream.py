"""The face for programs that follow a run: one JSON object a line. docs/stream-json.md has the schema."""

from __future__ import annotations

import json
from typing import Any

from agent.faces.face import Beginning, Face, posture
from agent.faces.json_face import json_line
from agent.state import Place
from ledger.events import runs
from ledger.wire.protocols import Delta

SCHEMA = 1
"""The version of the lines. A new field does not change it; anything else does."""
_STATUS = {
    runs.RequestAnswered: "succeeded",
    runs.RequestFailed: "failed",
    runs.RequestCut: "cut",
    runs.RequestCancelled: "cancelled",
    runs.RequestLost: "lost",
}


class StreamFace(Face):
    """Prints `init text tool_begun tool_ended request_begun request_ended retry fallback usage result` lines.

    The last line is `result`, whatever happened.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tools: dict[str, runs.ToolCalled] = {}
        self._span = ""

    def _put(self, type_: str, **fields: Any) -> None:
        self.out.put(json_line({"type": type_, **fields}))

    def show_begin(self, beginning: Beginning) -> None:
        """Print `init`."""
        self._put("init", schema=SCHEMA, session=beginning.session, resumed=beginning.resumed, model=beginning.model,
                  workspace=beginning.workspace, approval=beginning.configuration.approval, can_ask=beginning.can_ask,
                  posture=posture(beginning))  # fmt: skip

    def delta(self, delta: Delta) -> None:
        """Print `text`."""
        if delta.kind == "text":
            self._put("text", span=self._span, text=delta.text)

    def show_event(self, place: Place, body: Any) -> None:
        """Print what has a line of its own."""
        where = {"turn": place.turn, "span": place.span}
        if isinstance(body, runs.RequestSent):
            self._span = place.span
            self._put("request_begun", **where, call=body.call, attempt=body.attempt, kind=body.kind,
                      provider=body.provider, model=body.model)  # fmt: skip
        elif isinstance(body, runs.RequestEnd):
            self._put("request_ended", **where, status=_STATUS[type(body)], reason=body.reason or None,
                      http_status=body.status or None, model=body.model or None, error=self.texts(body.error) or None,
                      ttft_ms=_ms(body.ttft_us), ran_ms=_ms(body.ran_us),
                      usage=[json.loads(bytes(one)) for one in body.usage])  # fmt: skip
        elif isinstance(body, runs.RetryScheduled):
            self._put("retry", **where, reason=body.reason, delay_ms=_ms(body.delay_us))
        elif isinstance(body, runs.FallbackTaken):
            self._put("fallback", **where, before=body.before, after=body.after, reason=body.reason)
        elif isinstance(body, runs.ToolCalled):
            self._tools[place.span] = body
            self._put("tool_begun", **where, tool=body.tool, call=body.call, arguments=self.texts(body.arguments))
        elif isinstance(body, runs.ToolReturned):
            called = self._tools.pop(place.span, None)
            self._put("tool_ended", **where, tool=called.tool if called else "", call=called.call if called else "",
                      status=body.status, result=self.texts(body.result), truncated=body.truncated,
                      exit_code=body.exit_code, waited_ms=_ms(body.waited_us), ran_ms=_ms(body.ran_us))  # fmt: skip

    def result(self, result: dict[str, Any]) -> None:
        """Print `usage` and `result`."""
        self._put("usage", total_usage=result["usage"], cost_usd=result["cost_usd"])
        self._put("result", **result, total_usage=result["usage"])


def _ms(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds // 1000
