"""`ledger doctor`: verdicts and never a traceback, whatever stands where the log should be."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psycopg
import pytest

from ledger.accounts.store import VERSION
from ledger.cli import run
from ledger.events.book import QuoteRecorded
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.ids import new_id
from ledger.log import sqlite
from ledger.log.location import PostgresPlace
from ledger.log.log import Log, StreamAppend
from ledger.prices.own import quote_from_rates
from reports import doctor_sqlite
from reports.doctor_machine import Clocks, time_zone
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
    kept = "Claude Code deletes each 30 days after its last line"
    assert checks["claude-code"] == (f"1 session file here, all read; {kept}", "ok", "")
    assert checks["codex"][0] == "no session files here"
    assert checks["SQLite build"][1] == checks["database"][1] == checks["clocks"][1] == checks["owner"][1] == "ok"
    assert checks["database"][0].startswith("journal wal, ") and checks["lock"][0].startswith("free; process ")
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
    assert checks["claude-code"][0].startswith("1 session file here; ")
    assert "`ledger import claude-code` reads what is new" in checks["claude-code"][2]
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
    checks = examine(1)
    assert checks["contents"][1] == "bad"
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
    value, verdict, advice = examine(1)["contents"]
    assert (value, verdict) == ("was written by a newer tallybook", "bad") and "update" in advice


def test_a_log_that_may_not_be_written(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.access
    monkeypatch.setattr(os, "access", lambda where, mode: mode != os.W_OK and real(where, mode))
    checks = examine()
    assert checks["access"][:2] == ("may be read and not written by you", "warn")
    assert checks["events"][0] == "3 in 2 streams"


def test_a_log_that_may_not_be_read(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda where, mode: False)
    """A log that is there and cannot be read fails the doctor."""
    assert examine(1)["access"][:2] == ("may not be read by you", "bad")


@pytest.mark.skipif(sys.platform != "linux", reason="setpriv is Linux's")
@pytest.mark.parametrize("closed", ["file", "folder"])
def test_a_log_that_is_closed_to_me(db: Path, closed: str) -> None:
    """mode 0 of the file, or of its folder: exit code 1, and no word of a log that is not there."""
    where = db if closed == "file" else db.parent
    where.chmod(0)
    try:
        done = as_anybody("doctor", "--db", str(db), "--format", "json")
    finally:
        where.chmod(0o700)
    assert done.returncode == 1, done.stderr
    verdicts = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    bad = verdicts["access" if closed == "file" else "log file"]
    assert bad["verdict"] == "bad" and "does not exist" not in bad["value"]


@pytest.mark.skipif(sys.platform != "linux", reason="setpriv is Linux's")
def test_accounts_that_may_only_be_read(db: Path) -> None:
    """`verify` answers from memory as a report does, and says what it could not keep; the doctor warns."""
    Path(f"{db}.accounts").chmod(0o400)
    for words in (
        "verify",
        "verify --new",
        "verify --full",
        "report",
        f"label {RESPONSE['sessionId']} a=b",
        "verify",
        "doctor",
        "blocks",
    ):
        done = as_anybody(*words.split(), "--db", str(db))
        assert done.returncode == 0, (words, done.stderr)
        told = " ".join(done.stdout.split())
        assert ("the accounts cannot be written" in told) == words.startswith("verify"), words
        assert ("accounts access warn" in told) == (words == "doctor"), words


def as_anybody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command for which permissions hold: root gives up the right to pass over them."""
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"] if not os.geteuid() else []
    return subprocess.run(
        [*drop, sys.executable, "-P", "-m", "ledger", *words], capture_output=True, text=True, check=False
    )


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
    append(db, "book:other", QuoteRecorded(quote.name, msgspec.Raw(quote.to_json())))
    value, verdict, advice = examine()["accounts"]
    assert value.endswith("position 3 of 4, behind by 1 event") and verdict == "ok" and "next report" in advice
    with sqlite.connect(Path(f"{db}.accounts")) as connection:
        connection.execute("UPDATE projections SET position = 99")
    connection.close()
    value, verdict, advice = examine(1)["accounts"]
    assert verdict == "bad" and "`ledger rebuild`" in advice


def test_accounts_of_a_newer_program(db: Path, examine: Any) -> None:
    with sqlite.connect(Path(f"{db}.accounts")) as connection:
        connection.execute("UPDATE projections SET version = 99")
    connection.close()
    assert examine()["accounts"][1] == "warn"


def test_a_clock_that_is_behind(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 3600 * 10**9)
    append(db, "book:other", EncodedBody("quote.superseded", '{"old":"a","new":"b","reason":"c"}'))
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
    append(path, "book:other", QuoteRecorded(quote.name, msgspec.Raw(quote.to_json())))
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
    assert examine(1)["contents"][1] == "bad"


def test_a_driver_without_the_fix(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "has_wal_fix", lambda version: False)
    value, verdict, _ = examine()["SQLite"]
    assert "lacks the WAL-reset fix" in value and verdict == "warn"


def test_a_build_that_lacks_something(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SQLite that is older than the log's tables is bad: the program cannot work with it."""
    old = SimpleNamespace(**{name: getattr(sqlite.driver, name) for name in dir(sqlite.driver) if name[0] != "_"})
    old.sqlite_version_info, old.sqlite_version, old.__name__ = (3, 31, 1), "3.31.1", "sqlite3"
    monkeypatch.setattr(sqlite, "driver", old)
    assert examine(1)["SQLite"][1] == "bad"


# the disk


@pytest.mark.parametrize(("took_us", "verdict"), [(5, "warn"), (300, "ok"), (19_000, "ok"), (30_000, "warn")])
def test_how_long_a_sync_takes(
    db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch, took_us: int, verdict: str
) -> None:
    """Measured in the log's folder, in milliseconds; too fast to be true and too slow are both said. Nothing stays."""
    clock = itertools.count(0, took_us * 1000)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(clock))
    value, found, advice = examine()["disk sync"]
    assert found == verdict and f"{took_us / 1000:,.3f}"[:4] in value and "median of 15" in value
    assert bool(advice) == (verdict == "warn")
    assert [one.name for one in db.parent.iterdir() if not one.name.startswith(db.name)] == []


def test_a_sync_is_really_done(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, synced = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor))[1])
    examine()
    assert len(synced) == 15


@pytest.mark.parametrize(
    ("kind", "verdict", "said"),
    [("ext4", "ok", "ext4"), ("tmpfs", "warn", "in memory"), ("nfs4", "warn", "over a network"),
     ("fuse.sshfs", "warn", "over a network")],
)  # fmt: skip
def test_the_file_system(tmp_path: Path, kind: str, verdict: str, said: str) -> None:
    """The longest mount point that holds the folder; a blank in its name stands as \\040."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / xfs rw 0 0\nx {tmp_path}/my\\040disk {kind} rw 0 0\ny {tmp_path}/my btrfs rw 0 0\n")
    (tmp_path / "my disk" / "data").mkdir(parents=True)
    assert doctor_sqlite._kind_of(tmp_path / "my disk" / "data", mounts) == kind
    assert doctor_sqlite._kind_of(tmp_path, mounts) == "xfs"
    assert doctor_sqlite._kind_of(tmp_path, tmp_path / "none") == ""
    found = doctor_sqlite._verdict_of(kind)
    assert found.verdict == verdict and said in found.value


# who else is there


def test_a_lock_that_is_held(db: Path, examine: Any) -> None:
    """The process that writes now is named; the doctor does not wait for it."""
    with Log.open(db) as log, log.lock:  # type: ignore[attr-defined]
        begun = time.monotonic()
        assert examine()["lock"][0] == f"process {os.getpid()} is writing now"
        assert time.monotonic() - begun < 10
    assert examine()["lock"][0].startswith("free")


def test_a_file_of_another_user(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    value, verdict, advice = examine()["owner"]
    assert verdict == "warn" and f"ledger.db (user {mine})" in value and f"chown {mine + 1}" in advice


def test_a_generation_that_was_left_over(db: Path, examine: Any) -> None:
    with Log.open(db) as log:
        log.accounts.execute("INSERT INTO projections (generation, version, position, live) VALUES (7, 3, 0, 0)")
    value, verdict, advice = examine()["generations"]
    assert (value, verdict) == ("1 generation beside the one in use", "warn") and "`ledger rebuild`" in advice


def test_a_wal_that_grows(db: Path, examine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log.open(db) as log:
        log.connection.execute("PRAGMA wal_autocheckpoint=0")
        append(db, "book:other", EncodedBody("quote.superseded", '{"old":"a","new":"b","reason":"c"}'))
        monkeypatch.setattr(doctor_sqlite, "_LARGE_WAL_BYTES", 1)
        assert examine()["log file"][1] == "warn"


# clocks


def test_a_wall_clock_that_is_set_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks()
    assert clocks.check().verdict == "ok"
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 3600 * 10**9)
    found = clocks.check()
    assert found.verdict == "warn" and "set ahead by 3,600,0" in found.value


@pytest.mark.parametrize(
    ("zone", "verdict"), [("Europe/Berlin", "ok"), ("UTC", "ok"), ("Europe/Belin", "warn"), ("CET-1CEST", "ok")]
)
def test_the_time_zone(monkeypatch: pytest.MonkeyPatch, zone: str, verdict: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        found = time_zone()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.verdict == verdict and zone in found.value


# session files


def test_files_with_something_new(db: Path, home: Path, examine: Any) -> None:
    """What grew since it was read is new; what Claude Code deletes soon is a warning, by its own settings."""
    file = home / ".claude" / "projects" / "p" / "s.jsonl"
    file.write_text(file.read_text() * 2)
    value, verdict, advice = examine()["claude-code"]
    assert value.startswith("1 session file here, 1 with something new; ") and verdict == "ok" and "import" in advice
    old = time.time() - 25 * 86_400
    os.utime(file, (old, old))
    value, verdict, advice = examine()["claude-code"]
    assert verdict == "warn"
    assert advice == "1 of the new ones are deleted soon, the first in 5 days: run `ledger import claude-code`"
    (home / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 365}')
    value, verdict, _ = examine()["claude-code"]
    assert verdict == "ok" and "365 days after" in value
    (home / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 20}')
    assert "at its next start" in examine()["claude-code"][2]
    assert run(["import", "--home", str(home), "--db", str(db)]) == 0


def test_settings_that_say_nothing(db: Path, home: Path, examine: Any) -> None:
    for text in (
        "",
        "[]",
        "{",
        '{"cleanupPeriodDays": "soon"}',
        '{"cleanupPeriodDays": true}',
        '{"cleanupPeriodDays": 0}',
    ):
        (home / ".claude" / "settings.json").write_text(text)
        assert "deletes each 30 days after" in examine()["claude-code"][0]


# PostgreSQL


def test_on_postgresql(schema: PostgresPlace, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The server's own checks, and those of contents; the tests' server keeps nothing safe, which is bad."""
    url = f"{schema.url}{'&' if '?' in schema.url else '?'}schema={schema.schema}"
    assert run(["import", "--home", str(home), "--db", url]) == 0
    capsys.readouterr()
    assert run(["doctor", "--format", "json", "--home", str(home), "--db", url]) == 1
    found = json.loads(capsys.readouterr().out)["checks"]
    checks = {one["check"]: (one["value"], one["verdict"]) for one in found}
    assert len(checks) == len(found)
    assert checks["durability"] == ("fsync off, full_page_writes off, synchronous_commit on", "bad")
    assert checks["server"][0].startswith("PostgreSQL ") and checks["server"][0].endswith("encoding UTF8")
    assert checks["replication"][0] == "this is the primary; 0 standby servers connected"
    assert checks["guards"] == ("3 triggers refuse to change what was written", "ok")
    assert checks["role"][1] == "warn" and "a superuser" in checks["role"][0]
    for name in ("connections", "encryption", "lock", "tables", "round trip", "server clock", "events", "accounts"):
        assert checks[name][1] == "ok", name
    assert checks["claude-code in log"][0] == "1 file known, last read just now"
    assert {one["check"] for one in found if one["verdict"] == "bad"} == {"durability"}


def test_guards_that_somebody_removed_on_postgresql(
    schema: PostgresPlace, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{schema.url}{'&' if '?' in schema.url else '?'}schema={schema.schema}"
    with psycopg.connect(schema.url, autocommit=True) as superuser:
        superuser.execute(f"ALTER TABLE {schema.schema}.events DISABLE TRIGGER events_refuse_change")
    assert run(["doctor", "--format", "json", "--home", str(home), "--db", url]) == 1
    checks = {one["check"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["guards"]["value"] == "missing: events_refuse_change" and checks["guards"]["verdict"] == "bad"


def test_a_server_that_cannot_be_reached(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"postgresql://ada:geheim@/books?host={tmp_path}"
    assert run(["doctor", "--format", "json", "--home", str(home), "--db", url]) == 1
    out = capsys.readouterr().out
    checks = {one["check"]: one for one in json.loads(out)["checks"]}
    assert checks["contents"]["verdict"] == "bad" and "cannot be reached" in checks["contents"]["advice"]
    assert "geheim" not in out


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
