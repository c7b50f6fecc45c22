"""A log with several streams, a text and a seal, to be tampered with by the bare driver."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.events.envelope import Event, NewEvent
from ledger.events.sources import SourceOpened, SourceTruncated
from ledger.evidence.kept import Kept, Outcome, as_file, hold_against, read_file
from ledger.evidence.seals import make_seal
from ledger.ids import new_id
from ledger.invariants import check
from ledger.log import sqlite
from ledger.log.hashing import event_hash
from ledger.log.log import Log, StreamAppend
from ledger.sources.importer import run_import

SAMPLE = Path(__file__).parents[2] / "reports" / "sample"
CLIENTS = ("claude-code", "codex")


class Sealed:
    """A log, the file that keeps its seal, and ways to tamper with it as whoever owns the machine can."""

    def __init__(self, path: Path, kept: Path) -> None:
        self.path, self.kept = path, kept
        self.connection = sqlite.driver.connect(str(path), isolation_level=None)
        for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            self.connection.execute(f"DROP TRIGGER {name}")

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return [tuple(row) for row in self.connection.execute(sql, parameters)]

    def spoil(self, sql: str, *parameters: Any) -> None:
        """Change something; that it does is checked."""
        before = self.connection.total_changes
        self.connection.execute(sql, parameters)
        assert self.connection.total_changes > before

    def events(self, stream: str) -> list[Event]:
        """Return the events of a stream as they are stored now."""
        return [Event(*row) for row in self.rows("SELECT * FROM events WHERE stream_id = ? ORDER BY version", stream)]

    def rehash(self, stream: str) -> None:
        """Make a stream's chain whole again, as somebody who knows the recipe can."""
        link: bytes | None = None
        for version, event in enumerate(self.events(stream), 1):
            event = event._replace(version=version, prev_hash=link)
            link = event_hash(*event[1:14])
            self.spoil("UPDATE events SET version = ?, prev_hash = ?, hash = ? WHERE position = ?",
                       version, event.prev_hash, link, event.position)  # fmt: skip

    def close_gaps(self) -> None:
        """Number positions anew, so that none is missing."""
        for place, (position,) in enumerate(self.rows("SELECT position FROM events ORDER BY position"), 1):
            if place != position:
                self.spoil("UPDATE events SET position = ? WHERE position = ?", place, position)

    def forget_accounts(self) -> None:
        """Remove the accounts, so that the next command folds them from what the log says now."""
        for file in self.path.parent.glob(f"{self.path.name}.accounts*"):
            file.unlink()

    @property
    def book(self) -> str:
        """The stream of the log's book."""
        return self.seal.book.stream

    @property
    def seal(self) -> Kept:
        """The kept seal."""
        return read_file(self.kept)

    def held(self) -> Outcome:
        """Return what comes of holding the log against the kept seal."""
        with Log.open(self.path) as log:
            return hold_against(log, self.seal)

    def plainly_failing(self) -> set[str]:
        """Return the checks that fail without the kept seal."""
        with Log.open(self.path) as log:
            return {one.name for one in check(log, full=True) if not one.ok}


Append = Callable[..., None]


def append(log: Log, stream: str, *numbers: int) -> None:
    """Append small events to a stream; the first opens it."""
    version = log.stream_version(stream)
    bodies: list[Any] = [SourceTruncated(offset=one, size=2 * one) for one in numbers]
    if not version:
        bodies[0] = SourceOpened("claude-code", f"/{stream}", "/")
    log.append([StreamAppend(stream, version, [NewEvent(body=body, event_id=new_id()) for body in bodies])])


def grow(folder: Path, session: str, *numbers: int) -> None:
    """Write responses into a session's file below a home folder."""
    file = folder / ".claude" / "projects" / "x" / f"{session}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as growing:
        for one in numbers:
            message = {"id": f"msg{one}", "model": "claude-opus-4-5-20251101", "stop_reason": "end_turn",
                       "usage": {"input_tokens": one, "output_tokens": 100}}  # fmt: skip
            growing.write(json.dumps({
                "type": "assistant", "uuid": f"u{one}", "sessionId": session, "requestId": f"req{one}",
                "timestamp": f"2026-11-10T12:00:{one:02}Z", "message": message}) + "\n")  # fmt: skip


@pytest.fixture(scope="session")
def sealed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log that was sealed twice, the second time with one changed stream only, and the second seal."""
    folder = tmp_path_factory.mktemp("sealed")
    with Log.create(folder / "ledger.db") as log:
        run_import(log, CLIENTS, SAMPLE, use_environment=False)
        for stretch in ((1, 2), (3,), (4,), (5,)):
            grow(folder / "home", "5e551011-grows", *stretch)
            run_import(log, CLIENTS, folder / "home", use_environment=False)
        make_seal(log)
        grow(folder / "home", "5e551012-late", 6)
        run_import(log, CLIENTS, folder / "home", use_environment=False)
        (folder / "kept.json").write_bytes(as_file(make_seal(log)))
        assert [one.name for one in check(log, full=True) if not one.ok] == []
    return folder


@pytest.fixture
def sealed(sealed_once: Path, tmp_path: Path) -> Iterator[Sealed]:
    """A copy of that log with its kept seal."""
    for name in ("ledger.db", "kept.json"):
        shutil.copy(sealed_once / name, tmp_path / name)
    made = Sealed(tmp_path / "ledger.db", tmp_path / "kept.json")
    yield made
    made.connection.close()


@pytest.fixture
def growing(sealed: Sealed) -> str:
    """The stream of the file that was read in four stretches: five events."""
    return next(stream for stream, version, _ in sealed.seal.heads if version == 5 and stream.startswith("source:"))


@pytest.fixture
def add() -> Append:
    """A function that appends small events: add(log, stream, *numbers)."""
    return append
