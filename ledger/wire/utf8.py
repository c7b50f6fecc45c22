"""Text out of bytes that arrive in pieces. One with bytes that are no UTF-8 is not what was sent."""

from __future__ import annotations

import codecs
import re

_ESCAPED = re.compile(r"[\udc80-\udcff]")
"""What such bytes become (PEP 383); no text that is UTF-8 has it."""


class Utf8:
    """Decodes pieces. Where they are cut makes no difference; a byte order mark at the beginning is dropped."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")

    def text(self, piece: bytes, *, final: bool = False) -> str:
        """Return the text of the next piece, to be given to `repaired`; `final` where none follows."""
        return self._decoder.decode(piece, final)


def repaired(text: str) -> tuple[str, bool]:
    """Return a decoded text with U+FFFD for every byte that is no UTF-8, and whether there was one."""
    found = _ESCAPED.sub("\ufffd", text)
    return found, found != text
