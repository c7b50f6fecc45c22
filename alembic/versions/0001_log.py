"""The tables of the log.

The statements are those of ledger/sql/sqlite/log.sql when format 1 was made. They are repeated here, since
that script moves on with the program and a migration never does.

Format: 1
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATEMENTS = (
    """CREATE TABLE blobs (
  sha256 BLOB NOT NULL,
  size_bytes INTEGER NOT NULL,
  encoding TEXT NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (sha256)
)
 STRICT""",
    """CREATE TABLE events (
  position INTEGER NOT NULL,
  event_id BLOB NOT NULL,
  session_id TEXT,
  stream_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  at INTEGER NOT NULL,
  writer TEXT NOT NULL,
  cause BLOB,
  turn TEXT,
  span TEXT,
  data TEXT NOT NULL,
  prev_hash BLOB,
  hash BLOB NOT NULL,
  PRIMARY KEY (position),
  UNIQUE (stream_id, version),
  UNIQUE (event_id)
)
 STRICT""",
    """CREATE TABLE log_meta (
  "key" TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY ("key")
)
 WITHOUT ROWID,
 STRICT""",
    """CREATE TABLE event_blobs (
  event_id BLOB NOT NULL,
  sha256 BLOB NOT NULL,
  PRIMARY KEY (event_id, sha256),
  FOREIGN KEY(event_id) REFERENCES events (event_id)
)
 WITHOUT ROWID,
 STRICT""",
    """CREATE INDEX event_blobs_by_blob ON event_blobs (sha256)""",
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
META = (("format", "1"), ("min_writer", "0.1.0"), ("hash_recipe", "1"))


def upgrade() -> None:
    """Make an empty log."""
    execute = op.get_bind().exec_driver_sql
    for statement in STATEMENTS:
        execute(statement)
    for key_and_value in META:
        execute('INSERT INTO log_meta ("key", value) VALUES (?, ?)', key_and_value)
    execute(f"PRAGMA application_id={0x7A117B00}")
