"""Who is alive: a lock held for life. No fact and not in the log; a wrong belief costs time, the epoch fences."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Protocol

from ledger.errors import LogUnavailable
from ledger.log.log import Log

try:
    import fcntl
except ImportError:  # Windows: nobody is ever found alive there; the epoch fences all the same
    fcntl = None  # type: ignore[assignment] # a module or nothing; every use looks first


class Hold(Protocol):
    """The place of the one live holder of a name."""

    def try_take(self) -> bool:
        """Take the place if it is free; return whether it is ours now. It is given back when this process dies."""

    def give_back(self) -> None:
        """Give the place back."""


def hold(log: Log, name: str) -> Hold:
    """Return the place of a name: a lock file beside an SQLite log, a lock of the server's for PostgreSQL."""
    if isinstance(log.place, Path):
        return _FileHold(log.place.with_name(log.place.name + ".alive"), name)
    return _ServerHold(log.connection, name)


class _FileHold:
    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
        self._fd = -1

    def try_take(self) -> bool:
        if fcntl is None or self._fd >= 0:
            return True
        try:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LogUnavailable(
                f"{self.path}: the lock of a running session cannot be made ({error.strerror}): check the permissions "
                "of the log's folder"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def give_back(self) -> None:
        if self._fd >= 0:
            # The file stays: who removes a lock file may remove one that another has just taken.
            os.close(self._fd)
            self._fd = -1


class _ServerHold:
    """An advisory lock of the session, which the server gives back when the connection ends.

    Two names of one key (one in 2^63) would take each other for alive; the key is apart from those of the log.
    """

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        digest = hashlib.sha256(b"alive\0" + name.encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._taken = False

    def try_take(self) -> bool:
        if not self._taken:
            row = self._connection.execute("SELECT pg_try_advisory_lock(?)", (self._key,)).fetchone()
            self._taken = bool(row[0])
        return self._taken

    def give_back(self) -> None:
        if self._taken:
            self._connection.execute("SELECT pg_advisory_unlock(?)", (self._key,))
            self._taken = False
