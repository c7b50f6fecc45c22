"""A switch for tests: stops the process at a named point, as if killed there. It costs nothing otherwise."""

from __future__ import annotations

import os

VARIABLE = "TALLYBOOK_FAULT"
"""`before:EVENT`, `after:EVENT` (the class of a commit's first event) or `effect:NAME`, each with `:N` or without: stop
at the N-th time that the point is reached, the first by default."""


def _wish(text: str) -> tuple[str, int]:
    """Return (point, how many times it is to be reached)."""
    name, _, count = text.rpartition(":")
    return (name, int(count)) if count.isdecimal() else (text, 1)


_wanted, _left = _wish(os.environ.get(VARIABLE, ""))


def point(name: str) -> None:
    """Stop here by SIGKILL if the environment says so: nothing is flushed, closed or told."""
    if _wanted and name == _wanted:
        _reach()


def _reach() -> None:
    global _left
    _left -= 1
    if _left <= 0:
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
