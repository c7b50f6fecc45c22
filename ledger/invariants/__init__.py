"""What must hold of every log and its accounts: one list of checks, each a function that returns findings.

`ledger verify` runs them, and so does every test that writes a log. A check reads and never writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import msgspec

from ledger.accounts.catchup import View, scratch, snapshot
from ledger.accounts.store import Checkpoint
from ledger.errors import LogTooNew
from ledger.findings import Finding
from ledger.invariants import of_accounts, of_log, of_volumes
from ledger.invariants.apart import Apart
from ledger.invariants.cells import forget
from ledger.invariants.finding import FOUND_MAX, Check, Checker, Progress, Scene, named
from ledger.log.log import Log

__all__ = ("CHECKS", "FLAGGED", "FOUND_MAX", "FULL_CHECKS", "Check", "Finding", "check", "named")

Checks = tuple[tuple[str, Checker], ...]

OF_THE_LOG: Checks = (
    ("chains", of_log.chains),
    ("catalogue", of_log.catalogue),
    ("stretches", of_log.stretches),
    ("blobs", of_log.blobs),
    ("seals", of_log.seals),
    ("volumes", of_volumes.volumes),
    ("archives", of_volumes.archives),
    ("runs", of_log.runs),
    ("grants", of_log.grants),
)
"""Checks that need no account."""
OF_SUMS: Checks = (
    ("totals", of_accounts.totals),
    ("tree", of_accounts.tree),
    ("node sums", of_accounts.node_sums),
)
"""Checks of sums over all spans, which take the longest."""
OF_ROWS: Checks = (
    ("statuses", of_accounts.statuses),
    ("keys", of_accounts.dimensions),
    ("quotes", of_accounts.quotes),
    ("reported totals", of_accounts.reported_totals),
)
OF_BOTH: Checks = (("places", of_accounts.places),)
"""Checks that hold what was read of the log against the accounts."""
CHECKS: Checks = OF_THE_LOG + OF_BOTH + OF_SUMS + OF_ROWS
FULL_CHECKS: Checks = (("live = rebuilt", of_accounts.rebuilt),)
FLAGGED = frozenset(("reported totals", "archives"))
"""Checks whose findings are shown, and no failure of the log: a provider's contradiction, a file kept elsewhere."""
APART_EVENTS = 20_000
"""From so many events on, the log is checked by a second process."""


def check(
    log: Log, *, full: bool = False, since: int = 0, progress: Progress | None = None, apart: bool | None = None
) -> list[Check]:
    """Run every check in one snapshot of the accounts; `full` adds folding everything again.

    `since` leaves out what stands up to a position, which an earlier run has verified. Where an event is so damaged
    that the accounts cannot be folded, only the log is checked, and that is said. `apart` says whether a second
    process checks the log meanwhile; by default one does where there is much to read.
    """
    with ExitStack() as stack:
        try:
            view = stack.enter_context(snapshot(log))
        except (msgspec.MsgspecError, LogTooNew) as error:
            return _without_accounts(log, error)
        scene = Scene(log, view, max(view.position, log.head_position()), since)
        stack.callback(forget, scene)
        if apart is None:
            apart = scene.until - since >= APART_EVENTS and (os.cpu_count() or 1) > 1
        sums = OF_SUMS + (FULL_CHECKS if full else ())
        if apart and hasattr(os, "fork"):
            other = Apart(log, lambda own, report: _apart(own, scene, report))
            stack.callback(other.close)
            mine = [_outcome(name, checker, scene) for name, checker in sums]
            theirs = other.join(progress)
        else:
            theirs = _log_checks(scene, progress)
            mine = [_outcome(name, checker, scene) for name, checker in sums]
        return _in_order(theirs + mine, full)


def verified(log: Log) -> int:
    """Return the position up to which everything was found to hold, 0 for none or where the log is another one."""
    for position, head in Checkpoint(log.accounts).verified():
        if position > log.reach()[0] and log.hash_of(position) == head:
            return position
    return 0


def remember(log: Log, position: int) -> bool:
    """Keep that everything up to a position was found to hold; return False where accounts cannot be written."""
    head = log.hash_of(position)
    if head is None:
        return True
    if not log.accounts_writable:
        return False
    try:
        with log.accounts_transaction():
            Checkpoint(log.accounts).verify(position, head)
    except log.accounts.OperationalError:  # their file may be read and not written, or its disk is full
        return False
    return True


def _apart(own: Log, of: Scene, progress: Progress) -> list[Check]:
    """Do the part of another process, by a snapshot of its own connection."""
    with snapshot(own) as view:
        return _log_checks(Scene(own, view, of.until, of.since), progress)


def _log_checks(scene: Scene, progress: Progress | None) -> list[Check]:
    """Return the outcomes of what needs the events, and of what is soon done."""
    scene.kept["progress"] = progress
    return [_outcome(name, checker, scene) for name, checker in OF_THE_LOG + OF_BOTH + OF_ROWS]


def _in_order(outcomes: Sequence[Check], full: bool) -> list[Check]:
    found = {one.name: one for one in outcomes}
    return [found[name] for name, _ in CHECKS + (FULL_CHECKS if full else ())]


def _without_accounts(log: Log, error: Exception) -> list[Check]:
    """Check the log alone, and say why there are no accounts."""
    with log.reading(), scratch(log.accounts) as nothing:
        scene = Scene(log, View(nothing, 0, 0), log.head_position())
        outcomes = [_outcome(name, checker, scene) for name, checker in OF_THE_LOG]
    found: list[dict[str, object]] = [{"what": f"an event cannot be read, so there are none: {error}"}]
    return [*outcomes, Check("accounts", False, "1 found: The accounts can be folded from the log.", found)]


def _outcome(name: str, checker: Checker, scene: Scene) -> Check:
    found: list[dict[str, object]] = []
    count = 0
    for finding in _findings(checker, scene):
        count += 1
        if len(found) < FOUND_MAX:
            found.append(named(finding))
    promise = (checker.__doc__ or "").strip().splitlines()[0]
    if not count:
        return Check(name, True, promise, found)
    word = "flagged" if name in FLAGGED else "found"
    return Check(name, name in FLAGGED, f"{count:,} {word}: {promise}", found)


def _findings(checker: Checker, scene: Scene) -> Iterator[Finding]:
    """Yield a check's findings; that it cannot be carried out on damaged rows is one more."""
    connections = {id(one): one for one in (scene.log.connection, scene.view.store.connection)}.values()
    for connection in connections:
        connection.execute("SAVEPOINT one_check")  # a question that fails must not spoil the transaction for others
    try:
        yield from checker(scene)
    except Exception as error:
        for connection in connections:
            connection.execute("ROLLBACK TO SAVEPOINT one_check")
        scene.kept.pop("cells", None)  # what was made within is gone
        if isinstance(error, tuple(connection.OperationalError for connection in connections)):
            raise  # no room, no lock, no permission: that says nothing of the log
        yield Finding(f"the check cannot be carried out: {type(error).__name__}: {error}")
    for connection in connections:
        connection.execute("RELEASE SAVEPOINT one_check")
