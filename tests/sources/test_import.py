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
from ledger.log import sqlite
from ledger.log.log import Log, StreamAppend
from ledger.sources.importer import SourceReport, run_import
from reports.report import as_json
from reports.query import make_question

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
SAMPLE = ROOT / "reports" / "sample"
CLIENTS = ("claude-code", "codex")
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
MODEL = "claude-opus-4-5-20251101"
NOBODY = 65534


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
        return view.store.connection.execute(view.store.named(sql)).fetchall()  # type: ignore[no-any-return]


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
def test_nothing_new(client: str, log: Log, tmp_path: Path) -> None:
    """No event is appended, no event is folded, and the report says so; a touched file is no news."""
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
    with tempfile.TemporaryDirectory() as folder, Log.create(Path(folder) / "other.db") as other:
        repeat(log, other, 0)
        catchup.catch_up(other)
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
