"""The process runner: nothing blocks, nothing survives, memory stays flat, all that was printed is counted."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import anyio
import pytest
from calling import alive, descriptors, soon
from hypothesis import given
from hypothesis import strategies as st

from agent.process import Finished, Kept, child_environment, run

KEEP = 256 * 1024


def bash(command: str, folder: Path, timeout_s: float = 20.0, keep_bytes: int = KEEP) -> Finished:
    async def go() -> Finished:
        return await run(
            ["/bin/bash", "-c", command],
            folder=str(folder),
            environment=os.environ,
            timeout_s=timeout_s,
            keep_bytes=keep_bytes,
        )

    return anyio.run(go)


def test_streams_and_exit_code(tmp_path: Path) -> None:
    """TOOL-35: both streams apart, the code, and a signal as shells tell it."""
    done = bash("pwd; echo bad >&2; exit 7", tmp_path)
    assert (done.stdout.head, done.stderr.head, done.exit_code) == (f"{tmp_path}\n".encode(), b"bad\n", 7)
    assert bash("kill -SEGV $$", tmp_path).exit_code == 128 + 11


def test_standard_input_is_at_its_end(tmp_path: Path) -> None:
    """TOOL-35: a command that asks gets an end of file, not the user's keyboard."""
    done = bash("cat; read x || echo closed; test -t 0 || echo no terminal; cat /dev/tty 2>&1 | head -c 0", tmp_path)
    assert done.stdout.head == b"closed\nno terminal\n"


@pytest.mark.parametrize("streams", ["1", "2", "12"])
def test_much_output_on_each_stream_never_blocks(tmp_path: Path, streams: str) -> None:
    """TOOL-37, CONC-18, CONC-19: neither one stream alone nor both at once; what is over the limit is counted."""
    command = "; ".join(f"head -c 5000000 /dev/zero | tr '\\0' x >&{one} & " for one in streams).replace("& ;", "&")
    done = bash(command + " wait", tmp_path)
    assert done.exit_code == 0 and not done.timed_out
    for number, printed in (("1", done.stdout), ("2", done.stderr)):
        expected = 5_000_000 if number in streams else 0
        assert printed.size_bytes == expected
        assert len(printed.head) + len(printed.tail) == min(expected, KEEP)
        assert printed.left_out_characters == max(expected - KEEP, 0)


def test_a_child_that_holds_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """TOOL-35: `sleep 60 & echo hi` returns at once, and the sleep does not survive."""
    began = time.monotonic()
    done = bash("sleep 60 & echo $!", tmp_path)
    assert time.monotonic() - began < 2
    assert done.held_open and done.exit_code == 0
    assert soon(lambda: not alive(int(done.stdout.head)))


def test_a_late_writer_is_still_heard(tmp_path: Path) -> None:
    """TOOL-35: what a process substitution writes just after the exit is drained."""
    done = bash("echo first; (sleep 0.05; echo late) &", tmp_path)
    assert done.stdout.head == b"first\nlate\n" and not done.held_open


def test_time_out_ends_the_whole_group(tmp_path: Path) -> None:
    """TOOL-36: also what ignores the polite signal, and what left the group."""
    command = (
        "trap '' TERM; echo $$; sleep 61 & echo $!; "
        "setsid bash -c 'trap \"\" TERM; echo $$; sleep 62 & echo $!; wait' & sleep 0.2; while :; do sleep 63; done"
    )
    done = bash(command, tmp_path, timeout_s=0.6)
    assert done.timed_out and done.exit_code is None
    pids = [int(word) for word in done.stdout.head.split()]
    assert len(pids) == 4
    assert soon(lambda: not any(alive(pid) for pid in pids))


def test_a_polite_end_is_given(tmp_path: Path) -> None:
    """TOOL-36: what cleans up on the signal can: git takes its lock away."""
    done = bash("trap 'rm lock; echo cleaned; exit' TERM; touch lock; while :; do sleep 0.02; done", tmp_path, 0.3)
    assert done.timed_out and done.stdout.head == b"cleaned\n"
    assert not (tmp_path / "lock").exists()


def test_cancelling_leaves_nothing_within_200_ms(tmp_path: Path) -> None:
    """TOOL-36: group dead and reaped, stubborn ones too. The best of three is taken: others use the machine too."""
    took = []

    async def go(number: int) -> None:
        file = tmp_path / f"pids{number}"
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(
                    lambda: run(
                        ["/bin/bash", "-c", f"trap '' TERM; sleep 60 & echo $$ $! > {file}; while :; do :; done"],
                        folder=str(tmp_path), environment=os.environ, timeout_s=60, keep_bytes=KEEP,
                    )
                )  # fmt: skip
                while not file.exists() or len(file.read_text().split()) < 2:
                    await anyio.sleep(0.005)
                began = time.monotonic()
                scope.cancel()
        took.append(time.monotonic() - began)
        leader, child = map(int, file.read_text().split())
        assert not Path(f"/proc/{leader}").exists()
        assert soon(lambda: not alive(child))

    for number in range(3):
        anyio.run(go, number)
    assert min(took) < 0.2, took


def test_memory_stays_flat_under_endless_output(tmp_path: Path) -> None:
    """TOOL-48: hundreds of megabytes come, and little is kept."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = bash("head -c 400000000 /dev/zero", tmp_path)
    assert done.stdout.size_bytes == 400_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


def test_a_loop_goes_on_beside_endless_output(tmp_path: Path) -> None:
    """TOOL-37: other tasks run while a command prints without end."""

    async def go() -> int:
        beats = 0
        with anyio.move_on_after(0.5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(
                    lambda: run(["/usr/bin/yes"], folder="/", environment={}, timeout_s=60, keep_bytes=KEEP)
                )
                while True:
                    await anyio.sleep(0.01)
                    beats += 1
        return beats

    assert anyio.run(go) > 5


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """TOOL-47: an error of the system, nothing left behind."""

    async def go() -> None:
        await run(["/nowhere/program"], folder=str(tmp_path), environment={}, timeout_s=1, keep_bytes=KEEP)

    before = descriptors()
    with pytest.raises(FileNotFoundError):
        anyio.run(go)
    assert descriptors() == before


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """TOOL-41: pipes and handles are given back, also by a time-out."""

    async def go() -> tuple[int, int]:
        before = descriptors()
        for command in ("true", "sleep 9 &", "sleep 9"):
            await run(["/bin/bash", "-c", command], folder="/", environment={}, timeout_s=0.1, keep_bytes=9)
        return before, descriptors()

    before, after = anyio.run(go)
    # The loop makes nothing but what it had.
    assert after == before


@given(st.text(), st.integers(0, 40), st.lists(st.integers(1, 7), max_size=30))
def test_what_is_kept_and_what_is_counted_make_the_whole(text: str, most: int, sizes: list[int]) -> None:
    """TOOL-14, TOOL-15: in pieces of any size; no character is split, and every one is kept or counted."""
    content, at = text.encode(), 0
    kept = Kept(most)
    for size in [*sizes, max(len(content), 1)]:
        kept.feed(content[at : at + size])
        at += size
    printed = kept.printed()
    assert printed.size_bytes == len(content)
    assert len(printed.head) + len(printed.tail) <= most
    if len(content) <= most:
        assert (printed.head + printed.tail, printed.left_out_characters) == (content, 0)
    else:
        head, tail = printed.head.decode(), printed.tail.decode()
        assert text.startswith(head) and text.endswith(tail)
        assert len(head) + printed.left_out_characters + len(tail) == len(text)


def test_keys_of_providers_do_not_reach_commands() -> None:
    """SEC-30: what the agent is paid with is not a command's; other variables stay."""
    secret = dict.fromkeys(
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GROQ_API_KEY", "GEMINI_API_KEY", "HF_TOKEN",
         "AZURE_OPENAI_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"), "x",
    )  # fmt: skip
    kept = {"PATH": "/bin", "GITHUB_TOKEN": "y", "HOME": "/home/u", "OPENAI_BASE_URL": "http://h", "KEYBOARD": "de"}
    assert child_environment(secret | kept) == kept
