"""Migrations: from nothing to the fresh script's tables, and from one format to the next without touching an event.

What may go wrong on the way is tested with a later program: the repository's scripts with one more, and the number
of its format.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from ledger.errors import LogTooNew, LogUnavailable
from ledger.events.envelope import NewEvent
from ledger.log import log as log_module
from ledger.log import migrate, sqlite
from ledger.log.log import FORMAT, Log, StreamAppend

MakeEvent = Callable[..., NewEvent]
ROOT = Path(__file__).parent.parent.parent

ADDS = """
    execute("CREATE TABLE seals (position INTEGER NOT NULL PRIMARY KEY, digest BLOB NOT NULL) STRICT")
    execute("ALTER TABLE events ADD COLUMN tenant TEXT")
    execute("CREATE INDEX events_by_session ON events (session_id)")
"""
FAILS = ADDS + '    execute("CREATE TABLE seals (twice INTEGER)")\n'
DIES = ADDS + '    __import__("os")._exit(9)\n'
REWRITES = (
    ADDS
    + """
    (guard,) = execute("SELECT sql FROM sqlite_master WHERE name = 'events_refuse_update'").fetchone()
    execute("DROP TRIGGER events_refuse_update")
    execute("UPDATE events SET data = '{}' WHERE position = 2")
    execute(guard)
"""
)
UNGUARDS = ADDS + '    execute("DROP TRIGGER events_refuse_delete")\n'
UPDATES = ADDS + '    execute("UPDATE events SET at = at + 1")\n'


def structure(path: Path) -> dict[str, Any]:
    """Return all that the database knows of its tables, by name: what they are, not how they were written."""
    connection = sqlite.driver.connect(str(path))
    ask = connection.execute
    found: dict[str, Any] = {
        f"{kind} {name}": " ".join(sql.split())
        for kind, name, sql in ask("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        if kind != "table"
    }
    for _, name, kind, _, without_rowid, strict in ask("PRAGMA main.table_list").fetchall():
        if name.startswith("sqlite_"):
            continue
        columns = {row[1]: row[2:] for row in ask(f"PRAGMA table_xinfo({name})").fetchall()}
        indexes = {
            (tuple(row[2] for row in ask(f"PRAGMA index_info({index[1]})").fetchall()), *index[2:])
            for index in ask(f"PRAGMA index_list({name})").fetchall()
        }
        keys = ask(f"PRAGMA foreign_key_list({name})").fetchall()
        found[f"table {name}"] = (kind, without_rowid, strict, columns, indexes, keys)
    connection.close()
    return found


def texts(path: Path) -> list[Any]:
    connection = sqlite.driver.connect(str(path))
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    connection.close()
    return list(rows)


def meta(path: Path) -> tuple[Any, ...]:
    """Return what marks the file as a log, and what the log says of itself."""
    connection = sqlite.driver.connect(str(path))
    pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "journal_mode")]
    rows = dict(connection.execute("SELECT key, value FROM log_meta ORDER BY 1").fetchall())
    connection.close()
    return (*pragmas, rows)


def contents(path: Path) -> list[Any]:
    connection = sqlite.driver.connect(str(path))
    columns = ", ".join(f'"{row[1]}"' for row in connection.execute("PRAGMA table_info(events)").fetchall()[:15])
    rows = connection.execute(f"SELECT {columns} FROM events ORDER BY position").fetchall()
    connection.close()
    return list(rows)


@pytest.fixture
def filled(log: Log, event: MakeEvent) -> Path:
    """A log of today's format with events, closed."""
    log.append([StreamAppend("a", 0, [event(number, session_id="s") for number in range(5)])])
    log.close()
    return log.path


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A function that makes this program a later one: its scripts end with a revision of the given body."""

    def make(body: str) -> Path:
        folder = tmp_path / "a later %(program)s"
        shutil.copytree(ROOT / "alembic", folder, ignore=shutil.ignore_patterns("__pycache__"))
        head = (
            f'"""Format {FORMAT + 1}."""\nfrom alembic import op\n'
            f'revision = "{FORMAT + 1:04d}"\ndown_revision = "{FORMAT:04d}"\n'
            "def upgrade():\n    execute = op.get_bind().exec_driver_sql\n"
        )
        (folder / "versions" / f"{FORMAT + 1:04d}_more.py").write_text(
            head + textwrap.dedent(body).replace("\n", "\n    ")
        )
        monkeypatch.setattr(migrate, "scripts", lambda: folder)
        monkeypatch.setattr(log_module, "FORMAT", FORMAT + 1)
        return folder

    return make


# from nothing


def test_a_log_made_by_migrations_equals_a_fresh_one(tmp_path: Path) -> None:
    """An empty file brought forward has the same tables, columns, indexes, guards and marks as a fresh log."""
    migrated, fresh = tmp_path / "migrated.db", tmp_path / "fresh.db"
    migrated.touch()
    migrate.upgrade(migrated)
    Log.create(fresh).close()
    assert structure(migrated) == structure(fresh)
    assert len(structure(fresh)) >= 9
    *marks, said = meta(migrated)
    *fresh_marks, fresh_said = meta(fresh)
    assert marks == fresh_marks
    own, fresh_own = said.pop("log_id"), fresh_said.pop("log_id")
    assert said == fresh_said
    assert own != fresh_own
    assert len(own) == len(fresh_own)


def test_a_log_made_by_migrations_works(tmp_path: Path, event: MakeEvent, assert_sound: Callable[[Log], None]) -> None:
    """It is opened, appended to and read like any other."""
    path = tmp_path / "ledger.db"
    path.touch()
    migrate.upgrade(path)
    with Log.open(path) as log:
        assert log.append([StreamAppend("a", 0, [event(1), event(2)])]) == [1, 2]
        assert_sound(log)


def test_a_current_log_is_left_as_it_is(filled: Path) -> None:
    """Bringing it forward again changes nothing."""
    before = (texts(filled), meta(filled), contents(filled))
    migrate.upgrade(filled)
    assert (texts(filled), meta(filled), contents(filled)) == before


def test_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    """Tables of the log are not put into someone else's file, nor is its journal changed."""
    path = tmp_path / "browser.db"
    connection = sqlite.driver.connect(str(path))
    connection.execute("CREATE TABLE history (url TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LogUnavailable, match="a database of something else"):
        migrate.upgrade(path)
    assert path.read_bytes() == before


def test_the_scripts_lead_to_todays_format() -> None:
    """Revisions are one line without branches: 0001, 0002 ... up to the format of this program, and none goes back."""
    revisions = list(ScriptDirectory(str(migrate.scripts())).walk_revisions())
    assert [one.revision for one in reversed(revisions)] == [f"{number:04d}" for number in range(1, FORMAT + 1)]
    assert not any(hasattr(one.module, "downgrade") for one in revisions)


# from one format to the next


@pytest.fixture
def format_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: MakeEvent) -> Path:
    """A log of format 1 with two events, closed: made by its script, and written as a program of its time did."""
    path = tmp_path / "first.db"
    path.touch()
    command.upgrade(migrate._configuration(path), "0001")
    with monkeypatch.context() as patch:
        patch.setattr(log_module, "FORMAT", 1)
        with Log.open(path) as log:
            assert (log.meta("format"), log.meta("log_id")) == ("1", None)
            log.append([StreamAppend("a", 0, [event(1), event(2)])])
    return path


def test_a_log_of_format_1_gets_an_id_of_its_own(
    format_1: Path, event: MakeEvent, assert_sound: Callable[[Log], None], tmp_path: Path
) -> None:
    """The events are the same byte for byte, and every log that is brought forward has another id."""
    other = tmp_path / "other.db"
    shutil.copy(format_1, other)
    before = contents(format_1)
    with Log.open(format_1) as log, Log.open(other) as twin:
        assert log.meta("format") == str(FORMAT)
        assert contents(format_1) == before
        own = log.log_id
        assert log.book_stream == f"book:{own}"
        assert len({own, twin.log_id, ""}) == 3
        assert log.append([StreamAppend("a", 2, [event(3)])]) == [3]
        assert_sound(log)
    with Log.open(format_1) as again:
        assert again.log_id == own


def test_opening_an_older_log_brings_it_forward(
    filled: Path, later: Callable[[str], Path], event: MakeEvent, assert_sound: Callable[[Log], None]
) -> None:
    """Events stay as they are, byte for byte; the log has the new tables and the new number, and goes on."""
    before = contents(filled)
    later(ADDS)
    with Log.open(filled) as log:
        assert log.meta("format") == str(FORMAT + 1)
        assert contents(filled) == before
        assert log.append([StreamAppend("a", 5, [event(6)])]) == [6]
        assert_sound(log)
    assert "table seals" in structure(filled)
    assert "alembic_version" not in str(texts(filled))


def test_a_log_brought_forward_is_closed_to_the_older_program(
    filled: Path, later: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number it has now is too new for the program that made it."""
    later(ADDS)
    Log.open(filled).close()
    monkeypatch.setattr(log_module, "FORMAT", FORMAT)
    with pytest.raises(LogTooNew):
        Log.open(filled)


def test_a_log_brought_forward_is_not_migrated_again(
    filled: Path, later: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next opening does not come near Alembic."""
    later(ADDS)
    Log.open(filled).close()
    monkeypatch.setattr(migrate, "upgrade", lambda path: pytest.fail("upgraded again"))
    Log.open(filled).close()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (FAILS, "table seals already exists"),
        (REWRITES, "changed events or what guards them"),
        (UNGUARDS, "changed events or what guards them"),
        (UPDATES, "events are immutable"),
    ],
    ids=["fails", "rewrites", "unguards", "updates"],
)
def test_a_migration_that_may_not_be_leaves_the_log_as_it_was(
    filled: Path, later: Callable[[str], Path], body: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails half-way, touches an event (OBS-29) or drops a guard is undone whole; the log stays usable."""
    before = (texts(filled), meta(filled), contents(filled))
    later(body)
    with pytest.raises(LogUnavailable, match=f"is as it was .*{reason}") as raised:
        Log.open(filled)
    assert "\n" not in str(raised.value)
    assert (texts(filled), meta(filled), contents(filled)) == before
    monkeypatch.setattr(log_module, "FORMAT", FORMAT)
    Log.open(filled).close()


def test_a_program_that_dies_in_a_migration_leaves_the_log_as_it_was(
    filled: Path, later: Callable[[str], Path], child: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way forward is one transaction."""
    before = (texts(filled), meta(filled), contents(filled))
    folder = later(DIES)
    assert child.start("migrator", filled, folder).wait() == 9
    monkeypatch.setattr(log_module, "FORMAT", FORMAT)
    Log.open(filled).close()
    assert (texts(filled), meta(filled), contents(filled)) == before


def test_programs_that_come_at_once_migrate_once(filled: Path, later: Callable[[str], Path], child: Any) -> None:
    """Three open the same older log: one brings it forward, the others wait and find it done."""
    folder = later(ADDS)
    migrators = [child.start("migrator", filled, folder) for _ in range(3)]
    assert [one.communicate()[0] for one in migrators] == [f"{FORMAT + 1}\n"] * 3


def test_a_log_that_may_not_be_written_is_not_brought_forward(filled: Path, later: Callable[[str], Path]) -> None:
    """A reader of an older log says who must act, in one line, and changes nothing."""
    before = (texts(filled), meta(filled))
    later(ADDS)
    with pytest.raises(LogUnavailable, match="older log format") as raised:
        Log.open(filled, readonly=True)
    assert "\n" not in str(raised.value)
    assert (texts(filled), meta(filled)) == before


# where the scripts are


def test_a_wheel_carries_its_scripts(tmp_path: Path) -> None:
    """Installed, the scripts are ledger/_migrations; they are found there and work."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "ledger", tmp_path / "site" / "ledger", ignore=ignore)
    shutil.copytree(ROOT / "alembic", tmp_path / "site" / "ledger" / "_migrations", ignore=ignore)
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from ledger.log import migrate; from ledger.log.log import Log\n"
        "path = Path(sys.argv[2]); path.touch(); migrate.upgrade(path)\n"
        "print(migrate.scripts().relative_to(sys.argv[1])); print(Log.open(path).meta('format'))\n"
    )
    words = [sys.executable, "-I", "-c", code, str(tmp_path / "site"), str(tmp_path / "ledger.db")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"ledger/_migrations\n{FORMAT}\n", "")


def test_the_folder_of_scripts_does_not_hide_alembic() -> None:
    """From the repository's root, `import alembic` is the library."""
    code = "import alembic, alembic.command; print(alembic.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert Path(done.stdout.strip()).name == "__init__.py"
    assert not (ROOT / "alembic" / "__init__.py").exists()


def test_alembics_own_command_knows_a_logs_revision(filled: Path) -> None:
    """`alembic -x db=PATH current`, from the repository's root, for whoever writes the next script."""
    words = [sys.executable, "-W", "error", "-m", "alembic", "-x", f"db={filled}", "current"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == f"{FORMAT:04d} (head)\n", done.stderr
    done = subprocess.run([*words[:5], "current"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "name the log" in done.stdout + done.stderr
