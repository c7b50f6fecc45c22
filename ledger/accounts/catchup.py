"""Bringing the accounts up to the log: small slices, one snapshot to answer from, and rebuilding beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ledger.accounts.store import TABLES, VERSION, Checkpoint, Store
from ledger.errors import LogTooNew, LogUnavailable
from ledger.log import sqlite
from ledger.log.log import Log

if TYPE_CHECKING:
    from ledger.accounts.fold import Fold

SLICE_EVENTS = 500
SLICE_SECONDS = 0.02
"""A slice ends at whichever comes first: other writers wait no longer than that for the write lock."""

Progress = Callable[[int, int], None]
"""Called with (position reached, position of the head)."""


class View(NamedTuple):
    """The accounts in one snapshot."""

    store: Store
    position: int
    """The accounts are as of this position of the log."""
    folded: int
    """How many events this reader had to fold first."""


@contextmanager
def snapshot(log: Log, progress: Progress | None = None) -> Iterator[View]:
    """Catch up, then yield the accounts in one read transaction.

    Where the database cannot be written (read-only, full, another version's rows), what is missing is folded
    in temporary tables and the answer is the same.
    """
    folded, store = _written(log, progress)
    if store is None:
        store, position, more = _in_memory(log, progress)
        yield View(store, position, folded + more)
        return
    connection = log.connection
    connection.execute("BEGIN")
    try:
        live = Checkpoint(connection).live()
        assert live is not None
        yield View(Store(connection, live[0]), live[2], folded)
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def catch_up(log: Log, progress: Progress | None = None) -> int:
    """Fold what is new into the live generation; return how many events that were.

    Accounts of a newer version are left alone. Raises LogUnavailable where the database cannot be written.
    """
    folded, store = _written(log, progress)
    if store is None and not _is_newer(log):
        raise LogUnavailable(f"{log.path}: the accounts cannot be written: check permissions and free space")
    return folded


def _written(log: Log, progress: Progress | None) -> tuple[int, Store | None]:
    """Return (events folded, the live store), with None for a store that cannot be brought up to date."""
    live = Checkpoint(log.connection).live()
    if live is not None and live[1] == VERSION and live[2] == log.head_position():
        return 0, Store(log.connection, live[0])
    if log.readonly or (live is not None and live[1] > VERSION):
        return 0, None
    try:
        if live is None or live[1] < VERSION:
            return _build(log, progress)
        store = Store(log.connection, live[0])
        return _fold_all(log, store, progress), store
    except sqlite.OperationalError as error:
        if "no such table" in str(error):  # another process switched generations meanwhile
            return _written(log, progress)
        return 0, None


def _is_newer(log: Log) -> bool:
    """Return whether the accounts were written by a newer program, which this one must not write over."""
    live = Checkpoint(log.connection).live()
    return live is not None and live[1] > VERSION


def rebuild(log: Log, progress: Progress | None = None) -> int:
    """Fold the whole log into a new generation beside the live one, then switch; return the events folded.

    Raises LogTooNew where the live one is of a newer version.
    """
    if _is_newer(log):
        raise LogTooNew(f"{log.path}: a newer tallybook wrote the accounts: update tallybook")
    try:
        return _build(log, progress)[0]
    except sqlite.Error as error:
        raise LogUnavailable(sqlite.explain(error, log.path)) from error


def _build(log: Log, progress: Progress | None) -> tuple[int, Store]:
    checkpoint = Checkpoint(log.connection)
    with _write(log):
        live = checkpoint.live()
        first = live is None
        store = checkpoint.begin(live=first)
    folded = _fold_all(log, store, progress)
    while not first:
        with _write(log):
            if checkpoint.position(store.generation) == log.head_position():
                checkpoint.switch(store)
                break
        folded += _fold_all(log, store, progress)
    return folded, store


def _fold_all(log: Log, store: Store, progress: Progress | None) -> int:
    """Fold slices into a written generation until it has reached the head."""
    from ledger.accounts.fold import Fold  # a reader that is up to date does not load it

    checkpoint, fold = Checkpoint(log.connection), Fold(store, log.event_at)
    folded, reached = 0, -1
    while True:
        with _write(log):
            position = checkpoint.position(store.generation)
            if position < 0:
                raise sqlite.OperationalError("no such table: the generation was replaced")
            if position != reached:
                fold = Fold(store, log.event_at)  # another process folded meanwhile: what we know is old
            count, reached = _fold_slice(log, fold, position, SLICE_SECONDS)
            checkpoint.move(store.generation, reached)
        folded += count
        head = log.head_position()
        if progress:
            progress(reached, head)
        if reached >= head:
            return folded


def _fold_slice(log: Log, fold: Fold, position: int, seconds: float) -> tuple[int, int]:
    """Fold up to a slice of events beyond `position`; return (how many, position reached)."""
    deadline = time.monotonic() + seconds
    count = 0
    while count < SLICE_EVENTS:
        page = log.events_after(position, 32)
        if not page:
            break
        for event in page:
            fold.apply(event)
            position, count = event.position, count + 1
            if time.monotonic() > deadline:
                break
        if time.monotonic() > deadline:
            break
    fold.settle()
    return count, position


@contextmanager
def _write(log: Log) -> Iterator[None]:
    """Hold the commit lock and a write transaction; roll back on any error.

    Such a commit is not synced to the disk of its own: what a power cut takes away is folded again.
    """
    connection = log.connection
    with log.lock, sqlite.relaxed(connection):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _in_memory(log: Log, progress: Progress | None) -> tuple[Store, int, int]:
    """Return temporary tables that hold the accounts up to the head."""
    live = Checkpoint(log.connection).live()
    store = Store(log.connection, 0, temporary=True)
    store.drop()
    store.create()
    position = 0
    if live is not None and live[1] == VERSION:
        for table in TABLES:
            log.connection.execute(f"INSERT INTO {store.prefix}{table} SELECT * FROM g{live[0]}_{table}")
        position = live[2]
    return store, *fold_temporary(log, store, position, log.head_position(), progress)


def fold_temporary(
    log: Log, store: Store, position: int, until: int, progress: Progress | None = None
) -> tuple[int, int]:
    """Fold the events in (position, until] into temporary tables; return (position reached, events folded)."""
    from ledger.accounts.fold import Fold

    fold = Fold(store, log.event_at)
    folded = 0
    while position < until:
        log.connection.execute("SAVEPOINT slice")
        count, position = _fold_slice(log, fold, position, 1.0)
        log.connection.execute("RELEASE slice")
        folded += count
        if progress:
            progress(position, until)
        if not count:
            break
    return position, folded
