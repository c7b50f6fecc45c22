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
        """Let the kernel wake us: it does in turn, where looking again and again starves the unlucky."""
        import signal
        import threading

        main = threading.current_thread() is threading.main_thread()
        if main and hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            self._block_until_alarm()
        else:
            self._block(time.monotonic() + self.timeout_s)

    def _block_until_alarm(self) -> None:
        """Wait in the kernel's queue; an alarm of one's own ends the wait."""
        import signal

        def over(*_: object) -> None:
            raise TimeoutError

        signal.signal(signal.SIGALRM, over)
        try:
            signal.setitimer(signal.ITIMER_REAL, max(self.timeout_s, 0.001))  # zero would be no alarm
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # it may have come just before
            if isinstance(error, TimeoutError):
                raise self._late(self.holder()) from None
            raise
        finally:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _block(self, deadline: float) -> None:
        """Wait in the kernel's queue. A blocking flock has no time-out of its own, so a thread waits in our place.

        Where the time is over first (or an interrupt comes), the thread is left with the file: what it gets then, it
        gives back at once by closing it.
        """
        import threading

        fd, got, guard = self._fd, threading.Event(), threading.Lock()
        left = False

        def wait() -> None:
            fcntl.flock(fd, fcntl.LOCK_EX)
            with guard:
                if left:
                    os.close(fd)
                else:
                    got.set()

        threading.Thread(target=wait, daemon=True, name="commit lock").start()
        try:
            got.wait(max(0.0, deadline - time.monotonic()))
        finally:
            with guard:
                left = not got.is_set()
                if left:
                    holder, self._fd, self._pid = self.holder(), -1, 0
        if left:
            raise self._late(holder)

    def _late(self, holder: str) -> LogUnavailable:
        return LogUnavailable(
            f"the log is being written by process {holder} for more than {self.timeout_s:.0f} s: "
            "wait for it or stop it, then run this again"
        )

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
