"""Runs a program: its own process group, both pipes drained from the start, ended as a whole, memory flat.

What the program prints is kept up to a limit a stream, its beginning and its end; the rest is read on and counted.
After its exit the pipes are drained for a moment only, because a child that it left behind may hold them open for ever.
The group is then ended: nothing that a command started stays in it.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent import proc

if TYPE_CHECKING:
    import anyio

_READ_BYTES = 64 * 1024
_GRACE_S = 1.0
"""Between asking a group to end and killing it, at a time-out: git removes its lock, a test its scratch folder."""
_CANCEL_GRACE_S = 0.08
"""The same where a person waits for it."""
_DRAIN_S = 0.2
"""How long the pipes are drained after the exit, while something else holds them."""
_KILL_S = 0.08
"""How long a killed process is waited for; what hangs in the kernel longer is reaped by a thread."""
_POLL_S = 0.01
"""Where the system cannot wait for a process by a descriptor."""

_KEY_NAMES = re.compile(
    r"(?:^|_)API_?KEYS?(?:_|$)|^(?:ANTHROPIC|OPENAI|CLAUDE_CODE|GEMINI|MISTRAL)_.*(?:TOKEN|SECRET)", re.I
)
_KEY_VARIABLES = frozenset(("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "REPLICATE_API_TOKEN"))


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the keys of model providers: names with `API_KEY` in them, and a few others.

    A command does not need the keys that the agent is paid with; other credentials (of git, of a cloud) stay.
    """
    return {
        name: value for name, value in environment.items() if not _KEY_NAMES.search(name) and name not in _KEY_VARIABLES
    }


class Printed(NamedTuple):
    """What came out of one stream."""

    head: bytes
    tail: bytes
    """What was kept of the end; it follows the head directly where `left_out_characters` is 0."""
    size_bytes: int
    """How much came, whether or not it was kept."""
    left_out_characters: int
    """Characters between head and tail, bytes that are no UTF-8 counted as one each."""


class Finished(NamedTuple):
    """How a program ended."""

    exit_code: int | None
    """128 + n where a signal n of somebody else ended it; None where we ended it."""
    timed_out: bool
    stdout: Printed
    stderr: Printed
    held_open: bool
    """Whether something it started still held a pipe after its exit, and was ended."""


class Kept:
    """Keeps the beginning and the end of a stream within so many bytes, and counts all of it."""

    def __init__(self, most_bytes: int) -> None:
        self._head_room = most_bytes - most_bytes // 2
        self._tail_bytes = most_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = 0
        self._size = 0
        self._characters = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> None:
        """Take in what came."""
        self._size += len(piece)
        self._characters += len(self._decoder.decode(piece))
        room = self._head_room - len(self._head)
        self._head += piece[:room]
        rest = piece[max(room, 0) :]
        if rest:
            self._tail.append(rest)
            self._in_tail += len(rest)
            while self._tail and self._in_tail - len(self._tail[0]) >= self._tail_bytes:
                self._in_tail -= len(self._tail.popleft())

    def printed(self) -> Printed:
        """Return what is kept. Both parts are cut between characters where something is left out."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if len(head) + len(tail) == self._size and len(tail) <= self._tail_bytes:
            return Printed(head, tail, self._size, 0)
        tail = tail[len(tail) - self._tail_bytes :]
        head, tail = _whole_end(head), _whole_start(tail)
        characters = self._characters + len(self._decoder.decode(b"", True))
        kept = len(head.decode("utf-8", "replace")) + len(tail.decode("utf-8", "replace"))
        return Printed(head, tail, self._size, max(characters - kept, 1))


def _whole_end(content: bytes) -> bytes:
    """Return bytes without a character that is cut at their end."""
    for back in range(1, min(4, len(content) + 1)):
        first = content[-back]
        if first & 0xC0 != 0x80:
            needs = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1
            return content[:-back] if needs > back else content
    return content


def _whole_start(content: bytes) -> bytes:
    """Return bytes without the rest of a character that is cut at their beginning."""
    start = 0
    while start < min(3, len(content)) and content[start] & 0xC0 == 0x80:
        start += 1
    return content[start:]


async def run(
    arguments: Sequence[str], *, folder: str, environment: Mapping[str, str], timeout_s: float, keep_bytes: int
) -> Finished:
    """Run a program in a folder until it ends or the time is over. Raises OSError where it cannot be started.

    Cancelling ends it, its group and its descendants within 200 ms, before the cancellation goes on.
    """
    import anyio  # takes 40 ms, which only who runs something pays

    process = subprocess.Popen(
        arguments, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, bufsize=0, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    streams = [(process.stdout, Kept(keep_bytes)), (process.stderr, Kept(keep_bytes))]
    group, timed_out, held_open, code = _Group(process), False, False, None
    try:
        async with anyio.create_task_group() as tasks:
            drained = [anyio.Event() for _ in streams]
            for (stream, kept), event in zip(streams, drained, strict=True):
                tasks.start_soon(_drain, stream.fileno(), kept, event)
            with anyio.move_on_after(timeout_s) as limit:
                await group.exited()
            if limit.cancelled_caught:
                timed_out = True
                await group.end(_GRACE_S)
            with anyio.move_on_after(_DRAIN_S) as draining:
                for event in drained:
                    await event.wait()
            held_open = draining.cancelled_caught
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await group.end(_CANCEL_GRACE_S)
        code = group.reap()
        for stream, _ in streams:
            stream.close()
    ended = None if timed_out or code is None else 128 - code if code < 0 else code
    return Finished(ended, timed_out, streams[0][1].printed(), streams[1][1].printed(), held_open)


async def _drain(descriptor: int, kept: Kept, ended: anyio.Event) -> None:
    """Read a pipe to its end. This is the only place where what a program prints is read (TOOL-41)."""
    import anyio

    os.set_blocking(descriptor, False)
    while True:
        try:
            piece = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(descriptor)
            continue
        if not piece:
            break
        kept.feed(piece)
        await anyio.sleep(0)  # endless output must not keep others from running
    ended.set()


class _Group:
    """A process that leads a group of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._descriptor = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
        self._ended = False

    async def exited(self) -> None:
        """Wait until the leader has exited. It stays unreaped, so that its number and its group's stay its own."""
        import anyio

        if self._descriptor >= 0:
            await anyio.wait_readable(self._descriptor)
            return
        while not self._gone():
            await anyio.sleep(_POLL_S)

    def _gone(self) -> bool:
        if not hasattr(os, "waitid"):  # macOS before Python 3.13: looking reaps it
            return self._process.poll() is not None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    async def end(self, grace_s: float) -> None:
        """Ask all to end, and kill what does not at once: the group, and descendants that left it."""
        import anyio

        if self._ended:
            return
        others: dict[int, str] = {}
        if not self._gone():
            others = _descendants(self._process.pid)
            self._signal(signal.SIGTERM, others)
            with anyio.move_on_after(grace_s):
                await self.exited()
            others |= _descendants(self._process.pid)
        self._signal(signal.SIGKILL, others)
        self._ended = True
        with anyio.move_on_after(_KILL_S):
            await self.exited()

    def _signal(self, number: signal.Signals, others: Mapping[int, str]) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # only the leader is left and has exited, or all that is left changed its user
        for pid, began in others.items():
            if _stat(pid)[1] == began:  # still the same process
                try:
                    os.kill(pid, number)
                except (ProcessLookupError, PermissionError):
                    pass

    def reap(self) -> int | None:
        """Return the leader's return code, None where it hangs in the kernel: then a thread waits for it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        code = self._process.poll()
        if code is None:
            threading.Thread(target=self._process.wait, daemon=True).start()
        return code


def _stat(pid: int) -> tuple[int, str]:
    """Return a process's parent and when it began (proc_pid_stat(5), fields 4 and 22); (0, "") where it is gone."""
    fields = proc.told(pid, "stat").rpartition(b")")[2].split()
    try:
        return int(fields[1]), fields[19].decode()
    except (ValueError, IndexError):
        return 0, ""


def _descendants(pid: int) -> dict[int, str]:
    """Return all processes below one, with when each began. Empty where the system has no /proc."""
    known = {one: _stat(one) for one in proc.numbers()}
    children: dict[int, list[int]] = {}
    for one, (parent, _) in known.items():
        children.setdefault(parent, []).append(one)
    found, waiting = dict[int, str](), [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found[child] = known[child][1]
            waiting.append(child)
    return found
