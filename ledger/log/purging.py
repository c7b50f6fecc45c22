"""Removing blobs from an SQLite file so that no trace of them is left in it, nor in the files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger.errors import LogReadOnly, LogUnavailable
from ledger.log import sqlite

if TYPE_CHECKING:
    from ledger.log.sqlite_log import SqliteLog


def delete_blobs(log: SqliteLog, sha256s: Sequence[bytes], linked_until: int) -> bool:
    """Do what Log.delete_blobs promises."""
    if log.readonly:
        raise LogReadOnly(f"{log.path}: may not be written: check its permissions, or update tallybook")
    execute = log.connection.execute
    try:
        with log.lock:
            execute("PRAGMA secure_delete=ON")
            execute("BEGIN IMMEDIATE")
            try:
                for sha256 in sha256s:
                    execute(log.sql["delete_blob"], (sha256, linked_until))
                execute("COMMIT")
            except BaseException:
                if log.connection.in_transaction:
                    execute("ROLLBACK")
                raise
            return _cleaned(log)
    except sqlite.Error as error:
        raise LogUnavailable(sqlite.explain(error, log.path)) from error


def _cleaned(log: SqliteLog) -> bool:
    """Write the file anew and empty the -wal beside it; return whether that could be done.

    secure_delete overwrites what is deleted from now on. What was moved within the file before (a page that was
    split keeps its old bytes) only leaves with VACUUM, which copies what is there and nothing else. Old pages stand
    in the -wal too, until it is written home and cut to nothing; a reader in another program holds that up.
    """
    try:
        log.connection.execute("VACUUM")
        busy = log.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite.OperationalError:  # another program reads or writes, or there is no room for the copy
        return False
    return not busy
