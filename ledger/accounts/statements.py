"""The statements of the projections, written with SQLAlchemy Core. `make sql` freezes them; see ledger/sql."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert  # its conflict clauses suit both dialects
from sqlalchemy.sql import ClauseElement

from ledger.accounts import schema
from ledger.accounts.amounts import AMOUNTS, GRAIN_MONTH, IMPORT_AMOUNTS
from ledger.accounts.rows import SEEN_AGAIN, UNKNOWN, USUAL, SpanRow
from ledger.sql.portable import larger, listed, smaller


def _key(table: Table) -> list[Column[Any]]:
    return list(table.primary_key.columns) or [table.c.span_id]


def _put(table: Table, values: dict[str, Any] | None = None) -> ClauseElement:
    """Insert a row, or bring the row of that key to these values."""
    statement = insert(table).values(values) if values else insert(table)
    key = {column.name for column in _key(table)}
    changes = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in key}
    return statement.on_conflict_do_update(index_elements=_key(table), set_=changes)


def _bound(names: Iterable[str]) -> dict[str, Any]:
    """What is bound to columns of spans, with rows.UNKNOWN and rows.NOTHING for NULL."""
    values: dict[str, Any] = {name: bindparam(name) for name in names}
    for name in SpanRow.OPTIONAL & values.keys():
        values[name] = func.nullif(values[name], literal_column("''" if name == "parent" else str(UNKNOWN)))
    return values


def _add_totals() -> ClauseElement:
    table = schema.totals
    statement = insert(table)
    new = statement.excluded
    changes: dict[str, Any] = {name: table.c[name] + new[name] for name in AMOUNTS}
    changes["first_at"] = smaller(table.c.first_at, new.first_at)
    changes["last_at"] = larger(table.c.last_at, new.last_at)
    return statement.on_conflict_do_update(index_elements=_key(table), set_=changes)


def _by(table: Table, *names: str) -> Select[Any]:
    return select(table).where(*(table.c[name] == bindparam(name) for name in names))


_spans, _sightings, _turns, _totals = schema.spans, schema.sightings, schema.turns, schema.totals


def _bounds(condition: ColumnElement[bool]) -> ClauseElement:
    at = _spans.c.occurred_at
    return select(func.min(at), func.max(at)).where(condition, at >= bindparam("begin_at"), at < bindparam("end_at"))


def _import_sums() -> ClauseElement:
    """What an import report is made of; `beside` counts the rows that have no line of their own."""
    dimensions = schema.dimensions
    sums = (func.sum(_totals.c[name]).label(name) for name in IMPORT_AMOUNTS)
    return (
        select(*sums)
        .join(dimensions, dimensions.c.dimension_id == _totals.c.dimension_id)
        .where(_totals.c.grain >= literal_column(str(GRAIN_MONTH)), dimensions.c.client == bindparam("client"))
    )


def _spans_of_groups() -> ClauseElement:
    """All spans of the groups in a JSON list: a span's id is its group's, a colon, and what tells it apart."""
    groups = listed("groups").table_valued("value", name="wanted")
    span_id = _spans.c.span_id
    low, high = (groups.c.value.op("||")(literal_column(end)) for end in ("':'", "';'"))
    return select(groups.c.value, _spans).select_from(groups).join(_spans, (span_id >= low) & (span_id < high))


def _earliest_own(*more: ColumnElement[bool]) -> ClauseElement:
    """When the first response was that no other session holds."""
    own = (_spans.c.session_key == bindparam("session_key"), _spans.c.contested < literal_column("2"))
    at = _spans.c.occurred_at
    alone = select(at).where(*own, _spans.c.part == literal_column("''"), *more)
    return alone.order_by(at).limit(literal_column("1"))


def _earliest_lacking() -> ClauseElement:
    """When the first response with several sightings was that one session holds and the other does not."""
    holds, lacks = _sightings.alias("holds"), _sightings.alias("lacks")
    other = select(lacks.c.group_id).where(
        lacks.c.group_id == holds.c.group_id, lacks.c.session_key == bindparam("other_key")
    )
    return select(func.min(holds.c.first_at)).where(holds.c.session_key == bindparam("holder_key"), ~other.exists())


def _put_turn() -> ClauseElement:
    """A turn begins with the first line that has its prompt, whichever is read first."""
    statement = insert(_turns)
    new = statement.excluded
    values: dict[str, Any] = {c.name: new[c.name] for c in _turns.columns if c.name != "turn_key"}
    values["started_at"] = smaller(_turns.c.started_at, new.started_at)
    return statement.on_conflict_do_update(index_elements=_key(_turns), set_=values)


def _cell() -> list[ColumnElement[bool]]:
    return [_totals.c[name] == bindparam(f"of_{name}") for name in ("grain", "bucket", "dimension_id")]


STATEMENTS: dict[str, ClauseElement] = {
    "put_span": _put(_spans, _bound(SpanRow.__struct_fields__)),
    "add_usual_span": insert(_spans).values(_bound(USUAL)),
    "see_span_again": update(_spans)
    .where(_spans.c.span_id == bindparam("of_span_id"))
    .values({name: bindparam(name) for name in SEEN_AGAIN}),
    "drop_span": delete(_spans).where(_spans.c.span_id == bindparam("span_id")),
    "spans_of_groups": _spans_of_groups(),
    "span": _by(_spans, "span_id"),
    "costs_of_spans": select(_spans.c.span_id, _spans.c.cost_nanousd).where(
        _spans.c.span_id.in_(select(listed("spans").table_valued("value", name="wanted").c.value))
    ),
    "session_spans": _by(_spans, "session_key"),
    "agent_spans": _by(_spans, "session_key", "agent_id"),
    "agent_spans_since": select(_spans).where(
        _spans.c.session_key == bindparam("session_key"),
        _spans.c.occurred_at >= bindparam("since_at"),
        _spans.c.agent_id == bindparam("agent_id"),
    ),
    "unpriced_of_quote": select(_spans.c.span_id).where(
        _spans.c.named_quote == bindparam("quote_key"),
        _spans.c.cost_nanousd.is_(None),
        _spans.c.named_quote != literal_column("0"),
    ),
    "spans_of_quote": select(_spans.c.span_id).where(_spans.c.named_quote == bindparam("quote_key")),
    "earliest_own": _earliest_own(),
    "earliest_own_of_agent": _earliest_own(_spans.c.agent_id == bindparam("agent_id")),
    "earliest_lacking": _earliest_lacking(),
    "dimension_bounds": _bounds(_spans.c.dimension_id == bindparam("dimension_id")),
    "session_bounds": select(func.min(_spans.c.occurred_at), func.max(_spans.c.occurred_at)).where(
        _spans.c.session_key == bindparam("session_key"), _spans.c.dimension_id == bindparam("dimension_id")
    ),
    "set_bounds": update(_totals).where(*_cell()).values(first_at=bindparam("first_at"), last_at=bindparam("last_at")),
    "put_sighting": _put(_sightings),
    "drop_sightings": delete(_sightings).where(_sightings.c.group_id == bindparam("group_id")),
    "sightings": _by(_sightings, "group_id"),
    "shared_groups": select(_sightings.c.group_id)
    .group_by(_sightings.c.group_id)
    .having(func.min(_sightings.c.session_key) < func.max(_sightings.c.session_key))
    .order_by(func.min(_sightings.c.source_position), _sightings.c.group_id),
    "session_groups": select(_sightings.c.group_id)
    .where(_sightings.c.session_key == bindparam("session_key"))
    .distinct(),
    "put_dimension": insert(schema.dimensions).on_conflict_do_nothing(),
    "dimension": _by(schema.dimensions, "dimension_id"),
    "put_session": _put(schema.sessions),
    "session": _by(schema.sessions, "session_key"),
    "put_turn": _put_turn(),
    "session_turns": _by(_turns, "session_key"),
    # A turn of unknown beginning is first: SQLite puts nulls there by itself, PostgreSQL does not.
    "turns": _by(_turns, "session_key", "agent_id").order_by(_turns.c.started_at.nulls_first(), _turns.c.turn_id),
    "put_job": _put(schema.jobs),
    "job": _by(schema.jobs, "job_key"),
    "put_agent": _put(schema.agents),
    "agent": _by(schema.agents, "session_key", "agent_id"),
    "agents_of_call": _by(schema.agents, "call_id"),
    "jobs_of_group": _by(schema.jobs, "group_id"),
    "superseded_quotes": select(schema.quotes.c.quote_key, schema.quotes.c.superseded_by).where(
        schema.quotes.c.superseded_by != literal_column("0")
    ),
    "span_quotes_of": select(schema.span_quotes.c.span_id).where(
        schema.span_quotes.c.quote_key == bindparam("quote_key")
    ),
    "put_quote": _put(schema.quotes),
    "put_replacement": _put(schema.replacements),
    "replacements": select(schema.replacements),
    "quote": _by(schema.quotes, "quote_key"),
    "spans_apart_of_quote": select(_spans.c.span_id)
    .join(schema.span_quotes, schema.span_quotes.c.span_id == _spans.c.span_id)
    .where(_spans.c.named_quote == bindparam("quote_key")),
    "any_span_quote": select(schema.span_quotes.c.span_id).limit(literal_column("1")),
    "put_span_quote": _put(schema.span_quotes),
    "span_quote": _by(schema.span_quotes, "span_id"),
    "all_sources": select(schema.sources),
    "all_quotes": select(schema.quotes),
    "import_sums": _import_sums(),
    "put_source": _put(schema.sources),
    "source": _by(schema.sources, "stream_id"),
    "add_span": insert(_spans).values(_bound(SpanRow.__struct_fields__)),
    "put_run": _put(schema.runs),
    "run": _by(schema.runs, "stream_id"),
    "put_run_turn": _put(schema.run_turns),
    "run_turn": _by(schema.run_turns, "turn_key"),
    "put_tool_call": _put(schema.tool_calls),
    "tool_call": _by(schema.tool_calls, "span_id"),
    "put_label": _put(schema.labels),
    "label": _by(schema.labels, "session_key", "label"),
    "put_purged": insert(schema.purged).on_conflict_do_nothing(),
    "purged": _by(schema.purged, "sha256"),
    "add_totals": _add_totals(),
    "drop_empty_total": delete(_totals).where(*_cell(), _totals.c.spans == literal_column("0")),
}
