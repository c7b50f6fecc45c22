"""The same accounts whatever was read first: files, lines, parts of files and streams in any order.

What is compared is everything that the accounts say: each span with its values, turn, session and agent; the
totals of all three grains; sessions, agents and delegations, and the turns that hold a span. Left out, each for its
reason:

- where in the log a figure was read (`source_position`, `source_index`): that is the order itself;
- how far each file was read (sources): the same bytes in more pieces are more events, and a shuffled file is
  another file; keys of rows are replaced by what they stand for;
- dimensions and turns to which no span points: what once had a span, and lost it.

A quarter of the logs, by chance, lies on PostgreSQL: the same accounts, too, whatever the database.

The counters of repeated, copied and replayed lines are compared too: no file is read twice here (one that was
truncated is, and counts its lines again: test_import.py).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from unittest.mock import patch

import pytest
from postgres_server import new_log

from ledger.accounts import catchup
from ledger.accounts.amounts import AMOUNTS, DIMENSIONS, GRAIN_SESSION
from ledger.accounts.catchup import catch_up, snapshot
from ledger.accounts.rows import SpanRow
from ledger.events.envelope import EncodedBody, Event, NewEvent
from ledger.invariants import check
from ledger.log.blobs import Blob, make_blob
from ledger.log.log import Log, StreamAppend
from ledger.prices.own import quote_from_rates
from ledger.sources import lines as reading_lines
from ledger.sources import reading
from ledger.sources.importer import run_import
from ledger.sources.quotes import state
from ledger.sources.repricing import reprice

TESTS = Path(__file__).parents[1]
CASES = TESTS / "cases"
CLIENTS = ("claude-code", "codex")
CLAUDE_TREES = (
    *("import-claude-code/" + name for name in ("p05_resume_copy", "p06_btw_replay", "p07_subagent_total_on_parent",
                                                 "p23_advisor")),
    *("real-claude-code/" + name for name in ("fork-session", "sub-agents", "nested-agents", "fork-agent",
                                               "old-1.0.100", "old-2.0.14", "old-2.0.45", "old-2.1.20",
                                               "cut-streams", "interactive")),
)  # fmt: skip
CODEX_TREES = (
    "import-codex/x3_fork_same_second",
    *("real-codex/" + name for name in ("fork", "sub-agents", "old-0.98.0-fork", "old-0.98.0-sub-agent", "zst")),
)
GENERATED = "generated"
"""A tree of tests/tools/gen_claude_logs.py: copies of resumed sessions, replays, sub-agents, errors."""

Row = tuple[Any, ...]
Accounts = dict[str, list[Row]]


class Soak(Protocol):
    """What the fixture `soak` gives: a seeded random, and how often to repeat."""

    random: random.Random

    def rounds(self, few: int, many: int) -> range: ...


# what is compared


def accounts(log: Log) -> Accounts:
    """Return everything that the accounts say, without keys and without the order of reading."""
    own = [name for name in SpanRow.__struct_fields__ if name not in _LEFT_OUT]
    values = ", ".join(f"d.{name}" for name in DIMENSIONS)
    queries = {
        "spans": f"SELECT {', '.join(f's.{name}' for name in own)}, n.session_id, t.turn_id, t.started_at, "
        f"t.agent_id, {values} FROM gen_spans s JOIN gen_sessions n ON n.session_key = s.session_key "
        "JOIN gen_turns t ON t.turn_key = s.turn_key JOIN gen_dimensions d ON d.dimension_id = s.dimension_id",
        "totals": f"SELECT t.grain, CASE t.grain WHEN {GRAIN_SESSION} THEN n.session_id "
        f"ELSE CAST(t.bucket AS TEXT) END, {values}, "
        f"{', '.join(f't.{name}' for name in AMOUNTS)}, t.first_at, t.last_at FROM gen_totals t "
        "JOIN gen_dimensions d ON d.dimension_id = t.dimension_id "
        f"LEFT JOIN gen_sessions n ON t.grain = {GRAIN_SESSION} AND n.session_key = t.bucket",
        "sessions": "SELECT session_id, client, forked_from, parent, agent_type, has_records FROM gen_sessions",
        "agents": "SELECT n.session_id, a.agent_id, a.agent_type, a.call_id FROM gen_agents a "
        "JOIN gen_sessions n ON n.session_key = a.session_key",
        "jobs": "SELECT call_id, client, tool, group_id, agent_id, agent_type, called_at, returned_at, status "
        "FROM gen_jobs",
    }
    with snapshot(log) as view:
        execute, named = view.store.connection.execute, view.store.named
        return {name: sorted(execute(named(sql)).fetchall(), key=repr) for name, sql in queries.items()}


_LEFT_OUT = ("session_key", "turn_key", "dimension_id", "source_position", "source_index")


def assert_same(expected: Accounts, found: Accounts, how: object) -> None:
    """Compare two accounts; the message shows one row that only one of them has."""
    for name, rows in expected.items():
        if rows != found[name]:
            lacks = next(iter(_beyond(rows, found[name])), None)
            has = next(iter(_beyond(found[name], rows)), None)
            pytest.fail(f"{how}: {name} differ\n  expected {lacks}\n  found    {has}")


def _beyond(rows: list[Row], others: list[Row]) -> Iterable[Row]:
    return (Counter(rows) - Counter(others)).elements()


def assert_sound(log: Log) -> None:
    """Check every invariant; what a provider contradicts itself in is flagged and passes."""
    assert [found for found in check(log, full=True) if not found.ok] == []


# writing a home folder piece by piece


class Piece(NamedTuple):
    """What is written at the end of one file at once."""

    path: Path
    """Relative to the home folder."""
    content: bytes


def files_of(tree: Path) -> dict[Path, bytes]:
    """Return the session files of a tree and the notes beside sub-agents' files, by path below the tree."""
    found = (path for path in sorted(tree.rglob("*")) if path.is_file() and path.name != "truth.json")
    return {path.relative_to(tree): path.read_bytes() for path in found}


def is_claude(path: Path) -> bool:
    return ".claude" in path.parts and path.suffix == ".jsonl"


def build(home: Path, log: Log, pieces: Iterable[Piece], imports_at: Callable[[], bool]) -> None:
    """Write the pieces one after another, and import now and then and at the end."""
    for piece in pieces:
        path = home / piece.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(piece.content)
        if imports_at():
            run_import(log, CLIENTS, home, use_environment=False)
    run_import(log, CLIENTS, home, use_environment=False)


def merged(parts: dict[Path, list[bytes]], rng: random.Random) -> list[Piece]:
    """Interleave the parts of the files at random, those of each file in their order.

    A note beside a sub-agent's file is written whole, before the last part of that file with a line in it.
    """
    notes = {path: parts.pop(path)[0] for path in [one for one in parts if one.suffix == ".json"]}
    order = [path for path, contents in parts.items() for _ in contents]
    rng.shuffle(order)
    left = {path: iter(contents) for path, contents in parts.items()}
    pieces = [Piece(path, next(left[path])) for path in order]
    for path, content in notes.items():
        of = path.with_name(path.name.replace(".meta.json", ".jsonl"))
        last = max(place for place, piece in enumerate(pieces) if piece.path == of and piece.content.strip())
        pieces.insert(rng.randint(0, last), Piece(path, content))
    return pieces


def whole(files: dict[Path, bytes], rng: random.Random) -> dict[Path, list[bytes]]:
    """Each file at once."""
    return {path: [content] for path, content in files.items()}


def by_lines(files: dict[Path, bytes], rng: random.Random) -> dict[Path, list[bytes]]:
    """Each file in some parts of whole lines."""
    return {path: _lines_apart(path, content, rng) for path, content in files.items()}


def by_bytes(files: dict[Path, bytes], rng: random.Random) -> dict[Path, list[bytes]]:
    """Each file in some parts that end anywhere: in the middle of a line, of a character, before a newline."""
    return {path: _bytes_apart(path, content, rng) for path, content in files.items()}


def _lines_apart(path: Path, content: bytes, rng: random.Random) -> list[bytes]:
    if path.suffix != ".jsonl":
        return [content]
    found = content.splitlines(keepends=True)
    cuts = sorted(rng.randrange(len(found) + 1) for _ in range(rng.randint(0, 3)))
    return [b"".join(found[a:b]) for a, b in zip([0, *cuts], [*cuts, len(found)], strict=True) if a < b]


def _bytes_apart(path: Path, content: bytes, rng: random.Random) -> list[bytes]:
    if path.suffix != ".jsonl" or not content:
        return [content]
    newlines = [place for place, char in enumerate(content) if char == 10]
    places = [rng.choice([rng.randrange(len(content) + 1), rng.choice(newlines)]) for _ in range(rng.randint(1, 3))]
    cuts = sorted(places)
    return [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True) if a < b]


SPLITS = (whole, by_lines, by_bytes)


# the order of lines


def shuffled(content: bytes, rng: random.Random) -> bytes:
    """Return the lines of a Claude Code file in a random order that a client could have written.

    Kept is only this: a tool result stands after the line of its call (the n-th result of a call after its n-th
    line), and an error line after the line that it names as its parent.
    """
    found = content.splitlines(keepends=True)
    if found and not found[-1].endswith(b"\n"):
        found[-1] += b"\n"
    return b"".join(found[number] for number in _any_extension(_before(found), rng))


def _before(found: list[bytes]) -> list[set[int]]:
    """Return for each line which lines must stand before it."""
    calls: dict[str, list[int]] = {}
    results: Counter[str] = Counter()
    uuids: dict[str, int] = {}
    before: list[set[int]] = []
    for number, raw in enumerate(found):
        line = json.loads(raw)
        message = line.get("message") if isinstance(line.get("message"), dict) else {}
        needs: set[int] = set()
        for block in message.get("content") or ():
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use":
                calls.setdefault(block["id"], []).append(number)
            elif block.get("type") == "tool_result" and (made := calls.get(block["tool_use_id"])):
                needs.add(made[min(results[block["tool_use_id"]], len(made) - 1)])
                results[block["tool_use_id"]] += 1
        is_error = line.get("isApiErrorMessage") or message.get("model") == "<synthetic>"
        if is_error and line.get("parentUuid") in uuids:
            needs.add(uuids[line["parentUuid"]])
        uuids[line.get("uuid")] = number
        before.append(needs)
    return before


def _any_extension(before: list[set[int]], rng: random.Random) -> list[int]:
    """Return a random order of the numbers in which each comes after those that it needs."""
    after: dict[int, list[int]] = {}
    for number, needs in enumerate(before):
        for one in needs:
            after.setdefault(one, []).append(number)
    missing = [len(needs) for needs in before]
    ready = [number for number, count in enumerate(missing) if not count]
    order = []
    while ready:
        place = rng.randrange(len(ready))
        ready[place], ready[-1] = ready[-1], ready[place]
        order.append(ready.pop())
        for number in after.get(order[-1], ()):
            missing[number] -= 1
            if not missing[number]:
                ready.append(number)
    return order


# the trees


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of commits wait for no disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def tree_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a tree by its name."""

    def folder(name: str) -> Path:
        if name != GENERATED:
            return CASES / name
        made = tmp_path_factory.getbasetemp() / GENERATED
        if not made.exists():
            tool = TESTS / "tools" / "gen_claude_logs.py"
            command = [sys.executable, str(tool), str(made), "--mb", "1", "--seed", "26"]
            subprocess.run(command, check=True, capture_output=True)
        return made

    return folder


class Expected:
    """What one plain import of each tree gives, found once."""

    def __init__(self, tree_of: Callable[[str], Path], folder: Callable[[str], Path]) -> None:
        self._tree_of, self._folder = tree_of, folder
        self._known: dict[str, Accounts] = {}

    def of(self, name: str) -> Accounts:
        if name not in self._known:
            with Log.create(self._folder("plain") / "ledger.db") as log:
                run_import(log, CLIENTS, self._tree_of(name), use_environment=False)
                assert_sound(log)
                self._known[name] = accounts(log)
        return self._known[name]


@pytest.fixture(scope="module")
def expected(tree_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """What one plain import of each tree gives."""
    return Expected(tree_of, tmp_path_factory.mktemp)


# any order of files, lines and parts


@pytest.mark.parametrize("name", [*CLAUDE_TREES, *CODEX_TREES, GENERATED])
@pytest.mark.parametrize("split", SPLITS, ids=["files", "lines", "bytes"])
def test_files_in_any_order_and_in_any_parts(
    name: str, split: Any, tree_of: Any, expected: Expected, folder: Path, soak: Soak
) -> None:
    """Files whole, by lines or cut anywhere, one part after another in any order, with imports in between.

    OBS-19, OBS-26, OBS-27, OBS-53.
    """
    for number in soak.rounds(1, 40):
        share = soak.random.choice((0.2, 1.0))
        parts = split(files_of(tree_of(name)), soak.random)
        at = folder / str(number)
        with new_log(at / "ledger.db", soak.random) as log:
            build(at, log, merged(parts, soak.random), lambda share=share: soak.random.random() < share)
            assert_same(expected.of(name), accounts(log), f"round {number}")
            assert_sound(log)
        shutil.rmtree(at)


@pytest.mark.parametrize("name", [*CLAUDE_TREES, GENERATED])
def test_lines_in_any_order(name: str, tree_of: Any, expected: Expected, folder: Path, soak: Soak) -> None:
    """The lines of each file of Claude Code in an order that a client could have written, in one import or many.

    Kept is only what a client cannot write otherwise: a tool result stands after the line of its call, and an
    error line after the line that it names as its parent (OBS-19, OBS-26, OBS-27, OBS-53).
    """
    for number in soak.rounds(2, 60):
        files = {
            path: shuffled(content, soak.random) if is_claude(path) else content
            for path, content in files_of(tree_of(name)).items()
        }
        parts = soak.random.choice(SPLITS)(files, soak.random)
        at = folder / str(number)
        with new_log(at / "ledger.db", soak.random) as log:
            build(at, log, merged(parts, soak.random), lambda: soak.random.random() < 0.5)
            assert_same(expected.of(name), accounts(log), f"round {number}")
            assert_sound(log)
        shutil.rmtree(at)


def test_the_comparison_can_fail(folder: Path) -> None:
    """A result before its call is what the orders above leave out: there the accounts do differ, and it shows."""
    path = Path(".claude/projects/p/s.jsonl")
    call, result = _CALL, _RESULT
    found = []
    for number, content in enumerate((call + result, result + call)):
        with Log.create(folder / f"{number}.db") as log:
            build(folder / str(number), log, [Piece(path, content)], lambda: False)
            found.append(accounts(log))
    assert_same(found[0], found[0], "itself")
    with pytest.raises(pytest.fail.Exception, match="spans differ"):
        assert_same(found[0], found[1], "another order")
    orders = {shuffled(call + result, random.Random(seed)) for seed in range(20)}
    assert orders == {call + result}


def _line(kind: str, uuid: str, at: int, message: dict[str, Any], **more: Any) -> bytes:
    line = {"type": kind, "uuid": uuid, "sessionId": "s", "timestamp": f"2026-03-10T12:00:{at:02d}Z", "cwd": "/p",
            "message": message, **more}  # fmt: skip
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


_USAGE = {"input_tokens": 3, "output_tokens": 70, "cache_read_input_tokens": 5}
_TASK = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"subagent_type": "helper"}}
_ANSWER = {"id": "m1", "model": "claude-opus-4-5-20251101", "usage": _USAGE, "content": [_TASK]}
_CALL = _line("assistant", "u1", 1, _ANSWER, requestId="r1")
_RESULT = _line("user", "u2", 9, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
                toolUseResult={"agentId": "a1", "status": "completed"})  # fmt: skip


# orders that once made a difference, each as small as can be


def _answered(number: int, at: int, session: str, **more: Any) -> bytes:
    """Return a line of Claude Code with response `number`, which may make a call."""
    content = [{"type": "tool_use", "id": call, "name": "Task", "input": {"subagent_type": kind}}
               for call, kind in more.pop("calls", {}).items()]  # fmt: skip
    message = {"id": f"m{number}", "model": "claude-opus-4-5-20251101", "usage": more.pop("usage", _USAGE),
               "stop_reason": "end_turn", "content": content}  # fmt: skip
    uuid = more.pop("uuid", f"{session}-{number}")
    return _line("assistant", uuid, at, message, **{"sessionId": session, "requestId": f"r{number}", **more})


def _prompt(name: str, at: int, session: str) -> bytes:
    return _line("user", name, at, {"role": "user", "content": "do this"}, sessionId=session)


def _returned(call: str, agent: str, at: int, session: str) -> bytes:
    content = [{"type": "tool_result", "tool_use_id": call}]
    result = {"agentId": agent, "status": "completed"}
    return _line("user", f"{call}-{at}", at, {"content": content}, sessionId=session, toolUseResult=result)


def _broken(parent: str, at: int, session: str) -> bytes:
    message = {"id": f"e{at}", "model": "<synthetic>", "usage": {"output_tokens": 0}, "content": []}
    return _line("assistant", f"e{at}", at, message, sessionId=session, parentUuid=parent, isApiErrorMessage=True)


def _rolled(kind: str, at: int, **payload: Any) -> bytes:
    line = {"timestamp": f"2026-03-10T12:00:{at:02d}Z", "type": kind, "payload": payload}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _meta(name: str, at: int, **more: str) -> bytes:
    return _rolled("session_meta", at, id=name, **more)


def _total(output: int, at: int) -> bytes:
    usage = {"input_tokens": 5, "output_tokens": output, "total_tokens": 5 + output}
    return _rolled("event_msg", at, type="token_count", info={"total_token_usage": usage})


def _record(name: str, output: int, at: int) -> bytes:
    usage = {"input_tokens": 5, "output_tokens": output, "total_tokens": 5 + output}
    return _rolled("token_usage_record", at, response_id=name, usage=usage)


_OTHER = {"input_tokens": 8, "output_tokens": 70, "cache_read_input_tokens": 0}
"""As full as _USAGE, and another."""

SMALL: dict[str, tuple[list[tuple[str, bytes]], str, list[Row]]] = {
    "equal usage, another branch and folder": (
        [
            ("p/s1.jsonl", _answered(1, 5, "s1", gitBranch="main") + _answered(2, 6, "s1")),
            ("p/s2.jsonl", _answered(1, 5, "s2", gitBranch="side", cwd="/q") + _answered(3, 9, "s2")),
            ("p/s3.jsonl", _answered(1, 5, "s3", gitBranch="else", cwd="/r") + _answered(4, 9, "s3")),
        ],
        "SELECT n.session_id, d.branch, d.project FROM gen_spans s JOIN gen_dimensions d USING (dimension_id) "
        "JOIN gen_sessions n USING (session_key) WHERE s.span_id LIKE '%:m1:%'",
        [("s1", "main", "/p")],
    ),
    "as full, and another usage": (
        [("p/a.jsonl", _answered(1, 5, "s")), ("p/b.jsonl", _answered(1, 5, "s", usage=_OTHER))],
        "SELECT count(*), sum(output) FROM gen_spans",
        [(1, 70)],
    ),
    "one prompt with two times": (
        [
            ("p/a.jsonl", _prompt("p1", 10, "s") + _answered(1, 12, "s")),
            ("p/b.jsonl", _prompt("p1", 30, "s") + _answered(2, 32, "s")),
        ],
        "SELECT count(*), count(DISTINCT turn_key) FROM gen_spans",
        [(2, 1)],
    ),
    "a third session decides between two others": (
        [
            ("p/s0.jsonl", _answered(5, 1, "s0") + _answered(2, 27, "s0", requestId="r2x")),
            ("p/s2.jsonl", _answered(5, 14, "s2") + _answered(9, 21, "s2")
             + _answered(2, 8, "s2", agentId="a1", isSidechain=True)),
            ("p/s1.jsonl", _answered(2, 30, "s1", requestId=None)),
            ("p/s1.jsonl", _answered(2, 35, "s1")),
        ],
        "SELECT n.session_id FROM gen_spans s JOIN gen_sessions n USING (session_key) WHERE s.span_id LIKE '%:m5:%'",
        [("s2",)],
    ),
    "a call that a copy dates before the prompt": (
        [
            ("p/s.jsonl", _answered(1, 5, "s") + _answered(2, 30, "s", calls={"t1": "helper"})),
            ("p/t.jsonl", _answered(2, 10, "t", calls={"t1": "helper"}) + _answered(3, 50, "t")),
            ("p/prompt.jsonl", _prompt("p1", 20, "s")),
        ],
        "SELECT t.turn_id FROM gen_spans s JOIN gen_turns t USING (turn_key) WHERE s.span_id LIKE '%:m2:%'",
        [("p1",), ("p1",)],
    ),
    "two calls that name one sub-agent": (
        [
            ("p/s.jsonl", _answered(1, 5, "s", calls={"t0": "helper"}) + _returned("t0", "a1", 9, "s")),
            ("p/s/subagents/agent-a1.meta.json", b'{"toolUseId":"t1"}'),
            ("p/s/subagents/agent-a1.jsonl", _answered(2, 6, "s", agentId="a1", isSidechain=True)),
            ("p/u.jsonl", _answered(3, 20, "s", calls={"t1": "Explore"})),
        ],
        "SELECT d.agent FROM gen_spans s JOIN gen_dimensions d USING (dimension_id) WHERE s.agent_id = 'a1'",
        [("helper",)],
    ),
    "records that come after the totals of a sub-agent": (
        [
            ("c0.jsonl", _meta("c0", 0) + _total(7, 1)),
            ("c1.jsonl", _meta("c1", 2, parent_thread_id="c0") + _total(11, 3)),
            ("c1.jsonl", _record("resp_1", 11, 4)),
        ],
        "SELECT sum(output), count(*) FROM gen_spans",
        [(18, 2)],
    ),
    "a total that no longer counts beside one that does": (
        [
            ("c0.jsonl", _meta("c0", 0) + _total(7, 1)),
            ("c1.jsonl", _meta("c1", 2, forked_from_id="c0") + _total(7, 3)),
            ("c0.jsonl", _record("resp_1", 7, 4)),
        ],
        "SELECT contested, count(*) FROM gen_spans GROUP BY 1",
        [(0, 2)],
    ),
    "a sub-agent of a sub-agent": (
        [
            ("c0.jsonl", _meta("c0", 0) + _total(7, 1)),
            ("c1.jsonl", _meta("c1", 2, parent_thread_id="c0") + _total(11, 3)),
            ("c2.jsonl", _meta("c2", 4, parent_thread_id="c1") + _rolled("event_msg", 5, type="user_message")
             + _total(13, 6)),
        ],
        "SELECT n.session_id, s.agent_id, t.turn_id <> '' FROM gen_spans s JOIN gen_turns t USING (turn_key) "
        "JOIN gen_sessions n ON n.session_key = t.session_key WHERE s.agent_id = 'c2'",
        [("c0", "c2", 1)],
    ),
    "a response of a sub-agent's session that others hold": (
        [
            ("c0.jsonl", _meta("c0", 0) + _record("resp_0", 7, 1) + _record("resp_5", 7, 50)),
            ("c4.jsonl", _meta("c4", 2, parent_thread_id="c2") + _record("resp_3", 7, 6) + _record("resp_5", 7, 51)),
            ("c1.jsonl", _meta("c1", 2) + _record("resp_3", 7, 25)),
        ],
        "SELECT n.session_id FROM gen_spans s JOIN gen_sessions n USING (session_key) WHERE s.span_id LIKE '%resp_5%'",
        [("c0",)],
    ),
}  # fmt: skip
"""Pieces to write, in any order that keeps that of one file and of the note beside it; a question and its answer."""

_NOTE = json.dumps({"agentType": "helper", "toolUseId": "t1"}).encode()


@pytest.mark.parametrize("name", SMALL)
def test_small_homes_in_every_order(name: str, folder: Path) -> None:
    """Every order of the pieces, with an import after each and with one at the end, gives the same account.

    OBS-19, OBS-27, OBS-53.
    """
    pieces, question, expected = SMALL[name]
    first: Accounts | None = None
    for order in permutations(range(len(pieces))):
        of = [pieces[number][0].partition(".")[0] for number in order]
        if any(a > b and of_a == of_b for (a, of_a), (b, of_b) in combinations(zip(order, of, strict=True), 2)):
            continue
        for apart in (True, False):
            at = folder / f"{''.join(map(str, order))}{apart}"
            at.mkdir()
            with Log.create(at / "ledger.db") as log:
                build(at, log, (_placed(*pieces[number]) for number in order), lambda apart=apart: apart)
                found = accounts(log)
                first = first or found
                assert_same(first, found, (order, apart))
                assert sorted(_asked(log, question)) == expected, (order, apart)
                assert_sound(log)


def _placed(name: str, content: bytes) -> Piece:
    return Piece(Path(".codex/sessions" if name.startswith("c") else ".claude/projects", name), content)


def _asked(log: Log, question: str) -> list[Row]:
    with snapshot(log) as view:
        return list(view.store.connection.execute(view.store.named(question)))


_ONE, _TWO, _THREE = (_answered(number, number, "s") for number in (1, 2, 3))
_CALLS = [_answered(4, 4, "s", calls={"t1": "helper"}), _answered(4, 4, "s2", calls={"t1": "helper"}, uuid="x")]
_RESULTS = [_returned("t1", "a1", 8, "s"), _returned("t1", "a1", 9, "s2")]
_LESS = _answered(1, 1, "s", usage={**_USAGE, "output_tokens": 1})
_AS_FULL = _answered(1, 2, "s", usage=_OTHER)
ORDERS = {
    "an error some lines after the response it broke off": (
        [_ONE, _broken("s-1", 9, "s"), _TWO, _THREE], [_ONE, _TWO, _THREE, _broken("s-1", 9, "s")],
    ),
    "two copies of a call before their results": (
        [_CALLS[0], _RESULTS[0], _CALLS[1], _RESULTS[1]], [*_CALLS, *_RESULTS], [*_CALLS, *reversed(_RESULTS)],
    ),
    "usages that are as full as each other": (
        [_ONE, _AS_FULL, _LESS], [_AS_FULL, _ONE, _LESS], [_LESS, _AS_FULL, _ONE], [_AS_FULL, _LESS, _TWO, _ONE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("together", [True, False])
def test_lines_of_one_file_in_another_order(name: str, together: bool, folder: Path) -> None:
    """The same lines in one file, read at once or one by one, give the same account."""
    first: Accounts | None = None
    rest = {_ONE, _TWO, _THREE, *_CALLS} - {line for order in ORDERS[name] for line in order}
    for number, order in enumerate(ORDERS[name]):
        at = folder / str(number)
        at.mkdir()
        lines = [*order, *sorted(rest), *({line for other in ORDERS[name] for line in other} - set(order))]
        content = [b"".join(lines)] if together else lines
        with Log.create(at / "ledger.db") as log:
            build(at, log, (_placed("p/s.jsonl", one) for one in content), lambda: True)
            found = accounts(log)
            first = first or found
            assert_same(first, found, number)
            assert_sound(log)


def test_a_note_that_is_written_after_the_first_lines(folder: Path) -> None:
    """The note beside a sub-agent's file is read with the next line of the file, wherever that was left."""
    lines = [_answered(number, number, "s", agentId="a1", isSidechain=True) for number in (1, 2)]
    path, note = "p/s/subagents/agent-a1.jsonl", "p/s/subagents/agent-a1.meta.json"
    orders = ([(note, _NOTE), (path, b"".join(lines))], [(path, lines[0]), (note, _NOTE), (path, lines[1])])
    found = []
    for number, pieces in enumerate(orders):
        at = folder / str(number)
        at.mkdir()
        with Log.create(at / "ledger.db") as log:
            build(at, log, (_placed(*piece) for piece in pieces), lambda: True)
            found.append(accounts(log))
            assert _asked(log, "SELECT DISTINCT d.agent FROM gen_dimensions d JOIN gen_spans USING (dimension_id)") == [
                ("helper",)
            ]
            assert_sound(log)
    assert_same(found[0], found[1], "the note later")
    assert [row[3] for row in found[0]["agents"]] == ["t1"]


# any interleaving of streams


@contextmanager
def many_events(rng: random.Random) -> Iterator[None]:
    """Read so that even a small file becomes several events: small blocks, few observations each."""
    with (
        patch.object(reading_lines, "BLOCK_BYTES", rng.choice((64, 4096, 1 << 20))),
        patch.object(reading, "OBSERVATIONS_PER_EVENT", rng.choice((1, 3))),
    ):
        yield


def interleaved(events: list[Event], rng: random.Random) -> list[Event]:
    """Return the events in a random order that keeps the order of each stream."""
    streams: dict[str, list[Event]] = {}
    for event in events:
        streams.setdefault(event.stream_id, []).append(event)
    how = rng.choice(("mixed", "one by one", "late", "prices last"))
    names = sorted(streams)
    rng.shuffle(names)
    if how == "one by one":
        return [event for name in names for event in streams[name]]
    held = {"late": names[0], "prices last": "book"}.get(how)
    order = [name for name in names if name != held for _ in streams[name]]
    rng.shuffle(order)
    order += [held] * len(streams.get(held, ())) if held else []
    left = {name: iter(found) for name, found in streams.items()}
    return [next(left[name]) for name in order]


def appended_again(source: Log, events: list[Event], copy: Log, rng: random.Random) -> None:
    """Append the events to another log, a few at a time, and fold now and then, in slices of any size."""
    blobs = _blobs(source)
    while events:
        size = rng.choice((1, 2, 5, 50))
        some, events = events[:size], events[size:]
        appends = [
            StreamAppend(
                one.stream_id, one.version - 1, [NewEvent(body=EncodedBody(one.type, one.data), event_id=one.event_id)]
            )
            for one in some
        ]
        copy.append(appends, [(one.event_id, blob) for one in some for blob in blobs.get(one.event_id, ())])
        if rng.random() < 0.5:
            with patch.object(catchup, "SLICE_SECONDS", rng.choice((0, 0.02))):
                catch_up(copy)


def _blobs(log: Log) -> dict[bytes, list[Blob]]:
    found: dict[bytes, list[Blob]] = {}
    for event_id, digest in log.connection.execute("SELECT event_id, sha256 FROM event_blobs"):
        content = log.blob(digest)
        assert content is not None
        found.setdefault(event_id, []).append(make_blob(content))
    return found


@pytest.mark.parametrize("name", [*CLAUDE_TREES, *CODEX_TREES, GENERATED])
def test_streams_in_any_interleaving(name: str, tree_of: Any, expected: Expected, folder: Path, soak: Soak) -> None:
    """The events of one log in any order that keeps each stream's own give the same accounts.

    Also with the prices after everything that they price, and with a file's whole stream last (OBS-19, OBS-26,
    OBS-27, OBS-53).
    """
    for number in soak.rounds(1, 40):
        at = folder / str(number)
        with new_log(at / "ledger.db", soak.random) as log:
            with many_events(soak.random):
                run_import(log, CLIENTS, tree_of(name), use_environment=False)
            assert_same(expected.of(name), accounts(log), f"round {number}, small events")
            events = list(log.all_events())
            for copied in range(2):
                with new_log(at / f"copy{copied}.db", soak.random) as copy:
                    appended_again(log, interleaved(events, soak.random), copy, soak.random)
                    assert_same(expected.of(name), accounts(copy), f"round {number}, copy {copied}")
                    assert_sound(copy)
        shutil.rmtree(at, ignore_errors=True)  # all may lie on PostgreSQL


# homes that no client wrote: everything that can meet does meet


def strange_claude(rng: random.Random) -> dict[Path, bytes]:
    """Return files of Claude Code in which few ids meet often: copies that differ, sub-agents, errors, stops."""
    folder = Path(".claude/projects/p")
    places = [folder / f"s{number}.jsonl" for number in range(3)]
    places += [folder / f"s{rng.randrange(3)}/subagents/agent-a{number}.jsonl" for number in range(2)]
    files = {path: b"".join(_strange_lines(rng, path)) for path in places}
    for of in places[3:]:
        if files[of] and rng.random() < 0.5:
            note = {"agentType": rng.choice(_TYPES), "toolUseId": f"t{rng.randrange(4)}"}
            files[of.with_suffix(".meta.json")] = json.dumps(note).encode()
    return {path: content for path, content in files.items() if content}


_TYPES = ("Explore", "helper")
_MODELS = ("claude-opus-4-5-20251101", "claude-haiku-4-5-20251001", "acme-coder-9", "gpt-5", "gpt-5-codex")


def _strange_lines(rng: random.Random, path: Path) -> Iterator[bytes]:
    agent = {"agentId": path.stem[6:], "isSidechain": True} if path.stem.startswith("agent-") else {}
    session = path.parts[3] if agent else path.stem
    calls: list[str] = []
    answered: list[tuple[str, int]] = []
    for number in range(rng.randint(0, 12)):
        at = rng.randrange(60)
        more: dict[str, Any] = {"sessionId": session if rng.random() < 0.9 else f"s{rng.randrange(3)}", **agent,
                                "cwd": rng.choice(("/p", "/q")), "gitBranch": rng.choice(("main", "side"))}  # fmt: skip
        uuid = f"{path.stem}-{number}"
        kind = rng.choice(("answer",) * 6 + ("prompt", "result", "error", "stop", "nested"))
        one = rng.randrange(6)
        if kind in ("answer", "nested"):
            message = _strange_message(rng, one)
            if rng.random() < 0.9:
                more["requestId"] = f"r{one}{rng.choice(('', '', '', 'x'))}"
            if rng.random() < 0.2:
                more["costUSD"] = rng.choice((0.25, 0.5))
            if not agent and rng.random() < 0.2:
                more["isSidechain"] = True
            if kind == "nested":
                inner = {"type": "assistant", "uuid": uuid, "timestamp": _at(at), "message": message, **more}
                yield _strange("progress", f"{uuid}p", at, more, data={"agentId": "a0", "message": inner})
                continue
            calls += [block["id"] for block in message["content"]]
            answered.append((uuid, one))
            yield _strange("assistant", uuid, at, more, message=message)
        elif kind == "prompt":
            yield _strange("user", f"p{rng.randrange(6)}", at, more, message={"content": "do this"})
        elif kind == "result" and calls:
            block = {"type": "tool_result", "tool_use_id": calls.pop(rng.randrange(len(calls)))}
            result = {"agentId": f"a{rng.randrange(2)}", "status": rng.choice(("completed", "failed", None))}
            yield _strange("user", uuid, at, more, message={"content": [block]}, toolUseResult=result)
        elif kind == "error":
            status = {"apiErrorStatus": rng.choice((429, 500))} if rng.random() < 0.5 else {}
            parent = rng.choice(answered)[0] if answered and rng.random() < 0.8 else None
            message = {"id": f"e{one}", "model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0},
                       "content": [{"type": "text", "text": "API Error"}]}  # fmt: skip
            yield _strange("assistant", uuid, at, more, message=message, parentUuid=parent, isApiErrorMessage=True,
                           **status)  # fmt: skip
        elif kind == "stop":
            yield _strange("user", uuid, at, more, interruptedMessageId=f"m{one}", message={"content": "[Request"})


def _strange_message(rng: random.Random, one: int) -> dict[str, Any]:
    output = rng.choice((0, 1, 70, 70, 70))
    cached = rng.choice((0, 5))
    usage: dict[str, Any] = {"input_tokens": 5 - cached, "output_tokens": output, "cache_read_input_tokens": cached}
    if rng.random() < 0.1:
        advice = {"type": "advisor_message", "model": "claude-opus-4-5-20251101", "input_tokens": 9, "output_tokens": 4}
        usage["iterations"] = [{"type": "message", "output_tokens": output}, advice]
    content = []
    if one < 4 and rng.random() < 0.4:
        kind = {"subagent_type": rng.choice(_TYPES)} if rng.random() < 0.8 else {}
        content.append({"type": "tool_use", "id": f"t{one}", "name": rng.choice(("Task", "Agent")), "input": kind})
    return {"id": f"m{one}", "model": rng.choice(_MODELS[:3]), "usage": usage, "content": content,
            "stop_reason": rng.choice((None, "end_turn"))}  # fmt: skip


def _at(second: int) -> str:
    return f"2026-03-10T12:{14 + second // 30}:{second % 60:02d}Z"


def _strange(kind: str, uuid: str, at: int, more: dict[str, Any], **fields: Any) -> bytes:
    line = {"type": kind, "uuid": uuid, "timestamp": _at(at), **more, **fields}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def strange_codex(rng: random.Random) -> dict[Path, bytes]:
    """Return rollouts that fork and delegate in all directions, with running totals, records or both."""
    files: dict[Path, bytes] = {}
    totals: dict[int, list[int]] = {}
    for number in range(5):
        meta: dict[str, Any] = {"id": f"c{number}", "cwd": rng.choice(("/p", "/q")), "model_provider": "openai"}
        begins: list[int] = []
        if rng.random() < 0.5:
            other = rng.randrange(-1, number)  # older, or not there at all
            meta[rng.choice(("forked_from_id", "parent_thread_id"))] = f"c{other}"
            begins = totals.get(other, [])[: rng.randint(0, 4)]
        found = [_rollout(rng, "session_meta", meta)]
        running = list(begins)
        while len(running) < len(begins) + rng.randint(0, 3):
            running.append((running[-1] if running else 0) + rng.choice((7, 7, 9)))
        totals[number] = running
        records = rng.random() < 0.3
        for place, total in enumerate(running):
            kind = rng.random()
            if kind < 0.3:
                found.append(_rollout(rng, "event_msg", {"type": "user_message"}))
            elif kind < 0.6:
                found.append(_rollout(rng, "turn_context", {"model": rng.choice(_MODELS[3:])}))
            usage = {"input_tokens": total, "output_tokens": 2 * total, "total_tokens": 3 * total}
            count = {"type": "token_count", "info": {"total_token_usage": usage}}
            found.append(_rollout(rng, "event_msg", count))
            if records:
                name = f"resp_{rng.randrange(6)}"
                usage = {"input_tokens": 7, "output_tokens": rng.choice((3, 4)), "total_tokens": 11 + place % 2}
                found.append(_rollout(rng, "token_usage_record", {"response_id": name, "usage": usage}))
        path = Path(rng.choice((".codex/sessions", ".codex/archived_sessions"))) / f"rollout-c{number}.jsonl"
        files[path] = b"".join(found)
        if rng.random() < 0.2:
            files[Path(".codex/sessions/2026") / path.name] = files[path]
    return files


def _rollout(rng: random.Random, kind: str, payload: dict[str, Any]) -> bytes:
    line = {"timestamp": _at(rng.randrange(60)), "type": kind, "payload": payload}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("make", [strange_claude, strange_codex], ids=["claude-code", "codex"])
def test_a_strange_home_in_any_order(make: Any, folder: Path, soak: Soak) -> None:
    """Made-up logs in which few ids meet often: whatever comes first, in parts, and in any interleaving of streams.

    Some are priced again before their events are interleaved, so that prices are named before and after their use.
    OBS-19, OBS-26, OBS-27, OBS-53.
    """
    for number in soak.rounds(6, 1000):
        files = make(soak.random)
        at = folder / str(number)
        at.mkdir()
        with Log.create(at / "plain.db") as log:
            build(at / "plain", log, merged(whole(files, soak.random), soak.random), lambda: False)
            plain = accounts(log)
            assert_sound(log)
        lines = {path: shuffled(one, soak.random) if is_claude(path) else one for path, one in files.items()}
        with new_log(at / "other.db", soak.random) as log, many_events(soak.random):
            parts = soak.random.choice(SPLITS)(lines, soak.random)
            build(at / "other", log, merged(parts, soak.random), lambda: soak.random.random() < 0.5)
            assert_same(plain, accounts(log), f"round {number}")
            if soak.random.random() < 0.3:
                state(log, quote_from_rates(soak.random.choice(_MODELS), input="11", output="13"))
                reprice(log, None, "tested")
                plain = accounts(log)
            assert_sound(log)
            with new_log(at / "copy.db", soak.random) as copy:
                appended_again(log, interleaved(list(log.all_events()), soak.random), copy, soak.random)
                assert_same(plain, accounts(copy), f"round {number}, copy")
                assert_sound(copy)
        shutil.rmtree(at)
