"""A switch for tests: stops the process at a named point, as if killed there. It costs nothing otherwise."""

from __future__ import annotations

import os

VARIABLE = "TALLYBOOK_FAULT"
"""`NAME` or `NAME:N`: stop at the N-th time that the point is reached, the first by default."""

_wanted, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count) if _count.isdecimal() else 1


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
