"""The agent killed at any instant, and continued: nothing is lost or counts twice, the answer is reached (OBS-49)."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from agents import World, ended, kill, signalled
from agents_check import wrong

ANSWER = "All of it is done."
SCRIPT = f"""
[[step]]
text = "I write a file."
calls = [{{ tool = "write_file", arguments = {{ path = "notes.txt", content = "one\\n" }} }}]
faults = [{{ status = 503 }}]
frame_delay_ms = 2

[[step]]
text = "Now a command, and an edit."
thinking = "Which first?"
calls = [
    {{ tool = "run_command", arguments = {{ command = "echo a >> lines.txt" }} }},
    {{ tool = "edit_file", arguments = {{ path = "notes.txt", old_string = "one", new_string = "two" }} }},
]
faults = [{{ cut_after = 3 }}]
frame_delay_ms = 3

[[step]]
calls = [
    {{ tool = "run_command", arguments = {{ command = "sleep 0.05; echo b >> lines.txt" }} }},
    {{ tool = "read_file", arguments = {{ path = "../outside.txt" }} }},
    {{ tool = "run_command", arguments = {{ command = "echo c >> lines.txt" }} }},
]
delay_ms = 40
faults = [{{ error_frame = "Overloaded" }}]

[[step]]
text = "I look at it."
calls = [{{ tool = "read_file", arguments = {{ path = "lines.txt" }} }}]
faults = [{{ status = 429, retry_after = "0", delay_ms = 30 }}, {{ cut_after = 2, cut = "reset" }}]

[[step]]
text = "{ANSWER}"
frame_delay_ms = 5
"""
"""Five steps with everything that can happen to a request, and tools that leave traces."""


def _killed_until_it_ends(world: World, rng: random.Random, took_s: float, most: int) -> int:
    """Kill a run at random instants, at most so often, and go on with it each time; return how often it was killed."""
    kills, prompt = 0, f"Do it, {world.workspace.name}."
    process = world.start(prompt)
    while kills < most:
        try:
            process.wait(rng.uniform(0, 1.25 * took_s))
            break
        except subprocess.TimeoutExpired:
            kills += kill(process)
        process = _go_on(world, prompt)
    done = ended(process)
    while done.code == 2 and "no session of this workspace" in done.err:
        done = world.run(prompt)
    assert done.code == 0, done
    assert done.out.strip() == ANSWER
    return kills


def _go_on(world: World, prompt: str, *more: str) -> subprocess.Popen[str]:
    """Continue; where the process was killed before its session was in the log, begin it."""
    folder = str(world.workspace)
    begun = any(body.folder == folder for _, body in world.events("session.opened"))
    return world.start(None if begun else prompt, *more)


@pytest.mark.parametrize(
    ("database", "speaks", "few", "many"),
    [("sqlite", "openai-chat", 11, 110), ("sqlite", "anthropic", 11, 110), ("postgresql", "openai-chat", 8, 80)],
)
def test_killed_at_random_instants(database: str, speaks: str, few: int, many: int, tmp_path: Path, soak: Any) -> None:
    """SIGKILL from outside, 30 times in all, and `-c` by a new process: the answer is reached, every request that the
    endpoint saw is a row, the strict endpoint never answers 400, and the invariants hold (OBS-03, OBS-30, OBS-49)."""
    wanted = len(soak.rounds(few, many))
    with World(tmp_path / "world", SCRIPT, database=database, speaks=speaks) as world:
        began = time.monotonic()
        assert world.run("Do it, undisturbed.").code == 0
        took_s, kills, number = time.monotonic() - began, 0, 0
        while kills < wanted:
            number += 1
            world.work(f"work{number}-{soak.seed}")
            kills += _killed_until_it_ends(world, soak.random, took_s, wanted - kills)
            lines = world.lines()
            assert len(set(lines)) == len(lines), f"a command ran twice: {lines}"
        assert wrong(world, answer=ANSWER) == []
        print(f"{kills} kills, {number} runs, {len(world.seen())} requests, {took_s:.2f} s undisturbed")


def test_what_is_missing_is_found(tmp_path: Path) -> None:
    """Twin: a request more or less at the endpoint, another body, a status of 400 are each found."""
    with World(tmp_path / "world", SCRIPT) as world:
        assert world.run("Do it.").code == 0
        assert wrong(world, answer=ANSWER, full=False) == []
        path = world.seen_file
        lines = path.read_text().splitlines()
        other = lines[1].replace('"request_id":"', '"request_id":"x').replace('"sha256":"', '"sha256":"0')
        for changed in (
            lines[1:],
            [*lines, other],
            [other, *lines[1:]],
            [lines[0].replace('"status":503', '"status":400'), *lines[1:]],
        ):
            path.write_text("\n".join(changed) + "\n")
            assert wrong(world, answer=ANSWER, full=False) != []
        path.write_text("\n".join(lines) + "\n")
        assert wrong(world, answer="Another answer.", full=False) != []


# every point at which a process can die

EVERYTHING = f"""
[[step]]
text = "I write a file, and try what may not be."
calls = [
    {{ tool = "write_file", arguments = {{ path = "notes.txt", content = "one\\n" }} }},
    {{ tool = "read_file", arguments = {{ path = "../outside.txt" }} }},
    {{ tool = "run_command", arguments = {{ command = "echo a >> lines.txt" }} }},
]
faults = [{{ status = 503 }}]

[[step]]
calls = [{{ tool = "run_command", arguments = {{ command = "echo b >> lines.txt" }} }}]
faults = [{{ cut_after = 3 }}]

[[step]]
model = "rehearsed-1"
faults = [{{ status = 503, always = true }}]

[[step]]
model = "rehearsed-2"
text = "{ANSWER}"
"""
"""A failure, a cut stream, a refused path, a fallback."""
SPARE = ("--fallback-model", "rehearsed-2", "--max-retries", "1")
BEGIN_COMMITS = (
    "RunClaimed", "SessionOpened", "ContextAssembled", "RequestSent", "RequestFailed", "RequestCut", "RequestAnswered",
    "RetryScheduled", "FallbackTaken", "ToolCalled", "ToolReturned", "GateRefused", "MessageAdded", "TurnEnded",
    "RunReleased",
)  # fmt: skip
"""Events with which a commit of such a run begins. Those of other runs have tests of their own below."""
EFFECTS = ("effect:request", "effect:response", "effect:tool")


def _point(place: str) -> list[str]:
    return list(EFFECTS) if place == "effect" else [f"{place}:{name}" for name in BEGIN_COMMITS]


@pytest.mark.parametrize("place", ["before", "after", "effect"])
def test_killed_at_every_point(place: str, tmp_path: Path, soak: Any) -> None:
    """Stopped before and after every kind of commit and at every effect, then continued (OBS-30, OBS-49, LOOP-03)."""
    with World(tmp_path / "world", EVERYTHING) as world:
        for number in soak.rounds(1, 4):
            for point in _point(place):
                world.work(f"work-{point.replace(':', '-')}-{number}")
                count = 1 if not number else soak.random.randint(1, 5)
                _die_and_go_on(world, f"{point}:{count}", *SPARE, reached=not number)
        assert wrong(world, answer=ANSWER) == []


def _die_and_go_on(world: World, fault: str, *more: str, reached: bool = True) -> None:
    """Let a run die at a point, go on with it, and look at what its commands left."""
    prompt = f"Do it, {world.workspace.name}."
    died = world.run(prompt, *more, fault=fault)
    assert died.code == -signal.SIGKILL or (not reached and died.code == 0), f"{fault} was not reached: {died}"
    done = ended(_go_on(world, prompt, *more))
    assert (done.code, done.out.strip()) == (0, ANSWER), f"{fault}: {done}"
    lines = world.lines()
    assert len(set(lines)) == len(lines), f"{fault}: a command ran twice: {lines}"


@pytest.mark.parametrize(
    "point", ["before:TurnStarted", "after:TurnStarted", "before:InputReceived", "after:InputReceived"]
)
def test_killed_where_a_session_goes_on(point: str, tmp_path: Path) -> None:
    """A second prompt, and another configuration for the turn that is open, are one commit each (OBS-49)."""
    with World(tmp_path / "world", f'[[step]]\ntext = "{ANSWER}"\n[[step]]\nrepeat = true\ntext = "Again."\n') as world:
        first = world.run("One.", fault="effect:request" if "Input" in point else "")
        if "Input" in point:
            assert world.run(None, "--max-iterations", "30", fault=point).code == -signal.SIGKILL
            assert world.to_the_end("--max-iterations", "30").code == 0
        else:
            assert first.code == 0
            assert world.run("Two.", "-c", fault=point).code == -signal.SIGKILL
            prompts = [body for _, body in world.events("message.added") if body.role == "user"]
            assert len(prompts) == (1 if point.startswith("before") else 2)
            assert world.to_the_end().code == 0
        assert wrong(world, answer=ANSWER) == []


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", ["ApprovalAsked", "ApprovalAnswered", "ToolCalled"])
def test_killed_around_a_question(place: str, name: str, tmp_path: Path) -> None:
    """The call that was asked about has one result, whatever became of the question (LOOP-03, SEC-19)."""
    script = f"""[[step]]
calls = [{{ tool = "run_command", arguments = {{ command = "echo a >> lines.txt" }} }}]
[[step]]
text = "{ANSWER}"
"""
    policy = ("--approval-policy", "on-request")
    with World(tmp_path / "world", script) as world:
        _die_and_go_on(world, f"{place}:{name}", *policy)
        assert world.lines() == []  # there is nobody who could allow it
        assert wrong(world, answer=ANSWER) == []


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", ["RequestCancelled", "InputReceived", "TurnEnded"])
def test_killed_while_it_stops(place: str, name: str, tmp_path: Path) -> None:
    """Ctrl-C, and the process dies before it has said so: `-c` goes on all the same (LOOP-09)."""
    script = f'[[step]]\nfaults = [{{ stall_after = 2 }}]\ntext = "{ANSWER}"\n'
    with World(tmp_path / "world", script) as world:
        process = world.start("Do it.", fault=f"{place}:{name}")
        world.wait_for_request()
        time.sleep(0.05)
        assert signalled(process, signal.SIGINT).code == -signal.SIGKILL
        done = world.run(None)
        assert (done.code, done.out.strip()) == (0, ANSWER), done
        assert wrong(world, answer=ANSWER) == []


@pytest.mark.parametrize("point", ["before:GateRefused", "after:GateRefused", "before:TurnEnded", "after:TurnEnded"])
def test_killed_at_a_ceiling(point: str, tmp_path: Path) -> None:
    """The ceiling of a turn holds over processes: the turn ends by it, and going on is a new grant (LOOP-27)."""
    script = f"""[[step]]
calls = [{{ tool = "run_command", arguments = {{ command = "echo a >> lines.txt" }} }}]
[[step]]
text = "{ANSWER}"
"""
    with World(tmp_path / "world", script) as world:
        ceiling = ("--max-requests", "1", "--output-format", "json")
        assert world.run("Do it.", *ceiling, fault=point).code == -signal.SIGKILL
        assert len(world.seen()) == 1
        if point != "after:TurnEnded":
            done = world.run(None, *ceiling)
            assert (done.code, done.result["outcome"], done.result["reason"]) == (1, "budget_exhausted", "requests")
            assert len(world.seen()) == 1
        done = world.run(None, *ceiling)
        assert (done.code, done.result["response"], len(done.result["turns"])) == (0, ANSWER, 2)
        assert wrong(world, answer=ANSWER) == []
