"""The tables of the log, owned by SQLAlchemy Core. Imported by `make sql` and tests, never at run time."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, MetaData, Table, UniqueConstraint

from ledger.sql.types import BYTES, INTEGER, TEXT

LOG = MetaData()

events = Table(
    "events",
    LOG,
    Column("position", INTEGER, primary_key=True, autoincrement=False),
    Column("event_id", BYTES, nullable=False, unique=True),
    Column("session_id", TEXT),
    Column("stream_id", TEXT, nullable=False),
    Column("version", INTEGER, nullable=False),
    Column("type", TEXT, nullable=False),
    Column("schema", INTEGER, nullable=False),
    Column("at", INTEGER, nullable=False),
    Column("writer", TEXT, nullable=False),
    Column("cause", BYTES),
    Column("turn", TEXT),
    Column("span", TEXT),
    Column("data", TEXT, nullable=False),
    Column("prev_hash", BYTES),
    Column("hash", BYTES, nullable=False),
    UniqueConstraint("stream_id", "version"),
    sqlite_strict=True,
)

blobs = Table(
    "blobs",
    LOG,
    Column("sha256", BYTES, primary_key=True),
    Column("size_bytes", INTEGER, nullable=False),
    Column("encoding", TEXT, nullable=False),
    Column("bytes", BYTES, nullable=False),
    sqlite_strict=True,
)

event_blobs = Table(
    "event_blobs",
    LOG,
    Column("event_id", BYTES, ForeignKey("events.event_id"), primary_key=True),
    Column("sha256", BYTES, primary_key=True),
    Index("event_blobs_by_blob", "sha256"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

log_meta = Table(
    "log_meta",
    LOG,
    Column("key", TEXT, primary_key=True),
    Column("value", TEXT, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

VOLUMES = MetaData()
"""What an SQLite log has beside these once it was rolled."""

carried = Table(
    "carried",
    VOLUMES,
    Column("stream_id", TEXT, primary_key=True),
    Column("version", INTEGER, nullable=False),
    Column("hash", BYTES, nullable=False),
    Column("position", INTEGER, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# What the database itself refuses. REPLACE walks past a delete trigger, so an insert guard stands beside it.
GUARDS = (
    """CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are immutable'); END""",
    """CREATE TRIGGER events_refuse_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are immutable'); END""",
    """CREATE TRIGGER events_refuse_replace BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
  OR EXISTS (SELECT 1 FROM events WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM events WHERE stream_id = NEW.stream_id AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are immutable'); END""",
    """CREATE TRIGGER blobs_refuse_update BEFORE UPDATE ON blobs
BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END""",
    """CREATE TRIGGER blobs_refuse_replace BEFORE INSERT ON blobs
WHEN EXISTS (SELECT 1 FROM blobs WHERE sha256 = NEW.sha256)
BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END""",
)
