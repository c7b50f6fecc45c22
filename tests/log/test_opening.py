"""Opening what is there, what is not there, and what is something else: always one line that helps."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import LedgerError, LogReadOnly, LogTooNew, LogUnavailable
from ledger.events.envelope import NewEvent
from ledger.events.registry import decode
from ledger.log import sqlite
from ledger.log.blobs import make_blob
from ledger.log.log import Log, StreamAppend
from ledger.log.sqlite_log import SqliteLog

MakeEvent = Callable[..., NewEvent]


def refusal(path: Path, kind: type[LedgerError] = LogUnavailable, *, create: bool = False) -> str:
    """Open a path that must be refused; return the message, which is one line and names the path."""
    with pytest.raises(kind) as raised:
        Log.open(path, create=create)
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message


def set_meta(path: Path, key: str, value: str) -> None:
    connection = sqlite.driver.connect(str(path), isolation_level=None)
    connection.execute('UPDATE log_meta SET value = ? WHERE "key" = ?', (value, key))
    connection.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# what is there


def test_a_missing_file_is_not_made_by_opening(tmp_path: Path) -> None:
    """Opening says that there is nothing and what makes one; it leaves no file behind."""
    for path in (tmp_path / "none.db", tmp_path / "no" / "such" / "folder" / "none.db"):
        assert "there is no ledger here" in refusal(path)
    assert list(tmp_path.iterdir()) == []


def test_a_path_through_a_file_is_missing_too(tmp_path: Path) -> None:
    """A folder that is a file is neither opened nor made."""
    (tmp_path / "file").write_text("text")
    assert "there is no ledger here" in refusal(tmp_path / "file" / "ledger.db")
    assert "cannot be created" in refusal(tmp_path / "file" / "ledger.db", create=True)


@pytest.mark.parametrize("create", [False, True])
def test_a_folder_is_refused(tmp_path: Path, create: bool) -> None:
    """A folder in the place of the file."""
    assert "check that it is a file" in refusal(tmp_path, create=create)


@pytest.mark.parametrize("create", [False, True])
def test_a_text_file_is_refused_and_left_alone(tmp_path: Path, create: bool) -> None:
    """Someone's notes are neither read as a log nor overwritten."""
    path = tmp_path / "notes.txt"
    path.write_text("these are notes\n" * 100)
    before = path.read_bytes()
    assert "is not a ledger" in refusal(path, create=create)
    assert path.read_bytes() == before


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("has_log_meta", [False, True])
def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path, create: bool, has_log_meta: bool) -> None:
    """A database of something else, also one that happens to have a table of the same name."""
    path = tmp_path / "browser.db"
    connection = sqlite.driver.connect(str(path), isolation_level=None)
    connection.execute("CREATE TABLE history (url TEXT)")
    if has_log_meta:
        connection.execute("CREATE TABLE log_meta (key TEXT, value TEXT)")
        connection.execute("INSERT INTO log_meta VALUES ('format', '1')")
    connection.close()
    before = path.read_bytes()
    assert "is a database of something else" in refusal(path, create=create)
    assert path.read_bytes() == before


def test_an_empty_file_is_no_log_and_becomes_one_only_where_asked(tmp_path: Path, event: MakeEvent) -> None:
    """0 bytes are what a crash while creating leaves: opening says so, creating goes on."""
    path = tmp_path / "ledger.db"
    path.touch()
    assert "there is no ledger here" in refusal(path)
    assert path.read_bytes() == b""
    with Log.open(path, create=True) as log:
        assert log.append([StreamAppend("a", 0, [event(1)])]) == [1]
    with Log.open(path) as log:
        assert log.head_position() == 1


def test_a_log_half_made_becomes_one(tmp_path: Path) -> None:
    """A file that got as far as its first page, and no table, is completed as well."""
    path = tmp_path / "ledger.db"
    connection = sqlite.driver.connect(str(path), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert path.stat().st_size > 0
    assert "there is no ledger here" in refusal(path)
    Log.open(path, create=True).close()
    Log.open(path).close()


def test_a_damaged_log_is_refused_in_one_line(log: Log, event: MakeEvent) -> None:
    """A page of zeros, a cut file: an error that says damaged, never a new log (OBS-34)."""
    log.append([StreamAppend("a", 0, [event(number) for number in range(500)])])
    log.close()
    whole = log.path.read_bytes()
    for damaged in (bytes(4096) + whole[4096:], whole[:100] + bytes(3996) + whole[4096:], b"SQLite" + whole[6:5000]):
        log.path.write_bytes(damaged)
        assert "is not a ledger or is damaged" in refusal(log.path)
        assert "is not a ledger or is damaged" in refusal(log.path, create=True)
        assert log.path.read_bytes() == damaged


def test_creating_again_leaves_the_log_as_it_is(log: Log, event: MakeEvent) -> None:
    """`create` on a log opens it; the events are there."""
    log.append([StreamAppend("a", 0, [event(1)])])
    with Log.create(log.path) as again:
        assert again.head_position() == 1
        again.append([StreamAppend("a", 1, [event(2)])])
    assert log.stream_version("a") == 2


def test_creating_again_keeps_the_locks_of_an_open_log(log: Log, event: MakeEvent) -> None:
    """Closing any descriptor of a file ends the process's POSIX locks on it, so `create` opens none by hand."""
    log.connection.execute("BEGIN IMMEDIATE")
    Log.create(log.path).close()
    code = (
        "import sys; from pathlib import Path; from ledger.log import sqlite\n"
        "connection = sqlite.driver.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "try: connection.execute('BEGIN IMMEDIATE')\n"
        "except sqlite.Error as error: print(error)\n"
    )
    command = [sys.executable, "-I", "-c", code, str(log.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    log.connection.execute("ROLLBACK")
    assert done.stdout == "database is locked\n"


def test_a_log_made_by_another_between_looking_and_locking_is_left_alone(
    log: Log, event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever saw an empty file looks again when it has the lock."""
    log.append([StreamAppend("a", 0, [event(1)])])
    looks: list[bool] = []

    def first_look_is_old(opened: Log) -> bool:
        looks.append(really(opened))
        return len(looks) == 1 or looks[-1]

    really = SqliteLog._is_empty
    monkeypatch.setattr(SqliteLog, "_is_empty", first_look_is_old)
    with Log.open(log.path, create=True) as second:
        assert second.head_position() == 1
    assert looks == [False, False]


def test_many_processes_may_create_at_once(tmp_path: Path, child: Any, soak: Any) -> None:
    """Four start on a machine without a log: one makes it, all append to it."""
    for number in soak.rounds(2, 25):
        place = tmp_path / f"{number}.db"
        writers = [child.start("writer", place, f"s{one}", 5, "create") for one in range(4)]
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(lambda one: one.stdout.read(), writers))
        assert [one.wait() for one in writers] == [0, 0, 0, 0], said
        with Log.open(place) as log:
            assert log.head_position() == 20


# newer and older programs


def test_a_newer_format_is_refused(log: Log) -> None:
    """The tables may mean something else: neither read nor written."""
    log.close()
    set_meta(log.path, "format", "99")
    for create in (False, True):
        message = refusal(log.path, LogTooNew, create=create)
        assert "update tallybook" in message
        assert "99" in message


def test_a_newer_min_writer_lets_read_and_not_write(log: Log, event: MakeEvent) -> None:
    """The log says which version may write: an older one opens it for reading, and append raises (OBS-54)."""
    log.append([StreamAppend("a", 0, [event(1)])])
    log.close()
    set_meta(log.path, "min_writer", "99.0.0")
    with Log.open(log.path) as old:
        assert old.readonly
        assert old.head_position() == 1
        with pytest.raises(LogReadOnly, match="update tallybook"):
            old.append([StreamAppend("a", 1, [event(2)])])
        assert old.head_position() == 1


def test_a_min_writer_raised_while_the_log_is_open_holds_at_once(log: Log, event: MakeEvent) -> None:
    """It is asked inside every append, so a program that was open does not write on."""
    log.append([StreamAppend("a", 0, [event(1)])])
    set_meta(log.path, "min_writer", "99.0.0")
    with pytest.raises(LogTooNew, match="update tallybook"):
        log.append([StreamAppend("a", 1, [event(2)])])
    assert log.head_position() == 1
    set_meta(log.path, "min_writer", "0.1.0")
    assert log.append([StreamAppend("a", 1, [event(2)])]) == [2]


def test_an_event_of_a_newer_program_is_read_and_not_decoded(log: Log, event: MakeEvent) -> None:
    """An unknown type or a higher schema is returned as it is stored; decoding it raises LogTooNew (OBS-54)."""
    log.append([StreamAppend("a", 0, [event(1)])])
    for number, (type_, schema) in enumerate((("comet.sighted", 1), ("source.truncated", 99)), start=2):
        log.connection.execute(
            "INSERT INTO events SELECT NULL, randomblob(16), session_id, stream_id, ?, ?, ?, at, writer, cause, "
            "turn, span, data, prev_hash, hash FROM events WHERE position = 1",
            (number, type_, schema),
        )
        stored = log.event_at(number)
        with pytest.raises(LogTooNew, match=f"{type_}, schema {schema}"):
            decode(stored.type, stored.schema, stored.data)
    assert len(list(log.all_events())) == 3


# permissions


def test_a_new_log_is_its_owners_alone(tmp_path: Path, event: MakeEvent) -> None:
    """File 0600, folder 0700, and the same for everything beside it, whatever the umask lets through."""
    path = tmp_path / "new" / "ledger.db"
    before = os.umask(0)
    try:
        with Log.create(path) as log:
            log.append([StreamAppend("a", 0, [event(1)])])
            assert mode(path.parent) == 0o700
            beside = sorted(path.parent.iterdir())
            assert [one.name for one in beside] == ["ledger.db", "ledger.db-shm", "ledger.db-wal", "ledger.db.lock"]
            assert {mode(one) for one in beside} == {0o600}
    finally:
        os.umask(before)


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    """Only a folder that is made is closed to others."""
    (tmp_path / "mine").mkdir(0o755)
    (tmp_path / "mine").chmod(0o755)
    Log.create(tmp_path / "mine" / "ledger.db").close()
    assert mode(tmp_path / "mine") == 0o755


@pytest.fixture
def public(public_folder: Path, event: MakeEvent) -> Path:
    """A log with three events that others may look at."""
    path = public_folder / "ledger.db"
    with Log.create(path) as log:
        log.append([StreamAppend("a", 0, [event(1), event(2), event(3)])])
    Path(f"{path}.lock").unlink()
    return path


def visit(child: Any, path: Path) -> dict[str, Any]:
    """Return what another user gets of the log. A refusal is one line."""
    said: dict[str, Any] = json.loads(child.run("visitor", "open", path))
    assert "\n" not in said.get("message", "")
    return said


def test_another_user_may_read_a_file_that_is_not_theirs(child: Any, public: Path) -> None:
    """Neither file nor folder can be written: the events are read, appending is refused, nothing is left behind."""
    public.chmod(0o444)
    public.parent.chmod(0o555)
    said = visit(child, public)
    assert (said["readonly"], said["events"], said["error"]) == (True, 3, "LogReadOnly")
    assert str(public) in said["message"]
    assert [one.name for one in public.parent.iterdir()] == ["ledger.db"]


def test_another_user_sees_what_a_live_writer_appended(child: Any, public: Path, event: MakeEvent) -> None:
    """A reader without rights sees the events that are still in the write-ahead file."""
    public.chmod(0o644)
    with Log.open(public) as log:
        log.append([StreamAppend("a", 3, [event(4)])])
        public.parent.chmod(0o555)
        if os.geteuid():  # the owner is the visitor: only the mode keeps it from writing
            public.chmod(0o444)
        said = visit(child, public)
        public.parent.chmod(0o755)
    assert (said["readonly"], said["events"], said["error"]) == (True, 4, "LogReadOnly")


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"),
    [(0o000, 0o755), (0o000, 0o555), (0o644, 0o000), (0o666, 0o555)],
    ids=["file closed", "both closed", "folder closed", "folder not writable"],
)
def test_what_another_user_may_not_reach_is_refused_in_one_line(
    child: Any, public: Path, file_mode: int, folder_mode: int
) -> None:
    """A log that cannot be opened says which and why; it is never taken for a missing one."""
    public.chmod(file_mode)
    public.parent.chmod(folder_mode)
    said = visit(child, public)
    assert said["error"] == "LogUnavailable"
    assert said["message"].startswith(str(public))
    assert "permissions" in said["message"]
    assert "no ledger here" not in said["message"]


def test_a_place_that_cannot_be_written_cannot_be_created_in(child: Any, public_folder: Path) -> None:
    """Creating in another user's folder is refused in one line."""
    public_folder.chmod(0o555)
    place = public_folder / "new" / "ledger.db"
    said = json.loads(child.run("visitor", "create", place))
    assert said == {
        "error": "LogUnavailable",
        "message": f"{place}: cannot be created (Permission denied): give another place with --db",
    }


# locked


def test_a_transaction_of_another_program_is_waited_for_and_then_named(
    log: Log, child: Any, event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process sits in a transaction: reading goes on, appending gives up in one line."""
    log.append([StreamAppend("a", 0, [event(1)])])
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    holder = child.start("holder", "exclusive", log.path)
    assert holder.stdout.readline().startswith("held")
    with Log.open(log.path) as other:
        assert other.head_position() == 1
        with pytest.raises(LogUnavailable, match="another program holds it locked") as raised:
            other.append([StreamAppend("a", 1, [event(2)])])
        assert "\n" not in str(raised.value)
        holder.communicate("\n")
        assert other.append([StreamAppend("a", 1, [event(2)])]) == [2]


def test_a_file_held_alone_by_another_program_is_refused(
    log: Log, child: Any, event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has the whole file (`locking_mode=EXCLUSIVE`): opening gives up in one line."""
    log.close()
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    holder = child.start("holder", "alone", log.path)
    assert holder.stdout.readline().startswith("held")
    assert "another program holds it locked" in refusal(log.path)
    holder.communicate("\n")
    Log.open(log.path).close()


# the full disk


@contextmanager
def small_disk(folder: Path) -> Iterator[tuple[Callable[[Log], None], Callable[[Log], None]]]:
    """Make the folder's file system one of 1 MB; yield what fills it and what makes room again.

    Where nothing can be mounted, SQLite's own limit on pages stands in: it ends in the same error.
    """
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0755", "tmpfs", str(folder)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        yield (
            lambda log: log.connection.execute("PRAGMA max_page_count=1"),
            lambda log: log.connection.execute("PRAGMA max_page_count=1000000"),
        )
        return

    def fill(_: Log) -> None:
        with pytest.raises(OSError, match="No space left"), (folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    try:
        yield fill, lambda _: (folder / "filler").unlink()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_nothing_is_half_written(
    tmp_path: Path, event: MakeEvent, assert_sound: Callable[[Log], None]
) -> None:
    """The append that finds no room fails in one line; with room it works, the same event (OBS-49)."""
    late = event(2)
    blob = make_blob(os.urandom(200_000))
    with small_disk(tmp_path) as (fill, make_room), Log.create(tmp_path / "ledger.db") as log:
        log.append([StreamAppend("a", 0, [event(1)])])
        fill(log)
        with pytest.raises(LogUnavailable, match="the disk is full") as raised:
            log.append([StreamAppend("a", 1, [late])], [(late.event_id, blob)])
        assert "\n" not in str(raised.value)
        assert log.head_position() == 1
        assert log.blob(blob.sha256) is None
        with Log.open(log.path) as again:
            assert again.head_position() == 1
        make_room(log)
        assert log.append([StreamAppend("a", 1, [late])], [(late.event_id, blob)]) == [2]
        assert log.blob(blob.sha256) is not None
        assert_sound(log)


def test_a_file_that_may_not_grow_is_said_and_nothing_is_half_written(
    log: Log, child: Any, event: MakeEvent, assert_sound: Callable[[Log], None]
) -> None:
    """The system's limit on a file's size, as under a quota: a clear error, and later the same event is appended."""
    log.append([StreamAppend("source:a", 0, [event(1)])])
    said = json.loads(child.run("limited", "append", log.path))
    assert said["error"] == "LogUnavailable"
    assert "\n" not in said["message"]
    assert (said["before"], said["after"], said["blob"], said["end"]) == (1, 1, False, 2)
    assert_sound(log)


def test_a_log_that_found_no_room_to_be_made_is_made_later(child: Any, tmp_path: Path, event: MakeEvent) -> None:
    """Creating without room fails in one line, and what it left is completed when there is room."""
    place = tmp_path / "ledger.db"
    said = json.loads(child.run("limited", "create", place))
    assert said["error"] == "LogUnavailable"
    assert "\n" not in said["message"]
    assert place.exists()
    with Log.open(place, create=True) as log:
        assert log.append([StreamAppend("a", 0, [event(1)])]) == [1]
