"""`agent rehearse SCRIPT`: serves a script until it is interrupted."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.rehearsal.plan import VOICES
from agent.rehearsal.script import Script
from agent.rehearsal.server import Rehearsal


def main(script: Path, port: int, seen: Path | None) -> int:
    """Serve a script on the loopback; print the base URL of each protocol first, one a line; return 0 when interrupted.

    Raises UsageError for a script, a port or a file that cannot be used.
    """
    rehearsal = Rehearsal(Script.load(script), port, seen, keep=False)
    try:
        for protocol in VOICES:
            sys.stdout.write(f"{protocol} {rehearsal.base_url_of(protocol)}\n")
        sys.stdout.flush()
        rehearsal.serve()
    except KeyboardInterrupt:
        pass
    finally:
        rehearsal.close()
    return 0
