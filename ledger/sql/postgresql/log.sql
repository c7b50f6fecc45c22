CREATE TABLE blobs (
  sha256 BYTEA NOT NULL,
  size_bytes BIGINT NOT NULL,
  encoding TEXT COLLATE "C" NOT NULL,
  bytes BYTEA NOT NULL,
  PRIMARY KEY (sha256)
);;

CREATE TABLE events (
  position BIGINT NOT NULL,
  event_id BYTEA NOT NULL,
  session_id TEXT COLLATE "C",
  stream_id TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  type TEXT COLLATE "C" NOT NULL,
  schema BIGINT NOT NULL,
  at BIGINT NOT NULL,
  writer TEXT COLLATE "C" NOT NULL,
  cause BYTEA,
  turn TEXT COLLATE "C",
  span TEXT COLLATE "C",
  data TEXT COLLATE "C" NOT NULL,
  prev_hash BYTEA,
  hash BYTEA NOT NULL,
  PRIMARY KEY (position),
  UNIQUE (stream_id, version),
  UNIQUE (event_id)
);;

CREATE TABLE log_meta (
  key TEXT COLLATE "C" NOT NULL,
  value TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (key)
);;

CREATE TABLE event_blobs (
  event_id BYTEA NOT NULL,
  sha256 BYTEA NOT NULL,
  PRIMARY KEY (event_id, sha256),
  FOREIGN KEY(event_id) REFERENCES events (event_id)
);;

CREATE INDEX event_blobs_by_blob ON event_blobs (sha256);;

CREATE OR REPLACE FUNCTION hash_field(value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT coalesce(int4send(octet_length(value)) || value, '\xffffffff'::bytea)
$$;;

CREATE OR REPLACE FUNCTION event_hash(
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
$$;;

CREATE OR REPLACE FUNCTION lock_log(program text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  lowest text;
BEGIN
  PERFORM pg_advisory_xact_lock((SELECT 'events'::regclass::oid::bigint));
  SELECT value INTO lowest FROM log_meta WHERE key = 'min_writer';
  IF string_to_array(program, '.')::int[] < string_to_array(lowest, '.')::int[] THEN
    RAISE EXCEPTION 'a newer tallybook has taken this log over' USING ERRCODE = 'TB003';
  END IF;
  RETURN (SELECT coalesce(max(position), 0) FROM events);
END $$;;

CREATE OR REPLACE FUNCTION append_events(
  program text, by_writer text, streams text[], expected bigint[], counts bigint[], ids bytea[], sessions text[],
  types text[], schemas bigint[], causes bytea[], turns text[], spans text[], datas text[]
) RETURNS bigint[] LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
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
  of_event text[] := '{}';
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
  found := '{}';
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
END $$;;

CREATE OR REPLACE FUNCTION keep_blobs(
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
INSERT INTO blobs SELECT * FROM unnest(digests, sizes, encodings, contents) ON CONFLICT DO NOTHING;
INSERT INTO event_blobs SELECT * FROM unnest(link_events, link_digests) ON CONFLICT DO NOTHING;
$$;;

CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% are immutable', TG_TABLE_NAME USING ERRCODE = 'TB004';
END $$;;

CREATE OR REPLACE TRIGGER events_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION refuse();;

CREATE OR REPLACE TRIGGER blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON blobs
FOR EACH STATEMENT EXECUTE FUNCTION refuse();;

CREATE OR REPLACE TRIGGER event_blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON event_blobs
FOR EACH STATEMENT EXECUTE FUNCTION refuse();;
