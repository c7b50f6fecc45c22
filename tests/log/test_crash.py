"""Killing writers, readers and servers at any instant: nothing acknowledged is lost, nothing is half there (OBS-49)."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from postgres_server import Server

from ledger.invariants import check
from ledger.log.location import PostgresPlace, resolve
from ledger.log.log import Log
from ledger.log.postgres_init import init

STREAM = "source:crash"
STREAMS = tuple(f"{STREAM}:{number}" for number in range(3))
ROUNDS_A_LOG = 10
"""After so many a fresh log is made: each round reads the whole of it."""

Attempts = list[tuple[str, str, int]]
"""(stream, id, number)."""


def _said(stream: str, lines: list[str], word: str) -> Attempts:
    """Return (stream, id, number) of the writer's complete lines of one kind."""
    whole = [line.split() for line in lines if line.startswith(word) and line.endswith("\n")]
    return [(stream, event_id, int(number)) for _, event_id, number in whole]


class Round(NamedTuple):
    """What the writers of one round tried, and what was acknowledged to them."""

    tried: Attempts
    acknowledged: Attempts


def _round(child: Any, place: str, pause_s: float, end: Callable[[list[Any]], None], ended: set[int]) -> Round:
    """Let three writers run until each has an acknowledgement and a moment more, then end them.

    Somebody folds meanwhile, and is killed too.
    """
    folder = child.start("reporter", place, "fold", 1_000_000)
    writers = [child.start("writer", place, stream, 0) for stream in STREAMS]
    said: list[list[str]] = [[] for _ in STREAMS]
    for writer, lines in zip(writers, said, strict=True):
        while not lines or not lines[-1].startswith("ack"):
            lines.append(writer.stdout.readline())
            assert lines[-1], "the writer ended by itself"
    time.sleep(pause_s)
    end(writers)
    for writer, lines in zip(writers, said, strict=True):
        lines += writer.stdout.readlines()
        assert writer.wait() in ended
    folder.kill()
    folder.wait()
    pairs = list(zip(STREAMS, said, strict=True))
    return Round(
        [one for stream, lines in pairs for one in _said(stream, lines, "try")],
        [one for stream, lines in pairs for one in _said(stream, lines, "ack")],
    )


def _kill(writers: list[Any]) -> None:
    for writer in writers:
        writer.kill()


class Kept:
    """What must be in a log, by stream."""

    def __init__(self) -> None:
        self.ids: dict[str, list[str]] = {stream: [] for stream in STREAMS}

    def check(self, child: Any, place: str, one: Round) -> None:
        """Look as a new process what became of a round; what has no answer is tried again, twice, and is there once."""
        unknown = [attempt for attempt in one.tried if attempt not in one.acknowledged]
        assert len({stream for stream, _, _ in unknown}) == len(unknown)
        given = "".join(f"{stream} {event_id} {number}\n" for stream, event_id, number in unknown)
        found = json.loads(child.run("checker", place, given=given))
        assert (found["broken"], found["gapless"]) == ([], True)
        for stream in STREAMS:
            late = [event_id for of, event_id, _ in unknown if of == stream]
            ids = self.ids[stream] = self.ids[stream] + [key for of, key, _ in one.acknowledged if of == stream]
            assert found["before"][stream] in (ids, ids + late), stream
            ids += late
            assert found["after"][stream] == ids
        assert found["versions"] == [number for _, _, number in unknown] * 2


def _assert_accounts(place: str) -> None:
    """Check every invariant, among them that the accounts are what the log gives when it is folded anew."""
    with Log.open(resolve(place)) as log:
        assert [found for found in check(log, full=True) if not found.ok] == []


def test_what_was_acknowledged_survives_a_kill(new_backend: Any, child: Any, tmp_path: Path, soak: Any) -> None:
    """SIGKILL of three writers and of who folds, at a random instant; a new process finds all that was acknowledged, an
    unbroken chain, and may append again, twice, what was not; live accounts are the rebuilt ones (OBS-49, OBS-53)."""
    rounds = soak.rounds(4, 200)
    for number in rounds:
        if number % ROUNDS_A_LOG == 0:
            place, kept = new_backend(tmp_path / str(number)).place, Kept()
        one = _round(child, place, soak.random.uniform(0, 0.1), _kill, {-signal.SIGKILL})
        kept.check(child, place, one)
        if number % ROUNDS_A_LOG == ROUNDS_A_LOG - 1 or number == rounds[-1]:
            _assert_accounts(place)


def test_what_was_acknowledged_survives_the_server(other_server: Server, child: Any, soak: Any) -> None:
    """The PostgreSQL server is stopped at once, or one of its processes is killed, which makes it begin anew: when it
    is back, everything that was acknowledged is there (OBS-49)."""
    rounds = soak.rounds(4, 100)

    def stop(_: list[Any]) -> None:
        if soak.random.random() < 0.5:
            other_server.stop("immediate")
            other_server.start()
            return
        with other_server.connect() as admin:
            own = admin.info.backend_pid
            pids = admin.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tallybook/%%' AND pid <> %s", (own,)
            ).fetchall()
        os.kill(soak.random.choice(pids)[0], signal.SIGKILL)

    for number in rounds:
        if number % ROUNDS_A_LOG == 0:
            place, kept = other_server.url(schema=f"crash{number}"), Kept()
            named = resolve(place)
            assert isinstance(named, PostgresPlace)
            init(named)
        one = _round(child, place, soak.random.uniform(0, 0.2), stop, {3})
        _wait_for(other_server)
        kept.check(child, place, one)
        if number % ROUNDS_A_LOG == ROUNDS_A_LOG - 1 or number == rounds[-1]:
            _assert_accounts(place)


def _wait_for(server: Server) -> None:
    """Wait until a server that begins anew answers."""
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            server.connect().close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


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
        acknowledged = _said(STREAM, writer.stdout.readlines(), "ack")
        reached.add((place.exists(), bool(acknowledged)))
        with Log.open(place, create=True) as log:
            ids = [one.event_id.hex() for one in log.stream_events(STREAM, limit=10_000)]
            assert ids[: len(acknowledged)] == [event_id for _, event_id, _ in acknowledged]
            assert len(ids) <= len(acknowledged) + 1
    print("reached", reached)
