"""The driver and what every connection is set to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import LogUnavailable
from ledger.events.envelope import NewEvent
from ledger.log import sqlite
from ledger.log.append import append_within, writing
from ledger.log.lock import CommitLock
from ledger.log.log import Log, StreamAppend
from ledger.log.prepare import prepare
from ledger.log.sqlite_log import SqliteLog


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 53, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_which_versions_have_the_fix_of_the_write_ahead_log(version: tuple[int, ...], fixed: bool) -> None:
    """3.51.3 and later, and the two older lines that it was brought back to."""
    assert sqlite.has_wal_fix(version) is fixed


def test_the_driver_in_use_has_the_fix() -> None:
    """Two writers that checkpoint at once do not damage the log."""
    assert sqlite.has_wal_fix(sqlite.driver.sqlite_version_info)


def test_an_acknowledged_append_is_on_the_disk(log: Log) -> None:
    """Write-ahead log, and a sync at every commit: what append returned survives a power cut."""
    ask = log.connection.execute
    assert ask("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert ask("PRAGMA synchronous").fetchone()[0] == 2
    with Log.open(log.path) as again:
        assert again.connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    with pytest.raises(ZeroDivisionError), sqlite.relaxed(log.connection):
        assert ask("PRAGMA synchronous").fetchone()[0] == 1
        raise ZeroDivisionError
    assert ask("PRAGMA synchronous").fetchone()[0] == 2


def test_a_connection_trusts_no_schema(log: Log) -> None:
    """A file from elsewhere cannot make the program run functions by way of its views and triggers."""
    assert log.connection.execute("PRAGMA trusted_schema").fetchone()[0] == 0
    assert log.connection.execute("PRAGMA recursive_triggers").fetchone()[0] == 1


def test_a_read_only_connection_cannot_write(log: Log, event: Callable[..., NewEvent]) -> None:
    """Opened for reading, the database itself refuses, and new events are seen all the same."""
    with Log.open(log.path, readonly=True) as reader:
        with pytest.raises(sqlite.Error, match="readonly"):
            reader.connection.execute("INSERT INTO log_meta VALUES ('a', 'b')")
        log.append([StreamAppend("a", 0, [event(1)])])
        assert reader.head_position() == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("unable to open database file", "cannot be opened"),
        ("file is not a database", "is not a ledger or is damaged"),
        ("database disk image is malformed", "is not a ledger or is damaged"),
        ("database is locked", "another program holds it locked"),
        ("database or disk is full", "the disk is full"),
        ("attempt to write a readonly database", "may not be written by you"),
        ("disk I/O error", "disk I/O error"),
    ],
)
def test_errors_are_explained_in_one_line_with_what_to_do(error: str, text: str) -> None:
    """What is wrong with which file, then a colon and the next step."""
    message = sqlite.explain(sqlite.OperationalError(error), Path("/a/ledger.db"))
    assert message.startswith(f"/a/ledger.db: {text}")
    assert message.count(": ") >= 2
    assert "\n" not in message


class Busy:
    """A connection of one writer; during each of its statements another one commits, unless the lock is held."""

    def __init__(self, connection: Any, other: SqliteLog, event: Callable[..., NewEvent]) -> None:
        self.connection, self.other, self.event = connection, other, event
        self.committed = 0
        self.row: Any = None

    def execute(self, sql: str) -> Busy:
        """Run a statement in the midst of a transaction of the other one, or alone where that would have to wait."""
        try:
            with writing(self.other):
                self.row = self.connection.execute(sql).fetchone()
                append_within(
                    self.other, prepare([StreamAppend("b", self.committed, [self.event(self.committed)])]), ()
                )
            self.committed += 1
        except LogUnavailable:
            self.row = self.connection.execute(sql).fetchone()
        return self

    def fetchone(self) -> Any:
        """Return the row that the statement returned."""
        return self.row


def test_the_write_ahead_file_begins_anew_while_others_commit(
    log: SqliteLog, event: Callable[..., NewEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However busy others are, a checkpoint brings all home, so that the file is written over and not made longer."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 20)
    log.append([StreamAppend("a", 0, [event(number) for number in range(500)])])
    with Log.open(log.path) as other:
        assert isinstance(other, SqliteLog)
        other.lock.timeout_s = 0.01
        busy = Busy(log.connection, other, event)
        sqlite.Checkpointer(busy, log.lock).checkpoint()
        assert busy.committed >= 1
        size_bytes = Path(f"{log.path}-wal").stat().st_size
        other.append([StreamAppend("a", 500, [event(501)])])
        pages = log.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
        assert 0 < pages < 20
        assert Path(f"{log.path}-wal").stat().st_size == size_bytes


def test_a_checkpoint_that_has_to_wait_too_long_is_no_failure(
    log: SqliteLog, event: Callable[..., NewEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append before it is on the disk: whoever made it is not told that the log is being written by another."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 2)
    log.append([StreamAppend("a", 0, [event(number) for number in range(100)])])
    with CommitLock(log.lock.path):
        log.lock.timeout_s = 0.01
        log.checkpointer.checkpoint()
        with pytest.raises(LogUnavailable):
            log.append([StreamAppend("a", 100, [event(101)])])
    assert log.append([StreamAppend("a", 100, [event(101)])]) == [101]
