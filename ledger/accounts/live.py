"""The fold of what our own agent did: a span is begun by one event and ended by another, so nothing is guessed.

Streams of runs keep their order whatever is between, so a row is made when its span begins and changed when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ledger.accounts.booking import Booking, fill_usage
from ledger.accounts.entities import RunRow, RunTurnRow, ToolCallRow
from ledger.accounts.known import Known
from ledger.accounts.live_usage import CLIENT, read, span_id
from ledger.accounts.rows import Dimensions, SpanRow
from ledger.accounts.store import Store, quote_key, session_key
from ledger.events import runs
from ledger.events.envelope import Event
from ledger.ids import row_key

_STATUS_OF_REQUEST = {
    runs.RequestAnswered: "succeeded",
    runs.RequestFailed: "failed",
    runs.RequestCut: "cut",
    runs.RequestCancelled: "cancelled",
    runs.RequestLost: "lost",
}
_STATUS_OF_TOOL = {"ok": "succeeded", "cancelled": "cancelled", "lost": "lost"}
_ENDINGS = ("cut", "cancelled")
_KEPT_MAX = 20_000


Find = Callable[[str], SpanRow | None]
Put = Callable[[SpanRow, SpanRow | None], None]


class Live:
    """Takes in the events of runs. `find` and `put` are how the fold that it is a part of keeps span rows."""

    def __init__(
        self, store: Store, known: Known, booking: Booking, find: Find, put: Put, *, alone: bool = False
    ) -> None:
        self.store, self.known, self.booking = store, known, booking
        self.find, self.put, self.alone = find, put, alone
        self._runs: dict[str, RunRow] = {}
        self._turns: dict[int, RunTurnRow] = {}
        self._calls: dict[str, ToolCallRow] = {}
        self.apply: dict[type, Callable[[Event, Any], None]] = {
            runs.SessionOpened: self._session_opened,
            runs.TurnStarted: self._turn_started,
            runs.TurnEnded: self._turn_ended,
            runs.ContextAssembled: self._assembled,
            runs.RequestSent: self._sent,
            runs.ToolCalled: self._tool_called,
            runs.ToolReturned: self._tool_returned,
            runs.ApprovalAsked: self._asked,
            runs.ApprovalAnswered: self._answered,
            **dict.fromkeys(_STATUS_OF_REQUEST, self._request_ended),
        }
        self._changed_runs: set[str] = set()
        self._changed_turns: set[int] = set()
        self._changed_calls: set[str] = set()

    def write(self) -> None:
        """Write what changed; forget what another process may change before the next slice."""
        row = msgspec.structs.astuple
        self.store.run("put_run", [row(self._runs[name]) for name in self._changed_runs])
        self.store.run("put_run_turn", [row(self._turns[key]) for key in self._changed_turns])
        self.store.run("put_tool_call", [row(self._calls[name]) for name in self._changed_calls])
        for changed in (self._changed_runs, self._changed_turns, self._changed_calls):
            changed.clear()
        for kept in (self._runs, self._turns, self._calls):
            if not self.alone or len(kept) > _KEPT_MAX:
                kept.clear()

    # rows by key

    def _run(self, event: Event) -> RunRow:
        run = self._runs.get(event.stream_id)
        if run is None:
            found = self.store.one("run", event.stream_id)
            session = session_key(CLIENT, event.session_id or "")
            run = self._runs[event.stream_id] = RunRow(*found) if found else RunRow(event.stream_id, session)
        return run

    def _turn(self, key: int) -> RunTurnRow:
        turn = self._turns.get(key)
        if turn is None:
            found = self.store.one("run_turn", key)
            turn = self._turns[key] = RunTurnRow(*found) if found else RunTurnRow(key, "main", "", 0)
        return turn

    def _call(self, span_id: str) -> ToolCallRow | None:
        call = self._calls.get(span_id)
        if call is None:
            found = self.store.one("tool_call", span_id)
            if found is None:
                return None
            call = self._calls[span_id] = ToolCallRow(*found)
        return call

    # sessions and turns

    def _session_opened(self, event: Event, body: runs.SessionOpened) -> None:
        run = self._run(event)
        self.known.session(run.session_key, event.session_id or "", CLIENT)
        run.folder, run.project, run.branch = body.folder, body.root or body.folder, body.branch
        self._changed_runs.add(run.stream_id)

    def _turn_started(self, event: Event, body: runs.TurnStarted) -> None:
        run = self._run(event)
        key = row_key("turn", CLIENT, event.session_id or "", event.turn or "")
        run.turn_key = key
        self._changed_runs.add(run.stream_id)
        self._turns[key] = RunTurnRow(key, body.who, body.agent, body.number, continues=body.continues)
        self._changed_turns.add(key)
        self.known.new_turns.append((key, event.turn or "", run.session_key, "", event.at))

    def _turn_ended(self, event: Event, body: runs.TurnEnded) -> None:
        turn = self._turn(self._run(event).turn_key)
        turn.ended_at, turn.outcome, turn.reason = event.at, body.outcome, body.reason
        self._changed_turns.add(turn.turn_key)

    # spans

    def _begin(self, event: Event, kind: str, tool: str, **values: Any) -> None:
        run = self._run(event)
        turn = self._turn(run.turn_key)
        dimensions = Dimensions(
            run.project, run.branch, CLIENT, turn.who, turn.agent, run.provider, run.model, kind, tool, "open"
        )
        row = SpanRow(
            span_id(event.span), run.session_key, "", run.turn_key, self.known.dimension(dimensions), event.at,
            source_position=event.position, part="" if kind == "model" else kind, **values,
        )  # fmt: skip
        self.put(row, None)

    def _end(self, event: Event, status: str, **values: Any) -> SpanRow | None:
        """Change the row of a span that ended; return it, None for one whose beginning the log does not have."""
        old = self.find(span_id(event.span))
        if old is None:
            return None
        row = SpanRow(*msgspec.structs.astuple(old))
        row.ended_at, row.source_position = event.at, event.position
        row.dimension_id = self.known.dimension(self.known.values(old.dimension_id)._replace(status=status))
        for name, value in values.items():
            setattr(row, name, value)
        self.put(row, old)
        return row

    def _assembled(self, event: Event, body: runs.ContextAssembled) -> None:
        run = self._run(event)
        if run.tools_bytes != body.tools_bytes:
            run.tools_bytes = body.tools_bytes
            self._changed_runs.add(run.stream_id)

    def _sent(self, event: Event, body: runs.RequestSent) -> None:
        run = self._run(event)
        run.provider, run.model = body.provider, body.model
        self._changed_runs.add(run.stream_id)
        self._begin(
            event, "model", "", attempt=body.attempt, attempt_kind=body.kind, waited_us=body.waited_us,
            named_quote=quote_key(body.quote) if body.quote else 0,
        )  # fmt: skip

    def _request_ended(self, event: Event, body: runs.RequestEnd) -> None:
        old = self.find(span_id(event.span))
        if old is None:
            return
        status = _STATUS_OF_REQUEST[type(body)]
        reading = read(body, self.known.values(old.dimension_id).provider)
        row = SpanRow(*msgspec.structs.astuple(old))
        row.ended_at, row.source_position = event.at, event.position
        row.ran_us, row.http_status = body.ran_us, body.status
        row.ending = status if status in _ENDINGS else ""
        row.final = int(status == "succeeded")
        row.named_quote = quote_key(body.quote) if body.quote else 0
        values = self.known.values(old.dimension_id)._replace(status=status)
        if body.model:
            values = values._replace(model=body.model)
            run = self._run(event)
            run.model = body.model
            self._changed_runs.add(run.stream_id)
        row.dimension_id = self.known.dimension(values)
        if reading.reported_cost_usd is not None:
            row.reported_cost_nanousd = round(reading.reported_cost_usd * 1_000_000_000)
        for number, part in enumerate(reading.parts):
            one = self._beside(row, part.role, part.model, number) if number else row
            fill_usage(one, part.usage)
            if number == 0 or part.model in ("", body.model):
                self.booking.price(one, part.usage)
            one.partial |= reading.partial
            one.lower_bound |= one.partial
            if number:
                self.put(one, None)
        if not reading.parts and body.unbilled:
            row.cost_nanousd = row.first_cost_nanousd = 0
        self.put(row, old)

    def _beside(self, base: SpanRow, role: str, model: str, number: int) -> SpanRow:
        """Return the row of a call that the provider made beside the answer."""
        row = SpanRow(*msgspec.structs.astuple(base))
        row.part, row.parent = f"{role}{number}", base.span_id
        row.span_id = f"{base.span_id}+{row.part}"
        row.lines, row.reported_cost_nanousd, row.attempt_kind = 0, None, "first"
        row.ran_us = row.waited_us = None
        who = {"compaction": "compact", "advisor": "advisor"}.get(role)
        values = self.known.values(base.dimension_id)
        row.dimension_id = self.known.dimension(values._replace(who=who or values.who, model=model or values.model))
        return row

    def _tool_called(self, event: Event, body: runs.ToolCalled) -> None:
        self._begin(event, "tool", body.tool, call_id=body.call, lines=0)
        name = span_id(event.span)
        self._calls[name] = ToolCallRow(name, body.call, body.arguments_bytes)
        self._changed_calls.add(name)

    def _tool_returned(self, event: Event, body: runs.ToolReturned) -> None:
        status = _STATUS_OF_TOOL.get(body.status, "failed")
        self._end(event, status, ran_us=body.ran_us, waited_us=body.waited_us)
        call = self._call(span_id(event.span))
        if call is not None:
            call.result_bytes, call.truncated, call.exit_code = body.result_bytes, int(body.truncated), body.exit_code
            self._changed_calls.add(call.span_id)

    def _asked(self, event: Event, body: runs.ApprovalAsked) -> None:
        self._begin(event, "approval", body.tool, call_id=body.call, lines=0)

    def _answered(self, event: Event, body: runs.ApprovalAnswered) -> None:
        self._end(event, "succeeded" if body.answer == "allowed" else "failed", waited_us=body.waited_us)
