"""One agent's 429 holds the others that use the same key."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.configuration import Target
from agent.holds import held_us, hold_stream, holding
from agent.rehearsal.script import Script
from agent.rehearsal.server import Rehearsal
from ledger.invariants import check
from ledger.log.log import Log

TARGET = Target("openai", "gpt-5", "openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY")
SCRIPT = """
[[step]]
text = "Here."
faults = [{ status = 429, retry_after = "2" }]
"""


def begin(db: Path, folder: Path, url: str) -> subprocess.Popen[bytes]:
    """Start an agent."""
    folder.mkdir()
    words = [
        sys.executable, "-P", "-m", "agent", "run", "go", "--model", "m", "--base-url", url,
        "--protocol", "openai-chat", "--db", str(db), "--workspace", str(folder), "--retry-base-ms", "1",
    ]  # fmt: skip
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_the_second_agent_sends_nothing_in_the_window(tmp_path: Path) -> None:
    """A 429 with Retry-After 2 s of one agent: another process that begins meanwhile waits it out first (LOOP-18)."""
    db = tmp_path / "ledger.db"
    Log.create(db).close()
    with Rehearsal(Script.parse(SCRIPT, "script")) as server:
        first = begin(db, tmp_path / "a", server.base_url_of("openai-chat"))
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with Log.open(db) as log:
                if any(event.type == "endpoint.held" for event in log.all_events()):
                    break
            time.sleep(0.02)
        second = begin(db, tmp_path / "b", server.base_url_of("openai-chat"))
        assert (first.wait(30), second.wait(30)) == (0, 0)
        times = [request.seen.at_us for request in server.requests]
    assert len(times) == 4, "each is refused once and answered once"
    assert times[1] - times[0] >= 1_900_000, "nobody sent anything within the two seconds"
    with Log.open(db) as log:
        assert [one for one in check(log, full=True) if not one.ok] == []


@pytest.mark.parametrize(("now", "least", "most"), [(0, 10, 10), (95, 5, 5), (100, 0, 0), (101, 0, 0)])
def test_a_pause_ends_and_no_clock_makes_it_longer(now: int, least: int, most: int, tmp_path: Path) -> None:
    """What is left of a pause, at most what it was, and a little more so that not all come back at once (LOOP-16)."""
    with Log.create(tmp_path / "ledger.db") as log:
        log.append(holding(log, TARGET, "rate_limited", 100, 10))
        assert holding(log, TARGET, "rate_limited", 90, 10) == [], "a longer pause is known"
        found = held_us(log, TARGET, now)
        assert least <= found <= most + (250_000 if most else 0)
        other = Target("openai", "gpt-5", "openai-chat", "https://api.openai.com/v1", "ANOTHER_KEY")
        assert held_us(log, other, now) == 0, "another key is not held"
        assert hold_stream(log, other) != hold_stream(log, TARGET)
