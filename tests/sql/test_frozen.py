"""The frozen SQL is what SQLAlchemy Core writes, and it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.log import sqlite
from ledger.log.postgres_log import PostgresLog
from ledger.log.schema import GUARDS, LOG
from ledger.sql import FOLDER, freeze, script, statements

DIALECTS = pytest.mark.parametrize("dialect", sorted(freeze.DIALECTS))


@pytest.fixture
def fresh(tmp_path: Path) -> Any:
    """A database made by the scripts."""
    connection = sqlite.connect(tmp_path / "fresh.db")
    for name in ("log", "checkpoint", "projections"):
        for statement in script("sqlite", name):
            connection.execute(statement)
    yield connection
    connection.close()


@DIALECTS
def test_the_frozen_files_are_current(dialect: str) -> None:
    """Writing them again changes nothing, and none is left over."""
    frozen = freeze.frozen(dialect)
    found = {path.name: path.read_text("ascii") for path in (FOLDER / dialect).iterdir()}
    assert sorted(found) == sorted(frozen)
    for name, content in frozen.items():
        assert found[name] == content, f"{name}: run `make sql`"


def test_freezing_writes_those_files(tmp_path: Path) -> None:
    """`make sql` writes each file as it is compared."""
    freeze.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(freeze.DIALECTS)
    for dialect in freeze.DIALECTS:
        written = {path.name: path.read_text("ascii") for path in (tmp_path / dialect).iterdir()}
        assert written == freeze.frozen(dialect)


def test_both_dialects_have_the_same_statements() -> None:
    """A statement that one database lacks would fail only there; its parameters stand in the same order."""
    ours, theirs = statements("sqlite"), statements("postgresql")
    assert set(ours) == set(theirs)
    assert {name: text.count("?") for name, text in ours.items()} == {
        name: text.count("?") for name, text in theirs.items()
    }


def test_every_table_of_the_script_is_strict(fresh: Any) -> None:
    """Types are held by the database: every table of a fresh database is STRICT."""
    tables = [row for row in fresh.execute("PRAGMA main.table_list") if not row[1].startswith("sqlite_")]
    assert {row[1] for row in tables} >= {"events", "blobs", "event_blobs", "log_meta", "gen_spans", "gen_totals"}
    assert [row[1] for row in tables if not row[5]] == []
    with pytest.raises(sqlite.Error, match="cannot store TEXT value in INTEGER column"):
        fresh.execute("INSERT INTO blobs VALUES (x'00', 'many', 'plain', x'00')")


def test_the_script_has_all_tables_and_guards(fresh: Any) -> None:
    """What the schema module declares is what a fresh database has."""
    found = {(row[0], row[1]) for row in fresh.execute("SELECT type, name FROM sqlite_master")}
    assert {("table", name) for name in LOG.tables} <= found
    assert {("trigger", guard.split()[2]) for guard in GUARDS} == {one for one in found if one[0] == "trigger"}


def test_positions_and_versions_are_kept_unique_by_the_database(fresh: Any) -> None:
    """position, event_id and (stream_id, version) are unique, whatever the program believes."""
    unique = set()
    for index in fresh.execute("PRAGMA index_list(events)").fetchall():
        if index[2]:
            unique.add(tuple(row[2] for row in fresh.execute(f"PRAGMA index_info({index[1]})")))
    assert unique == {("event_id",), ("stream_id", "version")}
    assert [row[1] for row in fresh.execute("PRAGMA table_info(events)") if row[5]] == ["position"]


def test_every_frozen_statement_compiles(fresh: Any) -> None:
    """Each named statement is understood by the database that the script made."""
    named = statements("sqlite")
    assert len(named) > 20
    for text in named.values():
        fresh.execute(f"EXPLAIN {text}", [None] * text.count("?"))


def test_the_statements_of_the_log_use_an_index(fresh: Any) -> None:
    """No question that is asked of the log reads the whole table."""
    named = statements("sqlite")
    for name in ("stream_head", "event_by_id", "event_at", "events_after", "stream_events", "blob_known", "get_blob"):
        plan = [row[3] for row in fresh.execute(f"EXPLAIN QUERY PLAN {named[name]}", [1] * named[name].count("?"))]
        assert plan and all(step.startswith("SEARCH") for step in plan), (name, plan)


def test_running_the_program_loads_no_sqlalchemy(tmp_path: Path) -> None:
    """The statements are read as text: opening, appending and reading a log load neither SQLAlchemy nor Alembic."""
    code = (
        "import sys; from pathlib import Path; from ledger.log.log import Log, StreamAppend\n"
        "from ledger.events.envelope import NewEvent; from ledger.events.sources import SourceTruncated\n"
        "from ledger.ids import new_id\n"
        "with Log.create(Path(sys.argv[1])) as log:\n"
        "    log.append([StreamAppend('a', 0, [NewEvent(body=SourceTruncated(1, 2), event_id=new_id())])])\n"
        "    assert len(log.events_after(0)) == 1\n"
        "print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])\n"
    )
    command = [sys.executable, "-I", "-c", code, str(tmp_path / "ledger.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# the same of PostgreSQL


@pytest.fixture
def fresh_schema(pg_log: PostgresLog) -> Any:
    """A connection to a schema made by the scripts."""
    for name in ("checkpoint", "projections"):
        for statement in script("postgresql", name):
            pg_log.connection.execute(statement)
    return pg_log.connection


def test_every_frozen_statement_is_understood_by_postgresql(fresh_schema: Any) -> None:
    """Each named statement can be prepared on the tables that the scripts made."""
    for name, text in statements("postgresql").items():
        numbered = "".join(f"${number}" if sign == "?" else sign for number, sign in _numbered(text))
        fresh_schema.driver.execute(f"PREPARE {name}_ AS {numbered}")


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    number = 0
    for sign in text:
        number += sign == "?"
        yield number, sign


def test_postgresql_compares_texts_by_their_bytes(fresh_schema: Any) -> None:
    """Every text column of every table has the collation "C", as SQLite compares, wherever the server was set up."""
    others = fresh_schema.execute(
        "SELECT table_name, column_name, collation_name FROM information_schema.columns "
        "WHERE table_schema = ? AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'",
        (fresh_schema.place.schema,),
    ).fetchall()
    assert others == []


def test_postgresql_keeps_positions_and_versions_unique(fresh_schema: Any) -> None:
    """position, event_id and (stream_id, version) are unique, whatever the program believes."""
    found = fresh_schema.execute(
        "SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
        "WHERE i.indrelid = 'events'::regclass AND i.indisunique GROUP BY i.indexrelid"
    ).fetchall()
    assert sorted(row[0] for row in found) == [["event_id"], ["position"], ["stream_id", "version"]]
