"""Reading lines: blocks in bounded memory, long strings cut to size, and JSON read as JSON however it is written."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.accounts.amounts import AMOUNTS, DIMENSIONS
from ledger.accounts.catchup import snapshot
from ledger.accounts.rows import SpanRow
from ledger.invariants import check
from ledger.log.log import Log
from ledger.sources import lines
from ledger.sources.importer import SourceReport, run_import
from ledger.sources.lines import Block, Shortener, blocks, broken_lines, hits, is_broken, tail_digest

CASES = Path(__file__).parents[1] / "cases"
CLIENTS = ("claude-code", "codex")
FOLDERS = ("import-claude-code", "import-codex", "real-claude-code", "real-codex")
TREES = [
    pytest.param(path.parent, id=f"{folder}/{path.parent.name}")
    for folder in FOLDERS
    for path in sorted((CASES / folder).glob("*/truth.json"))
]


class Soak(Protocol):
    """What the fixture `soak` gives: a seeded random, and how often to repeat."""

    random: random.Random

    def rounds(self, few: int, many: int) -> range: ...


@contextmanager
def sizes(block: int, string: int = 1 << 20, reduced: int = 1 << 20) -> Iterator[None]:
    """Read with other sizes, so that a few bytes meet every border."""
    with patch.multiple(lines, BLOCK_BYTES=block, STRING_BYTES=string, REDUCED_BYTES=reduced):
        yield


def read_blocks(content: bytes, begin: int = 0, end: int | None = None) -> list[Block]:
    """Return the blocks of a file with this content."""
    return list(blocks(io.BytesIO(content), begin, len(content) if end is None else end))


# blocks


PLAIN = st.text(st.characters(min_codepoint=0, max_codepoint=127, exclude_characters='"'), max_size=60)
"""ASCII without quotes: nothing in it is a string that could be cut."""


@given(st.lists(PLAIN.map(lambda text: text.replace("\n", "").encode())), st.booleans(), st.integers(1, 20))
def test_blocks_are_the_file(found: list[bytes], ended: bool, block: int) -> None:
    """Blocks are whole lines, in order, without a gap; only a last one without a newline is torn."""
    content = b"\n".join(found) + (b"\n" if ended else b"")
    with sizes(block):
        got = read_blocks(content)
    assert b"".join(one.content for one in got) == content
    offset = 0
    for number, one in enumerate(got):
        assert (one.offset, one.size) == (offset, len(one.content))
        assert one.torn == (not one.content.endswith(b"\n"))
        assert not one.torn or number == len(got) - 1
        offset += one.size


@given(PLAIN, st.data(), st.integers(1, 9))
def test_a_part_of_a_file(text: str, data: st.DataObject, block: int) -> None:
    """Nothing before `begin` and nothing beyond `end` is read, though the file goes on."""
    content = text.encode()
    begin = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(begin, len(content)))
    with sizes(block):
        got = read_blocks(content, begin, end)
    assert b"".join(one.content for one in got) == content[begin:end]
    assert sum(one.size for one in got) == end - begin
    assert not got or got[0].offset == begin


def test_lines_after_a_long_one_stand_where_they_are() -> None:
    """A line longer than a block is one block of its own size, and the lines behind it keep their offsets."""
    long = json.dumps({"text": "x" * 300, "usage": {"output_tokens": 7}}).encode() + b"\n"
    content = b'{"a":1}\n' + long + b'{"b":2}\n'
    with sizes(64, 16):
        got = read_blocks(content)
    assert [json.loads(one.content) for one in got] == [
        {"a": 1},
        {"text": "x" * 16, "usage": {"output_tokens": 7}},
        {"b": 2},
    ]
    assert [one.offset for one in got] == [0, 8, 8 + len(long)]
    assert sum(one.size for one in got) == len(content)
    assert not any(one.torn for one in got)


def test_a_long_line_without_an_end_is_torn() -> None:
    """A long last line that is still being written is torn, and stands for all of its bytes."""
    content = b'{"a":1}\n{"text":"' + b"x" * 300
    with sizes(64, 16):
        *_, last = read_blocks(content)
    assert (last.torn, last.offset, last.size) == (True, 8, len(content) - 8)


@pytest.mark.parametrize("left", [0, 5, 8, 20, 60])
def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, left: int) -> None:
    """What is gone is not read: no error, no block beyond the new end, and what was there first is whole."""
    path = tmp_path / "shrinking.jsonl"
    path.write_bytes(b'{"a":1}\n' * 12)
    with sizes(8), path.open("rb", buffering=0) as file:
        reading = blocks(file, 0, 96)
        assert next(reading).content == b'{"a":1}\n'
        os.truncate(path, left)
        rest = list(reading)
    assert b"".join(one.content for one in rest) == (b'{"a":1}\n' * 12)[8:left]
    assert all(one.offset + one.size <= left for one in rest)


def write_long_line(path: Path, unit: bytes, size: int) -> None:
    """Write one response whose text is `unit` over and over, its usage behind it."""
    head = (
        b'{"type":"assistant","sessionId":"s","uuid":"u","timestamp":"2026-03-10T12:00:00Z","requestId":"r",'
        b'"message":{"id":"msg_1","model":"claude-opus-4-5-20251101","stop_reason":"end_turn","content":'
        b'[{"type":"text","text":"'
    )
    with path.open("wb") as file:
        file.write(head)
        piece = unit * ((1 << 20) // len(unit))
        for _ in range(size // len(piece)):
            file.write(piece)
        file.write(b'"}],"usage":{"input_tokens":3,"output_tokens":70,"cache_read_input_tokens":5}}}\n')


@pytest.mark.parametrize("unit", [b"aGVsbG8gd29ybGQh", "naïve café \U0001f600 ".encode()], ids=["base64", "characters"])
def test_a_line_of_fifty_megabytes(tmp_path: Path, unit: bytes) -> None:
    """It is counted without being held: the import's peak stays far below the line's length (OBS-01)."""
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    write_long_line(folder / "s.jsonl", unit, 50 << 20)
    with Log.open(tmp_path / "ledger.db", create=True) as log:
        tracemalloc.start()
        try:
            (report,) = run_import(log, ("claude-code",), tmp_path / "home", use_environment=False)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (report.lines, report.usage_rows, report.malformed, report.torn) == (1, 1, 0, 0)
        rows = account(log)["spans"]
        assert sound(log)
    assert len(rows) == 1
    assert peak < 24 << 20


def test_a_long_line_of_many_short_strings_stays_small() -> None:
    """Where cutting strings does not help, what is kept ends at a limit, and the line is malformed."""
    content = b'{"usage":[' + b'"a",' * (2 << 20) + b'"a"]}\n'
    file = io.BytesIO(content)
    with sizes(1 << 16, lines.STRING_BYTES, 1 << 18):
        tracemalloc.start()
        try:
            (block,) = blocks(file, 0, len(content))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (block.size, block.torn) == (len(content), False)
    assert len(block.content) <= 1 << 18
    assert is_broken(block.content)
    assert peak < 2 << 20


# the shortener

TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


def dumped(value: object, ascii_: bool) -> bytes:
    """Return JSON, with characters as they are or as escapes; a lone surrogate can only be an escape."""
    text = json.dumps(value, ensure_ascii=ascii_)
    return "".join(f"\\u{ord(char):04x}" if 0xD800 <= ord(char) < 0xE000 else char for char in text).encode()


def in_pieces(text: bytes, borders: list[int]) -> bytes:
    """Return what a shortener makes of a text that it is fed in pieces."""
    shortener = Shortener()
    places = sorted({border % (len(text) + 1) for border in borders})
    for begin, end in zip([0, *places], [*places, len(text)], strict=True):
        shortener.feed(text[begin:end])
    return shortener.content()


def is_shortened(long: Any, short: Any, ascii_: bool, limit: int) -> bool:
    """Return whether `short` is `long` with no more than its long strings cut."""
    if isinstance(long, dict):
        return list(long) == list(short) and all(is_shortened(long[k], short[k], ascii_, limit) for k in long)
    if isinstance(long, list):
        pairs = zip(long, short, strict=True)
        return len(long) == len(short) and all(is_shortened(a, b, ascii_, limit) for a, b in pairs)
    if not isinstance(long, str) or len(dumped(long, ascii_)) - 2 <= limit:
        return bool(long == short)
    # A character may be cut in its middle: one that is replaced, or one half of a pair of escapes.
    units = [text.encode("utf-16-be", "surrogatepass") for text in (long, short.rstrip("�"))]
    return units[0].startswith(units[1]) and len(dumped(short, False)) <= limit + 8


@given(VALUES, st.booleans(), st.lists(st.integers(0, 1 << 16), max_size=6), st.integers(24, 48))
def test_what_is_shortened_is_json(value: Any, ascii_: bool, borders: list[int], limit: int) -> None:
    """Shortened JSON is JSON with the same small values, wherever the pieces' borders fall."""
    with sizes(1, limit):
        short = json.loads(in_pieces(dumped(value, ascii_), borders))
    assert is_shortened(json.loads(dumped(value, ascii_)), short, ascii_, limit)


@given(VALUES, st.booleans(), st.lists(st.integers(0, 1 << 16), max_size=6), st.integers(1, 40))
def test_pieces_make_no_difference(value: Any, ascii_: bool, borders: list[int], limit: int) -> None:
    """The same text comes out whether it is fed at once or in pieces."""
    text = dumped(value, ascii_)
    with sizes(1, limit):
        assert in_pieces(text, borders) == in_pieces(text, [])


def test_every_border_of_an_escape() -> None:
    """An escape that a border splits is kept whole or left out whole, at every place."""
    text = rb'{"a":"\\\"\u00e9\ud83d\ude00\n","b":"\\","c":1}'
    whole = json.loads(text)
    with sizes(1, 64):
        for first in range(len(text) + 1):
            for second in range(first, len(text) + 1):
                assert json.loads(in_pieces(text, [first, second])) == whole
    for limit in range(1, 64):
        with sizes(1, limit):
            short = json.loads(in_pieces(text, list(range(len(text)))))
        assert short["c"] == 1


# which lines are looked into

NEEDLES = (b"usage", b'"user"', b"token_")
PIECES = st.sampled_from(
    [*NEEDLES, b"\n", b"\n\n", b"\r\n", b"usa", b"ge", b'"', b"us", b'er"', b"\\", b"\\u00", b"\\u0075", b"\\u005f",
     b"\\u007A", b"\\u001b", b"\\u00\\u0061", b"5", b"x"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30))
def test_hits_are_those_of_a_plain_search(pieces: list[bytes]) -> None:
    """Exactly the lines that hold a needle, or an escape that may hide one, with the needles that they hold."""
    content = b"".join(pieces)
    expected, begin = [], 0
    for line in content.split(b"\n"):
        which = sum(1 << number for number, needle in enumerate(NEEDLES) if needle in line)
        if re.search(rb"\\u00[567]", line):
            which = (1 << len(NEEDLES)) - 1
        if which:
            expected.append((begin, begin + len(line), which))
        begin += len(line) + 1
    assert list(hits(content, NEEDLES)) == expected


@given(st.dictionaries(st.text(max_size=5), TEXTS, max_size=3), st.booleans(), st.sampled_from(["", " ", "\t", "\r"]))
def test_an_object_is_never_broken(value: dict[str, str], ascii_: bool, blank: str) -> None:
    """A line that holds a JSON object is not taken for a broken one, whatever blanks are around it."""
    assert not is_broken(blank.encode() + dumped(value, ascii_) + blank.encode())


@pytest.mark.parametrize(
    ("content", "broken"),
    [
        (b"", []),
        (b"\n\n \t\r\n", []),
        (b'{"a":1}\n{"b":2}', []),
        (b'{"a":1}\r\n{"b":2}\r\n', []),
        (b'{"a":1}\n{"b":\n{"c":3}\n', [8]),
        (b'"b":2}\n{"c":3}\n', [0]),
        (b'{"a":1}\n\0\0\0\n{"c":3}\n', [8]),
        (b'{"a":"\0"}\n{"c":3}\n', [0]),
        (b"[1]\nnull\n{}\n", [0, 4]),
    ],
)
def test_broken_lines(content: bytes, broken: list[int]) -> None:
    """Half objects, other values and lines with a NUL are found by their ends, and empty lines are not."""
    assert sorted(broken_lines(content)) == broken


def test_the_tail_tells_whether_a_file_only_grew() -> None:
    """The digest before an offset is the same after the file grew, and another one after it was rewritten."""
    before = tail_digest(io.BytesIO(b"a" * 300), 300)
    assert tail_digest(io.BytesIO(b"a" * 300 + b"more"), 300) == before
    assert tail_digest(io.BytesIO(b"b" * 300 + b"more"), 300) != before
    assert tail_digest(io.BytesIO(b"a" * 200), 300) != before


# through the readers

LEFT_OUT = frozenset(("session_key", "turn_key", "dimension_id", "source_position", "source_index", "digest"))
"""Keys of rows that are named below, places in a file, and the digest of a usage object as it was written."""


def sound(log: Log) -> bool:
    """Return whether every invariant of a log holds."""
    wrong = [found for found in check(log, full=True) if not found.ok]
    assert wrong == []
    return True


def account(log: Log) -> dict[str, list[tuple[Any, ...]]]:
    """Return the accounts without what may differ between two writings of one log."""
    spans = ", ".join(f"s.{name}" for name in SpanRow.__struct_fields__ if name not in LEFT_OUT)
    dimensions = ", ".join(f"d.{name}" for name in DIMENSIONS)
    totals = ", ".join(f"t.{name}" for name in (*AMOUNTS, "first_at", "last_at"))
    queries = {
        "spans": f"SELECT {spans}, n.session_id, t.started_at, t.agent_id, {dimensions} FROM gen_spans s "
        "JOIN gen_sessions n ON n.session_key = s.session_key JOIN gen_turns t ON t.turn_key = s.turn_key "
        "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id",
        "totals": f"SELECT t.grain, t.bucket, {totals}, {dimensions} FROM gen_totals t "
        "JOIN gen_dimensions d ON d.dimension_id = t.dimension_id",
        "sessions": "SELECT * FROM gen_sessions",
        "agents": "SELECT * FROM gen_agents",
        "jobs": "SELECT * FROM gen_jobs",
        "turns": "SELECT session_key, agent_id, started_at FROM gen_turns",
    }
    with snapshot(log) as view:
        store = view.store
        return {
            name: sorted(store.connection.execute(store.named(sql)).fetchall(), key=repr)
            for name, sql in queries.items()
        }


def imported(home: Path, database: Path) -> tuple[dict[str, list[tuple[Any, ...]]], list[SourceReport]]:
    """Import a home folder into a new log; return its accounts and the import's reports."""
    with Log.open(database, create=True) as log:
        reports = run_import(log, CLIENTS, home, use_environment=False)
        assert sound(log)
        return account(log), reports


def escaped(text: str, chosen: random.Random, share: float) -> str:
    """Return a JSON string in which a share of the characters are escapes."""
    found = json.dumps(text)[1:-1] if share == 0 else ""
    for char in text if share else "":
        if chosen.random() < share:
            units = char.encode("utf-16-be", "surrogatepass")
            found += "".join(f"\\u{units[n] << 8 | units[n + 1]:04X}" for n in range(0, len(units), 2))
        else:
            found += json.dumps(char)[1:-1]
    return f'"{found}"'


class Style:
    """One of the many ways to write the same JSON: order, blanks, escapes, and what nobody knows beside it."""

    def __init__(self, chosen: random.Random) -> None:
        self.chosen = chosen
        self.order = chosen.choice(["kept", "sorted", "shuffled", "reversed"])
        self.blank = chosen.choice(["", "", " ", "  ", "\t"])
        self.keys = chosen.choice([0.0, 0.0, 0.2, 1.0])
        self.texts = chosen.choice([0.0, 0.0, 0.0, 0.2, 1.0])
        self.nulls, self.unknown = chosen.random() < 0.5, chosen.random() < 0.5
        self.margin = chosen.choice(["", "", " ", "\t "])

    def line(self, value: object) -> str:
        """Return a line."""
        return self.margin + self.text(value) + self.margin

    def text(self, value: object) -> str:
        """Return a value's JSON."""
        blank = self.blank
        if isinstance(value, dict):
            pairs = [
                f"{escaped(key, self.chosen, self.keys)}{blank}:{blank}{self.text(value[key])}"
                for key in self.ordered(value)
            ]
            return "{" + blank + f"{blank},{blank}".join(self.with_strangers(pairs)) + blank + "}"
        if isinstance(value, list):
            return "[" + blank + f"{blank},{blank}".join(self.text(one) for one in value) + blank + "]"
        if isinstance(value, str) and len(value) < 400:
            return escaped(value, self.chosen, self.texts)
        return json.dumps(value)

    def ordered(self, value: dict[str, Any]) -> list[str]:
        """Return an object's keys in this style's order."""
        keys = list(value)
        if self.order == "shuffled":
            self.chosen.shuffle(keys)
        return {"sorted": sorted(keys), "reversed": keys[::-1]}.get(self.order, keys)

    def with_strangers(self, pairs: list[str]) -> list[str]:
        """Return pairs with keys among them that no client writes."""
        strangers = ['"aaa_null":null', '"zzz_null":null'] if self.nulls else []
        if self.unknown:
            strangers += [f'"unknown_{self.chosen.randrange(9)}":{self.chosen.randrange(99)}']
            strangers += ['"more":{"of":["the","usage",1.5e3,{"output":7}],"type":"user"}']
        for stranger in strangers:
            pairs = [*pairs]
            pairs.insert(self.chosen.randint(0, len(pairs)), stranger)
        return pairs


def rewritten(tree: Path, home: Path, chosen: random.Random) -> Path:
    """Copy a tree with every line in a style of its own; a compressed file and half a line stay as they are."""
    shutil.copytree(tree, home)
    for path in home.rglob("*.jsonl"):
        found = []
        for line in path.read_text(encoding="utf-8").split("\n"):
            try:
                found.append(Style(chosen).line(json.loads(line)))
            except ValueError:
                found.append(line)
        ending = chosen.choice(["\n", "\n", "\r\n", "\n\n"])
        before = path.stat()
        path.write_bytes(ending.join(found).encode())
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return home


@pytest.mark.parametrize("tree", TREES)
def test_the_writing_makes_no_difference(tree: Path, tmp_path: Path, soak: Soak) -> None:
    """Order of keys, blanks, escapes, nulls and unknown keys anywhere do not change what is counted (OBS-54)."""
    expected, reports = imported(tree, tmp_path / "plain.db")
    for number in soak.rounds(1, 40):
        home = rewritten(tree, tmp_path / f"home{number}", soak.random)
        found, again = imported(home, tmp_path / f"ledger{number}.db")
        for table, rows in expected.items():
            assert found[table] == rows, table
        assert [(one.usage_rows, one.malformed, one.torn) for one in again] == [
            (one.usage_rows, one.malformed, one.torn) for one in reports
        ]


def response(number: int, **more: object) -> bytes:
    """Return a line with a response of Claude Code."""
    usage = {"input_tokens": 1, "output_tokens": 100 + number, "cache_read_input_tokens": 0}
    message = {"id": f"msg_{number}", "model": "claude-opus-4-5-20251101", "stop_reason": "end_turn", "usage": usage}
    return json.dumps(
        {"type": "assistant", "uuid": f"u{number}", "sessionId": "s", "requestId": f"r{number}",
         "timestamp": f"2026-03-10T12:00:{number:02d}Z", "message": message, **more},
        separators=(",", ":"),
    ).encode()  # fmt: skip


def total(number: int, output: int) -> bytes:
    """Return a line with a running total of Codex."""
    usage = {"input_tokens": 10 * number, "output_tokens": output, "total_tokens": 10 * number + output}
    payload = {"type": "token_count", "info": {"total_token_usage": usage}}
    at = f"2026-03-10T12:00:{number:02d}Z"
    return json.dumps({"timestamp": at, "type": "event_msg", "payload": payload}, separators=(",", ":")).encode()


def home_of(folder: Path, client: str, content: bytes) -> Path:
    """Write the one session file of a home folder."""
    name = ".claude/projects/p/s.jsonl" if client == "claude-code" else ".codex/sessions/rollout-s.jsonl"
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return folder


LINES = {
    "claude-code": [response(1), response(2), response(3)],
    "codex": [total(1, 5), total(2, 9), total(3, 20)],
}
OUTPUT = {"claude-code": 101 + 102 + 103, "codex": 20}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("ending", "between", "malformed"),
    [
        (b"\n", b"", 0),
        (b"", b"", 0),
        (b"\r\n", b"", 0),
        (b"\n", b"\n", 0),
        (b"\n", b"  \r\n\n", 0),
        (b"\n", b"\0\0\0\0\n", 2),
        (b"\n", b'{"type":"assistant","mess\n', 2),
        (b"\n", b'{"usage":"token_count"\n', 2),
        (b"\n", b'{"usage":"token_count",}\n', 2),
        (b"\n", b'{"usage":"token_\0count"}\n', 2),
        (b"\n", b"usage token_count \xff\xfe\n", 2),
        (b"\n", b'["usage","token_count"]\n', 2),
        (b"\n", b'{"usage":"token_count"}\n', 0),
    ],
)
def test_lines_that_are_not_as_expected(
    tmp_path: Path, client: str, ending: bytes, between: bytes, malformed: int
) -> None:
    """No newline at the end, CRLF, empty lines, NULs and garbage: every response counts, every loss is said.

    OBS-49.
    """
    separator = (b"\r\n" if ending == b"\r\n" else b"\n") + between
    content = separator.join(LINES[client]) + ending
    found, reports = imported(home_of(tmp_path / "home", client, content), tmp_path / "ledger.db")
    report = next(report for report in reports if report.client == client)
    assert (report.usage_rows, report.malformed, report.torn) == (3, malformed, 0)
    assert report.lines == content.count(b"\n") + (ending == b"")
    assert sum(row[2 + AMOUNTS.index("output")] for row in found["totals"] if row[0] == 1) == OUTPUT[client]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kept", [1, 20, -3, -1])
def test_half_a_last_line(tmp_path: Path, client: str, kept: int) -> None:
    """A torn last line is not counted and not malformed: it is said, and read again when it is whole (OBS-49)."""
    whole = b"\n".join(LINES[client][:2]) + b"\n"
    home = home_of(tmp_path / "home", client, whole + LINES[client][2][:kept])
    _, reports = imported(home, tmp_path / "ledger.db")
    report = next(report for report in reports if report.client == client)
    assert (report.lines, report.usage_rows, report.malformed, report.torn) == (2, 2, 0, 1)
    path = next(home.rglob("*.jsonl"))
    path.write_bytes(whole + LINES[client][2] + b"\n")
    _, reports = imported(home, tmp_path / "ledger.db")
    report = next(report for report in reports if report.client == client)
    assert (report.lines, report.usage_rows, report.malformed, report.torn) == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("client", "plain", "escape"),
    [
        ("claude-code", b'"usage"', rb'"\u0075sage"'),
        ("claude-code", b'"usage"', rb'"\u0075\u0073\u0061\u0067\u0065"'),
        ("claude-code", b'"usage"', rb'"usag\u0065"'),
        ("codex", b'"token_count"', rb'"\u0074oken_count"'),
        ("codex", b'"token_count"', rb'"token\u005fcount"'),
        ("codex", b'"token_count"', rb'"token\u005Fcount"'),
        ("codex", b'"total_token_usage"', rb'"total_token\u005fusage"'),
    ],
)
def test_a_key_behind_escapes_is_found(tmp_path: Path, client: str, plain: bytes, escape: bytes) -> None:
    """JSON may write any letter of a key as an escape: the fast filter does not pass over it."""
    lines_ = [line.replace(plain, escape) for line in LINES[client]]
    assert lines_ != LINES[client]
    content = b"\n".join(lines_) + b"\n"
    _, reports = imported(home_of(tmp_path / "home", client, content), tmp_path / "ledger.db")
    assert sum(report.usage_rows for report in reports) == 3


@pytest.mark.parametrize("written", ["toolu_1", "toolu_\\u0031", "t\\u006folu_1"])
def test_the_end_of_a_sub_agent_however_its_id_is_written(written: str, tmp_path: Path) -> None:
    """The result of the call that started a sub-agent is found also where its id has escapes, digits too."""
    call = [{"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {"subagent_type": "Explore"}}]
    answer = json.loads(response(1))
    answer["message"]["content"] = call
    result = (
        '{"type":"user","sessionId":"s","uuid":"u9","timestamp":"2026-03-10T12:01:00Z","toolUseResult":'
        '{"agentId":"a1","status":"completed"},"message":{"role":"user","content":[{"type":"tool_result",'
        f'"tool_use_id":"{written}","content":"x"}}]}}}}'
    )
    content = json.dumps(answer, separators=(",", ":")).encode() + b"\n" + result.encode() + b"\n"
    found, _ = imported(home_of(tmp_path / "home", "claude-code", content), tmp_path / "ledger.db")
    assert [row[1:] for row in found["agents"]] == [("a1", "", "toolu_1")]
