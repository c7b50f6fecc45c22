"""`ledger report`: what it cost, by whatever is asked."""

from __future__ import annotations

import sys
from typing import Any

from ledger.accounts.catchup import View
from ledger.labels import NONE
from reports.address import row_address, total_address
from reports.billing import all_subscription, billing
from reports.figures import Figures, decimals_for
from reports.labels import labels_by_session
from reports.output import put, put_csv, put_json
from reports.query import Answer, Question, ask
from reports.text import Column, counted, dim, table, terminal_columns, width, wrapped


def report(view: View, question: Question, format_: str) -> None:
    """Answer the question and print it."""
    answer = ask(view, question)
    if format_ == "json":
        put_json(as_json(view, question, answer))
    elif format_ == "csv":
        put_csv(*_csv(question, answer))
    else:
        put(_table(view, question, answer))


def as_json(view: View, question: Question, answer: Answer) -> dict[str, Any]:
    """Return the answer as docs/report.md promises it."""
    rows = [
        {**dict(zip(question.by, key, strict=True)), **figures.as_json(), "address": row_address(question, key)}
        for key, figures in answer.rows
    ]
    if "session" in question.by:
        labels = labels_by_session(view)
        rows = [{**row, "labels": labels.get(row["session"], {})} for row in rows]
    return {
        "as_of": view.position,
        "billing": billing(view, question),
        "rows": rows,
        "total": {**answer.total.as_json(), "address": total_address(question)},
    }


def _csv(question: Question, answer: Answer) -> tuple[list[str], list[list[Any]]]:
    rows = []
    header: list[str] = []
    total = (("total", *[""] * (len(question.by) - 1)), answer.total)
    for key, figures in [*answer.rows, total]:
        fields = figures.as_json()
        tokens, unknown = fields.pop("tokens"), fields.pop("tokens_unknown")
        flat = {**fields, **{f"tokens_{name}": value for name, value in tokens.items()}}
        flat |= {f"tokens_unknown_{name}": value for name, value in unknown.items()}
        flat["address"] = row_address(question, key) if figures is not answer.total else total_address(question)
        header = [*question.by, *flat]
        rows.append([*key, *flat.values()])
    return header, rows


def _table(view: View, question: Question, answer: Answer) -> str:
    if not answer.rows:
        return "nothing matches: `ledger report` without filters shows all there is; `ledger import` reads more"
    modes = billing(view, question)
    at_list_price = all_subscription(view, question, modes)
    decimals = decimals_for([figures["cost_nanousd"] for _, figures in answer.rows])
    columns = [Column(name, path=name == "project") for name in question.by]
    columns += [
        Column("requests", right=True, rank=1),
        Column("failed", right=True, rank=6),
        Column("cut", right=True, rank=6),
        Column("retries", right=True, rank=7),
        Column("uncached", right=True, rank=4),
        Column("cache read", right=True, rank=4),
        Column("cache write", right=True, rank=4),
        Column("input", right=True),
        Column("output", right=True),
        Column("reasoning", right=True, rank=8),
        Column("at list price USD" if at_list_price else "cost USD", right=True),
        Column("as reported", right=True, rank=9),
        Column("last", rank=5),
    ]
    rows = [[*(value or NONE for value in key), *_cells(figures, decimals, question)] for key, figures in answer.rows]
    total = ["total", *[""] * (len(question.by) - 1), *_cells(answer.total, decimals, question)]
    drop = [place for place, column in enumerate(columns) if column.title in _empty(answer.total)]
    keep = [place for place in range(len(columns)) if place not in drop]
    text = table([columns[p] for p in keep], [[row[p] for p in keep] for row in rows], [total[p] for p in keep])
    notes = [*_notes(answer.total), *_billing_notes(modes, at_list_price)]
    return "\n".join([text, *map(wrapped, notes), *_hint(question, answer)])


def _hint(question: Question, answer: Answer) -> list[str]:
    """Return how a row is opened, for whoever can type it: only on a terminal."""
    if not sys.stdout.isatty():
        return []
    line = f"to open a row: ledger explain {row_address(question, answer.rows[-1][0])}"
    fits = width(line) <= terminal_columns()
    return [dim(line if fits else "to open a row: `ledger explain ADDRESS`; --format json has the addresses")]


def _cells(figures: Figures, decimals: int, question: Question) -> list[str]:
    known = figures.count_text
    last = "" if figures.last_at is None else f"{question.zone.moment(figures.last_at):%Y-%m-%d %H:%M}"
    reported = f"{figures['reported_cost_nanousd'] / 1e9:,.{decimals}f}" if figures["reported_cost_spans"] else "-"
    return [
        f"{figures['requests']:,}",
        f"{figures['failed']:,}",
        f"{_broken_off(figures):,}",
        f"{figures['retries']:,}",
        known("input_uncached"),
        known("cache_read"),
        known("cache_write_5m", "cache_write_1h"),
        figures.input_text(),
        known("output"),
        known("reasoning"),
        figures.cost_text(decimals),
        reported,
        last,
    ]


def _broken_off(figures: Figures) -> int:
    return figures["cut"] + figures["cancelled"] + figures["lost"]


def _empty(total: Figures) -> set[str]:
    """Return the columns that would say nothing in any row."""
    empty = set()
    if not total["failed"]:
        empty.add("failed")
    if not _broken_off(total):
        empty.add("cut")
    if not total["retries"]:
        empty.add("retries")
    if total["reasoning_unknown"] >= total["requests"]:
        empty.add("reasoning")
    if not total["reported_cost_spans"]:
        empty.add("as reported")
    return empty


def _billing_notes(modes: dict[str, str], at_list_price: bool) -> list[str]:
    """Return a line for each client whose cost is not what was paid, where the heading does not say so."""
    if at_list_price:
        return []
    words = {"subscription": "on a subscription: its cost is at list price", "mixed": "billed in several ways"}
    return [f"{client} is {words[mode]}" for client, mode in sorted(modes.items()) if mode in words]


_REASONS = {
    "unpriced_spans": "without a known cost: failed, or no price for the model or tier (`ledger prices set`)",
    "lower_bound_spans": "counted as a lower bound (>=): broken off, or with cache classes that are not told",
    "upper_bound_spans": "counted as an upper bound (<=): the cached part of the input is unknown",
}


def _notes(total: Figures) -> list[str]:
    """Return a line for each reason why a figure is not exact."""
    notes = []
    for name, what in _REASONS.items():
        count = total[name]
        if count:
            notes.append(f"{counted(count, 'request')} {what}")
    return notes
