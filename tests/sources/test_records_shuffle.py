"""Made-up homes of opencode and Gemini CLI, laid out and read in any order: the accounts are always the same.

A home is a set of sessions with known truth: sub-agents, forks, forks of forks. Its states are what a client would
have written until some moment; each is imported or not, by one importer or two.
"""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.accounts.catchup import snapshot
from ledger.invariants import check
from ledger.log.log import Log
from ledger.log.sqlite import driver as sqlite3
from ledger.sources.importer import run_import

CLIENTS = ("opencode", "gemini")
NOON_MS = 1_796_000_000_000
SLOW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


class Step(NamedTuple):
    """One write of the client: a message as it stands from then on."""

    session: str
    message: str
    data: dict[str, Any]


class Session(NamedTuple):
    """A session, when it began (ms after noon), and whose sub-agent it is."""

    name: str
    created: int
    parent: str = ""


class Story(NamedTuple):
    """What a client wrote, in order, and who answered what in the end: (session of the root, output tokens)."""

    sessions: list[Session]
    steps: list[Step]
    truth: list[tuple[str, int]]


def message(begin: int, output: int, *, ended: bool) -> dict[str, Any]:
    """Return an assistant message of opencode."""
    tokens = {"input": 10 * output, "output": output, "reasoning": 0, "cache": {"read": 7, "write": 0}}
    nothing = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    times = {"created": NOON_MS + begin} | ({"completed": NOON_MS + begin + 5} if ended else {})
    return {
        "role": "assistant", "agent": "build", "tokens": tokens if ended else nothing, "time": times, "cost": 0.25,
        "path": {"cwd": "/home/dev/p", "root": "/"}, "modelID": "claude-sonnet-4-5", "providerID": "anthropic",
    }  # fmt: skip


def story(seed: int) -> Story:
    """Make up what a client does: it answers, delegates, forks, and is killed now and then. Ids grow with time."""
    rng = random.Random(seed)
    now = 0
    sessions = [Session("ses_0", 0)]
    held: dict[str, list[dict[str, Any]]] = {"ses_0": []}
    steps: list[Step] = []
    truth: list[tuple[str, int]] = []
    for number in range(rng.randint(3, 14)):
        now += rng.choice((0, 1, 40))
        session = rng.choice(sessions)
        what = rng.random()
        if what < 0.2 and held[session.name]:
            fork = Session(f"ses_{len(sessions)}", now + 1_000)
            now += 1_000
            sessions.append(fork)
            held[fork.name] = held[session.name][: rng.randint(1, len(held[session.name]))]
            steps += [Step(fork.name, f"msg_{now:06}_{place}", one) for place, one in enumerate(held[fork.name])]
        elif what < 0.35:
            child = Session(f"ses_{len(sessions)}", now, session.name)
            sessions.append(child)
            held[child.name] = []
        name = f"msg_{now:06}_n{number}"
        steps.append(Step(session.name, name, message(now, number + 1, ended=False)))
        if rng.random() < 0.1:
            continue  # killed
        ended = message(now, number + 1, ended=True)
        steps.append(Step(session.name, name, ended))
        held[session.name].append(ended)
        truth.append((root_of(session, sessions), number + 1))
        now += 6
    return Story(sessions, steps, sorted(truth))


def root_of(session: Session, sessions: list[Session]) -> str:
    by_name = {one.name: one for one in sessions}
    while session.parent:
        session = by_name[session.parent]
    return session.name


class Client:
    """Writes a story into a home: into a database, or into files, or first the one and then the other."""

    def __init__(self, home: Path, told: Story, layout: str) -> None:
        self.told, self.layout, self.written = told, layout, 0
        self.folder = home / ".local" / "share" / "opencode"
        self.folder.mkdir(parents=True)
        self.begun: set[str] = set()
        self.db: Any = None
        if layout == "database":
            self.open()

    def open(self) -> None:
        """Begin the database."""
        self.db = sqlite3.connect(self.folder / "opencode.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=wal")
        self.db.execute("CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, time_created INTEGER)")
        self.db.execute("CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, data TEXT)")
        self.db.execute(
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, "
            "data TEXT)"
        )

    def write(self, until: int) -> None:
        """Write the steps up to one."""
        for number in range(self.written, until):
            if self.layout == "both" and number >= len(self.told.steps) // 2 and self.db is None:
                self.migrate(number)
            self.put(number, self.told.steps[number])
        self.written = max(self.written, until)

    def migrate(self, until: int) -> None:
        """Take what is in the files into a database, as the newer client does, and leave the files."""
        self.open()
        self.begun.clear()
        for number in range(until):
            self.put(number, self.told.steps[number])

    def put(self, number: int, step: Step) -> None:
        session = next(one for one in self.told.sessions if one.name == step.session)
        if self.db is None:
            base = self.folder / "storage"
            info = {"id": session.name, "time": {"created": NOON_MS + session.created}}
            if session.parent:
                info["parentID"] = session.parent
            for path, what in (
                (base / "session" / "x" / f"{session.name}.json", info),
                (base / "message" / session.name / f"{step.message}.json", {"id": step.message, **step.data}),
            ):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(what))
            return
        if session.name not in self.begun:
            self.begun.add(session.name)
            row = (session.name, session.parent or None, NOON_MS + session.created)
            self.db.execute("INSERT INTO session VALUES (?, ?, ?)", row)
        self.db.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data, "
            "time_updated = excluded.time_updated",
            (step.message, step.session, 0, NOON_MS + number, json.dumps(step.data)),
        )


def accounts(log: Log) -> list[tuple[str, int]]:
    """Return (session, output) of every answered request."""
    sql = (
        "SELECT n.session_id, s.output FROM gen_spans s JOIN gen_sessions n ON n.session_key = s.session_key "
        "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id WHERE d.kind = 'model'"
    )
    with snapshot(log) as view:
        return sorted((session, output) for session, output in view.store.query(sql))


def everything(log: Log) -> list[tuple[Any, ...]]:
    """Return all that a span says of tokens, money and its place, without where it was read."""
    sql = (
        "SELECT s.span_id, n.session_id, s.agent_id, d.agent, d.who, d.project, s.occurred_at, s.input_uncached, "
        "s.output, s.cost_nanousd, s.reported_cost_nanousd FROM gen_spans s "
        "JOIN gen_sessions n ON n.session_key = s.session_key "
        "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id ORDER BY s.span_id"
    )
    with snapshot(log) as view:
        return [tuple(row) for row in view.store.query(sql)]


def read(log: Log, home: Path) -> None:
    run_import(log, CLIENTS, home, use_environment=False)


@SLOW
@given(seed=st.integers(0, 10**6), layout=st.sampled_from(["database", "files", "both"]), data=st.data())
def test_any_moments_of_reading_give_the_truth(
    seed: int, layout: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However often it was read while it was written: each answer once, in its root's session (OBS-12, OBS-15)."""
    told = story(seed)
    folder = tmp_path_factory.mktemp("story")
    client = Client(folder / "home", told, layout)
    moments = data.draw(st.sets(st.integers(1, len(told.steps)), max_size=6))
    with Log.open(folder / "read.db", create=True) as log, Log.open(folder / "once.db", create=True) as once:
        for moment in sorted(moments):
            client.write(moment)
            read(log, folder / "home")
        client.write(len(told.steps))
        read(log, folder / "home")
        read(once, folder / "home")
        assert accounts(log) == told.truth, f"seed {seed}"
        assert everything(log) == everything(once), f"seed {seed}"
        assert [one for one in check(log, full=True) if not one.ok] == []


@SLOW
@given(seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False))
def test_any_order_of_folders_gives_the_truth(
    seed: int, order: random.Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The folders of sessions appear one by one, in any order: forks before their parents, children before roots."""
    told = story(seed)
    folder = tmp_path_factory.mktemp("story")
    Client(folder / "whole", told, "files").write(len(told.steps))
    whole = folder / "whole" / ".local" / "share" / "opencode" / "storage"
    names = [path.name for path in sorted((whole / "message").iterdir())]
    order.shuffle(names)
    base = folder / "home" / ".local" / "share" / "opencode" / "storage"
    with Log.open(folder / "ledger.db", create=True) as log:
        for name in names:
            for kind in (f"session/x/{name}.json", f"message/{name}"):
                (base / kind).parent.mkdir(parents=True, exist_ok=True)
                (whole / kind).rename(base / kind)
            read(log, folder / "home")
        assert accounts(log) == told.truth, f"seed {seed}"
        assert [one for one in check(log, full=True) if not one.ok] == []


@pytest.mark.parametrize("layout", ["database", "files"])
def test_two_importers_at_once(layout: str, tmp_path: Path) -> None:
    """Both read the same sources into one log: nothing counts twice, and neither fails (OBS-15)."""
    told = story(11)
    client = Client(tmp_path / "home", told, layout)
    Log.open(tmp_path / "ledger.db", create=True).close()
    errors: list[BaseException] = []

    def importer() -> None:
        try:
            with Log.open(tmp_path / "ledger.db") as log:
                for _ in range(5):
                    read(log, tmp_path / "home")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=importer) for _ in range(2)]
    for thread in threads:
        thread.start()
    if layout == "files":  # a connection is its thread's own
        for moment in range(1, len(told.steps) + 1):
            client.write(moment)
    else:
        client.write(len(told.steps))
    for thread in threads:
        thread.join()
    assert errors == []
    with Log.open(tmp_path / "ledger.db") as log:
        read(log, tmp_path / "home")
        assert accounts(log) == told.truth
        assert [one for one in check(log, full=True) if not one.ok] == []


def gemini_home(home: Path, seed: int) -> list[tuple[str, int]]:
    """Lay out sessions of Gemini CLI, older and newer files, resumes and sub-agents; return the truth."""
    rng = random.Random(seed)
    truth = []
    chats = home / ".gemini" / "tmp" / "p" / "chats"
    chats.mkdir(parents=True)
    for number in range(rng.randint(1, 5)):
        session = f"session{number}"
        messages = [
            gemini_message(f"{session}-{one}", number * 10 + one, number * 100 + one + 1)
            for one in range(rng.randint(1, 5))
        ]
        truth += [(session, one["tokens"]["output"]) for one in messages]
        older = rng.randint(0, len(messages)) if rng.random() < 0.5 else 0
        if older:
            whole = {"sessionId": session, "projectHash": "x", "messages": messages[:older]}
            (chats / f"session-{number}.json").write_text(json.dumps(whole))
        lines: list[dict[str, Any]] = [{"sessionId": session, "projectHash": "x", "kind": "main"}]
        for one in messages:
            lines += [{**one, "tokens": None}, one] if rng.random() < 0.5 else [one]
            if rng.random() < 0.3:
                lines.append({"$set": {"messages": messages[: messages.index(one) + 1]}})
        write_lines(chats / f"session-{number}.jsonl", lines)
        if rng.random() < 0.4:
            agent = gemini_message(f"agent-{number}", number * 10 + 9, number * 100 + 99)
            write_lines(chats / session / f"agent{number}.jsonl",
                        [{"sessionId": f"agent{number}", "projectHash": "x", "kind": "subagent"}, agent])  # fmt: skip
            truth.append((session, number * 100 + 99))
    return sorted(truth)


def gemini_message(name: str, second: int, output: int) -> dict[str, Any]:
    tokens = {"input": 50, "output": output, "cached": 5, "thoughts": 0, "tool": 0, "total": 50 + output}
    at = f"2026-11-30T12:{second // 60:02}:{second % 60:02}.000Z"
    return {"id": name, "timestamp": at, "type": "gemini", "model": "gemini-2.5-pro", "tokens": tokens}


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))


@SLOW
@given(seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False))
def test_any_order_of_files_of_gemini_gives_the_truth(
    seed: int, order: random.Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Files appear one by one, in any order, whole or cut at any byte and then whole."""
    folder = tmp_path_factory.mktemp("gemini")
    truth = gemini_home(folder / "whole", seed)
    paths = sorted(path for path in (folder / "whole").rglob("*.json*") if path.is_file())
    order.shuffle(paths)
    with Log.open(folder / "ledger.db", create=True) as log:
        for path in paths:
            target = folder / "home" / path.relative_to(folder / "whole")
            target.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes()
            if order.random() < 0.5:
                target.write_bytes(content[: order.randint(0, len(content))])
                read(log, folder / "home")
            target.write_bytes(content)
            read(log, folder / "home")
        assert accounts(log) == truth, f"seed {seed}"
        assert [one for one in check(log, full=True) if not one.ok] == []
