"""`ledger demo --sample`: a sample home is imported into a temporary log, reported, shown as a tree and verified."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ledger.accounts.catchup import View, snapshot
from ledger.errors import UsageError
from ledger.invariants import check
from ledger.log.log import Log
from ledger.sources import discover
from ledger.sources.importer import run_import
from reports.imports import print_import
from reports.output import put
from reports.periods import Zone
from reports.query import ask, make_question
from reports.report import report
from reports.show import show
from reports.text import bold, counted, safe, wrapped
from reports.verify import as_table

SAMPLE = Path(__file__).parent / "sample"
BUNDLED = "bundled"
"""What the bundled sample is called on the command line."""


def demo(sample: str, home: Path, use_environment: bool) -> int:
    """Play the demo on the bundled sample, or on another home folder; return 0 if every check holds."""
    folder = SAMPLE if sample == BUNDLED else Path(os.path.expanduser(sample))  # noqa: PTH111 - of ~nobody it makes no error
    if not any(discover.roots(client, folder, use_environment=False) for client in discover.CLIENTS):
        raise UsageError(f"--sample {folder}: no sessions there: give a home folder that holds .claude or .codex")
    with (
        tempfile.TemporaryDirectory(prefix="tallybook-demo-") as scratch,
        Log.open(Path(scratch) / "ledger.db", create=True) as log,
    ):
        title("1. Import: every line of the session files is accounted for", "ledger import")
        reports = run_import(log, discover.CLIENTS, folder, use_environment=False)
        print_import(reports, "table", strict=False)
        with snapshot(log) as view:
            if not ask(view, make_question("session")).rows:
                raise UsageError(f"--sample {folder}: its sessions hold no request: give a home folder with more")
            _reports(log, view)
        title(
            "5. Verify: the sums hold in every grouping, and folding again gives the same",
            "ledger verify --full",
        )
        checks = check(log, full=True)
        put(as_table(checks))
    yours(home, use_environment)
    return 0 if all(one.ok for one in checks) else 1


def _reports(log: Log, view: View) -> None:
    title("2. What a session cost", "ledger report")
    report(view, make_question("session"), "table")
    title("3. What a month cost, by model", "ledger report --by month,model")
    report(view, make_question("month,model", tz="UTC"), "table")
    dearest = ask(view, make_question("session", sort="cost")).rows[0][0][0]
    title("4. Who spent it: the dearest session as a tree", f"ledger show {dearest[:8]}")
    show(log, view, dearest, Zone("UTC"), "table")


def title(text: str, command: str) -> None:
    """Print the heading of a part, and the command that gives it."""
    put(f"\n{bold(text)}" + (f"\n$ {safe(command)}" if command else ""))


def yours(home: Path, use_environment: bool) -> None:
    """Say how many sessions there are on this machine, without reading any."""
    found = {}
    for client in discover.CLIENTS:
        problems: list[str] = []
        roots = discover.roots(client, home, use_environment=use_environment)
        found[client] = sum(1 for root in roots for _ in discover.files(client, root, problems))
    total = sum(found.values())
    put("")
    if not total:
        *most, last = discover.NAMES.values()
        put(wrapped(f"No sessions of {', '.join(most)} or {last} were found on this machine. Where there are some:"))
    else:
        counts = ", ".join(f"{count} of {client}" for client, count in found.items() if count)
        found_here = f"This machine has {counted(total, 'session file')} ({counts}). None was read."
        put(wrapped(f"{found_here} To see what they cost:"))
    put("$ ledger report --import")
