"""`ledger demo`: the agent mends a failing test for real, with a rehearsed model; then what that cost.

Nothing is prepared but what the model says: the agent, its tools, HTTP, the log and every figure are the real ones.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any

from agent.cli.commands import COMMANDS
from agent.cli.running import run_for
from agent.faces.text import TextFace
from agent.rehearsal.script import DEMO, Script
from agent.rehearsal.server import Rehearsal
from ledger.accounts.catchup import snapshot
from ledger.cli.parse import parse
from ledger.invariants import check
from ledger.log.log import Log
from reports.demo import title, yours
from reports.output import put
from reports.periods import Zone
from reports.prices import set_price
from reports.runs import print_cost
from reports.show import show
from reports.text import dim, safe
from reports.verify import as_table

_RATES = {"input": "3", "cache_read": "0.30", "output": "15"}
"""USD per million tokens: what the demo states for models that have no price."""


def demo(script: str | None, home: Path, use_environment: bool) -> int:
    """Play the demo's rehearsal, or another one; return 0 if the task was done and every check holds."""
    played = Script.load(DEMO if script is None else Path(script).expanduser())
    with tempfile.TemporaryDirectory(prefix="tallybook-demo-") as scratch:
        workspace, db = Path(scratch) / "workspace", Path(scratch) / "ledger.db"
        workspace.mkdir()
        played.unpack(workspace)
        with Rehearsal(played) as rehearsal, _surroundings(Path(scratch)):
            result = _run(played, rehearsal, workspace, db)
        _changed(played, workspace)
        good = _looked_into(db, result)
    yours(home, use_environment)
    return 0 if good and not result["is_error"] else 1


class _Face(TextFace):
    """Tells everything on standard output, also where that is no terminal, and keeps the result."""

    def __init__(self) -> None:
        super().__init__()
        self.err = self.out
        self._streams = self._tells = True
        self.kept: dict[str, Any] = {}

    def result(self, result: dict[str, Any]) -> None:
        """Keep the result."""
        self.kept = result
        super().result(result)


def _run(script: Script, rehearsal: Rehearsal, workspace: Path, db: Path) -> dict[str, Any]:
    model, *others = script.models or ("rehearsed-1",)
    title("1. Prices: a rehearsed model has none, so the demo states one", "")
    rates = [f"--{name.replace('_', '-')} {rate}" for name, rate in _RATES.items()]
    with Log.open(db, create=True) as log:
        for name in (model, *others):
            put(f"$ ledger prices set {safe(name)} --provider 127.0.0.1 {' '.join(rates)}")
            set_price(log, name, {"provider": "127.0.0.1", **_RATES})
    words = [script.prompt or "Do what there is to do.", "--model", model, "--protocol", "openai-chat"]
    words += ["--base-url", rehearsal.base_url_of("openai-chat"), "--retry-base-ms", "50", "--approval-policy", "never"]
    words += ["--fallback-model", others[0]] if others else []
    title(
        "2. The agent gets a task; the model is rehearsed, the rest is real",
        f"agent run {shlex.join(words)}",
    )
    parsed = parse(["run", "--workspace", str(workspace), "--db", str(db), *words], COMMANDS)
    assert parsed is not None
    given, face = parsed[1], _Face()
    given.pop("output_format")
    run_for(face, given.pop("prompt"), given.pop("db"), given)
    return face.kept


@contextmanager
def _surroundings(scratch: Path) -> Iterator[None]:
    """Have commands find this very Python under the name `python`, and no proxy stand before the loopback."""
    folder = scratch / "bin"
    folder.mkdir()
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o700)
    before = dict(os.environ)
    os.environ.update(PATH=f"{folder}{os.pathsep}{before.get('PATH', os.defpath)}", NO_PROXY="*", no_proxy="*")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _changed(script: Script, workspace: Path) -> None:
    """Show what is another in the workspace than before, by comparing the files themselves."""
    title("3. What it changed in its workspace", "")
    lines: list[str] = []
    for name, before in script.files.items():
        path = workspace / name
        after = path.read_text("utf-8", "replace") if path.is_file() else ""
        lines += unified_diff(
            before.splitlines(), after.splitlines(), f"before/{name}", f"{workspace.name}/{name}", "", "", 1, ""
        )
    put("\n".join(map(safe, lines)) if lines else dim("nothing"))


def _looked_into(db: Path, result: dict[str, Any]) -> bool:
    """Show the session's report, its tree, and that every invariant holds; return whether they do."""
    session = result["session"]
    with Log.open(db) as log:
        with snapshot(log) as view:
            title("4. What it cost, and what for: failed and cut attempts have rows too", f"agent cost {session[:13]}")
            print_cost(view, session, "table")
            title("5. Who did what, when", f"ledger show {session[:13]}")
            show(log, view, session, Zone("UTC"), "table")
        title(
            "6. Verify: requests end, sums hold, and folding again gives the same",
            "ledger verify --full",
        )
        checks = check(log, full=True)
        put(as_table(checks))
    return all(one.ok for one in checks)
