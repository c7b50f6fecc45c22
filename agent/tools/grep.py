"""grep: the lines of the workspace's files in which a text stands."""

from __future__ import annotations

import os
import stat
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from agent.paths import PathRefused
from agent.tools.errors import ToolError
from agent.tools.limits import NOTE_ROOM, whole_lines
from agent.tools.patterns import PathPattern
from agent.tools.read_file import BINARY_BYTES
from agent.tools.threads import Watch, reading
from agent.tools.tool import Tool, ToolContext, ToolOutput
from agent.tools.trees import Skipped, files


class Arguments(msgspec.Struct, frozen=True):
    """What grep takes."""

    pattern: Annotated[
        str,
        Meta(description="The text to find: literally, in one line, upper and lower case differ.", min_length=1),
    ]
    path: Annotated[
        str | None,
        Meta(
            description="A folder or a file, relative to the workspace.",
            min_length=1,
            extra_json_schema={"default": "."},
        ),
    ] = None
    include: Annotated[
        str | None,
        Meta(
            description="Only files whose name or path from the workspace matches, as *.rs or src/**/*.ts.",
            min_length=1,
        ),
    ] = None


class _Hits(NamedTuple):
    lines: list[str]
    """As many as are shown, each `path:line:text`."""
    counted: int
    in_files: int
    cut_lines: int


async def _grep(arguments: Arguments, context: ToolContext) -> ToolOutput:
    if "\n" in arguments.pattern or "\r" in arguments.pattern:
        raise ToolError("pattern has a line break", "search for a text that stands in one line")
    return await reading(lambda watch: _work(arguments, context, watch), context.limits.walk_seconds)


def _work(arguments: Arguments, context: ToolContext, watch: Watch) -> ToolOutput:
    path, skipped, limits = arguments.path or ".", Skipped(), context.limits
    if stat.S_ISDIR(context.workspace.kind(path)):
        found = files(context, path, watch, skipped, links=False)
        if arguments.include is not None:
            include = PathPattern(arguments.include)
            found = [one for one in found if include.matches(one) or include.matches(one.rpartition("/")[2])]
    else:
        os.close(context.workspace.open_for_reading(path))
        found = [context.workspace.name(path)]
    hits = _search(found, arguments.pattern, context, watch, skipped)
    shown = whole_lines(hits.lines, limits.output_characters - NOTE_ROOM)
    notes = []
    if not hits.counted:
        notes.append(f"no hits in {len(found)} files")
    elif len(shown) < hits.counted:
        many = f"more than {hits.counted - 1}" if hits.counted > limits.grep_counted_hits else str(hits.counted)
        notes.append(f"{len(shown)} of {many} hits in {hits.in_files} files are shown; narrow pattern, path or include")
    if hits.cut_lines:
        notes.append(f"{hits.cut_lines} lines are cut to {limits.grep_line_characters} characters")
    if said := skipped.note(limits.grep_file_bytes):
        notes.append(said)
    text = "\n".join([*shown, *(f"[{note}]" for note in notes)])
    left_out = len(shown) < hits.counted or hits.cut_lines > 0 or bool(skipped.ended_by)
    return ToolOutput(text, truncated=left_out)


def _search(found: list[str], pattern: str, context: ToolContext, watch: Watch, skipped: Skipped) -> _Hits:
    """Look through files in order. The first hits are kept, the rest is counted up to a limit."""
    limits, wanted = context.limits, pattern.encode()
    lines: list[str] = []
    counted = in_files = cut_lines = 0
    for looked_at, path in enumerate(found):
        watch.check()
        if watch.time_is_over:
            skipped.ended_by = f"{limits.walk_seconds:g} s had passed after {looked_at} of {len(found)} files"
            break
        content = _content(path, context, skipped)
        if content is None or wanted not in content:
            continue
        in_files += 1
        for number, line in enumerate(content.split(b"\n"), 1):
            if wanted not in line:
                continue
            counted += 1
            if len(lines) < limits.grep_hits:
                text, was_cut = _around(line, pattern, limits.grep_line_characters)
                lines.append(f"{path}:{number}:{text}")
                cut_lines += was_cut
            elif counted > limits.grep_counted_hits:
                return _Hits(lines, counted, in_files, cut_lines)
    return _Hits(lines, counted, in_files, cut_lines)


def _content(path: str, context: ToolContext, skipped: Skipped) -> bytes | None:
    """Return what is in a file, None where it is not searched, which is counted."""
    limit = context.limits.grep_file_bytes
    try:
        descriptor = context.workspace.open_for_reading(path)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            content = b"" if os.fstat(descriptor).st_size > limit else file.read(limit + 1)
            if len(content) > limit or os.fstat(descriptor).st_size > limit:
                skipped.large += 1
                return None
    except (OSError, PathRefused):
        skipped.unreadable += 1
        return None
    if b"\0" in content[:BINARY_BYTES]:
        skipped.binary += 1
        return None
    return content


def _around(line: bytes, pattern: str, most: int) -> tuple[str, bool]:
    """Return a line cut to so many characters of it around the hit, and whether it was cut."""
    text = line.decode("utf-8", "replace").removesuffix("\r")
    if len(text) <= most:
        return text, False
    at = max(text.find(pattern), 0)
    start = 0 if at + len(pattern) <= most else min(at, len(text) - most)
    end = start + most
    before = f"[{start} characters+] " if start else ""
    after = f" [+{len(text) - end} characters]" if end < len(text) else ""
    return f"{before}{text[start:end]}{after}", True


TOOL = Tool(
    name="grep",
    description=(
        "Find a text in files: a literal search, no regular expression. Returns path:line:text for each hit, sorted by "
        "path and line, at most {limits.grep_hits} hits with their total number, lines cut at "
        "{limits.grep_line_characters} characters. Files over {limits.grep_file_bytes} bytes, binary files, links and "
        "folders like .git and node_modules are skipped and counted. To find files by their names use glob."
    ),
    capabilities=frozenset(("fs.read",)),
    arguments=Arguments,
    handler=_grep,
)
