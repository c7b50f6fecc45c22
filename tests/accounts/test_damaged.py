"""Whatever happens to the file of the accounts, the log is whole: figures stay right, imports go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "reports" / "sample"
MORE = ROOT / "tests" / "cases" / "real-claude-code" / "basic"
PAGE = 4096


def ledger(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "ledger", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def tokens(db: Path) -> Any:
    done = ledger("report", "--db", db, "--format", "json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)["total"]["tokens"]


def garbage(file: Path) -> None:
    file.write_bytes(b"hello\n" * 2000)


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def zeroed(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[PAGE : 2 * PAGE] = bytes(PAGE)
    file.write_bytes(content)


def removed(file: Path) -> None:
    file.unlink()


def another_logs(file: Path) -> None:
    other = file.parent / "other.db"
    assert ledger("import", "--home", MORE, "--db", other).returncode == 0
    file.write_bytes(Path(f"{other}.accounts").read_bytes())


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A log of the sample."""
    place = tmp_path / "ledger.db"
    assert ledger("import", "--home", SAMPLE, "--db", place).returncode == 0
    return place


@pytest.mark.parametrize("damage", [garbage, truncated, zeroed, removed, another_logs])
def test_damaged_accounts_are_folded_anew(damage: Callable[[Path], None], db: Path) -> None:
    """A report, an import and a check after each kind of damage: right figures, and nothing is lost (OBS-53)."""
    expected, accounts = tokens(db), Path(f"{db}.accounts")
    damage(accounts)
    if damage is zeroed:  # what a report meets of it depends on the page
        assert ledger("rebuild", "--db", db).returncode == 0
    assert tokens(db) == expected
    damage(accounts)
    done = ledger("import", "--home", MORE, "--db", db)
    assert done.returncode == 0, done.stderr
    assert ledger("rebuild", "--db", db).returncode == 0
    assert tokens(db)["output"] > expected["output"]
    assert ledger("verify", "--full", "--db", db).returncode == 0


def test_where_no_accounts_can_be_written_imports_go_on(db: Path) -> None:
    """A folder lies in their place: events are recorded, figures come from memory, a rebuild says what to do."""
    expected, accounts = tokens(db), Path(f"{db}.accounts")
    accounts.unlink()
    accounts.mkdir()
    assert tokens(db) == expected
    assert ledger("import", "--home", MORE, "--db", db).returncode == 0
    more = tokens(db)
    assert more["output"] > expected["output"]
    done = ledger("rebuild", "--db", db)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert str(accounts) in done.stderr and "remove that file" in done.stderr
    accounts.rmdir()
    assert tokens(db) == more


def test_an_event_that_is_gone_is_one_line(db: Path) -> None:
    """`explain` needs the event behind a figure; without it, it says so and what to do."""
    from ledger.log.sqlite import driver

    with driver.connect(str(db)) as connection:
        connection.execute("DROP TRIGGER events_refuse_delete")
        connection.execute("DELETE FROM events WHERE position = 6")
    connection.close()
    done = ledger("explain", "total", "--db", db)
    assert (done.returncode, done.stderr) == (
        2,
        "ledger: event 6 is not in the log: run `ledger verify`, restore a copy\n",
    )
