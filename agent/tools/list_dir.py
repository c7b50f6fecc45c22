"""list_dir: what lies in one folder."""

from __future__ import annotations

import os
import stat
from typing import Annotated

import msgspec
from msgspec import Meta

from agent.tools.errors import ToolError
from agent.tools.limits import NOTE_ROOM, whole_lines
from agent.tools.threads import Watch, reading
from agent.tools.tool import Tool, ToolContext, ToolOutput


class Arguments(msgspec.Struct, frozen=True):
    """What list_dir takes."""

    path: Annotated[
        str | None,
        Meta(description="The folder, relative to the workspace.", min_length=1, extra_json_schema={"default": "."}),
    ] = None
    offset: Annotated[
        int | None, Meta(description="The first entry to return; 1 is the first.", extra_json_schema={"default": 1})
    ] = None


async def _list(arguments: Arguments, context: ToolContext) -> ToolOutput:
    return await reading(lambda watch: _work(arguments, context, watch))


def _work(arguments: Arguments, context: ToolContext, watch: Watch) -> ToolOutput:
    path, limits = arguments.path or ".", context.limits
    folders: list[str] = []
    others: list[str] = []
    more = False
    handle = context.workspace.open_folder(path)
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                watch.check()
                if len(folders) + len(others) >= limits.folder_entries:
                    more = True
                    break
                (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
        names = [*sorted(folders), *sorted(others)]
        total = f"more than {len(names)}" if more else str(len(names))
        offset = max(arguments.offset or 1, 1)
        if not names:
            return ToolOutput(f"[{path} is an empty folder]")
        if offset > len(names):
            raise ToolError(f"{path} has {total} entries, none at offset {offset}", "use a smaller offset")
        window = range(offset - 1, min(offset - 1 + limits.list_entries, len(names)))
        lines = [_line(handle, names[index], index < len(folders)) for index in window]
    finally:
        os.close(handle)
    shown = whole_lines(lines, limits.output_characters - NOTE_ROOM)
    last = offset + len(shown) - 1
    left_out = last < len(names) or more
    if offset > 1 or left_out:
        further = f"; go on with offset={last + 1}" if last < len(names) else ""
        shown.append(f"[{path} has {total} entries, you see {offset}-{last}{further}]")
    return ToolOutput("\n".join(shown), truncated=left_out)


def _line(handle: int, name: str, is_folder: bool) -> str:
    if is_folder:
        return f"{name}/"
    try:
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return f"{name} -> {os.readlink(name, dir_fd=handle)}"
    except OSError as error:
        return f"{name}  [{error.strerror}]"
    if not stat.S_ISREG(found.st_mode):
        return f"{name}  [no ordinary file]"
    return f"{name}  {found.st_size} bytes"


TOOL = Tool(
    name="list_dir",
    description=(
        "List what lies in one folder, not below it. Returns folders first (with / behind them), then files with their "
        "sizes in bytes and links with their targets, both sorted by name. At most {limits.list_entries} entries a "
        "call with the total; go on with offset. To find files by name in the whole tree use glob."
    ),
    capabilities=frozenset(("fs.read",)),
    arguments=Arguments,
    handler=_list,
)
