"""`ledger tail`: the newest events, whole and harmless, and those that come."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.cli import run
from ledger.events.book import QuoteRecorded, QuoteSuperseded, SpanPriced
from ledger.events.envelope import EncodedBody, Event, NewEvent
from ledger.events.sources import SourceOpened, SourceTruncated
from ledger.ids import id_text, new_id
from ledger.log.log import Log, StreamAppend
from ledger.prices.own import quote_from_rates
from reports.tail import HEADER, as_json_line, digest

ACME = quote_from_rates("acme-coder-9", input="1", output="4")
NASTY = "/home/\x1b[31mred\x07\n\u202eevil.jsonl"
LINES = (
    '{"begin":0,"end":1256,"lines":3,"tail":"","contexts":[{"session":"s"}],"observations":'
    '[{"k":"prompt","c":0,"o":0,"at":1,"id":"a"},{"k":"prompt","c":0,"o":9,"at":2,"id":"b"}],'
    '"skipped":{"no_usage":1}}'
)


def append(log: Log, stream: str, *bodies: Any) -> None:
    events = [NewEvent(body=body, event_id=new_id()) for body in bodies]
    log.append([StreamAppend(stream, log.stream_version(stream), events)])


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with Log.create(path) as log:
        append(log, "book", QuoteRecorded(ACME.name, msgspec.Raw(ACME.to_json())))
        opened = SourceOpened("claude-code", NASTY, "/home")
        append(log, "source:0123456789abcdef", opened, EncodedBody("lines.observed", LINES))
        append(log, "source:0123456789abcdef", SourceTruncated(1256, 10))
        append(log, "book", QuoteSuperseded("a" * 64, "b" * 64, "wrong"), SpanPriced(["x", "y"], "c" * 64, "late"))
    return path


@pytest.fixture
def printed(db: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def tail(*words: str) -> list[str]:
        assert run(["tail", "--db", str(db), *words]) == 0
        return capsys.readouterr().out.splitlines()

    return tail


def stored(db: Path) -> list[Event]:
    with Log.open(db) as log:
        return list(log.all_events())


def test_one_line_an_event_oldest_first(printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = printed()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5", "6"]
    texts = [
        f"{ACME.name[:12]} acme-coder-9 input 1 output 4 by user",
        "claude-code /home/\\x1b[31mred\\x07\\x0a\\u202eevil.jsonl",
        "[0,1256) 3 lines, 2 observations, skipped 1 no_usage",
        "read up to 1256, now 10 bytes: read again",
        "aaaaaaaaaaaa by bbbbbbbbbbbb: wrong",
        "2 spans by cccccccccccc: late",
    ]
    for line, text in zip(lines, texts, strict=True):
        assert line.endswith(text)
    assert " source:01234567 " in lines[1] and " source.opened " in lines[1]


def test_how_many(printed: Any) -> None:
    assert [line.split()[0] for line in printed("-n", "2")] == ["5", "6"]
    assert printed("-n", "0") == []
    assert len(printed("--lines", "1000")) == 6


def test_a_number_below_zero_is_refused(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tail", "--db", str(db), "--lines=-1"]) == 2
    assert "--lines -1" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_lines_fit_the_terminal(printed: Any, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = printed()
    assert len(lines) == 6 and max(map(len, lines)) <= columns
    assert all("[0,1256)" in line for line in lines[2:3])


def test_times_are_local(printed: Any, monkeypatch: pytest.MonkeyPatch, db: Path) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    at = stored(db)[-1].at // 1_000_000
    shown = []
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        shown.append(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)))
        assert f"  {shown[-1]}  " in printed("-n", "1")[0]
    monkeypatch.undo()
    time.tzset()
    assert shown[0] != shown[1]


def test_json_has_the_whole_envelope(printed: Any, db: Path) -> None:
    for line, event in zip(printed("--format", "json"), stored(db), strict=True):
        assert line.isascii() and line.isprintable()
        found = json.loads(line)
        assert tuple(found) == HEADER
        assert (found["position"], found["version"], found["at"]) == (event.position, event.version, event.at)
        assert found["event_id"] == id_text(event.event_id) and found["hash"] == event.hash.hex()
        assert found["prev_hash"] == (event.prev_hash.hex() if event.prev_hash else None)
        assert found["data"] == json.loads(event.data)


def test_json_keeps_every_digit_and_stays_on_a_line() -> None:
    data = '{"n":123456789012345678901234567890,\n "f":0.10000000000000000000001,\r"t":"\x7f"}'
    event = Event(1, bytes(16), None, "s", 1, "x.y", 1, 0, "w", bytes(16), None, None, data, None, bytes(32))
    line = as_json_line(event)
    assert "\n" not in line and "\r" not in line and "\x7f" not in line
    assert "123456789012345678901234567890" in line and "0.10000000000000000000001" in line
    assert json.loads(line)["cause"] == id_text(bytes(16))


def test_csv(printed: Any, db: Path) -> None:
    lines = printed("--format", "csv")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    assert [row["type"] for row in rows] == [event.type for event in stored(db)]
    assert json.loads(rows[2]["data"]) == json.loads(LINES)
    assert rows[0]["prev_hash"] == "" and len(lines) == 7


@pytest.mark.parametrize("data", ["[1]", "not json", "{}", '{"spans":3}', '"text"', "null"])
def test_a_digest_of_anything(data: str) -> None:
    """Of an event of a newer program, or one that is not what its type says."""
    for type_ in ("span.priced", "quote.recorded", "lines.observed", "later.invented"):
        event = Event(1, bytes(16), None, "s", 1, type_, 9, 0, "w", None, None, None, data, None, bytes(32))
        assert isinstance(digest(event), str)
    later = Event(1, b"", None, "s", 1, "x.y", 9, 0, "w", None, None, None, '{"a":"b","c":[1]}', None, b"")
    assert digest(later) == "a=b c=[1]"


def test_no_log_is_an_error_that_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tail", "--db", str(tmp_path / "none.db")]) == 2
    assert "`ledger import`" in capsys.readouterr().err


@pytest.fixture
def following(db: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", "from ledger.cli import main; main()", "tail", "-f", "-n", "1"]
    process = subprocess.Popen(
        [*command, "--format", "json", "--db", str(db)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_follow_shows_what_comes_and_ends_when_interrupted(db: Path, following: subprocess.Popen[str]) -> None:
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["position"] == 6
    with Log.open(db) as log:
        for number in range(7, 10):
            append(log, "book", SpanPriced([], "d" * 64, str(number)))
            begun = time.monotonic()
            found = json.loads(following.stdout.readline())  # through a pipe: every line is flushed
            assert (found["position"], found["data"]["reason"]) == (number, str(number))
            assert time.monotonic() - begun < 2  # polled every 100 ms; the machine may be busy
    following.send_signal(signal.SIGINT)
    assert following.wait(5) == 130
