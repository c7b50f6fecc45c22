"""What every face of a run has in common."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from agent.configuration import Configuration
from agent.faces.output import Output
from agent.state import Place
from ledger.budget.ceilings import WARN, limits_money
from ledger.events.runs import RequestSent
from ledger.wire.protocols import Delta

Texts = Callable[[str], str]
"""sha256 of a stored text -> the text; empty where it is not there."""
_ASKS = {
    "never": "never asks",
    "on-request": "asks before anything that is not read-only",
    "untrusted": "asks before every tool",
}
_WIDEST = 100
"""Columns: a longer line of ours is broken, however wide the terminal."""
_DENIES = {
    "on-request": "no terminal to ask at: whatever is not read-only is denied",
    "untrusted": "no terminal to ask at: every tool is denied",
}


class Beginning(NamedTuple):
    """What is known when a run begins to act."""

    session: str
    resumed: bool
    workspace: str
    configuration: Configuration
    can_ask: bool
    """Whether there is a terminal to ask at."""

    @property
    def model(self) -> str:
        """Whose model is asked."""
        return f"{self.configuration.target.provider}/{self.configuration.target.model}"


class Face(ABC):
    """Is told what happens while it happens, and the result at the end. None of it raises."""

    def __init__(self) -> None:
        self.out, self.err = Output(sys.stdout), Output(sys.stderr)
        self.texts: Texts = lambda sha256: ""
        """Of the log, once it is open."""
        self.begun = False
        """Whether the run began to act."""
        self._warns = False

    def begin(self, beginning: Beginning) -> None:
        """A run begins to act: its posture is shown."""
        limits = beginning.configuration.limits
        self._warns = limits.unknown_price == WARN and limits_money(limits)
        self.begun = True
        self.show_begin(beginning)

    def event(self, place: Place, body: Any) -> None:
        """An event of the run was committed."""
        if self._warns and isinstance(body, RequestSent) and not body.quote:
            self._warns = False
            self.err.put(f"agent: the price of {body.provider}/{body.model} is not known: no limit of money holds it\n")
        self.show_event(place, body)

    @abstractmethod
    def show_begin(self, beginning: Beginning) -> None:
        """Show the posture (SEC-06)."""

    @abstractmethod
    def delta(self, delta: Delta) -> None:
        """A piece of an answer arrived."""

    @abstractmethod
    def show_event(self, place: Place, body: Any) -> None:
        """Show an event, or not."""

    @abstractmethod
    def result(self, result: dict[str, Any]) -> None:
        """The run ended: agent.result.result."""


def posture(beginning: Beginning) -> str:
    """Return the posture in one line, printed at every start (SEC-06)."""
    policy = beginning.configuration.approval
    asks = _ASKS[policy] if beginning.can_ask else _DENIES.get(policy, _ASKS[policy])
    return f"{beginning.model} · {asks} · commands are not sandboxed · {beginning.workspace}"


def why(result: dict[str, Any]) -> str:
    """Return one line that says why there is no answer, and what to do next."""
    reason = f" ({result['reason']})" if result["reason"] else ""
    error = f": {one_line(result['error'], 600)}" if result["error"] else ""
    after = ": `agent run -c` goes on" if result["outcome"] == "interrupted" else ""
    return f"{result['outcome']}{reason}{error}{after}"


def fitting(text: str, on_terminal: bool) -> str:
    """Return a line of ours, harmless, and on a terminal broken between words where it is too long."""
    from reports.text import safe, terminal_columns, width

    text = safe(text)
    if on_terminal and width(text) > (room := min(terminal_columns(), _WIDEST)):
        from textwrap import fill

        text = fill(text, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return text


def one_line(text: str, letters: int) -> str:
    """Return the beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= letters else f"{flat[: letters - 1]}…"
