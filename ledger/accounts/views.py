"""The accounts under plain names, for whoever asks with SQL: ids instead of keys, one row a thing."""

from __future__ import annotations

from ledger.accounts.amounts import AMOUNTS, DIMENSIONS, TOKEN_CLASSES

_DIMENSIONS = ", ".join(f"d.{name}" for name in DIMENSIONS)
_TOKENS = ", ".join(f"s.{name}" for name in (*TOKEN_CLASSES, "reported_total", "web_searches"))

VIEWS = {
    "spans": f"""SELECT s.span_id, n.session_id, coalesce(nullif(t.turn_id, ''), CAST(s.turn_key AS TEXT)) AS turn_id,
  s.parent, s.agent_id, {_DIMENSIONS}, s.occurred_at, s.ended_at, s.ran_us, s.waited_us, {_TOKENS},
  s.partial, s.lower_bound, s.upper_bound, s.cost_nanousd, q.sha256 AS quote, s.first_cost_nanousd,
  s.reported_cost_nanousd, s.attempt, s.attempt_kind, s.http_status, s.part, s.source_position, s.source_index
FROM gen_spans s JOIN gen_sessions n ON n.session_key = s.session_key
JOIN gen_turns t ON t.turn_key = s.turn_key JOIN gen_dimensions d ON d.dimension_id = s.dimension_id
LEFT JOIN gen_quotes q ON q.quote_key = s.quote""",
    "turns": """SELECT coalesce(nullif(t.turn_id, ''), CAST(t.turn_key AS TEXT)) AS turn_id,
  min(n.session_id) AS session_id, t.agent_id,
  min(d.who) AS who, min(d.agent) AS agent, coalesce(t.started_at, min(s.occurred_at)) AS started_at,
  max(coalesce(s.ended_at, s.occurred_at)) AS ended_at, count(*) FILTER (WHERE d.kind = 'model') AS requests,
  count(*) FILTER (WHERE d.kind = 'model' AND s.attempt_kind = 'retry') AS retries,
  sum(s.input_uncached) AS input_uncached,
  sum(s.cache_read) AS cache_read, sum(s.cache_write_5m) AS cache_write_5m, sum(s.cache_write_1h) AS cache_write_1h,
  sum(s.output) AS output, count(*) FILTER (WHERE d.kind = 'model' AND s.output IS NULL) AS unknown_output_spans,
  sum(s.cost_nanousd) AS cost_nanousd,
  count(*) FILTER (WHERE d.kind = 'model' AND s.cost_nanousd IS NULL) AS unpriced_spans,
  CASE WHEN min(r.turn_key) IS NOT NULL THEN coalesce(nullif(min(r.outcome), ''), 'open')
    WHEN count(*) FILTER (WHERE d.kind = 'model' AND d.status <> 'succeeded') = 0 THEN 'ok'
    WHEN count(*) FILTER (WHERE d.status = 'cancelled') > 0 THEN 'interrupted' ELSE 'error' END AS outcome
FROM gen_turns t LEFT JOIN gen_run_turns r ON r.turn_key = t.turn_key
JOIN gen_spans s ON s.turn_key = t.turn_key JOIN gen_sessions n ON n.session_key = s.session_key
JOIN gen_dimensions d ON d.dimension_id = s.dimension_id GROUP BY t.turn_key""",
    "sessions": """SELECT n.session_id, n.client, n.forked_from, min(s.occurred_at) AS first_at,
  max(s.occurred_at) AS last_at, count(*) FILTER (WHERE d.kind = 'model') AS requests,
  sum(s.cost_nanousd) AS cost_nanousd,
  count(*) FILTER (WHERE d.kind = 'model' AND s.cost_nanousd IS NULL) AS unpriced_spans
FROM gen_sessions n JOIN gen_spans s ON s.session_key = n.session_key
JOIN gen_dimensions d ON d.dimension_id = s.dimension_id GROUP BY n.session_key""",
    "labels": """SELECT n.session_id, n.client, l.label, l.value, l.set_at
FROM gen_labels l JOIN gen_sessions n ON n.session_key = l.session_key WHERE l.value <> ''""",
    "jobs": """SELECT j.call_id, j.client, j.tool, j.agent_id, j.agent_type, s.span_id, n.session_id, j.called_at,
  j.returned_at,
  CASE WHEN j.status <> '' THEN j.status WHEN j.called_at IS NULL THEN 'unknown' ELSE 'running' END AS status
FROM gen_jobs j LEFT JOIN gen_spans s ON s.call_id = j.call_id AND s.part = 'tool' AND s.span_id >= j.group_id || ':'
  AND s.span_id < j.group_id || ';'
LEFT JOIN gen_sessions n ON n.session_key = s.session_key""",
    "tool_calls": """SELECT c.span_id, n.session_id, t.turn_id, d.tool, c.call_id, s.occurred_at, s.ended_at, s.ran_us,
  s.waited_us, d.status, c.arguments_bytes, c.result_bytes, c.truncated, c.exit_code
FROM gen_tool_calls c JOIN gen_spans s ON s.span_id = c.span_id JOIN gen_sessions n ON n.session_key = s.session_key
JOIN gen_turns t ON t.turn_key = s.turn_key JOIN gen_dimensions d ON d.dimension_id = s.dimension_id""",
    "totals": f"""SELECT CASE t.grain WHEN 0 THEN 'quarter-hour' WHEN 1 THEN 'day' WHEN 2 THEN 'session'
    WHEN 3 THEN 'month' ELSE 'month edge' END AS grain,
  CASE WHEN t.grain <> 2 THEN t.bucket END AS begins_at, n.session_id, {_DIMENSIONS},
  {", ".join(f"t.{name}" for name in AMOUNTS)}, t.first_at, t.last_at
FROM gen_totals t JOIN gen_dimensions d ON d.dimension_id = t.dimension_id
LEFT JOIN gen_sessions n ON t.grain = 2 AND n.session_key = t.bucket""",
}
"""View name -> its query. Times are microseconds UTC, money is nano-dollars, unknown is NULL."""
