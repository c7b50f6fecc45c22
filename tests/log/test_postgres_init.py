"""Making a log on PostgreSQL, again, at once, with and without the right to make roles, and out of a dump."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import Server, as_user, text_of

from ledger.accounts.catchup import catch_up, snapshot
from ledger.cli import run
from ledger.cli.commands import COMMANDS
from ledger.errors import LogTooNew, LogUnavailable
from ledger.events.envelope import NewEvent
from ledger.log.location import PostgresPlace, resolve
from ledger.log.log import Log, StreamAppend
from ledger.log.postgres_init import init

MakeEvent = Callable[..., NewEvent]
ROOT = Path(__file__).parents[2]
_NUMBERS = itertools.count(1)


@pytest.fixture
def database(server: Server) -> str:
    """An empty database of its own."""
    import os

    name = f"empty{os.getpid()}_{next(_NUMBERS)}"
    with server.connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return name


def place_of(server: Server, database: str, schema: str = "", user: str = "postgres") -> PostgresPlace:
    place = resolve(server.url(database, user=user, schema=schema))
    assert isinstance(place, PostgresPlace)
    return place


def everything(server: Server, database: str) -> list[Any]:
    """Return what there is in a database beside the system's own: schemas, tables, routines, with their rights."""
    with server.connect(database) as admin:
        own = "NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'"
        return admin.execute(
            f"SELECT nspname, nspowner, nspacl::text, '' FROM pg_namespace WHERE nspname {own} UNION ALL "
            f"SELECT relname, relowner, relacl::text, nspname FROM pg_class c JOIN pg_namespace n "
            f"ON n.oid = relnamespace WHERE nspname {own} UNION ALL "
            f"SELECT proname, proowner, proacl::text, nspname FROM pg_proc JOIN pg_namespace n "
            f"ON n.oid = pronamespace WHERE nspname {own} ORDER BY 1, 2, 3, 4"
        ).fetchall()


def refused(place: PostgresPlace, do: Callable[[PostgresPlace], object]) -> str:
    """Do what must be refused; return the message, one line that names the place."""
    with pytest.raises(LogUnavailable) as raised:
        do(place)
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith(str(place))
    return message


def test_init_twice_changes_nothing(server: Server, database: str, event: MakeEvent, capsys: Any) -> None:
    """The second time it says that there is a ledger; events, rights and the log's id stay."""
    place = place_of(server, database)
    url = place.url
    assert run(["init", "--db", url]) == 0
    first = capsys.readouterr().out
    assert "an empty ledger was made" in first
    for role in ("owner", "writer", "reader"):
        assert f"{database}_tallybook_{role}" in first
    with Log.open(place) as log:
        log.append([StreamAppend("a", 0, [event(1)])])
        said, own = everything(server, database), log.log_id
    assert run(["init", "--db", url]) == 0
    assert "is a ledger already" in capsys.readouterr().out
    assert everything(server, database) == said
    with Log.open(place) as log:
        assert (log.log_id, log.head_position()) == (own, 1)


def test_several_inits_at_once_make_one_log(server: Server, database: str) -> None:
    """One makes it, the others wait and find it."""
    place = place_of(server, database)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: init(place), range(4)))
    assert sorted(one.existed for one in made) == [False, True, True, True]
    assert len({tuple(one.roles.values()) for one in made}) == 1
    with Log.open(place) as log:
        assert log.head_position() == 0


def test_two_schemas_are_two_logs(server: Server, database: str, event: MakeEvent) -> None:
    """Each has its own id, roles and events; odd names are no harm."""
    first, second = place_of(server, database, "select"), place_of(server, database, "team_b")
    assert init(first).roles != init(second).roles
    with Log.open(first) as one, Log.open(second) as other:
        one.append([StreamAppend("a", 0, [event(1)])])
        assert one.log_id != other.log_id
        assert (one.head_position(), other.head_position()) == (1, 0)


def test_a_long_databases_roles_have_names_of_their_own(server: Server) -> None:
    """PostgreSQL cuts names at 63 bytes; two databases that begin alike do not share roles."""
    import os

    names = []
    with server.connect() as admin:
        for end in "ab":
            name = f"{'long' * 13}{os.getpid()}{end}"
            admin.execute(f"CREATE DATABASE {name}")
            names.append(init(place_of(server, name)).roles)
    assert not set(names[0].values()) & set(names[1].values())


@pytest.fixture
def plain_user(server: Server, database: str) -> str:
    """A user who owns the database and may not make roles."""
    user = f"plain_{database}"
    with server.connect() as admin:
        admin.execute(f"CREATE ROLE {user} LOGIN")
        admin.execute(f"ALTER DATABASE {database} OWNER TO {user}")
    return user


def test_who_may_not_make_roles_has_a_log_alone(
    server: Server, database: str, plain_user: str, event: MakeEvent, capsys: Any
) -> None:
    """It works, says that there are no roles, and an administrator adds them later by running it again."""
    place = place_of(server, database, user=plain_user)
    assert run(["init", "--db", place.url]) == 0
    said = capsys.readouterr().out
    assert "an empty ledger was made" in said
    assert "no roles" in said
    with Log.open(place) as log:
        log.append([StreamAppend("a", 0, [event(1)])])
        with pytest.raises(psycopg.Error, match="are immutable"):
            log.connection.execute("DELETE FROM events")
    assert init(place).roles == {}
    roles = init(place_of(server, database)).roles
    assert len(roles) == 3
    with pytest.raises(LogUnavailable):
        Log.open(place)  # the log is the owner role's now
    with server.connect() as admin:
        admin.execute(f'GRANT "{roles["writer"]}" TO {plain_user}')
    with Log.open(place) as log:
        assert log.append([StreamAppend("a", 1, [event(2)])]) == [2]
    assert init(place).roles == roles  # whoever may change nothing is told what is there


def test_a_user_who_may_make_roles_needs_not_be_a_superuser(
    server: Server, database: str, plain_user: str, event: MakeEvent
) -> None:
    """CREATEROLE and the right to make a schema are enough, also the second time."""
    with server.connect() as admin:
        admin.execute(f"ALTER ROLE {plain_user} CREATEROLE")
    place = place_of(server, database, user=plain_user)
    roles = init(place).roles
    assert len(roles) == 3
    assert init(place).roles == roles
    with Log.open(place) as log:
        assert log.append([StreamAppend("a", 0, [event(1)])]) == [1]


def test_only_init_makes_a_log(server: Server, database: str, capsys: Any, tmp_path: Path) -> None:
    """Every other command on an empty database is one line that says what makes one, and changes nothing."""
    before = everything(server, database)
    url = server.url(database)
    for command in COMMANDS:
        options = {option.name for option in command.options}
        if "db" not in options or command.name == ("init",):
            continue
        words = [*command.name, *("x" for argument in command.arguments if argument.required), "--db", url]
        given = {("prices", "set"): ["--input", "1"], ("purge",): ["--session", "x", "--yes"],
                 ("copy",): ["--to", str(tmp_path / "copy.db")]}  # fmt: skip
        code = run([*words, *given.get(command.name, [])])
        said = capsys.readouterr()
        assert code == (1 if command.name == ("doctor",) else 2), (words, said)
        assert said.err.count("\n") <= 3, words  # a long line is wrapped on a terminal
        assert everything(server, database) == before, words
    place = place_of(server, database)
    assert "run `ledger init" in refused(place, Log.open)
    assert everything(server, database) == before


def test_a_schema_with_other_things_is_left_alone(server: Server, database: str) -> None:
    """What is in the schema would be given to the log's roles: init wants one of its own."""
    with server.connect(database) as admin:
        admin.execute("CREATE TABLE public.books (title text)")
    before = everything(server, database)
    assert "has other things in it" in refused(place_of(server, database, "public"), init)
    assert everything(server, database) == before


def test_a_schema_that_was_made_for_it_is_used(server: Server, database: str, plain_user: str) -> None:
    """An administrator may make the empty schema for a user who may not."""
    with server.connect(database) as admin:
        admin.execute(f"ALTER DATABASE {database} OWNER TO postgres")
        assert "may not" in refused(place_of(server, database, user=plain_user), init)
        admin.execute(f"CREATE SCHEMA tallybook AUTHORIZATION {plain_user}")
    assert not init(place_of(server, database, user=plain_user)).existed


def test_a_database_that_is_not_utf8_is_refused(server: Server) -> None:
    """Texts are UTF-8: another encoding would refuse some of them when it is too late."""
    import os

    name = f"latin{os.getpid()}"
    with server.connect() as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    assert "make one with UTF8" in refused(place_of(server, name), init)


def test_a_log_of_a_newer_program_is_refused(schema: PostgresPlace) -> None:
    """Its number is told, in one line."""
    with psycopg.connect(schema.url) as connection:
        connection.execute(f"UPDATE {schema.schema}.log_meta SET value = '99' WHERE key = 'format'")
    for do in (Log.open, init):
        with pytest.raises(LogTooNew, match="format 99") as raised:
            do(schema)
        assert "\n" not in str(raised.value)


def test_a_failure_in_the_middle_leaves_nothing(server: Server, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is one transaction."""
    from ledger.log import postgres_init

    before = everything(server, database)
    monkeypatch.setattr(postgres_init, "_RIGHTS", ("GRANT USAGE ON SCHEMA no_such_schema TO {owner}",))
    refused(place_of(server, database), init)
    assert everything(server, database) == before
    with server.connect() as admin:
        assert not admin.execute("SELECT 1 FROM pg_roles WHERE rolname LIKE %s", (f"{database}_%",)).fetchall()


def reports(url: str, capsys: Any) -> list[str]:
    """Return what some reports and the verification print of a log."""
    said = []
    for words in (["report", "--by", "session", "--format", "json"], ["report", "--by", "day,model", "--format", "csv"],
                  ["verify", "--full"]):  # fmt: skip
        assert run([*words, "--db", url]) == 0
        said.append(capsys.readouterr().out)
    return said


def test_a_dump_reads_the_same_in_another_cluster(
    server: Server, database: str, other_server: Server, event: MakeEvent, capsys: Any
) -> None:
    """Restored by pg_dump and psql where the roles are not: reports are equal, verify passes, init brings the roles."""
    place = place_of(server, database)
    init(place)
    assert run(["import", "--home", str(ROOT / "reports" / "sample"), "--db", place.url]) == 0
    with Log.open(place) as log:
        catch_up(log)
        own, head = log.log_id, log.head_position()
    capsys.readouterr()
    expected = reports(place.url, capsys)
    dump = server.run("pg_dump", "-h", server.data, "-U", "postgres", database)
    with other_server.connect() as admin:
        admin.execute("CREATE DATABASE restored")
    other_server.run("psql", "-q", "-h", other_server.data, "-U", "postgres", "-d", "restored", stdin=dump)
    restored = place_of(other_server, "restored")
    assert reports(restored.url, capsys) == [text.replace(database, "restored") for text in expected]
    with Log.open(restored) as log:
        assert (log.log_id, log.head_position()) == (own, head)
        with pytest.raises(psycopg.Error, match="are immutable"):
            log.connection.execute("DELETE FROM events")
    roles = init(restored).roles
    assert set(roles.values()) == {f"{database}_tallybook_{kind}" for kind in ("owner", "writer", "reader")}
    with other_server.connect() as admin:
        admin.execute("CREATE ROLE ada LOGIN")
        admin.execute("CREATE ROLE bob LOGIN")
        admin.execute(f'GRANT "{roles["writer"]}" TO ada')
        admin.execute(f'GRANT "{roles["reader"]}" TO bob')
    with Log.open(as_user(restored, "ada")) as log, Log.open(as_user(restored, "bob")) as reader:
        before = log.stream_version("s")
        assert log.append([StreamAppend("new", before, [event(1)])]) == [1]
        assert reader.readonly
        assert reader.head_position() == head + 1
    assert text_of(restored)


def test_a_rebuild_beside_readers_is_never_noticed(schema: PostgresPlace, child: Any, soak: Any, capsys: Any) -> None:
    """One process rebuilds in a loop while others report in a loop: no error, and always the right figures."""
    from ledger.sources.importer import run_import

    with Log.open(schema) as log:
        run_import(log, ("claude-code", "codex"), ROOT / "reports" / "sample", use_environment=False)
        catch_up(log)
        with snapshot(log) as view:
            expected = view.store.query("SELECT count(*), sum(output), sum(cost_nanousd) FROM gen_spans").fetchone()
    rounds = len(soak.rounds(4, 100))
    readers = [child.start("reporter", text_of(schema), "read", 5 * rounds) for _ in range(2)]
    rebuilders = [child.start("reporter", text_of(schema), "rebuild", rounds) for _ in range(2)]
    said = [one.communicate()[0].splitlines() for one in (*readers, *rebuilders)]
    assert [one.returncode for one in (*readers, *rebuilders)] == [0] * 4
    answers = {line for lines in said[:2] for line in lines}
    assert answers == {" ".join(str(value) for value in expected)}
    assert [len(lines) for lines in said] == [5 * rounds] * 2 + [rounds] * 2
    with Log.open(schema) as log:
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = ? AND tablename LIKE 'g%spans'"
        assert log.connection.execute(tables, (schema.schema,)).fetchone()[0] == 1
