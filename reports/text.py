"""Text that reaches a terminal: control characters made harmless, widths counted, tables set."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

_HARMFUL = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))}
# Signs that turn the direction of text or hide: a name with them can pass for another.
_HIDDEN = (
    0xAD, 0x61C, 0x115F, 0x1160, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070),
    0x3164, 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),
)  # fmt: skip
_HARMFUL |= {code: f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in _HIDDEN}
_HARMFUL |= dict.fromkeys(range(55296, 57344), "�")


def safe(text: str) -> str:
    """Return the text with every control character shown as an escape, so that none reaches a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_HARMFUL)


def width(text: str) -> int:
    """Return how many columns a text takes in a terminal: wide signs take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me") or "\u1161" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7fb":
        return 0  # set over or into the sign before it, as are the vowels and ends of a Korean syllable
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shortened(text: str, room: int) -> str:
    """Return the text cut to `room` columns, its end replaced by an ellipsis."""
    if width(text) <= room:
        return text
    kept, used = "", 0
    for char in text:
        used += width(char)
        if used > room - 1:
            break
        kept += char
    return kept + "…"


def shortened_path(text: str, room: int) -> str:
    """Return a path cut at its front, where it says least."""
    if width(text) <= room:
        return text
    begin, used = len(text), 0
    while begin and used + _columns(text[begin - 1]) <= room - 1:
        begin -= 1
        used += _columns(text[begin])
    return "…" + text[begin:]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def terminal_columns() -> int:
    """Return the width to set tables for: the terminal's, COLUMNS, or unlimited in a pipe."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and len(told) < 10:
        return max(40, int(told))
    if not sys.stdout.isatty():
        return 10_000
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns or 80)
    except OSError:
        return 80


def has_colour() -> bool:
    """Return whether to use colour: on a terminal, unless NO_COLOR or TERM=dumb says no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str) -> str:
    """Return the text in bold where colour is used."""
    return f"\x1b[1m{text}\x1b[0m" if has_colour() else text


def dim(text: str) -> str:
    """Return the text dimmed where colour is used."""
    return f"\x1b[2m{text}\x1b[0m" if has_colour() else text


def wrapped(line: str) -> str:
    """Return a sentence in lines that fit the terminal, broken between words."""
    room = terminal_columns()
    if width(line) <= room:
        return line
    from textwrap import wrap

    return "\n".join(wrap(line, room, subsequent_indent="  "))


class Column(NamedTuple):
    """A column of a table. `rank` says what goes first when the terminal is narrow: the highest."""

    title: str
    right: bool = False
    rank: int = 0
    path: bool = False
    """Cut at its front rather than at its end."""


_GAP = 2
_LEAST = 8


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], total: Sequence[str] | None = None) -> str:
    """Return a table that fits the terminal: columns of the highest rank are left out, then texts are cut."""
    every = [[safe(cell) for cell in row] for row in rows]
    foot = [safe(cell) for cell in total] if total else None
    widths = [
        max([width(column.title)] + [width(row[place]) for row in every] + ([width(foot[place])] if foot else []))
        for place, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    room = terminal_columns()
    while _size(kept, widths) > room and any(columns[place].rank for place in kept):
        kept.remove(max(kept, key=lambda place: (columns[place].rank, place)))
    _squeeze(kept, widths, columns, room)
    lines = [bold(_row(kept, widths, columns, [column.title for column in columns]))]
    lines += [_row(kept, widths, columns, row) for row in every]
    if foot:
        lines.append(dim("─" * min(room, _size(kept, widths))))
        lines.append(bold(_row(kept, widths, columns, foot)))
    return "\n".join(lines)


def _size(kept: list[int], widths: list[int]) -> int:
    return sum(widths[place] for place in kept) + _GAP * (len(kept) - 1)


def _squeeze(kept: list[int], widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Narrow the widest text columns until the table fits; figures are never cut."""
    texts = [place for place in kept if not columns[place].right]
    while _size(kept, widths) > room and any(widths[place] > _LEAST for place in texts):
        widths[max(texts, key=lambda place: widths[place])] -= 1


def _row(kept: list[int], widths: list[int], columns: Sequence[Column], cells: Sequence[str]) -> str:
    parts = []
    for place in kept:
        cut = shortened_path if columns[place].path else shortened
        cell = cells[place] if columns[place].right else cut(cells[place], widths[place])
        pad = " " * (widths[place] - width(cell))
        parts.append(pad + cell if columns[place].right else cell + pad)
    return (" " * _GAP).join(parts).rstrip()
