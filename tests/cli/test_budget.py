"""What the hot commands may load: imports are paid at every start, so each of these has a budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "reports" / "sample")

HEAVY = {"sqlalchemy", "alembic", "httpx", "pydantic", "typer", "click", "rich", "genai_prices"}
"""What no hot command loads: each costs more than the whole command."""
IDLE = {
    "zoneinfo", "_zoneinfo", "csv", "_csv", "hashlib", "_hashlib", "zstandard", "tempfile", "subprocess", "logging",
    "multiprocessing", "asyncio", "argparse", "email", "http", "importlib.metadata", "importlib.resources", "socket",
    "platformdirs", "ssl",
}  # fmt: skip
"""What a report does not need: OpenSSL alone costs some milliseconds."""
OWN = {"ledger.accounts.fold", "ledger.cli.typer_app", "ledger.invariants", "ledger.log.append", "ledger.log.migrate"}
"""Our own rooms that a reader who is up to date does not enter."""

CHILD = """
import json, sys
before = set(sys.modules)
from ledger.cli import run
code = run(json.loads(sys.argv[1]))
print(json.dumps([code, sorted(set(sys.modules) - before)]), file=sys.stderr)
"""


class Started:
    """Runs command lines in fresh interpreters and says what each loaded."""

    def __init__(self, folder: Path) -> None:
        keep = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "PYTHONPATH")
        self.environment = {name: os.environ[name] for name in keep if name in os.environ}
        self.environment |= {"HOME": str(folder), "TALLYBOOK_DB": str(folder / "ledger.db"), "TZ": "Europe/Berlin"}

    def loaded(self, *words: str, code: int = 0) -> set[str]:
        """Return the modules that a command line loads."""
        call = [sys.executable, "-P", "-c", CHILD, json.dumps(words)]
        done = subprocess.run(call, env=self.environment, capture_output=True, text=True, timeout=60, check=True)
        found, modules = json.loads(done.stderr.splitlines()[-1])
        assert found == code
        return set(modules)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Started:
    """A small log that is up to date."""
    made = Started(tmp_path_factory.mktemp("budget"))
    assert "ledger.accounts.fold" in made.loaded("import", "--home", SAMPLE)
    made.loaded("report")
    return made


def tops(modules: set[str]) -> set[str]:
    """Return the modules and the packages that they are in."""
    return modules | {name.partition(".")[0] for name in modules}


def test_the_version_loads_nothing(started: Started) -> None:
    for flag in ("--version", "-V"):
        assert started.loaded(flag) <= {"__future__", "gc", "ledger", "ledger.cli", "ledger.errors"}


REPORTS = [
    ["report"],
    ["report", "--by", "month,model"],
    ["report", "--by", "day", "--since", "7d"],
    ["report", "--by", "session,day", "--tz", "UTC", "--sort", "cost"],
    ["report", "--session", "3f2b", "--format", "json"],
    ["report", "--project=webshop", "--kind", "model", "--client", "codex"],
]


@pytest.mark.parametrize("words", REPORTS, ids=" ".join)
def test_a_report_of_a_log_that_is_up_to_date(words: list[str], started: Started) -> None:
    """It reads sums: no help system, no price data, no hashing, no zones, no readers of files."""
    loaded = started.loaded(*words)
    assert tops(loaded) & (HEAVY | IDLE) == set()
    assert loaded & OWN == set()
    assert {name for name in loaded if name.startswith(("ledger.sources", "ledger.prices", "ledger.wire"))} == set()


def test_a_report_loads_what_it_was_asked_for_and_no_more(started: Started) -> None:
    """A zone by name needs zone data, and CSV its writer; the twin of what the plain report must not load."""
    loaded = started.loaded("report", "--by", "day", "--tz", "Asia/Tokyo", "--format", "csv")
    assert {"zoneinfo", "csv"} <= loaded
    assert tops(loaded) & (HEAVY | IDLE) <= {"zoneinfo", "_zoneinfo", "csv", "_csv"}


def test_an_import_that_finds_nothing_new(started: Started) -> None:
    """`report --import` looks at every file's size and time, and loads neither readers' workers nor prices."""
    loaded = started.loaded("report", "--import", "--home", SAMPLE)
    assert tops(loaded) & HEAVY == set()
    assert loaded & OWN == set()
    assert tops(loaded) & {"zoneinfo", "csv", "multiprocessing", "zstandard"} == set()


def test_a_report_that_must_fold_first(started: Started, tmp_path: Path) -> None:
    """Also where something is new, no heavy library is loaded."""
    fresh = Started(tmp_path)
    loaded = fresh.loaded("report", "--import", "--home", SAMPLE)
    assert tops(loaded) & HEAVY == set()
    assert "ledger.accounts.fold" in loaded


@pytest.mark.parametrize(
    "words",
    [["show", "3f2b"], ["verify"], ["verify", "--full"], ["tail"], ["prices", "list"], ["init"], ["rebuild"],
     ["import", "--home", SAMPLE], ["reprice"], ["prices", "set", "acme-coder-9", "--input", "1"]],
    ids=" ".join,
)  # fmt: skip
def test_no_everyday_command_loads_a_heavy_library(words: list[str], started: Started) -> None:
    """Help and `prices refresh` alone may."""
    assert tops(started.loaded(*words)) & HEAVY == set()


@pytest.mark.parametrize("words", [["report", "--by", "colour"], ["report", "--since", "soon"]], ids=" ".join)
def test_a_wrong_value_does_not_cost_the_help_system(words: list[str], started: Started) -> None:
    assert tops(started.loaded(*words, code=2)) & HEAVY == set()


def test_what_the_budget_is_measured_by_can_see() -> None:
    """Twin: help does load Typer, so that an empty answer above means something."""
    call = [sys.executable, "-P", "-c", CHILD, json.dumps(["report", "--help"])]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True)
    assert "typer" in json.loads(done.stderr.splitlines()[-1])[1]
