"""Filled logs on both databases, their contents and accounts side by side, and processes that work on them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from postgres_server import new_place

from ledger.accounts.catchup import snapshot
from ledger.accounts.schema import PROJECTIONS
from ledger.accounts.store import TABLES
from ledger.events.book import LabelSet
from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened, SourceTruncated
from ledger.evidence.purge import Wish, purge, select
from ledger.ids import new_id
from ledger.invariants import check
from ledger.log.location import Place, PostgresPlace
from ledger.log.log import Log, StreamAppend
from ledger.sources.importer import run_import

TESTS = Path(__file__).parents[1]
SAMPLE = TESTS.parent / "reports" / "sample"
TREE = TESTS / "cases" / "real-claude-code" / "sub-agents"
CHILDREN = TESTS / "keeping" / "children"
DATABASES = ("sqlite", "postgresql")

_PLACED = {
    name: [list(PROJECTIONS.tables[f"gen_{name}"].columns.keys()).index("source_position")]
    for name in ("spans", "sightings")
}
"""Columns that say where in a log something stands: what a copy changes."""
_USED = {"turns": "turn_key", "dimensions": "dimension_id"}
"""Rows that may be left over: what once had a span, and lost it."""


def accounts(log: Log, left_out: Sequence[str] = ()) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of the accounts by table, in order, without where in the log it was read."""
    found = {}
    with snapshot(log) as view:
        for table in TABLES:
            if table in left_out:
                continue
            key = _USED.get(table)
            used = f" WHERE {key} IN (SELECT {key} FROM gen_spans)" if key else ""
            rows = [list(row) for row in view.store.query(f"SELECT * FROM gen_{table}{used}")]
            for row in rows:
                for place in _PLACED.get(table, ()):
                    row[place] = None
            found[table] = sorted((tuple(row) for row in rows), key=repr)
    return found


class Essence(NamedTuple):
    """An event without its position: what a copy must not change."""

    event_id: bytes
    envelope: tuple[Any, ...]


def events(log: Log) -> dict[str, list[Essence]]:
    """Return the events of each stream in order, byte for byte but for their positions."""
    found: dict[str, list[Essence]] = {}
    for event in log.all_events():
        found.setdefault(event.stream_id, []).append(Essence(event.event_id, tuple(event[2:])))
    return found


def texts(log: Log) -> dict[tuple[bytes, bytes], bytes | None]:
    """Return (event id, sha256) -> content of every text that is there."""
    links = {(log.event_at(link.position).event_id, link.sha256) for link in log.blob_links()}
    return {(event_id, sha256): log.blob(sha256) for event_id, sha256 in links}


class Books:
    """Makes logs for a test, and closes them at its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()
        self.count = 0

    def place(self, kind: str) -> Place:
        """Return where a log of a kind of database may lie; on PostgreSQL it is made."""
        self.count += 1
        return self.folder / f"log{self.count}.db" if kind == "sqlite" else new_place()

    def open(self, place: Place, **options: Any) -> Log:
        """Open a log until the end of the test."""
        return self.stack.enter_context(Log.open(place, **options))

    def empty(self, kind: str) -> Log:
        """Make an empty log."""
        return self.open(self.place(kind), create=True)

    def filled(self, kind: str, *homes: Path) -> Log:
        """Make a log of what the clients wrote in some home folders; the bundled sample if none is named."""
        log = self.empty(kind)
        for home in homes or (SAMPLE,):
            run_import(log, ("claude-code", "codex"), home, use_environment=False)
        return log


def argument(place: Place) -> str:
    """Return a place as `--db` takes it."""
    if isinstance(place, PostgresPlace):
        return f"{place.url}{'&' if '?' in place.url else '?'}schema={place.schema}"
    return str(place)


def failing(log: Log) -> list[tuple[str, Any]]:
    """Return the invariants that do not hold of a log, accounts folded anew included."""
    return [(one.name, one.found) for one in check(log, full=True) if not one.ok]


def append(log: Log, stream: str, *numbers: int) -> None:
    """Append small events to a stream, at its head; the first of all opens a file."""
    version = log.stream_version(stream)
    bodies: list[Any] = [SourceTruncated(offset=number, size=number) for number in numbers]
    if not version:
        bodies[0] = SourceOpened("claude-code", f"/{stream}/{numbers[0]}", "/")
    log.append([StreamAppend(stream, version, [NewEvent(body=body, event_id=new_id()) for body in bodies])])


def label(log: Log, session: str, value: str) -> None:
    """File a session of Claude Code under a label."""
    body = LabelSet("claude-code", session, "client", value)
    log.append(
        [StreamAppend(log.book_stream, log.stream_version(log.book_stream), [NewEvent(body=body, event_id=new_id())])]
    )


def purge_all(log: Log, session: str) -> int:
    """Purge the texts of a session; return how many."""
    with snapshot(log) as view:
        row = view.store.query("SELECT client, session_id FROM gen_sessions WHERE session_id LIKE ?", f"{session}%")
        client, session_id = row.fetchone()
        selection = select(log, view, Wish(client, session_id))
    purge(log, Wish(client, session_id), selection)
    return len(selection.sizes)


def failing_session(log: Log) -> str:
    """Return a session with a text."""
    with snapshot(log) as view:
        sql = (
            "SELECT n.session_id FROM gen_spans s JOIN gen_dimensions d ON d.dimension_id = s.dimension_id "
            "JOIN gen_sessions n ON n.session_key = s.session_key WHERE d.status = 'failed'"
        )
        return str(view.store.query(sql).fetchone()[0])


class Child:
    """Starts the command line, or a script of children/, in processes of their own."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Start `ledger WORDS`; it is killed at the end of the test if it still runs."""
        return self._start("-m", "ledger", *words)

    def script(self, name: str, *words: object) -> subprocess.Popen[str]:
        """Start a script of children/."""
        return self._start(CHILDREN / f"{name}.py", *words)

    def _start(self, *words: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", *(str(word) for word in words)]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(child)
        return child

    def run(self, *words: object) -> str:
        """Run `ledger WORDS` to its end and return what it printed. It must succeed."""
        child = self.start(*words)
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        return out

    def end(self) -> None:
        """Kill what still runs."""
        for child in self.started:
            child.kill()
            child.communicate()
