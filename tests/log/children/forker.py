"""Fork with an open commit lock: the child must wait for its parent like any other: `forker.py PLACE`.

Prints one line for each finding, "ok" at the end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ledger.errors import LogUnavailable
from ledger.log.lock import CommitLock


def main(place: str) -> None:
    """Fork while the lock is held, and once more while it is not."""
    lock = CommitLock(Path(place), timeout_s=0.2)
    with lock:
        parent_fd = lock._fd
        _in_child(lock, expected=f"process {os.getpid()} ")
    with lock:
        assert lock._fd == parent_fd, "the parent goes on with its own"
    _in_child(lock, expected="")
    other = CommitLock(Path(place), timeout_s=0.2)
    with other:
        pass  # the child's end has given the lock back
    print("ok")


def _in_child(lock: CommitLock, expected: str) -> None:
    """Take the lock in a child. `expected` is what its time-out says, empty where it gets the lock."""
    child = os.fork()
    if not child:
        code = 1
        try:
            with lock:
                code = 0 if not expected else 2
        except LogUnavailable as error:
            code = 0 if expected and expected in str(error) else 3
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"expected {expected or 'the lock'}: {status}"


main(*sys.argv[1:])
