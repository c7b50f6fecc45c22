"""Closing a log that has become large, and going on in its place (OBS-29, OBS-49, OBS-50, OBS-53)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from books import SAMPLE, TREE, accounts, append, events, failing, failing_session, label, purge_all, texts

from ledger.accounts.catchup import catch_up, snapshot
from ledger.accounts.catchup import rebuild as run_rebuild
from ledger.cli import run
from ledger.errors import LogReadOnly, LogUnavailable, UsageError, VersionConflict, VolumeMissing
from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened, SourceTruncated
from ledger.evidence.kept import as_file, hold_against, read_file
from ledger.evidence.seals import make_seal
from ledger.ids import new_id
from ledger.keeping import rolling
from ledger.keeping.backup import backup
from ledger.keeping.copying import copy
from ledger.keeping.rolling import roll
from ledger.log.log import Log, StreamAppend
from ledger.sources.importer import run_import


def imported(log: Log, *homes: Path) -> None:
    """Import what is new in some home folders."""
    for home in homes:
        run_import(log, ("claude-code", "codex"), home, use_environment=False)


def test_everything_can_be_read_as_before(books: Any) -> None:
    """Positions, versions, chains, texts and accounts go on over several volumes; nothing is folded anew."""
    log = books.filled("sqlite")
    first = accounts(log)
    before, everything = events(log), texts(log)
    rolled = roll(log)
    assert rolled.archive == Path(log.place).with_name("log1.1.db")
    assert (rolled.volume, rolled.position) == (1, sum(map(len, before.values())) + 1)
    assert catch_up(log) == 1  # the word that it was rolled
    assert accounts(log) == first
    log_events = events(log)
    assert all(log_events[stream][: len(known)] == known for stream, known in before.items())
    assert {key: text for key, text in texts(log).items() if key in everything} == everything
    assert failing(log) == []
    imported(log, TREE)
    roll(log)
    append(log, "source:after", 1, 2)
    assert log.volume == 3
    assert [event.position for event in log.all_events()] == list(range(1, log.head_position() + 1))
    assert failing(log) == []
    for position in (1, rolled.position, rolled.position + 1, log.head_position()):
        assert log.event_at(position).position == position
    with pytest.raises(KeyError):
        log.event_at(log.head_position() + 1)
    for head in log.heads():
        assert len(log.stream_events(head.stream_id, 0, 10_000)) == head.version
        assert log.stream_head(head.stream_id) == (head.version, head.hash)
        for version in range(1, head.version + 1):
            hit = log.hash_at(head.stream_id, version)
            assert hit is not None
            event = log.event_at(hit[0])
            assert (event.stream_id, event.version, event.hash) == (head.stream_id, version, hit[1])


def test_a_rolled_log_is_small_and_its_archive_is_the_log_as_it_was(books: Any) -> None:
    """The archive answers by itself, and takes in nothing more."""
    log = books.filled("sqlite")
    append(log, "source:many", *range(5000))
    before, large = accounts(log), events(log)
    rolled = roll(log)
    assert rolled.left_bytes < rolled.size_bytes / 10
    assert Path(log.place).stat().st_size == rolled.left_bytes
    archive = books.open(rolled.archive)
    assert {stream: known for stream, known in events(archive).items() if stream in large and "book" not in stream} == {
        stream: known for stream, known in large.items() if "book" not in stream
    }
    assert accounts(archive) == before
    assert failing(archive) == []
    with pytest.raises(LogReadOnly, match="is a closed volume of a log that goes on in another file"):
        append(archive, "source:many", 1)
    with pytest.raises(LogReadOnly, match="is a closed volume"):
        roll(archive)
    assert [one.name for one in rolled.archive.parent.iterdir() if one.name.startswith("log1.1.db")] == ["log1.1.db"]


def test_a_closed_volume_is_in_order_and_says_where_the_log_goes_on(
    books: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would write is told which file to give, in one line; nothing advises to change what is as it should be."""
    archive = str(roll(books.filled("sqlite")).archive)
    capsys.readouterr()
    writing = ("import", "rebuild", "seal", "reprice", "roll", "label 3f2b8a6e a=b", "report --import",
               "purge --older-than 1d --yes", "prices refresh", "prices set x --input 1")  # fmt: skip
    for words in writing:
        assert run([*words.split(), "--db", archive]) == 2, words
        _, err = capsys.readouterr()
        assert err.count("\n") == 1 and "is a closed volume of a log that goes on in another file" in err, words
    for words in ("verify", "report", "doctor", "blocks", "tail"):
        assert run([*words.split(), "--db", archive]) == 0, words
        out, err = capsys.readouterr()
        assert "cannot be written" not in out + err and "journal_mode" not in out + err, words


def test_an_import_goes_on_where_it_was(books: Any, tmp_path: Path) -> None:
    """Files that grew are read on, in the versions of their streams; the accounts are those of a log never rolled."""
    home = tmp_path / "home"
    shutil.copytree(TREE, home)
    [path, *_] = sorted(home.rglob("*.jsonl"))
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    log = books.filled("sqlite", home)
    roll(log)
    path.write_bytes(whole)
    imported(log, home)
    plain = books.filled("sqlite", home)
    apart = ("sources", "spans", "sightings", "quotes")  # they say where and when something was read
    assert accounts(log, apart) == accounts(plain, apart)
    assert failing(log) == []


def halved(home: Path) -> dict[Path, bytes]:
    """Cut every session file in the middle; return what it was."""
    whole = {path: path.read_bytes() for path in home.rglob("*.jsonl")}
    for path, content in whole.items():
        lines = content.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
    return whole


@pytest.mark.parametrize("days", [1, 60])
def test_sessions_that_go_on_need_no_archive(books: Any, tmp_path: Path, days: int) -> None:
    """What was read lately stays at hand. What is older waits for the archive, and is whole when it is back."""
    home = tmp_path / "home"
    shutil.copytree(TREE, home)
    whole = halved(home)
    long_ago = time.time() - 86_400 * days
    for path in whole:
        os.utime(path, (long_ago, long_ago))
    log = books.filled("sqlite", home)
    archive = roll(log).archive
    log.close()
    archive.rename(tmp_path / "elsewhere.db")
    log = books.open(log.place)
    for path, content in whole.items():
        path.write_bytes(content)
    if days < rolling.RECENT_DAYS:
        imported(log, home)
        assert run(["verify", "--db", str(log.place)]) == 0
    else:
        with pytest.raises(VolumeMissing, match="is not there, and holds the log's events up to position"):
            imported(log, home)
    (tmp_path / "elsewhere.db").rename(archive)
    imported(log, home)
    apart = ("sources", "spans", "sightings", "quotes")
    assert accounts(log, apart) == accounts(books.filled("sqlite", home), apart)
    assert failing(log) == []


def test_a_rolled_log_takes_in_what_another_has(books: Any, tmp_path: Path) -> None:
    """Streams that it knows of before go on; what is in a volume that is not there is known by its head."""
    source, target = books.filled("sqlite"), books.empty("sqlite")
    append(source, "source:old", *range(20))
    copy(source, target)
    archive = roll(target).archive
    archive.rename(tmp_path / "elsewhere.db")
    append(source, "source:old", 20, 21)
    assert copy(source, target).events == 2
    assert target.stream_version("source:old") == 22
    (tmp_path / "elsewhere.db").rename(archive)
    assert events(target)["source:old"] == events(source)["source:old"]
    assert failing(target) == []


def test_an_append_finds_streams_of_before(books: Any) -> None:
    """Wrong versions are refused; what was acknowledged before the roll is a success when it is tried again."""
    log = books.empty("sqlite")
    opened = NewEvent(body=SourceOpened("x", "/x", "/"), event_id=new_id())
    log.append([StreamAppend("source:a", 0, [opened])])
    append(log, "source:a", 2, 3)
    roll(log)
    for expected in (0, 1, 2, 4):
        with pytest.raises(VersionConflict) as caught:
            log.append([StreamAppend("source:a", expected, [NewEvent(body=SourceTruncated(1, 1), event_id=new_id())])])
        assert caught.value.found == 3
    assert log.append([StreamAppend("source:a", 0, [opened])]) == [1]
    again = NewEvent(body=SourceTruncated(4, 4), event_id=new_id())
    assert log.append([StreamAppend("source:a", 3, [again])]) == [4]
    assert log.append([StreamAppend("source:a", 3, [again])]) == [4]
    assert failing(log) == []


def test_a_program_that_has_the_log_open_goes_on(books: Any) -> None:
    """The file is the same: it sees the new volume, reads through to the old one, and appends."""
    log = books.filled("sqlite")
    append(log, "source:slow", *range(50))
    other = books.open(log.place)
    page = other.events_after(0, 10)
    with other.reading():
        assert other.head_position() == log.head_position()  # a moment that is held over the roll
        before = other.head_position()
        roll(log)
        assert len(list(other.all_events(page[-1].position))) == before - 10
    assert [event.position for event in other.all_events(10)] == list(range(11, log.head_position() + 1))
    append(other, "source:slow", 51)
    assert other.stream_version("source:slow") == 51
    assert failing(log) == []


def test_seals_and_labels_and_prices_are_at_hand_without_the_archive(books: Any, tmp_path: Path) -> None:
    """Report, import, show, label, seal: what they need of before is in the volume."""
    log = books.filled("sqlite")
    label(log, "5e551011", "acme")
    kept = tmp_path / "kept.json"
    kept.write_bytes(as_file(make_seal(log)))
    before = accounts(log)
    rolled = roll(log)
    catch_up(log)
    log.close()
    rolled.archive.rename(tmp_path / "elsewhere.db")
    log = books.open(log.place)
    assert accounts(log) == before
    imported(log, SAMPLE, TREE)
    make_seal(log)
    label(log, "5e551011", "other")
    session = failing_session(log)
    for words in (("report", "--by", "session,model"), ("show", session), ("label", session, "a=b"), ("prices", "list"),
                  ("tail", "-n", "200"), ("verify",), ("doctor",)):  # fmt: skip
        assert run([*words, "--db", str(log.place)]) in (0, 1), words
    assert run(["verify", "--db", str(log.place)]) == 0
    with pytest.raises(VolumeMissing, match=r"log1\.1\.db: is not there, and holds the log's events up to position"):
        run_rebuild(log)
    with pytest.raises(VolumeMissing):
        hold_against(log, read_file(kept))
    with pytest.raises(VolumeMissing):
        copy(log, books.empty("sqlite"))
    (tmp_path / "elsewhere.db").rename(rolled.archive)
    assert hold_against(log, read_file(kept)).faults == []
    run_rebuild(log)
    assert failing(log) == []


def test_another_file_in_the_archives_place_is_not_taken_for_it(books: Any) -> None:
    """The volume before is known by the log's id and its number."""
    log, other = books.filled("sqlite"), books.filled("sqlite")
    archive = roll(log).archive
    other.close()
    shutil.copy(other.place, archive)
    with pytest.raises(LogUnavailable, match="is not volume 1 of"):
        list(log.all_events())


def test_texts_of_closed_volumes_are_purged_too(books: Any) -> None:
    """No trace of them is left in any file of the log."""
    log = books.filled("sqlite")
    content = next(iter(texts(log).values()))
    assert content is not None
    archive = roll(log).archive
    assert purge_all(log, failing_session(log)) == 1
    assert content not in texts(log).values()
    assert content not in archive.read_bytes()
    assert failing(log) == []


def test_all_volumes_are_copied_and_a_backup_names_them(books: Any, kind: str, tmp_path: Path) -> None:
    """A copy is whole; a backup holds the newest volume and says which files the others are."""
    log = books.filled("sqlite")
    first = roll(log).archive
    imported(log, TREE)
    second = roll(log).archive
    append(log, "source:after", 1)
    target = books.empty(kind)
    assert copy(log, target).events == log.head_position()
    assert events(target) == events(log)
    assert accounts(target) == accounts(log)
    assert failing(target) == []
    assert copy(log, target).events == 0
    (tmp_path / "backup").mkdir()
    made = backup(log, tmp_path / "backup" / "log.db")
    assert made.earlier == [str(second), str(first)]
    for name in made.earlier:
        shutil.copy(name, tmp_path / "backup")
    restored = books.open(tmp_path / "backup" / "log.db")
    assert events(restored) == events(log)
    assert failing(restored) == []


def test_what_a_roll_refuses(books: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """PostgreSQL, a log that may only be read, and a file of something else in the archive's place."""
    with pytest.raises(UsageError, match="lies on PostgreSQL"):
        roll(books.empty("postgresql"))
    log = books.filled("sqlite")
    with pytest.raises(LogReadOnly):
        roll(books.open(log.place, readonly=True))
    archive = rolling.archive_path(log)
    archive.write_text("mine")
    with pytest.raises(UsageError, match="is there already, and is no part of this log"):
        roll(log)
    assert archive.read_text() == "mine"
    assert log.volume == 1
    assert failing(log) == []
    assert run(["roll", "--db", str(log.place)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_roll_waits_for_no_reader_and_holds_up_no_append_for_good(books: Any, child: Any) -> None:
    """Four programs append while the log is rolled again and again: nothing acknowledged is lost."""
    log = books.filled("sqlite")
    writers = [child.script("writer", log.place, f"source:w{number}") for number in range(4)]
    for writer in writers:
        assert writer.stdout.readline()
    for _ in range(3):
        roll(log)
        for writer in writers:
            assert writer.stdout.readline()
    acknowledged = {}
    for number, writer in enumerate(writers):
        writer.kill()
        said = [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        acknowledged[f"source:w{number}"] = said
    for stream, positions in acknowledged.items():
        assert all(log.event_at(position).stream_id == stream for position in positions)
    assert log.volume == 4
    assert failing(log) == []


def test_a_killed_roll_leaves_the_log_as_it_was_or_rolled(books: Any, child: Any, soak: Any) -> None:
    """SIGKILL at any instant; the log is sound, of volume n or n + 1, and goes on: also the next roll (OBS-49)."""
    log = books.filled("sqlite")
    append(log, "source:many", *range(3000))
    place, expected = Path(log.place), accounts(log)
    everything = events(log)
    log.close()
    reached = set()
    for _ in soak.rounds(8, 100):
        process = child.start("roll", "--db", place)
        time.sleep(soak.random.uniform(0.15, 0.6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Log.open(place) as after:
            reached.add(after.volume)
            found = events(after)
            assert all(found[stream][: len(known)] == known for stream, known in everything.items())
            append(after, "source:many", 1)
            everything = events(after)
            assert accounts(after, ("sources",)) == {name: rows for name, rows in expected.items() if name != "sources"}
            assert failing(after) == []
    print("reached", reached)
    with Log.open(place) as after:
        volume = after.volume
        assert roll(after).volume == volume
        assert failing(after) == []


def test_the_command(books: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It says where everything lies now, as table, JSON and CSV."""
    log = books.filled("sqlite")
    place = str(log.place)
    assert run(["roll", "--db", place]) == 0
    archive = f"{place.removesuffix('.db')}.1.db"
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"{archive}: volume 1, closed: ")
    assert out[1].startswith(f"{place}: goes on after them, ")
    assert run(["roll", "--db", place, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["volume"], found["archive"]) == (2, f"{place.removesuffix('.db')}.2.db")
    with snapshot(log) as view:
        assert view.position == found["position"] + 1
    assert run(["roll", "--db", place, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "volume,archive,position,seal,size_bytes,left_bytes"
