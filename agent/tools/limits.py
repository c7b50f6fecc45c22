"""Every limit of the tools, and the exit limit that no result passes.

Texts are counted in characters (Unicode code points), files and streams in bytes; a note names the unit that it counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

NOTE_ROOM = 800
"""Characters that a tool keeps free for its own notes when it fills a result up to the exit limit."""

SKIPPED_FOLDERS = frozenset(
    (".git", "target", "node_modules", "__pycache__", ".venv", "venv", "dist", "build", ".idea", ".cache", ".next",
     "vendor", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache")
)  # fmt: skip
"""Names of folders that grep and glob do not enter unless they are asked for (TOOL-33)."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of all tools. A field's name ends in its unit."""

    output_characters: int = 20_000
    """The exit limit: of each result, errors included."""
    read_bytes: int = 4 * 1024 * 1024
    """read_file: larger files are read by offset and limit only."""
    read_lines: int = 2_000
    """read_file: lines where no limit was asked for."""
    line_characters: int = 2_000
    """read_file: of one line."""
    scan_bytes: int = 256 * 1024 * 1024
    """read_file: how far it looks for the lines that are asked for, and counts the rest."""
    edit_bytes: int = 16 * 1024 * 1024
    """edit_file: of the file."""
    list_entries: int = 300
    """list_dir: entries of one answer."""
    folder_entries: int = 200_000
    """list_dir, grep, glob: entries that are looked at in one folder."""
    grep_hits: int = 200
    grep_counted_hits: int = 10_000
    """grep: hits that are counted; then it stops."""
    grep_file_bytes: int = 1024 * 1024
    """grep: larger files are skipped, and counted."""
    grep_line_characters: int = 240
    glob_files: int = 500
    walk_files: int = 200_000
    """grep, glob: files that are looked at in one search."""
    walk_seconds: float = 20.0
    """grep, glob: how long one search takes at most."""
    command_seconds: int = 120
    """run_command: where no timeout_secs was asked for."""
    command_most_seconds: int = 3_600
    stream_bytes: int = 256 * 1024
    """run_command: kept of each stream; the rest is read and counted."""


class Cut(NamedTuple):
    """A text within its limit."""

    text: str
    left_out: int
    """How many characters of the text are not in it."""


def cut(text: str, limit: int, advice: str = "ask for less at a time") -> Cut:
    """Return the text within a limit of characters: its beginning, a note that counts what is left out, its end.

    The note counts towards the limit, unless the limit is smaller than twice the note: then that many characters
    stay, and the note stands beside them. A cut is always visible.
    """
    if len(text) <= limit:
        return Cut(text, 0)
    longest = len(_note(len(text), limit, advice))  # no count of what is left out has more digits
    kept = limit - longest if limit >= 2 * longest else max(limit, 0)
    note = _note(len(text) - kept, limit, advice)
    head = kept - kept // 4
    return Cut(text[:head] + note + text[len(text) - (kept - head) :], len(text) - kept)


def _note(left_out: int, limit: int, advice: str) -> str:
    return f"\n[... {left_out} characters left out here: the limit is {limit} characters; {advice} ...]\n"


def whole_lines(lines: Iterable[str], room: int) -> list[str]:
    """Return as many of the first lines as fit into so many characters, and at least one where there is one."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0 and kept:
            break
        kept.append(line)
    return kept


def printable(text: str) -> str:
    """Return the text without lone surrogates (a file name that is not UTF-8 has them): it can be stored and sent."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape" if _escaped_only(text) else "replace").decode("utf-8", "replace")


def _escaped_only(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" and not "\udc80" <= letter <= "\udcff" for letter in text)
