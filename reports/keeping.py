"""`ledger copy`, `ledger backup` and `ledger roll`: what came of moving and keeping a log."""

from __future__ import annotations

from pathlib import Path

from ledger.keeping.backup import Backup
from ledger.keeping.backup import backup as run_backup
from ledger.keeping.copying import Copied
from ledger.keeping.copying import copy as run_copy
from ledger.keeping.rolling import roll as run_roll
from ledger.log.log import Log
from reports.health import size_text
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


def roll(log: Log, format_: str) -> int:
    """Roll a log and say where what was in it lies now."""
    progress = Progress("rolling", " pages")
    try:
        rolled = run_roll(log, progress)
    finally:
        progress.close()
    said = rolled._asdict() | {"archive": str(rolled.archive)}
    if format_ == "json":
        put_json(said)
    elif format_ == "csv":
        put_csv(tuple(said), [tuple(said.values())])
    else:
        put(safe(f"{rolled.archive}: volume {rolled.volume}, closed: {counted(rolled.position, 'event')} under the "
                 f"seal {rolled.seal[:16]}, {size_text(rolled.size_bytes)}"))  # fmt: skip
        put(safe(f"{log.place}: goes on after them, {size_text(rolled.left_bytes)}"))
    return 0


def backup(log: Log, file: str, format_: str, *, force: bool) -> int:
    """Back up a log and say what is in the file."""
    progress = Progress("backing up", " pages" if log.kind == "sqlite" else " events")
    try:
        made = run_backup(log, Path(file), force=force, progress=progress)
    finally:
        progress.close()
    said = {"file": file, **made._asdict()}
    if format_ == "json":
        put_json(said)
    elif format_ == "csv":
        put_csv(tuple(said), [tuple((said | {"earlier": " ".join(made.earlier)}).values())])
    else:
        put(backup_text(made, file))
    return 0


def backup_text(made: Backup, file: str) -> str:
    """Return what a person reads of a backup."""
    lines = [safe(f"{file}: {counted(made.position, 'event')} in {size_text(made.size_bytes)}, checked")]
    if not made.accounts:
        lines.append(wrapped("Without accounts: there are none, or they are damaged. The first report folds them."))
    if made.earlier:
        lines.append(wrapped(safe(
            f"The log was rolled: this is its newest volume. Copy the earlier ones too: {', '.join(made.earlier)}"
        )))  # fmt: skip
    if made.portable:
        lines.append(wrapped(
            "An SQLite log with all events of the one on PostgreSQL, as `ledger copy` brings them: it can be asked as "
            "it is, and copied back."
        ))  # fmt: skip
    return "\n".join(lines)
