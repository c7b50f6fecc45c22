"""Who may do what with a log on PostgreSQL: the server holds it, whatever a client tries (OBS-29)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from postgres_server import Server, as_user

from ledger.accounts.catchup import catch_up, rebuild, snapshot
from ledger.errors import LogReadOnly, LogTooNew, LogUnavailable
from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened
from ledger.ids import new_id
from ledger.log.blobs import make_blob
from ledger.log.location import PostgresPlace
from ledger.log.log import Log, StreamAppend
from ledger.log.postgres_init import init
from ledger.log.postgres_log import PROGRAM, PostgresLog

MakeEvent = Callable[..., NewEvent]
TEXT = b"what the user said"


class People(NamedTuple):
    """Users of the server, one for each role of a log, and one for none."""

    owner: PostgresPlace
    writer: PostgresPlace
    reader: PostgresPlace
    nobody: PostgresPlace


@pytest.fixture
def people(schema: PostgresPlace, server: Server) -> People:
    """A user for each role."""
    roles = init(schema).roles
    users = {kind: f"{schema.schema}_{kind}_user_{database(schema)}" for kind in People._fields}
    with server.connect() as admin:
        for kind, user in users.items():
            admin.execute(f'CREATE ROLE "{user}" LOGIN')
            if kind in roles:
                admin.execute(f'GRANT "{roles[kind]}" TO "{user}"')
    return People(*(as_user(schema, user) for user in users.values()))


def database(place: PostgresPlace) -> str:
    return place.url.rpartition("/")[0].rpartition("@/")[2].partition("?")[0]


def opened() -> NewEvent:
    """Return the first event of a file, without which the fold takes no other."""
    return NewEvent(body=SourceOpened("claude-code", "/home/x/a.jsonl", "/home/x"), event_id=new_id())


@pytest.fixture
def filled(pg_log: PostgresLog, event: MakeEvent) -> PostgresLog:
    """A log with three events and a blob, and accounts folded from it."""
    first = opened()
    pg_log.append([StreamAppend("a", 0, [first, event(2), event(3)])], [(first.event_id, make_blob(TEXT))])
    catch_up(pg_log)
    return pg_log


@pytest.fixture
def connect() -> Iterator[Callable[[PostgresPlace], Any]]:
    """Open the driver's own connection, as any program would, with the log's schema as its path."""
    opened = []

    def open_(place: PostgresPlace) -> Any:
        connection = psycopg.connect(place.url, autocommit=True, options=f"-c search_path={place.schema}")
        opened.append(connection)
        return connection

    yield open_
    for connection in opened:
        connection.close()


def contents(log: Log) -> Any:
    tables = ("events", "blobs", "event_blobs", "log_meta")
    return [log.connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]


CHANGES = {
    "update one column": "UPDATE events SET data = '{}' WHERE position = 2",
    "update all": "UPDATE events SET at = at + 1",
    "update to the same": "UPDATE events SET data = data",
    "update none": "UPDATE events SET data = '{}' WHERE position = 99",
    "delete one": "DELETE FROM events WHERE position = 3",
    "delete all": "DELETE FROM events",
    "truncate": "TRUNCATE events CASCADE",
    "truncate blobs": "TRUNCATE blobs",
    "upsert": "INSERT INTO events SELECT * FROM events WHERE position = 1 "
    "ON CONFLICT (position) DO UPDATE SET data = '{}'",
    "merge update": "MERGE INTO events e USING (SELECT 1 AS n) s ON e.position = s.n "
    "WHEN MATCHED THEN UPDATE SET data = '{}'",
    "merge delete": "MERGE INTO events e USING (SELECT 1 AS n) s ON e.position = s.n WHEN MATCHED THEN DELETE",
    "cte": "WITH gone AS (DELETE FROM events RETURNING *) SELECT count(*) FROM gone",
    "update a blob": "UPDATE blobs SET bytes = ''",
    "upsert a blob": "INSERT INTO blobs SELECT * FROM blobs ON CONFLICT (sha256) DO UPDATE SET bytes = ''",
    "update a link": "UPDATE event_blobs SET sha256 = ''",
}
ADDITIONS = {
    "insert": "INSERT INTO events SELECT position + 3, sha256(event_id), session_id, 'z', version, type, schema, at, "
    "writer, cause, turn, span, data, prev_hash, hash FROM events WHERE position = 1",
    "insert a blob": "INSERT INTO blobs VALUES ('\\x00', 1, 'plain', '\\x00')",
    "say something of the log": "UPDATE log_meta SET value = '99' WHERE key = 'min_writer'",
    "purge": "DELETE FROM blobs",
}
PASTS = {
    "drop": "DROP TABLE events CASCADE",
    "disable the guard": "ALTER TABLE events DISABLE TRIGGER events_refuse_change",
    "drop the guard": "DROP TRIGGER events_refuse_change ON events",
    "replica": "SET session_replication_role = replica",
    "replace a routine": "CREATE OR REPLACE FUNCTION lock_log(program text) RETURNS bigint LANGUAGE sql "
    "AS 'SELECT 0::bigint'",
    "change a routine": "ALTER FUNCTION append_events SECURITY INVOKER",
    "a rule": "CREATE RULE r AS ON INSERT TO events DO INSTEAD NOTHING",
    "a trigger": "CREATE TRIGGER t BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()",
    "rename the schema": "ALTER SCHEMA {schema} RENAME TO elsewhere",
    "call the hash": "SELECT event_hash('', '', '', 1, '', 1, 1, '', null, null, null, '', null)",
    "call the lock": "SELECT lock_log('99')",
    "keep a blob alone": "SELECT keep_blobs(ARRAY['\\x00'::bytea], ARRAY[1], ARRAY['plain'], ARRAY['\\x00'::bytea], "
    "'{}', '{}')",
}


def test_the_owner_and_the_superuser_are_refused_by_the_guards(
    filled: PostgresLog, people: People, connect: Any
) -> None:
    """UPDATE, DELETE, TRUNCATE and their relatives fail even for who owns the table (OBS-29)."""
    before = contents(filled)
    for place in (people.owner, filled.place):
        execute = connect(place).execute
        for statement in CHANGES.values():
            with pytest.raises(psycopg.Error, match="are immutable") as raised:
                execute(statement)
            assert raised.value.sqlstate == "TB004"
    assert contents(filled) == before


@pytest.mark.parametrize("who", ["writer", "reader", "nobody"])
def test_nobody_else_may_touch_the_tables(filled: PostgresLog, people: People, connect: Any, who: str) -> None:
    """A writer adds through the routine only; nobody adds, changes, removes, or takes away what guards it (OBS-29)."""
    before = contents(filled)
    place = getattr(people, who)
    execute = connect(place).execute
    for statement in (CHANGES | ADDITIONS | PASTS).values():
        with pytest.raises(psycopg.Error) as raised:
            execute(statement.replace("{schema}", place.schema))
        # to a stranger the schema is as good as not there
        unknown = psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName
        assert isinstance(raised.value, (psycopg.errors.InsufficientPrivilege, *(unknown if who == "nobody" else ())))
    assert contents(filled) == before


@pytest.mark.parametrize("who", ["writer", "reader", "nobody"])
def test_nobody_else_may_copy_into_the_tables(filled: PostgresLog, people: People, connect: Any, who: str) -> None:
    """COPY is refused like INSERT."""
    before = contents(filled)
    cursor = connect(getattr(people, who)).cursor()
    with pytest.raises(psycopg.Error), cursor.copy("COPY events FROM STDIN") as copy:
        copy.write_row(filled.connection.execute("SELECT * FROM events").fetchone())
    assert contents(filled) == before


def test_a_doubled_event_is_refused_whoever_copies_it(filled: PostgresLog, connect: Any) -> None:
    """Even the superuser cannot put a second event in a place: position, id, stream and version are unique."""
    before = contents(filled)
    row = list(filled.connection.execute("SELECT * FROM events WHERE position = 2").fetchone())
    for changed in ({0: 99}, {0: 99, 1: b"x" * 16}, {1: b"x" * 16, 4: 99}):
        again = [changed.get(place, value) for place, value in enumerate(row)]
        with pytest.raises(psycopg.errors.UniqueViolation), connect(filled.place).cursor().copy(
            "COPY events FROM STDIN"
        ) as copy:  # fmt: skip
            copy.write_row(again)
    assert contents(filled) == before


def test_a_writer_appends_folds_and_reads(filled: PostgresLog, people: People, event: MakeEvent) -> None:
    """All that a program on another host needs, with the writer's role alone."""
    with Log.open(people.writer) as log:
        assert not log.readonly
        assert log.accounts_writable
        one = event(4)
        assert log.append([StreamAppend("a", 3, [one])], [(one.event_id, make_blob(b"x"))]) == [4]
        assert catch_up(log) == 1
        with snapshot(log) as view:
            assert (view.position, view.folded) == (4, 0)
    assert filled.head_position() == 4


def test_projections_belong_to_the_role_so_that_any_writer_replaces_them(
    filled: PostgresLog, people: People, event: MakeEvent
) -> None:
    """What the superuser folded, a writer drops when it rebuilds, and the other way round."""
    with Log.open(people.writer) as log:
        assert rebuild(log) == 3
        filled.append([StreamAppend("a", 3, [event(4)])])
        assert catch_up(filled) == 1
        assert rebuild(filled) == 4
        with snapshot(log) as view:
            assert (view.position, view.folded) == (4, 0)


def test_the_owner_folds_as_a_writer_and_who_may_not_act_as_one_folds_in_memory(
    filled: PostgresLog, people: People, server: Server, event: MakeEvent
) -> None:
    """Projections are only made where every writer may replace them later."""
    with Log.open(people.owner) as log:
        log.append([StreamAppend("a", 3, [event(4)])])
        assert rebuild(log) == 4
    writer = init(filled.place).roles["writer"]
    inherits = f"inherits_{writer}"
    with server.connect() as admin:
        admin.execute(f'CREATE ROLE "{inherits}" LOGIN')
        admin.execute(f'GRANT "{writer}" TO "{inherits}" WITH INHERIT TRUE, SET FALSE')
    with Log.open(as_user(filled.place, inherits)) as log:
        assert log.append([StreamAppend("a", 4, [event(5)])]) == [5]
        assert not log.accounts_writable
        with snapshot(log) as view:
            assert (view.position, view.folded) == (5, 1)
    with Log.open(people.writer) as log:
        assert rebuild(log) == 5


@pytest.mark.parametrize("folded", [True, False], ids=["behind", "nothing folded"])
def test_a_reader_folds_what_is_missing_for_itself(
    pg_log: PostgresLog, people: People, event: MakeEvent, folded: bool
) -> None:
    """A reader may append nothing and write no accounts; its answer is the same, and leaves nothing behind."""
    pg_log.append([StreamAppend("a", 0, [opened()])])
    if folded:
        catch_up(pg_log)
    pg_log.append([StreamAppend("a", 1, [event(2)])])
    before = contents(pg_log)
    tables = pg_log.connection.execute("SELECT tablename FROM pg_tables ORDER BY 1").fetchall()
    with Log.open(people.reader) as log:
        assert log.readonly
        with pytest.raises(LogReadOnly) as raised:
            log.append([StreamAppend("a", 2, [event(3)])])
        assert "\n" not in str(raised.value)
        assert "role" in str(raised.value)
        with snapshot(log) as view:
            assert (view.position, view.folded) == (2, 1 if folded else 2)
            assert view.store.query("SELECT count(*) FROM gen_sources").fetchone()[0] == 1
    assert contents(pg_log) == before
    assert pg_log.connection.execute("SELECT tablename FROM pg_tables ORDER BY 1").fetchall() == tables


def test_a_stranger_reads_nothing(filled: PostgresLog, people: People) -> None:
    """Without a role the log cannot be opened; one line has the grant that would let one read it (OBS-29)."""
    with pytest.raises(LogUnavailable, match="this role may not read the log") as raised:
        Log.open(people.nobody)
    line = str(raised.value)
    assert "\n" not in line and "does not exist" not in line
    granted = line.rpartition("run: ")[2]
    assert granted.startswith("GRANT ")
    filled.connection.execute("RESET ROLE")
    filled.connection.execute(granted)
    with Log.open(people.nobody) as log:
        assert log.readonly and log.events_after(0)


# functions that stand in for the system's

STANDIN = """CREATE FUNCTION {name} RETURNS {result} LANGUAGE plpgsql AS $$
BEGIN
  IF current_user NOT IN ('{writer}', session_user) OR session_user = 'postgres' AND current_user = 'postgres' THEN
    RAISE EXCEPTION '% ran with the rights of %', '{name}', current_user;
  END IF;
  RETURN {value};
END $$"""
STANDINS = {
    "string_to_array(text, unknown)": ("string_to_array(text, varchar)", "text[]", "NULL"),
    "unnest(text[])": ("unnest(text[])", "text", "NULL"),
    "cardinality(text[])": ("cardinality(text[])", "int", "0"),
    "decode(text, text)": ("decode(text, varchar)", "bytea", "NULL"),
    "coalesce": ("max(bigint)", "bigint", "0"),
    "sha256(bytea)": ("sha256(bytea)", "bytea", "NULL"),
    "convert_to(text, text)": ("convert_to(text, text)", "bytea", "NULL"),
    "floor(numeric)": ("floor(numeric)", "numeric", "0"),
    "clock_timestamp()": ("clock_timestamp()", "timestamptz", "NULL"),
    "pg_advisory_xact_lock(bigint)": ("pg_advisory_xact_lock(bigint)", "bigint", "0"),
    "json_to_recordset(json)": ("json_to_recordset(json)", "json", "NULL"),
    "count(bigint)": ("count(bigint)", "bigint", "0"),
    "generate_series(int, bigint)": ("generate_series(int, bigint)", "bigint", "0"),
    "current_setting(text)": ("current_setting(text)", "text", "'off'"),
    "set_config": ("set_config(text, text, boolean)", "text", "''"),
    "lock_log(varchar)": ("lock_log(varchar)", "bigint", "0"),
    "hash_field(text)": ("hash_field(text)", "bytea", "NULL"),
    "array append": ("array_append_(bigint[], bigint)", "bigint[]", "NULL"),
}


def test_a_writers_functions_do_not_get_the_owners_rights(
    filled: PostgresLog, people: People, connect: Any, event: MakeEvent, assert_sound: Callable[[Log], None]
) -> None:
    """A writer may make functions and operators in the schema; no routine of the log calls them (CVE-2018-1058).

    Each is made to empty the log should it ever run with the owner's rights: in an append, in a retry, in a purge,
    when `ledger init` makes the routines anew.
    """
    raw = connect(people.writer)
    roles = init(filled.place).roles
    raw.execute(f'SET ROLE "{roles["writer"]}"')
    for name, result, value in STANDINS.values():
        raw.execute(STANDIN.format(name=name, result=result, value=value, writer=roles["writer"]))
    raw.execute("CREATE OPERATOR || (LEFTARG = bigint[], RIGHTARG = bigint, FUNCTION = array_append_)")
    for table in ("events", "log_meta"):
        raw.execute(f"CREATE TEMP TABLE {table} (position bigint, key text, value text)")
    before = contents(filled)
    for place in (filled.place, people.writer):
        assert init(place).existed
    one = event(4)
    with Log.open(people.writer) as theirs:
        for log in (filled, theirs):
            for _ in range(2):
                assert log.append([StreamAppend("a", 3, [one])], [(one.event_id, make_blob(b"y"))]) == [4]
    filled.delete_blobs([hashlib.sha256(b"y").digest()], 4)
    assert contents(filled)[0][:3] == before[0]
    assert filled.head_position() == 4
    assert_sound(filled)
    # and the stand-ins are such that they would be taken, were the schema looked at
    with connect(filled.place) as owner:
        owner.execute(f"ALTER FUNCTION append_events SET search_path = pg_catalog, {people.writer.schema}")
    with pytest.raises(LogUnavailable, match=f"ran with the rights of {roles['owner']}"):
        filled.append([StreamAppend("a", 4, [event(5)])])


def test_the_routines_check_who_calls_them(filled: PostgresLog, people: People, connect: Any) -> None:
    """The routines that append run with the owner's rights; a reader may call none of them."""
    calls = (
        "CALL append_durably('9', 'x', '[]', '', '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "SELECT append_events('9', 'x', '[]', '', '[]', NULL, NULL, NULL, NULL, NULL, NULL)",
        "SELECT adopt_events('9', '[]')", "SELECT delete_blobs('9', '{}', 9)", "SELECT rewrite_blobs()",
    )  # fmt: skip
    for call in calls:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connect(people.reader).execute(call)


def test_a_program_that_is_too_old_is_refused_by_the_server(filled: PostgresLog, event: MakeEvent) -> None:
    """`min_writer` is asked inside every append, under the lock."""
    assert PROGRAM.replace(".", "").isdigit()
    filled.connection.execute("RESET ROLE")
    filled.connection.execute("UPDATE log_meta SET value = '99.0.0' WHERE key = 'min_writer'")
    with pytest.raises(LogTooNew, match="update tallybook"):
        filled.append([StreamAppend("a", 3, [event(4)])])
    with Log.open(filled.place) as again:
        assert again.readonly
    filled.connection.execute("UPDATE log_meta SET value = '0.1.0' WHERE key = 'min_writer'")
    assert filled.append([StreamAppend("a", 3, [event(4)])]) == [4]
