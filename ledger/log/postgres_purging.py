"""Removing blobs from a log on PostgreSQL so that no trace of them is left in its tables' files."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger.log.postgres_log import PostgresLog

_DELETE = "SELECT delete_blobs(?, ?::bytea[], ?)"
_REWRITE = "SELECT rewrite_blobs()"
PATIENCE_S = 1.5
"""How long it is tried again where somebody still sees what was deleted."""


def delete_blobs(log: PostgresLog, sha256s: Sequence[bytes], linked_until: int) -> bool:
    """Do what Log.delete_blobs promises.

    What is deleted stays in a table's file until that is written anew, and even then while somebody has a snapshot
    in which it is still there: the server says how many rows it had to keep for that reason.
    """
    from ledger.log.postgres_log import PROGRAM

    log.check_writable()
    connection, clean = log.connection, False
    try:
        connection.execute(_DELETE, (PROGRAM, list(sha256s), linked_until))
        deadline = time.monotonic() + PATIENCE_S
        with suppress(connection.LockNotAvailable):  # somebody reads the table for longer than we wait
            while not (clean := _rewritten(log)) and time.monotonic() < deadline:
                time.sleep(0.1)  # most snapshots are short: a report, or the server's own analysis of a table
    except connection.Error as error:
        raise log.refused(error) from error
    return clean


def _rewritten(log: PostgresLog) -> bool:
    """Write the table of the blobs anew; return whether nothing that was deleted had to be kept in it."""
    told: list[str] = []

    def listen(diagnostic: Any) -> None:
        if diagnostic.severity_nonlocalized == "INFO":
            told.append(diagnostic.message_detail or "")

    driver = log.connection.driver
    driver.add_notice_handler(listen)
    try:
        log.connection.execute(_REWRITE)
    finally:
        driver.remove_notice_handler(listen)
    kept = [re.match(r"\D*(\d+)", detail) for detail in told if detail]
    return bool(kept) and all(found is not None and found[1] == "0" for found in kept)
