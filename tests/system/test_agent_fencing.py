"""Two processes and one session: who holds it is named, who takes it over goes on, who lost it stops (OBS-49)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from agents import World, ended, kill, stopped, wait_until
from agents_check import wrong

ANSWER = "Both are there."
SCRIPT = f"""
[[step]]
text = "One."
calls = [{{ tool = "run_command", arguments = {{ command = "echo one >> lines.txt; WAIT" }} }},
         {{ tool = "run_command", arguments = {{ command = "echo two >> lines.txt" }} }}]
faults = [{{ status = 503, delay_ms = DELAY }}]
[[step]]
calls = [{{ tool = "run_command", arguments = {{ command = "echo three >> lines.txt" }} }}]
[[step]]
text = "{ANSWER}"
"""
DATABASES = pytest.mark.parametrize("database", ["sqlite", "postgresql"])


def _script(wait: str = "true", delay_ms: int = 0) -> str:
    return SCRIPT.replace("WAIT", wait).replace("DELAY", str(delay_ms))


def _head(world: World) -> int:
    with world.open() as log:
        return log.head_position()


def _is_told_who_has_it(world: World, process: subprocess.Popen[str]) -> None:
    """A second process gets exit code 2 and a line that names the holder; it changes nothing."""
    before = _head(world)
    for prompt in (None, "Something else."):
        done = world.run(prompt, *(() if prompt is None else ("-c",)))
        assert (done.code, done.out) == (2, "")
        line = (
            f"is being run by process {process.pid} on {os.uname().nodename}: wait for it, stop it, or give --take-over"
        )
        assert line in done.err
        assert "Traceback" not in done.err
    assert _head(world) == before


def _has_stopped(world: World, process: subprocess.Popen[str], head: int, requests: int) -> None:
    """A fenced process ends with a line and another code than 0; it appends nothing and has no further effect."""
    done = ended(process)
    assert done.code not in (0, 130), done
    assert done.err.splitlines()[-1].startswith("agent: session ")
    assert "was taken over by process" in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert (_head(world), len(world.seen())) == (head, requests)


@DATABASES
def test_stopped_in_the_middle_of_a_request(database: str, tmp_path: Path) -> None:
    """SIGSTOP while a request runs; another takes over and finishes; SIGCONT: the first does nothing more (item 4)."""
    with World(tmp_path / "world", _script(delay_ms=600), database=database) as world:
        first = world.start("Do both.")
        world.wait_for_request()
        with stopped(first):
            _is_told_who_has_it(world, first)
            _finishes_taken_over(world)
            head, requests = _head(world), len(world.seen())
        _has_stopped(world, first, head, requests)
        assert world.lines() == ["one", "two", "three"]
        claims = [body.reason for _, body in world.events("run.claimed")]
        assert claims == ["begun", "taken"]
        assert [body.reason for _, body in world.events("request.lost")] == ["process_died"]
        assert wrong(world, answer=ANSWER) == []


def _finishes_taken_over(world: World) -> None:
    """Take the session over: the answer is reached, and each line was written once."""
    done = world.run(None, "--take-over")
    assert (done.code, done.out.strip()) == (0, ANSWER), done
    assert world.lines() == ["one", "two", "three"]


@DATABASES
def test_stopped_in_the_middle_of_a_command(database: str, tmp_path: Path) -> None:
    """The same while a command runs: its later call was run by the second process, once, and not by the first."""
    with World(tmp_path / "world", _script(wait="sleep 0.3"), database=database) as world:
        first = world.start("Do both.")
        wait_until(lambda: world.lines() == ["one"], "the first command")
        with stopped(first):
            _is_told_who_has_it(world, first)
            _finishes_taken_over(world)
            head, requests = _head(world), len(world.seen())
        _has_stopped(world, first, head, requests)
        assert world.lines() == ["one", "two", "three"]
        assert [body.status for _, body in world.events("tool.returned")] == ["lost", "ok", "ok"]
        assert wrong(world, answer=ANSWER) == []


def test_taken_over_twice(tmp_path: Path) -> None:
    """Of three processes the newest claim wins; both others stop, whichever wakes up first."""
    with World(tmp_path / "world", _script(wait="sleep 0.3", delay_ms=400)) as world:
        first = world.start("Do both.")
        world.wait_for_request()
        with stopped(first):
            second = world.start(None, "--take-over")
            wait_until(lambda: world.lines() == ["one"], "the first command")
            with stopped(second):
                done = world.run(None, "--take-over")
                assert (done.code, done.out.strip()) == (0, ANSWER), done
                head, requests = _head(world), len(world.seen())
            _has_stopped(world, second, head, requests)
        _has_stopped(world, first, head, requests)
        assert world.lines() == ["one", "two", "three"]
        assert wrong(world, answer=ANSWER) == []


@DATABASES
def test_who_took_over_is_alive_too(database: str, tmp_path: Path) -> None:
    """When the first has ended, its place is the second's: a third is told that the second has the session."""
    held = "until [ -e go ]; do sleep 0.05; done"
    with World(tmp_path / "world", _script(wait=held, delay_ms=400), database=database) as world:
        first = world.start("Do both.")
        world.wait_for_request()
        with stopped(first):
            second = world.start(None, "--take-over")
            wait_until(lambda: world.lines() == ["one"], "the first command")
        assert "was taken over by process" in ended(first).err
        time.sleep(1)  # it looks for the place from time to time
        _is_told_who_has_it(world, second)
        (world.workspace / "go").touch()
        done = ended(second)
        assert (done.code, done.out.strip()) == (0, ANSWER), done
        assert wrong(world, answer=ANSWER) == []


@DATABASES
def test_a_dead_holder_needs_no_permission(database: str, tmp_path: Path) -> None:
    """A holder that was killed is recovered by a plain `-c`; one that let go is resumed (OBS-49)."""
    with World(tmp_path / "world", _script(delay_ms=600), database=database) as world:
        first = world.start("Do both.")
        world.wait_for_request()
        assert kill(first)
        done = world.run(None)
        assert (done.code, done.out.strip()) == (0, ANSWER), done
        assert world.run("And now?", "-c").code == 0
        assert [body.reason for _, body in world.events("run.claimed")] == ["begun", "recovered", "resumed"]
        assert [body.epoch for _, body in world.events("run.claimed")] == [1, 2, 3]
        assert wrong(world) == []


@DATABASES
def test_many_go_on_at_once(database: str, tmp_path: Path, soak: Any) -> None:
    """Of several processes that find the holder dead, one goes on; the others are told, or find the answer there."""
    with World(tmp_path / "world", _script(delay_ms=300), database=database) as world:
        for number in soak.rounds(1, 20):
            world.work(f"work{number}")
            first = world.start(f"Do both, {number}.")
            world.wait_for_request(len(world.seen()) + 1)
            time.sleep(soak.random.uniform(0, 0.1))
            kill(first)
            done = [ended(one) for one in [world.start(None) for _ in range(3)]]
            assert {one.code for one in done} <= {0, 2}, done
            assert any(one.code == 0 and one.out.strip() == ANSWER for one in done), done
            assert all("is being run by process" in one.err for one in done if one.code == 2), done
            assert world.lines() == ["one", "two", "three"]
        assert wrong(world, answer=ANSWER) == []


def test_signals_reach_a_fenced_process_too(tmp_path: Path) -> None:
    """Ctrl-C for a process that was fenced while it slept: it ends at once, and its stop is no event of the run."""
    with World(tmp_path / "world", _script(delay_ms=600)) as world:
        first = world.start("Do both.")
        world.wait_for_request()
        with stopped(first):
            assert world.run(None, "--take-over").code == 0
            head = _head(world)
            os.kill(first.pid, signal.SIGINT)
        done = ended(first)
        assert done.code not in (0, -signal.SIGKILL)
        assert "was taken over by process" in done.err
        assert "Traceback" not in done.err
        assert _head(world) == head
        assert wrong(world, answer=ANSWER) == []
