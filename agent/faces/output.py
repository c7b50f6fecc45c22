"""A standard stream whose reader may go away in the middle of a run: writing to it never raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from ledger.errors import LedgerError


class Output:
    """Writes until the first error, which is kept. A run has to end its effects and events before anybody hears of it.

    `on_error` is told once: where nobody reads any more, there is no reason to go on.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: Exception | None = None
        self.on_error: Callable[[], None] = lambda: None

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees it at once."""
        try:
            return self._stream.isatty()
        except ValueError:  # closed
            return False

    def put(self, text: str) -> None:
        """Write a text now; what the encoding lacks is replaced."""
        if self.error is not None:
            return
        try:
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = self._stream.encoding or "ascii"
                self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError, LedgerError) as error:
            self.error = error
            self.on_error()
