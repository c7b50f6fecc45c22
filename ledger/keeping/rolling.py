"""Rolling a log: what there is goes into a file of its own, and the log goes on, in its place, after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ledger.accounts.catchup import catch_up, snapshot
from ledger.errors import LogUnavailable, UsageError
from ledger.events.book import LogRolled
from ledger.events.envelope import NewEvent
from ledger.evidence.seals import Made, make_seal
from ledger.ids import new_id
from ledger.keeping.backup import copy_database, sync
from ledger.log import sqlite
from ledger.log.append import append_within, writing
from ledger.log.log import BOOK, Log, StreamAppend
from ledger.log.prepare import prepare
from ledger.log.sqlite_log import SqliteLog
from ledger.log.volumes import CLOSED
from ledger.sql import script

RECENT_DAYS = 14
"""Files that changed since then are likely to go on: what was read of them stays at hand, since lines that are read
later may belong to responses of before."""

Progress = Callable[[int, int], None]
"""Called with (pages copied, pages to copy)."""
_PUT_META = 'INSERT INTO log_meta VALUES (?, ?) ON CONFLICT ("key") DO UPDATE SET value = excluded.value'


class Rolled(NamedTuple):
    """What a roll came to."""

    volume: int
    """The number of the volume that was closed, from 1."""
    archive: Path
    """Its file."""
    position: int
    """Its newest event."""
    seal: str
    """The digest of the seal over all its events."""
    size_bytes: int
    """Of the archive."""
    left_bytes: int
    """Of the file that the log goes on in."""


def roll(log: Log, progress: Progress | None = None) -> Rolled:
    """Seal a log, copy it whole into its archive, and let its file go on with what must be at hand.

    Writers wait meanwhile; readers do not. The log's own file changes in one transaction, after the archive is on the
    disk: a program that is killed leaves the log as it was, or rolled. Raises UsageError, LogReadOnly, LogUnavailable.
    """
    if not isinstance(log, SqliteLog):
        raise UsageError(
            f"{log.place}: lies on PostgreSQL, where a log has no file to close: `ledger backup` writes one of it"
        )
    log.check_writable()
    catch_up(log)  # what is folded later must read the archive for it
    try:
        with log.lock:
            seal = make_seal(log)
            catch_up(log)
            archive = _archive(log, progress)
            volume = log.volume
            _begin_volume(log, archive, seal, _recent(log))
            _shrink(log)
    except sqlite.Error as error:
        raise LogUnavailable(sqlite.explain(error, log.path)) from error
    return Rolled(volume, archive, seal.event.position, seal.body.digest, archive.stat().st_size,
                  log.path.stat().st_size)  # fmt: skip


def archive_path(log: SqliteLog) -> Path:
    """Return where the volume that is closed next will lie: ledger.1.db beside ledger.db."""
    path = log.path.resolve()
    return path.with_name(f"{path.stem}.{log.volume}{path.suffix}")


def _archive(log: SqliteLog, progress: Progress | None) -> Path:
    """Copy the log, closed, into its archive; return that. Raises UsageError where something else lies there."""
    path = archive_path(log)
    if path.exists() and not _is_left_over(log, path):
        raise UsageError(f"{path}: is there already, and is no part of this log: move it away, then roll")
    part = path.with_name(f".{path.name}.part")
    try:
        for end in ("", "-wal", "-shm", "-journal"):  # of one that was killed
            Path(f"{part}{end}").unlink(missing_ok=True)
        copy_database(log.connection, part, progress)
        _close(part)
        with Log.open(part, readonly=True) as copied:
            found = copied.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok" or copied.head_position() != log.head_position():
                raise LogUnavailable(f"{part}: the copy is damaged ({found}): check the disk, then `ledger verify`")
        sync(part)
        part.replace(path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)
    return path


def _is_left_over(log: SqliteLog, path: Path) -> bool:
    """Return whether a roll that was killed left this: the log is still the volume that it would be the archive of."""
    try:
        with Log.open(path, readonly=True) as found:
            assert isinstance(found, SqliteLog)
            same = (found.log_id, found.volume) == (log.log_id, log.volume)
            return same and found.meta(CLOSED) is not None and found.head_position() <= log.head_position()
    except LogUnavailable:
        return False


def _close(path: Path) -> None:
    """Mark the copy as closed, and make it one file that needs no other beside it."""
    connection = sqlite.connect(path)
    try:
        connection.execute(_PUT_META, (CLOSED, "1"))
        connection.execute("PRAGMA journal_mode=DELETE")
    finally:
        connection.close()


def _recent(log: SqliteLog) -> list[tuple[str]]:
    """Return the streams of files that changed lately."""
    since_ns = time.time_ns() - RECENT_DAYS * 86_400 * 1_000_000_000
    with snapshot(log) as view:
        return list(view.store.query("SELECT stream_id FROM gen_sources WHERE mtime_ns >= ?", since_ns))


def _begin_volume(log: SqliteLog, archive: Path, seal: Made, recent: list[tuple[str]]) -> None:
    """Leave in the log's file what the next volume begins with; all of it or nothing.

    That are, with their texts, the events of the books (prices, labels, seals: what programs read whole) and of
    recent sources, the heads of all streams, and what the log says of itself. The tables are made anew: nobody
    deletes an event, and the guards stay as they are.
    """
    execute, position = log.connection.execute, seal.event.position
    body = LogRolled(log.volume, archive.name, position, seal.body.digest)
    with writing(log):
        if log.head_position() != position:
            raise LogUnavailable(f"{log.path}: is written without its lock: stop what writes it, then roll again")
        carried = [(*head[:3], _position(log, *head[:2])) for head in log.heads()]
        execute("CREATE TEMP TABLE recent (stream_id TEXT PRIMARY KEY)")
        log.connection.executemany("INSERT INTO recent VALUES (?)", recent)
        execute("CREATE TEMP TABLE kept AS SELECT * FROM main.events WHERE stream_id IN (SELECT * FROM temp.recent) "
                f"OR stream_id = '{BOOK}' OR (stream_id > '{BOOK}:' AND stream_id < '{BOOK};')")  # fmt: skip
        execute("DROP TABLE temp.recent")
        execute("CREATE TEMP TABLE kept_links AS SELECT * FROM main.event_blobs "
                "WHERE event_id IN (SELECT event_id FROM kept)")  # fmt: skip
        execute("CREATE TEMP TABLE kept_blobs AS SELECT * FROM main.blobs "
                "WHERE sha256 IN (SELECT sha256 FROM kept_links)")  # fmt: skip
        for table in ("event_blobs", "blobs", "events", "carried"):
            execute(f"DROP TABLE IF EXISTS main.{table}")
        for statement in (*script("sqlite", "log"), *script("sqlite", "volumes")):
            if "TABLE log_meta" not in statement:
                execute(statement)
        for table, kept in (("events", "kept"), ("blobs", "kept_blobs"), ("event_blobs", "kept_links")):
            execute(f"INSERT INTO main.{table} SELECT * FROM temp.{kept} ORDER BY 1")
            execute(f"DROP TABLE temp.{kept}")
        log.connection.executemany("INSERT INTO carried VALUES (?, ?, ?, ?)", carried)
        said = {"volume": log.volume + 1, "base_position": position, "previous": archive.name,
                "previous_seal": seal.body.digest}  # fmt: skip
        for key, value in said.items():
            execute(_PUT_META, (key, str(value)))
        event = NewEvent(body=body, event_id=new_id())
        append_within(log, prepare([StreamAppend(log.book_stream, log.stream_version(log.book_stream), [event])]), ())


def _position(log: SqliteLog, stream_id: str, version: int) -> int:
    found = log.hash_at(stream_id, version)
    assert found is not None
    return found[0]


def _shrink(log: SqliteLog) -> None:
    """Give the room that is free now back to the disk; where a reader holds that up, it is used for what comes."""
    try:
        log.connection.execute("VACUUM")
        log.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite.OperationalError:
        pass
