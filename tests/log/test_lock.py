"""The lock that writers queue at: one at a time, named when it takes too long, given back by the dead."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import LogUnavailable
from ledger.events.envelope import NewEvent
from ledger.log.lock import CommitLock
from ledger.log.log import Log, StreamAppend

MakeEvent = Callable[..., NewEvent]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A lock file that does not exist yet."""
    return tmp_path / "ledger.db.lock"


def holder(child: Any, place: Path) -> tuple[Any, str]:
    """Start a process that holds the lock; return it and its process id."""
    process = child.start("holder", "lock", place.with_suffix(""))
    word, pid = process.stdout.readline().split()
    assert word == "held"
    return process, pid


def test_a_second_process_waits_and_gets_the_lock(child: Any, place: Path) -> None:
    """The wait ends soon after the holder lets go."""
    process, _ = holder(child, place)
    threading.Timer(0.2, lambda: process.stdin.write("\n") and process.stdin.flush()).start()
    begin = time.monotonic()
    with CommitLock(place, timeout_s=20):
        waited = time.monotonic() - begin
    assert 0.1 < waited < 10
    assert process.wait() == 0


def test_whoever_has_it_may_take_it_again(place: Path) -> None:
    """It is given back when the outermost of its holder's turns ends, also where an inner one fails."""
    lock = CommitLock(place)
    with lock:
        with pytest.raises(ValueError, match="inner"), lock:
            raise ValueError("inner")
        with pytest.raises(LogUnavailable), CommitLock(place, timeout_s=0.05):
            pass
    with CommitLock(place, timeout_s=0.05):
        pass


def test_the_time_out_names_the_holder(child: Any, place: Path) -> None:
    """Whoever waited too long is told which process to look at, in one line."""
    _, pid = holder(child, place)
    begin = time.monotonic()
    with pytest.raises(LogUnavailable, match=f"by process {pid} for more than") as raised:
        CommitLock(place, timeout_s=0.2).__enter__()
    assert "\n" not in str(raised.value)
    assert 0.2 <= time.monotonic() - begin < 5


def test_an_append_that_waits_too_long_says_so_and_writes_nothing(log: Log, child: Any, event: MakeEvent) -> None:
    """The lock of a log is this lock: append passes its error on, and works when the lock is free."""
    process, pid = holder(child, Path(f"{log.path}.lock"))
    log.lock.timeout_s = 0.1
    with pytest.raises(LogUnavailable, match=f"process {pid} "):
        log.append([StreamAppend("a", 0, [event(1)])])
    assert log.head_position() == 0
    process.communicate("\n")
    assert log.append([StreamAppend("a", 0, [event(1)])]) == [1]


def test_the_lock_is_given_back_when_its_holder_is_killed(child: Any, place: Path) -> None:
    """SIGKILL leaves no lock behind: the next one has it at once."""
    process, _ = holder(child, place)
    process.kill()
    process.wait()
    begin = time.monotonic()
    with CommitLock(place, timeout_s=5) as lock:
        assert lock.holder() == str(os.getpid())
    assert time.monotonic() - begin < 1


def test_an_error_inside_gives_the_lock_back(place: Path) -> None:
    """Leaving by an exception is leaving."""
    with pytest.raises(ZeroDivisionError), CommitLock(place):
        raise ZeroDivisionError
    with CommitLock(place, timeout_s=0):
        pass


def test_a_holder_that_cannot_write_its_name_holds_all_the_same(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the name of the holder is lost, the lock is not, and it is given back."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with CommitLock(place), pytest.raises(LogUnavailable, match="by process unknown"):
        CommitLock(place, timeout_s=0).__enter__()
    with CommitLock(place, timeout_s=0):
        pass


def test_an_interrupt_while_the_lock_is_taken_gives_it_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the moment between taking the lock and entering leaves nobody waiting."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    lock = CommitLock(place)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock.__enter__()
    with CommitLock(place, timeout_s=0):
        pass


def test_a_lock_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    """No folder, or a folder in its place: LogUnavailable, not a traceback."""
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "none" / "x.lock", tmp_path / "folder"):
        with pytest.raises(LogUnavailable, match="the lock file cannot be opened") as raised:
            CommitLock(path).__enter__()
        assert "\n" not in str(raised.value)


def test_a_child_after_a_fork_has_a_lock_of_its_own(child: Any, place: Path) -> None:
    """It waits for its parent like any other process, and its end does not let others past the parent."""
    assert child.run("forker", place) == "ok\n"


def test_threads_with_a_log_each_take_turns(log: Log, event: MakeEvent, assert_sound: Callable[[Log], None]) -> None:
    """A log is not shared between threads; two logs in one process queue like two processes."""
    errors: list[BaseException] = []

    def write(stream: str) -> None:
        try:
            with Log.open(log.path) as own:
                for version in range(50):
                    own.append([StreamAppend(stream, version, [event(version)])])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(stream,)) for stream in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert log.head_position() == 150
    assert_sound(log)


def test_a_log_used_by_another_thread_is_refused(log: Log, event: MakeEvent) -> None:
    """Sharing is an error in the thread that tries it; the owner goes on, and the lock is free."""
    errors: list[BaseException] = []

    def write() -> None:
        try:
            log.append([StreamAppend("a", 0, [event(1)])])
        except LogUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert log.append([StreamAppend("a", 0, [event(2)])]) == [1]


def test_closing_a_log_closes_all_its_files(tmp_path: Path, event: MakeEvent) -> None:
    """Opening, appending and closing many times leaves no descriptor behind."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open descriptors are counted in /proc")
    path = tmp_path / "ledger.db"
    counts = []
    for version in range(5):
        with Log.open(path, create=True) as log:
            log.append([StreamAppend("a", version, [event(version)])])
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
    assert len(set(counts)) == 1
