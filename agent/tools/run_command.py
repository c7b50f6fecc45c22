"""run_command: a shell command in the workspace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from agent.tools.errors import ToolError
from agent.tools.limits import NOTE_ROOM
from agent.tools.tool import Tool, ToolContext, ToolOutput

if TYPE_CHECKING:
    from agent.process import Finished, Printed


class Arguments(msgspec.Struct, frozen=True):
    """What run_command takes."""

    command: Annotated[str, Meta(description="What bash is to run, in the workspace's folder.", min_length=1)]
    timeout_secs: Annotated[
        int | None,
        Meta(description="Seconds until it is ended, 1 to 3600.", extra_json_schema={"default": 120}),
    ] = None


async def _run(arguments: Arguments, context: ToolContext) -> ToolOutput:
    if not arguments.command.strip():
        raise ToolError("empty string field command", "give the command that is to run")
    if "\0" in arguments.command:
        raise ToolError("command has a NUL character", "leave it out; printf '\\0' writes one")
    from agent.process import child_environment, run

    limits, workspace = context.limits, context.workspace
    os.close(workspace.open_folder("."))  # tells it clearly where the workspace is gone
    asked = arguments.timeout_secs if arguments.timeout_secs is not None else limits.command_seconds
    seconds = min(max(asked, 1), limits.command_most_seconds)
    environment = child_environment(context.environment)
    finished = await run(
        [_shell(environment), "-c", arguments.command],
        folder=workspace.root,
        environment={**environment, "PWD": workspace.root},
        timeout_s=seconds,
        keep_bytes=limits.stream_bytes,
    )
    notes = []
    if seconds != asked:
        notes.append(f"[timeout_secs {asked} is not within 1 to {limits.command_most_seconds}: {seconds} was taken]")
    if finished.held_open:
        notes.append("[something that the command had left running was ended with it]")
    return _output(finished, seconds, notes, limits.output_characters - NOTE_ROOM)


def _output(finished: Finished, seconds: int, notes: list[str], room: int) -> ToolOutput:
    out, error = (_text(one) for one in (finished.stdout, finished.stderr))
    out_room = min(
        len(out[0]) + out[1] + len(out[2]), max(room // 2, room - (len(error[0]) + error[1] + len(error[2])))
    )
    parts = [_part("stdout", finished.stdout, out_room), _part("stderr", finished.stderr, room - out_room)]
    lines = [_exit(finished, seconds), *notes, "stdout:", parts[0][0], "stderr:", parts[1][0]]
    status = "timed_out" if finished.timed_out else "ok" if finished.exit_code == 0 else "error"
    return ToolOutput("\n".join(lines), status, parts[0][1] or parts[1][1], finished.exit_code)


def _exit(finished: Finished, seconds: int) -> str:
    if finished.timed_out:
        return (
            f"exit code: killed\nIt had not ended after {seconds} s, so it was ended with all that it had started. "
            "Give a larger timeout_secs (at most 3600), or have it do less."
        )
    if finished.exit_code is None:
        return "exit code: unknown (it could not be ended; it hangs in the kernel)"
    return f"exit code: {finished.exit_code}"


def _text(printed: Printed) -> tuple[str, int, str]:
    """Return the beginning, the number of characters that are not there, and the end."""
    if not printed.left_out_characters:
        return (printed.head + printed.tail).decode("utf-8", "replace"), 0, ""
    return printed.head.decode("utf-8", "replace"), printed.left_out_characters, printed.tail.decode("utf-8", "replace")


def _part(name: str, printed: Printed, room: int) -> tuple[str, bool]:
    """Return a stream within so many characters, and whether something is left out: a third is of its beginning."""
    head, left_out, tail = _text(printed)
    total = len(head) + left_out + len(tail)
    if not left_out and total <= room:
        return head.removesuffix("\n") or ("\n" if head else "(empty)"), False
    room = max(room, 0)
    if not left_out:
        head, tail = head[: room // 3], head[len(head) - (room - room // 3) :]
    elif len(head) + len(tail) > room:
        head, tail = head[: room // 3], tail[max(len(tail) - (room - room // 3), 0) :]
    left_out = total - len(head) - len(tail)
    advice = "print less, or write it to a file and read that"
    note = f"[... {left_out} of {total} characters of {name} left out here; {advice} ...]"
    return f"{head}\n{note}\n{tail.removesuffix(chr(10))}", True


def _shell(environment: dict[str, str]) -> str:
    """Return bash, or sh where there is none."""
    places = environment.get("PATH", os.defpath).split(os.pathsep)
    for place in ("/bin", "/usr/bin", *places):
        if place.startswith("/") and os.access(f"{place}/bash", os.X_OK):
            return f"{place}/bash"
    return "/bin/sh"


TOOL = Tool(
    name="run_command",
    description=(
        "Run a command with bash in the workspace. Non-interactive: its standard input is closed, nobody can answer "
        "it. In the foreground only: what it leaves running in the background is ended with it. Returns the exit code, "
        "stdout and stderr, together at most {limits.output_characters} characters: of what is longer the beginning "
        "and the end, with the amount left out. It is ended after timeout_secs ({limits.command_seconds} by default, "
        "at most {limits.command_most_seconds}). To read, change or find files use the tools for that."
    ),
    capabilities=frozenset(("process.spawn",)),
    arguments=Arguments,
    handler=_run,
)
