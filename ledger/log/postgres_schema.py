"""What the log on PostgreSQL has beside its tables: functions that append, and guards. Frozen by `make sql`.

Never imported at run time. Every statement is run with the log's schema as the search path; a function keeps
that path, behind pg_catalog, so that nobody's own functions can stand in for the system's.
"""

from __future__ import annotations

_PATH = "SECURITY DEFINER SET search_path FROM CURRENT"

FUNCTIONS = (
    # The recipe of docs/hash.md: each field is 4 bytes of length and its bytes, a null is ff ff ff ff.
    """CREATE OR REPLACE FUNCTION hash_field(value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT coalesce(int4send(octet_length(value)) || value, '\\xffffffff'::bytea)
$$""",
    """CREATE OR REPLACE FUNCTION event_hash(
  event_id bytea, session_id text, stream_id text, version bigint, type text, schema bigint, at bigint,
  writer text, cause bytea, turn text, span text, data text, prev_hash bytea
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
SELECT sha256(
  hash_field(convert_to('1', 'UTF8')) || hash_field(event_id) || hash_field(convert_to(session_id, 'UTF8'))
  || hash_field(convert_to(stream_id, 'UTF8')) || hash_field(convert_to(version::text, 'UTF8'))
  || hash_field(convert_to(type, 'UTF8')) || hash_field(convert_to(schema::text, 'UTF8'))
  || hash_field(convert_to(at::text, 'UTF8')) || hash_field(convert_to(writer, 'UTF8')) || hash_field(cause)
  || hash_field(convert_to(turn, 'UTF8')) || hash_field(convert_to(span, 'UTF8'))
  || hash_field(sha256(convert_to(data, 'UTF8'))) || hash_field(prev_hash))
$$""",
    # One lock a log: whoever holds it draws the next positions, and holds it until its commit. So positions
    # are in the order of commits, without gaps, and a reader who asks for what is beyond one misses nothing.
    f"""CREATE OR REPLACE FUNCTION lock_log(program text) RETURNS bigint LANGUAGE plpgsql {_PATH} AS $$
DECLARE
  lowest text;
BEGIN
  PERFORM pg_advisory_xact_lock((SELECT 'events'::regclass::oid::bigint));
  SELECT value INTO lowest FROM log_meta WHERE key = 'min_writer';
  IF string_to_array(program, '.')::int[] < string_to_array(lowest, '.')::int[] THEN
    RAISE EXCEPTION 'a newer tallybook has taken this log over' USING ERRCODE = 'TB003';
  END IF;
  RETURN (SELECT coalesce(max(position), 0) FROM events);
END $$""",
    f"""CREATE OR REPLACE FUNCTION append_events(
  program text, by_writer text, streams text[], expected bigint[], counts bigint[], ids bytea[], sessions text[],
  types text[], schemas bigint[], causes bytea[], turns text[], spans text[], datas text[]
) RETURNS bigint[] LANGUAGE plpgsql {_PATH} AS $$
DECLARE
  place bigint := lock_log(program);
  moment bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  number bigint := 0;
  known bigint;
  same bigint;
  found bigint[];
  link bytea;
  own bytea;
  head bigint;
  of_event text[] := '{{}}';
BEGIN
  FOR i IN 1 .. cardinality(streams) LOOP
    of_event := of_event || array_fill(streams[i], ARRAY[counts[i]::int]);
  END LOOP;
  SELECT count(*), count(*) FILTER (WHERE e.stream_id = of_event[n.place] AND e.type = types[n.place]
      AND e.cause IS NOT DISTINCT FROM causes[n.place] AND e.data = datas[n.place]),
    array_agg(e.version ORDER BY n.place)
  INTO known, same, found
  FROM unnest(ids) WITH ORDINALITY AS n(id, place) JOIN events e ON e.event_id = n.id;
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
    SELECT e.version, e.hash INTO head, link FROM events e
    WHERE e.stream_id = streams[i] ORDER BY e.version DESC LIMIT 1;
    head := coalesce(head, 0);
    IF head <> expected[i] THEN
      RAISE EXCEPTION '%', streams[i] USING ERRCODE = 'TB001', DETAIL = expected[i] || ' ' || head;
    END IF;
    FOR j IN 1 .. counts[i] LOOP
      number := number + 1;
      place := place + 1;
      head := head + 1;
      own := event_hash(ids[number], sessions[number], streams[i], head, types[number], schemas[number], moment,
        by_writer, causes[number], turns[number], spans[number], datas[number], link);
      INSERT INTO events VALUES (place, ids[number], sessions[number], streams[i], head, types[number],
        schemas[number], moment, by_writer, causes[number], turns[number], spans[number], datas[number], link, own);
      link := own;
      found := found || head;
    END LOOP;
  END LOOP;
  RETURN found;
END $$""",
    f"""CREATE OR REPLACE FUNCTION keep_blobs(
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS void LANGUAGE sql {_PATH} AS $$
INSERT INTO blobs SELECT * FROM unnest(digests, sizes, encodings, contents) ON CONFLICT DO NOTHING;
INSERT INTO event_blobs SELECT * FROM unnest(link_events, link_digests) ON CONFLICT DO NOTHING;
$$""",
)

GUARDS = (
    """CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
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
