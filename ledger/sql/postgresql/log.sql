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

CREATE OR REPLACE FUNCTION log_schema.event_hash(
  event_id bytea, session_id text, stream_id text, version bigint, type text, schema bigint, at bigint,
  writer text, cause bytea, turn text, span text, data text, prev_hash bytea
) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE BEGIN ATOMIC
SELECT sha256(
  '\x0000000131'::bytea || coalesce(int4send(octet_length(event_id)) || event_id, '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(session_id)) || convert_to(session_id, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(stream_id)) || convert_to(stream_id, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(version::text)) || convert_to(version::text, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(type)) || convert_to(type, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(schema::text)) || convert_to(schema::text, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(at::text)) || convert_to(at::text, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(writer)) || convert_to(writer, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(cause)) || cause, '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(turn)) || convert_to(turn, 'UTF8'), '\xffffffff'::bytea)
  || coalesce(int4send(octet_length(span)) || convert_to(span, 'UTF8'), '\xffffffff'::bytea)
  || '\x00000020'::bytea || sha256(convert_to(data, 'UTF8')) || coalesce(int4send(octet_length(prev_hash)) || prev_hash, '\xffffffff'::bytea));
END;;

CREATE OR REPLACE FUNCTION log_schema.lock_log(program text) RETURNS bigint LANGUAGE plpgsql AS $$
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
END $$;;

CREATE OR REPLACE FUNCTION log_schema.append_events(
  program text, by_writer text, parts json, ids text, events json,
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS bigint[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
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
  found bigint[] := '{}';
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
END $$;;

CREATE OR REPLACE FUNCTION log_schema.known_versions(parts json, ids text, events json, known bigint)
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
END $$;;

CREATE OR REPLACE FUNCTION log_schema.keep_blobs(
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log_schema.blobs SELECT * FROM unnest(digests, sizes, encodings, contents) ON CONFLICT DO NOTHING;
  INSERT INTO log_schema.event_blobs SELECT * FROM unnest(link_events, link_digests) ON CONFLICT DO NOTHING;
END $$;;

CREATE OR REPLACE PROCEDURE log_schema.append_durably(
  program text, by_writer text, parts json, ids text, events json,
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[],
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
END $$;;

CREATE OR REPLACE FUNCTION log_schema.delete_blobs(program text, digests bytea[], linked_until bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
  PERFORM log_schema.lock_log(program);
  DELETE FROM log_schema.blobs b WHERE b.sha256 = ANY (digests) AND NOT EXISTS (
    SELECT 1 FROM log_schema.event_blobs l JOIN log_schema.events e ON e.event_id = l.event_id
    WHERE l.sha256 = b.sha256 AND e.position > linked_until);
END $$;;

CREATE OR REPLACE FUNCTION log_schema.rewrite_blobs() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  CLUSTER (VERBOSE) log_schema.blobs USING blobs_pkey;
END $$;;

CREATE OR REPLACE FUNCTION log_schema.adopt_events(program text, given json) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
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

CREATE OR REPLACE FUNCTION log_schema.adopt_blobs(
  digests bytea[], sizes bigint[], encodings text[], contents bytea[], link_events bytea[], link_digests bytea[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
  PERFORM log_schema.keep_blobs(digests, sizes, encodings, contents, link_events, link_digests);
END $$;;

CREATE OR REPLACE FUNCTION log_schema.refuse()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% are immutable', TG_TABLE_NAME USING ERRCODE = 'TB004';
END $$;;

CREATE OR REPLACE TRIGGER events_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON log_schema.events
FOR EACH STATEMENT EXECUTE FUNCTION log_schema.refuse();;

CREATE OR REPLACE TRIGGER blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON log_schema.blobs
FOR EACH STATEMENT EXECUTE FUNCTION log_schema.refuse();;

CREATE OR REPLACE TRIGGER event_blobs_refuse_change BEFORE UPDATE OR TRUNCATE ON log_schema.event_blobs
FOR EACH STATEMENT EXECUTE FUNCTION log_schema.refuse();;
