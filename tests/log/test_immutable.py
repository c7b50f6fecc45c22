"""What the database itself refuses, whoever asks (OBS-29). Raw connections, without the program's pragmas."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ledger.events.envelope import NewEvent
from ledger.ids import new_id
from ledger.log import sqlite
from ledger.log.blobs import make_blob
from ledger.log.log import Log, StreamAppend

TEXT = b"what the user said"
SHA256 = hashlib.sha256(TEXT).digest()

COLUMNS = (
    "position", "event_id", "session_id", "stream_id", "version", "type", "schema", "at", "writer", "cause",
    "turn", "span", "data", "prev_hash", "hash",
)  # fmt: skip

CHANGES = {
    "update one column": "UPDATE events SET data = '{}' WHERE position = 2",
    "update all": "UPDATE events SET at = at + 1",
    "update to the same": "UPDATE events SET data = data",
    "update or ignore": "UPDATE OR IGNORE events SET data = '{}'",
    "update or replace": "UPDATE OR REPLACE events SET position = 1 WHERE position = 2",
    "delete one": "DELETE FROM events WHERE position = 3",
    "delete all (truncate)": "DELETE FROM events",
    "replace by position": "INSERT OR REPLACE INTO events SELECT position, randomblob(16), session_id, 'z', 9, type, "
    "schema, at, writer, cause, turn, span, '{}', prev_hash, hash FROM events WHERE position = 1",
    "replace by event id": "INSERT OR REPLACE INTO events SELECT 99, event_id, session_id, 'z', 9, type, "
    "schema, at, writer, cause, turn, span, '{}', prev_hash, hash FROM events WHERE position = 1",
    "replace by stream and version": "REPLACE INTO events SELECT 99, randomblob(16), session_id, stream_id, version, "
    "type, schema, at, writer, cause, turn, span, '{}', prev_hash, hash FROM events WHERE position = 1",
    "upsert": "INSERT INTO events SELECT * FROM events WHERE position = 1 "
    "ON CONFLICT (position) DO UPDATE SET data = '{}'",
    "insert or ignore a double": "INSERT OR IGNORE INTO events SELECT * FROM events WHERE position = 1",
    "update a blob": "UPDATE blobs SET bytes = x'00'",
    "update a blob's name": "UPDATE blobs SET sha256 = x'00'",
    "replace a blob": "INSERT OR REPLACE INTO blobs SELECT sha256, 1, 'plain', x'00' FROM blobs",
    "upsert a blob": "INSERT INTO blobs SELECT * FROM blobs WHERE true "
    "ON CONFLICT (sha256) DO UPDATE SET bytes = x'00'",
}


@pytest.fixture
def filled(log: Log, event: Callable[..., NewEvent]) -> Log:
    """A log with three events and a blob."""
    first = event(1, cause=new_id(), session_id="s")
    log.append([StreamAppend("a", 0, [first, event(2), event(3)])], [(first.event_id, make_blob(TEXT))])
    return log


@pytest.fixture
def raw(filled: Log) -> Iterator[Any]:
    """A connection as any program would open it."""
    connection = sqlite.driver.connect(str(filled.path), isolation_level=None)
    yield connection
    connection.close()


def contents(log: Log) -> tuple[list[Any], bytes | None, int]:
    count = log.connection.execute("SELECT count(*) FROM blobs").fetchone()[0]
    return list(log.all_events()), log.blob(SHA256), count


@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("change", CHANGES)
def test_no_statement_changes_a_row(filled: Log, raw: Any, change: str, recursive: str) -> None:
    """UPDATE, DELETE, REPLACE and their relatives are refused and leave every row as it was (OBS-29)."""
    before = contents(filled)
    raw.execute(f"PRAGMA recursive_triggers={recursive}")
    with pytest.raises(sqlite.Error, match="are immutable"):
        raw.execute(CHANGES[change])
    assert contents(filled) == before


@pytest.mark.parametrize("column", COLUMNS)
def test_no_column_can_be_updated(filled: Log, raw: Any, column: str) -> None:
    """Each column of an event is closed, not only the data (OBS-29)."""
    before = contents(filled)
    with pytest.raises(sqlite.Error, match="events are immutable"):
        raw.execute(f'UPDATE events SET "{column}" = "{column}"')
    assert contents(filled) == before


def test_the_columns_are_all_tried(filled: Log) -> None:
    """The list above is the table's."""
    found = [row[1] for row in filled.connection.execute("PRAGMA table_info(events)")]
    assert tuple(found) == COLUMNS


def test_the_programs_own_connection_is_bound_too(filled: Log) -> None:
    """The connection that appends can change nothing either (OBS-29)."""
    before = contents(filled)
    for statement in CHANGES.values():
        with pytest.raises(sqlite.Error, match="are immutable"):
            filled.connection.execute(statement)
    assert contents(filled) == before


def test_a_refused_change_spoils_the_whole_transaction_it_is_in(filled: Log, raw: Any) -> None:
    """What stood before it in the same statement list is not left half done once rolled back."""
    before = contents(filled)
    raw.execute("BEGIN")
    raw.execute("INSERT INTO log_meta VALUES ('x', 'y')")
    with pytest.raises(sqlite.Error):
        raw.execute("DELETE FROM events")
    raw.execute("ROLLBACK")
    assert filled.meta("x") is None
    assert contents(filled) == before


def test_the_log_offers_no_way_to_change_or_remove() -> None:
    """The public methods are these: opening, appending, reading; blobs alone can be purged (OBS-29)."""
    public = {name for name in vars(Log) if not name.startswith("_")} - {"kind", "explain", "settle"}
    assert public - {name for name in public if name.startswith("accounts")} == {
        "adopt", "all_events", "append", "blob", "blob_links", "blob_sizes", "blobs_between", "book_events",
        "book_stream", "check_writable", "close", "create", "delete_blobs", "discard_accounts", "event_at",
        "events_after", "find_event", "hash_at", "hash_of", "head_at", "head_position", "heads",
        "is_older", "log_id", "meta", "open", "reach", "reading", "stream_events", "stream_head", "stream_version",
    }  # fmt: skip
