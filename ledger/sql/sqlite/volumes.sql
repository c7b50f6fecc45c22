CREATE TABLE carried (
  stream_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  hash BLOB NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (stream_id)
)
 WITHOUT ROWID,
 STRICT;;
