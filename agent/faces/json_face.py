"""The face for programs that want one object at the end."""

from __future__ import annotations

import json
import sys
from typing import Any

from agent.faces.face import Beginning, posture
from agent.state import Place
from ledger.wire.protocols import Delta


class JsonFace:
    """Prints the result as one JSON object, whatever happened."""

    def begin(self, beginning: Beginning) -> None:
        """Print the posture on standard error."""
        sys.stderr.write(f"agent: {posture(beginning)}\n")

    def delta(self, delta: Delta) -> None:
        """Nothing is shown on the way."""

    def event(self, place: Place, body: Any) -> None:
        """Nothing is shown on the way."""

    def result(self, result: dict[str, Any]) -> None:
        """Print the result."""
        sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
        sys.stdout.flush()
