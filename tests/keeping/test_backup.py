"""Backing up a log that is in use (OBS-34, OBS-49)."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from books import accounts, argument, events, failing, texts

from ledger.accounts.catchup import catch_up
from ledger.cli import run
from ledger.errors import LogUnavailable, UsageError
from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened
from ledger.ids import new_id
from ledger.keeping import backup as module
from ledger.keeping.backup import Backup, backup
from ledger.log.blobs import make_blob
from ledger.log.hashing import broken_links
from ledger.log.log import Log, StreamAppend
from reports.keeping import backup_text


def test_a_backup_is_the_same_log(books: Any, kind: str, tmp_path: Path) -> None:
    """Events, texts and accounts, on both databases; it is a file that only its owner reads, and answers at once."""
    log, path = books.filled(kind), tmp_path / "backup.db"
    made = backup(log, path)
    assert made == Backup(log.head_position(), path.stat().st_size, [], kind == "postgresql", True)
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(("backup", ".backup"))) == [
        "backup.db", "backup.db.accounts"
    ]  # fmt: skip
    assert {stat.S_IMODE(name.stat().st_mode) for name in (path, module.accounts_of(path))} == {0o600}
    copied = books.open(path)
    assert catch_up(copied) == 0
    assert events(copied) == events(log)
    assert texts(copied) == texts(log) != {}
    assert accounts(copied) == accounts(log)
    assert failing(copied) == []
    assert (copied.log_id == log.log_id) == (kind == "sqlite")


def test_a_backup_while_others_write_is_one_moment(books: Any, child: Any, tmp_path: Path, soak: Any) -> None:
    """What was acknowledged before is in it, nothing is half there, and writers are not held up."""
    log = books.filled("sqlite")
    blob = make_blob(os.urandom(20 << 20))
    new = NewEvent(body=SourceOpened("x", "/x", "/"), event_id=new_id())
    log.append([StreamAppend("source:large", 0, [new])], [(new.event_id, blob)])
    writer = child.script("writer", log.place)
    acknowledged = [int(writer.stdout.readline()) for _ in range(20)]
    for number in soak.rounds(3, 30):
        path = tmp_path / f"backup{number}.db"
        position = backup(log, path).position
        assert position >= acknowledged[-1]
        with Log.open(path) as copied:
            found = list(copied.all_events())
            assert [event.position for event in found] == list(range(1, position + 1))
            assert list(broken_links(found, {})) == []
        acknowledged += [int(writer.stdout.readline()) for _ in range(5)]


def test_an_existing_file_is_replaced_only_by_force(books: Any, kind: str, tmp_path: Path) -> None:
    """And its accounts with it: old accounts beside a new log would be wrong."""
    log, path = books.filled(kind), tmp_path / "backup.db"
    path.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        backup(log, path)
    assert path.read_text() == "mine"
    backup(log, path, force=True)
    path.unlink()
    with pytest.raises(UsageError, match=r"backup.db.accounts: is there already"):
        backup(log, path)
    backup(log, path, force=True)
    assert failing(books.open(path)) == []


def test_what_a_backup_refuses(books: Any, tmp_path: Path) -> None:
    """The log itself, a file whose program died, a folder that is not there."""
    log = books.filled("sqlite")
    with pytest.raises(UsageError, match="is the log itself"):
        backup(log, Path(log.place), force=True)
    (tmp_path / "b.db-wal").write_text("left")
    with pytest.raises(UsageError, match=r"b\.db-wal: a program uses that file"):
        backup(log, tmp_path / "b.db")
    with pytest.raises(UsageError, match="is not a folder"):
        backup(log, tmp_path / "none" / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_a_race_for_the_name_is_lost_by_the_later(books: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file that appears meanwhile stays as it is."""
    log, path = books.filled("sqlite"), tmp_path / "backup.db"
    plain = module._verified
    monkeypatch.setattr(module, "_verified", lambda *both: path.write_text("theirs") and plain(*both))
    with pytest.raises(UsageError, match="is there already"):
        backup(log, path)
    assert path.read_text() == "theirs"
    assert not list(tmp_path.glob(".backup*"))


def test_a_damaged_log_is_no_backup(books: Any, tmp_path: Path) -> None:
    """What was written is looked at, page by page, before it gets its name."""
    log = books.filled("sqlite")
    log.close()
    raw = bytearray(Path(log.place).read_bytes())
    middle = len(raw) // 2 // 4096 * 4096
    raw[middle : middle + 4096] = b"\xff" * 4096
    Path(log.place).write_bytes(raw)
    with Log.open(log.place, readonly=True) as damaged, pytest.raises(LogUnavailable):
        backup(damaged, tmp_path / "backup.db")
    assert not list(tmp_path.glob("*backup*"))


@pytest.mark.parametrize("damage", ["a page", "the head", "another log", "none folded"])
def test_accounts_that_do_not_hold_are_left_out(
    books: Any, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copied accounts are checked as the log is: what is damaged or of another log is folded anew (OBS-49)."""
    log, path = books.filled("sqlite"), tmp_path / "backup.db"
    beside = module.accounts_of(Path(log.place))
    whole = accounts(log)
    log.close()
    raw = bytearray(beside.read_bytes())
    if damage == "a page":
        middle = len(raw) // 2 // 4096 * 4096
        raw[middle : middle + 4096] = b"\xff" * 4096
    elif damage == "the head":
        raw[:100] = b"\xff" * 100
    if damage == "another log":
        with closing(sqlite3.connect(beside)) as connection, connection:
            connection.execute("UPDATE projections SET head = zeroblob(32)")
    elif damage == "none folded":
        beside.write_bytes(b"")
    else:
        for end in ("-wal", "-shm"):
            Path(f"{beside}{end}").unlink(missing_ok=True)
        beside.write_bytes(raw)
    assert run(["backup", "--db", str(log.place), str(path)]) == 0
    assert "Without accounts" in capsys.readouterr().out
    assert not module.accounts_of(path).exists()
    copied = books.open(path)
    assert catch_up(copied) == copied.head_position()
    assert accounts(copied) == whole
    assert failing(copied) == []


def test_a_killed_backup_leaves_no_file_or_a_whole_one(books: Any, child: Any, tmp_path: Path, soak: Any) -> None:
    """SIGKILL at any instant: the name is not there, or what it names is sound (OBS-49)."""
    log = books.filled("sqlite")
    blob = make_blob(os.urandom(4 << 20))
    new = NewEvent(body=SourceOpened("x", "/x", "/"), event_id=new_id())
    log.append([StreamAppend("source:large", 0, [new])], [(new.event_id, blob)])
    outcomes = set()
    for number in soak.rounds(6, 60):
        path = tmp_path / f"backup{number}.db"
        process = child.start("backup", "--db", log.place, path)
        time.sleep(random.uniform(0.1, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        outcomes.add(path.exists())
        if path.exists():
            with Log.open(path) as copied:
                assert copied.head_position() == log.head_position()
                assert failing(copied) == []
    print("reached", outcomes)


def test_the_command(books: Any, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table, JSON and CSV; one line and exit code 2 where the file is there."""
    log = books.filled(kind)
    words = ["backup", "--db", argument(log.place), str(tmp_path / "b.db")]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert f"{log.head_position()} events in " in out
    assert ("PostgreSQL" in out) == (kind == "postgresql")
    assert run(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert run([*words, "--force", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["position"] == log.head_position()
    assert run([*words, "--force", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "file,position,size_bytes,earlier,portable,accounts"
    assert "1 event in" in backup_text(Backup(1, 4096, [], False, True), "x")
