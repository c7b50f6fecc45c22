"""Hold something until a line comes in: `holder.py lock|exclusive|alone PLACE`. Prints "held PID" when it does.

`lock` is the commit lock, `exclusive` a transaction of SQLite, `alone` the whole file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ledger.log import sqlite
from ledger.log.lock import CommitLock


def main(what: str, place: str) -> None:
    """Hold it."""
    if what == "lock":
        with CommitLock(Path(f"{place}.lock")):
            _hold()
        return
    connection = sqlite.connect(Path(place))
    if what == "alone":
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    _hold()
    connection.execute("ROLLBACK")
    connection.close()


def _hold() -> None:
    print("held", os.getpid(), flush=True)
    sys.stdin.readline()


main(*sys.argv[1:])
