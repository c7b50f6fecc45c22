CREATE TABLE gen_agents (
  session_key INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  agent_type TEXT NOT NULL,
  call_id TEXT NOT NULL,
  PRIMARY KEY (session_key, agent_id)
)
 WITHOUT ROWID,
 STRICT;;

CREATE INDEX gen_agents_by_call ON gen_agents (call_id);;

CREATE TABLE gen_dimensions (
  dimension_id INTEGER NOT NULL,
  project TEXT NOT NULL,
  branch TEXT NOT NULL,
  client TEXT NOT NULL,
  who TEXT NOT NULL,
  agent TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  kind TEXT NOT NULL,
  tool TEXT NOT NULL,
  status TEXT NOT NULL,
  PRIMARY KEY (dimension_id)
)
 STRICT;;

CREATE TABLE gen_jobs (
  job_key INTEGER NOT NULL,
  call_id TEXT NOT NULL,
  client TEXT NOT NULL,
  tool TEXT NOT NULL,
  group_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  agent_type TEXT NOT NULL,
  called_at INTEGER,
  returned_at INTEGER,
  status TEXT NOT NULL,
  PRIMARY KEY (job_key)
)
 STRICT;;

CREATE INDEX gen_jobs_by_group ON gen_jobs (group_id);;

CREATE TABLE gen_labels (
  session_key INTEGER NOT NULL,
  label TEXT NOT NULL,
  value TEXT NOT NULL,
  set_at INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  PRIMARY KEY (session_key, label)
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE gen_purged (
  sha256 TEXT NOT NULL,
  client TEXT NOT NULL,
  session_id TEXT NOT NULL,
  before_at INTEGER NOT NULL,
  PRIMARY KEY (sha256, client, session_id, before_at)
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE gen_quotes (
  quote_key INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  quote TEXT,
  superseded_by INTEGER NOT NULL,
  said TEXT NOT NULL,
  PRIMARY KEY (quote_key)
)
 STRICT;;

CREATE TABLE gen_replacements (
  said TEXT NOT NULL,
  old_key INTEGER NOT NULL,
  new_key INTEGER NOT NULL,
  PRIMARY KEY (said)
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE gen_run_turns (
  turn_key INTEGER NOT NULL,
  who TEXT NOT NULL,
  agent TEXT NOT NULL,
  number INTEGER NOT NULL,
  ended_at INTEGER,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  continues TEXT NOT NULL,
  PRIMARY KEY (turn_key)
)
 STRICT;;

CREATE TABLE gen_runs (
  stream_id TEXT NOT NULL,
  session_key INTEGER NOT NULL,
  folder TEXT NOT NULL,
  project TEXT NOT NULL,
  branch TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  turn_key INTEGER NOT NULL,
  tools_bytes INTEGER NOT NULL,
  PRIMARY KEY (stream_id)
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE gen_sessions (
  session_key INTEGER NOT NULL,
  session_id TEXT NOT NULL,
  client TEXT NOT NULL,
  forked_from TEXT NOT NULL,
  parent TEXT NOT NULL,
  agent_type TEXT NOT NULL,
  has_records INTEGER NOT NULL,
  PRIMARY KEY (session_key)
)
 STRICT;;

CREATE TABLE gen_sightings (
  group_id TEXT NOT NULL,
  variant TEXT NOT NULL,
  session_key INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  sidechain INTEGER NOT NULL,
  nested INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  final INTEGER NOT NULL,
  ending TEXT NOT NULL,
  rank INTEGER NOT NULL,
  digest INTEGER NOT NULL,
  source_position INTEGER NOT NULL,
  source_index INTEGER NOT NULL,
  PRIMARY KEY (group_id, variant, session_key, agent_id, sidechain, nested)
)
 WITHOUT ROWID,
 STRICT;;

CREATE INDEX gen_sightings_by_session ON gen_sightings (session_key);;

CREATE TABLE gen_sources (
  stream_id TEXT NOT NULL,
  client TEXT NOT NULL,
  path TEXT NOT NULL,
  root TEXT NOT NULL,
  version INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  tail TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  device INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  carry TEXT NOT NULL,
  billing TEXT NOT NULL,
  origin TEXT NOT NULL,
  PRIMARY KEY (stream_id)
)
 STRICT;;

CREATE TABLE gen_span_quotes (
  span_id TEXT NOT NULL,
  quote_key INTEGER NOT NULL,
  said TEXT NOT NULL,
  PRIMARY KEY (span_id)
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE gen_spans (
  span_id TEXT NOT NULL,
  session_key INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  turn_key INTEGER NOT NULL,
  dimension_id INTEGER NOT NULL,
  occurred_at INTEGER NOT NULL,
  parent TEXT,
  ended_at INTEGER,
  ran_us INTEGER,
  waited_us INTEGER,
  input_uncached INTEGER,
  cache_read INTEGER,
  cache_write_5m INTEGER,
  cache_write_1h INTEGER,
  output INTEGER,
  reasoning INTEGER,
  reported_total INTEGER,
  web_searches INTEGER,
  partial INTEGER DEFAULT 0 NOT NULL,
  lower_bound INTEGER DEFAULT 0 NOT NULL,
  upper_bound INTEGER DEFAULT 0 NOT NULL,
  cost_nanousd INTEGER,
  named_quote INTEGER DEFAULT 0 NOT NULL,
  quote INTEGER DEFAULT 0 NOT NULL,
  first_cost_nanousd INTEGER,
  reported_cost_nanousd INTEGER,
  attempt INTEGER DEFAULT 1 NOT NULL,
  attempt_kind TEXT DEFAULT 'first' NOT NULL,
  http_status INTEGER DEFAULT 0 NOT NULL,
  part TEXT DEFAULT '' NOT NULL,
  call_id TEXT DEFAULT '' NOT NULL,
  source_position INTEGER DEFAULT 0 NOT NULL,
  source_index INTEGER DEFAULT 0 NOT NULL,
  final INTEGER DEFAULT 0 NOT NULL,
  ending TEXT DEFAULT '' NOT NULL,
  lines INTEGER DEFAULT 1 NOT NULL,
  copied_lines INTEGER DEFAULT 0 NOT NULL,
  replayed_lines INTEGER DEFAULT 0 NOT NULL,
  rank INTEGER DEFAULT 0 NOT NULL,
  sidechain INTEGER DEFAULT 0 NOT NULL,
  nested INTEGER DEFAULT 0 NOT NULL,
  contested INTEGER DEFAULT 0 NOT NULL
)
 STRICT;;

CREATE INDEX gen_spans_by_dimension ON gen_spans (dimension_id, occurred_at);;

CREATE UNIQUE INDEX gen_spans_by_id ON gen_spans (span_id);;

CREATE INDEX gen_spans_by_quote ON gen_spans (named_quote) WHERE cost_nanousd IS NULL AND named_quote <> 0;;

CREATE INDEX gen_spans_by_session ON gen_spans (session_key, occurred_at);;

CREATE INDEX gen_spans_by_time ON gen_spans (occurred_at);;

CREATE TABLE gen_tool_calls (
  span_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  arguments_bytes INTEGER NOT NULL,
  result_bytes INTEGER,
  truncated INTEGER NOT NULL,
  exit_code INTEGER,
  PRIMARY KEY (span_id)
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE gen_totals (
  grain INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  dimension_id INTEGER NOT NULL,
  spans INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  cut INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  open INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  fallbacks INTEGER NOT NULL,
  beside INTEGER NOT NULL,
  input_uncached INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write_5m INTEGER NOT NULL,
  cache_write_1h INTEGER NOT NULL,
  output INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  input_uncached_unknown INTEGER NOT NULL,
  cache_read_unknown INTEGER NOT NULL,
  cache_write_5m_unknown INTEGER NOT NULL,
  cache_write_1h_unknown INTEGER NOT NULL,
  output_unknown INTEGER NOT NULL,
  reasoning_unknown INTEGER NOT NULL,
  unknown_usage_spans INTEGER NOT NULL,
  partial_spans INTEGER NOT NULL,
  lower_bound_spans INTEGER NOT NULL,
  upper_bound_spans INTEGER NOT NULL,
  unpriced_spans INTEGER NOT NULL,
  priced_spans INTEGER NOT NULL,
  cost_nanousd INTEGER NOT NULL,
  reported_cost_spans INTEGER NOT NULL,
  reported_cost_nanousd INTEGER NOT NULL,
  ran_known_spans INTEGER NOT NULL,
  ran_us INTEGER NOT NULL,
  waited_known_spans INTEGER NOT NULL,
  waited_us INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  copied_lines INTEGER NOT NULL,
  replayed_lines INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (grain, bucket, dimension_id)
)
 WITHOUT ROWID,
 STRICT;;

CREATE TABLE gen_turns (
  turn_key INTEGER NOT NULL,
  turn_id TEXT NOT NULL,
  session_key INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  started_at INTEGER,
  PRIMARY KEY (turn_key)
)
 STRICT;;

CREATE INDEX gen_turns_by_session ON gen_turns (session_key, agent_id, started_at);;
