"""Gemini CLI's session files, growing and rewritten: which message counts, once, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.accounts.catchup import snapshot
from ledger.invariants import check
from ledger.log.log import Log
from ledger.sources import discover
from ledger.sources.importer import SourceReport, run_import
from ledger.wire import gemini_cli

TOKENS = {"input": 1000, "output": 100, "cached": 400, "thoughts": 20, "tool": 0, "total": 1120}
MODEL = "gemini-2.5-pro"


def answer(name: str, second: int, **changed: Any) -> dict[str, Any]:
    """Return a message of the model."""
    return {
        "id": name, "timestamp": f"2026-11-30T12:00:{second:02}.000Z", "type": "gemini", "content": "said",
        "thoughts": [], "tokens": TOKENS, "model": MODEL, **changed,
    }  # fmt: skip


def prompt(name: str, second: int, said: Any = "do it") -> dict[str, Any]:
    """Return a message of the user."""
    return {"id": name, "timestamp": f"2026-11-30T12:00:{second:02}.000Z", "type": "user", "content": said}


def head(session: str, **more: Any) -> dict[str, Any]:
    """Return the first line of a file."""
    return {
        "sessionId": session,
        "projectHash": "f00d",
        "startTime": "2026-11-30T12:00:00.000Z",
        "kind": "main",
        **more,
    }


class Chats:
    """The folder of a project's sessions in a home."""

    def __init__(self, home: Path, project: str = "p") -> None:
        self.folder = home / ".gemini" / "tmp" / project / "chats"
        self.folder.mkdir(parents=True, exist_ok=True)

    def lines(self, name: str, *records: Any) -> Path:
        """Append records to a file that grows."""
        path = self.folder / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.writelines(one if isinstance(one, str) else json.dumps(one) + "\n" for one in records)
        return path

    def whole(self, name: str, session: str, *messages: Any) -> Path:
        """Write a file of an older version anew."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({**head(session), "messages": list(messages)}, indent=2))
        return path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A new log, checked at the end."""
    with Log.open(tmp_path / "ledger.db", create=True) as made:
        yield made
        assert [one for one in check(made, full=True) if not one.ok] == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def read(log: Log, home: Path) -> SourceReport:
    return run_import(log, ("gemini",), home, use_environment=False)[0]


def spans(log: Log) -> list[tuple[Any, ...]]:
    """Return (message, session, agent, output) of every request."""
    sql = (
        "SELECT s.span_id, n.session_id, s.agent_id, s.output FROM gen_spans s JOIN gen_dimensions d ON d.dimension_id "
        "= s.dimension_id JOIN gen_sessions n ON n.session_key = s.session_key WHERE d.kind = 'model' ORDER BY 1"
    )
    with snapshot(log) as view:
        return [(span_id.split(":")[1], *rest) for span_id, *rest in view.store.query(sql)]


def projects(log: Log) -> set[str]:
    with snapshot(log) as view:
        return {
            name for (name,) in view.store.query("SELECT DISTINCT project FROM gen_dimensions WHERE client = 'gemini'")
        }


def turns(log: Log) -> int:
    with snapshot(log) as view:
        return int(next(iter(view.store.query("SELECT count(*) FROM gen_turns WHERE turn_id <> ''")))[0])


def events(log: Log) -> list[str]:
    return [event.type for event in log.all_events()]


# files that grow


def test_a_message_that_is_written_again_counts_once(log: Log, home: Path) -> None:
    """First without tokens, then with, then with its tool calls, and in the list of a resume: one request (OBS-12)."""
    chats = Chats(home)
    bare = answer("m1", 1, tokens=None)
    chats.lines("session-1", head("s"), bare, answer("m1", 1), answer("m1", 1, toolCalls=[{"id": "c", "name": "x"}]))
    assert (read(log, home).new, spans(log)) == (1, [("m1", "s", "", 120)])
    chats.lines("session-1", {"$set": {"messages": [prompt("u", 0), answer("m1", 1)]}}, {"$set": {"lastUpdated": "x"}})
    assert read(log, home).new == 0
    assert spans(log) == [("m1", "s", "", 120)]


def test_the_fullest_of_several_counts(log: Log, home: Path) -> None:
    """Tokens that grew replace, also where they were read before; they are never added."""
    chats = Chats(home)
    chats.lines("session-1", head("s"), answer("m1", 1))
    read(log, home)
    chats.lines("session-1", answer("m1", 1, tokens={**TOKENS, "output": 300, "total": 1320}))
    read(log, home)
    assert spans(log) == [("m1", "s", "", 320)]


def test_a_rewound_message_was_paid(log: Log, home: Path) -> None:
    """What the user took back from the conversation was answered all the same."""
    Chats(home).lines("session-1", head("s"), answer("m1", 1), {"$rewindTo": "m1"}, answer("m2", 2))
    assert read(log, home).new == 2


def test_prompts_begin_turns(log: Log, home: Path) -> None:
    """A text of the user does; the client's own context, and the results of tools, do not."""
    result = [{"functionResponse": {"id": "c", "response": {}}}]
    Chats(home).lines(
        "session-1", head("s"), {"$set": {"messages": [prompt("u0", 0, [{"text": "<session_context>\nToday"}])]}},
        prompt("u1", 1, [{"text": "do it"}]), answer("m1", 2), prompt("r1", 3, result), answer("m2", 4),
        prompt("u2", 5), prompt("u3", 6, [{"text": "<session_context>\nAgain"}]), answer("m3", 7),
    )  # fmt: skip
    read(log, home)
    assert turns(log) == 2


def test_a_sub_agent_has_one_turn(log: Log, home: Path) -> None:
    """Its task begins it; what the client tells it later does not, also where that is read later."""
    chats = Chats(home)
    chats.lines("root/agent", head("agent", kind="subagent"), prompt("u1", 1), answer("m1", 2))
    read(log, home)
    chats.lines("root/agent", prompt("u2", 3, [{"text": "You have stopped"}]), answer("m2", 4))
    read(log, home)
    assert turns(log) == 1


def test_a_torn_line_is_read_when_it_is_whole(log: Log, home: Path) -> None:
    """Half a line is left, and said in every import until it is whole (OBS-14)."""
    chats = Chats(home)
    line = json.dumps(answer("m1", 1)) + "\n"
    chats.lines("session-1", head("s"), line[:60])
    assert [read(log, home).torn for _ in range(2)] == [1, 1]
    chats.lines("session-1", line[60:])
    report = read(log, home)
    assert (report.new, report.torn) == (1, 0)


def test_sub_agents_are_booked_under_their_session(log: Log, home: Path) -> None:
    """chats/SESSION/AGENT.jsonl is a sub-agent's; its name is in the call, whichever is read first (OBS-20, OBS-23)."""
    chats = Chats(home)
    chats.lines("root/agent", head("agent", kind="subagent"), prompt("u", 3), answer("m2", 4))
    read(log, home)
    assert spans(log) == [("m2", "root", "agent", 120)]
    call = {
        "id": "c",
        "name": "invoke_agent",
        "args": {"agent_name": "explorer"},
        "status": "success",
        "agentId": "agent",
    }
    chats.lines("session-1", head("root"), prompt("u0", 1), answer("m1", 2, toolCalls=[call]))
    read(log, home)
    assert spans(log) == [("m1", "root", "", 120), ("m2", "root", "agent", 120)]
    with snapshot(log) as view:
        sql = (
            "SELECT DISTINCT d.agent, d.kind FROM gen_spans s JOIN gen_dimensions d ON d.dimension_id = s.dimension_id"
        )
        assert sorted(view.store.query(sql)) == [("", "model"), ("", "tool"), ("explorer", "model")]


def test_the_project_is_what_stands_beside_the_files(log: Log, home: Path) -> None:
    """`.project_root`, else the session's folder, else the client's digest of it."""
    Chats(home, "a").lines("session-1", head("s1", directories=["/elsewhere"]), answer("m1", 1))
    Chats(home, "b").lines("session-2", head("s2"), answer("m2", 1))
    named = Chats(home, "c")
    (named.folder.parent / ".project_root").write_text("/home/dev/p\n")
    named.lines("session-3", head("s3", directories=["/elsewhere"]), answer("m3", 1))
    read(log, home)
    assert projects(log) == {"/elsewhere", "f00d", "/home/dev/p"}


# files of older versions


def test_an_older_file_is_read_as_it_is_rewritten(log: Log, home: Path) -> None:
    """It is written anew with each message: only what is new or changed is looked into (OBS-15)."""
    chats = Chats(home)
    chats.whole("session-1", "s", prompt("u1", 1), answer("m1", 2), answer("m2", 3, tokens=None))
    assert read(log, home).new == 1
    chats.whole("session-1", "s", prompt("u1", 1), answer("m1", 2), answer("m2", 3), answer("m3", 4))
    report = read(log, home)
    assert (report.new, report.lines) == (2, 3)  # the head, m2 and m3
    before = events(log)
    assert (read(log, home).lines, events(log)) == (0, before)
    chats.whole("session-1", "s", prompt("u1", 1), answer("m1", 2), answer("m2", 3), answer("m3", 4))
    assert (read(log, home).lines, events(log)) == (0, before)
    chats.whole("session-1", "s", prompt("u9", 1), answer("m9", 2))
    assert read(log, home).new == 1


def test_an_older_session_that_goes_on_in_a_newer_file(log: Log, home: Path) -> None:
    """A resume copies the messages into a .jsonl with the same ids: they count once."""
    chats = Chats(home)
    chats.whole("session-1", "s", prompt("u1", 1), answer("m1", 2))
    chats.lines("session-1", head("s"), prompt("u1", 1), answer("m1", 2), answer("m2", 3))
    report = read(log, home)
    assert (report.new, report.duplicates["same_response"]) == (2, 1)


def test_a_copy_under_another_session_counts_once(log: Log, home: Path) -> None:
    """The same ids in two sessions are the same responses; the one whose others are earlier owns them."""
    chats = Chats(home)
    chats.lines("session-2", head("b"), answer("m1", 2), answer("m3", 9))
    chats.lines("session-1", head("a"), answer("m0", 1), answer("m1", 2))
    report = read(log, home)
    assert (report.new, report.duplicates["copied_session"]) == (3, 1)
    assert [(name, session) for name, session, *_ in spans(log)] == [("m0", "a"), ("m1", "a"), ("m3", "b")]


# where they lie


def test_only_chats_are_read(home: Path) -> None:
    """Beside them the client keeps logs, checkpoints and outputs of tools."""
    chats = Chats(home)
    chats.lines("session-1", head("s"))
    chats.whole("session-2", "t")
    chats.lines("root/agent", head("agent"))
    project = chats.folder.parent
    for name in ("logs.json", "checkpoints/x.json", "tool-outputs/session-9.json", "chats/session-1.jsonl.tmp-7"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("[]")
    found = [
        one
        for root in discover.roots("gemini", home, use_environment=False)
        for one in discover.files("gemini", root, [])
    ]
    assert {one.path.name: one.rewritten for one in found} == {
        "session-1.jsonl": False, "session-2.json": True, "agent.jsonl": False,
    }  # fmt: skip


def test_where_the_data_folder_is(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GEMINI_DATA_DIR (with or without its tmp), else GEMINI_CLI_HOME, else the home; --home knows neither."""
    Chats(home)
    Chats(tmp_path / "other")
    (tmp_path / "plain").mkdir()
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "other"))
    assert discover.roots("gemini", home, use_environment=True) == [tmp_path / "other" / ".gemini" / "tmp"]
    monkeypatch.setenv("GEMINI_DATA_DIR", f"{tmp_path / 'plain'},{home / '.gemini'}")
    assert discover.roots("gemini", home, use_environment=True) == [home / ".gemini" / "tmp", tmp_path / "plain"]
    assert discover.roots("gemini", home, use_environment=False) == [home / ".gemini" / "tmp"]


# what the numbers mean


@pytest.mark.parametrize(
    ("tokens", "uncached", "cached", "output", "total"),
    [
        (TOKENS, 600, 400, 120, 1120),
        ({**TOKENS, "tool": 77, "total": 1197}, 677, 400, 120, 1197),
        ({**TOKENS, "total": 1520}, 1000, 400, 120, 1520),  # cached outside
        ({**TOKENS, "total": 1100}, 600, 400, 100, 1100),  # thoughts inside
        ({**TOKENS, "total": 1500}, 1000, 400, 100, 1500),  # both
        ({**TOKENS, "total": 0}, 600, 400, 120, None),  # the client's own zero
        ({**TOKENS, "total": 5}, 600, 400, 120, 5),
        ({"input": 10, "output": 1}, 10, None, 1, None),
        ({"input": 10, "cached": 50, "output": 1, "thoughts": 0, "tool": 0}, 0, None, 1, None),
        ({"input": None, "output": "x"}, None, None, None, None),
    ],
)
def test_what_tokens_mean(tokens: dict[str, Any], uncached: Any, cached: Any, output: Any, total: Any) -> None:
    """Cached is inside the input and thoughts are beside the output, unless the total says otherwise (OBS-22)."""
    usage = gemini_cli.parts(tokens)[0].usage
    assert (usage.input_uncached, usage.cache_read, usage.output, usage.reported_total) == (
        uncached,
        cached,
        output,
        total,
    )


# what cannot be read

STRANGE: list[Any] = [
    answer("m1", 1, tokens=[]), answer("m1", 1, tokens={}), answer("m1", 1, tokens={"input": 2**80, "output": -4}),
    answer("m1", 1, timestamp=None), answer("m1", 1, timestamp=5), answer("m1", 1, model=7), answer("m1", 1, id=None),
    answer("m1", 1, toolCalls=5), answer("m1", 1, toolCalls=[None, 3, {"agentId": 4}, {"agentId": "a", "args": []}]),
    prompt("u", 1, None), prompt("u", 1, [None, 4]), prompt("u", 1, {"text": 1}), {"type": "gemini"},
    {"type": 5, "id": 5},
    {"$set": None}, {"$set": {"messages": 5}}, {"$set": {"messages": [None, 5, {"type": "gemini", "tokens": 3}]}},
    {"sessionId": 5, "directories": [None], "kind": "subagent"}, {"$rewindTo": None}, {},
]  # fmt: skip


@pytest.mark.parametrize("record", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("older", [False, True], ids=["jsonl", "json"])
def test_strange_records_are_never_a_traceback(log: Log, home: Path, record: Any, older: bool) -> None:
    """Nulls, wrong types, huge numbers: read as far as they say something, and the next message counts."""
    if older:
        Chats(home).whole("session-1", "s", record, answer("m2", 2))
    else:
        Chats(home).lines("session-1", head("s"), record, answer("m2", 2))
    report = read(log, home)
    assert (report.problems, report.malformed) == ([], 0)
    assert "m2" in [name for name, *_ in spans(log)]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"sessionId": "s", "messages": [{"id": "m1", "ty'])
def test_an_older_file_that_is_no_json(log: Log, home: Path, content: str) -> None:
    """It is malformed, once; whole again, it is read."""
    chats = Chats(home)
    path = chats.folder / "session-1.json"
    path.write_text(content)
    assert [read(log, home).malformed for _ in range(2)] == [1, 0]
    chats.whole("session-1", "s", answer("m1", 1))
    assert read(log, home).new == 1


def test_malformed_lines_are_counted(log: Log, home: Path) -> None:
    """Each that is no JSON object, and no other."""
    chats = Chats(home)
    chats.lines("session-1", head("s"), "tokens\n", '{"tokens": nope}\n', answer("m1", 1), "\n")
    report = read(log, home)
    assert (report.malformed, report.new) == (2, 1)
