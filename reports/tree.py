"""One session as a tree: its turns, the spans in each, and below a call the turns of the sub-agent it started."""

from __future__ import annotations

from typing import Any, NamedTuple

from ledger.accounts.amounts import DIMENSIONS
from ledger.accounts.catchup import View
from ledger.accounts.entities import ToolCallRow
from ledger.accounts.live_usage import is_live
from ledger.accounts.rows import Dimensions, SpanRow, contribution
from ledger.errors import UsageError, VolumeMissing
from ledger.events.registry import decode
from ledger.events.runs import ToolReturned
from ledger.events.sources import Failure
from ledger.log.log import Log
from reports.figures import Figures


class Span(NamedTuple):
    """A span with its dimension values, and the full text of its error where it failed."""

    row: SpanRow
    values: Dimensions
    error: str | None = None
    purged: bool = False
    """Whether that text was purged."""
    call: ToolCallRow | None = None
    """What a tool span of our own agent has beside."""


class Turn(NamedTuple):
    """A turn with its own spans and, below the calls that started them, the turns of sub-agents."""

    turn_id: str
    agent_id: str
    started_at: int | None
    spans: list[Span]
    children: dict[str, list[Turn]]
    """Span id of a call -> the turns that it caused."""
    turn_key: int
    outcome: str = ""
    """How a turn of our own agent ended, `open` while it runs; empty for imported ones, which do not say."""

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called by within its session: its prompt's id where the log has one, and its key."""
        return tuple(name for name in (self.turn_id, str(self.turn_key)) if name)

    @property
    def agent(self) -> str:
        """The sub-agent's name, empty for the root."""
        return self.spans[0].values.agent if self.spans else ""

    def own(self) -> Figures:
        """Return what this turn's own spans add up to."""
        figures = Figures()
        for span in self.spans:
            at = span.row.occurred_at
            figures.add(contribution(span.row, span.values.kind, span.values.status), at, at)
        return figures

    def total(self) -> Figures:
        """Return own + children."""
        figures = self.own()
        for turns in self.children.values():
            for turn in turns:
                below = turn.total()
                figures.add(below.amounts, below.first_at, below.last_at)
        return figures


class Session(NamedTuple):
    """A session's tree. `loose` are turns of sub-agents whose call is unknown."""

    session_id: str
    client: str
    turns: list[Turn]
    loose: list[Turn]
    session_key: int
    tools_bytes: int = 0
    """How long the definitions of tools are that went with each request of our own agent."""

    def total(self) -> Figures:
        """Return the session's total: the sum over all of its turns."""
        figures = Figures()
        for turn in (*self.turns, *self.loose):
            below = turn.total()
            figures.add(below.amounts, below.first_at, below.last_at)
        return figures


def load(log: Log, view: View, wanted: str) -> Session:
    """Return the tree of the session whose id is, or begins with, `wanted`. Raises UsageError for none or many."""
    key, session_id, client = only_session(view, wanted)
    spans = _spans(log, view, key)
    query = view.store.query
    rows = query(
        "SELECT t.turn_key, t.turn_id, t.agent_id, t.started_at, r.outcome, r.turn_key FROM gen_turns AS t "
        "LEFT JOIN gen_run_turns AS r ON r.turn_key = t.turn_key WHERE t.session_key = ?",
        key,
    )
    by_turn: dict[int, list[Span]] = {}
    for span in spans:
        by_turn.setdefault(span.row.turn_key, []).append(span)
    turns = [
        Turn(turn_id, agent_id, started_at, by_turn.get(turn_key, []), {}, turn_key,
             (outcome or "open") if own is not None else "")
        for turn_key, turn_id, agent_id, started_at, outcome, own in rows
        if turn_key in by_turn or own is not None
    ]  # fmt: skip
    turns.sort(key=lambda turn: (turn.spans[0].row.occurred_at if turn.spans else turn.started_at or 0, turn.turn_id))
    calls = query("SELECT agent_id, call_id FROM gen_agents WHERE session_key = ? AND call_id <> ''", key)
    tools = query("SELECT max(tools_bytes) FROM gen_runs WHERE session_key = ?", key).fetchone()
    roots, loose = _tree(turns, dict(calls.fetchall()))
    return Session(session_id, client, roots, loose, key, tools[0] or 0)


def find_session(view: View, wanted: str, *, exact: bool = False) -> str | None:
    """Return the id of the session that is, or begins with, `wanted`; None where there is none.

    Raises UsageError where several begin so.
    """
    found = _beginning(view, wanted)
    if any(row[1] == wanted for row in found):
        return wanted
    return None if exact or not found else only_session(view, wanted)[1]


def _beginning(view: View, wanted: str) -> list[tuple[int, str, str]]:
    sql = (
        "SELECT session_key, session_id, client FROM gen_sessions AS s WHERE substr(session_id, 1, length(?)) = ? "
        "AND (EXISTS (SELECT 1 FROM gen_spans AS p WHERE p.session_key = s.session_key) "
        "OR EXISTS (SELECT 1 FROM gen_runs AS r WHERE r.session_key = s.session_key)) ORDER BY session_id"
    )
    return [tuple(row) for row in view.store.query(sql, wanted, wanted)]


def only_session(view: View, wanted: str) -> tuple[int, str, str]:
    """Return (key, id, client) of the session that is, or begins with, `wanted`. Raises UsageError for none or many."""
    if not wanted.strip():
        raise UsageError(f"{wanted!r}: is empty: give a session's id, or how it begins: `ledger report` lists them")
    found = _beginning(view, wanted)
    exact = [row for row in found if row[1] == wanted]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise UsageError(f"{wanted}: no session begins so: `ledger report` lists the sessions there are")
    names = ", ".join(row[1] for row in found[:3])
    raise UsageError(f"{wanted}: {len(found)} sessions begin so ({names}, ...): give more of the id")


def _spans(log: Log, view: View, key: int) -> list[Span]:
    found = _spans_where(view, "s.session_key = ?", key)
    calls = _tool_calls(view, key) if any(is_live(span.row.span_id) for span in found) else {}
    found = [span._replace(call=calls.get(span.row.span_id)) for span in found] if calls else found
    return [_with_error(log, view, span) if span.values.status == "failed" else span for span in found]


def _tool_calls(view: View, key: int) -> dict[str, ToolCallRow]:
    columns = ", ".join(f"c.{name}" for name in ToolCallRow.__struct_fields__)
    sql = (
        f"SELECT {columns} FROM gen_tool_calls AS c JOIN gen_spans AS s ON s.span_id = c.span_id "
        "WHERE s.session_key = ?"
    )
    return {row[0]: ToolCallRow(*row) for row in view.store.query(sql, key)}


def load_span(view: View, span_id: str) -> Span | None:
    """Return the span of this id, without the text of its error; None where there is none."""
    return next(iter(_spans_where(view, "s.span_id = ?", span_id)), None)


def _spans_where(view: View, condition: str, parameter: Any) -> list[Span]:
    width = len(DIMENSIONS)
    columns = ", ".join([f"d.{name}" for name in DIMENSIONS] + [f"s.{name}" for name in SpanRow.__struct_fields__])
    sql = (
        f"SELECT {columns} FROM gen_spans AS s JOIN gen_dimensions AS d ON d.dimension_id = s.dimension_id "
        f"WHERE {condition} ORDER BY s.occurred_at, s.span_id"
    )
    rows = view.store.query(sql, parameter)
    return [Span(SpanRow(*row[width:]), Dimensions(*row[:width])) for row in rows]


def _with_error(log: Log, view: View, span: Span) -> Span:
    """Return the span of a failed request with the text of its error, or with the word that it was purged."""
    try:
        event = log.event_at(span.row.source_position)
    except VolumeMissing:
        return span
    body = decode(event.type, event.schema, event.data)
    error = _error_of(body, span.row)
    if not error:
        return span
    content = log.blob(bytes.fromhex(error))
    if content is None:
        return span._replace(purged=view.store.one("purged", error) is not None)
    return span._replace(error=content.decode("utf-8", "replace"))


def _error_of(body: Any, row: SpanRow) -> str:
    """Return the sha256 of the text of the error that a span ended with, empty for none."""
    if isinstance(body, ToolReturned):
        return body.result
    if is_live(row.span_id):
        return str(getattr(body, "error", ""))
    one = body.observations[row.source_index]
    return one.error if isinstance(one, Failure) else ""


def _tree(turns: list[Turn], calls: dict[str, str]) -> tuple[list[Turn], list[Turn]]:
    """Hang every sub-agent's turns below the call that started it; what would close a circle stays loose."""
    place = {span.row.call_id: (turn, span) for turn in turns for span in turn.spans if span.row.part == "tool"}
    parents = {agent: place[call][0].agent_id for agent, call in calls.items() if call in place}
    roots, loose = [], []
    for turn in turns:
        call = calls.get(turn.agent_id, "")
        if not turn.agent_id:
            roots.append(turn)
        elif call in place and not _circular(turn.agent_id, parents):
            above, span = place[call]
            above.children.setdefault(span.row.span_id, []).append(turn)
        else:
            loose.append(turn)
    return roots, loose


def _circular(agent_id: str, parents: dict[str, str]) -> bool:
    seen: set[str] = set()
    while agent_id:
        if agent_id in seen:
            return True
        seen.add(agent_id)
        agent_id = parents.get(agent_id, "")
    return False
