"""Patterns of paths: `*` stays inside one name, `**` takes zero or more of them, `?`, `[abc]`, `{a,b}`."""

from __future__ import annotations

import fnmatch
import re

_MOST_ALTERNATIVES = 100

Segment = re.Pattern[str] | None
"""One name of a pattern; None is `**`."""


class PathPattern:
    """A pattern. Case counts, and a leading dot is a letter like others. Time grows with pattern times path only."""

    def __init__(self, text: str) -> None:
        self._alternatives = [_segments(one) for one in _expanded(text)]

    def matches(self, path: str) -> bool:
        """Whether a whole path, names divided by `/`, is one of the pattern."""
        parts = path.split("/")
        return any(len(segments) in _states(segments, parts) for segments in self._alternatives)

    def below(self, folder: str) -> bool:
        """Whether something below a folder can match; the empty folder is where the pattern begins."""
        parts = folder.split("/") if folder else []
        return any(any(state < len(segments) for state in _states(segments, parts)) for segments in self._alternatives)


def _segments(text: str) -> list[Segment]:
    names = [name for name in text.split("/") if name not in ("", ".")]
    return [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]


def _states(segments: list[Segment], parts: list[str]) -> set[int]:
    """Return how far a pattern may have come when the parts are used up: indexes of the segment that is next."""
    states = _with_empty(segments, {0})
    for part in parts:
        reached = set()
        for state in states:
            if state < len(segments):
                segment = segments[state]
                if segment is None:
                    reached.add(state)
                elif segment.match(part):
                    reached.add(state + 1)
        states = _with_empty(segments, reached)
        if not states:
            break
    return states


def _with_empty(segments: list[Segment], states: set[int]) -> set[int]:
    """Add what is reached where `**` takes nothing."""
    for state in sorted(states):
        while state < len(segments) and segments[state] is None:
            state += 1
            states.add(state)
    return states


def _expanded(text: str) -> list[str]:
    """Return what braces stand for. Braces that are not closed, or that are too many, are letters."""
    waiting, whole = [text], list[str]()
    while waiting:
        one = waiting.pop()
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            whole.append(one)
            continue
        options = [one[: found.start()] + option + one[found.end() :] for option in found[1].split(",")]
        if len(whole) + len(waiting) + len(options) > _MOST_ALTERNATIVES:
            return [text]
        waiting.extend(options)
    return whole
