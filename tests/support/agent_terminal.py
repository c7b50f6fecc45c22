"""A terminal for one process of the agent: what is typed, what is shown."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A process on a pseudo-terminal of its own, which it controls: Ctrl-C reaches it as from a keyboard."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str], columns: int = 80) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

        def control() -> None:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            words, cwd=folder, env={**environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs,
            preexec_fn=control,
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""
        self._read = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._ours, text.encode())

    def expect(self, text: str, seconds: float = 20) -> str:
        """Wait until a text is shown behind what was waited for before; return what came until then."""
        until = time.monotonic() + seconds
        while (place := self.shown.find(text, self._read)) < 0:
            if not self._take(until):
                raise AssertionError(f"{text!r} was not shown: {self.shown[self._read :]!r}")
        before, self._read = self.shown[self._read : place], place + len(text)
        return before

    def ended(self, seconds: float = 20) -> int:
        """Wait for the end of the process; return its exit code."""
        until = time.monotonic() + seconds
        while self._take(until):
            pass
        return self.process.wait(max(0.1, until - time.monotonic()))

    def _take(self, until: float) -> bool:
        """Take what is shown next; tell whether there was anything."""
        ready, _, _ = select.select([self._ours], [], [], max(0, until - time.monotonic()))
        if not ready:
            return False
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += piece.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(piece)
