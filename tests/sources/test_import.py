"""The import as a program that is stopped, run twice, refused and given rubbish: nothing is lost, nothing counts twice.

Each test that writes a log ends with every invariant; figures are held against an import that nothing disturbed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest
import zstandard

from ledger.accounts import catchup, store
from ledger.accounts.amounts import AMOUNTS, DIMENSIONS
from ledger.accounts.catchup import snapshot
from ledger.accounts.rows import SpanRow
from ledger.cli import run
from ledger.errors import LogTooNew
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.invariants import check
from ledger.log.log import Log, StreamAppend
from ledger.sources import importer
from ledger.sources.importer import SourceReport, run_import
from reports.query import ask, make_question
from reports.report import as_json

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
SAMPLE = ROOT / "reports" / "sample"
CLIENTS = ("claude-code", "codex")
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
MODEL = "claude-opus-4-5-20251101"


class Soak(Protocol):
    """What the fixture `soak` gives: a seeded random, and how often to repeat."""

    random: Random

    def rounds(self, few: int, many: int) -> range: ...


# what is imported, and what came of it


def answer(number: int, *, session: str = "s", output: int | None = None, **more: Any) -> bytes:
    """Return a line of Claude Code with a response of 100 + `number` output tokens."""
    usage = {"input_tokens": 1, "output_tokens": 100 + number if output is None else output,
             "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}  # fmt: skip
    message = {"id": f"msg_{number}", "model": more.pop("model", MODEL), "stop_reason": "end_turn", "usage": usage}
    at = f"2026-03-10T12:{number // 60:02d}:{number % 60:02d}Z"
    line = {"type": "assistant", "uuid": f"u{number}", "sessionId": session, "requestId": f"r{number}",
            "timestamp": at, "cwd": "/p", "message": message | more.pop("message", {}), **more}  # fmt: skip
    return json.dumps(line, separators=(",", ":")).encode()


def total(number: int, **payload: Any) -> bytes:
    """Return a line of Codex whose running total has 100 * `number` output tokens."""
    usage = {"input_tokens": 10 * number, "output_tokens": 100 * number, "total_tokens": 110 * number}
    told = {"type": "token_count", "info": {"total_token_usage": usage}, **payload}
    line = {"timestamp": f"2026-03-10T12:00:{number:02d}Z", "type": "event_msg", "payload": told}
    return json.dumps(line, separators=(",", ":")).encode()


LINES = {
    "claude-code": [answer(number) for number in range(1, 5)],
    "codex": [total(number) for number in range(1, 5)],
}
OUTPUT = {"claude-code": [101, 102, 103, 104], "codex": [100, 100, 100, 100]}
FILES = {"claude-code": ".claude/projects/p/s.jsonl", "codex": ".codex/sessions/2026/03/rollout-s.jsonl"}


def lines(client: str, begin: int, end: int) -> bytes:
    """Return some of the client's four lines, each with its newline."""
    return b"".join(line + b"\n" for line in LINES[client][begin:end])


def put(home: Path, content: bytes, name: str = FILES["claude-code"]) -> Path:
    """Write a file of a home folder."""
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def add(path: Path, content: bytes) -> None:
    """Append to a file, as a client does."""
    with path.open("ab") as file:
        file.write(content)


def bring(log: Log, home: Path, client: str = "claude-code") -> SourceReport:
    """Import, and return the report of one client."""
    reports = run_import(log, CLIENTS, home, use_environment=False)
    return next(report for report in reports if report.client == client)


def rows(log: Log, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query in which `gen_` names the live tables."""
    with snapshot(log) as view:
        return list(view.store.connection.execute(view.store.named(sql)))


def outputs(log: Log) -> list[int]:
    """Return the output tokens of every response, in the order of time."""
    return [row[0] for row in rows(log, "SELECT output FROM gen_spans WHERE part = '' ORDER BY occurred_at")]


def types(log: Log, after: int = 0) -> list[str]:
    """Return the types of the events beyond a position, without prices."""
    return [event.type for event in log.all_events(after) if event.stream_id != "book"]


def streams(log: Log) -> int:
    """Return how many files the log knows."""
    return len({event.stream_id for event in log.all_events() if event.stream_id.startswith("source:")})


COUNTERS = ("lines", "copied_lines", "replayed_lines")
"""What counts again where a file is read again."""


def accounts(log: Log, *, without: tuple[str, ...] = ()) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return spans, totals and delegations with the values behind their keys, and without places in the log."""
    left_out = {"session_key", "turn_key", "dimension_id", "source_position", "source_index", *without}
    spans = ", ".join(f"s.{name}" for name in SpanRow.__struct_fields__ if name not in left_out)
    sums = ", ".join(f"t.{name}" for name in AMOUNTS if name not in left_out)
    values = ", ".join(f"d.{name}" for name in DIMENSIONS)
    queries = {
        "spans": f"SELECT {spans}, n.session_id, t.turn_id, t.started_at, {values} FROM gen_spans s "
        "JOIN gen_sessions n ON n.session_key = s.session_key JOIN gen_turns t ON t.turn_key = s.turn_key "
        "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id",
        "totals": f"SELECT t.grain, t.bucket, {sums}, t.first_at, t.last_at, {values} FROM gen_totals t "
        "JOIN gen_dimensions d ON d.dimension_id = t.dimension_id",
        "jobs": "SELECT * FROM gen_jobs",
    }
    return {name: Counter(rows(log, sql)) for name, sql in queries.items()}


def assert_sound(log: Log) -> None:
    """Check every invariant; what a provider contradicts itself in is flagged and passes."""
    assert [found for found in check(log, full=True) if not found.ok] == []


# what is new


@EVERY_CLIENT
def test_a_line_more(client: str, log: Log, tmp_path: Path) -> None:
    """Only what was added is read, and the account is that of one import of the whole (OBS-49, OBS-53)."""
    path = put(tmp_path, lines(client, 0, 2), FILES[client])
    assert (bring(log, tmp_path, client).lines, outputs(log)) == (2, OUTPUT[client][:2])
    add(path, lines(client, 2, 3))
    report = bring(log, tmp_path, client)
    assert (report.files, report.lines, report.usage_rows, report.new) == (1, 1, 1, 1)
    assert outputs(log) == OUTPUT[client][:3]
    with Log.create(tmp_path / "whole.db") as whole:
        bring(whole, tmp_path, client)
        assert accounts(log) == accounts(whole)
    assert_sound(log)


@EVERY_CLIENT
def test_nothing_new(client: str, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event is appended, no event is folded, and the report says so; a touched file is no news.

    A file that stands as it stood is not even opened.
    """
    opened: list[int] = []
    read_all = importer.read_all
    monkeypatch.setattr(importer, "read_all", lambda tasks, read: opened.append(len(tasks)) or read_all(tasks, read))
    path = put(tmp_path, lines(client, 0, 3), FILES[client])
    bring(log, tmp_path, client)
    head, before = log.head_position(), accounts(log)
    for touched in (False, True):
        if touched:
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 5_000_000_000))
        report = bring(log, tmp_path, client)
        assert (report.files, report.lines, report.usage_rows, report.new) == (1, 0, 0, 0)
        assert log.head_position() == head
        with snapshot(log) as view:
            assert (view.folded, view.position) == (0, head)
    assert opened == [1, 1]
    assert accounts(log) == before
    assert_sound(log)


@EVERY_CLIENT
def test_a_report_folds_what_is_new_and_only_once(client: str, log: Log, tmp_path: Path) -> None:
    """Events that nobody folded yet are folded by the first reader; the next has nothing to do."""
    put(tmp_path, lines(client, 0, 2), FILES[client])
    bring(log, tmp_path, client)
    behind(log, tmp_path, lines(client, 2, 4), client)
    with snapshot(log) as view:
        assert (view.folded, view.position) == (1, log.head_position())
    with snapshot(log) as view:
        assert view.folded == 0
    assert outputs(log) == OUTPUT[client]
    assert_sound(log)


def behind(log: Log, home: Path, more: bytes, client: str = "claude-code") -> None:
    """Append to the home's file and to the log what an import makes of it, and fold nothing."""
    add(home / FILES[client], more)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "other.db"
        log.connection.execute("VACUUM INTO ?", (str(place),))  # the same log: its sources are named by its id
        with Log.open(place) as other:
            head = other.head_position()
            bring(other, home, client)
            repeat(other, log, head)


def repeat(source: Log, copy: Log, after: int) -> None:
    """Append the events of a log beyond a position to another one, without blobs, and fold nothing."""
    for event in source.all_events(after):
        new = NewEvent(body=EncodedBody(event.type, event.data), event_id=event.event_id)
        copy.append([StreamAppend(event.stream_id, event.version - 1, [new])])


# files that change in other ways than by growing


@EVERY_CLIENT
def test_a_file_that_was_cut(client: str, log: Log, tmp_path: Path) -> None:
    """It is read again from its start: what was counted stays counted, once, and what comes after counts too."""
    path = put(tmp_path, lines(client, 0, 3), FILES[client])
    bring(log, tmp_path, client)
    head = log.head_position()
    put(tmp_path, lines(client, 0, 1), FILES[client])
    assert bring(log, tmp_path, client).new == 0
    assert types(log, head) == ["source.truncated", "lines.observed"]
    assert outputs(log) == OUTPUT[client][:3]
    add(path, lines(client, 1, 4))
    report = bring(log, tmp_path, client)
    assert (report.lines, report.new, outputs(log)) == (3, 1, OUTPUT[client])
    assert sum(row[0] for row in rows(log, "SELECT lines FROM gen_spans")) == 4 + 3  # three were read twice
    assert_sound(log)


def test_a_file_that_is_empty_again(log: Log, tmp_path: Path) -> None:
    """Cut to nothing, then written anew: both are seen."""
    path = put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    path.write_bytes(b"")
    bring(log, tmp_path)
    assert outputs(log) == [101, 102]
    path.write_bytes(lines("claude-code", 2, 4))
    bring(log, tmp_path)
    assert outputs(log) == [101, 102, 103, 104]
    assert_sound(log)


@pytest.mark.parametrize("size", ["shorter", "as long", "longer"])
@pytest.mark.parametrize("inode", ["the same file", "another file"])
def test_another_file_under_the_same_name(size: str, inode: str, log: Log, tmp_path: Path) -> None:
    """What was read of the old one stays; the new one is read whole, whatever its size."""
    path = put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    kept = {"shorter": [13], "as long": [13, 14], "longer": [13, 14, 15]}[size]
    content = b"".join(answer(number) + b"\n" for number in kept)
    if size == "as long":
        content = content.replace(b"msg_1", b"msg_").replace(b'"r1', b'"r').replace(b'"u1', b'"u')
        assert len(content) == path.stat().st_size
    if inode == "another file":
        path.rename(path.with_suffix(".old"))
    path.write_bytes(content)
    os.utime(path, (2_000_000_000, 2_000_000_000))
    report = bring(log, tmp_path)
    assert (report.lines, report.new) == (len(kept), len(kept))
    assert sorted(outputs(log)) == sorted([101, 102, *(100 + number for number in kept)])
    assert_sound(log)


def test_a_renamed_file_goes_on_as_the_same_source(log: Log, tmp_path: Path) -> None:
    """Codex moves a session to its archive: no event, and what is added there is the same source's."""
    path = put(tmp_path, lines("codex", 0, 2), FILES["codex"])
    bring(log, tmp_path, "codex")
    head = log.head_position()
    archived = tmp_path / ".codex/archived_sessions" / path.name
    archived.parent.mkdir()
    path.rename(archived)
    bring(log, tmp_path, "codex")
    assert log.head_position() == head
    add(archived, lines("codex", 2, 4))
    assert bring(log, tmp_path, "codex").lines == 2
    assert (streams(log), outputs(log)) == (1, OUTPUT["codex"])
    assert [row[0] for row in rows(log, "SELECT lines FROM gen_spans")] == [1, 1, 1, 1]
    assert_sound(log)


def test_a_copy_is_another_source_of_the_same_responses(log: Log, tmp_path: Path) -> None:
    """The twin of the renamed file: a copy is read, and counts nothing new (OBS-26)."""
    path = put(tmp_path, lines("codex", 0, 2), FILES["codex"])
    bring(log, tmp_path, "codex")
    shutil.copy2(path, path.with_name("rollout-copy-s.jsonl"))
    report = bring(log, tmp_path, "codex")
    assert (report.lines, report.new, streams(log)) == (2, 2, 2)  # by its name it is another session
    put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    put(tmp_path, lines("claude-code", 0, 2), ".claude/projects/p/copy.jsonl")
    report = bring(log, tmp_path)
    assert (report.lines, report.new, report.duplicates["same_response"], streams(log)) == (2, 0, 2, 4)
    assert_sound(log)


def test_a_rotation(log: Log, tmp_path: Path) -> None:
    """The old file gets another name and a new one its own: nothing counts twice, nothing is missed."""
    path = put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    old = path.with_name("s-1.jsonl")
    path.rename(old)
    path.write_bytes(lines("claude-code", 2, 3))
    bring(log, tmp_path)
    assert outputs(log) == [101, 102, 103]
    add(path, lines("claude-code", 3, 4))
    add(old, answer(9) + b"\n")
    bring(log, tmp_path)
    assert outputs(log) == [101, 102, 103, 104, 109]
    assert_sound(log)


def test_two_new_names_of_one_file(log: Log, tmp_path: Path) -> None:
    """A renamed file that has a second hard link: one of the names goes on, the other is a copy."""
    path = put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    for name in ("one.jsonl", "two.jsonl"):
        os.link(path, path.with_name(name))
    path.unlink()
    add(tmp_path / ".claude/projects/p/one.jsonl", lines("claude-code", 2, 3))
    for _ in range(3):
        bring(log, tmp_path)
        assert (outputs(log), streams(log)) == ([101, 102, 103], 2)
        assert_sound(log)
    assert [row[0] for row in rows(log, "SELECT lines FROM gen_spans")] == [2, 2, 2]


def test_a_second_name_of_one_file(log: Log, tmp_path: Path) -> None:
    """The twin: the old name stays, so it goes on, and the other is a copy."""
    path = put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    os.link(path, path.with_name("two.jsonl"))
    for number in (2, 3):
        add(path, lines("claude-code", number, number + 1))
        bring(log, tmp_path)
        assert (outputs(log), streams(log)) == (OUTPUT["claude-code"][: number + 1], 2)
        assert_sound(log)
    assert [row[0] for row in rows(log, "SELECT lines FROM gen_spans")] == [2, 2, 2, 2]


def test_an_inode_that_is_used_again(log: Log, tmp_path: Path) -> None:
    """A new file that got the number of one that was deleted is read whole."""
    path = put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    path.rename(path.with_name("reused.jsonl"))
    path.with_name("reused.jsonl").write_bytes(b"".join(answer(number) + b"\n" for number in (7, 8, 9)))
    assert bring(log, tmp_path).new == 3
    assert outputs(log) == [101, 102, 107, 108, 109]
    assert_sound(log)


# the end of a file


@EVERY_CLIENT
def test_a_torn_last_line(client: str, log: Log, tmp_path: Path) -> None:
    """It is said by every import as long as it is there, read when it is whole, and then counted once (OBS-49)."""
    whole = LINES[client][1]
    path = put(tmp_path, lines(client, 0, 1) + whole[:40], FILES[client])
    report = bring(log, tmp_path, client)
    assert (report.lines, report.torn, report.malformed, report.clean) == (1, 1, 0, False)
    head = log.head_position()
    report = bring(log, tmp_path, client)
    assert (report.lines, report.torn, report.clean, log.head_position()) == (0, 1, False, head)
    add(path, whole[40:60])
    report = bring(log, tmp_path, client)
    assert (report.lines, report.torn, report.clean, log.head_position()) == (0, 1, False, head)
    add(path, whole[60:] + b"\n")
    report = bring(log, tmp_path, client)
    assert (report.lines, report.torn, report.clean, report.new) == (1, 0, True, 1)
    assert outputs(log) == OUTPUT[client][:2]
    assert_sound(log)


@EVERY_CLIENT
def test_a_file_that_is_one_torn_line(client: str, log: Log, tmp_path: Path) -> None:
    """Nothing was read of it, and that is said until there is something."""
    path = put(tmp_path, LINES[client][0][:30], FILES[client])
    for _ in range(2):
        report = bring(log, tmp_path, client)
        assert (report.lines, report.torn) == (0, 1)
        assert types(log) == ["source.opened", "lines.observed"]
    add(path, LINES[client][0][30:] + b"\n")
    report = bring(log, tmp_path, client)
    assert (report.lines, report.torn, outputs(log)) == (1, 0, OUTPUT[client][:1])
    assert_sound(log)


@EVERY_CLIENT
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_last_line_without_its_newline(client: str, newline: bytes, log: Log, tmp_path: Path) -> None:
    """It is whole and read at once; the newline that comes later is no line of its own."""
    one, two, three, _ = LINES[client]
    path = put(tmp_path, one + newline + two, FILES[client])
    report = bring(log, tmp_path, client)
    assert (report.lines, report.torn, report.usage_rows) == (2, 0, 2)
    add(path, newline)
    assert bring(log, tmp_path, client).lines == 0
    add(path, three)
    assert bring(log, tmp_path, client).lines == 1
    add(path, newline + LINES[client][3] + newline)
    assert bring(log, tmp_path, client).lines == 1
    assert outputs(log) == OUTPUT[client]
    assert_sound(log)


@EVERY_CLIENT
def test_an_empty_file_that_grows(client: str, log: Log, tmp_path: Path) -> None:
    """A file without a byte is a source without a line, however often it is looked at."""
    path = put(tmp_path, b"", FILES[client])
    for _ in range(2):
        report = bring(log, tmp_path, client)
        assert (report.files, report.lines, report.clean) == (1, 0, True)
        assert types(log) == ["source.opened"]
    add(path, lines(client, 0, 2))
    assert bring(log, tmp_path, client).lines == 2
    assert outputs(log) == OUTPUT[client][:2]
    assert_sound(log)


# packed files


def pack(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


def test_a_packed_file(log: Log, tmp_path: Path) -> None:
    """It is read as what it holds; packed again with more lines, only those are new."""
    name = FILES["codex"] + ".zst"
    path = put(tmp_path, pack(lines("codex", 0, 2)), name)
    assert bring(log, tmp_path, "codex").lines == 2
    head = log.head_position()
    assert bring(log, tmp_path, "codex").lines == 0
    assert log.head_position() == head
    path.write_bytes(pack(lines("codex", 0, 4)))
    assert bring(log, tmp_path, "codex").lines == 2
    assert types(log, head) == ["lines.observed"]
    assert outputs(log) == OUTPUT["codex"]
    assert_sound(log)


def test_a_session_that_is_packed_later(log: Log, tmp_path: Path) -> None:
    """The client packs an old session and removes the plain file: the same session, counted once."""
    path = put(tmp_path, lines("codex", 0, 3), FILES["codex"])
    bring(log, tmp_path, "codex")
    path.unlink()
    put(tmp_path, pack(lines("codex", 0, 3)), FILES["codex"] + ".zst")
    assert bring(log, tmp_path, "codex").new == 0
    assert outputs(log) == OUTPUT["codex"][:3]
    assert_sound(log)


@pytest.mark.parametrize("content", [b"", b"no zstd", pack(lines("codex", 0, 4))[:-5]], ids=["empty", "other", "cut"])
def test_a_packed_file_that_is_none(content: bytes, log: Log, tmp_path: Path) -> None:
    """It is named, what else there is is imported, and it is read when it is whole."""
    path = put(tmp_path, content, ".codex/sessions/rollout-broken.jsonl.zst")
    put(tmp_path, lines("codex", 0, 2), FILES["codex"])
    report = bring(log, tmp_path, "codex")
    if content:
        assert (len(report.problems), report.clean) == (1, False)
        assert str(path) in report.problems[0]
    assert outputs(log) == OUTPUT["codex"][:2]
    path.write_bytes(pack(lines("codex", 0, 2)))
    assert bring(log, tmp_path, "codex").clean
    assert len(outputs(log)) == 4
    assert_sound(log)


# other programs at the same time, and a sudden end


def command(*words: object) -> list[str]:
    """Return the command line of a command, without this process's folder, variables and site of the user."""
    return [sys.executable, "-I", "-m", "ledger", *(str(word) for word in words)]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Counter[tuple[Any, ...]]]]:
    """A home of 20 MB, which several processes read, and the account of an import that nothing disturbed."""
    home = tmp_path_factory.mktemp("large") / "home"
    tool = ROOT / "tests" / "tools" / "gen_claude_logs.py"
    subprocess.run([sys.executable, tool, home, "--mb", "20", "--seed", "6"], check=True, capture_output=True)
    for tree in ("fork", "old-0.98.0-fork", "sub-agents"):
        shutil.copytree(CASES / "real-codex" / tree / ".codex", home / ".codex", dirs_exist_ok=True)
    with Log.create(home.parent / "ledger.db") as log:
        run_import(log, CLIENTS, home, use_environment=False)
        assert_sound(log)
        return home, accounts(log)


def test_two_imports_at_once(large: Any, tmp_path: Path, soak: Soak) -> None:
    """Two processes read the same files into one log: both end well, and the account is that of one (OBS-49)."""
    home, expected = large
    for number in soak.rounds(2, 40):
        place = tmp_path / f"{number}.db"
        words = command("import", "--strict", "--home", home, "--db", place)
        both = []
        for _ in range(2):
            both.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            time.sleep(soak.random.choice((0, 0, soak.random.uniform(0, 0.2))))
        said = [(one.communicate(timeout=60)[0], one.returncode) for one in both]
        assert [code for _, code in said] == [0, 0], said
        with Log.open(place) as log:
            assert accounts(log) == expected
            assert_sound(log)


def test_killed_at_any_instant(large: Any, tmp_path: Path, soak: Soak) -> None:
    """SIGKILL in the middle; a new process completes what was begun, and the account is the same (OBS-49)."""
    home, expected = large
    reached = []
    for number in soak.rounds(5, 100):
        place = tmp_path / f"{number}.db"
        words = command("import", "--home", home, "--db", place)
        for _ in range(soak.random.choice((1, 1, 3))):
            child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(soak.random.uniform(0.08, 0.3))
            child.kill()
            assert child.wait() in (-signal.SIGKILL, 0)
        reached.append(events_in(place))
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        with Log.open(place) as log:
            assert accounts(log) == expected
            assert_sound(log)
        place.unlink()
    print("events when it was killed:", reached)


def events_in(place: Path) -> int:
    """Return how many events a log has, 0 where it is not even made."""
    try:
        with Log.open(place, readonly=True) as log:
            return log.head_position()
    except Exception:
        return 0


KILLED_BETWEEN = """
import os, signal, sys
from pathlib import Path
from ledger.log.log import Log
from ledger.log.sqlite_log import SqliteLog
from ledger.sources import importer, lines, reading

home, place, after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
lines.BLOCK_BYTES, reading.OBSERVATIONS_PER_EVENT, importer.BATCH_EVENTS = 300, 2, 1
importer.FIRST_BATCH_EVENTS = 1
append = SqliteLog.append

def counted(log, appends, blobs=()):
    global after
    found = append(log, appends, blobs)
    after -= 1
    if not after:
        os.kill(os.getpid(), signal.SIGKILL)
    return found

SqliteLog.append = counted
with Log.create(place) as log:
    importer.run_import(log, ("claude-code", "codex"), home, use_environment=False)
print("done")
"""
"""An import in as many commits as can be, which kills itself after one of them."""


@EVERY_CLIENT
def test_killed_between_the_commits_of_one_file(client: str, tmp_path: Path) -> None:
    """A file that needs several commits is read on from the last, whichever that was (OBS-49).

    The file does not change any more: had an earlier commit said how large it is, nobody would look at it again.
    """
    plan = total(9, rate_limits={"plan_type": "plus"}) if client == "codex" else answer(9)
    put(tmp_path, lines(client, 0, 4) + plan + b"\n", FILES[client])
    with Log.create(tmp_path / "whole.db") as whole:
        bring(whole, tmp_path, client)
        expected = accounts(whole), rows(whole, "SELECT size, billing FROM gen_sources")
    for after in range(1, 30):
        place = tmp_path / f"{after}.db"
        words = [sys.executable, "-I", "-c", KILLED_BETWEEN, str(tmp_path), str(place), str(after)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) in ((-signal.SIGKILL, ""), (0, "done\n")), done.stderr
        with Log.open(place) as log:
            bring(log, tmp_path, client)
            assert (accounts(log), rows(log, "SELECT size, billing FROM gen_sources")) == expected
            assert_sound(log)
        if done.returncode == 0:
            break
    assert 4 <= after < 29  # it did need several commits, and each of them was the last one once


# what may not be read

AS_NOBODY = """
import contextlib, io, os, pathlib, sys, tempfile
from ledger.cli import run

with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    db = os.path.join(folder, "ledger.db")
    run(["import", "--home", sys.argv[1], "--db", db])  # what nobody may not read is loaded before: the modules
    for format_ in ("table", "json", "csv"):
        run(["report", "--db", db, "--format", format_])
        run(["import", "--home", folder, "--db", db, "--format", format_])
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
sys.exit(run(sys.argv[2:]))
"""
"""A command of another user. To root no permission applies, so root becomes nobody first."""


def as_nobody(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command as a user to whom permissions apply."""
    line = [sys.executable, "-I", "-c", AS_NOBODY, str(SAMPLE), *(str(word) for word in words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, cwd="/")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that another user reaches and may write, which pytest's own folders are not."""
    before = os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="tallybook-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
    os.umask(before)


HIDDEN = {
    "a file": ".claude/projects/p/s.jsonl",
    "a project's folder": ".claude/projects/p",
    "all of a client's": ".claude/projects",
    "the client's own folder": ".claude",
}


@pytest.mark.parametrize("what", HIDDEN)
def test_what_may_not_be_read_is_named_and_the_rest_is_imported(what: str, public: Path) -> None:
    """A file or folder without permission: a line each, exit 1 under --strict, and nothing else is left out."""
    home, place = public / "home", public / "ledger.db"
    put(home, lines("claude-code", 0, 1))
    put(home, lines("claude-code", 1, 2), ".config/claude/projects/q/t.jsonl")
    put(home, lines("codex", 0, 2), FILES["codex"])
    hidden = home / HIDDEN[what]
    mode = hidden.stat().st_mode
    hidden.chmod(0)
    for strict, code in ((["--strict"], 1), ([], 0)):
        done = as_nobody("import", "--home", home, "--db", place, "--format", "json", *strict)
        assert done.returncode == code, done.stderr
        sources = {source["client"]: source for source in json.loads(done.stdout)["sources"]}
        assert len(sources["claude-code"]["problems"]) == 1
        assert str(hidden) in sources["claude-code"]["problems"][0]
        assert sources["codex"]["problems"] == []
        assert done.stderr.count("\n") == 1
        assert str(hidden) in done.stderr and "Permission denied" in done.stderr
    with Log.open(place) as log:
        assert sorted(outputs(log)) == [100, 100, 102]
        assert_sound(log)
    hidden.chmod(mode)
    done = as_nobody("import", "--home", home, "--db", place, "--strict")
    assert (done.returncode, done.stderr) == (0, "")
    with Log.open(place) as log:
        assert sorted(outputs(log)) == [100, 100, 101, 102]
        assert_sound(log)


def test_a_file_that_vanishes_while_it_is_looked_for(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that removes a session at that moment hides none of the others in its folder."""
    for number in range(4):
        put(tmp_path, answer(number) + b"\n", f".claude/projects/p/{number}.jsonl")
    put(tmp_path, b"", ".claude/projects/p/gone.jsonl")
    scandir = os.scandir

    class Gone:
        """An entry whose file was removed after it was listed."""

        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name, self.path, self.is_dir, self.is_file = entry.name, entry.path, entry.is_dir, entry.is_file

        def stat(self) -> os.stat_result:
            return os.stat(self.path + ".gone")

    class Listing:
        def __init__(self, folder: str) -> None:
            self.given = scandir(folder)

        def __enter__(self) -> Iterator[Any]:
            return (Gone(entry) if entry.name == "gone.jsonl" else entry for entry in self.given)

        def __exit__(self, *_: object) -> None:
            self.given.close()

    monkeypatch.setattr(os, "scandir", Listing)
    report = bring(log, tmp_path)
    assert (report.files, report.new, report.problems) == (4, 4, [])
    assert_sound(log)


# rubbish


def test_rubbish_between_the_lines(log: Log, tmp_path: Path, soak: Soak) -> None:
    """Random bytes, NULs and half lines: every whole response counts, and what is malformed is counted too."""
    rng = soak.random
    for number in soak.rounds(3, 300):
        content, expected = b"", 0
        for one in range(20):
            kind = rng.choice(("answer", "answer", "bytes", "nul", "half", "blank"))
            if kind == "answer":
                line = answer(one, session=f"s{number}", message={"id": f"msg_{number}_{one}"})
                expected += 1
            elif kind == "bytes":
                line = b"?" + bytes(rng.randrange(256) for _ in range(rng.randrange(300))).replace(b"\n", b"\r")
            elif kind == "nul":
                line = b"\0" * rng.randrange(1, 50)
            elif kind == "half":
                line = answer(one)[: rng.randrange(1, 100)]
            else:
                line = b" " * rng.randrange(3)
            content += line + b"\n"
        path = put(tmp_path, content, f".claude/projects/p/{number}.jsonl")
        report = bring(log, tmp_path)
        assert (report.lines, report.new, report.torn) == (20, expected, 0)
        blank = sum(not line.strip() for line in content.split(b"\n")[:-1])
        assert report.malformed == 20 - expected - blank
        path.unlink()
    assert_sound(log)


@EVERY_CLIENT
def test_a_file_that_is_no_text_at_all(client: str, log: Log, tmp_path: Path) -> None:
    """A picture under a session's name: malformed lines or a torn one, no response, no error."""
    put(tmp_path, Random(5).randbytes(200_000), FILES[client])
    report = bring(log, tmp_path, client)
    assert (report.files, report.new, report.problems) == (1, 0, [])
    assert report.malformed > 100
    assert not report.clean
    assert_sound(log)


def test_a_name_that_is_no_text(log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file and a folder whose names are no UTF-8 are read like any other, and found again."""
    folder = put(tmp_path, lines("claude-code", 0, 1)).parent
    for client, line in (("claude-code", answer(7)), ("codex", total(1))):
        below = folder if client == "claude-code" else tmp_path / ".codex/sessions"
        (below / os.fsdecode(b"\xff\xfe")).mkdir(parents=True)
        with open(os.fsencode(below) + b"/\xff\xfe/\xe9.jsonl", "wb") as file:  # noqa: PTH123
            file.write(line.replace(b'"sessionId":"s",', b"") + b"\n")
    with open(os.fsencode(tmp_path) + b"/.codex/sessions/\xff\xfe/\xe9.jsonl.zst", "wb") as file:  # noqa: PTH123
        file.write(b"no zstd")
    assert bring(log, tmp_path).new == 2
    head = log.head_position()
    for format_ in ("table", "json", "csv"):
        assert run(["import", "--home", str(tmp_path), "--db", str(log.path), "--format", format_]) == 0
        out, err = capsys.readouterr()
        assert "is not a whole zstd file" in err
        out.encode(), err.encode()
    assert log.head_position() == head
    assert_sound(log)


# where files are looked for


def test_places_named_by_the_environment(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLAUDE_CONFIG_DIR is a list with commas, CODEX_HOME one folder; then the usual places do not count.

    With --home they do not hold: they belong to the user's own home.
    """
    put(tmp_path / "home", answer(1) + b"\n")
    put(tmp_path / "one", answer(2) + b"\n", "projects/p/a.jsonl")
    put(tmp_path / "two", answer(3) + b"\n", "projects/p/b.jsonl")
    put(tmp_path / "codex", lines("codex", 0, 1), "sessions/rollout-s.jsonl")
    put(tmp_path / "codex", lines("codex", 0, 2), "archived_sessions/rollout-t.jsonl")
    put(tmp_path / "home", lines("codex", 0, 3), ".codex/sessions/rollout-u.jsonl")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f" {tmp_path}/one , {tmp_path}/two,,{tmp_path}/none")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    claude, codex = run_import(log, CLIENTS, tmp_path / "home", use_environment=True)
    assert (claude.files, claude.roots) == (2, [f"{tmp_path}/one/projects", f"{tmp_path}/two/projects"])
    assert (codex.files, codex.roots) == (2, [f"{tmp_path}/codex/archived_sessions", f"{tmp_path}/codex/sessions"])
    assert sorted(outputs(log)) == [100, 100, 100, 102, 103]
    claude, codex = run_import(log, CLIENTS, tmp_path / "home", use_environment=False)
    assert (claude.new, codex.new) == (1, 3)
    assert_sound(log)


@pytest.mark.parametrize("variable", ["CLAUDE_CONFIG_DIR", "CODEX_HOME"])
def test_a_home_that_nobody_has(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`~name` of a user that there is not: one line that names the variable."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "~no-such-user/logs")
    assert run(["import", "--db", str(tmp_path / "ledger.db")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ledger: {variable}: ~no-such-user/logs: ")
    assert err.count("\n") == 1


def test_a_root_by_two_names_is_one(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to a folder that is looked at anyway adds nothing; a link to another folder does."""
    put(tmp_path, lines("claude-code", 0, 2))
    put(tmp_path / "other", answer(3) + b"\n", "projects/p/a.jsonl")
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config/claude").symlink_to(tmp_path / ".claude")
    report = bring(log, tmp_path)
    assert (report.files, report.lines, len(report.roots)) == (1, 2, 1)
    (tmp_path / ".config/claude").unlink()
    (tmp_path / ".config/claude").symlink_to(tmp_path / "other")
    report = bring(log, tmp_path)
    assert (report.files, report.lines, len(report.roots)) == (2, 1, 2)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{tmp_path}/.claude,{tmp_path}/.claude/,{tmp_path}/other/../.claude")
    report = run_import(log, CLIENTS, tmp_path, use_environment=True)[0]
    assert (report.files, report.new) == (1, 0)
    assert sum(row[0] for row in rows(log, "SELECT lines FROM gen_spans")) == 3
    assert_sound(log)


# what reaches a terminal

NASTY = "a\x1b[31mb\x9b31mc\u202ed\ne\x07\u2066f\x7f\r\u200b"
"""A colour by ESC, one by a C1 control, a turned direction, a new line, a bell, an isolate, DEL, CR, a hidden sign."""
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")
"""What of it must not reach a terminal. A new line is looked for by counting lines."""


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """A home in which model, branch, folder, session, agent, error and path hold control characters."""
    home = tmp_path / "home"
    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"subagent_type": NASTY}}
    more: dict[str, Any] = {"session": NASTY, "cwd": NASTY, "gitBranch": NASTY}
    found = [
        answer(1, model=NASTY, **more, message={"content": [task], "id": NASTY}),
        answer(2, model=NASTY, **more, agentId="a1", isSidechain=True, attributionAgent=NASTY),
        answer(3, model=NASTY, **more, agentId=NASTY, isSidechain=True),
        answer(4, **more, isApiErrorMessage=True, message={"content": [{"type": "text", "text": NASTY}]}),
        b"{" + NASTY.replace("\n", "").encode(),
    ]
    put(home, b"\n".join(found) + b"\n" + b'{"half', ".claude/projects/p/s.jsonl")
    meta = {"id": NASTY, "cwd": NASTY, "model_provider": NASTY, "cli_version": NASTY, "git": {"branch": NASTY}}
    head = {"timestamp": "2026-03-10T12:00:00Z", "type": "session_meta", "payload": meta}
    turn = {"timestamp": "2026-03-10T12:00:00Z", "type": "turn_context", "payload": {"model": NASTY}}
    rollout = [json.dumps(head).encode(), json.dumps(turn).encode(), total(1)]
    put(home, b"\n".join(rollout) + b"\n", f".codex/sessions/{NASTY}/rollout-{NASTY}.jsonl")
    put(home, b"no zstd", f".codex/sessions/{NASTY}/{NASTY}.jsonl.zst")
    return home


def test_no_control_character_reaches_the_terminal(
    nasty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What logs and names hold is shown as escapes: in every format, grouping and command, and in what is said of
    problems."""
    monkeypatch.setenv("COLUMNS", "5000")
    place = ["--db", str(tmp_path / "ledger.db")]
    formats = ("table", "json", "csv")
    words = [["import", "--home", str(nasty), "--format", format_, *place] for format_ in formats]
    for by in ("session", "project", "branch", "client", "who", "agent", "provider", "model", "tool", "status"):
        words += [["report", "--by", by, "--format", format_, *place] for format_ in formats]
    words += [["report", "--by", "project,branch,model,agent", "--format", format_, *place] for format_ in formats]
    words += [["show", NASTY, "--format", format_, *place] for format_ in formats]
    words += [["show", "no" + NASTY, *place], ["report", "--by", NASTY, *place], ["import", NASTY, *place]]
    words += [[name, "--format", format_, *place] for name in ("tail", "verify") for format_ in formats]
    words += [["doctor", "--home", str(nasty), "--format", format_, *place] for format_ in formats]
    words += [["prices", "list", *place], ["prices", "show", NASTY, *place], ["reprice", *place]]
    said = ""
    for line in words:
        run(line)
        out, err = capsys.readouterr()
        assert out or err, line
        assert RAW.findall(out + err) == [], line
        assert err.count("\n") == err.count("\nledger: ") + bool(err), line
        if line[0] == "report" and "csv" in line:
            assert out.count("\n") <= 7, line
        said += out + err
    for shown in ("\\x1b[31m", "\\u001b[31m", "\\x9b", "\\u202e", "\\x0a", "is not a whole zstd file"):
        assert shown in said
    with Log.open(tmp_path / "ledger.db") as log:
        assert_sound(log)


# a disk without room


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A function that makes a file system of a given size, or gives it another size; skips where none can be made."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("only root can mount a small file system")
    mounted = False

    def sized(size: str) -> Path:
        nonlocal mounted
        options = f"{'remount,' if mounted else ''}size={size},mode=0755"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("this system mounts no small file system")
        mounted = True
        return folder

    yield sized
    if mounted:
        subprocess.run(["umount", folder], check=True)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a command ends with, exit code 2."""
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("ledger: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_disk_that_fills_up(large: Any, disk: Any, tmp_path: Path) -> None:
    """One line and exit 2, nothing half-written; a report answers with what there is; with room it completes.

    OBS-49.
    """
    home, expected = large
    reached = set()
    for kilobytes in (200, 500, 900, 1300):
        place = disk(f"{kilobytes}k") / "ledger.db"
        words = command("import", "--home", home, "--db", place)
        stopped = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        if stopped.returncode:
            line = refused(stopped)
            assert "free some space" in line or "free space" in line, line
        else:  # the log had room, its accounts had not
            assert "accounts cannot be written" in stopped.stdout + stopped.stderr, stopped
        told = subprocess.run(
            command("report", "--db", place, "--format", "json"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        disk("64m")
        if told.returncode:  # there was no room even to begin
            assert kilobytes == 200, told
            refused(told)
        with Log.open(place, create=True) as log:
            assert_sound(log)
            reached.add(log.head_position())
            if not told.returncode:
                with snapshot(log) as view:
                    assert json.loads(told.stdout) == as_json(view, *asked(view))
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        with Log.open(place) as log:
            assert accounts(log) == expected
            assert_sound(log)
        for one in place.parent.iterdir():
            one.unlink()
    assert len(reached) > 2  # it was stopped at several places, also after some commits


def asked(view: Any) -> Any:
    """Return the question of a report without options, and its answer."""
    question = make_question("session")
    return question, ask(view, question)


def test_a_file_that_may_not_grow(large: Any, tmp_path: Path) -> None:
    """The system's limit on a file's size, as under a quota: one line, exit 2; without it the import completes."""
    home, expected = large
    place = tmp_path / "ledger.db"
    words = command("import", "--home", home, "--db", place)
    for kilobytes in (100, 400, 800):
        limit = (kilobytes * 1024, resource.RLIM_INFINITY)
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False,
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        )  # fmt: skip
        refused(done)
        with Log.open(place, create=True) as log:
            assert_sound(log)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with Log.open(place) as log:
        assert accounts(log) == expected
        assert_sound(log)


@pytest.mark.parametrize("behind_by", [0, 1])
@pytest.mark.parametrize("kilobytes", [0, 80])
def test_a_report_on_a_full_disk(kilobytes: int, behind_by: int, disk: Any, tmp_path: Path) -> None:
    """Nothing can be written: the report answers with the right figures, also where the accounts are behind.

    Where not even the indexes of the write-ahead files (32 KB each) have room, it may say so instead.
    """
    place = disk("2m") / "ledger.db"
    put(tmp_path, lines("claude-code", 0, 2))
    with Log.create(place) as log:
        bring(log, tmp_path)
        if behind_by:
            behind(log, tmp_path, lines("claude-code", 2, 4))
    with pytest.raises(OSError, match="No space left"), (place.parent / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    os.truncate(place.parent / "filler", (place.parent / "filler").stat().st_size - kilobytes * 1024)
    words = command("report", "--db", place, "--format", "json")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode and not kilobytes:
        refused(done)
        return
    with Log.open(place, readonly=True) as log:
        (position,) = log.accounts.execute("SELECT position FROM projections").fetchone()
        assert position == log.head_position() - behind_by  # the answer came from memory
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["total"]["tokens"]["output"] == (410 if behind_by else 203)
    (place.parent / "filler").unlink()
    with Log.open(place) as log:
        assert_sound(log)


# a log that may not be written


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("behind_by", [0, 1])
def test_a_report_of_a_log_of_somebody_else(behind_by: int, shared: bool, public: Path, tmp_path: Path) -> None:
    """Neither the file nor its folder can be written: the right figures, also where the accounts are behind.

    Importing into it is refused in one line, and nothing is left behind.
    """
    folder = public / "books"
    folder.mkdir(0o755)
    place = folder / "ledger.db"
    home = public / "home"
    path = put(home, lines("claude-code", 0, 2))
    with Log.create(place) as log:
        bring(log, home)
        if behind_by:
            behind(log, home, lines("claude-code", 2, 4))
    Path(f"{place}.lock").unlink()
    place.chmod(0o444)
    Path(f"{place}.accounts").chmod(0o444 if shared else 0o600)
    folder.chmod(0o555)
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    done = as_nobody("report", "--db", place, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["total"]["tokens"]["output"] == (410 if behind_by else 203)
    add(path, answer(9) + b"\n")
    line = refused(as_nobody("import", "--home", home, "--db", place))
    assert str(place) in line and "permissions" in line
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before
    assert sorted(before) == ["ledger.db", "ledger.db.accounts"]


def test_accounts_of_a_newer_version_are_left_alone(log: Log, tmp_path: Path) -> None:
    """A report answers from memory, an import appends, neither touches the newer rows; the twin: an older version's
    rows are folded anew (OBS-54)."""
    put(tmp_path, lines("claude-code", 0, 2))
    bring(log, tmp_path)
    kept = kept_rows(log)
    log.accounts.execute("UPDATE projections SET version = ?", (store.VERSION + 1,))
    with snapshot(log) as view:
        assert (view.store.temporary, view.folded) == (True, log.head_position())
    assert outputs(log) == [101, 102]
    add(tmp_path / FILES["claude-code"], lines("claude-code", 2, 3))
    report = bring(log, tmp_path)
    assert (report.new, outputs(log)) == (1, [101, 102, 103])
    with pytest.raises(LogTooNew, match="update tallybook"):
        catchup.rebuild(log)
    assert kept_rows(log) == kept
    assert log.accounts.execute("SELECT count(*), max(version) FROM projections").fetchone() == (1, store.VERSION + 1)
    assert_sound(log)
    log.accounts.execute("UPDATE projections SET version = ?", (store.VERSION - 1,))
    assert outputs(log) == [101, 102, 103]
    assert log.accounts.execute("SELECT count(*), max(version) FROM projections").fetchone() == (1, store.VERSION)
    assert_sound(log)


def kept_rows(log: Log) -> list[tuple[Any, ...]]:
    """Return the spans as they are written, whoever wrote them."""
    generation = log.accounts.execute("SELECT generation FROM projections").fetchone()[0]
    return list(log.accounts.execute(f"SELECT * FROM g{generation}_spans"))


# the clock


def test_a_clock_that_jumps_back(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two imports it is a year earlier: what happened when is read from the files, so nothing changes."""
    path = put(tmp_path, lines("claude-code", 0, 2))
    put(tmp_path, lines("codex", 0, 2), FILES["codex"])
    bring(log, tmp_path)
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 365 * 86400 * 10**9)
    add(path, lines("claude-code", 2, 4))
    assert bring(log, tmp_path).new == 2
    run_import(log, CLIENTS, tmp_path, use_environment=False, billing="api")
    at = [event.at for event in log.all_events()]
    assert at != sorted(at)
    with Log.create(tmp_path / "whole.db") as whole:
        bring(whole, tmp_path)
        assert accounts(whole) == accounts(log)
    assert_sound(log)


# how it is billed


def test_billing_is_remembered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said once, it holds for what was read before and for new files of the same folder; the heading says so."""
    place = ["--db", str(tmp_path / "ledger.db")]
    words = ["import", "--home", str(tmp_path), *place]
    put(tmp_path, lines("claude-code", 0, 1))
    assert run(words) == 0
    run(["report", *place])
    assert "cost USD" in capsys.readouterr().out
    assert run([*words, "--billing", "subscription"]) == 0
    put(tmp_path, lines("claude-code", 1, 2), ".claude/projects/q/t.jsonl")
    assert run(words) == 0
    capsys.readouterr()
    run(["report", *place])
    out = capsys.readouterr().out
    assert "at list price USD" in out and "cost USD" not in out
    with Log.open(tmp_path / "ledger.db") as log:
        assert rows(log, "SELECT DISTINCT billing FROM gen_sources") == [("subscription",)]
        head = log.head_position()
        assert run([*words, "--billing", "subscription"]) == 0
        assert log.head_position() == head  # it is no news
        put(tmp_path, lines("claude-code", 2, 3), ".config/claude/projects/r/u.jsonl")
        assert run(words) == 0
        assert sorted(rows(log, "SELECT DISTINCT billing FROM gen_sources")) == [("",), ("subscription",)]
        assert run([*words, "--billing", "api"]) == 0
        assert rows(log, "SELECT DISTINCT billing FROM gen_sources") == [("api",)]
        assert_sound(log)
    capsys.readouterr()
    assert run([*words, "--billing", "free"]) == 2
    assert "use api or subscription" in capsys.readouterr().err


def test_a_plan_that_codex_names_is_a_subscription(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Limits that belong to a plan say that the use is not paid by the token; without the name nothing is said."""
    place = ["--db", str(tmp_path / "ledger.db")]
    words = ["import", "--home", str(tmp_path), *place]
    path = put(tmp_path, total(1, rate_limits={"plan_type": None}) + b"\n", FILES["codex"])
    with Log.create(tmp_path / "ledger.db") as log:
        assert run(words) == 0
        assert rows(log, "SELECT billing FROM gen_sources") == [("",)]
        run(["report", *place])
        assert "cost USD" in capsys.readouterr().out
        add(
            path,
            total(2, rate_limits={"plan_type": "plus"}) + b"\n" + total(3, rate_limits={"plan_type": "pro"}) + b"\n",
        )
        assert run(words) == 0
        assert rows(log, "SELECT billing FROM gen_sources") == [("subscription",)]
        assert types(log).count("source.billed") == 1
        capsys.readouterr()
        run(["report", *place])
        assert "at list price USD" in capsys.readouterr().out
        add(path, total(4, rate_limits={"plan_type": "plus"}) + b"\n")
        assert run(words) == 0
        assert types(log).count("source.billed") == 1
        assert run([*words, "--billing", "api"]) == 0
        add(path, total(5, rate_limits={"plan_type": "plus"}) + b"\n")
        assert run(words) == 0
        assert rows(log, "SELECT billing FROM gen_sources") == [("api",)]  # what the user said stands
        assert_sound(log)


# prices


def test_a_price_that_was_set_before_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user's own price wins over the book, the newest over the older; what was priced keeps its price (OBS-51)."""
    place = ["--db", str(tmp_path / "ledger.db")]

    def set_price(output: int) -> None:
        words = ["prices", "set", MODEL, "--input", "0", "--output", str(output), "--cache-read", "0",
                 "--cache-write-5m", "0", "--cache-write-1h", "0"]  # fmt: skip
        assert run([*words, *place]) == 0

    def costs() -> list[int]:
        assert run(["import", "--home", str(tmp_path), *place]) == 0
        with Log.open(tmp_path / "ledger.db") as log:
            assert_sound(log)
            return [row[0] for row in rows(log, "SELECT cost_nanousd FROM gen_spans ORDER BY occurred_at")]

    set_price(10)
    set_price(20)
    path = put(tmp_path, lines("claude-code", 0, 1))
    assert costs() == [101 * 20_000]
    set_price(30)
    add(path, lines("claude-code", 1, 2))
    assert costs() == [101 * 20_000, 102 * 30_000]
    set_price(10)
    add(path, lines("claude-code", 0, 3))  # copies of the first two: they keep their price
    assert costs() == [101 * 20_000, 102 * 30_000, 103 * 10_000]
    put(tmp_path, lines("claude-code", 3, 4), ".claude/projects/q/t.jsonl")
    with Log.create(tmp_path / "other.db") as other:
        bring(other, tmp_path)
        cost = [row[0] for row in rows(other, "SELECT cost_nanousd FROM gen_spans ORDER BY occurred_at")]
        assert cost == [output * 25_000 + 5_000 for output in OUTPUT["claude-code"]]  # the twin: the book's price
    capsys.readouterr()
