"""The projection tables, owned by SQLAlchemy Core. Names begin with `gen_`, which stands for a generation.

A rebuild writes a new generation beside the live one and then switches; the same statements, with another
prefix, fold into temporary tables where the database cannot be written. Never imported at run time.
"""

from __future__ import annotations

from msgspec import NODEFAULT
from msgspec.structs import fields
from sqlalchemy import Column, Index, MetaData, PrimaryKeyConstraint, Table, TextClause, text

from ledger.accounts.amounts import AMOUNTS, DIMENSIONS
from ledger.accounts.rows import SightingRow, SpanRow
from ledger.sql.types import BYTES, INTEGER, TEXT

PROJECTIONS = MetaData()

dimensions = Table(
    "gen_dimensions",
    PROJECTIONS,
    Column("dimension_id", INTEGER, primary_key=True, autoincrement=False),
    *(Column(name, TEXT, nullable=False) for name in DIMENSIONS),
    sqlite_strict=True,
)

sessions = Table(
    "gen_sessions",
    PROJECTIONS,
    Column("session_key", INTEGER, primary_key=True, autoincrement=False),
    Column("session_id", TEXT, nullable=False),
    Column("client", TEXT, nullable=False),
    Column("forked_from", TEXT, nullable=False),
    Column("parent", TEXT, nullable=False),
    Column("agent_type", TEXT, nullable=False),
    Column("has_records", INTEGER, nullable=False),
    sqlite_strict=True,
)

turns = Table(
    "gen_turns",
    PROJECTIONS,
    Column("turn_key", INTEGER, primary_key=True, autoincrement=False),
    Column("turn_id", TEXT, nullable=False),
    Column("session_key", INTEGER, nullable=False),
    Column("agent_id", TEXT, nullable=False),
    Column("started_at", INTEGER),
    Index("gen_turns_by_session", "session_key", "agent_id", "started_at"),
    sqlite_strict=True,
)

jobs = Table(
    "gen_jobs",
    PROJECTIONS,
    Column("job_key", INTEGER, primary_key=True, autoincrement=False),
    Column("call_id", TEXT, nullable=False),
    Column("client", TEXT, nullable=False),
    Column("tool", TEXT, nullable=False),
    Column("group_id", TEXT, nullable=False),
    Column("agent_id", TEXT, nullable=False),
    Column("agent_type", TEXT, nullable=False),
    Column("called_at", INTEGER),
    Column("returned_at", INTEGER),
    Column("status", TEXT, nullable=False),
    Index("gen_jobs_by_group", "group_id"),
    sqlite_strict=True,
)

agents = Table(
    "gen_agents",
    PROJECTIONS,
    Column("session_key", INTEGER, nullable=False),
    Column("agent_id", TEXT, nullable=False),
    Column("agent_type", TEXT, nullable=False),
    Column("call_id", TEXT, nullable=False),
    PrimaryKeyConstraint("session_key", "agent_id"),
    Index("gen_agents_by_call", "call_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

_TEXT_COLUMNS = frozenset(
    ("span_id", "group_id", "variant", "agent_id", "parent", "attempt_kind", "part", "call_id", "ending")
)


def _columns(row: type[SpanRow] | type[SightingRow]) -> list[Column[object]]:
    optional, defaults = row.OPTIONAL, {field.name: field.default for field in fields(row)}
    return [
        Column(
            name,
            TEXT if name in _TEXT_COLUMNS else INTEGER,
            nullable=name in optional,
            server_default=_literal(defaults[name]),
        )
        for name in row.__struct_fields__
    ]


def _literal(default: object) -> TextClause | None:
    """Return what a column is where a statement does not name it: what it is in the typed row."""
    return None if default is None or default is NODEFAULT else text(repr(default))


_UNPRICED = text("cost_nanousd IS NULL AND named_quote <> 0")

spans = Table(
    "gen_spans",
    PROJECTIONS,
    *_columns(SpanRow),
    # An index and not a primary key: a rebuild makes it when the rows are there, by one sort.
    Index("gen_spans_by_id", "span_id", unique=True),
    Index("gen_spans_by_session", "session_key", "occurred_at"),
    Index("gen_spans_by_dimension", "dimension_id", "occurred_at"),
    Index("gen_spans_by_time", "occurred_at"),
    Index("gen_spans_by_quote", "named_quote", sqlite_where=_UNPRICED, postgresql_where=_UNPRICED),
    sqlite_strict=True,
)

sightings = Table(
    "gen_sightings",
    PROJECTIONS,
    *_columns(SightingRow),
    PrimaryKeyConstraint("group_id", "variant", "session_key", "agent_id", "sidechain", "nested"),
    Index("gen_sightings_by_session", "session_key"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

quotes = Table(
    "gen_quotes",
    PROJECTIONS,
    Column("quote_key", INTEGER, primary_key=True, autoincrement=False),
    Column("sha256", TEXT, nullable=False),
    Column("quote", TEXT),
    Column("superseded_by", INTEGER, nullable=False),
    Column("said", TEXT, nullable=False),
    sqlite_strict=True,
)

replacements = Table(
    "gen_replacements",
    PROJECTIONS,
    Column("said", TEXT, primary_key=True),
    Column("old_key", INTEGER, nullable=False),
    Column("new_key", INTEGER, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

span_quotes = Table(
    "gen_span_quotes",
    PROJECTIONS,
    Column("span_id", TEXT, primary_key=True),
    Column("quote_key", INTEGER, nullable=False),
    Column("said", TEXT, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

sources = Table(
    "gen_sources",
    PROJECTIONS,
    Column("stream_id", TEXT, primary_key=True),
    Column("client", TEXT, nullable=False),
    Column("path", TEXT, nullable=False),
    Column("root", TEXT, nullable=False),
    Column("version", INTEGER, nullable=False),
    Column("end", INTEGER, nullable=False),
    Column("tail", TEXT, nullable=False),
    Column("size", INTEGER, nullable=False),
    Column("mtime_ns", INTEGER, nullable=False),
    Column("device", INTEGER, nullable=False),
    Column("inode", INTEGER, nullable=False),
    Column("carry", TEXT, nullable=False),
    Column("billing", TEXT, nullable=False),
    Column("origin", TEXT, nullable=False),
    sqlite_strict=True,
)

labels = Table(
    "gen_labels",
    PROJECTIONS,
    Column("session_key", INTEGER, nullable=False),
    Column("label", TEXT, nullable=False),
    Column("value", TEXT, nullable=False),
    Column("set_at", INTEGER, nullable=False),
    Column("event_id", TEXT, nullable=False),
    PrimaryKeyConstraint("session_key", "label"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

runs = Table(
    "gen_runs",
    PROJECTIONS,
    Column("stream_id", TEXT, primary_key=True),
    Column("session_key", INTEGER, nullable=False),
    Column("folder", TEXT, nullable=False),
    Column("project", TEXT, nullable=False),
    Column("branch", TEXT, nullable=False),
    Column("provider", TEXT, nullable=False),
    Column("model", TEXT, nullable=False),
    Column("turn_key", INTEGER, nullable=False),
    Column("tools_bytes", INTEGER, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

run_turns = Table(
    "gen_run_turns",
    PROJECTIONS,
    Column("turn_key", INTEGER, primary_key=True, autoincrement=False),
    Column("who", TEXT, nullable=False),
    Column("agent", TEXT, nullable=False),
    Column("number", INTEGER, nullable=False),
    Column("ended_at", INTEGER),
    Column("outcome", TEXT, nullable=False),
    Column("reason", TEXT, nullable=False),
    Column("continues", TEXT, nullable=False),
    sqlite_strict=True,
)

tool_calls = Table(
    "gen_tool_calls",
    PROJECTIONS,
    Column("span_id", TEXT, primary_key=True),
    Column("call_id", TEXT, nullable=False),
    Column("arguments_bytes", INTEGER, nullable=False),
    Column("result_bytes", INTEGER),
    Column("truncated", INTEGER, nullable=False),
    Column("exit_code", INTEGER),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

purged = Table(
    "gen_purged",
    PROJECTIONS,
    Column("sha256", TEXT, nullable=False),
    Column("client", TEXT, nullable=False),
    Column("session_id", TEXT, nullable=False),
    Column("before_at", INTEGER, nullable=False),
    PrimaryKeyConstraint("sha256", "client", "session_id", "before_at"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

totals = Table(
    "gen_totals",
    PROJECTIONS,
    Column("grain", INTEGER, nullable=False),
    Column("bucket", INTEGER, nullable=False),
    Column("dimension_id", INTEGER, nullable=False),
    *(Column(name, INTEGER, nullable=False) for name in AMOUNTS),
    Column("first_at", INTEGER, nullable=False),
    Column("last_at", INTEGER, nullable=False),
    PrimaryKeyConstraint("grain", "bucket", "dimension_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

CHECKPOINT = MetaData()

Table(
    "projections",
    CHECKPOINT,
    Column("generation", INTEGER, primary_key=True, autoincrement=False),
    Column("version", INTEGER, nullable=False),
    Column("position", INTEGER, nullable=False),
    Column("live", INTEGER, nullable=False),
    Column("head", BYTES),
    sqlite_strict=True,
)

for _name in ("witnesses", "verified"):
    Table(
        _name,
        CHECKPOINT,
        Column("position", INTEGER, primary_key=True, autoincrement=False),
        Column("head", BYTES, nullable=False),
        sqlite_strict=True,
    )
