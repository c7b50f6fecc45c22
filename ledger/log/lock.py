"""A file lock held for one commit, so that writers queue instead of failing, and can be named."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ledger.errors import LogUnavailable

try:
    import fcntl
except ImportError:  # Windows: SQLite's own busy handler is the queue there
    fcntl = None  # type: ignore[assignment]


class CommitLock:
    """`with lock:` waits for the one writer's place. Whoever has it may take it again; one a process and log.

    Raises LogUnavailable where the wait is over or the lock file cannot be made. The kernel gives the lock
    back when its holder dies.
    """

    def __init__(self, path: Path, *, timeout_s: float = 30.0) -> None:
        self.path, self.timeout_s = path, timeout_s
        self._fd = -1
        self._pid = 0
        self._depth = 0

    def __enter__(self) -> CommitLock:
        if fcntl is None:
            return self
        if self._pid != os.getpid():
            self._open()
        elif self._depth:
            self._depth += 1
            return self
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait()
        self._depth = 1
        try:
            os.pwrite(self._fd, b"%-20d" % self._pid, 0)
        except OSError:  # a full disk: the name is a courtesy to those who wait, the lock holds without it
            pass
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self) -> None:
        """Open the lock file. One inherited over a fork is shared with the parent, so it is closed first."""
        self.close()
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = error.strerror or str(error)
            raise LogUnavailable(
                f"{self.path}: the lock file cannot be opened ({reason}): check the permissions of its folder"
            ) from error
        self._pid = os.getpid()

    def _wait(self) -> None:
        """Try again and again, in pauses of at most 2 ms: a blocking flock has no time-out of its own."""
        deadline = time.monotonic() + self.timeout_s
        pause = 0.0002
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LogUnavailable(
                        f"the log is being written by process {self.holder()} for more than "
                        f"{self.timeout_s:.0f} s: wait for it or stop it, then run this again"
                    ) from None
                time.sleep(pause)
                pause = min(pause * 1.5, 0.002)

    def holder(self) -> str:
        """Return the process id of whoever holds or last held the lock."""
        try:
            return os.pread(self._fd, 20, 0).decode().strip() or "unknown"
        except OSError:
            return "unknown"

    def __exit__(self, *_: object) -> None:
        if fcntl is None:
            return
        self._depth -= 1
        if not self._depth:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file; the next `with` opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._pid, self._depth = -1, 0, 0
