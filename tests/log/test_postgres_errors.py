"""What goes wrong with a server is one line that says what to do next, never a traceback, never a password."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_server import Server

from ledger.accounts.catchup import snapshot
from ledger.cli import run
from ledger.errors import InvalidEvent, LogUnavailable
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.ids import new_id
from ledger.log import postgres
from ledger.log.hashing import event_hash
from ledger.log.location import PostgresPlace, resolve
from ledger.log.log import Log, StreamAppend
from ledger.log.postgres_log import PostgresLog
from ledger.sources.importer import run_import

MakeEvent = Callable[..., NewEvent]
SECRET = "correct horse"


def refused(url: str, capsys: Any) -> str:
    """Run a command on a URL; return what it said: exit code 2, one message, no password."""
    assert run(["report", "--db", url]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert SECRET not in said.err + said.out
    assert SECRET.replace(" ", "%20") not in said.err
    line = " ".join(said.err.split())
    assert line.startswith("ledger: postgresql://")
    return line


@pytest.fixture
def guest(server: Server) -> str:
    """A user whose password is asked for."""
    user = f"guest{os.getpid()}"
    with server.connect() as admin:
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (user,)).fetchone():
            admin.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{SECRET}' IN ROLE needs_password")
    return user


def test_no_server(tmp_path: Path, capsys: Any) -> None:
    """Nobody listens: a socket that is not there, a port that is closed."""
    assert "cannot be reached" in refused(f"postgresql://ada:{SECRET[:7]}@/books?host={tmp_path}", capsys)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "check that it runs" in refused(f"postgresql://ada@127.0.0.1:{port}/books", capsys)


def test_an_unknown_host(capsys: Any) -> None:
    """A name that stands for nothing (.invalid never does)."""
    line = refused("postgresql://ada:correct%20horse@db.invalid/books", capsys)
    assert "cannot be reached" in line
    assert "db.invalid" in line


def test_a_wrong_password(server: Server, guest: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong, missing, by way of the environment: the server's refusal, and where a password comes from."""
    monkeypatch.setenv("PGPASSFILE", "/nonexistent")
    for password in ("wrong", ""):
        line = refused(server.url(user=guest, password=password), capsys)
        assert "refuses this user or password" in line
        assert "PGPASSWORD" in line
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert "there is no ledger here" in refused(server.url(user=guest), capsys)
    assert "there is no ledger here" in refused(server.url(user=guest, password=SECRET), capsys)


def test_an_unknown_database_or_user(server: Server, capsys: Any) -> None:
    """The server is there, the database is not."""
    assert "no such database" in refused(server.url("no_such_database"), capsys)
    assert "no such database" in refused(server.url("no_such_database", password="x"), capsys)
    assert "refuses this user" in refused(server.url(user="no_such_user", password=SECRET), capsys)


@pytest.mark.parametrize("options", ["sslmode=maybe", "nonsense=1", "port=abc", "connect_timeout=soon", "host=%zz"])
def test_options_that_there_are_not(server: Server, options: str, capsys: Any) -> None:
    """A wrong option is not a traceback, and does not bring the password out."""
    url = server.url(user="ada", password=SECRET).partition("?")[0]
    refused(f"{url}?{options}", capsys)


def test_options_of_the_url_are_kept(schema: PostgresPlace) -> None:
    """What the URL sets for the session holds beside what the program sets."""
    place = schema._replace(url=schema.url + "&options=-c%20work_mem%3D5MB&application_name=mine")
    with Log.open(place) as log:
        ask = log.connection.execute
        assert ask("SHOW work_mem").fetchone()[0] == "5MB"
        assert ask("SHOW application_name").fetchone()[0] == "mine"
        assert ask("SHOW search_path").fetchone()[0].startswith(f'"{schema.schema}"')


def test_a_server_that_goes_away(other_server: Server, event: MakeEvent, capsys: Any) -> None:
    """It is stopped while the log is open: one line for an append, one for a report; afterwards all goes on."""
    url = other_server.url()
    assert run(["init", "--db", url]) == 0
    capsys.readouterr()
    place = resolve(url)
    late = event(2)
    with Log.open(place) as log:
        log.append([StreamAppend("a", 0, [event(1)])])
        other_server.stop("fast")
        for _ in range(2):
            with pytest.raises(LogUnavailable, match="cannot be reached or broke off") as raised:
                log.append([StreamAppend("a", 1, [late])])
            assert "\n" not in str(raised.value)
    assert "cannot be reached" in refused(url, capsys)
    other_server.start()
    with Log.open(place) as log:
        assert log.append([StreamAppend("a", 1, [late])]) == [2]


def test_without_the_driver(tmp_path: Path) -> None:
    """psycopg is an extra: a command that needs it says how to get it, in one line; a log in a file needs it not."""
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from ledger.cli import run\n"
        "print(run(['report', '--db', sys.argv[1]]), run(['init', '--db', sys.argv[2]]))"
    )
    words = [sys.executable, "-I", "-c", code, "postgresql://db.example/books", str(tmp_path / "ledger.db")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "2 0"
    assert " ".join(done.stderr.split()) == (
        "ledger: logs on PostgreSQL need the driver psycopg: pip install 'tallybook[postgresql]', then run this again"
    )


class Said(psycopg.Error):
    """An error of the server, as the driver raises it."""

    def __init__(self, text: str, state: str) -> None:
        self._state = state
        super().__init__(text)

    @property
    def sqlstate(self) -> str:  # type: ignore[override]
        return self._state


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("28P01", "refuses this user or password"), ("28000", "refuses this user or password"),
        ("3D000", "no such database"), ("55P03", "holds the log locked"), ("53100", "out of disk or memory"),
        ("53200", "out of disk or memory"), ("42501", "your role may not do this"), ("25006", "may only be read here"),
        ("57P01", "broke off"), ("08006", "broke off"), ("XX000", "run `ledger doctor`"),
    ],
)  # fmt: skip
def test_each_error_has_its_line(state: str, text: str) -> None:
    """What is wrong, then what to do; a URL or the password in the server's own words is left out."""
    error = Said(f"it failed\nfor postgresql://ada:{SECRET}@db/books with {SECRET}", state)
    line = postgres.explain(error, "postgresql://db/books", SECRET)
    assert text in line
    assert "\n" not in line
    assert SECRET not in line
    assert line.startswith("postgresql://db/books: ")
    assert line.count(": ") >= 2


# names and texts that PostgreSQL has no room for


@pytest.mark.parametrize("name", ["session_id", "turn", "span"])
@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "\udfff x"])
def test_a_name_that_cannot_be_kept_is_refused(pg_log: PostgresLog, event: MakeEvent, name: str, bad: str) -> None:
    """A NUL or half a character in a name: InvalidEvent, nothing written, and the log goes on."""
    with pytest.raises(InvalidEvent):
        pg_log.append([StreamAppend("a", 0, [event(1), event(2, **{name: bad})])])
    with pytest.raises(InvalidEvent):
        pg_log.append([StreamAppend(bad, 0, [event(3)])])
    assert pg_log.append([StreamAppend("a", 0, [event(4)])]) == [1]


def test_numbers_of_64_bits(pg_log: PostgresLog, event: MakeEvent) -> None:
    """The largest whole number of the catalogue is kept; one beyond the columns is refused in one line."""
    big = 2**63 - 1
    data = f'{{"offset":{big},"size":{big}}}'
    pg_log.append([StreamAppend("a", 0, [NewEvent(body=EncodedBody("source.truncated", data), event_id=new_id())])])
    assert pg_log.event_at(1).data == data
    with pytest.raises(LogUnavailable) as raised:
        pg_log.append([StreamAppend("b", 2**63, [event(1)])])
    assert "\n" not in str(raised.value)


@pytest.fixture
def stranger(pg_log: PostgresLog) -> PostgresLog:
    """A log to ask for hashes, as the superuser, who may."""
    pg_log.connection.execute("RESET ROLE")
    return pg_log


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
NUMBERS = st.integers(0, 2**63 - 1)
ENVELOPES = st.tuples(
    st.binary(min_size=16, max_size=16), st.none() | TEXTS, TEXTS, NUMBERS, TEXTS, NUMBERS, NUMBERS, TEXTS,
    st.none() | st.binary(max_size=16), st.none() | TEXTS, st.none() | TEXTS, TEXTS, st.none() | st.binary(max_size=32),
)  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(envelope=ENVELOPES)
def test_the_server_hashes_as_the_program_does(stranger: PostgresLog, envelope: tuple[Any, ...]) -> None:
    """Any envelope, with Unicode, nulls and empty texts: the routine in SQL gives the hash of docs/hash.md."""
    types = ("bytea", *("text",) * 2, "bigint", "text", *("bigint",) * 2, "text", "bytea", *("text",) * 3, "bytea")
    asked = f"SELECT event_hash({', '.join(f'?::{kind}' for kind in types)})"
    assert stranger.connection.execute(asked, envelope).fetchone()[0] == event_hash(*envelope)


def test_a_nul_in_what_a_client_wrote_is_folded(pg_log: PostgresLog, tmp_path: Path, capsys: Any) -> None:
    """PostgreSQL's texts have no NUL: in the log it stands escaped, in the accounts as the replacement character."""
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    lines = []
    for number, session in enumerate(("a\0b", "a\0b")):
        usage = {"input_tokens": 3, "output_tokens": 5}
        message = {
            "id": f"msg_\0{number}", "model": "claude\0x", "role": "assistant", "usage": usage, "type": "message",
            "content": [{"type": "text", "text": "\0"}], "stop_reason": "end_turn",
        }  # fmt: skip
        lines.append(json.dumps({
            "type": "assistant", "sessionId": session, "uuid": f"u{number}", "requestId": f"r\0{number}",
            "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/p\0q", "gitBranch": "m\0", "message": message,
        }))  # fmt: skip
    (folder / "s.jsonl").write_text("".join(f"{line}\n" for line in lines))
    run_import(pg_log, ("claude-code",), tmp_path, use_environment=False)
    place = f"{pg_log.place.url}&schema={pg_log.place.schema}"
    for words in (["report", "--by", "session,model", "--format", "json"], ["verify", "--full"], ["rebuild"]):
        assert run([*words, "--db", place]) == 0, capsys.readouterr()
    with Log.open(pg_log.place) as log, snapshot(log) as view:
        assert view.store.query("SELECT count(*), sum(output) FROM gen_spans").fetchone() == (2, 10)
