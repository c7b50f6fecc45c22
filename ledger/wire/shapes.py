"""Takes values out of JSON that somebody else wrote: what is not of the expected shape is empty, never an error."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_LONGEST_NAME = 200
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def object_of(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is, None for anything else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def dict_of(value: object) -> dict[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, none for anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def word_of(value: object) -> str:
    """Return a text, an empty one for anything else."""
    return value if isinstance(value, str) else ""


def name_of(value: object) -> str:
    """Return an identifier that somebody else chose: of bounded length and of one line, empty where it is none."""
    return line_of(word_of(value), _LONGEST_NAME)


def line_of(text: str, most: int) -> str:
    """Return a text as one line of at most so many letters, without anything that moves a cursor."""
    line = _UNSEEN.sub(" ", text[: 4 * most]).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"
