-- name: add_span
INSERT INTO gen_spans (span_id, session_key, agent_id, turn_key, dimension_id, occurred_at, parent, ended_at, ran_us, waited_us, input_uncached, cache_read, cache_write_5m, cache_write_1h, output, reasoning, reported_total, web_searches, partial, lower_bound, upper_bound, cost_nanousd, named_quote, quote, first_cost_nanousd, reported_cost_nanousd, attempt, attempt_kind, http_status, part, call_id, source_position, source_index, final, ending, lines, copied_lines, replayed_lines, rank, sidechain, nested, contested) VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), ?, ?, ?, nullif(?, -4611686018427387904), ?, ?, nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_totals
INSERT INTO gen_totals (grain, bucket, dimension_id, spans, requests, succeeded, failed, cut, cancelled, lost, open, retries, fallbacks, beside, input_uncached, cache_read, cache_write_5m, cache_write_1h, output, reasoning, input_uncached_unknown, cache_read_unknown, cache_write_5m_unknown, cache_write_1h_unknown, output_unknown, reasoning_unknown, unknown_usage_spans, partial_spans, lower_bound_spans, upper_bound_spans, unpriced_spans, priced_spans, cost_nanousd, reported_cost_spans, reported_cost_nanousd, ran_known_spans, ran_us, waited_known_spans, waited_us, lines, copied_lines, replayed_lines, first_at, last_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (grain, bucket, dimension_id) DO UPDATE SET spans = (gen_totals.spans + excluded.spans), requests = (gen_totals.requests + excluded.requests), succeeded = (gen_totals.succeeded + excluded.succeeded), failed = (gen_totals.failed + excluded.failed), cut = (gen_totals.cut + excluded.cut), cancelled = (gen_totals.cancelled + excluded.cancelled), lost = (gen_totals.lost + excluded.lost), open = (gen_totals.open + excluded.open), retries = (gen_totals.retries + excluded.retries), fallbacks = (gen_totals.fallbacks + excluded.fallbacks), beside = (gen_totals.beside + excluded.beside), input_uncached = (gen_totals.input_uncached + excluded.input_uncached), cache_read = (gen_totals.cache_read + excluded.cache_read), cache_write_5m = (gen_totals.cache_write_5m + excluded.cache_write_5m), cache_write_1h = (gen_totals.cache_write_1h + excluded.cache_write_1h), output = (gen_totals.output + excluded.output), reasoning = (gen_totals.reasoning + excluded.reasoning), input_uncached_unknown = (gen_totals.input_uncached_unknown + excluded.input_uncached_unknown), cache_read_unknown = (gen_totals.cache_read_unknown + excluded.cache_read_unknown), cache_write_5m_unknown = (gen_totals.cache_write_5m_unknown + excluded.cache_write_5m_unknown), cache_write_1h_unknown = (gen_totals.cache_write_1h_unknown + excluded.cache_write_1h_unknown), output_unknown = (gen_totals.output_unknown + excluded.output_unknown), reasoning_unknown = (gen_totals.reasoning_unknown + excluded.reasoning_unknown), unknown_usage_spans = (gen_totals.unknown_usage_spans + excluded.unknown_usage_spans), partial_spans = (gen_totals.partial_spans + excluded.partial_spans), lower_bound_spans = (gen_totals.lower_bound_spans + excluded.lower_bound_spans), upper_bound_spans = (gen_totals.upper_bound_spans + excluded.upper_bound_spans), unpriced_spans = (gen_totals.unpriced_spans + excluded.unpriced_spans), priced_spans = (gen_totals.priced_spans + excluded.priced_spans), cost_nanousd = (gen_totals.cost_nanousd + excluded.cost_nanousd), reported_cost_spans = (gen_totals.reported_cost_spans + excluded.reported_cost_spans), reported_cost_nanousd = (gen_totals.reported_cost_nanousd + excluded.reported_cost_nanousd), ran_known_spans = (gen_totals.ran_known_spans + excluded.ran_known_spans), ran_us = (gen_totals.ran_us + excluded.ran_us), waited_known_spans = (gen_totals.waited_known_spans + excluded.waited_known_spans), waited_us = (gen_totals.waited_us + excluded.waited_us), lines = (gen_totals.lines + excluded.lines), copied_lines = (gen_totals.copied_lines + excluded.copied_lines), replayed_lines = (gen_totals.replayed_lines + excluded.replayed_lines), first_at = min(gen_totals.first_at, excluded.first_at), last_at = max(gen_totals.last_at, excluded.last_at);

-- name: add_usual_span
INSERT INTO gen_spans (span_id, session_key, agent_id, turn_key, dimension_id, occurred_at, ended_at, input_uncached, cache_read, cache_write_5m, cache_write_1h, output, reasoning, reported_total, web_searches, partial, lower_bound, upper_bound, cost_nanousd, named_quote, quote, first_cost_nanousd, reported_cost_nanousd, source_position, source_index, final, lines, rank, sidechain) VALUES (?, ?, ?, ?, ?, ?, nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), ?, ?, ?, nullif(?, -4611686018427387904), ?, ?, nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), ?, ?, ?, ?, ?, ?);

-- name: agent
SELECT gen_agents.session_key, gen_agents.agent_id, gen_agents.agent_type, gen_agents.call_id
FROM gen_agents
WHERE gen_agents.session_key = ? AND gen_agents.agent_id = ?;

-- name: agent_spans
SELECT gen_spans.span_id, gen_spans.session_key, gen_spans.agent_id, gen_spans.turn_key, gen_spans.dimension_id, gen_spans.occurred_at, gen_spans.parent, gen_spans.ended_at, gen_spans.ran_us, gen_spans.waited_us, gen_spans.input_uncached, gen_spans.cache_read, gen_spans.cache_write_5m, gen_spans.cache_write_1h, gen_spans.output, gen_spans.reasoning, gen_spans.reported_total, gen_spans.web_searches, gen_spans.partial, gen_spans.lower_bound, gen_spans.upper_bound, gen_spans.cost_nanousd, gen_spans.named_quote, gen_spans.quote, gen_spans.first_cost_nanousd, gen_spans.reported_cost_nanousd, gen_spans.attempt, gen_spans.attempt_kind, gen_spans.http_status, gen_spans.part, gen_spans.call_id, gen_spans.source_position, gen_spans.source_index, gen_spans.final, gen_spans.ending, gen_spans.lines, gen_spans.copied_lines, gen_spans.replayed_lines, gen_spans.rank, gen_spans.sidechain, gen_spans.nested, gen_spans.contested
FROM gen_spans
WHERE gen_spans.session_key = ? AND gen_spans.agent_id = ?;

-- name: agent_spans_since
SELECT gen_spans.span_id, gen_spans.session_key, gen_spans.agent_id, gen_spans.turn_key, gen_spans.dimension_id, gen_spans.occurred_at, gen_spans.parent, gen_spans.ended_at, gen_spans.ran_us, gen_spans.waited_us, gen_spans.input_uncached, gen_spans.cache_read, gen_spans.cache_write_5m, gen_spans.cache_write_1h, gen_spans.output, gen_spans.reasoning, gen_spans.reported_total, gen_spans.web_searches, gen_spans.partial, gen_spans.lower_bound, gen_spans.upper_bound, gen_spans.cost_nanousd, gen_spans.named_quote, gen_spans.quote, gen_spans.first_cost_nanousd, gen_spans.reported_cost_nanousd, gen_spans.attempt, gen_spans.attempt_kind, gen_spans.http_status, gen_spans.part, gen_spans.call_id, gen_spans.source_position, gen_spans.source_index, gen_spans.final, gen_spans.ending, gen_spans.lines, gen_spans.copied_lines, gen_spans.replayed_lines, gen_spans.rank, gen_spans.sidechain, gen_spans.nested, gen_spans.contested
FROM gen_spans
WHERE gen_spans.session_key = ? AND gen_spans.occurred_at >= ? AND gen_spans.agent_id = ?;

-- name: agents_of_call
SELECT gen_agents.session_key, gen_agents.agent_id, gen_agents.agent_type, gen_agents.call_id
FROM gen_agents
WHERE gen_agents.call_id = ?;

-- name: all_quotes
SELECT gen_quotes.quote_key, gen_quotes.sha256, gen_quotes.quote, gen_quotes.superseded_by, gen_quotes.said
FROM gen_quotes;

-- name: all_sources
SELECT gen_sources.stream_id, gen_sources.client, gen_sources.path, gen_sources.root, gen_sources.version, gen_sources."end", gen_sources.tail, gen_sources.size, gen_sources.mtime_ns, gen_sources.device, gen_sources.inode, gen_sources.carry, gen_sources.billing, gen_sources.origin
FROM gen_sources;

-- name: any_span_quote
SELECT gen_span_quotes.span_id
FROM gen_span_quotes
 LIMIT 1;

-- name: append_event
INSERT INTO events (position, event_id, session_id, stream_id, version, type, schema, at, writer, cause, turn, span, data, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: blob_known
SELECT count(*) AS count_1
FROM blobs
WHERE blobs.sha256 = ?;

-- name: blob_links
SELECT blobs.sha256, blobs.size_bytes, events.position
FROM blobs JOIN event_blobs ON event_blobs.sha256 = blobs.sha256 JOIN events ON events.event_id = event_blobs.event_id ORDER BY events.position, blobs.sha256;

-- name: blob_sizes
SELECT events.position, sum(blobs.size_bytes) AS sum_1
FROM events JOIN event_blobs ON events.event_id = event_blobs.event_id JOIN blobs ON event_blobs.sha256 = blobs.sha256
WHERE events.position > ? AND events.position <= ? GROUP BY events.position ORDER BY events.position;

-- name: blobs_between
SELECT events.event_id, blobs.sha256, blobs.size_bytes, blobs.encoding, blobs.bytes
FROM events JOIN event_blobs ON events.event_id = event_blobs.event_id JOIN blobs ON event_blobs.sha256 = blobs.sha256
WHERE events.position > ? AND events.position <= ? ORDER BY events.position, blobs.sha256;

-- name: book_events
SELECT events.position, events.event_id, events.session_id, events.stream_id, events.version, events.type, events.schema, events.at, events.writer, events.cause, events.turn, events.span, events.data, events.prev_hash, events.hash
FROM events
WHERE events.stream_id = ? OR events.stream_id > ? AND events.stream_id < ?;

-- name: costs_of_spans
SELECT gen_spans.span_id, gen_spans.cost_nanousd
FROM gen_spans
WHERE gen_spans.span_id IN (SELECT wanted.value
FROM json_each(?) AS wanted);

-- name: delete_blob
DELETE FROM blobs WHERE blobs.sha256 = ? AND NOT (EXISTS (SELECT 1
FROM event_blobs JOIN events ON events.event_id = event_blobs.event_id
WHERE event_blobs.sha256 = blobs.sha256 AND events.position > ?));

-- name: dimension
SELECT gen_dimensions.dimension_id, gen_dimensions.project, gen_dimensions.branch, gen_dimensions.client, gen_dimensions.who, gen_dimensions.agent, gen_dimensions.provider, gen_dimensions.model, gen_dimensions.kind, gen_dimensions.tool, gen_dimensions.status
FROM gen_dimensions
WHERE gen_dimensions.dimension_id = ?;

-- name: dimension_bounds
SELECT min(gen_spans.occurred_at) AS min_1, max(gen_spans.occurred_at) AS max_1
FROM gen_spans
WHERE gen_spans.dimension_id = ? AND gen_spans.occurred_at >= ? AND gen_spans.occurred_at < ?;

-- name: drop_empty_total
DELETE FROM gen_totals WHERE gen_totals.grain = ? AND gen_totals.bucket = ? AND gen_totals.dimension_id = ? AND gen_totals.spans = 0;

-- name: drop_sightings
DELETE FROM gen_sightings WHERE gen_sightings.group_id = ?;

-- name: drop_span
DELETE FROM gen_spans WHERE gen_spans.span_id = ?;

-- name: earliest_lacking
SELECT min(holds.first_at) AS min_1
FROM gen_sightings AS holds
WHERE holds.session_key = ? AND NOT (EXISTS (SELECT lacks.group_id
FROM gen_sightings AS lacks
WHERE lacks.group_id = holds.group_id AND lacks.session_key = ?));

-- name: earliest_own
SELECT gen_spans.occurred_at
FROM gen_spans
WHERE gen_spans.session_key = ? AND gen_spans.contested < 2 AND gen_spans.part = '' ORDER BY gen_spans.occurred_at
 LIMIT 1;

-- name: earliest_own_of_agent
SELECT gen_spans.occurred_at
FROM gen_spans
WHERE gen_spans.session_key = ? AND gen_spans.contested < 2 AND gen_spans.part = '' AND gen_spans.agent_id = ? ORDER BY gen_spans.occurred_at
 LIMIT 1;

-- name: event_at
SELECT events.position, events.event_id, events.session_id, events.stream_id, events.version, events.type, events.schema, events.at, events.writer, events.cause, events.turn, events.span, events.data, events.prev_hash, events.hash
FROM events
WHERE events.position = ?;

-- name: event_by_id
SELECT events.position, events.event_id, events.session_id, events.stream_id, events.version, events.type, events.schema, events.at, events.writer, events.cause, events.turn, events.span, events.data, events.prev_hash, events.hash
FROM events
WHERE events.event_id = ?;

-- name: events_after
SELECT events.position, events.event_id, events.session_id, events.stream_id, events.version, events.type, events.schema, events.at, events.writer, events.cause, events.turn, events.span, events.data, events.prev_hash, events.hash
FROM events
WHERE events.position > ? ORDER BY events.position
 LIMIT ?;

-- name: get_blob
SELECT blobs.encoding, blobs.bytes
FROM blobs
WHERE blobs.sha256 = ?;

-- name: hash_at
SELECT events.position, events.hash
FROM events
WHERE events.stream_id = ? AND events.version = ?;

-- name: hash_of
SELECT events.hash
FROM events
WHERE events.position = ?;

-- name: head_at
SELECT events.version, events.hash
FROM events
WHERE events.stream_id = ? AND events.position <= ? ORDER BY events.version DESC
 LIMIT 1;

-- name: head_position
SELECT coalesce(max(events.position), 0) AS coalesce_1
FROM events;

-- name: heads
SELECT events.stream_id, events.version, events.hash
FROM events JOIN (SELECT events.stream_id AS stream_id, max(events.version) AS version
FROM events GROUP BY events.stream_id) AS last ON events.stream_id = last.stream_id AND events.version = last.version;

-- name: import_sums
SELECT sum(gen_totals.requests) AS requests, sum(gen_totals.beside) AS beside, sum(gen_totals.lines) AS lines, sum(gen_totals.copied_lines) AS copied_lines, sum(gen_totals.replayed_lines) AS replayed_lines, sum(gen_totals.lower_bound_spans) AS lower_bound_spans, sum(gen_totals.unpriced_spans) AS unpriced_spans
FROM gen_totals JOIN gen_dimensions ON gen_dimensions.dimension_id = gen_totals.dimension_id
WHERE gen_totals.grain >= 3 AND gen_dimensions.client = ?;

-- name: job
SELECT gen_jobs.job_key, gen_jobs.call_id, gen_jobs.client, gen_jobs.tool, gen_jobs.group_id, gen_jobs.agent_id, gen_jobs.agent_type, gen_jobs.called_at, gen_jobs.returned_at, gen_jobs.status
FROM gen_jobs
WHERE gen_jobs.job_key = ?;

-- name: jobs_of_group
SELECT gen_jobs.job_key, gen_jobs.call_id, gen_jobs.client, gen_jobs.tool, gen_jobs.group_id, gen_jobs.agent_id, gen_jobs.agent_type, gen_jobs.called_at, gen_jobs.returned_at, gen_jobs.status
FROM gen_jobs
WHERE gen_jobs.group_id = ?;

-- name: label
SELECT gen_labels.session_key, gen_labels.label, gen_labels.value, gen_labels.set_at, gen_labels.event_id
FROM gen_labels
WHERE gen_labels.session_key = ? AND gen_labels.label = ?;

-- name: link_blob
INSERT INTO event_blobs (event_id, sha256) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: meta
SELECT log_meta.value
FROM log_meta
WHERE log_meta."key" = ?;

-- name: purged
SELECT gen_purged.sha256, gen_purged.client, gen_purged.session_id, gen_purged.before_at
FROM gen_purged
WHERE gen_purged.sha256 = ?;

-- name: put_agent
INSERT INTO gen_agents (session_key, agent_id, agent_type, call_id) VALUES (?, ?, ?, ?) ON CONFLICT (session_key, agent_id) DO UPDATE SET agent_type = excluded.agent_type, call_id = excluded.call_id;

-- name: put_blob
INSERT INTO blobs (sha256, size_bytes, encoding, bytes) VALUES (?, ?, ?, ?);

-- name: put_dimension
INSERT INTO gen_dimensions (dimension_id, project, branch, client, who, agent, provider, model, kind, tool, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: put_job
INSERT INTO gen_jobs (job_key, call_id, client, tool, group_id, agent_id, agent_type, called_at, returned_at, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_key) DO UPDATE SET call_id = excluded.call_id, client = excluded.client, tool = excluded.tool, group_id = excluded.group_id, agent_id = excluded.agent_id, agent_type = excluded.agent_type, called_at = excluded.called_at, returned_at = excluded.returned_at, status = excluded.status;

-- name: put_label
INSERT INTO gen_labels (session_key, label, value, set_at, event_id) VALUES (?, ?, ?, ?, ?) ON CONFLICT (session_key, label) DO UPDATE SET value = excluded.value, set_at = excluded.set_at, event_id = excluded.event_id;

-- name: put_meta
INSERT INTO log_meta ("key", value) VALUES (?, ?);

-- name: put_purged
INSERT INTO gen_purged (sha256, client, session_id, before_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: put_quote
INSERT INTO gen_quotes (quote_key, sha256, quote, superseded_by, said) VALUES (?, ?, ?, ?, ?) ON CONFLICT (quote_key) DO UPDATE SET sha256 = excluded.sha256, quote = excluded.quote, superseded_by = excluded.superseded_by, said = excluded.said;

-- name: put_replacement
INSERT INTO gen_replacements (said, old_key, new_key) VALUES (?, ?, ?) ON CONFLICT (said) DO UPDATE SET old_key = excluded.old_key, new_key = excluded.new_key;

-- name: put_run
INSERT INTO gen_runs (stream_id, session_key, folder, project, branch, provider, model, turn_key, tools_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream_id) DO UPDATE SET session_key = excluded.session_key, folder = excluded.folder, project = excluded.project, branch = excluded.branch, provider = excluded.provider, model = excluded.model, turn_key = excluded.turn_key, tools_bytes = excluded.tools_bytes;

-- name: put_run_turn
INSERT INTO gen_run_turns (turn_key, who, agent, number, ended_at, outcome, reason, continues) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (turn_key) DO UPDATE SET who = excluded.who, agent = excluded.agent, number = excluded.number, ended_at = excluded.ended_at, outcome = excluded.outcome, reason = excluded.reason, continues = excluded.continues;

-- name: put_session
INSERT INTO gen_sessions (session_key, session_id, client, forked_from, parent, agent_type, has_records) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session_key) DO UPDATE SET session_id = excluded.session_id, client = excluded.client, forked_from = excluded.forked_from, parent = excluded.parent, agent_type = excluded.agent_type, has_records = excluded.has_records;

-- name: put_sighting
INSERT INTO gen_sightings (group_id, variant, session_key, agent_id, sidechain, nested, first_at, last_at, lines, final, ending, rank, digest, source_position, source_index) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (group_id, variant, session_key, agent_id, sidechain, nested) DO UPDATE SET first_at = excluded.first_at, last_at = excluded.last_at, lines = excluded.lines, final = excluded.final, ending = excluded.ending, rank = excluded.rank, digest = excluded.digest, source_position = excluded.source_position, source_index = excluded.source_index;

-- name: put_source
INSERT INTO gen_sources (stream_id, client, path, root, version, "end", tail, size, mtime_ns, device, inode, carry, billing, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream_id) DO UPDATE SET client = excluded.client, path = excluded.path, root = excluded.root, version = excluded.version, "end" = excluded."end", tail = excluded.tail, size = excluded.size, mtime_ns = excluded.mtime_ns, device = excluded.device, inode = excluded.inode, carry = excluded.carry, billing = excluded.billing, origin = excluded.origin;

-- name: put_span
INSERT INTO gen_spans (span_id, session_key, agent_id, turn_key, dimension_id, occurred_at, parent, ended_at, ran_us, waited_us, input_uncached, cache_read, cache_write_5m, cache_write_1h, output, reasoning, reported_total, web_searches, partial, lower_bound, upper_bound, cost_nanousd, named_quote, quote, first_cost_nanousd, reported_cost_nanousd, attempt, attempt_kind, http_status, part, call_id, source_position, source_index, final, ending, lines, copied_lines, replayed_lines, rank, sidechain, nested, contested) VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), ?, ?, ?, nullif(?, -4611686018427387904), ?, ?, nullif(?, -4611686018427387904), nullif(?, -4611686018427387904), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (span_id) DO UPDATE SET session_key = excluded.session_key, agent_id = excluded.agent_id, turn_key = excluded.turn_key, dimension_id = excluded.dimension_id, occurred_at = excluded.occurred_at, parent = excluded.parent, ended_at = excluded.ended_at, ran_us = excluded.ran_us, waited_us = excluded.waited_us, input_uncached = excluded.input_uncached, cache_read = excluded.cache_read, cache_write_5m = excluded.cache_write_5m, cache_write_1h = excluded.cache_write_1h, output = excluded.output, reasoning = excluded.reasoning, reported_total = excluded.reported_total, web_searches = excluded.web_searches, partial = excluded.partial, lower_bound = excluded.lower_bound, upper_bound = excluded.upper_bound, cost_nanousd = excluded.cost_nanousd, named_quote = excluded.named_quote, quote = excluded.quote, first_cost_nanousd = excluded.first_cost_nanousd, reported_cost_nanousd = excluded.reported_cost_nanousd, attempt = excluded.attempt, attempt_kind = excluded.attempt_kind, http_status = excluded.http_status, part = excluded.part, call_id = excluded.call_id, source_position = excluded.source_position, source_index = excluded.source_index, final = excluded.final, ending = excluded.ending, lines = excluded.lines, copied_lines = excluded.copied_lines, replayed_lines = excluded.replayed_lines, rank = excluded.rank, sidechain = excluded.sidechain, nested = excluded.nested, contested = excluded.contested;

-- name: put_span_quote
INSERT INTO gen_span_quotes (span_id, quote_key, said) VALUES (?, ?, ?) ON CONFLICT (span_id) DO UPDATE SET quote_key = excluded.quote_key, said = excluded.said;

-- name: put_tool_call
INSERT INTO gen_tool_calls (span_id, call_id, arguments_bytes, result_bytes, truncated, exit_code) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (span_id) DO UPDATE SET call_id = excluded.call_id, arguments_bytes = excluded.arguments_bytes, result_bytes = excluded.result_bytes, truncated = excluded.truncated, exit_code = excluded.exit_code;

-- name: put_turn
INSERT INTO gen_turns (turn_key, turn_id, session_key, agent_id, started_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (turn_key) DO UPDATE SET turn_id = excluded.turn_id, session_key = excluded.session_key, agent_id = excluded.agent_id, started_at = min(gen_turns.started_at, excluded.started_at);

-- name: quote
SELECT gen_quotes.quote_key, gen_quotes.sha256, gen_quotes.quote, gen_quotes.superseded_by, gen_quotes.said
FROM gen_quotes
WHERE gen_quotes.quote_key = ?;

-- name: replacements
SELECT gen_replacements.said, gen_replacements.old_key, gen_replacements.new_key
FROM gen_replacements;

-- name: run
SELECT gen_runs.stream_id, gen_runs.session_key, gen_runs.folder, gen_runs.project, gen_runs.branch, gen_runs.provider, gen_runs.model, gen_runs.turn_key, gen_runs.tools_bytes
FROM gen_runs
WHERE gen_runs.stream_id = ?;

-- name: run_turn
SELECT gen_run_turns.turn_key, gen_run_turns.who, gen_run_turns.agent, gen_run_turns.number, gen_run_turns.ended_at, gen_run_turns.outcome, gen_run_turns.reason, gen_run_turns.continues
FROM gen_run_turns
WHERE gen_run_turns.turn_key = ?;

-- name: see_span_again
UPDATE gen_spans SET turn_key=?, ended_at=?, lines=?, copied_lines=?, replayed_lines=?, rank=?, contested=? WHERE gen_spans.span_id = ?;

-- name: session
SELECT gen_sessions.session_key, gen_sessions.session_id, gen_sessions.client, gen_sessions.forked_from, gen_sessions.parent, gen_sessions.agent_type, gen_sessions.has_records
FROM gen_sessions
WHERE gen_sessions.session_key = ?;

-- name: session_bounds
SELECT min(gen_spans.occurred_at) AS min_1, max(gen_spans.occurred_at) AS max_1
FROM gen_spans
WHERE gen_spans.session_key = ? AND gen_spans.dimension_id = ?;

-- name: session_groups
SELECT DISTINCT gen_sightings.group_id
FROM gen_sightings
WHERE gen_sightings.session_key = ?;

-- name: session_spans
SELECT gen_spans.span_id, gen_spans.session_key, gen_spans.agent_id, gen_spans.turn_key, gen_spans.dimension_id, gen_spans.occurred_at, gen_spans.parent, gen_spans.ended_at, gen_spans.ran_us, gen_spans.waited_us, gen_spans.input_uncached, gen_spans.cache_read, gen_spans.cache_write_5m, gen_spans.cache_write_1h, gen_spans.output, gen_spans.reasoning, gen_spans.reported_total, gen_spans.web_searches, gen_spans.partial, gen_spans.lower_bound, gen_spans.upper_bound, gen_spans.cost_nanousd, gen_spans.named_quote, gen_spans.quote, gen_spans.first_cost_nanousd, gen_spans.reported_cost_nanousd, gen_spans.attempt, gen_spans.attempt_kind, gen_spans.http_status, gen_spans.part, gen_spans.call_id, gen_spans.source_position, gen_spans.source_index, gen_spans.final, gen_spans.ending, gen_spans.lines, gen_spans.copied_lines, gen_spans.replayed_lines, gen_spans.rank, gen_spans.sidechain, gen_spans.nested, gen_spans.contested
FROM gen_spans
WHERE gen_spans.session_key = ?;

-- name: session_turns
SELECT gen_turns.turn_key, gen_turns.turn_id, gen_turns.session_key, gen_turns.agent_id, gen_turns.started_at
FROM gen_turns
WHERE gen_turns.session_key = ?;

-- name: set_bounds
UPDATE gen_totals SET first_at=?, last_at=? WHERE gen_totals.grain = ? AND gen_totals.bucket = ? AND gen_totals.dimension_id = ?;

-- name: shared_groups
SELECT gen_sightings.group_id
FROM gen_sightings GROUP BY gen_sightings.group_id
HAVING min(gen_sightings.session_key) < max(gen_sightings.session_key) ORDER BY min(gen_sightings.source_position), gen_sightings.group_id;

-- name: sightings
SELECT gen_sightings.group_id, gen_sightings.variant, gen_sightings.session_key, gen_sightings.agent_id, gen_sightings.sidechain, gen_sightings.nested, gen_sightings.first_at, gen_sightings.last_at, gen_sightings.lines, gen_sightings.final, gen_sightings.ending, gen_sightings.rank, gen_sightings.digest, gen_sightings.source_position, gen_sightings.source_index
FROM gen_sightings
WHERE gen_sightings.group_id = ?;

-- name: source
SELECT gen_sources.stream_id, gen_sources.client, gen_sources.path, gen_sources.root, gen_sources.version, gen_sources."end", gen_sources.tail, gen_sources.size, gen_sources.mtime_ns, gen_sources.device, gen_sources.inode, gen_sources.carry, gen_sources.billing, gen_sources.origin
FROM gen_sources
WHERE gen_sources.stream_id = ?;

-- name: span
SELECT gen_spans.span_id, gen_spans.session_key, gen_spans.agent_id, gen_spans.turn_key, gen_spans.dimension_id, gen_spans.occurred_at, gen_spans.parent, gen_spans.ended_at, gen_spans.ran_us, gen_spans.waited_us, gen_spans.input_uncached, gen_spans.cache_read, gen_spans.cache_write_5m, gen_spans.cache_write_1h, gen_spans.output, gen_spans.reasoning, gen_spans.reported_total, gen_spans.web_searches, gen_spans.partial, gen_spans.lower_bound, gen_spans.upper_bound, gen_spans.cost_nanousd, gen_spans.named_quote, gen_spans.quote, gen_spans.first_cost_nanousd, gen_spans.reported_cost_nanousd, gen_spans.attempt, gen_spans.attempt_kind, gen_spans.http_status, gen_spans.part, gen_spans.call_id, gen_spans.source_position, gen_spans.source_index, gen_spans.final, gen_spans.ending, gen_spans.lines, gen_spans.copied_lines, gen_spans.replayed_lines, gen_spans.rank, gen_spans.sidechain, gen_spans.nested, gen_spans.contested
FROM gen_spans
WHERE gen_spans.span_id = ?;

-- name: span_quote
SELECT gen_span_quotes.span_id, gen_span_quotes.quote_key, gen_span_quotes.said
FROM gen_span_quotes
WHERE gen_span_quotes.span_id = ?;

-- name: span_quotes_of
SELECT gen_span_quotes.span_id
FROM gen_span_quotes
WHERE gen_span_quotes.quote_key = ?;

-- name: spans_apart_of_quote
SELECT gen_spans.span_id
FROM gen_spans JOIN gen_span_quotes ON gen_span_quotes.span_id = gen_spans.span_id
WHERE gen_spans.named_quote = ?;

-- name: spans_of_groups
SELECT wanted.value, gen_spans.span_id, gen_spans.session_key, gen_spans.agent_id, gen_spans.turn_key, gen_spans.dimension_id, gen_spans.occurred_at, gen_spans.parent, gen_spans.ended_at, gen_spans.ran_us, gen_spans.waited_us, gen_spans.input_uncached, gen_spans.cache_read, gen_spans.cache_write_5m, gen_spans.cache_write_1h, gen_spans.output, gen_spans.reasoning, gen_spans.reported_total, gen_spans.web_searches, gen_spans.partial, gen_spans.lower_bound, gen_spans.upper_bound, gen_spans.cost_nanousd, gen_spans.named_quote, gen_spans.quote, gen_spans.first_cost_nanousd, gen_spans.reported_cost_nanousd, gen_spans.attempt, gen_spans.attempt_kind, gen_spans.http_status, gen_spans.part, gen_spans.call_id, gen_spans.source_position, gen_spans.source_index, gen_spans.final, gen_spans.ending, gen_spans.lines, gen_spans.copied_lines, gen_spans.replayed_lines, gen_spans.rank, gen_spans.sidechain, gen_spans.nested, gen_spans.contested
FROM json_each(?) AS wanted JOIN gen_spans ON gen_spans.span_id >= (wanted.value || ':') AND gen_spans.span_id < (wanted.value || ';');

-- name: spans_of_quote
SELECT gen_spans.span_id
FROM gen_spans
WHERE gen_spans.named_quote = ?;

-- name: stream_events
SELECT events.position, events.event_id, events.session_id, events.stream_id, events.version, events.type, events.schema, events.at, events.writer, events.cause, events.turn, events.span, events.data, events.prev_hash, events.hash
FROM events
WHERE events.stream_id = ? AND events.version > ? ORDER BY events.version
 LIMIT ?;

-- name: stream_head
SELECT events.version, events.hash
FROM events
WHERE events.stream_id = ? ORDER BY events.version DESC
 LIMIT 1;

-- name: superseded_quotes
SELECT gen_quotes.quote_key, gen_quotes.superseded_by
FROM gen_quotes
WHERE gen_quotes.superseded_by != 0;

-- name: tool_call
SELECT gen_tool_calls.span_id, gen_tool_calls.call_id, gen_tool_calls.arguments_bytes, gen_tool_calls.result_bytes, gen_tool_calls.truncated, gen_tool_calls.exit_code
FROM gen_tool_calls
WHERE gen_tool_calls.span_id = ?;

-- name: turns
SELECT gen_turns.turn_key, gen_turns.turn_id, gen_turns.session_key, gen_turns.agent_id, gen_turns.started_at
FROM gen_turns
WHERE gen_turns.session_key = ? AND gen_turns.agent_id = ? ORDER BY gen_turns.started_at NULLS FIRST, gen_turns.turn_id;

-- name: unpriced_of_quote
SELECT gen_spans.span_id
FROM gen_spans
WHERE gen_spans.named_quote = ? AND gen_spans.cost_nanousd IS NULL AND gen_spans.named_quote != 0;
