"""The projection tables, owned by SQLAlchemy Core. Names begin with `gen_`, which stands for a generation.

A rebuild writes a new generation beside the live one and then switches; the same statements, with another
prefix, fold into temporary tables where the database cannot be written. Never imported at run time.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, MetaData, PrimaryKeyConstraint, Table, Text, text

from ledger.accounts.amounts import AMOUNTS, DIMENSIONS
from ledger.accounts.rows import SightingRow, SpanRow

PROJECTIONS = MetaData()

dimensions = Table(
    "gen_dimensions",
    PROJECTIONS,
    Column("dimension_id", Integer, primary_key=True),
    *(Column(name, Text, nullable=False) for name in DIMENSIONS),
    sqlite_strict=True,
)

sessions = Table(
    "gen_sessions",
    PROJECTIONS,
    Column("session_key", Integer, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("forked_from", Text, nullable=False),
    Column("parent", Text, nullable=False),
    Column("agent_type", Text, nullable=False),
    Column("has_records", Integer, nullable=False),
    sqlite_strict=True,
)

turns = Table(
    "gen_turns",
    PROJECTIONS,
    Column("turn_key", Integer, primary_key=True),
    Column("turn_id", Text, nullable=False),
    Column("session_key", Integer, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("started_at", Integer),
    Index("gen_turns_by_session", "session_key", "agent_id", "started_at"),
    sqlite_strict=True,
)

jobs = Table(
    "gen_jobs",
    PROJECTIONS,
    Column("job_key", Integer, primary_key=True),
    Column("call_id", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("group_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("agent_type", Text, nullable=False),
    Column("called_at", Integer),
    Column("returned_at", Integer),
    Column("status", Text, nullable=False),
    Index("gen_jobs_by_group", "group_id"),
    sqlite_strict=True,
)

agents = Table(
    "gen_agents",
    PROJECTIONS,
    Column("session_key", Integer, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("agent_type", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    PrimaryKeyConstraint("session_key", "agent_id"),
    Index("gen_agents_by_call", "call_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

_TEXT_COLUMNS = frozenset(
    ("span_id", "group_id", "variant", "agent_id", "parent", "attempt_kind", "part", "call_id", "ending")
)


def _columns(row: type[SpanRow] | type[SightingRow]) -> list[Column[object]]:
    optional = row.OPTIONAL
    return [
        Column(name, Text if name in _TEXT_COLUMNS else Integer, nullable=name in optional)
        for name in row.__struct_fields__
    ]


spans = Table(
    "gen_spans",
    PROJECTIONS,
    *_columns(SpanRow),
    PrimaryKeyConstraint("span_id"),
    Index("gen_spans_by_session", "session_key", "occurred_at"),
    Index("gen_spans_by_dimension", "dimension_id", "occurred_at"),
    Index("gen_spans_by_time", "occurred_at"),
    Index("gen_spans_by_quote", "named_quote", sqlite_where=text("cost_nanousd IS NULL AND named_quote <> 0")),
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
    Column("quote_key", Integer, primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("quote", Text),
    Column("superseded_by", Integer, nullable=False),
    sqlite_strict=True,
)

span_quotes = Table(
    "gen_span_quotes",
    PROJECTIONS,
    Column("span_id", Text, primary_key=True),
    Column("quote_key", Integer, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

sources = Table(
    "gen_sources",
    PROJECTIONS,
    Column("stream_id", Text, primary_key=True),
    Column("client", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("root", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("tail", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("mtime_ns", Integer, nullable=False),
    Column("device", Integer, nullable=False),
    Column("inode", Integer, nullable=False),
    Column("carry", Text, nullable=False),
    Column("billing", Text, nullable=False),
    sqlite_strict=True,
)

totals = Table(
    "gen_totals",
    PROJECTIONS,
    Column("grain", Integer, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("dimension_id", Integer, nullable=False),
    *(Column(name, Integer, nullable=False) for name in AMOUNTS),
    Column("first_at", Integer, nullable=False),
    Column("last_at", Integer, nullable=False),
    PrimaryKeyConstraint("grain", "bucket", "dimension_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
