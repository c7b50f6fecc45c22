CREATE TABLE gen_agents (
  session_key BIGINT NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  agent_type TEXT COLLATE "C" NOT NULL,
  call_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (session_key, agent_id)
);;

CREATE INDEX gen_agents_by_call ON gen_agents (call_id);;

CREATE TABLE gen_dimensions (
  dimension_id BIGINT NOT NULL,
  project TEXT COLLATE "C" NOT NULL,
  branch TEXT COLLATE "C" NOT NULL,
  client TEXT COLLATE "C" NOT NULL,
  who TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (dimension_id)
);;

CREATE TABLE gen_jobs (
  job_key BIGINT NOT NULL,
  call_id TEXT COLLATE "C" NOT NULL,
  client TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  group_id TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  agent_type TEXT COLLATE "C" NOT NULL,
  called_at BIGINT,
  returned_at BIGINT,
  status TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (job_key)
);;

CREATE INDEX gen_jobs_by_group ON gen_jobs (group_id);;

CREATE TABLE gen_labels (
  session_key BIGINT NOT NULL,
  label TEXT COLLATE "C" NOT NULL,
  value TEXT COLLATE "C" NOT NULL,
  set_at BIGINT NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (session_key, label)
);;

CREATE TABLE gen_purged (
  sha256 TEXT COLLATE "C" NOT NULL,
  client TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  before_at BIGINT NOT NULL,
  PRIMARY KEY (sha256, client, session_id, before_at)
);;

CREATE TABLE gen_quotes (
  quote_key BIGINT NOT NULL,
  sha256 TEXT COLLATE "C" NOT NULL,
  quote TEXT COLLATE "C",
  superseded_by BIGINT NOT NULL,
  said TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (quote_key)
);;

CREATE TABLE gen_replacements (
  said TEXT COLLATE "C" NOT NULL,
  old_key BIGINT NOT NULL,
  new_key BIGINT NOT NULL,
  PRIMARY KEY (said)
);;

CREATE TABLE gen_run_turns (
  turn_key BIGINT NOT NULL,
  who TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  number BIGINT NOT NULL,
  ended_at BIGINT,
  outcome TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  continues TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (turn_key)
);;

CREATE TABLE gen_runs (
  stream_id TEXT COLLATE "C" NOT NULL,
  session_key BIGINT NOT NULL,
  folder TEXT COLLATE "C" NOT NULL,
  project TEXT COLLATE "C" NOT NULL,
  branch TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  turn_key BIGINT NOT NULL,
  tools_bytes BIGINT NOT NULL,
  PRIMARY KEY (stream_id)
);;

CREATE TABLE gen_sessions (
  session_key BIGINT NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  client TEXT COLLATE "C" NOT NULL,
  forked_from TEXT COLLATE "C" NOT NULL,
  parent TEXT COLLATE "C" NOT NULL,
  agent_type TEXT COLLATE "C" NOT NULL,
  has_records BIGINT NOT NULL,
  PRIMARY KEY (session_key)
);;

CREATE TABLE gen_sightings (
  group_id TEXT COLLATE "C" NOT NULL,
  variant TEXT COLLATE "C" NOT NULL,
  session_key BIGINT NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  sidechain BIGINT NOT NULL,
  nested BIGINT NOT NULL,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  lines BIGINT NOT NULL,
  final BIGINT NOT NULL,
  ending TEXT COLLATE "C" NOT NULL,
  rank BIGINT NOT NULL,
  digest BIGINT NOT NULL,
  source_position BIGINT NOT NULL,
  source_index BIGINT NOT NULL,
  PRIMARY KEY (group_id, variant, session_key, agent_id, sidechain, nested)
);;

CREATE INDEX gen_sightings_by_session ON gen_sightings (session_key);;

CREATE TABLE gen_sources (
  stream_id TEXT COLLATE "C" NOT NULL,
  client TEXT COLLATE "C" NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  root TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  "end" BIGINT NOT NULL,
  tail TEXT COLLATE "C" NOT NULL,
  size BIGINT NOT NULL,
  mtime_ns BIGINT NOT NULL,
  device BIGINT NOT NULL,
  inode BIGINT NOT NULL,
  carry TEXT COLLATE "C" NOT NULL,
  billing TEXT COLLATE "C" NOT NULL,
  origin TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (stream_id)
);;

CREATE TABLE gen_span_quotes (
  span_id TEXT COLLATE "C" NOT NULL,
  quote_key BIGINT NOT NULL,
  said TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (span_id)
);;

CREATE TABLE gen_spans (
  span_id TEXT COLLATE "C" NOT NULL,
  session_key BIGINT NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  turn_key BIGINT NOT NULL,
  dimension_id BIGINT NOT NULL,
  occurred_at BIGINT NOT NULL,
  parent TEXT COLLATE "C",
  ended_at BIGINT,
  ran_us BIGINT,
  waited_us BIGINT,
  input_uncached BIGINT,
  cache_read BIGINT,
  cache_write_5m BIGINT,
  cache_write_1h BIGINT,
  output BIGINT,
  reasoning BIGINT,
  reported_total BIGINT,
  web_searches BIGINT,
  partial BIGINT DEFAULT 0 NOT NULL,
  lower_bound BIGINT DEFAULT 0 NOT NULL,
  upper_bound BIGINT DEFAULT 0 NOT NULL,
  cost_nanousd BIGINT,
  named_quote BIGINT DEFAULT 0 NOT NULL,
  quote BIGINT DEFAULT 0 NOT NULL,
  first_cost_nanousd BIGINT,
  reported_cost_nanousd BIGINT,
  attempt BIGINT DEFAULT 1 NOT NULL,
  attempt_kind TEXT COLLATE "C" DEFAULT 'first' NOT NULL,
  http_status BIGINT DEFAULT 0 NOT NULL,
  part TEXT COLLATE "C" DEFAULT '' NOT NULL,
  call_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  source_position BIGINT DEFAULT 0 NOT NULL,
  source_index BIGINT DEFAULT 0 NOT NULL,
  final BIGINT DEFAULT 0 NOT NULL,
  ending TEXT COLLATE "C" DEFAULT '' NOT NULL,
  lines BIGINT DEFAULT 1 NOT NULL,
  copied_lines BIGINT DEFAULT 0 NOT NULL,
  replayed_lines BIGINT DEFAULT 0 NOT NULL,
  rank BIGINT DEFAULT 0 NOT NULL,
  sidechain BIGINT DEFAULT 0 NOT NULL,
  nested BIGINT DEFAULT 0 NOT NULL,
  contested BIGINT DEFAULT 0 NOT NULL
);;

CREATE INDEX gen_spans_by_dimension ON gen_spans (dimension_id, occurred_at);;

CREATE UNIQUE INDEX gen_spans_by_id ON gen_spans (span_id);;

CREATE INDEX gen_spans_by_quote ON gen_spans (named_quote) WHERE cost_nanousd IS NULL AND named_quote <> 0;;

CREATE INDEX gen_spans_by_session ON gen_spans (session_key, occurred_at);;

CREATE INDEX gen_spans_by_time ON gen_spans (occurred_at);;

CREATE TABLE gen_tool_calls (
  span_id TEXT COLLATE "C" NOT NULL,
  call_id TEXT COLLATE "C" NOT NULL,
  arguments_bytes BIGINT NOT NULL,
  result_bytes BIGINT,
  truncated BIGINT NOT NULL,
  exit_code BIGINT,
  PRIMARY KEY (span_id)
);;

CREATE TABLE gen_totals (
  grain BIGINT NOT NULL,
  bucket BIGINT NOT NULL,
  dimension_id BIGINT NOT NULL,
  spans BIGINT NOT NULL,
  requests BIGINT NOT NULL,
  succeeded BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  cut BIGINT NOT NULL,
  cancelled BIGINT NOT NULL,
  lost BIGINT NOT NULL,
  open BIGINT NOT NULL,
  retries BIGINT NOT NULL,
  fallbacks BIGINT NOT NULL,
  beside BIGINT NOT NULL,
  input_uncached BIGINT NOT NULL,
  cache_read BIGINT NOT NULL,
  cache_write_5m BIGINT NOT NULL,
  cache_write_1h BIGINT NOT NULL,
  output BIGINT NOT NULL,
  reasoning BIGINT NOT NULL,
  input_uncached_unknown BIGINT NOT NULL,
  cache_read_unknown BIGINT NOT NULL,
  cache_write_5m_unknown BIGINT NOT NULL,
  cache_write_1h_unknown BIGINT NOT NULL,
  output_unknown BIGINT NOT NULL,
  reasoning_unknown BIGINT NOT NULL,
  unknown_usage_spans BIGINT NOT NULL,
  partial_spans BIGINT NOT NULL,
  lower_bound_spans BIGINT NOT NULL,
  upper_bound_spans BIGINT NOT NULL,
  unpriced_spans BIGINT NOT NULL,
  priced_spans BIGINT NOT NULL,
  cost_nanousd BIGINT NOT NULL,
  reported_cost_spans BIGINT NOT NULL,
  reported_cost_nanousd BIGINT NOT NULL,
  ran_known_spans BIGINT NOT NULL,
  ran_us BIGINT NOT NULL,
  waited_known_spans BIGINT NOT NULL,
  waited_us BIGINT NOT NULL,
  lines BIGINT NOT NULL,
  copied_lines BIGINT NOT NULL,
  replayed_lines BIGINT NOT NULL,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (grain, bucket, dimension_id)
);;

CREATE TABLE gen_turns (
  turn_key BIGINT NOT NULL,
  turn_id TEXT COLLATE "C" NOT NULL,
  session_key BIGINT NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  started_at BIGINT,
  PRIMARY KEY (turn_key)
);;

CREATE INDEX gen_turns_by_session ON gen_turns (session_key, agent_id, started_at);;
