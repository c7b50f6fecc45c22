"""The agent as processes: a rehearsal that serves a script, runs that are killed, stopped and continued in a folder.

What must hold afterwards is `agents_check.wrong`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from postgres_server import new_place, text_of

from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.log.location import resolve
from ledger.log.log import Log

AGENT = [sys.executable, "-P", "-m", "agent"]
PATIENCE_S = 30
"""No run takes so long: one that does hangs, and is a failure."""
MODEL = "rehearsed-1"


class Done(NamedTuple):
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The result of a run with `--output-format json`."""
        return json.loads(self.out.splitlines()[-1])  # type: ignore[no-any-return]


class World:
    """A script that is served, a log, and the runs of the agent with both. Enter it; everything it began ends with it.

    Each run has a process group of its own, as a shell gives it one.
    """

    def __init__(
        self, folder: Path, script: str, *, database: str = "sqlite", speaks: str = "openai-chat", model: str = MODEL
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.speaks, self.model = folder, speaks, model
        self.database = text_of(new_place()) if database == "postgresql" else str(folder / "ledger.db")
        self.workspace = self.work("work")
        self._script, self.seen_file = folder / "script.toml", folder / "seen.jsonl"
        self._script.write_text(script)
        self._processes: list[subprocess.Popen[str]] = []
        self.url = ""
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC",
            "ANTHROPIC_API_KEY": "sk-rehearsal-0001", "OPENAI_API_KEY": "sk-rehearsal-0002",
        }  # fmt: skip

    def work(self, name: str) -> Path:
        """Return a workspace of this name, empty when it is new. Runs use the last one that was asked for."""
        self.workspace = self.folder / name
        self.workspace.mkdir(exist_ok=True)
        return self.workspace

    def __enter__(self) -> World:
        serve = self._start([*AGENT, "rehearse", str(self._script), "--seen", str(self.seen_file)])
        assert serve.stdout is not None
        bases = dict(serve.stdout.readline().split() for _ in range(2))
        self.url = bases[self.speaks]
        return self

    def __exit__(self, *_: object) -> None:
        served = self._processes[0].poll() is None
        for process in self._processes:
            if process.poll() is None:
                _signal_group(process, signal.SIGCONT)
                _signal_group(process, signal.SIGKILL)
            process.wait(PATIENCE_S)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        assert served, "the rehearsal ended by itself"

    def command(self, prompt: str | None, *more: str) -> list[str]:
        """Return the command line of a run; without a prompt it goes on."""
        of_protocol = () if "/" in self.model else ("--protocol", self.speaks)
        return [
            *AGENT, "run", *(["-c"] if prompt is None else [prompt]), "--model", self.model, "--base-url", self.url,
            *of_protocol, "--workspace", str(self.workspace), "--db", self.database,
            *(() if "--retry-base-ms" in more else ("--retry-base-ms", "5")),
            *(() if "--approval-policy" in more else ("-y",)), *more,
        ]  # fmt: skip

    def start(self, prompt: str | None, *more: str, fault: str = "", **options: Any) -> subprocess.Popen[str]:
        """Start a run with an empty standard input."""
        environment = self.environment | ({"TALLYBOOK_FAULT": fault} if fault else {})
        return self._start(self.command(prompt, *more), env=environment, **options)

    def run(self, prompt: str | None, *more: str, fault: str = "") -> Done:
        """Let a run end by itself."""
        return ended(self.start(prompt, *more, fault=fault))

    def to_the_end(self, *more: str, most: int = 5) -> Done:
        """Go on until the answer is there, as somebody does who says `agent run -c` again and again."""
        done = self.run(None, *more)
        while done.code != 0 and most > 0:
            most -= 1
            done = self.run(None, *more)
        return done

    def seen(self) -> list[dict[str, Any]]:
        """Return what the endpoint saw, request by request."""
        return [json.loads(line) for line in self.seen_file.read_text().splitlines()] if self.seen_file.exists() else []

    def wait_for_request(self, count: int = 1) -> None:
        """Wait until the endpoint has seen so many requests."""
        newest = self._processes[-1]

        def there() -> bool:
            assert newest.poll() is None or len(self.seen()) >= count, ended(newest)
            return len(self.seen()) >= count

        wait_until(there, f"{count} requests")

    def lines(self, name: str = "lines.txt") -> list[str]:
        """Return the lines of a file of the workspace, none where it is not there: what commands left."""
        path = self.workspace / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def begun(self) -> bool:
        """Whether the log is there."""
        return "://" in self.database or Path(self.database).exists()

    def open(self) -> Log:
        """Open the log."""
        return Log.open(resolve(self.database))

    def events(self, kind: str = "") -> list[tuple[Event, Any]]:
        """Return the events of a type, or all, each with its body."""
        if not self.begun:
            return []
        with self.open() as log:
            return [
                (event, decode(event.type, event.schema, event.data))
                for event in log.all_events()
                if kind in ("", event.type)
            ]

    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        given: dict[str, Any] = {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
            "env": self.environment, "start_new_session": True, "cwd": self.folder,
        }  # fmt: skip
        process = subprocess.Popen(command, **(given | options))
        self._processes.append(process)
        return process


def ended(process: subprocess.Popen[str]) -> Done:
    """Wait for the end of a process; return what it printed."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out or "", err or "")


def kill(process: subprocess.Popen[str]) -> bool:
    """Kill a process by SIGKILL; return whether it still ran."""
    process.kill()
    process.wait(PATIENCE_S)
    return process.returncode == -signal.SIGKILL


def signalled(process: subprocess.Popen[str], number: signal.Signals) -> Done:
    """Send a signal to the process group, as a terminal does; return how the process ended."""
    _signal_group(process, number)
    return ended(process)


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds; what is waited for in vain fails the test."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """Hold a process by SIGSTOP, and let it go on afterwards."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: _state(process.pid) == "T", "the process to stop")
    yield
    os.kill(process.pid, signal.SIGCONT)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
