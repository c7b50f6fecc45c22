"""`ledger show`: one session as a tree of turns, spans and sub-agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ledger.accounts.amounts import DIMENSIONS
from ledger.accounts.catchup import View
from ledger.accounts.rows import Dimensions, SpanRow, contribution
from ledger.errors import UsageError
from reports.figures import Figures, decimals_for, usd
from reports.output import put, put_csv, put_json
from reports.periods import Zone, iso
from reports.text import Column, safe, table

_SPANS_SHOWN = 12
"""How many requests of one turn a table names before it only counts the rest."""


class Span(NamedTuple):
    """A span with its dimension values and what was read as its source."""

    row: SpanRow
    values: Dimensions


class Turn(NamedTuple):
    """A turn with its own spans and, below the calls that started them, the turns of sub-agents."""

    turn_id: str
    agent_id: str
    started_at: int | None
    spans: list[Span]
    children: dict[str, list[Turn]]
    """Span id of a call -> the turns that it caused."""

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

    def total(self) -> Figures:
        """Return the session's total: the sum over all of its turns."""
        figures = Figures()
        for turn in (*self.turns, *self.loose):
            below = turn.total()
            figures.add(below.amounts, below.first_at, below.last_at)
        return figures


def load(view: View, wanted: str) -> Session:
    """Return the tree of the session whose id is, or begins with, `wanted`. Raises UsageError for none or many."""
    key, session_id, client = _find(view, wanted)
    spans = _spans(view, key)
    query = view.store.connection.execute
    named = view.store.named
    rows = query(
        named("SELECT turn_key, turn_id, agent_id, started_at FROM gen_turns WHERE session_key = ?"), (key,)
    )
    by_turn: dict[int, list[Span]] = {}
    for span in spans:
        by_turn.setdefault(span.row.turn_key, []).append(span)
    turns = [
        Turn(turn_id, agent_id, started_at, by_turn[turn_key], {})
        for turn_key, turn_id, agent_id, started_at in rows
        if turn_key in by_turn
    ]
    turns.sort(key=lambda turn: (turn.spans[0].row.occurred_at, turn.turn_id))
    calls = query(
        named("SELECT agent_id, call_id FROM gen_agents WHERE session_key = ? AND call_id <> ''"), (key,)
    )
    return _tree(session_id, client, turns, dict(calls.fetchall()))


def _find(view: View, wanted: str) -> tuple[int, str, str]:
    sql = (
        "SELECT session_key, session_id, client FROM gen_sessions AS s WHERE substr(session_id, 1, length(?)) = ? "
        "AND EXISTS (SELECT 1 FROM gen_spans AS p WHERE p.session_key = s.session_key) ORDER BY session_id"
    )
    found = view.store.connection.execute(view.store.named(sql), (wanted, wanted)).fetchall()
    exact = [row for row in found if row[1] == wanted]
    if len(exact) == 1 or len(found) == 1:
        return tuple((exact or found)[0])
    if not found:
        raise UsageError(f"{wanted}: no session begins so: `ledger report` lists the sessions there are")
    names = ", ".join(row[1] for row in found[:3])
    raise UsageError(f"{wanted}: {len(found)} sessions begin so ({names}, ...): give more of the id")


def _spans(view: View, key: int) -> list[Span]:
    width = len(DIMENSIONS)
    columns = ", ".join(
        [f"d.{name}" for name in DIMENSIONS] + [f"s.{name}" for name in SpanRow.__struct_fields__]
    )
    sql = (
        f"SELECT {columns} FROM gen_spans AS s JOIN gen_dimensions AS d ON d.dimension_id = s.dimension_id "
        "WHERE s.session_key = ? ORDER BY s.occurred_at, s.span_id"
    )
    rows = view.store.connection.execute(view.store.named(sql), (key,))
    return [Span(SpanRow(*row[width:]), Dimensions(*row[:width])) for row in rows]


def _tree(session_id: str, client: str, turns: list[Turn], calls: dict[str, str]) -> Session:
    """Hang every sub-agent's turns below the call that started it; what would close a circle stays loose."""
    place = {
        span.row.call_id: (turn, span) for turn in turns for span in turn.spans if span.row.part == "tool"
    }
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
    return Session(session_id, client, roots, loose)


def _circular(agent_id: str, parents: dict[str, str]) -> bool:
    seen: set[str] = set()
    while agent_id:
        if agent_id in seen:
            return True
        seen.add(agent_id)
        agent_id = parents.get(agent_id, "")
    return False


def show(view: View, wanted: str, zone: Zone, format_: str) -> None:
    """Print a session's tree."""
    session = load(view, wanted)
    if format_ == "json":
        put_json({"as_of": view.position, "session": session.session_id, "client": session.client,
                  "turns": [_turn_json(turn) for turn in session.turns],
                  "loose": [_turn_json(turn) for turn in session.loose],
                  "total": session.total().as_json()})  # fmt: skip
    elif format_ == "csv":
        put_csv(
            _CSV, [row for turn in (*session.turns, *session.loose) for row in _csv_rows(turn, session, "")]
        )
    else:
        put(as_table(session, zone))


# JSON and CSV


def _turn_json(turn: Turn) -> dict[str, Any]:
    spans = []
    for span in turn.spans:
        below = turn.children.get(span.row.span_id)
        spans.append(_span_json(span) | ({"turns": [_turn_json(child) for child in below]} if below else {}))
    return {
        "turn": turn.turn_id or None,
        "agent": turn.spans[0].values.agent,
        "agent_id": turn.agent_id,
        "started_at": iso(turn.started_at),
        "own": turn.own().as_json(),
        "total": turn.total().as_json(),
        "spans": spans,
    }


def _span_json(span: Span) -> dict[str, Any]:
    row, values = span.row, span.values
    names = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
    return {
        "span": row.span_id,
        "parent": row.parent,
        **{name: getattr(values, name) for name in ("who", "kind", "provider", "model", "tool", "status")},
        "at": iso(row.occurred_at),
        "attempt": row.attempt,
        "attempt_kind": row.attempt_kind,
        "tokens": {name: getattr(row, name) for name in names},
        "reported_total": row.reported_total,
        "cost_usd": _usd(row.cost_nanousd),
        "first_cost_usd": _usd(row.first_cost_nanousd),
        "reported_cost_usd": _usd(row.reported_cost_nanousd),
        "lower_bound": bool(row.lower_bound),
        "upper_bound": bool(row.upper_bound),
        "ran_ms": None if row.ran_us is None else row.ran_us // 1000,
        "waited_ms": None if row.waited_us is None else row.waited_us // 1000,
    }


def _usd(nanousd: int | None) -> str | None:
    return None if nanousd is None else usd(nanousd)


_CSV = ("session", "turn", "agent", "span", "parent", "at", "who", "kind", "model", "tool", "status", "input_uncached",
        "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning", "cost_usd")  # fmt: skip


def _csv_rows(turn: Turn, session: Session, parent: str) -> Iterator[list[Any]]:
    for span in turn.spans:
        row, values = span.row, span.values
        yield [
            session.session_id, turn.turn_id, values.agent, row.span_id, row.parent or parent, iso(row.occurred_at),
            values.who, values.kind, values.model, values.tool, values.status, row.input_uncached, row.cache_read,
            row.cache_write_5m, row.cache_write_1h, row.output, row.reasoning, _usd(row.cost_nanousd),
        ]  # fmt: skip
        for child in turn.children.get(row.span_id, ()):
            yield from _csv_rows(child, session, row.span_id)


# the table


def as_table(session: Session, zone: Zone) -> str:
    """Return the tree as a table: what is indented is a part of what stands above it."""
    total = session.total()
    costs = [
        span.row.cost_nanousd or 0 for turn in (*session.turns, *session.loose) for span in _all_spans(turn)
    ]
    decimals = decimals_for(costs)
    rows = []
    for number, turn in enumerate(session.turns, 1):
        rows += _turn_rows(turn, f"turn {number}", 0, decimals, zone)
    for turn in session.loose:
        rows += _turn_rows(
            turn, f"agent {turn.spans[0].values.agent} (its call is unknown)", 0, decimals, zone
        )
    columns = [
        Column("what"),
        Column("at", rank=4),
        Column("status", rank=3),
        Column("input", right=True),
        Column("cached", right=True, rank=2),
        Column("output", right=True),
        Column("cost USD", right=True),
        Column("time", right=True, rank=5),
    ]
    head = safe(f"session {session.session_id} ({session.client}), {len(session.turns)} turns")
    return f"{head}\n{table(columns, rows, ['total', *_cells(total, decimals, zone)])}"


def _all_spans(turn: Turn) -> Iterator[Span]:
    yield from turn.spans
    for turns in turn.children.values():
        for child in turns:
            yield from _all_spans(child)


def _turn_rows(turn: Turn, name: str, depth: int, decimals: int, zone: Zone) -> list[list[str]]:
    indent = "  " * depth
    rows = [[f"{indent}{name}", *_cells(turn.total(), decimals, zone)]]
    shown = 0
    for span in turn.spans:
        children = turn.children.get(span.row.span_id, [])
        if span.values.kind == "model" and shown >= _SPANS_SHOWN:
            continue
        shown += span.values.kind == "model"
        rows.append(_span_cells(span, indent + "  ", decimals, zone))
        for number, child in enumerate(children, 1):
            again = f" (turn {number})" if len(children) > 1 else ""
            rows += _turn_rows(
                child, f"agent {child.spans[0].values.agent}{again}", depth + 2, decimals, zone
            )
    rest = sum(span.values.kind == "model" for span in turn.spans) - shown
    if rest:
        rows.append([f"{indent}  ... {rest} more requests", *[""] * 7])
    return rows


def _cells(figures: Figures, decimals: int, zone: Zone) -> list[str]:
    at = "" if figures.first_at is None else f"{zone.moment(figures.first_at):%m-%d %H:%M:%S}"
    time = _duration(figures["ran_us"] + figures["waited_us"]) if figures["ran_known_spans"] else ""
    return [at, "", figures.count_text(figures.input), figures.count_text(figures["cache_read"]),
            figures.count_text(figures["output"]), figures.cost_text(decimals), time]  # fmt: skip


def _span_cells(span: Span, indent: str, decimals: int, zone: Zone) -> list[str]:
    row, values = span.row, span.values
    name = values.model or "request" if values.kind == "model" else f"{values.kind} {values.tool}"
    if values.who not in ("main", "agent"):
        name = f"{values.who}: {name}"
    at = f"{zone.moment(row.occurred_at):%m-%d %H:%M:%S}"
    figures = Figures()
    figures.add(contribution(row, values.kind, values.status), row.occurred_at, row.occurred_at)
    if values.kind != "model":
        return [f"{indent}{name}", at, values.status, "", "", "", "", _duration(row.waited_us or row.ran_us)]
    cells = _cells(figures, decimals, zone)
    status = values.status + (f" {row.http_status}" if row.http_status else "")
    return [f"{indent}{name}", at, status, *cells[2:-1], _duration(row.ran_us)]


def _duration(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    seconds = microseconds / 1_000_000
    return f"{seconds:,.1f}s" if seconds < 120 else f"{seconds / 60:,.1f}min"
