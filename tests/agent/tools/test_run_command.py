"""run_command."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from calling import alive, call, context_of, soon


def test_what_comes_back(tmp_path: Path) -> None:
    """TOOL-35: exit code, both parts, `(empty)`; it runs in the workspace, by bash."""
    context = context_of(tmp_path)
    output = call(context, "run_command", command="pwd; [[ -n $BASH ]] && echo bash")
    assert output.text == f"exit code: 0\nstdout:\n{tmp_path}\nbash\nstderr:\n(empty)"
    assert (output.status, output.exit_code, output.truncated) == ("ok", 0, False)
    output = call(context, "run_command", command="echo bad >&2; exit 3")
    assert output.text == "exit code: 3\nstdout:\n(empty)\nstderr:\nbad" and output.status == "error"
    assert output.exit_code == 3
    assert call(context, "run_command", command="nosuchprogram").exit_code == 127


def test_much_output_on_both_streams(tmp_path: Path) -> None:
    """TOOL-35, TOOL-15: beginning and end of each, and how many characters are left out, CJK text too."""
    command = "echo first; yes 字 | head -n 2500000; echo last; (echo FIRST; yes x | head -n 2500000; echo LAST) >&2"
    output = call(context_of(tmp_path), "run_command", command=command)
    assert len(output.text) <= 20_000 and output.truncated and output.exit_code == 0
    out, _, error = output.text.partition("\nstderr:\n")
    out = out.partition("stdout:\n")[2]
    for text, name, first, last in ((out, "stdout", "first", "last"), (error, "stderr", "FIRST", "LAST")):
        head, _, rest = text.partition("\n[... ")
        note, _, tail = rest.partition(" ...]\n")
        assert head.startswith(first) and tail.endswith(last)
        total = len(first) + len(last) + 2 + 5_000_000
        left_out = int(note.split()[0])
        assert note.startswith(f"{left_out} of {total} characters of {name} left out here")
        # The last line break of the stream is not shown.
        assert len(head) + left_out + len(tail) + 1 == total


def test_time_out(tmp_path: Path) -> None:
    """TOOL-36, TOOL-12: `killed`, the seconds, what to do; what it printed before is shown."""
    output = call(context_of(tmp_path), "run_command", command="echo $$; sleep 60", timeout_secs=1)
    assert output.status == "timed_out" and output.exit_code is None
    assert output.text.startswith("exit code: killed\nIt had not ended after 1 s") and "timeout_secs" in output.text
    pid = int(output.text.partition("stdout:\n")[2].split("\n")[0])
    assert not Path(f"/proc/{pid}").exists()


def test_time_outs_are_clamped_visibly(tmp_path: Path) -> None:
    """TOOL-12, TOOL-17: 1 to 3600 seconds."""
    context = context_of(tmp_path)
    for asked, taken in ((0, 1), (-5, 1), (99_999, 3_600)):
        output = call(context, "run_command", command="true", timeout_secs=asked)
        assert f"[timeout_secs {asked} is not within 1 to 3600: {taken} was taken]" in output.text
    assert "timeout_secs" not in call(context, "run_command", command="true", timeout_secs=3_600).text


def test_a_command_that_leaves_a_child(tmp_path: Path) -> None:
    """TOOL-35: returns at once, says that the child was ended, and it was."""
    began = time.monotonic()
    output = call(context_of(tmp_path), "run_command", command="sleep 60 & echo hi $!")
    assert time.monotonic() - began < 2 and "stdout:\nhi " in output.text
    assert "[something that the command had left running was ended with it]" in output.text
    pid = int(output.text.partition("hi ")[2].split("\n")[0])
    assert soon(lambda: not alive(pid))


@pytest.mark.parametrize("command", ["", " ", "\n\t"])
def test_empty_commands(tmp_path: Path, command: str) -> None:
    """TOOL-09: nothing is started."""
    output = call(context_of(tmp_path), "run_command", command=command)
    assert output.status == "error" and "empty string field command" in output.text


def test_nul(tmp_path: Path) -> None:
    """TOOL-47: it cannot be given to a program; the text says what can be done."""
    assert "NUL" in call(context_of(tmp_path), "run_command", command="echo \0").text


def test_keys_do_not_reach_a_command(tmp_path: Path) -> None:
    """SEC-30: the environment is the user's without the keys that the agent is paid with."""
    context = context_of(tmp_path)._replace(environment={**os.environ, "OPENAI_API_KEY": "sk-secret", "OWN": "kept"})
    output = call(context, "run_command", command='echo "[$OPENAI_API_KEY][$OWN][$PWD]"')
    assert f"[][kept][{tmp_path}]" in output.text


def test_output_that_is_no_utf8(tmp_path: Path) -> None:
    """TOOL-22: replaced, not fatal."""
    assert "stdout:\na\ufffdb\n" in call(context_of(tmp_path), "run_command", command="printf 'a\\377b'").text


def test_everything_at_once_is_within_the_limit(tmp_path: Path) -> None:
    """TOOL-13, TOOL-36: a time-out, a clamp and both streams over their limits: the notes have their room."""
    context = context_of(tmp_path, command_most_seconds=1)
    command = "yes out & yes error >&2"
    output = call(context, "run_command", command=command, timeout_secs=50)
    assert output.status == "timed_out" and output.truncated and len(output.text) <= 20_000
    assert output.text.count("left out here") == 2, "only the streams are cut, not the whole again"
