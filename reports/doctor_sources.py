"""What `ledger doctor` says of the session files on this machine: how many, what is new in them, what goes soon."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ledger.accounts.store import VERSION, Checkpoint, Store
from ledger.log.location import Place
from ledger.log.log import Log
from ledger.sources import discover
from reports.health import OK, WARN, Check
from reports.text import counted

_DAY_NS = 86_400_000_000_000
_KEPT_DAYS = 30
"""How long Claude Code keeps a session after its last line, where its settings do not say (`cleanupPeriodDays`)."""
_SOON_DAYS = 7

Known = dict[str, tuple[int, int]]
"""Path of a file -> its size in bytes and mtime in nanoseconds when the log last read it to the end."""


def session_files(place: Place, home: Path, use_environment: bool) -> Iterator[Check]:
    """Yield how many session files of each client this machine has, and what of them is not in the log yet."""
    known = _known(place)
    for client in discover.CLIENTS:
        problems: list[str] = []
        roots = discover.roots(client, home, use_environment=use_environment)
        found = [file for root in roots for file in discover.files(client, root, problems)]
        value = f"{counted(len(found), 'session file')} here" if roots else "no session files here"
        new = [file for file in found if known is not None and not _is_read(file, known)]
        if new:
            value += f", {len(new):,} with something new"
        elif found and known is not None:
            value += ", all read"
        if problems:
            yield Check(client, f"{value}, {counted(len(problems), 'folder')} unreadable", WARN, problems[0])
            continue
        kept_days = _kept_days(roots) if client == "claude-code" and found else 0
        soon = [file for file in new if kept_days and _days_left(file, kept_days) <= _SOON_DAYS]
        if kept_days:
            value += f"; {discover.NAMES[client]} deletes each {counted(kept_days, 'day')} after its last line"
        if soon:
            first = max(0, min(_days_left(file, kept_days) for file in soon))
            when = f"in {counted(first, 'day')}" if first else "at its next start"
            advice = f"{len(soon):,} of the new ones are deleted soon, the first {when}: run `ledger import {client}`"
            yield Check(client, value, WARN, advice)
        else:
            advice = f"`ledger import {client}` reads what is new" if found and (new or known is None) else ""
            yield Check(client, value, OK, advice)


def _known(place: Place) -> Known | None:
    """Return what the log has read of which file, None where its accounts cannot say."""
    try:
        with Log.open(place, readonly=True) as log:
            live = Checkpoint(log.accounts).live()
            if live is None or live[1] != VERSION:
                return None
            rows = Store(log.accounts, live[0]).query("SELECT path, size, mtime_ns FROM gen_sources")
            return {path: (size, mtime_ns) for path, size, mtime_ns in rows}
    except Exception:  # of either driver: whatever is wrong with the log has a check of its own
        return None


def _is_read(file: discover.Found, known: Known) -> bool:
    return known.get(discover.text_of(file.path)) == (file.size, file.mtime_ns)


def _kept_days(roots: list[Path]) -> int:
    """Return after how many days Claude Code deletes a session: the least that settings beside its folders say."""
    said = []
    for root in roots:
        try:
            settings = msgspec.json.decode((root.parent / "settings.json").read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeError):
            continue
        days = settings.get("cleanupPeriodDays") if isinstance(settings, dict) else None
        if isinstance(days, int) and not isinstance(days, bool) and days > 0:
            said.append(days)
    return min(said, default=_KEPT_DAYS)


def _days_left(file: discover.Found, kept_days: int) -> int:
    return kept_days - (time.time_ns() - file.mtime_ns) // _DAY_NS
