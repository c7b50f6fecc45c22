"""`ledger import --watch`: a line where there was something, a clean end, and no end for a log that is away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger.cli import run
from ledger.errors import LogUnavailable
from ledger.sources.importer import SourceReport
from reports import watch

PROGRAM = [sys.executable, "-c", "from ledger.cli import main; main()", "import", "--watch", "--every", "1"]
PATIENCE_SECONDS = 30


def line(number: int) -> str:
    """Return a line of Claude Code with a response."""
    usage = {"input_tokens": 5, "output_tokens": 100 + number}
    message = {"id": f"m{number}", "model": "claude-sonnet-4-5", "stop_reason": "end_turn", "usage": usage}
    at = f"2026-11-30T12:00:{number:02}Z"
    return json.dumps({"type": "assistant", "sessionId": "s", "timestamp": at, "message": message}) + "\n"


def put(home: Path, *numbers: int) -> None:
    """Append responses to a session file."""
    path = home / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(line(number) for number in numbers)


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the program; it is ended with the test."""
    begun: list[subprocess.Popen[str]] = []

    def one(*more: str) -> subprocess.Popen[str]:
        arguments = [*PROGRAM, "--home", str(tmp_path / "home"), "--db", str(tmp_path / "ledger.db"), *more]
        begun.append(subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return begun[-1]

    yield one
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_line_for_what_was_found_and_a_clean_end(start: Start, tmp_path: Path, number: int) -> None:
    """What comes later is found by a later import; a signal ends it with 0, and all that was said is in the log."""
    put(tmp_path / "home", 1, 2)
    process = start()
    assert process.stdout is not None
    assert process.stdout.readline().endswith("  claude-code 2 new requests (2 lines)\n")
    put(tmp_path / "home", 3)
    assert process.stdout.readline().endswith("  claude-code 1 new request (1 line)\n")
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")
    assert run(["verify", "--db", str(tmp_path / "ledger.db")]) == 0


def test_each_line_is_json(start: Start, tmp_path: Path) -> None:
    """With --format json a line is an object: when, and the sources that had something."""
    put(tmp_path / "home", 1)
    process = start("--format", "json")
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    assert [(one["client"], one["new"], one["lines"]) for one in said["sources"]] == [("claude-code", 1, 1)]
    assert "at" in said


def test_csv_has_a_header_and_a_row_for_each_source(start: Start, tmp_path: Path) -> None:
    """With --format csv."""
    put(tmp_path / "home", 1)
    process = start("--format", "csv")
    assert process.stdout is not None
    assert process.stdout.readline().strip().split(",") == list(watch.COLUMNS)
    assert process.stdout.readline().strip().split(",")[1:] == ["claude-code", "1", "1", "1", "0", "0", "0", "0"]


def test_nothing_found_says_nothing(start: Start, tmp_path: Path) -> None:
    """Without sessions there is nothing to say, for however long."""
    (tmp_path / "home").mkdir()
    process = start()
    time.sleep(2.5)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")


class Imports:
    """Imports that go as told, one after the other; then the program is told to stop."""

    def __init__(self, *outcomes: list[SourceReport] | Exception) -> None:
        self.outcomes = list(outcomes)

    def __call__(self) -> list[SourceReport]:
        outcome = self.outcomes.pop(0)
        if not self.outcomes:
            os.kill(os.getpid(), signal.SIGTERM)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between two imports."""
    monkeypatch.setattr(watch.threading.Event, "wait", lambda self, timeout=None: self.is_set())


@pytest.mark.usefixtures("hurried")
def test_a_log_that_is_away_for_a_while_is_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said once, and tried again; at the start it is an error like any other."""
    away = LogUnavailable("ledger.db: another program holds it locked")
    found = [SourceReport(client="codex", lines=3, new=2)]
    assert watch.watch(Imports([], away, away, found, []), 1, "table", strict=False) == 0
    said = capsys.readouterr()
    assert said.err == "ledger: ledger.db: another program holds it locked: tried again\n"
    assert said.out.endswith("  codex 2 new requests (3 lines)\n")
    with pytest.raises(LogUnavailable):
        watch.watch(Imports(away, []), 1, "table", strict=False)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(("strict", "code"), [(False, 0), (True, 1)])
def test_what_was_left_out_is_said_once(strict: bool, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A torn file that stays torn is not said every half minute; under --strict the exit code says it."""
    torn = [SourceReport(client="gemini", torn=1)]
    assert watch.watch(Imports(torn, torn, torn, []), 1, "table", strict=strict) == code
    assert capsys.readouterr().err.count("gemini: 1 file ends in the middle of a line") == 1


@pytest.mark.parametrize("words", ["--every 5", "--watch --every 0", "--watch --every 99999999"])
def test_an_interval_that_cannot_be(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An interval needs --watch, and is a number of seconds that makes sense."""
    assert run(["import", *words.split(), "--home", str(tmp_path), "--db", str(tmp_path / "ledger.db")]) == 2
    assert capsys.readouterr().err.startswith("ledger: --every ")
