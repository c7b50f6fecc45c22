"""`ledger purge`: texts leave for good, after a question."""

from __future__ import annotations

import sys
import time

from ledger.accounts.catchup import snapshot
from ledger.errors import UsageError
from ledger.evidence.purge import Selection, Wish, select
from ledger.evidence.purge import purge as remove
from ledger.log.log import Log
from reports.output import put, put_csv, put_json
from reports.periods import Zone, iso, parse_day
from reports.text import counted, safe, wrapped
from reports.tree import only_session


def purge(log: Log, older_than: str | None, session: str | None, tz: str | None, format_: str, *, sure: bool) -> int:
    """Remove the texts asked for and print what left; return 1 where traces are left that another program holds."""
    if (older_than is None) == (session is None):
        raise UsageError("say what to purge: --older-than 90d, or --session ID")
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if not sure and not asks:
        raise UsageError("texts that are purged cannot be brought back: add --yes where nobody can be asked")
    with snapshot(log) as view:
        if session is not None:
            _, session_id, client = only_session(view, session)
            wish, told = Wish(client, session_id), f"of session {session_id}"
        else:
            before_us = parse_day(older_than or "", Zone(tz), time.time_ns() // 1000, "--older-than")
            wish, told = Wish(before_us=before_us), f"of before {iso(before_us)}"
        selection = select(log, view, wish)
    if selection.sizes and not sure and not _agreed(selection, told):
        put("nothing was purged")
        return 0
    clean = remove(log, wish, selection)
    _print(wish, selection, told, format_, clean=clean)
    return 0 if clean else 1


def _amount(selection: Selection) -> str:
    return f"{counted(len(selection.sizes), 'text')} ({counted(sum(selection.sizes.values()), 'byte')})"


def _agreed(selection: Selection, told: str) -> bool:
    sys.stderr.write(safe(f"Purge {_amount(selection)} {told}? They cannot be brought back. [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print(wish: Wish, selection: Selection, told: str, format_: str, *, clean: bool) -> None:
    names = [name.hex() for name in sorted(selection.sizes)]
    size = sum(selection.sizes.values())
    if format_ == "json":
        put_json({
            "session": wish.session or None, "client": wish.client or None,
            "before": iso(wish.before_us) if wish.before_us else None, "count": len(names), "size_bytes": size,
            "kept_shared": selection.shared, "traces_left": not clean, "sha256": names,
        })  # fmt: skip
    elif format_ == "csv":
        put_csv(("sha256", "size_bytes"), [(name.hex(), size) for name, size in sorted(selection.sizes.items())])
    elif names:
        put(safe(f"purged {_amount(selection)} {told}"))
    else:
        put(safe(f"nothing to purge {told}"))
    if selection.shared and format_ == "table":
        many = selection.shared != 1
        put(
            wrapped(f"{selection.shared:,} more {'stay' if many else 'stays'}: named outside of what was asked for too")
        )
    if not clean:
        line = "ledger: the texts left the log, but another program that has it open keeps their traces in the file: "
        sys.stderr.write(line + "close that program and run `ledger purge` again\n")
