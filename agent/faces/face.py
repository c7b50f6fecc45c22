"""What every face of a run has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from agent.state import Place
from ledger.wire.protocols import Delta

Texts = Callable[[str], str]
"""sha256 of a stored text -> the text; empty where it is not there."""


class Beginning(NamedTuple):
    """What is known when a run begins to act."""

    session: str
    model: str
    workspace: str
    approval: str
    resumed: bool


class Face(Protocol):
    """Is told what happens while it happens, and the result at the end."""

    def begin(self, beginning: Beginning) -> None:
        """A run begins to act."""

    def delta(self, delta: Delta) -> None:
        """A piece of an answer arrived."""

    def event(self, place: Place, body: Any) -> None:
        """An event of the run was committed."""

    def result(self, result: dict[str, Any]) -> None:
        """The run ended: agent.result.result."""


def posture(beginning: Beginning) -> str:
    """Return the posture in one line, printed at every start (SEC-06)."""
    asks = {
        "never": "never asks",
        "on-request": "asks before anything that is not read-only",
        "untrusted": "asks before every tool",
    }[beginning.approval]
    return f"{beginning.model} · {asks} · commands are not sandboxed · {beginning.workspace}"
