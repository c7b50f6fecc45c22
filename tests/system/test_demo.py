"""`ledger demo --sample`: an import shown on a sample, computed and not painted; nobody's sessions are looked into."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.cli import run
from ledger.invariants import CHECKS, FULL_CHECKS

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "reports" / "sample"
OLDER = "3f2b8a6e-51c4-4d0a-9a1e-7c0d5b1e2f10"
PARTS = (
    "1. Import: every line of the session files is accounted for",
    "2. What a session cost",
    "3. What a month cost, by model",
    "4. Who spent it: the dearest session as a tree",
    "5. Verify: the sums hold in every grouping, and folding again gives the same",
)

WATCHED = """
import os, sys
home, opened = sys.argv[1], []

def watch(event, arguments):
    if event in ("open", "os.scandir", "os.listdir", "sqlite3.connect") and isinstance(arguments[0], (str, bytes)):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if path.startswith(home):
            opened.append(event + " " + path)

from ledger.cli import run
sys.addaudithook(watch)
code = run(["demo", *sys.argv[2:]])
print("\\n".join(opened), file=sys.stderr)
sys.exit(code)
"""
"""Plays the demo and says which files and folders below a home it opened."""


class Played:
    """What a demo printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def parts(self) -> list[str]:
        """The parts, each with its heading."""
        return re.split(r"\n(?=\d\. )", self.out)[1:]

    @property
    def total(self) -> str:
        """The total of the report by session."""
        return next(line for line in self.parts[1].splitlines() if line.startswith("total"))


def play(home: Path, *words: str, script: list[str] | None = None, **environment: str) -> Played:
    """Play the demo for someone with this home."""
    keep = ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "LANG", "LC_ALL")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env |= {"HOME": str(home), "TZ": "UTC", **environment}
    if "--sample" not in words:
        words = ("--sample", "bundled", *words)
    call = [sys.executable, "-P", *(script or ["-m", "ledger", "demo"]), *words]
    return Played(subprocess.run(call, env=env, capture_output=True, text=True, timeout=60, check=False))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def write_sessions(root: Path, count: int) -> None:
    """Write files that no reader would take: whoever reads them would have to say so."""
    root.mkdir(parents=True)
    for number in range(count):
        (root / f"{number}.jsonl").write_text('{"private":\n')


def test_all_five_parts(home: Path) -> None:
    """Import, session, month, tree and verification, each with the command that gives it; exit 0 (OBS-01, OBS-02)."""
    demo = play(home)
    assert (demo.code, demo.err) == (0, "")
    assert [part.splitlines()[0] for part in demo.parts] == list(PARTS)
    commands = ["import", "report", "report --by month,model", f"show {OLDER[:8]}", "verify --full"]
    assert [part.splitlines()[1] for part in demo.parts] == [f"$ ledger {command}" for command in commands]
    assert "copied" in demo.parts[0]
    assert OLDER in demo.parts[1]
    assert "2026-11  claude-opus-4-5-20251101" in demo.parts[2]
    assert re.search(r"\n  tool Agent .*\n    agent Explore ", demo.parts[3])
    assert f"all {len(CHECKS + FULL_CHECKS)} checks hold" in demo.parts[4]
    assert demo.out.endswith("$ ledger report --import\n")


def test_the_demo_leaves_nothing_behind(home: Path, tmp_path: Path) -> None:
    """No log, no file, nowhere: not in the home, not in the folder for temporary files."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert play(home, TMPDIR=str(scratch)).code == 0
    assert list(home.rglob("*")) == []
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "before", "after", "parts"),
    [
        (f"{OLDER}.jsonl", '"output_tokens":655', '"output_tokens":656', {1, 2, 3}),
        (f"{OLDER}.jsonl", '"cache_read_input_tokens":18240', '"cache_read_input_tokens":18241', {1, 2, 3}),
        ("agent-a41c09d2e7b35f680.jsonl", '"output_tokens":342', '"output_tokens":343', {1, 2, 3}),
        ("8c1d4e77-0b5f-4a39-8f62-1de0a9b7c355.jsonl", '"output_tokens":2740', '"output_tokens":2741', {1, 2}),
        ("019a5d3e-77c0-7d41-9b0e-6a2f4c8d1e90.jsonl", "gpt-5.3-codex", "gpt-5.4", {1, 2}),
    ],
)
def test_its_figures_are_computed(
    file: str, before: str, after: str, parts: set[int], home: Path, tmp_path: Path
) -> None:
    """One number of the sample changed, and the reports change with it; the invariants hold as before."""
    changed = tmp_path / "sample"
    shutil.copytree(SAMPLE, changed)
    (path,) = changed.rglob(f"*{file}")
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")
    original, other = play(home), play(home, "--sample", str(changed))
    assert other.code == 0
    differing = {place for place in range(5) if original.parts[place] != other.parts[place]}
    assert differing == parts


def test_a_session_more_is_a_row_more(home: Path, tmp_path: Path) -> None:
    changed = tmp_path / "sample"
    shutil.copytree(SAMPLE, changed)
    (path,) = changed.rglob("8c1d4e77*.jsonl")
    text = path.read_text("utf-8").replace("8c1d4e77", "9d2e5f88").replace("msg_01demo", "msg_02demo")
    path.with_name("9d2e5f88-0b5f-4a39-8f62-1de0a9b7c355.jsonl").write_text(text.replace("req_", "req_x"), "utf-8")
    rows = play(home, "--sample", str(changed)).parts[1].count("\n")
    assert rows == play(home).parts[1].count("\n") + 1


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_without_sessions(there: bool, home: Path, tmp_path: Path) -> None:
    """One line that says what to give; exit 2, and nothing printed before."""
    folder = tmp_path / "none"
    if there:
        (folder / ".claude").mkdir(parents=True)
    demo = play(home, "--sample", str(folder))
    assert (demo.code, demo.out) == (2, "")
    assert (
        demo.err == f"ledger: --sample {folder}: no sessions there: give a home folder that holds .claude or .codex\n"
    )


@pytest.mark.parametrize("content", ["", '{"type":"summary"}\n', '{"broken":\n'])
def test_sessions_in_which_nothing_was_spent(content: str, home: Path, tmp_path: Path) -> None:
    """Files without a single request give a clear end and no traceback."""
    root = tmp_path / "sample" / ".claude" / "projects" / "x"
    root.mkdir(parents=True)
    (root / "s.jsonl").write_text(content)
    demo = play(home, "--sample", str(tmp_path / "sample"))
    assert "Traceback" not in demo.err
    assert demo.code == 2
    assert demo.err.splitlines()[-1].startswith("ledger: --sample ")


# the home of whoever plays it


def test_it_counts_the_sessions_of_this_machine_and_reads_none(home: Path) -> None:
    """Folders are listed, no file of the home is opened; what it says is a count."""
    write_sessions(home / ".claude" / "projects" / "x", 3)
    write_sessions(home / ".codex" / "sessions" / "2026", 2)
    demo = play(home, script=["-c", WATCHED, str(home)])
    assert demo.code == 0
    opened = [line for line in demo.err.splitlines() if line]
    assert opened and all(line.startswith("os.scandir ") for line in opened)
    assert "This machine has 5 session files (3 of claude-code, 2 of codex). None was read." in demo.out
    assert "private" not in demo.out
    assert play(home).parts[:4] == demo.parts[:4]


def test_what_watches_can_see(home: Path) -> None:
    """Twin: given as the sample, the same files are opened, and the watcher says so."""
    write_sessions(home / ".claude" / "projects" / "x", 1)
    demo = play(home, "--sample", str(home), script=["-c", WATCHED, str(home)])
    assert any(line.startswith("open ") and line.endswith("0.jsonl") for line in demo.err.splitlines())


def test_without_sessions_it_says_so(home: Path) -> None:
    assert "No sessions of Claude Code, Codex CLI, opencode or Gemini CLI were found on this machine." in play(home).out


def test_another_home_and_the_environment_s_places(home: Path, tmp_path: Path) -> None:
    """--home counts there; without it CLAUDE_CONFIG_DIR and CODEX_HOME say where this machine's sessions lie."""
    write_sessions(tmp_path / "other" / ".claude" / "projects" / "x", 4)
    write_sessions(tmp_path / "elsewhere" / "projects" / "x", 2)
    places = {"CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere")}
    assert "This machine has 2 session files (2 of claude-code)." in play(home, **places).out
    assert (
        "This machine has 4 session files (4 of claude-code)."
        in play(home, "--home", str(tmp_path / "other"), **places).out
    )
    refused = play(home, "--home", str(tmp_path / "nowhere"))
    assert (refused.code, refused.out) == (2, "")


def test_a_report_on_a_client_that_is_not_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--import` with a filter for another client imports what there is and finds nothing of that client."""
    words = ["report", "--import", "--home", str(SAMPLE), "--db", str(tmp_path / "l.db")]
    assert run([*words, "--client", "gateway"]) == 0
    assert "nothing matches" in capsys.readouterr().out
    assert run([*words, "--client", "codex"]) == 0
    assert "019a5d3e" in capsys.readouterr().out
