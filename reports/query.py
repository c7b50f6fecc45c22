"""What a report asks for, and the rows that answer it: sums of totals, or of spans where totals are too coarse."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ledger.accounts.amounts import (
    AMOUNTS,
    DIMENSIONS,
    GRAIN_DAY,
    GRAIN_EDGE,
    GRAIN_MONTH,
    GRAIN_QUARTER,
    GRAIN_SESSION,
    QUARTER_HOUR_US,
)
from ledger.accounts.catchup import View
from ledger.accounts.rows import SpanRow, contribution
from ledger.errors import UsageError
from reports.figures import Figures
from reports.labels import is_label, label_columns, label_filters, label_joins
from reports.months import begins_month, month_begin, utc_months
from reports.periods import PERIODS, Zone, parse_day

BY = ("session", *DIMENSIONS, *PERIODS)
"""Every dimension a report may be grouped by."""
SORTS = ("cost", "tokens", "time")
KINDS = ("model", "tool", "hook", "approval")
_FOREVER = 1 << 62


class Question(NamedTuple):
    """What is asked: grouping, filters (dimension, wanted value), the half-open time span, zone, order."""

    by: tuple[str, ...]
    filters: tuple[tuple[str, str], ...]
    since_us: int | None
    until_us: int | None
    zone: Zone
    sort: str


class Answer(NamedTuple):
    """Rows of (values of the grouping, figures), and the total over all of them."""

    rows: list[tuple[tuple[str, ...], Figures]]
    total: Figures


def make_question(
    by: str,
    *,
    session: str | None = None,
    project: str | None = None,
    model: str | None = None,
    client: str | None = None,
    kind: str | None = None,
    since: str | None = None,
    until: str | None = None,
    tz: str | None = None,
    sort: str | None = None,
    label: Sequence[str] = (),
) -> Question:
    """Return the question that a command line asks. Raises UsageError for an unknown word."""
    names = tuple(dict.fromkeys(part.strip() for part in by.split(",") if part.strip()))
    for name in names:
        if name not in BY and not is_label(name):
            raise UsageError(f"--by {name}: unknown: use one or more of {', '.join(BY)}, with commas between")
    if not names:
        raise UsageError(f"--by: name at least one of {', '.join(BY)}")
    zone, now_us = Zone(tz), time.time_ns() // 1000
    since_us = None if since is None else parse_day(since, zone, now_us)
    until_us = None if until is None else parse_day(until, zone, now_us, "--until")
    if since_us is not None and until_us is not None and until_us <= since_us:
        raise UsageError("--until is exclusive and must be later than --since: name the day after the last one")
    if sort is not None and sort not in SORTS:
        raise UsageError(f"--sort {sort}: unknown: use one of {', '.join(SORTS)}")
    if kind is not None and kind not in KINDS:
        raise UsageError(f"--kind {kind}: unknown: use one of {', '.join(KINDS)}")
    given = {"session": session, "project": project, "model": model, "client": client, "kind": kind}
    filters = tuple((name, value) for name, value in given.items() if value is not None) + label_filters(label)
    timely = "session" in names or set(names) & set(PERIODS)
    return Question(names, filters, since_us, until_us, zone, sort or ("time" if timely else "cost"))


def ask(view: View, question: Question) -> Answer:
    """Answer a question from one snapshot of the accounts."""
    named = (*question.by, *(name for name, _ in question.filters))
    by_session = "session" in named or any(map(is_label, named))
    by_time = question.since_us is not None or question.until_us is not None or set(question.by) & set(PERIODS)
    if not by_session:
        groups = _from_totals(view, question, _grain(question))
    elif not by_time:
        groups = _from_totals(view, question, GRAIN_SESSION)
    else:
        groups = _from_spans(view, question)
    return _ordered(groups, question)


def _grain(question: Question) -> int:
    """Return the coarsest grain of time that answers a question exactly."""
    bounds = [at for at in (question.since_us, question.until_us) if at is not None]
    if set(question.by) & set(PERIODS) <= {"month"} and all(begins_month(question.zone, at) for at in bounds):
        return GRAIN_MONTH
    return GRAIN_DAY if question.zone.is_utc else GRAIN_QUARTER


Groups = dict[tuple[str, ...], Figures]


def _from_totals(view: View, question: Question, grain: int) -> Groups:
    """Sum the totals of a grain: the cells hold every dimension, the bucket holds day or session."""
    plain = [name for name in question.by if name in DIMENSIONS]
    timely = bool(set(question.by) & set(PERIODS))
    labelled = _label_columns(question)
    plain += [name for name in labelled if name in question.by]
    columns = [labelled.get(name, f"d.{name}") for name in plain]
    months = utc_months(view) if grain == GRAIN_MONTH and question.zone.is_utc else None
    tables = f"{months or 'gen_totals'} AS t JOIN gen_dimensions AS d ON d.dimension_id = t.dimension_id"
    if grain == GRAIN_SESSION:
        tables += " JOIN gen_sessions AS s ON s.session_key = t.bucket" + label_joins(labelled, "t.bucket")
        columns += ["s.session_id"] if "session" in question.by else []
    elif timely:
        columns.append(month_begin(view, question.zone) if grain == GRAIN_MONTH else "t.bucket")
    where, parameters = conditions(question, "t.bucket" if grain != GRAIN_SESSION else None)
    sums = ", ".join(f"sum(t.{name})" for name in AMOUNTS)
    sql = f"SELECT {', '.join([*columns, sums])}, min(t.first_at), max(t.last_at) FROM {tables} WHERE t.grain IN (?, ?)"
    sql += "".join(f" AND {condition}" for condition in where)
    if columns:
        sql += f" GROUP BY {', '.join(str(number) for number in range(1, len(columns) + 1))}"
    second = {GRAIN_MONTH: GRAIN_DAY if months else GRAIN_EDGE}.get(grain, grain)
    labels = {name: question.zone.label(name) for name in question.by if name in PERIODS}
    groups: Groups = {}
    for row in view.store.query(sql, grain, second, *parameters):
        width = len(columns)
        if row[width] is None:
            continue
        values = dict(zip(plain, row, strict=False))
        if grain == GRAIN_SESSION and "session" in question.by:
            values["session"] = row[width - 1]
        for name, label in labels.items():
            values[name] = label(row[width - 1])
        key = tuple(values[name] for name in question.by)
        groups.setdefault(key, Figures()).add(row[width:-2], row[-2], row[-1])
    return groups


def _label_columns(question: Question) -> dict[str, str]:
    return label_columns((*question.by, *(name for name, _ in question.filters)))


def conditions(question: Question, bucket: str | None) -> tuple[list[str], list[Any]]:
    """Return what a question keeps, as SQL over gen_sessions AS s and gen_dimensions AS d, with its parameters.

    `bucket` is the column that has the time, None where the question has no since and until. Labels need their joins.
    """
    labelled = _label_columns(question)
    where: list[str] = []
    parameters: list[Any] = []
    for name, value in question.filters:
        if name == "session":
            where.append("substr(s.session_id, 1, length(?)) = ?")
            parameters += [value, value]
        elif name == "project":
            folder = value.rstrip("/")
            where.append("(d.project IN (?, ?) OR substr(d.project, length(d.project) - length(?) + 1) = ?)")
            parameters += [value, folder or value, *["/" + folder if folder else value or "//"] * 2]  # "": none ends so
        else:
            where.append(f"{labelled.get(name, f'd.{name}')} = ?")
            parameters.append(value)
    if bucket and question.since_us is not None:
        where.append(f"{bucket} >= ?")
        parameters.append(question.since_us)
    if bucket and question.until_us is not None:
        where.append(f"{bucket} < ?")
        parameters.append(question.until_us)
    return where, parameters


def _from_spans(view: View, question: Question) -> Groups:
    """Sum the spans themselves: a session's spans within a time span are in no total."""
    spans = ", ".join(f"p.{name}" for name in SpanRow.__struct_fields__)
    labelled = _label_columns(question)
    dimensions = ", ".join([*(f"d.{name}" for name in DIMENSIONS), *labelled.values()])
    sql = (
        f"SELECT s.session_id, {dimensions}, {spans} FROM gen_spans AS p "
        "JOIN gen_sessions AS s ON s.session_key = p.session_key "
        "JOIN gen_dimensions AS d ON d.dimension_id = p.dimension_id"
    )
    sql += f"{label_joins(labelled, 'p.session_key')} WHERE 1 = 1"
    where, parameters = conditions(question, "p.occurred_at")
    sql += "".join(f" AND {condition}" for condition in where)
    names = ("session", *DIMENSIONS, *labelled)
    kind, status = names.index("kind"), names.index("status")
    labels = {name: question.zone.label(name) for name in question.by if name in PERIODS}
    groups: Groups = {}
    for row in view.store.query(sql, *parameters):
        span = SpanRow(*row[len(names) :])
        values = dict(zip(names, row, strict=False))
        for name, label in labels.items():
            values[name] = label(span.occurred_at - span.occurred_at % QUARTER_HOUR_US)
        key = tuple(values[name] for name in question.by)
        amounts = contribution(span, row[kind], row[status])
        groups.setdefault(key, Figures()).add(amounts, span.occurred_at, span.occurred_at)
    return groups


def _ordered(groups: Groups, question: Question) -> Answer:
    total = Figures()
    for figures in groups.values():
        total.add(figures.amounts, figures.first_at, figures.last_at)
    rows = sorted(groups.items())
    if question.sort == "cost":
        rows.sort(key=lambda row: (-row[1]["cost_nanousd"], -row[1].tokens))
    elif question.sort == "tokens":
        rows.sort(key=lambda row: -row[1].tokens)
    elif set(question.by) & set(PERIODS):
        places = [question.by.index(name) for name in question.by if name in PERIODS]
        rows.sort(key=lambda row: tuple(row[0][place] for place in places))
    else:
        rows.sort(key=lambda row: row[1].first_at if row[1].first_at is not None else _FOREVER)
    return Answer(rows, total)


def known_values(view: View, name: str) -> Iterable[str]:
    """Return the values that a dimension has in the accounts."""
    column = "session_id" if name == "session" else name
    table = "gen_sessions" if name == "session" else "gen_dimensions"
    sql = f"SELECT DISTINCT {column} FROM {table} ORDER BY 1"
    return [row[0] for row in view.store.query(sql)]
