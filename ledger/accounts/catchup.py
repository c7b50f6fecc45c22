"""Bringing the accounts up to the log: small slices, one snapshot to answer from, and rebuilding beside."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ledger.accounts.store import VERSION, Checkpoint, Store
from ledger.errors import LogTooNew, LogUnavailable
from ledger.log.log import Log
from ledger.log.sqlite import in_memory

if TYPE_CHECKING:
    from ledger.accounts.fold import Fold

_SCRATCH = 1 << 40
"""A generation number that no live one has."""
_FEW_EVENTS = 2_000
"""A log with no more of them gets its first accounts at once, and not beside."""
SLICE_EVENTS = 4_000
SLICE_SECONDS = 0.02
"""A slice ends at whichever comes first: others who fold wait no longer than that."""

_PAGE_EVENTS, _PAGE_EVENTS_MAX, _PAGE_BYTES = 32, 500, 4_000_000
"""How many events are read at once: as many as they are small."""
_TEMPORARY_SECONDS = 0.1
_BESIDE_SECONDS = 0.1
"""How long a slice may take where nobody reads what it writes."""
_END = object()

Progress = Callable[[int, int], None]
"""Called with (position reached, position of the head)."""


class _Replaced(Exception):
    """Another process switched generations meanwhile."""


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
        with _in_memory(log, progress) as view:
            yield view._replace(folded=folded + view.folded)
        return
    while True:
        with log.reading():
            found = _live_view(log, folded)
            if found is not None:
                yield found
                return
        # The generation was replaced between its name and its tables: the new one is there by now.


def _live_view(log: Log, folded: int) -> View | None:
    """Return the live accounts, None where their tables went away while they were looked up."""
    live = Checkpoint(log.accounts).live()
    assert live is not None
    store = Store(log.accounts, live[0])
    if not store.hold():
        return None
    return View(store, live[2], folded)


def catch_up(log: Log, progress: Progress | None = None) -> int:
    """Fold what is new into the live generation; return how many events that were.

    Accounts of a newer version are left alone. Raises LogUnavailable where the database cannot be written.
    """
    folded, store = _written(log, progress)
    if store is None and not _is_newer(log):
        raise LogUnavailable(unwritable(log))
    return folded


def try_catch_up(log: Log) -> bool:
    """Fold what is new; return whether the accounts are up to date or a newer program's, False: not to be written."""
    _, store = _written(log, None)
    return store is not None or _is_newer(log)


def unwritable(log: Log) -> str:
    """Return the line that says what to do about accounts that cannot be written."""
    place = getattr(log, "accounts_path", log.place)
    return f"{place}: the accounts cannot be written: check permissions and free space, or remove that file"


def _written(log: Log, progress: Progress | None) -> tuple[int, Store | None]:
    """Return (events folded, the live store), with None for a store that cannot be brought up to date."""
    try:
        live = Checkpoint(log.accounts).live()
        fits = _fits(log, live)
    except log.accounts.DatabaseError as error:
        if isinstance(error, log.accounts.OperationalError) or not log.discard_accounts():
            raise
        return _written(log, progress)
    if fits and live is not None and live[1] == VERSION and live[2] == log.head_position():
        return 0, Store(log.accounts, live[0])
    if not log.accounts_writable or (live is not None and live[1] > VERSION):
        return 0, None
    try:
        if live is None or live[1] < VERSION or not fits:
            return _build(log, progress, anew=not fits)
        store = Store(log.accounts, live[0])
        return _fold_all(log, store, progress), store
    except _Replaced:
        return _written(log, progress)
    except log.accounts.Error as error:
        if log.accounts.is_missing_table(error):  # another process switched generations meanwhile
            return _written(log, progress)
        if isinstance(error, log.accounts.OperationalError):
            return 0, None
        if log.discard_accounts():
            return _written(log, progress)
        raise


def _fits(log: Log, live: tuple[int, int, int] | None) -> bool:
    """Return whether accounts are those of this log: the last event they saw is still what it was.

    It is not where another log, or an older copy of this one, was put in the log's place.
    """
    return live is None or not live[2] or log.hash_of(live[2]) == Checkpoint(log.accounts).head()


def _is_newer(log: Log) -> bool:
    """Return whether the accounts were written by a newer program, which this one must not write over."""
    live = Checkpoint(log.accounts).live()
    return live is not None and live[1] > VERSION


def gone(log: Log) -> list[int]:
    """Return the positions of events that were folded once and are gone or others now; none where nobody can say."""
    try:
        seen = Checkpoint(log.accounts).seen()
    except log.accounts.DatabaseError:  # damaged: a rebuild makes them anew
        return []
    return [position for position, head in seen if log.hash_of(position) != head]


def rebuild(log: Log, progress: Progress | None = None) -> int:
    """Fold the whole log into a new generation beside the live one, then switch; return the events folded.

    Whatever the accounts saw of another state of the log is forgotten: the log is taken as it is.

    Raises LogTooNew where the live one is of a newer version.
    """
    if not log.accounts_writable:
        raise LogUnavailable(unwritable(log))
    log.events_after(0, 1)  # where the first volume of the log is not there, nothing is begun
    try:
        if _is_newer(log):
            raise LogTooNew(f"{log.place}: a newer tallybook wrote the accounts: update tallybook")
        folded = _build(log, progress, anew=not _fits(log, Checkpoint(log.accounts).live()))[0]
        with log.accounts_transaction():
            Checkpoint(log.accounts).forget_witnesses()
        return folded
    except _Replaced:  # another process rebuilt meanwhile, and removed what was being made here
        return rebuild(log, progress)
    except log.accounts.Error as error:
        if not isinstance(error, log.accounts.OperationalError) and log.discard_accounts():
            return rebuild(log, progress)
        raise LogUnavailable(log.explain(error)) from error


def _build(log: Log, progress: Progress | None, *, anew: bool = False) -> tuple[int, Store]:
    """Fold into a new generation and switch to it at the end; at the beginning where the live one is of no use.

    `anew` says that the live one is of another log; what it saw is kept as witness for `ledger verify`.
    """
    checkpoint = Checkpoint(log.accounts)
    with log.accounts_transaction():
        live, seen = checkpoint.live(), None
        if live is not None and anew:
            seen, live = (live[2], checkpoint.head()), None
        first = live is None and log.head_position() <= _FEW_EVENTS
        store = checkpoint.begin(live=first)
        if seen is not None and seen[1] is not None:
            checkpoint.witness(seen[0], seen[1])
    folded = _fold_all(log, store, progress) if first else _fold_beside(log, store, progress)
    while not first:
        with log.accounts_transaction():
            if checkpoint.position(store.generation) == log.head_position():
                checkpoint.switch(store)
                break
        folded += _fold_all(log, store, progress)
    return folded, store


def _fold_all(log: Log, store: Store, progress: Progress | None) -> int:
    """Fold slices into a written generation until it has reached the head."""
    from ledger.accounts.fold import Fold  # a reader that is up to date does not load it

    checkpoint, fold = Checkpoint(log.accounts), Fold(store, log.event_at)
    folded, reached = 0, -1
    while True:
        with log.accounts_transaction():
            position = checkpoint.position(store.generation)
            if position < 0:
                raise _Replaced
            if position != reached:
                fold = Fold(store, log.event_at)  # another process folded meanwhile: what we know is old
            count, reached = _fold_slice(log, fold, position, SLICE_SECONDS)
            checkpoint.move(store.generation, reached, log.hash_of(reached))
        folded += count
        head = log.head_position()
        if progress:
            progress(reached, head)
        if reached >= head:
            return folded


def _fold_beside(log: Log, store: Store, progress: Progress | None) -> int:
    """Fold the whole log into a generation that is not live; its indexes are made when the rows are there."""
    from ledger.accounts.building import Building

    checkpoint, fold = Checkpoint(log.accounts), Building(store, log.event_at)
    folded = position = 0
    until = log.head_position()
    with _without_collecting():
        while position < until:
            with _own(log, checkpoint, store):
                count, position = _fold_slice(log, fold, position, _BESIDE_SECONDS)
                checkpoint.move(store.generation, position, log.hash_of(position))
            folded += count
            if progress:
                progress(position, until)
        for steps in (store.index(), fold.finish()):
            more = True
            while more:
                with _own(log, checkpoint, store):
                    more = next(steps, _END) is not _END
    return folded


@contextmanager
def _own(log: Log, checkpoint: Checkpoint, store: Store) -> Iterator[None]:
    """Hold a transaction in which a generation that is being made can be written."""
    with log.accounts_transaction():
        if checkpoint.position(store.generation) < 0:
            raise _Replaced
        yield


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Leave out the search for garbage in cycles: a fold makes none, and what it keeps would be searched each time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _fold_slice(log: Log, fold: Fold, position: int, seconds: float) -> tuple[int, int]:
    """Fold up to a slice of events beyond `position`; return (how many, position reached)."""
    deadline = time.monotonic() + seconds
    count = 0
    size = _PAGE_EVENTS
    while count < SLICE_EVENTS:
        page = log.events_after(position, size)
        if not page:
            break
        size = min(_PAGE_EVENTS_MAX, 1 + _PAGE_BYTES // (1 + max(len(event.data) for event in page)))
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
def _in_memory(log: Log, progress: Progress | None) -> Iterator[View]:
    """Yield the accounts up to the head in tables of a database in memory, which vanish with it."""
    live = Checkpoint(log.accounts).live()
    usable = live is not None and live[1] == VERSION and _fits(log, live)
    with log.reading(), scratch(log.accounts) as store:
        position = 0
        if usable and live is not None and store.copy_from(Store(log.accounts, live[0])):
            position = live[2]
        position, folded = fold_temporary(log, store, position, log.head_position(), progress)
        yield View(store, position, folded)


@contextmanager
def scratch(connection: Any) -> Iterator[Store]:
    """Yield an empty store that vanishes: temporary tables beside an SQLite file, else a database in memory.

    Its spans have no indexes before `fold_temporary`.
    """
    beside = connection.dialect == "sqlite"
    store = Store(connection if beside else in_memory(), _SCRATCH, temporary=beside)
    store.drop()
    store.create(indexed=False)
    try:
        yield store
    finally:
        if beside:
            store.drop()
        else:
            store.connection.close()


def fold_temporary(
    log: Log, store: Store, position: int, until: int, progress: Progress | None = None
) -> tuple[int, int]:
    """Fold the events in (position, until] into temporary tables; return (position reached, events folded)."""
    from ledger.accounts.building import Building
    from ledger.accounts.fold import Fold

    building = None if position else Building(store, log.event_at)
    if building is None:
        _do(store, store.index())
    fold = building or Fold(store, log.event_at)
    folded = 0
    while position < until:
        with _slice(store):
            count, position = _fold_slice(log, fold, position, _TEMPORARY_SECONDS)
        folded += count
        if progress:
            progress(position, until)
        if not count:
            break
    if building is not None:
        _do(store, store.index())
        _do(store, building.finish())
    return position, folded


def _do(store: Store, steps: Iterator[None]) -> None:
    """Take every step in a slice of its own."""
    more = True
    while more:
        with _slice(store):
            more = next(steps, _END) is not _END


@contextmanager
def _slice(store: Store) -> Iterator[None]:
    store.connection.execute("SAVEPOINT slice")
    yield
    store.connection.execute("RELEASE slice")
