"""The frozen SQL is what SQLAlchemy Core writes, and it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.log import sqlite
from ledger.log.schema import GUARDS, LOG
from ledger.sql import FOLDER, freeze, script, statements


@pytest.fixture
def fresh(tmp_path: Path) -> Any:
    """A database made by both scripts."""
    connection = sqlite.connect(tmp_path / "fresh.db")
    for name in ("log", "projections"):
        for statement in script("sqlite", name):
            connection.execute(statement)
    yield connection
    connection.close()


def test_the_frozen_files_are_current() -> None:
    """Writing them again changes nothing, and none is left over."""
    frozen = freeze.frozen()
    found = {path.name: path.read_text("ascii") for path in (FOLDER / "sqlite").iterdir()}
    assert sorted(found) == sorted(frozen)
    for name, content in frozen.items():
        assert found[name] == content, f"{name}: run `make sql`"


def test_freezing_writes_those_files(tmp_path: Path) -> None:
    """`make sql` writes each file as it is compared."""
    freeze.write(tmp_path)
    written = {path.name: path.read_text("ascii") for path in (tmp_path / "sqlite").iterdir()}
    assert written == freeze.frozen()


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
