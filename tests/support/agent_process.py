"""`agent run` as a process of its own, against a rehearsal or another endpoint, with a log to look into afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from agent.rehearsal.script import Script
from agent.rehearsal.server import Rehearsal
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.invariants import check
from ledger.log.log import Log

AGENT = [sys.executable, "-P", "-m", "agent"]
PRICED = "anthropic/claude-sonnet-4-5"
"""A model whose price is known: a rehearsal can be asked under its name."""


class Ran(NamedTuple):
    """What a process said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The object of `--output-format json`, or the last line of stream-json."""
        assert "Traceback" not in self.err, self.err
        found = json.loads(self.out.splitlines()[-1])
        assert isinstance(found, dict)
        return found


def served(*steps: str, head: str = "") -> Rehearsal:
    """Return a rehearsal of these steps, each the text of a [[step]] table."""
    return Rehearsal(Script.parse(head + "".join(f"\n[[step]]\n{step}\n" for step in steps)))


class Home:
    """A home, a workspace and a log of its own for processes of the agent."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.db = folder / "workspace", folder / "ledger.db"
        self.workspace.mkdir()
        self.program = list(AGENT)
        """What starts `agent`."""
        keep = ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START")
        self.environment = {name: os.environ[name] for name in keep if name in os.environ}
        self.environment |= {"HOME": str(folder), "TZ": "UTC", "NO_PROXY": "127.0.0.1,localhost"}

    def words(self, *words: str) -> list[str]:
        """Return the command line of `agent` with words."""
        return [*self.program, words[0], "--db", str(self.db), *words[1:]]

    def run(self, *words: str, stdin: bytes = b"", before: tuple[str, ...] = (), **environment: str) -> Ran:
        """Run `agent run` with words to its end; `before` is a command that starts it."""
        done = subprocess.run(
            [*before, *self.words("run", *words)], cwd=self.workspace, env=self.environment | environment, input=stdin,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def bodies(self, kind: type | None = None) -> list[Any]:
        """Return the events of all runs of the log, or those of a kind."""
        found = [decode(event.type, event.schema, event.data) for event in self.events()]
        return [one for one in found if kind is None or isinstance(one, kind)]

    def events(self) -> list[Event]:
        """Return all events of runs."""
        with Log.open(self.db) as log:
            return [event for event in log.all_events() if event.stream_id.startswith("run:")]

    def text(self, sha256: str) -> str:
        """Return a stored text."""
        with Log.open(self.db) as log:
            return (log.blob(bytes.fromhex(sha256)) or b"").decode()

    def check(self) -> None:
        """Every invariant holds."""
        with Log.open(self.db) as log:
            assert [one for one in check(log, full=True) if not one.ok] == []


def chat(base_url: str, model: str = "rehearsed-1") -> list[str]:
    """Return the options that name an endpoint of chat completions; retries wait for next to nothing."""
    return ["--model", model, "--base-url", base_url, "--protocol", "openai-chat", "--retry-base-ms", "1"]
