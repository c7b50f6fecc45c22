"""How answers leave: as a table, as JSON, as CSV; and progress for whoever watches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ledger.errors import UsageError
from reports.text import safe

FORMATS = ("table", "json", "csv")


def checked_format(name: str) -> str:
    """Return the format's name. Raises UsageError for an unknown one."""
    if name not in FORMATS:
        raise UsageError(f"--format {name}: unknown: use one of {', '.join(FORMATS)}")
    return name


def put(text: str, end: str = "\n") -> None:
    """Write text and a newline to standard output; what the terminal's encoding lacks is replaced."""
    _Output().write(text + end)


class _Output:
    """Standard output for whoever writes to a file."""

    def write(self, text: str) -> None:
        """Write text; what the terminal's encoding lacks is replaced."""
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def put_json(value: Any) -> None:
    """Write a value as indented ASCII JSON: no control character of a log passes through it."""
    put(_json(value, 1))


def put_json_list(
    head: Mapping[str, Any], name: str, items: Iterable[Any], tail: Callable[[], Mapping[str, Any]]
) -> None:
    """Write a JSON object with a list, an item a line, while the items come: nothing of it is kept.

    `head` has the fields before the list, `tail` is called after its last item for those behind it; neither is empty.
    """
    put(f'{_json(head, 1).removesuffix("}").rstrip()},\n "{name}": [', end="")
    separator = "\n  "
    for item in items:
        put(f"{separator}{_json(item, -1)}", end="")
        separator = ",\n  "
    put(f"\n ],{_json(tail(), 1).removeprefix('{')}")


def _json(value: Any, indent: int) -> str:
    from ledger.events.registry import ascii_json

    encoded = msgspec.json.encode(value)
    text = ascii_json(msgspec.json.format(encoded, indent=indent) if indent >= 0 else encoded)
    return "".join(f"\\u{ord(char):04x}" if char == "\x7f" else char for char in text) if "\x7f" in text else text


def put_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as CSV (RFC 4180), as they come. An unknown value is an empty cell."""
    import csv

    writer = csv.writer(_Output(), lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if cell is None else safe(cell) if isinstance(cell, str) else cell for cell in row])


class Progress:
    """One line on a terminal, from the second second on; silent in a pipe."""

    def __init__(self, what: str, unit: str = "") -> None:
        self.what, self.unit = what, unit
        self.begun = time.monotonic()
        self.shown_at = self.begun + 0.7
        self.visible = False
        self.watched = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if not self.watched or now < self.shown_at:
            return
        share = f"{100 * done // total}%" if total else ""
        sys.stderr.write(f"\r\x1b[K{self.what} {share} ({done:,} of {total:,}{self.unit})")
        sys.stderr.flush()
        self.visible, self.shown_at = True, now + 0.1

    def close(self) -> None:
        """Take the line away."""
        if self.visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.visible = False
