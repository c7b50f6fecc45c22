"""Reading many files in several processes: what they read comes back in order, file by file."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ledger.errors import LedgerError
from ledger.sources.discover import text_of
from ledger.sources.read import Item, Task

PARALLEL_BYTES = 8 << 20
"""Below this much to read, starting processes costs more than it saves."""
WORKERS_MAX = 4
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031

ReadTask = Callable[[Task], Iterator[Item]]


class Result(NamedTuple):
    """What came of a task: an item, or why there is none. `done` marks the task's end."""

    task: int
    item: Item | None
    problem: str = ""
    done: bool = False


class _Frame(msgspec.Struct, array_like=True):
    task: int
    item: Item | None
    problem: str
    done: bool


def read_all(tasks: Sequence[Task], read: ReadTask) -> Iterator[Result]:
    """Yield the items of every task, those of one task in order; a failing file is a problem, not an end."""
    total = sum(task.found.size - task.begin for task in tasks)
    cores = os.cpu_count() or 1
    count = min(WORKERS_MAX, cores - 1, len(tasks))  # one core is the folding process's
    if total < PARALLEL_BYTES or count < 1 or not hasattr(os, "fork"):
        yield from _read_here(list(enumerate(tasks)), read)
        return
    yield from _read_apart(_shares(tasks, count), read)


def _shares(tasks: Sequence[Task], count: int) -> list[list[tuple[int, Task]]]:
    """Deal the tasks out so that each share has about as many bytes."""
    shares: list[list[tuple[int, Task]]] = [[] for _ in range(count)]
    sizes = [0] * count
    for number, task in sorted(enumerate(tasks), key=lambda one: one[1].begin - one[1].found.size):
        least = sizes.index(min(sizes))
        shares[least].append((number, task))
        sizes[least] += task.found.size - task.begin
    # Small files first: what folds them has something to do while the large ones are read.
    return [share[::-1] for share in shares]


def _read_here(tasks: list[tuple[int, Task]], read: ReadTask) -> Iterator[Result]:
    for number, task in tasks:
        problem = ""
        try:
            for item in read(task):
                yield Result(number, item)
        except OSError as error:
            problem = f"{text_of(task.found.path)}: {error.strerror or error}: it was left out"
        yield Result(number, None, problem, True)


def _read_apart(shares: list[list[tuple[int, Task]]], read: ReadTask) -> Iterator[Result]:
    children = {}
    with selectors.DefaultSelector() as selector:
        for share in shares:
            pid, fd = _start(share, read)
            children[fd] = (pid, {number for number, _ in share}, bytearray())
            selector.register(fd, selectors.EVENT_READ)
        try:
            while children:
                for key, _ in selector.select():
                    fd = key.fd
                    pid, open_tasks, buffer = children[fd]
                    piece = os.read(fd, _PIPE_BYTES)
                    if piece:
                        buffer += piece
                        for frame in _frames(buffer):
                            if frame.task < 0:
                                raise LedgerError(f"reading session files failed ({frame.problem}): report this")
                            if frame.done:
                                open_tasks.discard(frame.task)
                            yield Result(frame.task, frame.item, frame.problem, frame.done)
                        continue
                    selector.unregister(fd)
                    os.close(fd)
                    os.waitpid(pid, 0)
                    del children[fd]
                    for number in sorted(open_tasks):
                        yield Result(number, None, "a reading process ended early: run the import again", True)
        finally:
            for fd, (pid, _, _) in children.items():
                os.close(fd)
                os.kill(pid, 9)
                os.waitpid(pid, 0)


def _start(share: list[tuple[int, Task]], read: ReadTask) -> tuple[int, int]:
    """Fork a process that reads a share and writes frames into a pipe; return its id and the pipe's end."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid:
        os.close(sending)
        return pid, receiving
    status = 1
    try:
        os.close(receiving)
        _widen(sending)
        for result in _read_here(share, read):
            _send(sending, msgspec.msgpack.encode(_Frame(*result)))
        status = 0
    except BrokenPipeError:
        pass
    except Exception as error:  # the parent raises it: a defect is not a problem of one file
        _send(sending, msgspec.msgpack.encode(_Frame(-1, None, f"{type(error).__name__}: {error}", True)))
    finally:
        os._exit(status)


def _widen(fd: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, OSError):
        pass


def _send(fd: int, content: bytes) -> None:
    pending = memoryview(len(content).to_bytes(4, "big") + content)
    while pending:
        pending = pending[os.write(fd, pending) :]


_decode_frame: Any = msgspec.msgpack.Decoder(_Frame).decode


def _frames(buffer: bytearray) -> Iterator[_Frame]:
    """Yield the whole frames at the front of a buffer and take them out."""
    position = 0
    while len(buffer) - position >= 4:
        size = int.from_bytes(buffer[position : position + 4], "big")
        if len(buffer) - position - 4 < size:
            break
        yield _decode_frame(bytes(buffer[position + 4 : position + 4 + size]))
        position += 4 + size
    del buffer[:position]
