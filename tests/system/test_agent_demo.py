"""`ledger demo`: the agent at work on a rehearsal, computed and not painted, within seconds and without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.rehearsal.script import DEMO
from ledger.invariants import CHECKS, FULL_CHECKS

TEXT = DEMO.read_text("utf-8")


class Played:
    """What a demo printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.parts = re.split(r"\n(?=\d\. )", self.out)[1:]

    def part(self, number: int) -> str:
        """Return a part without what differs from run to run: ids, times, ports, folders."""
        part = re.sub(r"[0-9a-f]{8}-[0-9a-f-]+", "ID", self.parts[number - 1])
        return re.sub(r"\d+\.\d+ ?s\b|\d+ ms|, \d+ ms|127\.0\.0\.1:\d+|/tmp/\S+|\d\d-?:?\d\d[ :]\S+", "*", part)


def play(home: Path, script: Path | None = None, **environment: str) -> Played:
    """Play the demo for someone with this home, and a proxy that nobody could reach."""
    env = {name: os.environ[name] for name in ("PYTHONPATH", "LANG", "LC_ALL") if name in os.environ}
    # Without the environment's own folder on PATH: whoever tries this first has not activated it.
    env |= {"HOME": str(home), "TZ": "UTC", "PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:9", **environment}
    call = [sys.executable, "-P", "-m", "ledger", "demo", *(["--script", str(script)] if script else [])]
    return Played(subprocess.run(call, env=env, capture_output=True, text=True, timeout=60, check=False))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def changed(tmp_path: Path, *pairs: tuple[str, str]) -> Path:
    """Return the demo's script with something else in it."""
    text = TEXT
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    script = tmp_path / "script.toml"
    script.write_text(text, "utf-8")
    return script


def test_all_six_parts(home: Path, tmp_path: Path) -> None:
    """Item 10: found and fixed through tool calls, past two 503s, a cut stream and a fallback; all checks hold."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    began = time.monotonic()
    demo = play(home, TMPDIR=str(scratch))
    assert (demo.code, demo.err) == (0, "")
    assert time.monotonic() - began < 10
    assert [int(part[0]) for part in demo.parts] == [1, 2, 3, 4, 5, 6]
    prices, run, change, cost, tree, checks = demo.parts
    assert prices.count("$ ledger prices set ") == 2 and "has none, so the demo states one" in prices
    assert run.count("HTTP 503 (unavailable): trying again in ") == 4
    assert run.count("the answer broke off here") == 1
    assert run.count("HTTP 503 (unavailable): asking rehearsed-2 instead of rehearsed-1") == 1
    assert "run_command python -m unittest -v: exit code 1" in run
    assert "run_command python -m unittest -v: exit code 0" in run
    assert "-    return [cents // people] * people\n+    each, left = divmod(cents, people)" in change
    assert re.search(r"^main +model +rehearsed-1 +11 +5 ", cost, re.MULTILINE)
    assert len(re.findall(r"^  rehearsed-1 .* failed 503 ", tree, re.MULTILINE)) == 5
    assert len(re.findall(r"^  rehearsed-1 .* cut 200 ", tree, re.MULTILINE)) == 1
    assert f"all {len(CHECKS + FULL_CHECKS)} checks hold" in checks
    assert list(home.rglob("*")) == [] and list(scratch.iterdir()) == []


def test_its_figures_are_computed(home: Path, tmp_path: Path) -> None:
    """Other tokens, one refusal fewer, another answer: the cost, the tree and the diff change with the script."""
    first = play(home)
    other = play(
        home,
        changed(
            tmp_path,
            (
                "faults = [{ status = 503, times = 2 }]",
                "faults = [{ status = 503 }]\nusage = { input = 900000, output = 7 }",
            ),
            ("divmod(cents, people)", "divmod(cents,  people)"),
        ),
    )
    assert other.code == 0
    assert [number for number in range(1, 6) if first.part(number) != other.part(number)] == [2, 3, 4, 5]
    assert "900,000" in other.parts[4] and "2.7" in other.parts[3]  # 900,000 tokens at 3 USD a million
    assert len(re.findall(r"failed 503 ", other.parts[4])) == 4
    assert first.part(4) == play(home).part(4)


def test_a_task_that_is_not_done(home: Path, tmp_path: Path) -> None:
    """Twin: a model that never answers ends the demo with exit 1, and every check holds all the same."""
    demo = play(
        home, changed(tmp_path, ('model = "rehearsed-2"\n', 'model = "rehearsed-2"\nfaults = [{ status = 401 }]\n'))
    )
    assert demo.code == 1
    assert "agent: error (unauthorized): " in demo.out
    assert "checks hold" in demo.parts[5]


def test_a_script_that_is_none(home: Path, tmp_path: Path) -> None:
    demo = play(home, tmp_path / "nowhere.toml")
    assert (demo.code, demo.out) == (2, "")
    assert demo.err.endswith("cannot be read: No such file or directory: give the TOML file of a rehearsal\n")
