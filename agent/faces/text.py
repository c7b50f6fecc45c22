"""The face for people: the answer on standard output, and on a terminal what happens on the way."""

from __future__ import annotations

import sys
from typing import Any

from agent.faces.face import Beginning, Texts, posture
from agent.state import Place
from ledger.events import runs
from ledger.wire.protocols import Delta

_SHOWN = 100


class TextFace:
    """Streams the answer to a terminal; into a pipe it goes whole, when it is known to be the answer."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._streams = sys.stdout.isatty()
        self._tells = sys.stderr.isatty()
        self._streamed = ""
        """What of the open response is on the screen."""
        self._tool: dict[str, str] = {}

    def begin(self, beginning: Beginning) -> None:
        """Print the posture."""
        sys.stderr.write(f"agent: {posture(beginning)}\n")
        sys.stderr.flush()

    def delta(self, delta: Delta) -> None:
        """Show a piece of the answer on a terminal."""
        if self._streams and delta.kind == "text":
            self._streamed += delta.text
            sys.stdout.write(_safe(delta.text))
            sys.stdout.flush()

    def event(self, place: Place, body: Any) -> None:
        """Tell of tools, retries and fallbacks."""
        if isinstance(body, runs.RequestSent):
            self._streamed = ""
        elif isinstance(body, runs.RequestEnd):
            if self._streamed:
                sys.stdout.write("\n")
                sys.stdout.flush()
            if isinstance(body, runs.RequestCut):
                self._say(f"the answer was cut ({body.reason})")
        elif isinstance(body, runs.RetryScheduled):
            self._say(f"{body.reason}: trying again in {body.delay_us / 1e6:.1f} s")
        elif isinstance(body, runs.FallbackTaken):
            self._say(f"{body.reason}: asking {body.after} instead of {body.before}")
        elif isinstance(body, runs.ToolCalled):
            self._tool[place.span] = f"{body.tool} {_line(self._texts(body.arguments))}"
        elif isinstance(body, runs.ToolReturned):
            took = "" if body.ran_us is None else f" {body.ran_us / 1e6:.1f} s"
            self._say(f"{self._tool.pop(place.span, 'tool')}: {body.status}{took}")

    def _say(self, text: str) -> None:
        if self._tells:
            sys.stderr.write(f"· {_safe(text)}\n")
            sys.stderr.flush()

    def result(self, result: dict[str, Any]) -> None:
        """Print the answer, or why there is none; on a terminal also what it cost."""
        if result["response"] and not (self._streams and self._streamed):
            sys.stdout.write(result["response"].rstrip("\n") + "\n")
        if result["is_error"]:
            sys.stderr.write(f"agent: {_safe(_why(result))}\n")
        if self._tells:
            usage, cost = result["usage"], result["cost_usd"]
            money = "cost unknown" if cost is None else f"{'>= ' if usage['unpriced_spans'] else ''}{cost:.4f} USD"
            spent = f"{usage['requests']} requests, {usage['total_tokens']:,} tokens, {money}"
            sys.stderr.write(f"· session {result['session']}: {spent}\n")
        sys.stdout.flush()
        sys.stderr.flush()


def _why(result: dict[str, Any]) -> str:
    reason = f" ({result['reason']})" if result["reason"] else ""
    error = f": {_line(result['error'], 400)}" if result["error"] else ""
    after = {
        "iteration_limit": ": give a larger --max-iterations, then `agent run -c`",
        "budget_exhausted": ": what was spent stands in `agent cost`; a new prompt is a new grant",
        "interrupted": ": `agent run -c` goes on",
    }.get(result["outcome"], "")
    return f"{result['outcome']}{reason}{error}{after}"


def _line(text: str, letters: int = _SHOWN) -> str:
    """Return the beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= letters else f"{flat[: letters - 1]}…"


def _safe(text: str) -> str:
    """Return a text without the control characters that move a terminal's cursor or change its state."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)
