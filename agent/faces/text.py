"""The face for people: the answer on standard output, and on a terminal what happens on the way."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from agent.faces.face import Beginning, Face, fitting, one_line, posture
from agent.state import Place
from ledger.events import runs
from ledger.wire.protocols import Delta
from reports.text import counted, safe

_SHOWN = 60
_WORDS = {
    "closed": "the connection broke off",
    "idle": "nothing came for too long",
    "refused": "nobody listens there",
    "connect": "no connection",
    "not_json": "no JSON came",
}
"""Codes that say little by themselves."""


class TextFace(Face):
    """Streams the answer to a terminal; into a pipe it goes whole, when it is known to be the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._streams = self.out.is_terminal
        self._tells = self.err.is_terminal
        self._streamed = ""
        """What of the open response is on the screen."""
        self._tool_runs = False
        """Whether the last line is that of a tool that runs: it is ended when the tool is."""
        self._failed = ""
        """Why the last attempt gave no answer."""

    def show_begin(self, beginning: Beginning) -> None:
        """Print the posture."""
        self._line(f"agent: {posture(beginning)}")

    def delta(self, delta: Delta) -> None:
        """Show a piece of the answer on a terminal."""
        if self._streams and delta.kind == "text":
            self._streamed += delta.text
            self.out.put(_safe_lines(delta.text))

    def show_event(self, place: Place, body: Any) -> None:
        """Tell of tools, retries and fallbacks."""
        if isinstance(body, runs.RequestSent):
            self._streamed = ""
        elif isinstance(body, runs.RequestEnd):
            self._request_ended(body)
        elif isinstance(body, runs.RetryScheduled):
            self._say(f"{self._failed or body.reason}: trying again in {_time(body.delay_us)}")
        elif isinstance(body, runs.FallbackTaken):
            self._say(f"{self._failed or body.reason}: asking {body.after} instead of {body.before}")
        elif isinstance(body, runs.ToolCalled):
            self._tool_begins(f"{body.tool} {one_line(_gist(self.texts(body.arguments)), _SHOWN)}".rstrip())
        elif isinstance(body, runs.ToolReturned):
            self._tool_ends(body)

    def _request_ended(self, end: runs.RequestEnd) -> None:
        if self._streamed and not self._streamed.endswith("\n"):
            self.out.put("\n")
        said = _WORDS.get(end.reason) or (end.reason or "it failed").replace("_", " ")
        self._failed = f"HTTP {end.status} ({said})" if end.status >= 300 else said
        if isinstance(end, runs.RequestCut | runs.RequestCancelled) and self._streamed:
            self._say("the answer broke off here: what stands above is no part of it")

    def _tool_begins(self, text: str) -> None:
        if self._tells:
            self._line(f"· {text}", end="")
            self._tool_runs = True

    def _tool_ends(self, body: runs.ToolReturned) -> None:
        took = f", {_time(body.ran_us)}" if body.ran_us is not None and body.ran_us >= 1000 else ""
        said = f"exit code {body.exit_code}" if body.exit_code is not None else body.status.replace("_", " ")
        if self._tells:
            self.err.put(f": {said}{took}\n")
            self._tool_runs = False
        if body.status in ("error", "refused") and body.exit_code is None:
            self._say(one_line(self.texts(body.result).removeprefix("ERROR: "), 300), sign=" ")

    def _say(self, text: str, sign: str = "·") -> None:
        if self._tells:
            self._line(f"{sign} {text}")

    def _line(self, text: str, end: str = "\n") -> None:
        """Print one line, broken between words where a terminal would break it within one."""
        if self._tool_runs:  # it was left by a signal
            self._tool_runs = False
            self.err.put("\n")
        self.err.put(fitting(text, self._tells) + end)

    def result(self, result: dict[str, Any]) -> None:
        """Print the answer; on a terminal also what it cost."""
        if result["response"] and not (self._streams and self._streamed):
            answer = result["response"].rstrip("\n") + "\n"
            self.out.put(_safe_lines(answer) if self._streams else answer)
        if self._tells and self.begun:
            self._say(f"{_spent(result)} · session {result['session']}")


def _spent(result: dict[str, Any]) -> str:
    usage, cost = result["usage"], result["cost_usd"]
    if usage["requests"] is None:
        return "usage unknown"
    least = ">= " if usage["unknown_spans"] else ""
    money = "cost unknown" if cost is None else f"{'>= ' if usage['unpriced_spans'] else ''}{cost:.4f} USD"
    retries = f" ({counted(usage['retries'], 'retry').replace('retrys', 'retries')})" if usage["retries"] else ""
    return f"{counted(usage['requests'], 'request')}{retries}, {least}{usage['total_tokens']:,} tokens, {money}"


def _gist(arguments: str) -> str:
    """Return the arguments of a call as short as they can be told: the values, not the names."""
    try:
        values = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return arguments
    if not isinstance(values, dict):
        return arguments
    return " ".join(value if isinstance(value, str) else str(value) for value in values.values())


def _time(microseconds: int) -> str:
    return f"{microseconds / 1e6:.1f} s" if microseconds >= 950_000 else f"{microseconds // 1000} ms"


def _safe_lines(text: str) -> str:
    """Return a text with every control character shown as an escape, but for line ends and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(part if part in ("\n", "\t") else safe(part) for part in re.split("([\n\t])", text))
