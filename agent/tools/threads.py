"""File work in a worker thread, so that the event loop never waits for a disk."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import anyio

Made = TypeVar("Made")


class Stopped(Exception):
    """Nobody waits for the work any more."""


class Watch:
    """What work in a thread looks at while it goes on: whether it is still wanted, and how much time is left."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self._until = time.monotonic() + seconds
        self.stopped = False

    def check(self) -> None:
        """Raise Stopped where nobody waits any more."""
        if self.stopped:
            raise Stopped

    @property
    def time_is_over(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self._until


async def reading(work: Callable[[Watch], Made], seconds: float = float("inf")) -> Made:
    """Return what work that only reads comes to. Cancelling returns at once; the thread ends at its next check."""
    from anyio import to_thread

    watch = Watch(seconds)
    try:
        return await to_thread.run_sync(work, watch, abandon_on_cancel=True)
    finally:
        watch.stopped = True


async def writing(work: Callable[[], Made]) -> Made:
    """Return what work that changes something comes to. Once begun it is waited for: its effect is never unknown."""
    from anyio import to_thread

    return await to_thread.run_sync(work)


_turns: dict[Hashable, tuple[anyio.Lock, list[None]]] = {}


@asynccontextmanager
async def turn(key: Hashable) -> AsyncIterator[None]:
    """Let calls that change the same thing do so one after the other. Only tasks wait, never a thread (CONC-17)."""
    import anyio

    lock, users = _turns.setdefault(key, (anyio.Lock(), []))
    users.append(None)
    try:
        async with lock:
            yield
    finally:
        users.pop()
        if not users:
            _turns.pop(key, None)
