"""The tables of the log, owned by SQLAlchemy Core. Imported by `make sql` and tests, never at run time."""

from __future__ import annotations

from sqlalchemy import BLOB, Column, ForeignKey, Index, Integer, MetaData, Table, Text, UniqueConstraint

LOG = MetaData()

events = Table(
    "events",
    LOG,
    Column("position", Integer, primary_key=True),
    Column("event_id", BLOB, nullable=False, unique=True),
    Column("session_id", Text),
    Column("stream_id", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("at", Integer, nullable=False),
    Column("writer", Text, nullable=False),
    Column("cause", BLOB),
    Column("turn", Text),
    Column("span", Text),
    Column("data", Text, nullable=False),
    Column("prev_hash", BLOB),
    Column("hash", BLOB, nullable=False),
    UniqueConstraint("stream_id", "version"),
    sqlite_strict=True,
)

blobs = Table(
    "blobs",
    LOG,
    Column("sha256", BLOB, primary_key=True),
    Column("size_bytes", Integer, nullable=False),
    Column("encoding", Text, nullable=False),
    Column("bytes", BLOB, nullable=False),
    sqlite_strict=True,
)

event_blobs = Table(
    "event_blobs",
    LOG,
    Column("event_id", BLOB, ForeignKey("events.event_id"), primary_key=True),
    Column("sha256", BLOB, primary_key=True),
    Index("event_blobs_by_blob", "sha256"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

log_meta = Table(
    "log_meta",
    LOG,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
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
