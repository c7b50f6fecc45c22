"""Killing the writer at any instant: nothing acknowledged is lost, nothing is half there (OBS-49)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ledger.log.log import Log

STREAM = "source:crash"


def _said(lines: list[str], word: str) -> list[tuple[str, int]]:
    """Return (id, number) of the writer's complete lines of one kind."""
    whole = [line.split() for line in lines if line.startswith(word) and line.endswith("\n")]
    return [(event_id, int(number)) for _, event_id, number in whole]


def _killed(child: Any, place: Path, pause_s: float) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Let a writer run until its first acknowledgement and a moment more; return what it tried and what it got."""
    writer = child.start("writer", place, STREAM, 0)
    lines: list[str] = []
    while not lines or not lines[-1].startswith("ack"):
        lines.append(writer.stdout.readline())
        assert lines[-1], "the writer ended by itself"
    time.sleep(pause_s)
    writer.kill()
    lines += writer.stdout.readlines()
    assert writer.wait() == -9
    return _said(lines, "try"), _said(lines, "ack")


def test_what_was_acknowledged_survives_a_kill(child: Any, tmp_path: Path, soak: Any) -> None:
    """SIGKILL at a random instant; a new process finds all that was acknowledged, an unbroken chain, and may
    append again, twice, what was not acknowledged (OBS-49)."""
    place = tmp_path / "ledger.db"
    Log.create(place).close()
    kept: list[str] = []
    for _ in soak.rounds(8, 100):
        tried, acknowledged = _killed(child, place, soak.random.uniform(0, 0.05))
        unknown = [one for one in tried if one not in acknowledged]
        assert len(unknown) <= 1
        given = "".join(f"{event_id} {number}\n" for event_id, number in unknown)
        found = json.loads(child.run("checker", place, STREAM, given=given))
        assert (found["broken"], found["gapless"]) == ([], True)
        kept += [event_id for event_id, _ in acknowledged]
        lost_or_doubled = [event_id for event_id in kept if found["before"].count(event_id) != 1]
        assert lost_or_doubled == []
        assert found["before"] in (kept, kept + [event_id for event_id, _ in unknown])
        kept += [event_id for event_id, _ in unknown]
        assert found["after"] == kept
        assert found["versions"] == [number for _, number in unknown] * 2


def test_a_kill_while_the_log_is_made_leaves_nothing_that_cannot_be_opened(
    child: Any, tmp_path: Path, soak: Any
) -> None:
    """Whatever is there after a kill in the middle of creating, the next writer creates or goes on."""
    reached = set()
    for number in soak.rounds(8, 100):
        place = tmp_path / f"{number}.db"
        writer = child.start("writer", place, STREAM, 0, "create")
        assert writer.stdout.readline() == "opening\n"
        time.sleep(soak.random.uniform(0, 0.02))
        writer.kill()
        acknowledged = _said(writer.stdout.readlines(), "ack")
        reached.add((place.exists(), bool(acknowledged)))
        with Log.open(place, create=True) as log:
            ids = [one.event_id.hex() for one in log.stream_events(STREAM, limit=10_000)]
            assert ids[: len(acknowledged)] == [event_id for event_id, _ in acknowledged]
            assert len(ids) <= len(acknowledged) + 1
    print("reached", reached)
