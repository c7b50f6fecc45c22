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

CREATE OR REPLACE FUNCTION hash_field(value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE BEGIN ATOMIC
SELECT coalesce(int4send(octet_length(value)) || value, '\xffffffff'::bytea);
END;;

CREATE OR REPLACE FUNCTION event_hash(
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
END;;

CREATE OR REPLACE FUNCTION lock_log(program text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  lowest text;
BEGIN
  PERFORM pg_advisory_xact_lock('log_schema.events'::regclass::oid::bigint);
  SELECT value INTO lowest FROM log_schema.log_meta WHERE key = 'min_writer';
  IF string_to_array(program, '.')::int[] < string_to_array(lowest, '.')::int[] THEN
    RAISE EXCEPTION 'a newer tallybook has taken this log over' USING ERRCODE = 'TB003';
  END IF;
  RETURN (SELECT coalesce(max(position), 0) FROM log_schema.events);
END $$;;

CREATE OR REPLACE FUNCTION append_events(
  program text, by_writer text, streams text[], expected bigint[], counts bigint[], ids bytea[],
  sessions text[], types text[], schemas bigint[], causes bytea[], turns text[], spans text[], datas text[],
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS bigint[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
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
  of_event text[] := '{}';
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
  found := '{}';
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
END $$;;

CREATE OR REPLACE PROCEDURE append_durably(
  program text, by_writer text, streams text[], expected bigint[], counts bigint[], ids bytea[],
  sessions text[], types text[], schemas bigint[], causes bytea[], turns text[], spans text[], datas text[],
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[],
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
END $$;;

CREATE OR REPLACE FUNCTION delete_blobs(program text, digests bytea[], linked_until bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
  PERFORM log_schema.lock_log(program);
  DELETE FROM log_schema.blobs b WHERE b.sha256 = ANY (digests) AND NOT EXISTS (
    SELECT 1 FROM log_schema.event_blobs l JOIN log_schema.events e ON e.event_id = l.event_id
    WHERE l.sha256 = b.sha256 AND e.position > linked_until);
END $$;;

CREATE OR REPLACE FUNCTION rewrite_blobs() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  CLUSTER (VERBOSE) log_schema.blobs USING blobs_pkey;
END $$;;

CREATE OR REPLACE FUNCTION adopt_events(program text, given json) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  head bigint := log_schema.lock_log(program);
  known bigint[];
  wrong record;
BEGIN
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
  SELECT (SELECT coalesce(array_agg(o.number), '{}') FROM offered o WHERE o.here IS NOT NULL) AS numbers,
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
END $$;;

CREATE OR REPLACE FUNCTION adopt_blobs(
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
  INSERT INTO log_schema.blobs SELECT * FROM unnest(digests, sizes, encodings, contents) ON CONFLICT DO NOTHING;
  INSERT INTO log_schema.event_blobs SELECT * FROM unnest(link_events, link_digests) ON CONFLICT DO NOTHING;
END $$;;

CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% are immutable', TG_TABLE_NAME USING ERRCODE = 'TB004';
END $$;;

CREATE OR REPLACE TRIGGER events_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION refuse();;

CREATE OR REPLACE TRIGGER blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON blobs
FOR EACH STATEMENT EXECUTE FUNCTION refuse();;

CREATE OR REPLACE TRIGGER event_blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON event_blobs
FOR EACH STATEMENT EXECUTE FUNCTION refuse();;
