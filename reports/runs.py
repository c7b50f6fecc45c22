"""`agent sessions`: the sessions of the agent, the newest first. `agent cost`: what one cost, and what for."""

from __future__ import annotations

from typing import Any

from ledger.accounts.amounts import AMOUNTS, GRAIN_SESSION
from ledger.accounts.catchup import View
from reports.figures import Figures, decimals_for
from reports.output import put, put_csv, put_json
from reports.periods import Zone, iso
from reports.query import ask, make_question
from reports.show import duration
from reports.text import Column, safe, shortened_path, table, wrapped

_SESSIONS = """SELECT r.session_key, s.session_id, r.folder, r.branch, r.provider, r.model,
(SELECT count(*) FROM gen_turns AS t WHERE t.session_key = r.session_key),
(SELECT max(t.started_at) FROM gen_turns AS t WHERE t.session_key = r.session_key) AS newest
FROM gen_runs AS r JOIN gen_sessions AS s ON s.session_key = r.session_key
ORDER BY newest DESC, s.session_id DESC"""
_LAST = """SELECT u.outcome FROM gen_turns AS t JOIN gen_run_turns AS u ON u.turn_key = t.turn_key
WHERE t.session_key = ? ORDER BY t.started_at DESC, u.number DESC LIMIT 1"""


def print_sessions(view: View, folder: str | None, limit: int, zone: Zone, format_: str) -> None:
    """Print the sessions of a workspace, or of all."""
    rows = [tuple(row) for row in view.store.query(_SESSIONS) if folder is None or row[2] == folder]
    shown = [_session(view, row) for row in (rows[:limit] if limit else rows)]
    if format_ == "json":
        put_json({"as_of": view.position, "all": len(rows), "sessions": [_json(one) for one in shown]})
    elif format_ == "csv":
        put_csv(_FIELDS, [[*_json(one).values()] for one in shown])
    elif not shown:
        put("no sessions: `agent run` begins one")
    else:
        put(_table(shown, zone))
        if len(shown) < len(rows):
            put(wrapped(f"{len(rows) - len(shown)} more: --limit 0 shows all"))


def _session(view: View, row: tuple[Any, ...]) -> dict[str, Any]:
    key, session_id, folder, branch, provider, model, turns, newest = row
    last = view.store.query(_LAST, key).fetchone()
    figures = Figures()
    names = ", ".join(AMOUNTS)
    sums = f"SELECT {names}, first_at, last_at FROM gen_totals WHERE grain = ? AND bucket = ?"
    for amounts in view.store.query(sums, GRAIN_SESSION, key):
        figures.add(amounts[: len(AMOUNTS)], *amounts[len(AMOUNTS) :])
    return {
        "session": session_id, "folder": folder, "branch": branch, "model": f"{provider}/{model}" if model else "",
        "turns": turns, "at": newest, "outcome": (last[0] if last else "") or "open", "figures": figures,
    }  # fmt: skip


_FIELDS = ("session", "at", "folder", "branch", "model", "turns", "outcome", "requests", "tokens", "cost_usd")


def _json(one: dict[str, Any]) -> dict[str, Any]:
    figures = one["figures"]
    told = figures.as_json()
    return {
        "session": one["session"], "at": iso(one["at"]), "folder": one["folder"], "branch": one["branch"],
        "model": one["model"], "turns": one["turns"], "outcome": one["outcome"], "requests": figures["requests"],
        "tokens": figures.tokens, "cost_usd": told["cost_usd"],
    }  # fmt: skip


def _table(shown: list[dict[str, Any]], zone: Zone) -> str:
    decimals = decimals_for([one["figures"]["cost_nanousd"] for one in shown])
    columns = [
        Column("session"),
        Column("begun", rank=4),
        Column("workspace", rank=3),
        Column("outcome"),
        Column("turns", right=True, rank=2),
        Column("requests", right=True),
        Column("cost USD", right=True),
    ]
    rows = [
        [
            one["session"], f"{zone.moment(one['at']):%m-%d %H:%M}" if one["at"] else "",
            safe(shortened_path(one["folder"], 40)), one["outcome"], str(one["turns"]),
            str(one["figures"]["requests"]), one["figures"].cost_text(decimals),
        ]
        for one in shown
    ]  # fmt: skip
    return table(columns, rows)


# what a session cost

_BY = ("who", "agent", "kind", "model", "tool")


def print_cost(view: View, session_id: str, format_: str) -> None:
    """Print what a session cost by who spent it, on what kind of thing, and which model or tool, with time (OBS-38)."""
    answer = ask(view, make_question(",".join(_BY), session=session_id))
    rows = [({**dict(zip(_BY, key, strict=True)), "count": figures["spans"]}, figures) for key, figures in answer.rows]
    if format_ == "json":
        told = [named | figures.as_json() for named, figures in rows]
        put_json({"as_of": view.position, "session": session_id, "rows": told, "total": answer.total.as_json()})
    elif format_ == "csv":
        put_csv(_COST_FIELDS, [[*_cost_cells(named, figures)] for named, figures in rows])
    elif not rows:
        put(f"session {session_id}: nothing was sent yet")
    else:
        put(_cost_table(rows, answer.total))
        put(wrapped(f"session {session_id}: `ledger show {session_id[:13]}` has every request"))


_COST_FIELDS = (*_BY, "count", "succeeded", "retries", "input", "output", "cost_usd", "ran_ms", "waited_ms")


def _cost_cells(named: dict[str, Any], figures: Figures) -> list[Any]:
    told = figures.as_json()
    is_model = named["kind"] == "model"
    tokens = (figures.input, figures["output"]) if is_model else (None, None)
    return [
        *named.values(), told["succeeded"], told["retries"], *tokens, told["cost_usd"], told["ran_ms"],
        told["waited_ms"],
    ]  # fmt: skip


def _cost_table(rows: list[tuple[dict[str, Any], Figures]], total: Figures) -> str:
    decimals = decimals_for([figures["cost_nanousd"] for _, figures in rows])
    columns = [
        Column("who", rank=2),
        Column("kind"),
        Column("what"),
        Column("count", right=True),
        Column("retries", right=True, rank=3),
        Column("input", right=True),
        Column("output", right=True),
        Column("cost USD", right=True),
        Column("worked", right=True, rank=1),
        Column("waited", right=True, rank=1),
    ]
    body = [
        [
            safe(named["agent"] or named["who"]), named["kind"], safe(named["tool"] or named["model"]),
            f"{named['count']:,}", *_counts(figures, decimals, named["kind"]), *_times(figures),
        ]
        for named, figures in rows
    ]  # fmt: skip
    foot = ["total", "", "", f"{total['spans']:,}", *_counts(total, decimals, "model"), _times(total)[0], ""]
    return table(columns, body, foot)


def _counts(figures: Figures, decimals: int, kind: str) -> list[str]:
    if kind != "model":
        return ["", "", "", ""]
    return [
        f"{figures['retries']:,}", figures.input_text(), figures.count_text("output"), figures.cost_text(decimals),
    ]  # fmt: skip


def _times(figures: Figures) -> list[str]:
    return [
        duration(figures[f"{name}_us"] if figures[f"{name}_known_spans"] else None) for name in ("ran", "waited")
    ]  # fmt: skip
