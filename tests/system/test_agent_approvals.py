"""Who is asked what before a call runs: at a terminal, and without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_process import Home, chat, served
from agent_terminal import CTRL_C, CTRL_D, Terminal

from agent.approvals import DENIED
from agent.cli.commands import RUN
from agent.rehearsal.server import Rehearsal
from ledger.events import runs

QUESTION = "Allow? [y]es once, [a]lways this in the session, [N]o: "
ANSWER = 'text = "Done."'


def command(line: str) -> str:
    """Return a step that calls a command."""
    return f"""calls = [{{ tool = "run_command", arguments = {{ command = '{line}' }} }}]"""


TOUCH = command("touch made")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of its own."""
    return Home(tmp_path)


def terminal(home: Home, rehearsal: Rehearsal, *words: str) -> Terminal:
    """Start `agent run` on a terminal."""
    call = home.words("run", "hi", *chat(rehearsal.base_url_of("openai-chat")), *words)
    return Terminal(call, home.workspace, home.environment)


def answers(home: Home) -> list[tuple[str, str, str]]:
    """Return what was answered: (answer, by, scope)."""
    return [(one.answer, one.by, one.scope) for one in home.bodies(runs.ApprovalAnswered)]


def results(home: Home) -> list[tuple[str, str]]:
    """Return (status, text) of what tools gave."""
    return [(one.status, home.text(one.result)) for one in home.bodies(runs.ToolReturned)]


@pytest.mark.parametrize(("typed", "made"), [("y", True), ("YES", True), ("n", False), ("", False), ("what?", False)])
def test_yes_once_and_anything_else_is_no(typed: str, made: bool, home: Home) -> None:
    """SEC-06, TOOL-38: the whole command is shown; y runs it once, everything else denies it, and the turn goes on."""
    with served(TOUCH, ANSWER) as rehearsal, terminal(home, rehearsal) as shown:
        assert "asks before anything that is not read-only · commands are not sandboxed" in " ".join(
            shown.expect("run_command\n  command: touch made\n").split()
        )
        shown.expect(QUESTION)
        shown.type(f"{typed}\n")
        shown.expect("Done.")
        assert shown.ended() == 0
    assert (home.workspace / "made").exists() is made
    assert answers(home) == [("allowed" if made else "denied", "user", "once")]
    if not made:
        assert results(home) == [("denied", DENIED)]
        assert [one.gate for one in home.bodies(runs.GateRefused)] == ["approval"]
    home.check()


def test_always_is_for_equal_calls_of_the_session(home: Home) -> None:
    """The same command is not asked for again, not even by the next process; another one is."""
    with served(*[f"{TOUCH}\nturn = 1"] * 2, f"{ANSWER}\nturn = 1", f"{TOUCH}\nturn = 2",
                command("touch other") + "\nturn = 2", f"{ANSWER}\nturn = 2") as rehearsal:  # fmt: skip
        with terminal(home, rehearsal) as shown:
            shown.expect(QUESTION)
            shown.type("a\n")
            assert shown.ended() == 0
            assert shown.shown.count("Allow?") == 1
        with terminal(home, rehearsal, "-c") as shown:
            assert "touch other" in shown.expect(QUESTION)
            shown.type("n\n")
            assert shown.ended() == 0
    assert answers(home) == [("allowed", "user", "session"), ("denied", "user", "once")]
    assert [status for status, _ in results(home)] == ["ok", "ok", "ok", "denied"]
    home.check()


def test_the_end_of_the_input_denies(home: Home) -> None:
    """Ctrl-D is no yes."""
    with served(TOUCH, ANSWER) as rehearsal, terminal(home, rehearsal) as shown:
        shown.expect(QUESTION)
        shown.type(CTRL_D)
        shown.expect("Done.")
        assert shown.ended() == 0
    assert results(home) == [("denied", DENIED)]


def test_what_was_typed_before_is_no_answer(home: Home) -> None:
    """A y from before the question, perhaps meant for something else, allows nothing."""
    with served(f"delay_ms = 1500\n{TOUCH}", ANSWER) as rehearsal, terminal(home, rehearsal) as shown:
        shown.expect("commands are not sandboxed")
        shown.type("y\n")
        shown.expect(QUESTION)
        shown.type("n\n")
        assert shown.ended() == 0
    assert not (home.workspace / "made").exists()
    assert answers(home) == [("denied", "user", "once")]


def test_ctrl_c_at_the_question_stops_the_turn(home: Home) -> None:
    """LOOP-09, LOOP-10: interrupted, the call is answered as not run, and `-c` goes on with a valid conversation."""
    with served(TOUCH, ANSWER) as rehearsal:
        with terminal(home, rehearsal) as shown:
            shown.expect(QUESTION)
            shown.type(CTRL_C)
            shown.expect("agent: interrupted: `agent run -c` goes on")
            assert shown.ended() == 130
        assert not (home.workspace / "made").exists()
        assert answers(home) == [("denied", "nobody", "once")]
        ran = home.run("-c", "--output-format", "json")
        assert (ran.code, ran.result["response"]) == (0, "Done.")
        assert all(not one.seen.complaints for one in rehearsal.requests)
    home.check()


@pytest.mark.parametrize("policy", ["on-request", "untrusted"])
def test_without_a_terminal_it_is_denied(policy: str, home: Home) -> None:
    """SEC-06, SEC-19, TOOL-38: nobody can be asked, the posture says so, the model gets the text of a refusal."""
    look = 'calls = [{ tool = "list_dir", arguments = {} }]'
    with served(look, TOUCH, ANSWER) as rehearsal:
        words = [*chat(rehearsal.base_url_of("openai-chat")), "--approval-policy", policy]
        ran = home.run("hi", *words)
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert "no terminal to ask at" in ran.err
    assert not (home.workspace / "made").exists()
    assert [status for status, _ in results(home)] == ["ok" if policy == "on-request" else "denied", "denied"]
    assert results(home)[-1] == ("denied", DENIED)
    assert {one.by for one in home.bodies(runs.ApprovalAnswered)} == {"nobody"}


@pytest.mark.parametrize("words", [["-y"], ["-y", "--approval-policy", "untrusted"], ["--approval-policy", "never"]])
def test_never_ask(words: list[str], home: Home) -> None:
    """SEC-07, SEC-20: -y is never, also over untrusted; the help says what it does."""
    with served(TOUCH, ANSWER) as rehearsal, terminal(home, rehearsal, *words) as shown:
        shown.expect("never asks")
        assert shown.ended() == 0
        assert "Allow?" not in shown.shown
    assert (home.workspace / "made").exists()
    assert home.bodies(runs.ApprovalAsked) == []
    (yes,) = (option for option in RUN if option.name == "yes")
    assert yes.help.startswith("Never ask: commands and edits run at once.")


def test_untrusted_asks_for_reading_too(home: Home) -> None:
    """SEC-19: at a terminal every call is asked for."""
    look = 'calls = [{ tool = "list_dir", arguments = {} }]'
    with served(look, ANSWER) as rehearsal, terminal(home, rehearsal, "--approval-policy", "untrusted") as shown:
        assert "list_dir" in shown.expect(QUESTION)
        shown.type("y\n")
        assert shown.ended() == 0
    assert [status for status, _ in results(home)] == ["ok"]


def test_what_is_shown_cannot_deceive(home: Home) -> None:
    """Control characters of a command are made visible: what is allowed is what runs."""
    step = 'calls = [{ tool = "run_command", raw = \'{"command": "touch made #\\u001b[2K\\rls"}\' }]'
    with served(step, ANSWER) as rehearsal, terminal(home, rehearsal) as shown:
        before = shown.expect(QUESTION)
        assert "command: touch made #\\x1b[2K\\rls" in before
        assert "\x1b[2K" not in before
        shown.type("n\n")
        assert shown.ended() == 0


# what a person sees on the way


def test_a_terminal_sees_what_happens(home: Home) -> None:
    """An answer is streamed; a cut says that what stands there is no part of it; tools, waits and cost have a line."""
    steps = [
        'text = "I look around."\nfaults = [{ status = 503 }]\ncalls = [{ tool = "list_dir", arguments = {} }]',
        'text = "The answer is forty-two."\nfaults = [{ cut_after = 3 }]',
    ]
    with served(*steps) as rehearsal, terminal(home, rehearsal) as shown:
        shown.expect("· HTTP 503 (unavailable): trying again in ")
        shown.expect("I look around.\n")
        shown.expect("· list_dir")
        shown.expect("· the answer broke off here: what stands above is no part of it\n")
        shown.expect("The answer is forty-two.\n")
        shown.expect("· 4 requests (2 retries), >= ")
        assert shown.ended() == 0
    assert all(len(one) <= 80 for one in shown.shown.splitlines() if str(home.workspace) not in one)
    assert "\x1b" not in shown.shown
