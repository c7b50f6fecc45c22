"""The face for programs that want one object at the end."""

from __future__ import annotations

import json
from typing import Any

from agent.faces.face import Beginning, Face, posture
from agent.state import Place
from ledger.wire.protocols import Delta


class JsonFace(Face):
    """Prints the result as one JSON object, whatever happened."""

    def show_begin(self, beginning: Beginning) -> None:
        """Print the posture on standard error."""
        self.err.put(f"agent: {posture(beginning)}\n")

    def delta(self, delta: Delta) -> None:
        """Nothing is shown on the way."""

    def show_event(self, place: Place, body: Any) -> None:
        """Nothing is shown on the way."""

    def result(self, result: dict[str, Any]) -> None:
        """Print the result."""
        self.out.put(json_line(result))


def json_line(value: Any) -> str:
    """Return a value as JSON on a line. Half of a surrogate pair, which no UTF-8 has, is replaced."""
    text = json.dumps(value, ensure_ascii=False) + "\n"
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
