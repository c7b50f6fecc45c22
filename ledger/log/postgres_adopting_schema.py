"""The routines by which a log on PostgreSQL takes in another log's events. Frozen by `make sql`, as is postgres_schema.

Never imported at run time.
"""

from __future__ import annotations

from ledger.log.postgres_schema import BY_INDEX

ROUTINES = (
    # Events as they are but for their positions. They are put in first and checked then, all at once: what is refused
    # takes the whole commit with it. Returns the numbers of those that were known.
    f"""CREATE OR REPLACE FUNCTION log_schema.adopt_events(program text, given json) RETURNS bigint[]
LANGUAGE plpgsql {BY_INDEX} AS $$
DECLARE
  head bigint := log_schema.lock_log(program);
  known bigint[];
  wrong record;
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);  -- what is taken in is on the disk when that is said
  END IF;
  WITH offered AS MATERIALIZED (
    SELECT o.number, decode(o.event_id, 'hex') AS event_id, o.session_id, o.stream_id, o.version, o.type, o.schema,
      o.at, o.writer, decode(o.cause, 'hex') AS cause, o.turn, o.span, o.data,
      decode(o.prev_hash, 'hex') AS prev_hash, decode(o.hash, 'hex') AS hash, e.hash AS here
    FROM ROWS FROM (json_to_recordset(given) AS (event_id text, session_id text, stream_id text, version bigint,
      type text, schema bigint, at bigint, writer text, cause text, turn text, span text, data text, prev_hash text,
      hash text)) WITH ORDINALITY AS o(event_id, session_id, stream_id, version, type, schema, at, writer, cause,
      turn, span, data, prev_hash, hash, number)
    LEFT JOIN log_schema.events e ON e.stream_id = o.stream_id AND e.version = o.version
  ), put AS (
    INSERT INTO log_schema.events
    SELECT head + row_number() OVER (ORDER BY o.number), o.event_id, o.session_id, o.stream_id, o.version, o.type,
      o.schema, o.at, o.writer, o.cause, o.turn, o.span, o.data, o.prev_hash, o.hash
    FROM offered o WHERE o.here IS NULL
  ), refused AS (
    SELECT o.stream_id, o.version FROM offered o WHERE o.here <> o.hash ORDER BY o.number LIMIT 1
  )
  SELECT (SELECT coalesce(array_agg(o.number), '{{}}') FROM offered o WHERE o.here IS NOT NULL) AS numbers,
    r.stream_id, r.version
  INTO wrong FROM (SELECT 1) AS one LEFT JOIN refused r ON true;
  IF wrong.stream_id IS NOT NULL THEN
    RAISE EXCEPTION '%', wrong.stream_id USING ERRCODE = 'TB005', DETAIL = wrong.version;
  END IF;
  known := wrong.numbers;
  SELECT e.stream_id, e.version, e.prev_hash IS NOT DISTINCT FROM p.hash AS fits INTO wrong
  FROM log_schema.events e LEFT JOIN log_schema.events p ON p.stream_id = e.stream_id AND p.version = e.version - 1
  WHERE e.position > head AND (e.prev_hash IS DISTINCT FROM p.hash OR (p.hash IS NULL) <> (e.version = 1)
    OR e.hash <> log_schema.event_hash(e.event_id, e.session_id, e.stream_id, e.version, e.type, e.schema, e.at,
      e.writer, e.cause, e.turn, e.span, e.data, e.prev_hash))
  ORDER BY e.position LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '%', wrong.stream_id
      USING ERRCODE = CASE WHEN wrong.fits THEN 'TB006' ELSE 'TB005' END, DETAIL = wrong.version;
  END IF;
  RETURN known;
END $$""",
    # Called in the same transaction, which holds the log's lock by now.
    f"""CREATE OR REPLACE FUNCTION log_schema.adopt_blobs(
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS void LANGUAGE plpgsql {BY_INDEX} AS $$
BEGIN
  PERFORM log_schema.keep_blobs(digests, sizes, encodings, contents, link_events, link_digests);
END $$""",
)
