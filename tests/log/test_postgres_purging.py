"""Texts that leave a log on PostgreSQL leave the files of its tables too."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from postgres_server import Server, as_user

from ledger.errors import LogReadOnly
from ledger.events.envelope import NewEvent
from ledger.log import postgres
from ledger.log.blobs import Blob, make_blob
from ledger.log.location import PostgresPlace
from ledger.log.log import Log, StreamAppend
from ledger.log.postgres_init import init
from ledger.log.postgres_log import PostgresLog

MakeEvent = Callable[..., NewEvent]


def plain(content: bytes) -> Blob:
    """Return a blob whose bytes can be looked for in a file."""
    return Blob(hashlib.sha256(content).digest(), len(content), "plain", content)


def in_files(server: Server, log: PostgresLog, content: bytes) -> bool:
    """Return whether bytes stand in any file of the database (its write-ahead log is the server's)."""
    with server.connect() as admin:
        admin.execute("CHECKPOINT")
    number = log.connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()[0]
    return any(content in file.read_bytes() for file in Path(server.data, "base", str(number)).iterdir())


@pytest.fixture
def filled(pg_log: PostgresLog, event: MakeEvent) -> tuple[PostgresLog, list[Blob]]:
    """A log with three events, each with a small and a large text of its own, and one text that all share."""
    blobs = [plain(os.urandom(size)) for _ in range(3) for size in (40, 20_000)]
    shared = make_blob(b"said by all")
    for number in range(3):
        one = event(number)
        texts = [*blobs[2 * number : 2 * number + 2], shared]
        pg_log.append([StreamAppend("a", number, [one])], [(one.event_id, blob) for blob in texts])
    return pg_log, [*blobs, shared]


def test_purged_texts_leave_the_files(filled: tuple[PostgresLog, list[Blob]], server: Server) -> None:
    """What was asked for is gone, from the tables and their files; everything else stays, and so does the chain."""
    log, blobs = filled
    assert in_files(server, log, blobs[0].bytes)
    assert log.delete_blobs([blobs[0].sha256, blobs[1].sha256], 3)
    assert [log.blob(blob.sha256) is None for blob in blobs] == [True, True, False, False, False, False, False]
    assert not in_files(server, log, blobs[0].bytes)
    assert in_files(server, log, blobs[2].bytes)
    assert log.head_position() == 3
    assert log.delete_blobs([blobs[0].sha256, bytes(32)], 3)  # again, and one that never was


def test_what_a_later_event_links_stays(filled: tuple[PostgresLog, list[Blob]], event: MakeEvent) -> None:
    """A text that came again after the purge was decided is not removed by it."""
    log, blobs = filled
    late = event(4)
    log.append([StreamAppend("a", 3, [late])], [(late.event_id, blobs[0])])
    log.delete_blobs([blob.sha256 for blob in blobs], 3)
    assert [log.blob(blob.sha256) is None for blob in blobs] == [False, True, True, True, True, True, True]


def test_a_text_that_was_purged_does_not_come_back_with_a_retry(pg_log: PostgresLog, event: MakeEvent) -> None:
    """An append that is known whole stores nothing again."""
    one, blob = event(1), plain(b"gone")
    for _ in range(2):
        assert pg_log.append([StreamAppend("a", 0, [one])], [(one.event_id, blob)]) == [1]
        pg_log.delete_blobs([blob.sha256], 1)
        assert pg_log.blob(blob.sha256) is None


def test_a_snapshot_that_still_sees_them_keeps_traces(
    filled: tuple[PostgresLog, list[Blob]], server: Server, schema: PostgresPlace
) -> None:
    """Somebody reads an older state of the database: the answer says so, and a second time all is clean."""
    log, blobs = filled
    with psycopg.connect(schema.url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1").fetchone()
        assert not log.delete_blobs([blobs[0].sha256], 3)
        assert log.blob(blobs[0].sha256) is None
        reader.rollback()
    assert log.delete_blobs([blobs[0].sha256], 3)
    assert not in_files(server, log, blobs[0].bytes)


def test_a_reader_of_the_table_is_not_waited_for_long(
    filled: tuple[PostgresLog, list[Blob]], schema: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing the table anew needs it alone: where it cannot have it, the texts are gone and their traces are told."""
    _, blobs = filled
    monkeypatch.setattr(postgres, "LOCK_TIMEOUT_S", 0.2)
    with Log.open(schema) as log, psycopg.connect(schema.url) as reader:
        reader.execute(f"SELECT count(*) FROM {schema.schema}.blobs")
        assert not log.delete_blobs([blobs[0].sha256], 3)
        assert log.blob(blobs[0].sha256) is None


def test_a_writer_purges_and_a_reader_does_not(
    filled: tuple[PostgresLog, list[Blob]], schema: PostgresPlace, server: Server
) -> None:
    """The roles are enough: no superuser is needed to write the table anew."""
    _, blobs = filled
    roles = init(schema).roles
    users = {kind: f"{schema.schema}_{kind}_purges_{os.getpid()}" for kind in ("writer", "reader")}
    with server.connect() as admin:
        for kind, user in users.items():
            admin.execute(f'CREATE ROLE "{user}" LOGIN IN ROLE "{roles[kind]}"')
    with Log.open(as_user(schema, users["reader"])) as log, pytest.raises(LogReadOnly):
        log.delete_blobs([blobs[0].sha256], 3)
    with Log.open(as_user(schema, users["writer"])) as log:
        assert log.delete_blobs([blobs[0].sha256], 3)
        assert log.blob(blobs[0].sha256) is None
