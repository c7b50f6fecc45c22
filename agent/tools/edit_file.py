"""edit_file: one text in a file exchanged for another, byte by byte."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from agent.paths.replacing import Replacing
from agent.tools.errors import ToolError
from agent.tools.threads import turn, writing
from agent.tools.tool import Tool, ToolContext, ToolOutput

_SHOWN_LINES = 10


class Arguments(msgspec.Struct, frozen=True):
    """What edit_file takes."""

    path: Annotated[str, Meta(description="An existing file, relative to the workspace.", min_length=1)]
    old_string: Annotated[
        str,
        Meta(
            description=(
                "The text to exchange, exactly as the file has it, white space and line breaks included, without the "
                "line numbers of read_file. It must stand there once, or replace_all be true."
            ),
            min_length=1,
            extra={"empty": "use write_file to write a whole file, or give the text that is to be exchanged"},
        ),
    ]
    new_string: Annotated[str, Meta(description="What stands there afterwards; empty removes it.")]
    replace_all: Annotated[
        bool | None,
        Meta(description="Exchange every place instead of the only one.", extra_json_schema={"default": False}),
    ] = None


async def _edit(arguments: Arguments, context: ToolContext) -> ToolOutput:
    if arguments.old_string == arguments.new_string:
        raise ToolError("old_string and new_string are the same", "give the text as it should become in new_string")
    replacing = await writing(lambda: context.workspace.replacing(arguments.path))
    with replacing:
        async with turn(replacing.key):
            return await writing(lambda: _work(arguments, replacing, context.limits.edit_bytes))


def _work(arguments: Arguments, replacing: Replacing, most_bytes: int) -> ToolOutput:
    path = arguments.path
    content, version = replacing.read(most_bytes)
    if len(content) > most_bytes:
        raise ToolError(
            f"{path} has {version[2]} bytes, more than the {most_bytes} bytes that are edited",
            "change it by run_command",
        )
    old, new = arguments.old_string.encode(), arguments.new_string.encode()
    places = _places(content, old)
    if not places:
        raise _not_found(path, content, old)
    if len(places) > 1 and not arguments.replace_all:
        raise ToolError(
            f"old_string stands {len(places)} times in {path} ({_lines(content, places)})",
            "give more of the text around the one that you mean, or set replace_all",
        )
    if not replacing.replace(content.replace(old, new), unless_changed=version):
        raise ToolError(f"{path} was changed by somebody else just now", "read it again with read_file, then edit")
    count = "1 place" if len(places) == 1 else f"{len(places)} places"
    return ToolOutput(f"{path}: {count} exchanged ({_lines(content, places)})")


def _places(content: bytes, old: bytes) -> list[int]:
    """Return where a text begins, as `bytes.replace` finds it: places do not overlap."""
    places, at = [], content.find(old)
    while at >= 0:
        places.append(at)
        at = content.find(old, at + len(old))
    return places


def _lines(content: bytes, places: list[int]) -> str:
    """Return the numbers of the lines where places begin."""
    numbers, number, at = [], 1, 0
    for place in places[:_SHOWN_LINES]:
        number += content.count(b"\n", at, place)
        at = place
        numbers.append(str(number))
    more = f" and {len(places) - _SHOWN_LINES} more" if len(places) > _SHOWN_LINES else ""
    return f"line{'s' if len(places) > 1 else ''} {', '.join(numbers)}{more}"


def _not_found(path: str, content: bytes, old: bytes) -> ToolError:
    step = "read the file first with read_file and copy the text exactly"
    if b"\n" in old and b"\r\n" not in old and old.replace(b"\n", b"\r\n") in content:
        step = "its lines end in CRLF: write \\r\\n where old_string has \\n, and in new_string too"
    elif old.strip() and old.strip() in content:
        step = "the same text stands there with other white space around it: read the file first with read_file"
    return ToolError(f"old_string does not stand in {path}", step)


TOOL = Tool(
    name="edit_file",
    description=(
        "Exchange one text in an existing file for another, exactly as given. Returns the lines where that was done. "
        "old_string must stand there exactly once unless replace_all is true; read the file with read_file first. All "
        "other bytes stay as they are. Files up to {limits.edit_bytes} bytes. To make a file or to replace all of it "
        "use write_file instead."
    ),
    capabilities=frozenset(("fs.read", "fs.write")),
    arguments=Arguments,
    handler=_edit,
)
