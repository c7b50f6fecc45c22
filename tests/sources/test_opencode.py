"""opencode's database and its older files: which message counts, once, and what becomes of what cannot be read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.accounts.catchup import snapshot
from ledger.invariants import check
from ledger.log.log import Log
from ledger.log.sqlite import driver as sqlite3
from ledger.sources import discover, foreign, importer, reading
from ledger.sources.importer import SourceReport, run_import

NOON_MS = 1_796_000_000_000
TABLES = (
    "CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text, version text, time_created integer)",
    "CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, "
    "time_updated integer NOT NULL, data text NOT NULL)",
    "CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, data text NOT NULL)",
)


class Database:
    """An opencode.db in a home, with a client that has it open."""

    def __init__(self, home: Path, *, wal: bool = True) -> None:
        self.folder = home / ".local" / "share" / "opencode"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "opencode.db"
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute(f"PRAGMA journal_mode={'wal' if wal else 'delete'}")
        for table in TABLES:
            self.db.execute(table)

    def session(self, name: str, created: int = 0, parent: str | None = None, version: str = "1.18.33") -> None:
        self.db.execute(
            "INSERT INTO session VALUES (?, ?, '/home/dev/p', ?, ?)", (name, parent, version, NOON_MS + created)
        )

    def message(self, name: str, session: str, data: dict[str, Any], updated: int = 0, *parts: dict[str, Any]) -> None:
        created = data.get("time", {}).get("created", NOON_MS)
        self.db.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data, "
            "time_updated = excluded.time_updated",
            (name, session, created, NOON_MS + updated, json.dumps(data)),
        )
        for number, part in enumerate(parts):
            row = (f"prt_{name}_{number}", name, session, json.dumps(part))
            self.db.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        self.db.close()


def answer(begin: int, output: int = 100, **changed: Any) -> dict[str, Any]:
    """Return an assistant message that began so many milliseconds after noon and ended 50 later."""
    return {
        "role": "assistant", "agent": "build", "path": {"cwd": "/home/dev/p", "root": "/home/dev/p"}, "cost": 0.01,
        "tokens": {"input": 1000, "output": output, "reasoning": 0, "cache": {"read": 500, "write": 0}},
        "modelID": "claude-sonnet-4-5", "providerID": "anthropic",
        "time": {"created": NOON_MS + begin, "completed": NOON_MS + begin + 50}, "finish": "stop", **changed,
    }  # fmt: skip


def running(begin: int) -> dict[str, Any]:
    """Return an assistant message whose request is still running."""
    nothing = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    return answer(begin, tokens=nothing, time={"created": NOON_MS + begin}, cost=0, finish=None)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A new log, checked at the end."""
    with Log.open(tmp_path / "ledger.db", create=True) as made:
        yield made
        assert [one for one in check(made, full=True) if not one.ok] == []


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what was just written for written long ago."""
    monkeypatch.setattr(reading, "SETTLED_NS", 0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def read(log: Log, home: Path) -> SourceReport:
    return run_import(log, ("opencode",), home, use_environment=False)[0]


def spans(log: Log) -> list[tuple[Any, ...]]:
    """Return (message, session, status, output) of every request."""
    sql = (
        "SELECT s.span_id, n.session_id, d.status, s.output FROM gen_spans s JOIN gen_dimensions d ON d.dimension_id = "
        "s.dimension_id JOIN gen_sessions n ON n.session_key = s.session_key WHERE d.kind = 'model' ORDER BY 1"
    )
    with snapshot(log) as view:
        return sorted((span_id.split(":")[2], *rest) for span_id, *rest in view.store.query(sql))


def events(log: Log) -> list[str]:
    return [event.type for event in log.all_events()]


# what is new


def test_a_message_in_flight_is_no_response_until_it_ended(log: Log, home: Path) -> None:
    """Its row is there with zeros while its request runs; what it becomes replaces that and counts once (OBS-10)."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", running(1))
    assert (read(log, home).new, spans(log)) == (0, [])
    db.message("m1", "s", answer(1), 60)
    report = read(log, home)
    assert (report.new, report.lines) == (1, 1)
    assert spans(log) == [("m1", "s", "succeeded", 100)]


def test_a_row_that_changed_replaces_and_never_adds(log: Log, home: Path) -> None:
    """A message whose usage grew counts with the fullest; one that is written again unchanged is not read (OBS-12)."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", answer(1, 100), 1)
    read(log, home)
    db.message("m1", "s", answer(1, 250), 2)
    assert read(log, home).new == 0
    assert spans(log) == [("m1", "s", "succeeded", 250)]
    db.message("m1", "s", answer(1, 250), 2)
    db.message("m2", "s", answer(9, 7), 9)
    report = read(log, home)
    assert (report.lines, report.new) == (1, 1)


def test_a_row_committed_late_is_found(log: Log, home: Path) -> None:
    """A row of another process may appear after a newer one, with an older time; so may one of a clock set back."""
    db = Database(home)
    db.session("s")
    db.message("m2", "s", answer(500), 900_000)
    read(log, home)
    db.message("m1", "s", answer(100), 899_000)
    db.message("m0", "s", answer(50), 10)
    assert read(log, home).new == 2
    db.db.execute("UPDATE message SET data = ?, time_updated = ? WHERE id = 'm1'",
                  (json.dumps(answer(100, 200)), NOON_MS + 899_500))  # fmt: skip
    assert read(log, home).lines == 1
    assert [output for *_, output in spans(log)] == [100, 200, 100]


def test_a_message_that_ran_for_long_is_read_when_it_ends(log: Log, home: Path) -> None:
    """One that had not ended is looked at again whatever the clock said meanwhile."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", running(1), 1)
    db.message("m2", "s", answer(2), 10_000_000)
    read(log, home)
    db.message("m1", "s", answer(1), 2)
    assert read(log, home).new == 1


@pytest.mark.usefixtures("settled")
def test_nothing_new_is_not_opened(log: Log, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that stands as it stood, with its -wal file, is not opened (OBS-15)."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", answer(1))
    read(log, home)
    before = events(log)
    monkeypatch.setattr(foreign, "reading", None)
    assert (read(log, home).lines, events(log)) == (0, before)


def test_a_change_elsewhere_in_the_database_reads_no_message(log: Log, home: Path) -> None:
    """The file changed, but no message did: no record is looked into."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", answer(1))
    read(log, home)
    db.session("other")
    report = read(log, home)
    assert (report.lines, report.usage_rows, report.new) == (0, 0, 0)


def test_a_vacuum_changes_nothing(log: Log, home: Path) -> None:
    """Row numbers may change when the client tidies up: nothing is lost and nothing counted twice."""
    db = Database(home)
    db.session("s")
    for number in range(9):
        db.message(f"m{number}", "s", answer(number), number)
    db.db.execute("DELETE FROM message WHERE id < 'm4'")
    read(log, home)
    db.db.execute("VACUUM")
    db.message("m9", "s", answer(9), 9)
    read(log, home)
    assert [name for name, *_ in spans(log)] == ["m4", "m5", "m6", "m7", "m8", "m9"]


def test_many_messages_are_several_events(log: Log, home: Path) -> None:
    """More than fits one event; only the last says that all was read."""
    db = Database(home)
    db.session("s")
    db.db.execute("BEGIN")
    for number in range(1000):
        db.message(f"m{number:04}", "s", answer(number), number)
    db.db.execute("COMMIT")
    assert read(log, home).new == 1000
    assert events(log).count("records.observed") == 3


def test_an_import_that_was_stopped_goes_on(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was appended before it died is kept, the rest is read by the next one, and nothing counts twice."""
    db = Database(home)
    db.session("s")
    for number in range(1000):
        db.message(f"m{number:04}", "s", answer(number), number)
    with Log.open(tmp_path / "ledger.db", create=True) as log:
        monkeypatch.setattr(importer, "FIRST_BATCH_EVENTS", 2)

        def stop(self: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("ledger.sources.opencode_records._Database.check", counted_calls(2, stop))
            read(log, home)
        assert 0 < len(spans(log)) < 1000
        read(log, home)
        assert len(spans(log)) == 1000
        assert [one for one in check(log, full=True) if not one.ok] == []


def counted_calls(count: int, then: Any) -> Any:
    calls = []

    def check_(self: object) -> None:
        calls.append(1)
        if len(calls) >= count:
            then(self)

    return check_


# forks and sub-agents


def fork(db: Database, session: str, copies: list[tuple[str, dict[str, Any]]], created: int) -> None:
    db.session(session, created)
    for name, data in copies:
        db.message(name, session, data, created, text("what was said"))


@pytest.mark.parametrize("ids", [("m1", "m9"), ("m9", "m1")], ids=["id grows", "id wrapped"])
def test_a_copy_counts_for_the_session_it_came_from(log: Log, home: Path, ids: tuple[str, str]) -> None:
    """A message that is older than its session, with the times and tokens of another, is that other (OBS-12)."""
    db = Database(home)
    db.session("parent")
    db.message(ids[0], "parent", answer(10), 10, text("what was said"))
    fork(db, "child", [(ids[1], answer(10))], 1000)
    db.message("m5", "child", answer(1100, 5), 1100)
    report = read(log, home)
    assert (report.new, report.duplicates["copied_session"]) == (2, 1)
    assert sorted(spans(log)) == sorted([(ids[0], "parent", "succeeded", 100), ("m5", "child", "succeeded", 5)])


def test_a_copy_without_its_original_counts_once(log: Log, home: Path) -> None:
    """Where the original was deleted before it was read, of two copies one counts; found later, it is the owner."""
    db = Database(home)
    fork(db, "child", [("m2", answer(10))], 1000)
    fork(db, "grandchild", [("m3", answer(10))], 2000)
    read(log, home)
    assert spans(log) == [("m2", "child", "succeeded", 100)]
    db.session("parent")
    db.message("m1", "parent", answer(10), 10, text("what was said"))
    read(log, home)
    assert spans(log) == [("m1", "parent", "succeeded", 100)]


def test_a_copy_made_while_the_response_ran_is_what_it_became(log: Log, home: Path) -> None:
    """A fork may copy a message of several requests that has not ended: it counts with the one that did."""
    db = Database(home)
    begun = answer(10, 40, time={"created": NOON_MS + 10}, finish=None)
    db.session("parent")
    db.message("m1", "parent", begun, 10)
    fork(db, "child", [("m2", begun)], 20)
    read(log, home)
    db.message("m1", "parent", answer(10, 100), 60)
    read(log, home)
    assert spans(log) == [("m1", "parent", "succeeded", 100)]


def test_two_sessions_with_equal_usage_are_two(log: Log, home: Path) -> None:
    """Equal tokens at one instant are two responses where each was born in its session and said something else."""
    db = Database(home)
    for name in ("a", "b"):
        db.session(name)
        db.message(f"m{name}", name, answer(10), 10, text(f"said by {name}"))
    assert (read(log, home).new, len(spans(log))) == (2, 2)


def test_two_sessions_with_equal_usage_and_no_content_are_two(log: Log, home: Path) -> None:
    """The same where nothing of what was said is kept."""
    db = Database(home)
    for name in ("a", "b"):
        db.session(name)
        db.message(f"m{name}", name, answer(10), 10)
    assert len(spans(log)) == 0
    assert read(log, home).new == 2


def test_where_no_session_says_when_it_began_content_decides(log: Log, home: Path) -> None:
    """Of a database without the times of sessions: the same instant, tokens and words are a copy."""
    db = Database(home)
    db.db.execute("ALTER TABLE session DROP COLUMN time_created")
    db.db.executemany("INSERT INTO session (id) VALUES (?)", [("a",), ("b",), ("c",)])
    db.message("m1", "a", answer(10), 10, text("one"))
    db.message("m2", "b", answer(10), 10, text("one"))
    db.message("m3", "c", answer(10), 10, text("two"))
    assert read(log, home).new == 2
    assert [name for name, *_ in spans(log)] == ["m1", "m3"]


def test_two_messages_of_one_session_are_never_copies(log: Log, home: Path) -> None:
    """Equal in everything but their ids, they are two requests."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", answer(10), 10, text("same"))
    db.message("m2", "s", answer(10), 10, text("same"))
    assert read(log, home).new == 2


def test_a_sub_agent_is_booked_under_its_root(log: Log, home: Path) -> None:
    """A session with parent_id is a sub-agent's, however deep, and in whatever order they are read (OBS-23)."""
    db = Database(home)
    db.session("deep", 3, "child")
    db.message("m3", "deep", answer(30, agent="explore"), 30)
    read(log, home)
    assert spans(log) == [("m3", "child", "succeeded", 100)]
    db.session("child", 2, "root")
    db.message("m2", "child", answer(20, agent="general"), 20)
    db.session("root", 1)
    db.message("m1", "root", answer(10), 10)
    read(log, home)
    assert [(name, session) for name, session, *_ in spans(log)] == [("m1", "root"), ("m2", "root"), ("m3", "root")]
    with snapshot(log) as view:
        sql = "SELECT DISTINCT d.agent FROM gen_spans s JOIN gen_dimensions d ON d.dimension_id = s.dimension_id"
        assert sorted(name for (name,) in view.store.query(sql)) == ["", "explore", "general"]


# what a message means


def test_each_request_of_a_message_counts(log: Log, home: Path) -> None:
    """A message of several steps has the tokens of the last, and the parts have those of each (OBS-12)."""
    db = Database(home)
    db.session("s")
    first, second = answer(1, 10), answer(1, 20)
    steps = [{"type": "step-finish", "tokens": one["tokens"], "cost": 0.01} for one in (first, second)]
    begun = {**first, "time": {"created": NOON_MS + 1}}
    db.message("m1", "s", begun, 1, steps[0])
    read(log, home)
    assert spans(log) == [("m1", "s", "succeeded", 10)]
    db.message("m1", "s", {**second, "cost": 0.02}, 2, *steps)
    read(log, home)
    assert [(name, output) for name, _, _, output in spans(log)] == [("m1", 10), ("m1.1", 20)]
    with snapshot(log) as view:
        assert list(view.store.query("SELECT sum(reported_cost_nanousd) FROM gen_spans")) == [(20_000_000,)]


def test_an_answer_without_usage_is_a_request_of_unknown_usage(log: Log, home: Path) -> None:
    """An API that tells no usage leaves zeros in a message that ended: they are unknown, not nothing (OBS-10)."""
    db = Database(home)
    db.session("s")
    nothing = running(1)["tokens"]
    db.message("m1", "s", answer(1, tokens=nothing, cost=0), 1)
    assert read(log, home).new == 1
    assert spans(log) == [("m1", "s", "succeeded", None)]


def test_a_zero_cost_is_no_figure(log: Log, home: Path) -> None:
    """The client writes 0 where it knows no price, and on a subscription."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", answer(1, cost=0), 1)
    read(log, home)
    with snapshot(log) as view:
        assert list(view.store.query("SELECT reported_cost_nanousd FROM gen_spans")) == [(None,)]


# the older files


def older(home: Path, session: str, created: int = 0, parent: str | None = None) -> Path:
    """Lay out a session of the older files; return its folder of messages."""
    base = home / ".local" / "share" / "opencode" / "storage"
    info: dict[str, Any] = {"id": session, "version": "1.1.53", "directory": "/home/dev/p"}
    info |= {"time": {"created": NOON_MS + created}} | ({"parentID": parent} if parent else {})
    (base / "session" / "project").mkdir(parents=True, exist_ok=True)
    (base / "session" / "project" / f"{session}.json").write_text(json.dumps(info))
    folder = base / "message" / session
    folder.mkdir(parents=True)
    return folder


def put(folder: Path, name: str, data: dict[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"id": name, "sessionID": folder.name, **data}))


def test_what_was_just_written_is_looked_into_again(log: Log, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit stands in the -wal file before a reader sees it: until some time has gone by, the next import looks
    again. It appends nothing while nothing is new, and once when it can rely on what it sees (OBS-15)."""
    db = Database(home)
    db.session("s")
    db.message("m1", "s", answer(1))
    read(log, home)
    before = events(log)
    read(log, home)
    assert events(log) == before
    monkeypatch.setattr(reading, "SETTLED_NS", 0)
    for _ in range(2):
        assert read(log, home).lines == 0
        assert events(log) == [*before, "records.observed"]


@pytest.mark.usefixtures("settled")
def test_the_older_files_are_read_as_they_grow(log: Log, home: Path) -> None:
    """A file a message: new ones, and one that is written again when its request ended (OBS-15)."""
    folder = older(home, "s")
    put(folder, "msg_1", answer(1))
    put(folder, "msg_2", running(2))
    assert read(log, home).new == 1
    put(folder, "msg_2", answer(2))
    put(folder, "msg_3", answer(3))
    report = read(log, home)
    assert (report.new, report.lines) == (2, 2)
    before = events(log)
    assert (read(log, home).lines, events(log)) == (0, before)


def test_a_message_in_both_places_counts_once(log: Log, home: Path) -> None:
    """The newer client took the older files into its database and left them there (OBS-12)."""
    put(older(home, "s"), "msg_1", answer(1))
    db = Database(home)
    db.session("s")
    db.message("msg_1", "s", answer(1), 1)
    report = read(log, home)
    assert (report.new, report.duplicates["same_response"]) == (1, 1)
    assert spans(log) == [("msg_1", "s", "succeeded", 100)]


def test_a_fork_of_the_older_files(log: Log, home: Path) -> None:
    """A copy is older than its session here too."""
    put(older(home, "child", 1000), "msg_2", answer(10))
    put(older(home, "parent"), "msg_1", answer(10))
    assert read(log, home).new == 1
    assert spans(log) == [("msg_1", "parent", "succeeded", 100)]


def test_a_half_written_session_waits(log: Log, home: Path) -> None:
    """A client writes a session's file anew with each message; while it is half-written, none knows what is a copy."""
    put(older(home, "parent"), "msg_1", answer(10))
    put(older(home, "fork", 1000), "msg_2", answer(10))
    told = home / ".local" / "share" / "opencode" / "storage" / "session" / "project" / "fork.json"
    whole = told.read_text()
    told.write_text("")
    assert read(log, home).new == 1
    assert spans(log) == [("msg_1", "parent", "succeeded", 100)]
    told.write_text(whole)
    assert read(log, home).lines == 1
    assert spans(log) == [("msg_1", "parent", "succeeded", 100)]


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("broken", ["", "[1]", None])
def test_a_session_that_becomes_known_later(log: Log, home: Path, broken: str | None) -> None:
    """A session without its file, or with a broken one, is read as it is; when it becomes known, it is read again."""
    put(older(home, "parent"), "msg_1", answer(10))
    put(older(home, "fork", 1000), "msg_2", answer(10))
    told = home / ".local" / "share" / "opencode" / "storage" / "session" / "project" / "fork.json"
    whole = told.read_text()
    if broken is None:
        told.unlink()
    else:
        told.write_text(broken)
    read(log, home)
    assert len(spans(log)) == 2, "nothing tells that one is a copy"
    told.write_text(whole)
    read(log, home)
    assert spans(log) == [("msg_1", "parent", "succeeded", 100)]


# where it lies


def test_where_the_data_folder_is(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENCODE_DATA_DIR, else XDG_DATA_HOME, else ~/.local/share; every opencode*.db; --home knows neither."""
    Database(home).close()
    (tmp_path / "xdg" / "opencode").mkdir(parents=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "opencode-dev.db").write_bytes(b"")
    (tmp_path / "own" / "other.db").write_bytes(b"")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert discover.roots("opencode", home, use_environment=True) == [tmp_path / "xdg" / "opencode"]
    monkeypatch.setenv("OPENCODE_DATA_DIR", f"{tmp_path / 'own'}, {tmp_path / 'none'}")
    assert discover.roots("opencode", home, use_environment=True) == [tmp_path / "own"]
    assert [one.path.name for one in discover.files("opencode", tmp_path / "own", [])] == ["opencode-dev.db"]
    assert discover.roots("opencode", home, use_environment=False) == [home / ".local" / "share" / "opencode"]


# reading beside the client


@pytest.mark.parametrize("state", ["running", "killed", "copied without -shm", "closed", "rollback journal"])
def test_nothing_is_made_beside_the_database(log: Log, tmp_path: Path, state: str) -> None:
    """Whether its client runs, was killed or ended: all that was committed is read, and no file is made or removed."""
    home = tmp_path / "home"
    db = Database(
        tmp_path / "client" if state in ("killed", "copied without -shm") else home,
        wal=state[0] != "r" or state == "running",
    )
    db.session("s")
    db.message("m1", "s", answer(1))
    if state in ("killed", "copied without -shm"):
        shutil.copytree(tmp_path / "client", home)
        if state != "killed":
            (home / ".local/share/opencode/opencode.db-shm").unlink()
    if state == "closed":
        db.close()
    folder = home / ".local" / "share" / "opencode"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
    names = sorted(path.name for path in folder.iterdir())
    assert read(log, home).new == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")} == before
    assert sorted(path.name for path in folder.iterdir()) == names


def test_the_client_writes_while_it_is_read(log: Log, home: Path) -> None:
    """A reader sees one moment of the database, never holds up its client, and finds the rest next time."""
    db = Database(home)
    db.session("s")
    for number in range(500):
        db.message(f"m{number:03}", "s", answer(number), number)
    original = db.db
    seen = []

    with foreign.reading(db.path) as opened:
        rows = opened.connection.execute("SELECT id FROM message")
        seen.append(rows.fetchone())
        original.execute("PRAGMA busy_timeout=100")
        db.message("m999", "s", answer(999), 999)
        seen += rows.fetchall()
        assert opened.unchanged()
    assert len(seen) == 500
    assert read(log, home).new == 501


def test_a_locked_database_is_a_problem_and_not_the_end(log: Log, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, other sources are read, and the next import reads it."""
    monkeypatch.setattr(foreign, "BUSY_TIMEOUT_MS", 10)
    db = Database(home, wal=False)
    db.session("s")
    db.message("m1", "s", answer(1))
    put(older(home, "t"), "msg_1", answer(5))
    db.db.execute("BEGIN EXCLUSIVE")
    report = read(log, home)
    assert report.new == 1
    assert report.problems == [f"{db.path}: cannot be read (database is locked): it was left out"]
    db.db.execute("COMMIT")
    report = read(log, home)
    assert (report.new, report.problems) == (1, [])


# what cannot be read


@pytest.mark.parametrize("content", [b"", b"not a database at all", b"SQLite format 3\0" + bytes(2000)])
def test_what_is_no_database_is_a_problem(log: Log, home: Path, content: bytes) -> None:
    """Damaged, foreign or empty: it is named in one line, again in every import."""
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.db").write_bytes(content)
    for _ in range(2):
        report = read(log, home)
        assert len(report.problems) == 1
        assert str(folder / "opencode.db") in report.problems[0]
    assert events(log) == []


def test_a_database_cut_short_is_a_problem(log: Log, home: Path) -> None:
    """What came before the damage may count; that there was damage is said."""
    db = Database(home, wal=False)
    db.session("s")
    for number in range(300):
        db.message(f"m{number:03}", "s", answer(number), number)
    db.close()
    whole = db.path.read_bytes()
    db.path.write_bytes(whole[: len(whole) // 2 // 4096 * 4096])
    report = read(log, home)
    assert len(report.problems) == 1
    db.path.write_bytes(whole)
    read(log, home)
    assert len(spans(log)) == 300


def test_a_database_of_another_layout_is_a_problem(log: Log, home: Path) -> None:
    """A table of messages without the columns that are needed."""
    db = Database(home)
    db.db.execute("ALTER TABLE message DROP COLUMN data")
    report = read(log, home)
    assert ["has no table of messages" in problem for problem in report.problems] == [True]


def test_missing_tables_and_columns_are_done_without(log: Log, home: Path) -> None:
    """Neither parts nor sessions, and no times in the rows: the messages count all the same."""
    db = Database(home)
    for table in ("part", "session"):
        db.db.execute(f"DROP TABLE {table}")
    db.message("m1", "s", answer(1))
    db.db.execute("ALTER TABLE message DROP COLUMN time_updated")
    assert read(log, home).new == 1
    db.db.execute("INSERT INTO message VALUES ('m2', 's', 5, ?)", (json.dumps(answer(2)),))
    assert read(log, home).new == 1


STRANGE: list[Any] = [
    None, [], 1, "text", {"role": "assistant"}, {"role": 5}, {"role": "user"}, {"role": "user", "time": 3},
    answer(1, tokens=None), answer(1, tokens=[]), answer(1, tokens={"input": 2**70, "output": -1, "cache": "x"}),
    answer(1, tokens={"input": True, "output": "12", "reasoning": 1.5, "cache": {"read": None}}),
    answer(1, time=None), answer(1, time={"created": 10**30, "completed": "x"}), answer(1, time={"created": -5}),
    answer(1, modelID=None, providerID=7), answer(1, cost="free"), answer(1, cost=10**400), answer(1, cost=-1),
    answer(1, path=[]), answer(1, path={"root": None, "cwd": 3}), answer(1, error="text"), answer(1, error={}),
    answer(1, error={"name": 5, "data": {"message": None, "statusCode": 10**20}}),
    answer(1, modelID="m" * 10_000, agent={}), answer(1, summary="yes", mode=None),
]  # fmt: skip


@pytest.mark.parametrize("data", STRANGE, ids=range(len(STRANGE)))
def test_strange_messages_are_counted_and_never_a_traceback(log: Log, home: Path, data: Any) -> None:
    """Nulls, wrong types, huge numbers: each is read as far as it says something, and the next one counts."""
    db = Database(home)
    db.session("s")
    db.db.execute("INSERT INTO message VALUES ('m1', 's', 0, 0, ?)", (json.dumps(data),))
    db.message(
        "m2", "s", answer(9, 7), 9, *({"type": "tool", "tool": "task", "state": one} for one in (None, [], {"time": 3}))
    )
    report = read(log, home)
    assert (report.problems, report.malformed) == ([], 0 if isinstance(data, dict) else 1)
    assert ("m2", "s", "succeeded", 7) in spans(log)


@pytest.mark.parametrize(
    "raw", ["", "{", "[1, 2", b"\x00\xff\xfe", 5, 1.5, '{"role": "assistant", "tokens": NaN}', "\ud800"]
)
def test_rows_that_are_no_json(log: Log, home: Path, raw: Any) -> None:
    """Malformed rows are counted, once; ids of another type are done without."""
    db = Database(home)
    db.session("s")
    given = raw.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if isinstance(raw, str) else raw
    db.db.execute("INSERT INTO message VALUES (x'ff', 's', 'x', 'y', ?)", (given,))
    db.message("m2", "s", answer(9, 7), 9)
    report = read(log, home)
    assert report.malformed == (0 if "NaN" in str(raw) else 1)
    assert [name for name, *_ in spans(log)] == ["m2"]
    assert read(log, home).malformed == 0


def test_broken_files_of_the_older_layout(log: Log, home: Path) -> None:
    """Half a file, a folder under a message's name, files beside: counted or passed over, and read when whole."""
    folder = older(home, "s")
    put(folder, "msg_1", answer(1))
    (folder / "msg_2.json").write_text('{"role": "assistant", "tok')
    (folder / "notes.txt").write_text("x")
    report = read(log, home)
    assert (report.new, report.malformed) == (1, 1)
    put(folder, "msg_2", answer(2))
    report = read(log, home)
    assert (report.new, report.malformed) == (1, 0)
    (folder / "msg_3.json").mkdir()
    report = read(log, home)
    assert len(report.problems) == 1
