"""What the log on PostgreSQL has beside its tables: routines that append, and guards. Frozen by `make sql`.

Never imported at run time. `log_schema.` stands for the log's schema: `ledger init` puts its name there. Writers may
make things in that schema (projections), so nothing that runs with the owner's rights looks there by itself: every
name of the log is written out, and the search path is the system's alone.
"""

from __future__ import annotations

TRUSTED = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
# A plan is kept for the session: one that was made while the table was small must not read it whole later.
BY_INDEX = f"{TRUSTED} SET enable_seqscan = off"
"""How a routine is declared that runs with the owner's rights."""

_EVENTS = """program text, by_writer text, streams text[], expected bigint[], counts bigint[], ids bytea[],
  sessions text[], types text[], schemas bigint[], causes bytea[], turns text[], spans text[], datas text[],
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]"""

ROUTINES = (
    # The recipe of docs/hash.md: each field is 4 bytes of length and its bytes, a null is ff ff ff ff. The bodies are
    # read when they are made (BEGIN ATOMIC), with the path of that moment: no name in them can be taken over later.
    """CREATE OR REPLACE FUNCTION hash_field(value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE BEGIN ATOMIC
SELECT coalesce(int4send(octet_length(value)) || value, '\\xffffffff'::bytea);
END""",
    """CREATE OR REPLACE FUNCTION event_hash(
  event_id bytea, session_id text, stream_id text, version bigint, type text, schema bigint, at bigint,
  writer text, cause bytea, turn text, span text, data text, prev_hash bytea
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE BEGIN ATOMIC
SELECT sha256(
  hash_field(convert_to('1', 'UTF8')) || hash_field(event_id) || hash_field(convert_to(session_id, 'UTF8'))
  || hash_field(convert_to(stream_id, 'UTF8')) || hash_field(convert_to(version::text, 'UTF8'))
  || hash_field(convert_to(type, 'UTF8')) || hash_field(convert_to(schema::text, 'UTF8'))
  || hash_field(convert_to(at::text, 'UTF8')) || hash_field(convert_to(writer, 'UTF8')) || hash_field(cause)
  || hash_field(convert_to(turn, 'UTF8')) || hash_field(convert_to(span, 'UTF8'))
  || hash_field(sha256(convert_to(data, 'UTF8'))) || hash_field(prev_hash));
END""",
    # One lock a log: whoever holds it draws the next positions, and holds it until its commit. So positions
    # are in the order of commits, without gaps, and a reader who asks for what is beyond one misses nothing.
    f"""CREATE OR REPLACE FUNCTION lock_log(program text) RETURNS bigint LANGUAGE plpgsql {BY_INDEX} AS $$
DECLARE
  lowest text;
BEGIN
  PERFORM pg_advisory_xact_lock('log_schema.events'::regclass::oid::bigint);
  SELECT value INTO lowest FROM log_schema.log_meta WHERE key = 'min_writer';
  IF string_to_array(program, '.')::int[] < string_to_array(lowest, '.')::int[] THEN
    RAISE EXCEPTION 'a newer tallybook has taken this log over' USING ERRCODE = 'TB003';
  END IF;
  RETURN (SELECT coalesce(max(position), 0) FROM log_schema.events);
END $$""",
    f"""CREATE OR REPLACE FUNCTION append_events(
  {_EVENTS}
) RETURNS bigint[] LANGUAGE plpgsql {BY_INDEX} AS $$
DECLARE
  place bigint := log_schema.lock_log(program);
  moment bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  number bigint := 0;
  known bigint;
  same bigint;
  found bigint[];
  link bytea;
  own bytea;
  head bigint;
  new record;
  of_event text[] := '{{}}';
BEGIN
  FOR i IN 1 .. cardinality(streams) LOOP
    of_event := of_event || array_fill(streams[i], ARRAY[counts[i]::int]);
  END LOOP;
  SELECT count(*), count(*) FILTER (WHERE e.stream_id = of_event[n.place] AND e.type = types[n.place]
      AND e.cause IS NOT DISTINCT FROM causes[n.place] AND e.data = datas[n.place]),
    array_agg(e.version ORDER BY n.place)
  INTO known, same, found
  FROM unnest(ids) WITH ORDINALITY AS n(id, place) JOIN log_schema.events e ON e.event_id = n.id;
  IF known > 0 THEN
    IF same < known THEN
      RAISE EXCEPTION 'an event of this append is known with other contents' USING ERRCODE = 'TB002';
    ELSIF known < cardinality(ids) THEN
      RAISE EXCEPTION 'some events of this append are known and some are not: append them apart'
        USING ERRCODE = 'TB002';
    END IF;
    RETURN found;
  END IF;
  found := '{{}}';
  FOR i IN 1 .. cardinality(streams) LOOP
    SELECT e.version, e.hash INTO head, link FROM log_schema.events e
    WHERE e.stream_id = streams[i] ORDER BY e.version DESC LIMIT 1;
    head := coalesce(head, 0);
    IF head <> expected[i] THEN
      RAISE EXCEPTION '%', streams[i] USING ERRCODE = 'TB001', DETAIL = expected[i] || ' ' || head;
    END IF;
    FOR new IN
      SELECT * FROM unnest(
        ids[number + 1 : number + counts[i]], sessions[number + 1 : number + counts[i]],
        types[number + 1 : number + counts[i]], schemas[number + 1 : number + counts[i]],
        causes[number + 1 : number + counts[i]], turns[number + 1 : number + counts[i]],
        spans[number + 1 : number + counts[i]], datas[number + 1 : number + counts[i]]
      ) AS given(id, session, type, schema, cause, turn, span, data)
    LOOP
      place := place + 1;
      head := head + 1;
      own := log_schema.event_hash(new.id, new.session, streams[i], head, new.type, new.schema, moment, by_writer,
        new.cause, new.turn, new.span, new.data, link);
      INSERT INTO log_schema.events VALUES (place, new.id, new.session, streams[i], head, new.type, new.schema,
        moment, by_writer, new.cause, new.turn, new.span, new.data, link, own);
      link := own;
      found := found || head;
    END LOOP;
    number := number + counts[i];
  END LOOP;
  IF cardinality(link_events) > 0 THEN
    INSERT INTO log_schema.blobs SELECT * FROM unnest(digests, sizes, encodings, contents) ON CONFLICT DO NOTHING;
    INSERT INTO log_schema.event_blobs SELECT * FROM unnest(link_events, link_digests) ON CONFLICT DO NOTHING;
  END IF;
  RETURN found;
END $$""",
    # The lock is held for the commit but not for the disk: what is committed is visible at once, and the next writer
    # goes on. Then this one waits until the log of the database is on the disk up to a record of its own that stands
    # behind the commit, many writers with one sync. It returns, and acknowledges, only after that.
    f"""CREATE OR REPLACE PROCEDURE append_durably(
  {_EVENTS},
  INOUT versions bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.set_config('synchronous_commit', 'off', true);
  versions := log_schema.append_events(program, by_writer, streams, expected, counts, ids, sessions, types, schemas,
    causes, turns, spans, datas, digests, sizes, encodings, contents, link_events, link_digests);
  COMMIT;
  IF pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off' THEN
    PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM pg_catalog.pg_logical_emit_message(true, 'tallybook', '');
  COMMIT;
END $$""",
    f"""CREATE OR REPLACE FUNCTION delete_blobs(program text, digests bytea[], linked_until bigint)
RETURNS void LANGUAGE plpgsql {BY_INDEX} AS $$
BEGIN
  PERFORM log_schema.lock_log(program);
  DELETE FROM log_schema.blobs b WHERE b.sha256 = ANY (digests) AND NOT EXISTS (
    SELECT 1 FROM log_schema.event_blobs l JOIN log_schema.events e ON e.event_id = l.event_id
    WHERE l.sha256 = b.sha256 AND e.position > linked_until);
END $$""",
    # Writes the table's files anew: what was deleted before is not in them. It says how much it had to keep.
    f"""CREATE OR REPLACE FUNCTION rewrite_blobs() RETURNS void LANGUAGE plpgsql {TRUSTED} AS $$
BEGIN
  CLUSTER (VERBOSE) log_schema.blobs USING blobs_pkey;
END $$""",
)
"""Everything that runs within the database, in the order in which it is made."""

GUARDS = (
    """CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% are immutable', TG_TABLE_NAME USING ERRCODE = 'TB004';
END $$""",
    """CREATE OR REPLACE TRIGGER events_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION refuse()""",
    """CREATE OR REPLACE TRIGGER blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON blobs
FOR EACH STATEMENT EXECUTE FUNCTION refuse()""",
    """CREATE OR REPLACE TRIGGER event_blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON event_blobs
FOR EACH STATEMENT EXECUTE FUNCTION refuse()""",
)
