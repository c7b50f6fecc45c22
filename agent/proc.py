"""The processes of this machine, as /proc has them (proc(5)). Where a system has none (macOS), there are none."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/proc")


def numbers() -> list[int]:
    """Return the ids of all processes."""
    try:
        return [int(one.name) for one in _ROOT.iterdir() if one.name.isdecimal()]
    except OSError:
        return []


def told(pid: int, what: str) -> bytes:
    """Return a file of a process (`stat`, `environ`); empty where it is gone, or is another user's."""
    try:
        return (_ROOT / str(pid) / what).read_bytes()
    except OSError:
        return b""
