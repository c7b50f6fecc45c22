"""Fixtures of the log's tests: the backends that keep its contract, events to append, and child processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from postgres_server import new_place, text_of

from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceTruncated
from ledger.ids import new_id
from ledger.log.hashing import broken_links
from ledger.log.log import Log

CHILDREN = Path(__file__).parent / "children"


class Backend(Protocol):
    """One log on one kind of database. Another kind is one more entry of BACKENDS."""

    place: str
    """Where the log is, as `--db` takes it: a path or a URL."""

    def open(self) -> Log:
        """Open the log once more, by a connection of its own."""
        ...


class SqliteBackend:
    """A log in a file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.place = str(folder / "contract.db")
        Log.create(Path(self.place)).close()

    def open(self) -> Log:
        """Open the log once more."""
        return Log.open(Path(self.place))


class PostgresqlBackend:
    """A log in a schema of its own."""

    def __init__(self, folder: Path) -> None:
        self.where = new_place()
        self.place = text_of(self.where)

    def open(self) -> Log:
        """Open the log once more."""
        return Log.open(self.where)


BACKENDS: dict[str, Callable[[Path], Backend]] = {"sqlite": SqliteBackend, "postgresql": PostgresqlBackend}


@pytest.fixture(params=sorted(BACKENDS))
def new_backend(request: pytest.FixtureRequest) -> Callable[[Path], Backend]:
    """A function that makes an empty log of each kind of database: new_backend(folder)."""
    return BACKENDS[request.param]


@pytest.fixture
def backend(new_backend: Callable[[Path], Backend], tmp_path: Path) -> Backend:
    """An empty log of each kind of database: what is tested on it is the contract."""
    return new_backend(tmp_path)


@pytest.fixture
def book(backend: Backend) -> Iterator[Log]:
    """The backend's log, open."""
    with backend.open() as opened:
        yield opened


def make_event(number: int = 1, **envelope: Any) -> NewEvent:
    """Return a small event whose contents are known by its number."""
    envelope.setdefault("event_id", new_id())
    return NewEvent(body=SourceTruncated(offset=number, size=2 * number), **envelope)


@pytest.fixture
def event() -> Callable[..., NewEvent]:
    """A function that makes a small event: event(number, **envelope)."""
    return make_event


@pytest.fixture
def assert_sound() -> Callable[[Log], None]:
    """A function that checks what holds of every log: positions without gaps, versions, chains."""

    def check(opened: Log) -> None:
        events = list(opened.all_events())
        assert [one.position for one in events] == list(range(1, len(events) + 1))
        assert list(broken_links(events, {})) == []
        assert len({one.event_id for one in events}) == len(events)
        assert opened.head_position() == len(events)

    return check


class Child:
    """Starts Python children: `-I`, so that no folder and no variable of the test reaches them."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def command(self, script: str, *arguments: object) -> list[str]:
        """Return the command line of a script of tests/log/children."""
        return [sys.executable, "-I", str(CHILDREN / f"{script}.py"), *(str(one) for one in arguments)]

    def start(self, script: str, *arguments: object) -> subprocess.Popen[str]:
        """Start a script; it is killed at the end of the test if it still runs."""
        child = subprocess.Popen(
            self.command(script, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.started.append(child)
        return child

    def run(self, script: str, *arguments: object, given: str = "") -> str:
        """Run a script to its end and return what it printed. It must succeed."""
        command = self.command(script, *arguments)
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        """Kill what still runs."""
        for child in self.started:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()


@pytest.fixture
def child() -> Iterator[Child]:
    """Child processes that end with the test."""
    children = Child()
    yield children
    children.end()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users reach too, which pytest's own folders are not."""
    with tempfile.TemporaryDirectory(prefix="tallybook-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        inner = folder / "books"
        inner.mkdir(0o755)
        yield inner
        inner.chmod(0o755)
