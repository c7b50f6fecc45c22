"""`ledger show`: one session as a tree, as table, JSON or CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ledger.accounts.catchup import View
from ledger.accounts.entities import ToolCallRow
from ledger.accounts.rows import contribution
from ledger.labels import labels_of
from ledger.log.log import Log
from reports.address import escaped
from reports.billing import stated
from reports.figures import Figures, decimals_for, usd_or_none
from reports.output import put, put_csv, put_json
from reports.periods import Zone, iso
from reports.text import Column, counted, safe, shortened, table, terminal_columns, wrapped
from reports.tree import Session, Span, Turn, load

_SPANS_SHOWN = 12
"""How many requests that succeeded a table names in one turn before it only counts the rest."""
_ERROR_COLUMNS = 160
_BYTES_A_TOKEN = 4
"""Of English and JSON, roughly: for an estimate that says `about`."""


def show(log: Log, view: View, wanted: str, zone: Zone, format_: str) -> None:
    """Print a session's tree."""
    session = load(log, view, wanted)
    labels = labels_of(view, session.client, session.session_id)
    if format_ == "json":
        put_json({"as_of": view.position, "session": session.session_id, "client": session.client,
                  "labels": labels, "billing": stated(view).get(session.client),
                  "turns": [_turn_json(turn, session, number) for number, turn in enumerate(session.turns, 1)],
                  "loose": [_turn_json(turn, session) for turn in session.loose],
                  "tools_bytes": session.tools_bytes or None,
                  "total": session.total().as_json()})  # fmt: skip
    elif format_ == "csv":
        put_csv(_CSV, [row for turn in (*session.turns, *session.loose) for row in _csv_rows(turn, session, "")])
    else:
        at_list_price = stated(view).get(session.client) == "subscription"
        put(as_table(session, zone, at_list_price=at_list_price, labels=labels))


# JSON and CSV


def _turn_json(turn: Turn, session: Session, number: int | None = None) -> dict[str, Any]:
    """Return a turn; `number` is that of a session's own turn, by which it can be opened."""
    spans = []
    for span in turn.spans:
        below = turn.children.get(span.row.span_id)
        spans.append(_span_json(span) | ({"turns": [_turn_json(child, session) for child in below]} if below else {}))
    name = escaped(turn.names[0]) if number is None else number
    return {
        "turn": turn.turn_id or None,
        "number": number,
        "address": f"{escaped(session.session_id)}#{name}",
        "agent": turn.agent,
        "agent_id": turn.agent_id,
        "started_at": iso(turn.started_at),
        "outcome": turn.outcome or None,
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
        "web_searches": row.web_searches,
        "http_status": row.http_status or None,
        "error": span.error,
        "error_purged": span.purged,
        "cost_usd": usd_or_none(row.cost_nanousd),
        "first_cost_usd": usd_or_none(row.first_cost_nanousd),
        "reported_cost_usd": usd_or_none(row.reported_cost_nanousd),
        "lower_bound": bool(row.lower_bound),
        "upper_bound": bool(row.upper_bound),
        "ran_ms": None if row.ran_us is None else row.ran_us // 1000,
        "waited_ms": None if row.waited_us is None else row.waited_us // 1000,
        **(_call_json(span.call) if span.call else {}),
    }


def _call_json(call: ToolCallRow) -> dict[str, Any]:
    names = ("call_id", "arguments_bytes", "result_bytes", "exit_code")
    return {name: getattr(call, name) for name in names} | {"truncated": bool(call.truncated)}


_CSV = ("session", "turn", "agent", "span", "parent", "at", "who", "kind", "model", "tool", "status", "input_uncached",
        "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning", "cost_usd")  # fmt: skip


def _csv_rows(turn: Turn, session: Session, parent: str) -> Iterator[list[Any]]:
    for span in turn.spans:
        row, values = span.row, span.values
        yield [
            session.session_id, turn.turn_id, values.agent, row.span_id, row.parent or parent, iso(row.occurred_at),
            values.who, values.kind, values.model, values.tool, values.status, row.input_uncached, row.cache_read,
            row.cache_write_5m, row.cache_write_1h, row.output, row.reasoning, usd_or_none(row.cost_nanousd),
        ]  # fmt: skip
        for child in turn.children.get(row.span_id, ()):
            yield from _csv_rows(child, session, row.span_id)


# the table


def as_table(
    session: Session, zone: Zone, *, at_list_price: bool = False, labels: Mapping[str, str] | None = None
) -> str:
    """Return the tree as a table: what is indented is a part of what stands above it."""
    total = session.total()
    costs = [span.row.cost_nanousd or 0 for turn in (*session.turns, *session.loose) for span in _all_spans(turn)]
    decimals = decimals_for(costs)
    rows = []
    for number, turn in enumerate(session.turns, 1):
        rows += _turn_rows(turn, f"turn {number}", 0, decimals, zone)
    for turn in session.loose:
        rows += _turn_rows(turn, f"agent {turn.agent} (its call is unknown)", 0, decimals, zone)
    columns = [
        Column("what"),
        Column("at", rank=5),
        Column("status"),
        Column("input", right=True),
        Column("cached", right=True, rank=3),
        Column("output", right=True),
        Column("at list price USD" if at_list_price else "cost USD", right=True),
        Column("time", right=True, rank=6),
    ]
    head = safe(f"session {session.session_id} ({session.client}), {counted(len(session.turns), 'turn')}")
    text = table(columns, rows, ["total", *_cells(total, decimals, zone)])
    told = [wrapped(safe("labels: " + ", ".join(f"{key}={value}" for key, value in labels.items())))] if labels else []
    return "\n".join([head, *told, text, *_tools(session), *_errors(session, zone)])


def _tools(session: Session) -> list[str]:
    """Return the line that says what the definitions of tools cost with every request (CTX-15)."""
    if not session.tools_bytes:
        return []
    tokens = session.tools_bytes // _BYTES_A_TOKEN
    text = f"tool definitions: {session.tools_bytes:,} bytes with every request, about {tokens:,} tokens of its input"
    return [wrapped(text)]


def _errors(session: Session, zone: Zone) -> list[str]:
    """Return a line for each failed request: when, and how its error begins. JSON has the whole text."""
    failed = [
        span for turn in (*session.turns, *session.loose) for span in _all_spans(turn) if span.error or span.purged
    ]
    failed.sort(key=lambda span: span.row.occurred_at)
    room = min(terminal_columns(), _ERROR_COLUMNS)
    return [
        shortened(safe(f"{zone.moment(span.row.occurred_at):%H:%M:%S} failed: {_one_line(span.error)}"), room)
        for span in failed
    ]


def _one_line(error: str | None) -> str:
    return " ".join((error or "").split()) or "(purged)"


def _all_spans(turn: Turn) -> Iterator[Span]:
    yield from turn.spans
    for turns in turn.children.values():
        for child in turns:
            yield from _all_spans(child)


def _turn_rows(turn: Turn, name: str, depth: int, decimals: int, zone: Zone) -> list[list[str]]:
    indent = "  " * depth
    cells = _cells(turn.total(), decimals, zone)
    rows = [[f"{indent}{name}", cells[0], turn.outcome, *cells[2:]]]
    shown = 0
    for span in turn.spans:
        children = turn.children.get(span.row.span_id, [])
        plain = span.values.kind == "model" and span.values.status == "succeeded"
        if plain and shown >= _SPANS_SHOWN:
            continue
        shown += plain
        rows.append(_span_cells(span, indent + "  ", decimals, zone))
        for number, child in enumerate(children, 1):
            again = f" (turn {number})" if len(children) > 1 else ""
            rows += _turn_rows(child, f"agent {child.agent}{again}", depth + 2, decimals, zone)
    rest = sum(span.values.kind == "model" and span.values.status == "succeeded" for span in turn.spans) - shown
    if rest:
        rows.append([f"{indent}  ... {rest} more requests", *[""] * 7])
    return rows


def _cells(figures: Figures, decimals: int, zone: Zone) -> list[str]:
    at = "" if figures.first_at is None else f"{zone.moment(figures.first_at):%m-%d %H:%M:%S}"
    time = duration(figures["ran_us"] + figures["waited_us"]) if figures["ran_known_spans"] else ""
    return [at, "", figures.input_text(), figures.count_text("cache_read"),
            figures.count_text("output"), figures.cost_text(decimals), time]  # fmt: skip


def _span_cells(span: Span, indent: str, decimals: int, zone: Zone) -> list[str]:
    row, values = span.row, span.values
    name = values.model or "request" if values.kind == "model" else f"{values.kind} {values.tool}"
    if values.who not in ("main", "agent"):
        name = f"{values.who}: {name}"
    at = f"{zone.moment(row.occurred_at):%m-%d %H:%M:%S}"
    figures = Figures()
    figures.add(contribution(row, values.kind, values.status), row.occurred_at, row.occurred_at)
    if values.kind != "model":
        return [f"{indent}{name}", at, values.status, "", "", "", "", duration(row.waited_us or row.ran_us)]
    cells = _cells(figures, decimals, zone)
    status = values.status + (f" {row.http_status}" if row.http_status else "")
    return [f"{indent}{name}", at, status, *cells[2:-1], duration(row.ran_us)]


def duration(microseconds: int | None) -> str:
    """Return a time for a table, empty where it is not known."""
    if microseconds is None:
        return ""
    seconds = microseconds / 1_000_000
    return f"{seconds:,.1f}s" if seconds < 120 else f"{seconds / 60:,.1f}min"
