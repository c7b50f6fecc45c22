"""`ledger verify`: every invariant, and the first rows that break one."""

from __future__ import annotations

import msgspec

from ledger.invariants import Check, check
from ledger.log.log import Log
from reports.output import Progress, put, put_csv, put_json
from reports.text import Column, safe, table

_FINDINGS_SHOWN = 5


def verify(log: Log, format_: str, *, full: bool) -> int:
    """Run the checks and print them; return 1 where one fails."""
    progress = Progress("verifying", " checks")
    outcomes = check(log, full=full, progress=progress)
    progress.close()
    ok = all(outcome.ok for outcome in outcomes)
    if format_ == "json":
        put_json({"ok": ok, "checks": [msgspec.to_builtins(outcome) for outcome in outcomes]})
    elif format_ == "csv":
        put_csv(("name", "ok", "detail"), [(one.name, str(one.ok).lower(), one.detail) for one in outcomes])
    else:
        put(as_table(outcomes))
    return 0 if ok else 1


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
