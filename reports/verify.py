"""`ledger verify`: every invariant, the log against a kept seal, and the first rows that break one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ledger.accounts.catchup import unwritable
from ledger.evidence.kept import Kept, Outcome, hold_against, read_file
from ledger.invariants import FOUND_MAX, Check, check, named, remember, verified
from ledger.invariants.of_log import fault_finding
from ledger.log.log import Log
from reports.output import Progress, put, put_csv, put_json
from reports.text import Column, counted, safe, table, wrapped

_FINDINGS_SHOWN = 5
_KEPT = "kept seal"


def verify(log: Log, format_: str, *, full: bool, new: bool = False, seal: str | None = None) -> int:
    """Run the checks and print them; return 1 where one fails.

    `new` leaves out what an earlier run found to hold. `seal` is a file that `ledger seal` wrote.
    """
    kept = None if seal is None else read_file(Path(seal))
    progress = Progress("verifying", " events")
    since, until = verified(log) if new else 0, log.head_position()
    outcomes = check(log, full=full, since=since, progress=progress)
    progress.close()
    about: dict[str, Any] = {"since": since, "until": until}
    notes: list[str] = []
    if since:
        notes.append(f"{counted(until - since, 'new event')}; the {since:,} before them were verified earlier")
    if kept is not None:
        outcome = hold_against(log, kept)
        outcomes.append(_kept_check(kept, outcome))
        about |= {"seal": {"digest": kept.digest, "made_at": kept.made_at, "events": kept.events,
                          "streams": kept.streams, "events_since": outcome.events_since}}  # fmt: skip
        if not outcome.faults:
            notes.append(f"{counted(outcome.events_since, 'event')} since the seal of {kept.made_at[:19]}Z")
    ok = all(outcome.ok for outcome in outcomes)
    if ok and not remember(log, until) and not log.readonly:
        notes.append(f"{unwritable(log)}; until then `ledger verify --new` begins where it began before")
    if format_ == "json":
        put_json({"ok": ok, "checks": [msgspec.to_builtins(outcome) for outcome in outcomes]} | about)
    elif format_ == "csv":
        put_csv(("name", "ok", "detail"), [(one.name, str(one.ok).lower(), one.detail) for one in outcomes])
    else:
        put("\n".join([as_table(outcomes), *map(wrapped, map(safe, notes))]))
    return 0 if ok else 1


def _kept_check(kept: Kept, outcome: Outcome) -> Check:
    """Return what came of a kept seal as one more check."""
    found = [named(fault_finding(fault)) for fault in outcome.faults[:FOUND_MAX]]
    covered = f"{counted(kept.events, 'event')} in {counted(kept.streams, 'stream')}"
    promise = f"What the kept seal covers is here as it was sealed: {covered}."
    return Check(_KEPT, not found, f"{len(outcome.faults):,} found: {promise}" if found else promise, found)


def as_table(outcomes: list[Check]) -> str:
    """Return the checks as a table, with the first findings of those that have any."""
    rows = [
        [one.name, "ok" if one.ok and not one.found else "flagged" if one.ok else "FAILED", one.detail]
        for one in outcomes
    ]
    lines = [table([Column("check"), Column("outcome"), Column("what must hold")], rows)]
    for one in outcomes:
        for finding in one.found[:_FINDINGS_SHOWN]:
            text = ", ".join(f"{name}: {value}" for name, value in finding.items())
            lines.append(safe(f"  {one.name}: {text}"))
    failed = sum(not one.ok for one in outcomes)
    lines.append(f"{failed} of {len(outcomes)} checks failed" if failed else f"all {len(outcomes)} checks hold")
    return "\n".join(lines)
