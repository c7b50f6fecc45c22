"""Removing blobs from a log on PostgreSQL so that no trace of them is left in its tables' files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger.log.postgres_log import PostgresLog

_DELETE = "SELECT delete_blobs(?, ?::bytea[], ?)"
_REWRITE = "SELECT rewrite_blobs()"


def delete_blobs(log: PostgresLog, sha256s: Sequence[bytes], linked_until: int) -> bool:
    """Do what Log.delete_blobs promises.

    What is deleted stays in a table's file until that is written anew, and even then while somebody has a snapshot
    in which it is still there: the server says how many rows it had to keep for that reason.
    """
    from ledger.log.postgres_log import PROGRAM

    log.check_writable()
    connection, told = log.connection, list[str]()

    def listen(diagnostic: Any) -> None:
        if diagnostic.severity_nonlocalized == "INFO":
            told.append(diagnostic.message_detail or "")

    try:
        connection.execute(_DELETE, (PROGRAM, list(sha256s), linked_until))
        connection.driver.add_notice_handler(listen)
        try:
            connection.execute(_REWRITE)
        except connection.OperationalError:  # somebody reads the table for longer than we wait
            return False
        finally:
            connection.driver.remove_notice_handler(listen)
    except connection.Error as error:
        raise log.refused(error) from error
    kept = [re.match(r"\D*(\d+)", detail) for detail in told if detail]
    return bool(kept) and all(found is not None and found[1] == "0" for found in kept)
