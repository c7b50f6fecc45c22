"""write_file: a file made or replaced as a whole."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from agent.tools.threads import turn, writing
from agent.tools.tool import Tool, ToolContext, ToolOutput


class Arguments(msgspec.Struct, frozen=True):
    """What write_file takes."""

    path: Annotated[
        str, Meta(description="The file, relative to the workspace. Missing folders before it are made.", min_length=1)
    ]
    content: Annotated[str, Meta(description="All that the file is to contain, written as UTF-8 exactly as given.")]


async def _write(arguments: Arguments, context: ToolContext) -> ToolOutput:
    content = arguments.content.encode()
    replacing = await writing(lambda: context.workspace.replacing(arguments.path, make_folders=True))
    with replacing:
        async with turn(replacing.key):
            before = replacing.version()
            await writing(lambda: replacing.replace(content))
    did = "made" if before is None else f"replaced (it had {before[2]} bytes)"
    return ToolOutput(f"{arguments.path} {did}: {len(arguments.content)} characters, {len(content)} bytes")


TOOL = Tool(
    name="write_file",
    description=(
        "Make a file, or replace all of an existing one. Returns whether it was made or replaced and how much was "
        "written. To change a part of an existing file use edit_file instead. There is no limit but that of your own "
        "answer. Only files in the workspace; the change is whole or not there at all."
    ),
    capabilities=frozenset(("fs.write",)),
    arguments=Arguments,
    handler=_write,
)
