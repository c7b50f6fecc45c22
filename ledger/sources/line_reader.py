"""What readers of JSON lines share where every line stands for itself: which are looked at, and how each is counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ledger.sources.lines import Block, broken_lines, hits
from ledger.sources.reading import Draft, loads_leniently


class LineReader(ABC):
    """Reads the lines of a file that hold one of its needles; the others hold nothing of use."""

    needles: ClassVar[tuple[bytes, ...]]
    """What a line must contain to be looked at."""

    @abstractmethod
    def line(self, raw: bytes, offset: int, draft: Draft) -> int:
        """Observe one line, which begins at `offset` of the file; return 1 where it held something, else 0.

        A line that is no JSON after all is counted in the draft as malformed, and is 1 too.
        """

    def torn(self, content: bytes) -> bool:
        """Return whether the unfinished last line of a file is half an object (True) or a whole one."""
        return loads_leniently(content) is None

    def read(self, block: Block, draft: Draft) -> None:
        """Observe every line of a block: each is of use, malformed, or without usage."""
        content, taken = block.content, 0
        broken = broken_lines(content)
        for begin, end, _ in hits(content, self.needles):
            if begin not in broken:
                taken += self.line(content[begin:end], block.offset + begin, draft)
        lines = content.count(b"\n") + (1 if block.torn else 0)
        draft.lines += lines
        draft.malformed += len(broken)
        draft.no_usage += lines - taken - len(broken)
