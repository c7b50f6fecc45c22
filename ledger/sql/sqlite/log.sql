CREATE TABLE blobs (
  sha256 BLOB NOT NULL,
  size_bytes INTEGER NOT NULL,
  encoding TEXT NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (sha256)
)
 STRICT;;

CREATE TABLE events (
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
 STRICT;;

CREATE TABLE log_meta (
  "key" TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY ("key")
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE event_blobs (
  event_id BLOB NOT NULL,
  sha256 BLOB NOT NULL,
  PRIMARY KEY (event_id, sha256),
  FOREIGN KEY(event_id) REFERENCES events (event_id)
)
 WITHOUT ROWID,
 STRICT;;

CREATE INDEX event_blobs_by_blob ON event_blobs (sha256);;

CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are immutable'); END;;

CREATE TRIGGER events_refuse_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are immutable'); END;;

CREATE TRIGGER events_refuse_replace BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position)
  OR EXISTS (SELECT 1 FROM events WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM events WHERE stream_id = NEW.stream_id AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are immutable'); END;;

CREATE TRIGGER blobs_refuse_update BEFORE UPDATE ON blobs
BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END;;

CREATE TRIGGER blobs_refuse_replace BEFORE INSERT ON blobs
WHEN EXISTS (SELECT 1 FROM blobs WHERE sha256 = NEW.sha256)
BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END;;
