"""glob: the workspace's files whose paths match a pattern."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from agent.tools.errors import ToolError
from agent.tools.limits import NOTE_ROOM, whole_lines
from agent.tools.patterns import PathPattern
from agent.tools.threads import Watch, reading
from agent.tools.tool import Tool, ToolContext, ToolOutput
from agent.tools.trees import Skipped, files


class Arguments(msgspec.Struct, frozen=True):
    """What glob takes."""

    pattern: Annotated[
        str,
        Meta(
            description=(
                "A pattern of paths from the folder: * stays inside one name, ** takes zero or more folders, also ?, "
                "[abc] and {a,b}. *.rs finds files of the folder itself, **/*.rs those below it too."
            ),
            min_length=1,
        ),
    ]
    path: Annotated[
        str | None,
        Meta(
            description="The folder to begin in, relative to the workspace.",
            min_length=1,
            extra_json_schema={"default": "."},
        ),
    ] = None


async def _glob(arguments: Arguments, context: ToolContext) -> ToolOutput:
    if arguments.pattern.startswith(("/", "~")) or ".." in arguments.pattern.split("/"):
        raise ToolError(
            f"the pattern {arguments.pattern} does not begin in the folder",
            "give the folder in path, and a pattern from there",
        )
    return await reading(lambda watch: _work(arguments, context, watch), context.limits.walk_seconds)


def _work(arguments: Arguments, context: ToolContext, watch: Watch) -> ToolOutput:
    path, skipped, limits = arguments.path or ".", Skipped(), context.limits
    pattern, base = PathPattern(arguments.pattern), context.workspace.name(path)
    start = 0 if base == "." else len(base) + 1
    listed = files(context, path, watch, skipped, links=True, enter=pattern.below)
    found = []
    for one in listed:
        watch.check()
        if pattern.matches(one[start:]):
            found.append(one)
    shown = whole_lines(found[: limits.glob_files], limits.output_characters - NOTE_ROOM)
    notes = []
    if not found:
        notes.append(f"no file matches among {len(listed)} that were looked at")
    elif len(shown) < len(found):
        notes.append(f"capped: {len(shown)} of {len(found)} files are shown; narrow pattern or path")
    if said := skipped.note():
        notes.append(said)
    text = "\n".join([*shown, *(f"[{note}]" for note in notes)])
    return ToolOutput(text, truncated=len(shown) < len(found) or bool(skipped.ended_by))


TOOL = Tool(
    name="glob",
    description=(
        "Find files by their paths. Returns the paths from the workspace, sorted, at most {limits.glob_files} with "
        "their total number; folders themselves are not returned. Links are listed and not followed; folders like .git "
        "and node_modules are skipped and counted. To find files by what is in them use grep, to see a folder list_dir."
    ),
    capabilities=frozenset(("fs.read",)),
    arguments=Arguments,
    handler=_glob,
)
