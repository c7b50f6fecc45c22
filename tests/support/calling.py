"""Tool calls as a loop makes them: by name and JSON text."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from agent.tools.limits import Limits
from agent.tools.registry import run_tool
from agent.tools.tool import ToolContext, ToolOutput


def context_of(folder: Path, **limits: float) -> ToolContext:
    """Return the context of a folder with some limits changed."""
    return ToolContext.of(folder, Limits(**limits))  # type: ignore[arg-type]


def call(context: ToolContext, tool: str, **arguments: object) -> ToolOutput:
    """Run one call to its end. A call that waits for ever fails the test."""

    async def run() -> ToolOutput:
        with anyio.fail_after(20):
            return await run_tool(tool, json.dumps(arguments), context)

    return anyio.run(run)


def together(context: ToolContext, calls: list[tuple[str, dict[str, object]]]) -> list[ToolOutput]:
    """Run calls at once; return their results in call order."""
    found: dict[int, ToolOutput] = {}

    async def one(index: int, tool: str, arguments: dict[str, object]) -> None:
        found[index] = await run_tool(tool, json.dumps(arguments), context)

    async def run() -> None:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for index, (tool, arguments) in enumerate(calls):
                    tasks.start_soon(one, index, tool, arguments)

    anyio.run(run)
    return [found[index] for index in range(len(calls))]


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def soon(holds: Callable[[], bool], seconds: float = 2.0) -> bool:
    """Whether something holds within a time."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted."""
    return sorted(one.name for one in folder.iterdir())
