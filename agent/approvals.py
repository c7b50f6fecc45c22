"""Whether a call may run: which are asked for, and how a person at a terminal is asked."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple, Protocol

import anyio

POLICIES = ("never", "on-request", "untrusted")
READING = frozenset(("fs.read",))
"""Capabilities that change nothing."""
DENIED = "Command denied by the user. Do not retry it; ask what to do instead."
"""What the model is told (TOOL-38)."""


class Question(NamedTuple):
    """What is asked."""

    tool: str
    shown: str
    """The call as a person reads it."""
    reason: str
    """A code: why it is asked."""


class Answer(NamedTuple):
    """What was answered."""

    answer: str
    """`allowed` or `denied`."""
    by: str
    """`user`, `policy`, `nobody`."""
    scope: str = "once"


class Approver(Protocol):
    """Answers questions, one at a time."""

    async def ask(self, question: Question) -> Answer:
        """Return the answer; may take as long as a person does, and can be cancelled."""


def reason_to_ask(policy: str, capabilities: frozenset[str]) -> str:
    """Return why a call of these capabilities is asked for, empty where it is not (SEC-19)."""
    if policy == "never":
        return ""
    if policy == "untrusted":
        return "untrusted"
    return "" if capabilities <= READING else "not_read_only"


class Nobody:
    """There is no terminal: everything that would have to be asked is denied."""

    async def ask(self, question: Question) -> Answer:
        """Deny."""
        return Answer("denied", "nobody")


class Terminal:
    """A person at the terminal: `y` once, `a` for equal calls of the session too, anything else denies."""

    async def ask(self, question: Question) -> Answer:
        """Show the question on standard error and wait for a line of standard input."""
        descriptor = sys.stdin.fileno()
        _forget_typed(descriptor)  # before it is asked: a program that answers at once is quicker than we are
        sys.stderr.write(f"\n{question.shown}\nAllow? [y]es once, [a]lways this in the session, [N]o: ")
        sys.stderr.flush()
        await anyio.wait_readable(descriptor)
        typed = os.read(descriptor, 4096).decode("utf-8", "replace")
        if not typed.endswith("\n"):  # the end of the input, typed as Ctrl-D
            sys.stderr.write("\n")
        line = typed.strip().lower()
        if line in ("y", "yes"):
            return Answer("allowed", "user")
        if line in ("a", "always"):
            return Answer("allowed", "user", "session")
        return Answer("denied", "user")


def _forget_typed(descriptor: int) -> None:
    """Throw away what was typed before the question: it cannot be its answer."""
    try:
        import termios

        termios.tcflush(descriptor, termios.TCIFLUSH)
    except (ImportError, OSError, termios.error):
        pass


def approver() -> Approver:
    """Return who can be asked: the terminal where there is one on both sides, else nobody."""
    try:
        return Terminal() if sys.stdin.isatty() and sys.stderr.isatty() else Nobody()
    except ValueError:  # closed
        return Nobody()
