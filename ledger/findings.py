"""What a check finds: something that does not hold, and where."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that does not hold, and where."""

    what: str
    expected: str = ""
    found: str = ""
    session: str = ""
    span: str = ""
    event: int | None = None
    """Position of the event."""
    stream: str = ""
    version: int | None = None
    """Of the event in its stream."""
