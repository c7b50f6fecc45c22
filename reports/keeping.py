"""`ledger copy`: what came of moving and keeping a log."""

from __future__ import annotations

from ledger.keeping.copying import Copied
from ledger.keeping.copying import copy as run_copy
from ledger.log.log import Log
from reports.output import Progress, put, put_csv, put_json
from reports.text import counted, safe, wrapped


def copy(source: Log, target: Log, format_: str) -> int:
    """Copy a log into another one and say what came of it."""
    progress = Progress("copying", " events")
    try:
        copied = run_copy(source, target, progress)
    finally:
        progress.close()
    said = {"from": str(source.place), "to": str(target.place), **copied._asdict()}
    if format_ == "json":
        put_json(said)
    elif format_ == "csv":
        put_csv(tuple(said), [tuple(said.values())])
    else:
        put(as_text(copied, str(target.place)))
    return 0


def as_text(copied: Copied, target: str) -> str:
    """Return what a person reads of a copy."""
    known = f"{copied.known:,} {'was' if copied.known == 1 else 'were'} there already"
    if not copied.events:
        lines = [safe(f"{target}: nothing new; {known}")]
    else:
        what = f"{counted(copied.events, 'event')} of {counted(copied.streams, 'stream')}"
        lines = [safe(f"{target}: copied {what} and {counted(copied.blobs, 'text')}; {known}")]
    if copied.purged:
        verb = "stays" if copied.purged == 1 else "stay"
        lines.append(wrapped(f"{counted(copied.purged, 'text')} {verb} away: purged there"))
    return "\n".join(lines)
