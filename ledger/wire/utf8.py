"""Text out of bytes that arrive in pieces. What is no UTF-8 is replaced, and told: such a text is not what was sent."""

from __future__ import annotations

import codecs


class Utf8:
    """Decodes pieces. Where they are cut makes no difference; a byte order mark at the beginning is dropped."""

    def __init__(self) -> None:
        self.broken = False
        """Whether something was no UTF-8."""
        self._decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder("utf-8-sig")("strict")

    def text(self, piece: bytes, *, final: bool = False) -> str:
        """Return the text of the next piece; `final` where none follows."""
        try:
            return self._decoder.decode(piece, final)
        except UnicodeDecodeError:
            self.broken = True
            begun = self._decoder.getstate()[0]  # of a letter whose rest should have been in this piece
            self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
            return self._decoder.decode(begun + piece, final)
