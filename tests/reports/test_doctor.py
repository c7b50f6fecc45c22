"""`ledger doctor`: verdicts and never a traceback, whatever stands where the log should be."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.accounts.store import VERSION
from ledger.cli import run
from ledger.events.book import QuoteRecorded
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.ids import new_id
from ledger.log import sqlite
from ledger.log.log import Log, StreamAppend
from ledger.prices.own import quote_from_rates
from reports.health import age_text, size_text

RESPONSE = {
    "type": "assistant",
    "uuid": "u1",
    "sessionId": "5e551011",
    "timestamp": "2026-03-10T12:00:00Z",
    "requestId": "req_1",
    "message": {
        "model": "claude-opus-4-5-20251101",
        "id": "msg_1",
        "role": "assistant",
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 1000},
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text(json.dumps(RESPONSE) + "\n")
    return tmp_path / "home"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ledger.db"


@pytest.fixture
def db(path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert run(["import", "--home", str(home), "--db", str(path)]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def examine(path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the doctor; return (value, verdict, advice) by check."""

    def examined(code: int = 0) -> dict[str, tuple[str, str, str]]:
        assert run(["doctor", "--format", "json", "--home", str(home), "--db", str(path)]) == code
        found = json.loads(capsys.readouterr().out)
        checks = {one["check"]: (one["value"], one["verdict"], one["advice"]) for one in found["checks"]}
        assert len(checks) == len(found["checks"])
        for value, verdict, advice in checks.values():
            assert value and verdict in ("ok", "warn", "bad") and (advice or verdict == "ok")
        return checks

    return examined


def append(path: Path, stream: str, body: Any) -> None:
    with Log.open(path) as log:
        event = NewEvent(body=body, event_id=new_id())
        log.append([StreamAppend(stream, log.stream_version(stream), [event])])


def test_a_sound_log(db: Path, examine: Any) -> None:
    checks = examine()
    assert checks["SQLite"][0].startswith("pysqlite3 with SQLite 3.") or "sqlite3" in checks["SQLite"][0]
    assert checks["log"][0] == str(db)
    assert "KiB, -wal" in checks["log file"][0]
    assert checks["file permissions"][:2] == ("0600", "ok") and checks["folder permissions"][:2] == ("0700", "ok")
    assert checks["events"][0] == "3 in 2 streams"
    assert checks["accounts"][0] == f"generation 1, version {VERSION}, at position 3 of 3"
    assert checks["claude-code in log"][0] == "1 file known, last read just now"
    assert checks["claude-code"][0] == "1 session file here" and "`ledger import" in checks["claude-code"][2]
    assert checks["codex"][0] == "no session files here"
    assert checks["clock"][1] == "ok" and checks["prices"][0].startswith("1 quote, 0 of your own")


def test_nothing_is_written(db: Path, examine: Any) -> None:
    before = db.read_bytes()
    examine()
    assert db.read_bytes() == before


@pytest.mark.parametrize("columns", ["80", "160"])
def test_the_table_cuts_nothing(
    db: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["doctor", "--home", str(home), "--db", str(db)]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= int(columns)
    assert str(db) in "".join(line.strip() for line in printed.splitlines()) and "…" not in printed


def test_csv(db: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--format", "csv", "--home", str(home), "--db", str(db)]) == 0
    assert capsys.readouterr().out.startswith("check,value,verdict,advice\nprogram,tallybook ")


def test_no_log_yet(path: Path, examine: Any) -> None:
    checks = examine()
    assert checks["log file"][:2] == ("does not exist yet", "warn") and "`ledger import`" in checks["log file"][2]
    assert checks["claude-code"][0] == "1 session file here"
    assert not path.parent.exists()


def test_an_empty_log(path: Path, examine: Any) -> None:
    Log.create(path).close()
    checks = examine()
    assert checks["events"][0] == "0 in 0 streams"
    assert checks["accounts"][:2] == ("not folded yet", "ok") and checks["prices"][0] == "none recorded yet"
    assert "clock" not in checks


@pytest.mark.parametrize("what", ["text", "empty", "database", "folder"])
def test_something_else_in_its_place(path: Path, examine: Any, what: str) -> None:
    path.parent.mkdir()
    if what == "folder":
        path.mkdir()
    elif what == "database":
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE t (a)")
        other.close()
    else:
        path.write_text("hello\n" * 1000 if what == "text" else "")
    checks = examine()
    assert checks["contents"][1] == "warn"
    assert not any("chmod" in advice for _, _, advice in checks.values())  # it is not ours to close


def test_damage_is_bad(db: Path, examine: Any) -> None:
    with sqlite.connect(db) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(db.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    db.write_bytes(content)
    assert "bad" in {verdict for _, verdict, _ in examine(1).values()}


def test_a_log_of_a_newer_program(db: Path, examine: Any) -> None:
    with sqlite.connect(db) as connection:
        connection.execute("UPDATE log_meta SET value = '99' WHERE key = 'format'")
    connection.close()
    value, verdict, advice = examine()["contents"]
    assert (value, verdict) == ("was written by a newer tallybook", "warn") and "update" in advice


def test_a_log_that_may_not_be_written(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.access
    monkeypatch.setattr(os, "access", lambda where, mode: mode != os.W_OK and real(where, mode))
    checks = examine()
    assert checks["access"][:2] == ("may be read and not written by you", "warn")
    assert checks["events"][0] == "3 in 2 streams"


def test_a_log_that_may_not_be_read(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda where, mode: False)
    assert examine()["access"][:2] == ("may not be read by you", "warn")


def test_permissions(db: Path, examine: Any) -> None:
    db.chmod(0o644)
    db.parent.chmod(0o755)
    checks = examine()
    assert checks["file permissions"][:2] == ("0644: open to others", "warn")
    assert f"chmod 600 {db}" in checks["file permissions"][2]
    assert f"chmod 700 {db.parent}" in checks["folder permissions"][2]
    (db.parent / "somebody else's").touch()
    assert "of its own" in examine()["folder permissions"][2]  # closing it would shut others out


def test_behind_and_ahead(db: Path, examine: Any) -> None:
    quote = quote_from_rates("m", input="1")
    append(db, "book", QuoteRecorded(quote.name, msgspec.Raw(quote.to_json())))
    value, verdict, advice = examine()["accounts"]
    assert value.endswith("position 3 of 4") and verdict == "ok" and "next report" in advice
    with sqlite.connect(db) as connection:
        connection.execute("UPDATE projections SET position = 99")
    connection.close()
    value, verdict, advice = examine(1)["accounts"]
    assert verdict == "bad" and "`ledger rebuild`" in advice


def test_accounts_of_a_newer_program(db: Path, examine: Any) -> None:
    with sqlite.connect(db) as connection:
        connection.execute("UPDATE projections SET version = 99")
    connection.close()
    assert examine()["accounts"][1] == "warn"


def test_a_clock_that_is_behind(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 3600 * 10**9)
    append(db, "book", EncodedBody("quote.superseded", '{"old":"a","new":"b","reason":"c"}'))
    monkeypatch.undo()
    assert examine()["clock"][:2] == ("the newest event is in the future", "warn")


def test_prices_that_were_checked_long_ago(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 400 * 86_400 * 10**9)
    value, verdict, advice = examine()["prices"]
    assert "the oldest was checked 4" in value and verdict == "warn" and "`ledger prices refresh`" in advice


def test_prices_without_a_date(path: Path, examine: Any) -> None:
    quote = quote_from_rates("m", input="1", source="elsewhere")
    Log.create(path).close()
    append(path, "book", QuoteRecorded(quote.name, msgspec.Raw(quote.to_json())))
    value, verdict, _ = examine()["prices"]
    assert value == "1 quote, 0 of your own; when 1 were checked is unknown" and verdict == "warn"


def test_an_event_that_is_not_known(db: Path, examine: Any) -> None:
    """A newer program's event neither stops the doctor nor passes in silence."""
    with sqlite.connect(db) as connection:
        connection.execute(
            "INSERT INTO events (event_id, stream_id, version, type, schema, at, writer, data, hash) "
            "VALUES (x'00', 'book', 2, 'quote.recorded', 99, 0, 'w', '{}', x'00')"
        )
    connection.close()
    assert examine()["contents"][1] == "warn"


def test_a_driver_without_the_fix(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "has_wal_fix", lambda version: False)
    value, verdict, _ = examine()["SQLite"]
    assert "lacks the WAL-reset fix" in value and verdict == "warn"


@pytest.mark.parametrize(("free", "verdict", "code"), [(1 << 40, "ok", 0), (1 << 29, "warn", 0), (1 << 20, "bad", 1)])
def test_free_space(
    db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str, code: int
) -> None:
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    assert examine(code)["free space"][1] == verdict


def test_texts() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 10_240, 1 << 40)] == [
        "0 bytes", "1,023 bytes", "1.0 KiB", "1.5 KiB", "10 KiB", "1.0 TiB",
    ]  # fmt: skip
    second = 1_000_000
    ages = [age_text(0, seconds * second) for seconds in (0, 59, 60, 7200, 86_400, -1)]
    assert ages == ["just now", "just now", "1 minute ago", "2 hours ago", "1 day ago", "in the future"]
