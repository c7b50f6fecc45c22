"""Bad input, each by a real process: a row where a session had begun, one clear line with the next step, its code."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from agent_process import PRICED, Home, Ran, chat, served
from wire_server import SELF_SIGNED

from ledger.events import runs
from ledger.log.log import Log

ANSWER = 'text = "Done."'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of its own."""
    return Home(tmp_path)


def ends(home: Home) -> list[str]:
    """Return how the requests of the log ended: `failed unauthorized`."""
    return [
        f"{type(one).__name__.removeprefix('Request').lower()} {one.reason}" for one in home.bodies(runs.RequestEnd)
    ]


def line(ran: Ran) -> str:
    """Return what a process said last on standard error: never a traceback."""
    assert "Traceback" not in ran.err, ran.err
    return ran.err.splitlines()[-1]


# keys


def test_without_a_key(home: Home) -> None:
    """No key: nothing leaves, the variable is named, the turn says why it ended (exit 1)."""
    ran = home.run("hi", "--model", "openai/gpt-5.1")
    assert (ran.code, ran.out) == (1, "")
    assert line(ran) == "agent: error (no_key): openai/gpt-5.1: no key: set OPENAI_API_KEY"
    assert home.bodies(runs.RequestSent) == []
    assert [one.outcome for one in home.bodies(runs.TurnEnded)] == ["error"]
    home.check()


def test_a_wrong_key(home: Home) -> None:
    """401: one request, no retry, no fallback (LOOP-19), and the key stands nowhere."""
    key = "a-key-that-is-wrong-0123456789"
    with served(ANSWER, head='key = "right"') as rehearsal:
        words = [*chat(rehearsal.base_url_of("openai-chat")), "--fallback-model", "rehearsed-2"]
        ran = home.run("hi", *words, OPENAI_API_KEY=key)
        assert len(rehearsal.requests) == 1
    assert ran.code == 1
    assert line(ran).startswith("agent: error (unauthorized): 127.0.0.1:")
    assert line(ran).endswith("check the key in the environment")
    assert ends(home) == ["failed unauthorized"]
    assert all(key.encode() not in path.read_bytes() for path in home.db.parent.rglob("*") if path.is_file())
    home.check()


def test_a_key_that_no_header_can_hold(home: Home) -> None:
    """A key with a letter outside of ASCII or a line end is refused with a line, and is not shown."""
    with served(ANSWER) as rehearsal:
        ran = home.run("hi", *chat(rehearsal.base_url_of("openai-chat")), OPENAI_API_KEY="gehéim-0123456789\n0123456")
        assert rehearsal.requests == []
    assert ran.code == 1
    assert "OPENAI_API_KEY" in line(ran) and "0123456" not in ran.err


# endpoints


@pytest.mark.parametrize(
    ("url", "code", "says"),
    [
        ("http://no-such-host.invalid/v1", "unknown_host", "check the base URL and the network"),
        ("http://127.0.0.1:1/v1", "refused", "check that the server runs, and the base URL"),
    ],
)
def test_nobody_there(url: str, code: str, says: str, home: Home) -> None:
    """An unknown host, a port where nobody listens: a row for each attempt, and what to check."""
    ran = home.run("hi", *chat(url), "--max-retries", "1", "--output-format", "json", OPENAI_API_KEY="k" * 20)
    result = ran.result
    assert ran.code == 1
    assert (result["outcome"], result["reason"], result["is_error"]) == ("error", code, True)
    assert says in line(ran)
    assert result["usage"]["requests"] == len(home.bodies(runs.RequestSent)) >= 1
    home.check()


def test_a_certificate_that_nobody_signed(home: Home, tmp_path: Path) -> None:
    """A TLS error is told as such, and is not retried."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_text(SELF_SIGNED)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def shake() -> None:
            try:
                with listening.accept()[0] as line, context.wrap_socket(line, server_side=True) as secure:
                    secure.recv(1)
            except OSError:
                pass

        thread = threading.Thread(target=shake)
        thread.start()
        ran = home.run("hi", *chat(f"https://127.0.0.1:{listening.getsockname()[1]}/v1"), OPENAI_API_KEY="k" * 20)
        thread.join()
    assert ran.code == 1
    assert "error (tls)" in line(ran) and "certificate" in line(ran)
    assert ends(home) == ["failed tls"]


@pytest.mark.parametrize(
    ("fault", "outcome", "code"),
    [
        ('{ send = "html", always = true }', "failed", "not_json"),
        ('{ send = "cut_json", always = true }', "cut", ""),
        ('{ send = "invalid_utf8", always = true }', "", ""),
        ('{ send = "empty", always = true }', "cut", ""),
        ('{ send = "no_finish", always = true }', "cut", ""),
        ('{ cut_after = 2, cut = "reset", always = true }', "cut", "closed"),
        ('{ error_frame = "the model is on fire", always = true }', "cut", "error_frame"),
        ("{ stall_after = 2, always = true }", "cut", "idle"),
        ('{ send = "nothing", always = true }', "failed", "idle"),
    ],
)
@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
def test_answers_that_are_none(fault: str, outcome: str, code: str, protocol: str, home: Home) -> None:
    """HTML, half JSON, bytes that are no UTF-8, a stream that breaks or falls silent: a row, a line, exit 1."""
    with served(f'text = "Some words that are long enough."\nfaults = [{fault}]') as rehearsal:
        words = ["--model", "rehearsed-1", "--base-url", rehearsal.base_url_of(protocol), "--protocol", protocol]
        ran = home.run("hi", *words, "--max-retries", "0", "--timeout", "1", "--output-format", "json")
        assert len(rehearsal.requests) == len(home.bodies(runs.RequestSent))
    result = ran.result
    if not outcome:  # replaced letters, or an answer that is cut: told either way
        assert result["is_error"] is (ran.code == 1)
        assert not result["is_error"] or ends(home)[0].startswith("cut")
        return
    assert (ran.code, result["outcome"]) == (1, "error")
    assert ends(home)[0].startswith(f"{outcome} {code}")
    assert result["error"] and result["reason"]
    assert line(ran).startswith("agent: error (")
    home.check()


def test_an_endless_stream(home: Home) -> None:
    """Text without an end is stopped, by the time of the turn at the latest; memory does not grow with it."""
    with served('text = "word "\nfaults = [{ send = "endless", always = true }]') as rehearsal:
        words = [*chat(rehearsal.base_url_of("openai-chat")), "--max-seconds", "2", "--output-format", "json"]
        ran = home.run("hi", *words)
    assert ran.code == 1
    assert ran.result["outcome"] in ("budget_exhausted", "error")
    assert ends(home)[0] in ("cancelled deadline", "cut too_long")
    assert "Traceback" not in ran.err


def test_an_unknown_model(home: Home) -> None:
    """404: not retried, and what to check."""
    with served(ANSWER, head='models = ["rehearsed-1"]') as rehearsal:
        ran = home.run("hi", *chat(rehearsal.base_url_of("openai-chat"), "nobody"))
    assert ran.code == 1
    assert "error (not_found)" in line(ran) and "check the model's name and the base URL" in line(ran)
    assert ends(home) == ["failed not_found"]


# tool calls


def test_calls_that_cannot_run(home: Home) -> None:
    """Arguments that are no JSON, an unknown tool, two calls with one id: each gets its result, the turn goes on."""
    first = """text = "I look."
calls = [{ tool = "read_file", raw = "{not json" }, { tool = "frobnicate", arguments = { a = 1 } },
         { tool = "list_dir", id = "same", arguments = { path = "." } },
         { tool = "list_dir", id = "same", arguments = { path = "nowhere" } }]"""
    with served(first, ANSWER) as rehearsal:
        ran = home.run("hi", *chat(rehearsal.base_url_of("openai-chat")), "--output-format", "json")
        assert [one.seen.complaints for one in rehearsal.requests] == [(), ()]
    assert (ran.code, ran.result["response"]) == (0, "Done.")
    returned = home.bodies(runs.ToolReturned)
    assert [one.status for one in returned] == ["error", "error", "ok", "error"]
    assert "not valid JSON" in home.text(returned[0].result)
    assert "there is no tool frobnicate: the tools are read_file" in home.text(returned[1].result)
    assert len({one.call for one in home.bodies(runs.ToolCalled)}) == 4
    home.check()


def test_a_workspace_that_vanishes(home: Home) -> None:
    """The folder is removed in the middle: every later call says so, the turn ends in order."""
    remove = f'calls = [{{ tool = "run_command", arguments = {{ command = "rm -rf {home.workspace}" }} }}]'
    look = """calls = [{ tool = "read_file", arguments = { path = "a" } },
         { tool = "run_command", arguments = { command = "ls" } }]"""
    with served(remove, look, ANSWER) as rehearsal:
        ran = home.run("hi", *chat(rehearsal.base_url_of("openai-chat")), "-y")
    assert (ran.code, ran.out) == (0, "Done.\n")
    statuses = [one.status for one in home.bodies(runs.ToolReturned)]
    assert statuses == ["ok", "error", "error"]
    home.workspace.mkdir()
    home.check()
    home.workspace.rmdir()
    gone = subprocess.run(
        home.words("run", "-c", "--session", home.events()[0].session_id or "", "again"), env=home.environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert gone.returncode == 2
    assert f"{home.workspace}: is not a folder: make it first, or give another" in gone.stderr


# the log


def test_a_database_that_another_process_holds(home: Home) -> None:
    """A log that somebody locks for ever: a line that says so, and not a hang or a traceback."""
    with Log.open(home.db, create=True):
        pass
    # The half minute that is waited for it is long for a test.
    quick = "import ledger.log.sqlite as sqlite; sqlite.BUSY_TIMEOUT_MS = 500; from agent.cli import main; main()"
    home.program = [sys.executable, "-P", "-c", quick]
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\n"
         "c.execute('BEGIN EXCLUSIVE');print(flush=True);sys.stdin.read()", home.db],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with served(ANSWER) as rehearsal:
            ran = home.run("hi", *chat(rehearsal.base_url_of("openai-chat")), "--output-format", "json")
            assert rehearsal.requests == []
    finally:
        holder.communicate(b"")
    assert ran.code == 2
    assert ran.result["is_error"] and ran.result["response"] == ""
    assert "another program holds it locked" in line(ran) and str(home.db) in line(ran)


def test_a_log_that_is_read_only(home: Home) -> None:
    """Nothing is sent that could not be recorded: a line, exit 2, no request."""
    with Log.open(home.db, create=True):
        pass
    # What root may do beyond others is taken away.
    before = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override") if os.geteuid() == 0 else ()
    for path in (*home.db.parent.glob("ledger.db*"), home.db.parent):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with served(ANSWER) as rehearsal:
            ran = home.run("hi", *chat(rehearsal.base_url_of("openai-chat")), "--output-format", "json", before=before)
            assert rehearsal.requests == []
    finally:
        home.db.parent.chmod(0o755)
    assert ran.code == 2
    assert ran.result["is_error"]
    assert "permission" in line(ran)


def test_a_disk_that_is_full(home: Home) -> None:
    """No room for the log in the middle of a run: it stops, says so, and the last line is the result (exit 1).

    A limit of the size of files stands for the disk. With room again, `-c` goes on.
    """
    noise = 'calls = [{ tool = "run_command", arguments = { command = "head -c 14000 /dev/urandom | base64 -w0" } }]'
    with served(f"{noise}\nrepeat = true\nturn = 1", 'turn = 2\ntext = "Done."') as rehearsal:
        words = [*chat(rehearsal.base_url_of("openai-chat")), "-y", "--output-format", "stream-json"]
        ran = home.run("hi", *words, before=("bash", "-c", 'ulimit -f 700; exec "$@"', "bash"))
        assert ran.code == 1
        result = ran.result
        assert (result["type"], result["outcome"], result["reason"]) == ("result", "error", "log")
        assert 0 < result["usage"]["requests"] <= 40
        assert result["error"] in line(ran) and "disk" in line(ran)
        assert home.run("-c", "and now?", "--output-format", "json").result["response"] == "Done."
        assert len(home.bodies(runs.RequestSent)) == len(rehearsal.requests)
    home.check()


# the command line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["hi", "--model", "x"], "--model x: give provider/model ("),
        (["hi"], "no model: give --model provider/model, or set TALLYBOOK_MODEL"),
        (
            ["hi", "--model", "x", "--base-url", "http://127.0.0.1/v1"],
            "--base-url: give --protocol too: one of openai-",
        ),
        (["hi", *chat("ftp://127.0.0.1")], "--base-url ftp://127.0.0.1: is no http(s) address"),
        (["hi", *chat("http://u:secret@127.0.0.1/v1")], "--base-url: give it without user, password and query"),
        (["hi", *chat("http://[::1")], "is no http(s) address"),
        (["hi", *chat("http://127.0.0.1:99999/v1")], "is no http(s) address"),
        (["hi", *chat("http://127.0.0.1/v1")[:-2], "--protocol", "smtp"], "--protocol smtp: unknown: use one of "),
        (["hi", "--model", PRICED, "--max-cost", "many"], "--max-cost many: is no amount: give dollars, like 0.50"),
        (["hi", "--model", PRICED, "--max-cost", "-1"], "--max-cost -1: is no amount: give dollars, like 0.50"),
        (["hi", "--model", PRICED, "--max-cost", "nan"], "--max-cost nan: is no amount: give dollars, like 0.50"),
        (["hi", "--model", PRICED, "--max-iterations", "0"], "--max-iterations 0: give a number from 1 to "),
        (["hi", "--model", PRICED, "--max-tokens", "9" * 30], "give a number from 0 to "),
        (["hi", "--model", PRICED, "--unknown-price", "guess"], "--unknown-price guess: use refuse or warn"),
        (
            ["hi", "--model", PRICED, "--approval-policy", "maybe"],
            "--approval-policy maybe: unknown: use one of never, ",
        ),
        (["hi", "--model", PRICED, "--fallback-model", PRICED], f"--fallback-model {PRICED}: is the model itself"),
        (["hi", "--model", PRICED, "--fallback-model", "x"], "--fallback-model x: give provider/model ("),
        (["hi", "--model", PRICED, "--workspace", "/nowhere"], "--workspace /nowhere: is not a folder: make it first"),
        (["hi", "--model", PRICED, "--workspace", "/"], "--workspace /: is the whole disk"),
        (["  ", "--model", PRICED], "there is no prompt: give one, write it to standard input, or go on with -c"),
        (["--model", PRICED], "there is no prompt"),
    ],
)
def test_words_that_cannot_be_used(words: list[str], says: str, home: Home) -> None:
    """Bad use: exit 2, one line with the next step, the result all the same, and no log is made for it."""
    ran = home.run(*words, "--output-format", "stream-json")
    assert ran.code == 2
    assert says in line(ran) and len(ran.err.splitlines()) == 1
    assert "secret" not in ran.err + ran.out
    assert (ran.result["type"], ran.result["is_error"], ran.result["session"]) == ("result", True, "")
    assert not home.db.exists()


@pytest.mark.parametrize(("stdin", "says"), [(b"a\xff", "is no UTF-8 (byte 2)"), (b"a\0b", "has a NUL (byte 2)")])
def test_a_prompt_that_is_no_text(stdin: bytes, says: str, home: Home) -> None:
    ran = home.run("--model", PRICED, stdin=stdin)
    assert (ran.code, ran.out) == (2, "")
    assert says in line(ran)


@pytest.mark.parametrize("words", [["-c"], ["--session", "0193"]])
def test_there_is_no_session_to_go_on_with(words: list[str], home: Home) -> None:
    """A log that is not there is not made by -c; in one that is there the session is looked for."""
    ran = home.run(*words, "hi")
    assert ran.code == 2
    assert not home.db.exists()
    with Log.open(home.db, create=True):
        pass
    ran = home.run(*words, "hi", "--output-format", "json")
    assert (ran.code, ran.result["outcome"], ran.result["reason"]) == (2, "error", "usage")
    assert "begin one with a prompt" in line(ran) or "`agent sessions` lists them" in line(ran)


def test_a_session_that_has_its_answer(home: Home) -> None:
    """-c without a prompt where nothing is open: the answer once more, as nobody may have seen it; nothing is sent."""
    with served(ANSWER) as rehearsal:
        words = chat(rehearsal.base_url_of("openai-chat"))
        assert home.run("hi", *words).code == 0
        ran = home.run("-c", "--output-format", "json")
        assert len(rehearsal.requests) == 1
    assert (ran.code, ran.result["response"], ran.result["outcome"]) == (0, "Done.", "ok")
    assert ran.result["usage"]["requests"] == 1
    assert [turn["outcome"] for turn in ran.result["turns"]] == ["ok"]
    home.check()
