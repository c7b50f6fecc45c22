"""The bodies of the commands of `agent`, each a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger.errors import UsageError
from ledger.log.location import resolve
from ledger.log.log import Log


def run(prompt: str | None, db: str | None, output_format: str, **given: Any) -> int:
    """Run a turn; print the result in the format asked for."""
    from agent.cli.options import asked_of, face_of, prompt_of
    from agent.session import run_session, texts_of

    words = prompt_of(prompt, going_on=given["continue_"] or given["session"] is not None)
    with Log.open(resolve(db), create=True) as log:
        texts = texts_of(log)
        face = face_of(output_format, texts)
        result = run_session(log, asked_of(log, words, given), face, texts)
        face.result(result)
    return {"ok": 0, "interrupted": 130}.get(result["outcome"], 1)


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


def cost(session: str | None, tz: str | None, db: str | None, format: str) -> int:
    """Show a session as a tree, by default the last one of this workspace."""
    from agent.cli.options import last_session
    from agent.workspaces import place_of
    from ledger.accounts.catchup import snapshot
    from reports.output import checked_format
    from reports.periods import Zone
    from reports.show import show

    checked_format(format)
    with Log.open(resolve(db)) as log, snapshot(log) as view:
        wanted = session or last_session(view, place_of(None).folder)
        if wanted is None:
            raise UsageError("no session of this workspace: give one, `agent sessions` lists them")
        show(log, view, wanted, Zone(tz), format)
    return 0


def rehearse(script: str, port: int, seen: str | None) -> int:
    """Serve a scripted model until Ctrl-C."""
    from agent.rehearsal.main import main

    return main(Path(script), port, None if seen is None else Path(seen))
