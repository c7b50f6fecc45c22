"""The usage objects of one response, as they arrived and in bounds, since they become a part of an event."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

_FIRST, _LAST = 8, 24
"""Some servers count in every chunk. Where that is more than both together, those between are left out: all dialects
read the last (ledger.wire.dialects), and what is merged field by field begins with the first."""
_LARGEST_BYTES = 16_384


class UsageFrames:
    """Collects usage objects in the order of the stream."""

    def __init__(self) -> None:
        self._first: list[dict[str, Any]] = []
        self._last: deque[dict[str, Any]] = deque(maxlen=_LAST)

    def add(self, at: str, usage: object, frame: int, event: str = "") -> None:
        """Keep an object; null, empty, and what no usage object is (too large) says nothing."""
        if not isinstance(usage, dict) or not usage or len(msgspec.json.encode(usage)) > _LARGEST_BYTES:
            return
        found = {"at": at, "usage": usage, "frame": frame} | ({"event": event} if event else {})
        if len(self._first) < _FIRST:
            self._first.append(found)
        else:
            self._last.append(found)

    @property
    def all(self) -> tuple[dict[str, Any], ...]:
        """What was kept, in order."""
        return (*self._first, *self._last)
