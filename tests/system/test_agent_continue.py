"""Stopping a run at each point of a step, and going on with it: `agent run -c` (LOOP-09, OBS-34, -37)."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from agent_terminal import CTRL_C, Terminal
from agents import Done, World, ended, kill, signalled, wait_until
from agents_check import wrong

ANSWER = "It is done."
BOTH = pytest.mark.parametrize("speaks", ["openai-chat", "anthropic"])
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
CALL = (
    'calls = [{ tool = "run_command", arguments = { command = """COMMAND""" } }, '
    '{ tool = "run_command", arguments = { command = "echo later >> lines.txt" } }]'
)
TREE = "sleep 97 & (sleep 98; true) & setsid sleep 99 & sleep 0.1; echo begun >> lines.txt; wait"
"""A command with children, a grandchild, and one that leaves its process group."""
AS_JSON = ("--output-format", "json")
PATIENT = ("--retry-base-ms", "30000")
"""A retry then waits for 15 s at least."""


def _script(fault: str = "", command: str = "echo begun >> lines.txt", more: str = "") -> str:
    faults = f"faults = [{{ {fault} }}]" if fault else ""
    call = CALL.replace("COMMAND", command)
    return f'[[step]]\ntext = "First."\n{call}\n{faults}\n{more}\n[[step]]\ntext = "{ANSWER}"\n'


POINTS = {
    "before the first byte": _script('send = "nothing"'),
    "within the stream": _script("stall_after = 3"),
    "while it waits to retry": _script("status = 503"),
    "while a command runs": _script(command=TREE),
}


def _reach(world: World, point: str) -> None:
    """Wait until a run has come to a point."""
    if point == "while a command runs":
        wait_until(lambda: world.lines() == ["begun"], "the command")
        return
    world.wait_for_request()
    if point == "while it waits to retry":
        wait_until(lambda: bool(world.events("retry.scheduled")), "the wait")
    elif point == "within the stream":
        time.sleep(0.15)


def _at_work(folder: Path) -> list[str]:
    """Return what runs in a folder: the commands that a run left."""
    found = []
    for one in Path("/proc").iterdir():
        try:
            if one.name.isdecimal() and (one / "cwd").readlink() == folder:
                found.append((one / "cmdline").read_text().replace("\0", " ").strip())
        except OSError:
            continue
    return [one for one in found if one]  # one without a command line has ended


def _is_interrupted(done: Done) -> None:
    assert done.code == 130, done
    assert (done.result["outcome"], done.result["is_error"], done.result["response"]) == ("interrupted", True, "")
    assert "Traceback" not in done.err


@BOTH
@pytest.mark.parametrize("point", POINTS)
def test_stopped_and_gone_on_with(point: str, speaks: str, tmp_path: Path) -> None:
    """Ctrl-C to the process group at each point of a step: outcome interrupted, exit code 130; `-c` with an empty
    standard input goes on, and a strict endpoint has nothing to say (LOOP-09, LOOP-22, LOOP-27)."""
    with World(tmp_path / "world", POINTS[point], speaks=speaks) as world:
        process = world.start("Do it.", *AS_JSON, *PATIENT)
        _reach(world, point)
        began = time.monotonic()
        done = signalled(process, signal.SIGINT)
        took_s = time.monotonic() - began
        _is_interrupted(done)
        assert took_s < 5, f"it took {took_s} s to stop"
        assert _at_work(world.workspace) == []
        assert "later" not in world.lines()
        done = world.run(None, *AS_JSON)
        assert (done.code, done.result["response"]) == (0, ANSWER), done
        assert [turn["outcome"] for turn in done.result["turns"]] == ["interrupted", "ok"]
        assert wrong(world, answer=ANSWER) == []


@SIGNALS
def test_every_signal_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    """SIGINT, SIGTERM and SIGHUP in the middle of a command: no process survives, and its result says so (LOOP-09)."""
    with World(tmp_path / "world", POINTS["while a command runs"]) as world:
        process = world.start("Do it.", *AS_JSON)
        _reach(world, "while a command runs")
        assert len(_at_work(world.workspace)) >= 4
        process.send_signal(number)
        _is_interrupted(ended(process))
        assert _at_work(world.workspace) == []
        assert [body.status for _, body in world.events("tool.returned")] == ["cancelled"]
        stops = [body.reason for _, body in world.events("input.received") if body.what == "stop"]
        assert stops == ["user" if number == signal.SIGINT else "signal"]
        assert world.run(None).code == 0
        assert wrong(world, answer=ANSWER) == []


@pytest.mark.parametrize("point", POINTS)
def test_the_second_ctrl_c_ends_it_at_once(point: str, tmp_path: Path) -> None:
    """What it had begun is closed by the next process, which goes on (LOOP-09)."""
    with World(tmp_path / "world", POINTS[point]) as world:
        process = world.start("Do it.", *AS_JSON, *PATIENT)
        _reach(world, point)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert ended(process).code == 130
        wait_until(lambda: _at_work(world.workspace) == [], "the end of what the command had started")
        done = world.to_the_end()
        assert (done.code, done.out.strip()) == (0, ANSWER), done
        assert wrong(world, answer=ANSWER) == []


def test_what_a_killed_agent_left_is_ended_by_the_next(tmp_path: Path) -> None:
    """Its commands cannot be ended by a process that is gone: who recovers the run does, then says lost (CONC-21)."""
    with World(tmp_path / "world", POINTS["while a command runs"]) as world:
        process = world.start("Do it.")
        _reach(world, "while a command runs")
        bystander = subprocess.Popen(["sleep", "30"], cwd=world.workspace)
        kill(process)
        assert len(_at_work(world.workspace)) >= 4
        assert world.run(None).code == 0
        wait_until(lambda: len(_at_work(world.workspace)) <= 1, "the end of what was left")
        assert bystander.poll() is None
        bystander.kill()
        bystander.wait()
        assert [body.status for _, body in world.events("tool.returned")] == ["lost", "ok"]
        assert wrong(world, answer=ANSWER) == []


@SIGNALS
def test_a_signal_at_any_instant(number: signal.Signals, tmp_path: Path, soak: Any) -> None:
    """Wherever a signal comes: interrupted, or too late, and never a traceback; then the answer (LOOP-09)."""
    script = f"""[[step]]
calls = [{{ tool = "run_command", arguments = {{ command = "echo a >> lines.txt" }} }}]
faults = [{{ status = 503 }}]
frame_delay_ms = 4
[[step]]
calls = [{{ tool = "run_command", arguments = {{ command = "sleep 0.1; echo b >> lines.txt" }} }}]
frame_delay_ms = 4
[[step]]
text = "{ANSWER}"
frame_delay_ms = 10
"""
    with World(tmp_path / "world", script) as world:
        began = time.monotonic()
        assert world.run("Undisturbed.").code == 0
        took_s = time.monotonic() - began
        for count in soak.rounds(3, 30):
            world.work(f"work{count}")
            process = world.start(f"Do it, {count}.", *AS_JSON)
            world.wait_for_request(len(world.seen()) + 1)  # before that, no session is there to go on with
            time.sleep(soak.random.uniform(0, took_s))
            done = signalled(process, number)
            # Behind the last event the signal ends the process as it ends any: the answer is in the log.
            assert done.code in (0, 130, -number), done
            assert "Traceback" not in done.err
            done = world.run(None, *AS_JSON)
            assert (done.code, done.result["response"]) == (0, ANSWER), done
            assert _at_work(world.workspace) == []
        assert wrong(world, answer=ANSWER) == []


ASKS = ("--approval-policy", "on-request")


def _at_a_terminal(world: World, prompt: str | None) -> Terminal:
    return Terminal(world.command(prompt, *ASKS), world.folder, world.environment)


def test_stopped_while_it_is_asked(tmp_path: Path) -> None:
    """Ctrl-C at the question: nothing ran, and `-c` goes on; there nobody can be asked (LOOP-09, SEC-19)."""
    with World(tmp_path / "world", _script()) as world:
        with _at_a_terminal(world, "Do it.") as terminal:
            terminal.expect("Allow?")
            terminal.type(CTRL_C)
            assert terminal.ended() == 130
        assert [body.outcome for _, body in world.events("turn.ended")] == ["interrupted"]
        assert world.lines() == []
        done = world.run(None, *ASKS, *AS_JSON)
        assert (done.code, done.result["response"]) == (0, ANSWER)
        assert world.lines() == []
        assert wrong(world, answer=ANSWER) == []


def test_killed_while_it_is_asked(tmp_path: Path) -> None:
    """Killed at the question, it is asked again by the next process, and what is allowed runs once (OBS-49)."""
    with World(tmp_path / "world", _script()) as world:
        with _at_a_terminal(world, "Do it.") as terminal:
            terminal.expect("Allow?")
            assert kill(terminal.process)
        with _at_a_terminal(world, None) as terminal:
            for word in ("begun", "later"):
                terminal.expect(f"echo {word}")
                terminal.expect("Allow?")
                terminal.type("y\n")
            terminal.expect(ANSWER)
            assert terminal.ended() == 0
        assert world.lines() == ["begun", "later"]
        assert [body.by for _, body in world.events("approval.answered")] == ["nobody", "user", "user"]
        assert wrong(world, answer=ANSWER) == []


@BOTH
@pytest.mark.parametrize(
    "fault", ["effect:request", "after:RequestAnswered", "after:ToolCalled", "before:MessageAdded"]
)
def test_another_prompt_leaves_the_open_turn(fault: str, speaks: str, tmp_path: Path) -> None:
    """A prompt while a turn is open ends it as interrupted; what it asked for and never ran has results (LOOP-09)."""
    with World(tmp_path / "world", _script(), speaks=speaks) as world:
        assert world.run("Do it.", fault=fault).code == -signal.SIGKILL
        done = world.run("Do something else.", "-c", *AS_JSON)
        assert (done.code, done.result["response"]) == (0, ANSWER), done
        assert [turn["outcome"] for turn in done.result["turns"]] == ["interrupted", "ok"]
        assert wrong(world, answer=ANSWER) == []


def test_the_cost_is_the_session_s(tmp_path: Path) -> None:
    """After three restarts the result has the requests, tokens and money of all four processes (OBS-37, OBS-36)."""
    usage = "usage = { input = 1000, output = 100 }"
    call = 'calls = [{ tool = "run_command", arguments = { command = "true" } }]'
    script = f"[[step]]\n{call}\n{usage}\n" * 3 + f'[[step]]\ntext = "{ANSWER}"\n{usage}\n'
    with World(tmp_path / "world", script, speaks="anthropic", model="anthropic/claude-sonnet-4-5") as world:
        for prompt in ("Do it.", None, None):
            assert world.run(prompt, fault="before:MessageAdded").code == -signal.SIGKILL
        done = world.run(None, *AS_JSON)
        assert (done.code, done.result["response"]) == (0, ANSWER)
        usage_of_all = done.result["usage"]
        assert [usage_of_all[name] for name in ("requests", "prompt_tokens", "completion_tokens")] == [4, 4000, 400]
        assert (usage_of_all["unknown_spans"], usage_of_all["unpriced_spans"]) == (0, 0)
        # 3 dollars a million tokens of input, 15 of output: the price list of Claude Sonnet 4.5.
        assert done.result["cost_usd"] == pytest.approx(4 * (1000 * 3 + 100 * 15) / 1e6, abs=0)
        assert len({body.pid for _, body in world.events("run.claimed")}) == 4
        assert wrong(world, answer=ANSWER) == []


def test_a_session_is_resumed_from_the_log_alone(tmp_path: Path) -> None:
    """Without accounts, locks and the environment's model, `agent run -c` in the workspace goes on (OBS-34)."""
    with World(tmp_path / "world", POINTS["within the stream"]) as world:
        process = world.start("Do it.")
        _reach(world, "within the stream")
        kill(process)
        log = Path(world.database)
        for file in log.parent.glob("ledger.db.accounts*"):
            file.unlink()
        words = [*world.command(None)[:4], "run", "-c", "-y", "--db", world.database]
        done = subprocess.run(
            words, cwd=world.workspace, env=world.environment, capture_output=True, text=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode, done.stdout.strip()) == (0, ANSWER), done
        assert wrong(world, answer=ANSWER) == []


@pytest.mark.parametrize("damage", ["header", "events", "gone"])
def test_a_log_that_cannot_be_read_is_no_new_session(damage: str, tmp_path: Path) -> None:
    """One line that says what to do, and nothing is asked of the endpoint (OBS-34)."""
    with World(tmp_path / "world", _script()) as world:
        assert world.run("Do it.", fault="after:ToolReturned").code == -signal.SIGKILL
        log, before = Path(world.database), len(world.seen())
        with world.open() as opened:  # what stands in the write-ahead log goes into the file
            opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = log.read_bytes()
        if damage == "header":
            log.write_bytes(b"\0" * 100 + content[100:])
        elif damage == "events":
            log.write_bytes(content.replace(b'{"what":"configuration"', b'["what":"configuration"'))
            assert log.read_bytes() != content
        else:
            log.unlink()
        done = world.run(None)
        assert (done.code, done.out) == (2, ""), done
        assert len(done.err.splitlines()) == 1, done.err
        assert len(world.seen()) == before
