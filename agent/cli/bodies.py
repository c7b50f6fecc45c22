"""The bodies of the commands of `agent`, each a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger.errors import UsageError
from ledger.log.location import resolve
from ledger.log.log import Log


def run(prompt: str | None, db: str | None, output_format: str, **given: Any) -> int:
    """Run a turn; print the result in the format asked for."""
    from agent.cli.options import face_of
    from agent.cli.running import run_for

    return run_for(face_of(output_format), prompt, db, given)


def sessions(workspace: str | None, limit: int, tz: str | None, db: str | None, format: str) -> int:
    """List the agent's sessions."""
    from agent.workspaces import place_of
    from ledger.accounts.catchup import snapshot
    from reports.output import checked_format
    from reports.periods import Zone
    from reports.runs import print_sessions

    checked_format(format)
    folder = None if workspace is None else place_of(workspace).folder
    with Log.open(resolve(db)) as log, snapshot(log) as view:
        print_sessions(view, folder, limit, Zone(tz), format)
    return 0


def cost(session: str | None, db: str | None, format: str) -> int:
    """Show what a session cost, by default the last one of this workspace."""
    from agent.cli.options import last_session
    from agent.workspaces import place_of
    from ledger.accounts.catchup import snapshot
    from reports.output import checked_format
    from reports.runs import print_cost
    from reports.tree import only_session

    checked_format(format)
    with Log.open(resolve(db)) as log, snapshot(log) as view:
        wanted = only_session(view, session)[1] if session else last_session(view, place_of(None).folder)
        if wanted is None:
            raise UsageError("no session of this workspace: give one, `agent sessions` lists them")
        print_cost(view, wanted, format)
    return 0


def rehearse(script: str, port: int, seen: str | None) -> int:
    """Serve a scripted model until Ctrl-C."""
    from agent.rehearsal.main import main

    return main(Path(script), port, None if seen is None else Path(seen))
