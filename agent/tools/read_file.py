"""read_file: lines of a text file with their numbers."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
from msgspec import Meta

from agent.tools.errors import ToolError
from agent.tools.limits import NOTE_ROOM, Limits
from agent.tools.threads import Watch, reading
from agent.tools.tool import Tool, ToolContext, ToolOutput

_CHUNK_BYTES = 256 * 1024
BINARY_BYTES = 8_192
"""A NUL among so many first bytes is the sign of a file that is no text (TOOL-21)."""
_CONTINUING = bytes(range(0x80, 0xC0))


class Arguments(msgspec.Struct, frozen=True):
    """What read_file takes."""

    path: Annotated[
        str, Meta(description="The file, relative to the workspace (an absolute path below it will do).", min_length=1)
    ]
    offset: Annotated[
        int | None,
        Meta(description="The first line to return; 1 is the file's first.", extra_json_schema={"default": 1}),
    ] = None
    limit: Annotated[
        int | None, Meta(description="How many lines to return at most.", extra_json_schema={"default": 2000})
    ] = None


async def _read(arguments: Arguments, context: ToolContext) -> ToolOutput:
    return await reading(lambda watch: _work(arguments, context, watch))


def _work(arguments: Arguments, context: ToolContext, watch: Watch) -> ToolOutput:
    limits, path = context.limits, arguments.path
    descriptor = context.workspace.open_for_reading(path)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        if size > limits.read_bytes and arguments.offset is None and arguments.limit is None:
            raise ToolError(
                f"{path} has {size} bytes, more than the {limits.read_bytes} bytes that are read as a whole",
                "read a part of it with offset and limit, or find the lines with grep or run_command",
            )
        start = file.read(BINARY_BYTES)
        if b"\0" in start:
            raise ToolError(
                f"{path} is a binary file (a NUL byte stands at {start.index(0)}; {size} bytes)",
                "look at it with run_command and a program that knows its format",
            )
        file.seek(0)
        offset = max(arguments.offset if arguments.offset is not None else 1, 1)
        wanted = max(arguments.limit if arguments.limit is not None else limits.read_lines, 1)
        window = _Window(offset, wanted, limits)
        scanned = 0
        while scanned < limits.scan_bytes and (chunk := file.read(min(_CHUNK_BYTES, limits.scan_bytes - scanned))):
            watch.check()
            window.feed(chunk)
            scanned += len(chunk)
        whole = scanned < limits.scan_bytes or not file.read(1)
        window.finish(whole)
    return _output(path, window, whole)


class _Window:
    """Takes the bytes of a file and keeps the lines that were asked for, as far as they fit."""

    def __init__(self, offset: int, wanted: int, limits: Limits) -> None:
        self.offset, self._end = offset, offset + wanted
        self._room = limits.output_characters - NOTE_ROOM
        self._line_characters = limits.line_characters
        self._keep_bytes = 4 * limits.line_characters
        self.lines: list[str] = []
        self.total = 0
        """Lines so far, the last one counted when it has begun."""
        self.full = False
        """Whether a line that was asked for did not fit any more."""
        self.cut_lines = 0
        self.broken = False
        """Whether a line was shown that is not UTF-8."""
        self.carriage = False
        self.last_ended = True
        self._line = bytearray()
        self._beyond = 0
        """Characters of the line that were not kept."""

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        count = chunk.count(b"\n")
        # The line that a chunk begins in is number total, or the next one where the last had ended.
        first = self.total + (1 if self.last_ended else 0)
        if self.full or first >= self._end or first + count < self.offset:
            self.total = first + count - (1 if chunk.endswith(b"\n") else 0)
            self.last_ended = chunk.endswith(b"\n")
            return
        pieces = chunk.split(b"\n")
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            if last and not piece:
                return
            if self.last_ended:
                self.total += 1
            self._gather(piece)
            self.last_ended = not last
            if not last:
                self._close()

    def _gather(self, piece: bytes) -> None:
        if self.offset <= self.total < self._end and not self.full:
            room = self._keep_bytes - len(self._line)
            self._line += piece[:room]
            self._beyond += len(piece[room:].translate(None, _CONTINUING)) if len(piece) > room else 0

    def _close(self) -> None:
        """The line is whole: keep it, if it is wanted and fits."""
        if not self.offset <= self.total < self._end or self.full:
            return
        content, beyond = bytes(self._line), self._beyond
        self._line.clear()
        self._beyond = 0
        self.carriage = self.carriage or content.endswith(b"\r")
        text = content.decode("utf-8", "replace")
        self.broken = self.broken or ("\ufffd" in text and not _is_utf8(content, whole=not beyond))
        left_out = _characters(content) + beyond - self._line_characters
        shown = text
        if beyond or len(text) > self._line_characters:
            shown = f"{text[: self._line_characters]} [+{max(left_out, 1)} characters]"
        line = f"{self.total:>6}\t{shown}"
        self._room -= len(line) + 1
        if self._room < 0 and self.lines:
            self.full = True
            return
        self.cut_lines += shown is not text
        self.lines.append(line)

    def finish(self, whole: bool) -> None:
        """There are no more bytes, or no more are read."""
        if self.last_ended:
            return
        before = len(self.lines)
        self._close()
        if not whole and len(self.lines) > before:
            self.lines[-1] += " [the line goes on]"


def _characters(content: bytes) -> int:
    return len(content.translate(None, _CONTINUING))


def _is_utf8(content: bytes, *, whole: bool) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return not whole and error.reason == "unexpected end of data"
    return True


def _output(path: str, window: _Window, whole: bool) -> ToolOutput:
    total = f"{window.total}" if whole else f"more than {window.total}"
    if whole and not window.total:
        return ToolOutput(f"[{path} is empty]")
    if not window.lines:
        if not whole:
            raise ToolError(
                f"line {window.offset} of {path} lies too far behind its beginning ({total} lines were looked at)",
                "get it with run_command: sed -n 'FROM,TOp' FILE",
            )
        raise ToolError(f"{path} has {total} lines, none at offset {window.offset}", "use a smaller offset")
    last = window.offset + len(window.lines) - 1
    notes = []
    if window.offset > 1 or last < window.total or not whole:
        more = f"; go on with offset={last + 1}" if last < window.total or not whole else ""
        why = " (more would pass the limit of a result)" if window.full else ""
        notes.append(f"file has {total} lines, you see {window.offset}-{last}{why}{more}")
    if window.cut_lines:
        notes.append(f"{window.cut_lines} lines are cut, each says by how many characters")
    if window.broken:
        notes.append("not all of it is UTF-8: what is not is shown as \ufffd; edit_file keeps such bytes")
    if window.carriage:
        notes.append("lines end in CRLF: write \\r\\n in edit_file")
    if whole and last == window.total and not window.last_ended:
        notes.append("the last line has no line break")
    text = "\n".join([*window.lines, *(f"[{note}]" for note in notes)])
    return ToolOutput(text, truncated=window.full or window.cut_lines > 0 or last < window.total or not whole)


TOOL = Tool(
    name="read_file",
    description=(
        "Read a text file. Returns its lines, each with its number and a tab before it, and a note that says how many "
        "lines the file has where you see only some. Pages with offset and limit: 2000 lines by default, at most "
        "{limits.output_characters} characters a call, {limits.line_characters} a line. A file of more than "
        "{limits.read_bytes} bytes is read with offset or limit only; a binary file is not returned. To find where "
        "something stands use grep; to see a folder use list_dir."
    ),
    capabilities=frozenset(("fs.read",)),
    arguments=Arguments,
    handler=_read,
)
