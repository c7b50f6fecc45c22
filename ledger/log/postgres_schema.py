"""What the log on PostgreSQL has beside its tables: routines that append, and guards. Frozen by `make sql`.

Never imported at run time. `log_schema.` stands for the log's schema: `ledger init` puts its name there. Writers may
make things in that schema (projections), so nothing that runs with the owner's rights looks there by itself: every
name of the log is written out, and the search path is the system's alone, also while these are made.
"""

from __future__ import annotations

TRUSTED = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
# A plan is kept for the session: one that was made while the table was small must not read it whole later.
BY_INDEX = f"{TRUSTED} SET enable_seqscan = off"
"""How a routine is declared that runs with the owner's rights."""

_APPEND = """program text, by_writer text, parts json, ids text, events json,
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]"""


def _bytes(name: str) -> str:
    """Return the expression of a field of bytes, as it is hashed."""
    return f"coalesce(int4send(octet_length({name})) || {name}, '\\xffffffff'::bytea)"


def _text(name: str) -> str:
    """Return the expression of a field of text, as it is hashed. The database's encoding is UTF8, as is the length."""
    return f"coalesce(int4send(octet_length({name})) || convert_to({name}, 'UTF8'), '\\xffffffff'::bytea)"


ROUTINES = (
    # The recipe of docs/hash.md: each field is 4 bytes of length and its bytes, a null is ff ff ff ff. The body is
    # read when it is made (BEGIN ATOMIC), with the path of that moment: no name in it can be taken over later. It is
    # one expression over plain names, and STABLE as convert_to is, so the planner puts it where it is called: a quarter
    # of the time of a call.
    f"""CREATE OR REPLACE FUNCTION log_schema.event_hash(
  event_id bytea, session_id text, stream_id text, version bigint, type text, schema bigint, at bigint,
  writer text, cause bytea, turn text, span text, data text, prev_hash bytea
) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE BEGIN ATOMIC
SELECT sha256(
  '\\x0000000131'::bytea || {_bytes("event_id")}
  || {_text("session_id")}
  || {_text("stream_id")}
  || {_text("version::text")}
  || {_text("type")}
  || {_text("schema::text")}
  || {_text("at::text")}
  || {_text("writer")}
  || {_bytes("cause")}
  || {_text("turn")}
  || {_text("span")}
  || '\\x00000020'::bytea || sha256(convert_to(data, 'UTF8')) || {_bytes("prev_hash")});
END""",
    # One lock a log: whoever holds it draws the next positions, and holds it until its commit. So positions
    # are in the order of commits, without gaps, and a reader who asks for what is beyond one misses nothing.
    # Called by the routines below, with their rights and their search path.
    """CREATE OR REPLACE FUNCTION log_schema.lock_log(program text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  lowest text;
  newest bigint;
BEGIN
  PERFORM pg_advisory_xact_lock('log_schema.events'::regclass::oid::bigint);
  SELECT value, (SELECT max(position) FROM log_schema.events) INTO lowest, newest
  FROM log_schema.log_meta WHERE key = 'min_writer';
  IF string_to_array(program, '.')::int[] < string_to_array(lowest, '.')::int[] THEN
    RAISE EXCEPTION 'a newer tallybook has taken this log over' USING ERRCODE = 'TB003';
  END IF;
  RETURN coalesce(newest, 0);
END $$""",
    # What to append, as JSON, which costs the client a tenth of what arrays cost. parts: [{stream, expected, count}];
    # events: one object each, in the order of the parts; ids: theirs, in hexadecimal with commas between.
    f"""CREATE OR REPLACE FUNCTION log_schema.append_events(
  {_APPEND}
) RETURNS bigint[] LANGUAGE plpgsql {BY_INDEX} AS $$
DECLARE
  place bigint := log_schema.lock_log(program);
  moment bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  given CURSOR FOR SELECT decode(o.id, 'hex') AS id, o.session, o.type, o.schema, decode(o.cause, 'hex') AS cause,
      o.turn, o.span, o.data
    FROM json_to_recordset(events) AS o(id text, session text, type text, schema bigint, cause text, turn text,
      span text, data text);
  part record;
  new record;
  head bigint;
  link bytea;
  own bytea;
  known bigint;
  found bigint[] := '{{}}';
BEGIN
  SELECT count(*) INTO known FROM log_schema.events e
  WHERE e.event_id = ANY (ARRAY(SELECT decode(n.id, 'hex') FROM unnest(string_to_array(ids, ',')) AS n(id)));
  IF known > 0 THEN
    RETURN log_schema.known_versions(parts, ids, events, known);
  END IF;
  OPEN given;
  FOR part IN SELECT * FROM json_to_recordset(parts) AS p(stream text, expected bigint, count bigint) LOOP
    SELECT e.version, e.hash INTO head, link FROM log_schema.events e
    WHERE e.stream_id = part.stream ORDER BY e.version DESC LIMIT 1;
    head := coalesce(head, 0);
    IF head <> part.expected THEN
      RAISE EXCEPTION '%', part.stream USING ERRCODE = 'TB001', DETAIL = part.expected || ' ' || head;
    END IF;
    FOR i IN 1 .. part.count LOOP
      FETCH given INTO new;
      place := place + 1;
      head := head + 1;
      own := log_schema.event_hash(new.id, new.session, part.stream, head, new.type, new.schema, moment, by_writer,
        new.cause, new.turn, new.span, new.data, link);
      INSERT INTO log_schema.events VALUES (place, new.id, new.session, part.stream, head, new.type, new.schema,
        moment, by_writer, new.cause, new.turn, new.span, new.data, link, own);
      link := own;
      found := found || head;
    END LOOP;
  END LOOP;
  CLOSE given;
  IF link_events IS NOT NULL THEN
    PERFORM log_schema.keep_blobs(digests, sizes, encodings, contents, link_events, link_digests);
  END IF;
  RETURN found;
END $$""",
    # An append that is known whole is a success, whatever was appended since; anything else known is an error.
    """CREATE OR REPLACE FUNCTION log_schema.known_versions(parts json, ids text, events json, known bigint)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  same bigint;
  found bigint[];
BEGIN
  SELECT count(*), array_agg(e.version ORDER BY o.number) INTO same, found
  FROM (SELECT p.stream, row_number() OVER (ORDER BY p.part, n) AS number
    FROM ROWS FROM (json_to_recordset(parts) AS (stream text, count bigint)) WITH ORDINALITY AS p(stream, count, part),
      generate_series(1, p.count) AS n) AS s
  JOIN ROWS FROM (json_to_recordset(events) AS (id text, type text, cause text, data text)) WITH ORDINALITY
    AS o(id, type, cause, data, number) USING (number)
  JOIN log_schema.events e ON e.event_id = decode(o.id, 'hex')
  WHERE e.stream_id = s.stream AND e.type = o.type AND e.cause IS NOT DISTINCT FROM decode(o.cause, 'hex')
    AND e.data = o.data;
  IF same < known THEN
    RAISE EXCEPTION 'an event of this append is known with other contents' USING ERRCODE = 'TB002';
  ELSIF known < cardinality(string_to_array(ids, ',')) THEN
    RAISE EXCEPTION 'some events of this append are known and some are not: append them apart'
      USING ERRCODE = 'TB002';
  END IF;
  RETURN found;
END $$""",
    """CREATE OR REPLACE FUNCTION log_schema.keep_blobs(
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log_schema.blobs SELECT * FROM unnest(digests, sizes, encodings, contents) ON CONFLICT DO NOTHING;
  INSERT INTO log_schema.event_blobs SELECT * FROM unnest(link_events, link_digests) ON CONFLICT DO NOTHING;
END $$""",
    # The lock is held for the commit but not for the disk: what is committed is visible at once, and the next writer
    # goes on. Then this one waits until the log of the database is on the disk up to a record of its own that stands
    # behind the commit, many writers with one sync. It returns, and acknowledges, only after that.
    f"""CREATE OR REPLACE PROCEDURE log_schema.append_durably(
  {_APPEND},
  INOUT versions bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.set_config('synchronous_commit', 'off', true);
  versions := log_schema.append_events(program, by_writer, parts, ids, events, digests, sizes, encodings, contents,
    link_events, link_digests);
  COMMIT;
  IF pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off' THEN
    PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM pg_catalog.pg_logical_emit_message(true, 'tallybook', '');
  COMMIT;
END $$""",
    f"""CREATE OR REPLACE FUNCTION log_schema.delete_blobs(program text, digests bytea[], linked_until bigint)
RETURNS void LANGUAGE plpgsql {BY_INDEX} AS $$
BEGIN
  PERFORM log_schema.lock_log(program);
  DELETE FROM log_schema.blobs b WHERE b.sha256 = ANY (digests) AND NOT EXISTS (
    SELECT 1 FROM log_schema.event_blobs l JOIN log_schema.events e ON e.event_id = l.event_id
    WHERE l.sha256 = b.sha256 AND e.position > linked_until);
END $$""",
    # Writes the table's files anew: what was deleted before is not in them. It says how much it had to keep.
    f"""CREATE OR REPLACE FUNCTION log_schema.rewrite_blobs() RETURNS void LANGUAGE plpgsql {TRUSTED} AS $$
BEGIN
  CLUSTER (VERBOSE) log_schema.blobs USING blobs_pkey;
END $$""",
)
"""Everything that runs within the database, in the order in which it is made."""

GUARDS = (
    """CREATE OR REPLACE FUNCTION log_schema.refuse()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% are immutable', TG_TABLE_NAME USING ERRCODE = 'TB004';
END $$""",
    """CREATE OR REPLACE TRIGGER events_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON log_schema.events
FOR EACH STATEMENT EXECUTE FUNCTION log_schema.refuse()""",
    """CREATE OR REPLACE TRIGGER blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON log_schema.blobs
FOR EACH STATEMENT EXECUTE FUNCTION log_schema.refuse()""",
    """CREATE OR REPLACE TRIGGER event_blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON log_schema.event_blobs
FOR EACH STATEMENT EXECUTE FUNCTION log_schema.refuse()""",
)
