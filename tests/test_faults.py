"""The switch by which tests stop a process at a named point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

POINTS = """
from ledger import faults
for name in ("before:RequestSent", "after:RequestSent", "effect:tool") * 3:
    faults.point(name)
    print(name, flush=True)
"""


@pytest.mark.parametrize(
    ("wish", "reached"),
    [
        ("before:RequestSent", 0),
        ("after:RequestSent", 1),
        ("effect:tool:1", 2),
        ("before:RequestSent:2", 3),
        ("effect:tool:3", 8),
        ("", 9),
        ("before:RequestSent:4", 9),
        ("RequestSent", 9),
    ],
)
def test_it_stops_at_the_named_point(wish: str, reached: int) -> None:
    """`before:` and `after:` are parts of the name, a number behind it is a count (OBS-49)."""
    environment = {**os.environ, "TALLYBOOK_FAULT": wish}
    done = subprocess.run([sys.executable, "-c", POINTS], env=environment, capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == reached
    assert done.returncode == (0 if reached == 9 else -signal.SIGKILL)
