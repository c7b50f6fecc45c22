"""Commands that outlive their agent: each process knows by its environment which tool call it belongs to, and is ended.

An agent ends what it started. One that was killed cannot: the next holder of its claim does, before it says that the
call is lost. Where the system has no /proc (macOS), what was left runs on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping

from agent import proc

VARIABLE = "TALLYBOOK_SPAN"
"""In the environment of a command and of all that it starts: the span of the tool call."""
_ROUNDS = 5
"""What is being started while the others are killed is found by looking again."""


def marked(environment: Mapping[str, str], span: str) -> dict[str, str]:
    """Return the environment of a tool call's processes."""
    return {**environment, VARIABLE: span}


def end(spans: Collection[str]) -> int:
    """Kill all processes on this machine that belong to these tool calls; return how many there were."""
    if not spans:
        return 0
    wanted = {f"{VARIABLE}={span}".encode() for span in spans}
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        found = [pid for pid in proc.numbers() if pid != os.getpid() and not wanted.isdisjoint(_variables(pid))]
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
            killed.add(pid)
    return len(killed)


def _variables(pid: int) -> list[bytes]:
    """Return the variables that a process began with."""
    return proc.told(pid, "environ").split(b"\0")
