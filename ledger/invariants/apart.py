"""Checking the log in a process of its own while the accounts are checked here: two cores, half the time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from ledger.errors import LedgerError
from ledger.invariants.finding import Check, Progress
from ledger.log.log import Log


class _Line(msgspec.Struct, omit_defaults=True):
    """What the other process says: how far it is, its outcomes at the end, or why there are none."""

    done: int = 0
    total: int = 0
    outcomes: list[Check] | None = None
    error: str = ""


class Apart:
    """A forked process that checks the log by a connection of its own; `join` waits for its outcomes."""

    def __init__(self, log: Log, work: Callable[[Log, Progress], list[Check]]) -> None:
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _serve(log, work, writing)
        os.close(writing)
        self.pipe = os.fdopen(reading, "rb")

    def join(self, progress: Progress | None) -> list[Check]:
        """Return the outcomes. Raises LedgerError with the other's reason where it has none."""
        outcomes: list[Check] | None = None
        reason = "the process that checked the log was ended from outside: run this again"
        for line in self.pipe:
            said = msgspec.json.decode(line, type=_Line)
            if said.outcomes is not None:
                outcomes = said.outcomes
            elif said.error:
                reason = said.error
            elif progress:
                progress(said.done, said.total)
        self.close()
        if outcomes is None:
            raise LedgerError(reason)
        return outcomes

    def close(self) -> None:
        """End the process, if it still runs, and forget it."""
        import signal

        self.pipe.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


def _serve(log: Log, work: Callable[[Log, Progress], list[Check]], pipe: int) -> None:
    """Do the work and leave at once: what was inherited (connections, buffers) is the parent's to close."""

    def say(line: _Line) -> None:
        data = msgspec.json.encode(line) + b"\n"
        while data:
            data = data[os.write(pipe, data) :]

    code = 1
    try:
        with Log.open(log.place, readonly=True) as own:
            outcomes = work(own, lambda done, total: say(_Line(done=done, total=total)))
        say(_Line(outcomes=outcomes))
        code = 0
    except BrokenPipeError:
        pass
    except BaseException as error:
        say(_Line(error=f"the log could not be checked ({type(error).__name__}: {error}): run `ledger doctor`"))
    finally:
        os._exit(code)
