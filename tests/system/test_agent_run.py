"""`agent run` as programs and people meet it: results, streams, sessions gone on with, signals, pipes, figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_process import PRICED, Home, Ran, chat, served
from json_schema import problems

from agent.rehearsal.script import DEMO, Script
from agent.rehearsal.server import Rehearsal
from ledger.events import runs

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "stream-json.schema.json").read_text("utf-8"))
ANSWER = 'text = "Done."'
RESULT = ["response", "session", "turn", "outcome", "is_error", "model", "usage", "cost_usd", "turns"]
TURN = ["turn", "who", "model", "requests", "retries", "prompt_tokens", "completion_tokens", "cost_usd", "ms",
        "waited_ms", "outcome"]  # fmt: skip
USAGE = ["requests", "succeeded", "retries", "prompt_tokens", "completion_tokens", "total_tokens", "unknown_spans"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of its own."""
    return Home(tmp_path)


def lines(ran: Ran) -> list[dict[str, Any]]:
    """Return the lines of a stream, each held against the schema; the last one is the result."""
    assert "Traceback" not in ran.err, ran.err
    found = [json.loads(one) for one in ran.out.splitlines()]
    for one in found:
        assert list(problems(one, SCHEMA, SCHEMA)) == [], one
    assert [one["type"] for one in found].count("result") == 1
    assert found[-1]["type"] == "result"
    return found


def fits_result(result: dict[str, Any]) -> None:
    """The object has every field that is promised."""
    assert list(problems(result, SCHEMA["$defs"]["result"], SCHEMA)) == []
    assert set(RESULT) <= set(result) and set(USAGE) <= set(result["usage"])
    assert all(set(TURN) <= set(turn) for turn in result["turns"])


def played(home: Home, script: Script, *words: str) -> Ran:
    """Run the demo's script, at a priced model, in its workspace."""
    script.unpack(home.workspace)
    with Rehearsal(script) as rehearsal:
        base = rehearsal.base_url_of("openai-chat")
        return home.run(
            script.prompt,
            *chat(base),
            "--fallback-model",
            "rehearsed-2",
            "-y",
            "--output-format",
            "stream-json",
            *words,
        )


# what programs get


def test_a_whole_session_as_a_stream(home: Home) -> None:
    """OBS-40, OBS-16: every line fits the schema; requests, retries, a fallback, a cut and tools are lines."""
    ran = played(home, Script.load(DEMO))
    found = lines(ran)
    assert ran.code == 0
    types = [one["type"] for one in found]
    assert set(types) == {
        "init", "text", "tool_begun", "tool_ended", "request_begun", "request_ended", "retry", "fallback", "usage",
        "result",
    }  # fmt: skip
    assert (types[0], types[-2]) == ("init", "usage")
    result = found[-1]
    fits_result(result)
    ended = [one for one in found if one["type"] == "request_ended"]
    assert len(ended) == types.count("request_begun") == result["usage"]["requests"] == 12
    assert [one["status"] for one in ended].count("succeeded") == result["usage"]["succeeded"] == 6
    assert types.count("retry") == result["usage"]["retries"] == 5
    assert (types.count("fallback"), result["usage"]["fallbacks"]) == (1, 1)
    assert [one["status"] for one in ended if one["status"] == "cut"] == ["cut"]
    tools = [one for one in found if one["type"] == "tool_ended"]
    assert [one["exit_code"] for one in tools if one["tool"] == "run_command"] == [1, 0]  # OBS-42
    # What was said in answers that came to their end is what the conversation holds.
    kept = {one["span"] for one in ended if one["status"] == "succeeded"}
    said = "".join(one["text"] for one in found if one["type"] == "text" and one["span"] in kept)
    assert said.endswith(result["response"])
    assert found[-2]["total_usage"] == result["total_usage"] == result["usage"]  # OBS-36
    home.check()


def test_the_json_result(home: Home) -> None:
    """OBS-39: one object, its sums those of its turns, over processes (OBS-37); exit 0 for ok."""
    with served(ANSWER) as rehearsal:
        words = ["--model", PRICED, "--base-url", rehearsal.base_url, "--output-format", "json"]
        first, second = home.run("hi", *words), home.run("-c", "and again", "--output-format", "json")
    assert (first.code, second.code) == (0, 0)
    assert len(first.out.splitlines()) == 1
    one, two = first.result, second.result
    fits_result(one)
    fits_result(two)
    assert (one["response"], one["outcome"], one["is_error"], one["error"]) == ("Done.", "ok", False, None)
    assert (two["session"], len(two["turns"])) == (one["session"], 2)
    assert two["cost_usd"] > one["cost_usd"] > 0
    assert two["cost_usd"] == pytest.approx(sum(turn["cost_usd"] for turn in two["turns"]))
    for name in ("requests", "succeeded", "retries", "prompt_tokens", "completion_tokens"):
        assert two["usage"][name] == sum(turn[name] for turn in two["turns"])
    home.check()


@pytest.mark.parametrize(
    ("steps", "words", "code", "outcome", "reason"),
    [
        (["faults = [{ status = 500, always = true }]"], ["--max-retries", "1"], 1, "error", "server_error"),
        (['calls = [{ tool = "list_dir", arguments = {} }]\nrepeat = true'], ["--max-iterations", "3"], 1,
         "iteration_limit", None),
        (['calls = [{ tool = "list_dir", arguments = {} }]\nrepeat = true'], ["--max-requests", "2"], 1,
         "budget_exhausted", "requests"),
        (['text = "slow"\ndelay_ms = 20000'], ["--max-seconds", "1"], 1, "budget_exhausted", "wall"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("output", ["json", "stream-json"])
def test_the_same_object_on_failure(
    steps: list[str], words: list[str], code: int, outcome: str, reason: str | None, output: str, home: Home
) -> None:
    """LOOP-27, OBS-36: every outcome has its result, its code, and a line for people."""
    with served(*steps) as rehearsal:
        ran = home.run("hi", *chat(rehearsal.base_url_of("openai-chat")), *words, "--output-format", output)
    result = lines(ran)[-1] if output == "stream-json" else ran.result
    fits_result(result)
    assert (ran.code, result["outcome"], result["is_error"], result["response"]) == (code, outcome, True, "")
    assert reason in (None, result["reason"])
    assert result["usage"]["requests"] == len(home.bodies(runs.RequestSent)) > 0  # OBS-28
    assert ran.err.splitlines()[-1].startswith(f"agent: {outcome}")
    home.check()


def test_the_text_of_a_pipe_is_the_answer_alone(home: Home) -> None:
    """Into a pipe goes what the turn came to, and nothing else; the posture stands on standard error (SEC-06)."""
    with served('text = "I look."\ncalls = [{ tool = "list_dir", arguments = {} }]', ANSWER) as rehearsal:
        ran = home.run(*chat(rehearsal.base_url_of("openai-chat")), stdin=b"hi\n")
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert ran.err.count("\n") == 1
    assert "no terminal to ask at: whatever is not read-only is denied · commands are not sandboxed" in ran.err


# prompts


@pytest.mark.parametrize("words", [["--", "--help me"], ["- a list"], ["--", "-x"], ["a" * 100_000]])
def test_prompts_of_every_kind(words: list[str], home: Home) -> None:
    """Behind --, with a dash and a space, long: each is what the model gets."""
    with served(ANSWER) as rehearsal:
        base = rehearsal.base_url_of("openai-chat")
        ran = home.run(*chat(base), *words)
        assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
        asked = rehearsal.requests[0].body
    assert asked["messages"][-1] == {"role": "user", "content": words[-1]}


def test_a_huge_prompt_from_standard_input(home: Home) -> None:
    with served(ANSWER) as rehearsal:
        ran = home.run(*chat(rehearsal.base_url_of("openai-chat")), stdin="größe ".encode() * 500_000)
        assert rehearsal.requests[0].seen.size_bytes > 4_000_000
    assert (ran.code, ran.out) == (0, "Done.\n")


def test_a_secret_in_a_prompt_is_masked_before_it_is_stored(home: Home) -> None:
    """What the process knows as a secret, and what looks like one, is in no file (SEC, redaction)."""
    secrets = ["hunter2-hunter2-hunter2", "sk-ant-abcdefghijklmnopqrstuvwxyz"]
    with served('text = "It is hunter2-hunter2-hunter2."') as rehearsal:
        words = [*chat(rehearsal.base_url_of("openai-chat")), "--output-format", "json"]
        ran = home.run(f"my keys are {' and '.join(secrets)}", *words, DEPLOY_TOKEN=secrets[0])
        assert not any(secret in json.dumps(rehearsal.requests[0].body) for secret in secrets)
    assert ran.result["response"] == "It is [masked]."
    for path in home.db.parent.rglob("*"):
        assert not path.is_file() or not any(secret.encode() in path.read_bytes() for secret in secrets)
    texts = [home.text(one.blob) for one in home.bodies(runs.MessageAdded)]
    assert "my keys are [masked] and sk-ant-[masked]" in texts[0]


# going on


def test_going_on_needs_no_words(home: Home) -> None:
    """`-c` keeps the models of the session; --model changes them, and older rows keep theirs (LOOP-26)."""
    with served(ANSWER) as rehearsal:
        base = rehearsal.base_url_of("openai-chat")
        home.run("hi", *chat(base, "one"), "--fallback-model", "spare")
        home.run("-c", "again")
        home.run("-c", "again", *chat(base, "two"))
        assert home.run("-c", "again", "--base-url", base).code == 2
    assert [one.model for one in home.bodies(runs.RequestSent)] == ["one", "one", "two"]
    home.check()


def test_a_session_is_gone_on_with_in_its_own_workspace(home: Home, tmp_path: Path) -> None:
    """--session with a beginning of its id, from another folder: the tools work where they did."""
    (home.workspace / "here.txt").write_text("x")
    step = 'calls = [{ tool = "list_dir", arguments = {} }]'
    with served(ANSWER + "\nturn = 1", step + "\nturn = 2", ANSWER + "\nturn = 2") as rehearsal:
        home.run("hi", *chat(rehearsal.base_url_of("openai-chat")))
        session = home.events()[0].session_id or ""
        words = home.words("run", "--session", session[:30], "look")
        done = subprocess.run(words, cwd=tmp_path, env=home.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert home.text(home.bodies(runs.ToolReturned)[0].result).startswith("here.txt")


# signals and pipes


def begun(home: Home, *words: str) -> subprocess.Popen[str]:
    """Start `agent run` and return when its first request has left."""
    process = subprocess.Popen(
        home.words("run", "hi", *words, "--output-format", "stream-json"), cwd=home.workspace, env=home.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    head = [process.stdout.readline(), process.stdout.readline()]
    assert [json.loads(one)["type"] for one in head] == ["init", "request_begun"]
    return process


def rest(process: subprocess.Popen[str]) -> Ran:
    """Return what a process still says, and how it ended."""
    assert process.stdout is not None and process.stderr is not None
    with process, process.stdout, process.stderr:
        out, err = process.stdout.read(), process.stderr.read()
        return Ran(process.wait(20), out, err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_turn_and_the_stream(number: int, home: Home) -> None:
    """OBS-36: interrupted, exit 130, and the last line is the result with its totals."""
    with served('text = "slow"\ndelay_ms = 20000', ANSWER) as rehearsal:
        process = begun(home, *chat(rehearsal.base_url_of("openai-chat")))
        process.send_signal(number)
        ran = rest(process)
    found = lines(ran)
    assert ran.code == 130
    assert (found[-1]["outcome"], found[-1]["usage"]["requests"]) == ("interrupted", 1)
    assert [one["status"] for one in found if one["type"] == "request_ended"] == ["cancelled"]
    assert ran.err.splitlines()[-1] == "agent: interrupted: `agent run -c` goes on"
    home.check()


def test_two_signals_end_it_at_once(home: Home) -> None:
    """LOOP-10: the second one does not wait for a command that will not die; the result is written all the same."""
    command = (
        'calls = [{ tool = "run_command", arguments = { command = "trap : TERM INT; sleep 20 & wait; sleep 20" } }]'
    )
    with served(command, ANSWER) as rehearsal:
        process = begun(home, *chat(rehearsal.base_url_of("openai-chat")), "-y")
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["type"] != "tool_begun":
            pass
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        ran = rest(process)
        assert ran.code == 130
        assert lines(ran)[-1]["outcome"] == "interrupted"
        again = home.run("-c", "--output-format", "json")
    assert (again.code, again.result["response"]) == (0, "Done.")
    home.check()


def test_a_reader_that_leaves_stops_the_run(home: Home) -> None:
    """Nobody reads any more: the turn is ended as interrupted and nothing more is sent (exit 141)."""
    step = (
        'text = "word word word"\nframe_delay_ms = 20\ncalls = [{ tool = "list_dir", arguments = {} }]\nrepeat = true'
    )
    with served(step) as rehearsal:
        process = begun(home, *chat(rehearsal.base_url_of("openai-chat")))
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(20) == 141
        err = process.stderr.read()
        process.stderr.close()
        assert len(rehearsal.requests) <= 2
    assert "Traceback" not in err
    assert [one.outcome for one in home.bodies(runs.TurnEnded)] == ["interrupted"]
    home.check()


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_an_output_without_room(output: str, home: Home) -> None:
    """Standard output is a full disk: one line, no traceback; the log has the turn."""
    with served(ANSWER) as rehearsal, Path("/dev/full").open("w") as full:
        words = home.words("run", "hi", *chat(rehearsal.base_url_of("openai-chat")), "--output-format", output)
        done = subprocess.run(
            words, cwd=home.workspace, env=home.environment, stdin=subprocess.DEVNULL, stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "agent: No space left on device: free some space and run this again"
    assert len(home.bodies(runs.TurnEnded)) == 1


# ownership


def test_who_holds_a_session_is_told_and_can_be_replaced(home: Home) -> None:
    """Item 4: a second process is refused with who has it (reason held); taken over, the first stops as fenced."""
    with served('text = "slow"\ndelay_ms = 1500\nturn = 1', ANSWER + "\nturn = 2") as rehearsal:
        process = begun(home, *chat(rehearsal.base_url_of("openai-chat")))
        refused = home.run("-c", "mine", "--output-format", "stream-json")
        taken = home.run("-c", "mine", "--take-over", "--output-format", "json")
        ran = rest(process)
    assert refused.code == 2
    assert (lines(refused)[-1]["reason"], lines(refused)[-1]["usage"]["requests"]) == ("held", 1)
    assert f"is being run by process {process.pid} on " in refused.err
    assert (taken.code, taken.result["response"]) == (0, "Done.")
    fenced = lines(ran)[-1]
    assert (ran.code, fenced["outcome"], fenced["reason"]) == (1, "error", "fenced")
    assert "was taken over by process" in ran.err.splitlines()[-1]
    home.check()


# figures


def ledger(home: Home, *words: str) -> Any:
    """Return what a command of `agent` says as JSON."""
    done = subprocess.run(
        [*home.words(*words), "--format", "json"], cwd=home.workspace, env=home.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sessions_and_costs(home: Home) -> None:
    """OBS-38: what a session cost by model, who, kind and tool, with time; its sums are those of the result."""
    result = lines(played(home, Script.load(DEMO)))[-1]
    (session,) = ledger(home, "sessions")["sessions"]
    assert (session["session"], session["outcome"], session["requests"]) == (result["session"], "ok", 12)
    assert session["tokens"] == result["usage"]["total_tokens"]
    cost = ledger(home, "cost")
    assert cost == ledger(home, "cost", result["session"][:20])
    models = {row["model"]: row for row in cost["rows"] if row["kind"] == "model"}
    tools = {row["tool"]: row["count"] for row in cost["rows"] if row["kind"] == "tool"}
    assert {name: row["requests"] for name, row in models.items()} == {"rehearsed-1": 11, "rehearsed-2": 1}
    assert tools == {"list_dir": 1, "run_command": 2, "read_file": 2, "edit_file": 1}
    assert {row["who"] for row in cost["rows"]} == {"main"}
    assert all(row["ran_ms"] is not None for row in cost["rows"])
    assert cost["total"]["requests"] == 12
    gone = subprocess.run(home.words("cost", "nothing-such"), env=home.environment, capture_output=True, check=False)
    assert gone.returncode == 2
