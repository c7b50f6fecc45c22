"""Purging: the text is gone from the bytes of the files, everything else is as it was, and evidence says what left."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.accounts.catchup import rebuild, snapshot
from ledger.cli import run
from ledger.errors import LogReadOnly
from ledger.events.registry import decode
from ledger.evidence import purge as purging
from ledger.evidence.kept import as_file, hold_against, read_file
from ledger.evidence.purge import Wish, purge, purged_names, select
from ledger.evidence.seals import make_seal
from ledger.invariants import check
from ledger.log.blobs import make_blob
from ledger.log.log import Log
from ledger.sources.importer import run_import

OLD, NEW, OTHER = "5e551101-old", "5e551102-new", "5e551103-other"
SHORT = "API Error: 529 quite-short-and-kept-plain"
LONG = "API Error: 500 " + " ".join(f"word-{number}-of-a-long-text" for number in range(400))
LATE = "API Error: 503 only-in-november"
SHARED = "API Error: 429 the-same-words-in-two-sessions"
AGENTS = "API Error: 500 within-a-sub-agent"


def failure(session: str, at: str, text: str, **more: Any) -> str:
    """Return the line of a failed request."""
    return json.dumps({
        "type": "assistant", "uuid": f"u-{session}-{at}", "sessionId": session, "timestamp": at,
        "isApiErrorMessage": True, "apiErrorStatus": 529, "message": {
            "id": f"err-{session}-{at}", "model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0},
            "content": [{"type": "text", "text": text}]}, **more,
    }) + "\n"  # fmt: skip


class Book:
    """A log with texts in three sessions, one with a sub-agent, and the home folder that it was read from."""

    def __init__(self, folder: Path) -> None:
        self.path, self.home = folder / "ledger.db", folder / "home"
        for day, text in (("09-01", SHORT), ("09-02", LONG), ("09-03", SHARED), ("11-20", LATE)):
            self.write(OLD, failure(OLD, f"2026-{day}T12:00:00Z", text))
        self.write(f"{OLD}/subagents/agent-a1", failure(OLD, "2026-09-04T12:00:00Z", AGENTS, agentId="a1",
                                                        isSidechain=True))  # fmt: skip
        self.write(NEW, failure(NEW, "2026-11-21T12:00:00Z", SHARED))
        self.write(OTHER, failure(OTHER, "2026-09-05T12:00:00Z", "API Error: 500 of another session"))
        self.read()

    def write(self, session: str, *lines: str) -> Path:
        """Append lines to a session's file."""
        file = self.home / ".claude" / "projects" / "x" / f"{session}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as growing:
            growing.write("".join(lines))
        return file

    def read(self) -> None:
        """Import what is new."""
        with Log.open(self.path, create=True) as log:
            run_import(log, ("claude-code",), self.home, use_environment=False)

    def texts(self) -> set[str]:
        """Return the texts that the log still has."""
        with Log.open(self.path) as log:
            return {(log.blob(link.sha256) or b"").decode("utf-8", "replace") for link in log.blob_links()}

    def bytes(self) -> bytes:
        """Return all that stands in the files of the log."""
        return b"".join(one.read_bytes() for one in sorted(self.path.parent.glob("ledger.db*")))

    def wish(self, wish: Wish) -> bool:
        """Purge; return whether no trace is left."""
        with Log.open(self.path) as log, snapshot(log) as view:
            selection = select(log, view, wish)
        with Log.open(self.path) as log:
            return purge(log, wish, selection)

    def failing(self) -> set[str]:
        """Return the checks that fail."""
        with Log.open(self.path) as log:
            return {one.name for one in check(log, full=True) if not one.ok}


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    """A fresh log with texts."""
    return Book(tmp_path)


ALL = {SHORT, LONG, LATE, SHARED, AGENTS, "API Error: 500 of another session"}
SESSION = Wish("claude-code", OLD)


def stored(text: str) -> bytes:
    """Return a text as it is stored, compressed where it is long."""
    return make_blob(text.encode()).bytes


def test_the_bytes_are_gone_from_the_files(book: Book) -> None:
    """Plain and compressed texts: they stand in the file before, and nowhere in it or its -wal after (OBS-29)."""
    gone = (SHORT, LONG, LATE, AGENTS)
    assert make_blob(LONG.encode()).encoding == "zstd"
    assert all(stored(text) in book.bytes() for text in (SHORT, LATE, SHARED, AGENTS))
    assert stored(LONG)[:64] in book.bytes()
    assert book.wish(SESSION)
    left = book.bytes()
    for text in gone:
        assert stored(text)[:64] not in left
        assert text.encode()[:30] not in left
    assert stored(SHARED) in left
    assert book.failing() == set()


def test_bytes_that_moved_within_the_file_are_gone_too(book: Book) -> None:
    """Pages that were split and blobs deleted without care leave old bytes in free room: the file is written anew."""
    for number in range(200):
        book.write(OLD, failure(OLD, f"2026-09-06T12:{number // 60:02}:{number % 60:02}Z", f"{SHORT} again {number}"))
    book.read()
    assert book.wish(SESSION)
    assert b"quite-short" not in book.bytes()
    assert book.failing() == set()


def test_what_a_session_purge_takes(book: Book) -> None:
    """Its own texts and its sub-agents'; not one that another session names too, and nothing of others."""
    book.wish(SESSION)
    assert book.texts() == {SHARED, "API Error: 500 of another session"}


def test_a_sub_agent_with_a_session_of_its_own_belongs_to_its_root(tmp_path: Path) -> None:
    """The mentions of a Codex sub-agent's session are its root's; a circle of parents ends."""
    roots = {("codex", "child"): ("codex", "root")}
    wanted = purging._wanted(Wish("codex", "root"), roots)
    place = purging.Mention
    assert wanted(place("codex", "child", 0)) and wanted(place("codex", "root", 0))
    assert not wanted(place("codex", "other", 0)) and not wanted(place("claude-code", "root", 0))


def test_age_is_that_of_the_text(book: Book) -> None:
    """All of this was imported a moment ago; what counts is when it happened. A text named later too stays."""
    october = 1790812800 * 1_000_000  # 2026-10-01
    with Log.open(book.path) as log, snapshot(log) as view:
        selection = select(log, view, Wish(before_us=october))
    assert selection.shared == 1
    book.wish(Wish(before_us=october))
    assert book.texts() == {LATE, SHARED}
    assert book.failing() == set()


def test_the_event_says_exactly_what_left(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked, count, bytes and the sha256 of each; in several events where they are many."""
    monkeypatch.setattr(purging, "LISTED_PER_EVENT", 3)
    book.wish(SESSION)
    with Log.open(book.path) as log:
        bodies = [decode(one.type, one.schema, one.data) for one in log.book_events() if one.type == "blobs.purged"]
        named = purged_names(log)
    gone = (SHORT, LONG, LATE, AGENTS)
    assert sorted(body.count for body in bodies) == [1, 3]
    assert sum(body.size_bytes for body in bodies) == sum(map(len, gone))
    assert {name for body in bodies for name in body.sha256} == {make_blob(text.encode()).sha256.hex() for text in gone}
    assert {bytes.fromhex(name) for body in bodies for name in body.sha256} == named
    assert {(body.client, body.session, body.before) for body in bodies} == {("claude-code", OLD, 0)}


def test_events_figures_and_seals_stay_as_they_were(book: Book) -> None:
    """A seal of before holds after; rebuilt accounts are the same; a second purge finds nothing (OBS-53)."""
    with Log.open(book.path) as log:
        kept = book.path.parent / "kept.json"
        kept.write_bytes(as_file(make_seal(log)))
        events = list(log.all_events())
    book.wish(SESSION)
    with Log.open(book.path) as log:
        assert list(log.all_events())[: len(events)] == events
        assert hold_against(log, read_file(kept)) == ([], 1)
        rebuild(log)
        with snapshot(log) as view:
            assert select(log, view, SESSION).sizes == {}
    assert book.failing() == set()


def test_a_blob_that_is_missing_without_such_an_event_is_still_found(book: Book) -> None:
    """Somebody deletes two texts by hand, of which one was purged before."""
    book.wish(SESSION)
    with Log.open(book.path) as log:
        log.connection.execute("DELETE FROM blobs WHERE sha256 = ?", (make_blob(SHARED.encode()).sha256,))
        outcome = {one.name: one for one in check(log)}["blobs"]
    assert not outcome.ok
    assert [one["what"] for one in outcome.found] == [f"blob {make_blob(SHARED.encode()).sha256.hex()} is missing"]


def test_a_seals_list_of_heads_is_no_text(book: Book) -> None:
    """It is a blob like texts are, older than any day, and stays: without it no seal could be checked."""
    with Log.open(book.path) as log:
        make_seal(log)
    book.wish(Wish(before_us=1 << 60))
    assert len(book.texts()) == 1
    assert book.failing() == set()


def test_a_text_that_is_linked_while_it_is_purged_stays(book: Book) -> None:
    """Between the decision and the deletion another program records the same words."""
    with Log.open(book.path) as log, snapshot(log) as view:
        selection = select(log, view, SESSION)
    book.write(OTHER, failure(OTHER, "2026-11-22T12:00:00Z", LATE))
    book.read()
    with Log.open(book.path) as log:
        purge(log, SESSION, selection)
    assert LATE in book.texts() and SHORT not in book.texts()
    assert book.failing() == set()


def test_dying_between_event_and_deletion(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts are still there, nothing is broken, and purging again removes them."""
    with Log.open(book.path) as log, snapshot(log) as view:
        selection = select(log, view, SESSION)
    with Log.open(book.path) as log:
        monkeypatch.setattr(log, "delete_blobs", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            purge(log, SESSION, selection)
    assert book.texts() == ALL and book.failing() == set()
    assert book.wish(SESSION)
    assert SHORT not in book.texts()
    assert book.failing() == set()


# what must not come back


def test_an_import_brings_nothing_back(book: Book) -> None:
    """Nothing new, a new line at the end, a file that moved: the events are there already."""
    book.wish(SESSION)
    book.read()
    book.write(OLD, failure(OLD, "2026-11-23T12:00:00Z", "API Error: 500 a new one"))
    book.read()
    assert book.texts() == {SHARED, "API Error: 500 of another session", "API Error: 500 a new one"}
    assert book.failing() == set()


def test_a_file_that_is_read_anew_brings_nothing_back(book: Book) -> None:
    """Its first bytes changed, so all of it is read again: what was purged of it stays away, and shows so."""
    book.wish(SESSION)
    file = book.write(OLD)
    file.write_text("{}\n" + file.read_text())
    book.read()
    with Log.open(book.path) as log:
        assert any(event.type == "source.truncated" for event in log.all_events())
    assert book.texts() == {SHARED, "API Error: 500 of another session"}
    assert book.failing() == set()


def test_the_same_words_anew_are_another_text(book: Book) -> None:
    """Where an age was purged, a failure of today with the same words is kept."""
    book.wish(Wish(before_us=1790812800 * 1_000_000))
    book.write(NEW, failure(NEW, "2026-11-24T12:00:00Z", SHORT))
    book.read()
    assert SHORT in book.texts()
    assert book.failing() == set()


def test_appending_the_same_event_again_brings_nothing_back(book: Book) -> None:
    """A retry, or a copy of another log that still has the text: the event is known, and nothing is stored."""
    from ledger.events.envelope import EncodedBody, NewEvent
    from ledger.log.log import StreamAppend

    with Log.open(book.path) as log:
        [link] = [one for one in log.blob_links() if one.sha256 == make_blob(LONG.encode()).sha256]
        event = log.event_at(link.position)
    book.wish(SESSION)
    with Log.open(book.path) as log:
        again = NewEvent(body=EncodedBody(event.type, event.data), event_id=event.event_id, cause=event.cause)
        log.append([StreamAppend(event.stream_id, event.version - 1, [again])],
                   [(event.event_id, make_blob(LONG.encode()))])  # fmt: skip
    assert LONG not in book.texts()


# the command


Ledger = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ledger(book: Book, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A function that runs a command on the log."""
    monkeypatch.setenv("TZ", "UTC")

    def call(*words: str) -> tuple[int, str, str]:
        code = run([*words, "--db", str(book.path)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_the_command(book: Book, ledger: Ledger) -> None:
    """It says what left and what stays, and `show` says (purged) in place of the text."""
    code, out, _ = ledger("purge", "--session", OLD[:10], "--yes")
    assert code == 0
    assert f"of session {OLD}" in out and "purged 4 texts" in out
    assert "1 more stays" in out
    code, out, _ = ledger("show", OLD)
    assert out.count("failed: (purged)") >= 3 and SHARED in out
    code, out, _ = ledger("show", OLD, "--format", "json")
    told = {(span["error"], span["error_purged"]) for turn in json.loads(out)["turns"] for span in turn["spans"]}
    assert told == {(None, True), (SHARED, False)}
    code, out, _ = ledger("purge", "--session", OLD, "--yes")
    assert (code, out.splitlines()[0]) == (0, f"nothing to purge of session {OLD}")


def test_the_command_in_json_and_csv(book: Book, ledger: Ledger) -> None:
    code, out, _ = ledger("purge", "--older-than", "2026-10", "--yes", "--tz", "UTC", "--format", "json")
    told = json.loads(out)
    assert (code, told["count"], told["kept_shared"], told["traces_left"]) == (0, 4, 1, False)
    assert told["before"] == "2026-10-01T00:00:00.000Z" and len(told["sha256"]) == 4
    code, out, _ = ledger("purge", "--session", OLD, "--yes", "--format", "csv")
    assert out == f"sha256,size_bytes\n{make_blob(LATE.encode()).sha256.hex()},{len(LATE)}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "say what to purge: --older-than 90d, or --session ID"),
        ("--older-than 90d --session x", "say what to purge"),
        ("--session 5e5511", "add --yes where nobody can be asked"),
        ("--session 5e5511 --yes", "3 sessions begin so"),
        ("--session nobody --yes", "no session begins so"),
        ("--older-than soon --yes", "--older-than soon: not a day"),
    ],
)
def test_bad_use(book: Book, ledger: Ledger, words: str, told: str) -> None:
    """One line, exit 2, and nothing is gone."""
    code, out, err = ledger("purge", *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert book.texts() == ALL


def told(terminal: int) -> str:
    """Return all that was written to a terminal whose other end is closed."""
    found = b""
    with contextlib.suppress(OSError):  # how Linux says that this is the end
        while part := os.read(terminal, 10_000):
            found += part
    os.close(terminal)
    return found.decode()


@pytest.mark.parametrize(("answer", "gone"), [("y\n", True), ("n\n", False), ("\n", False), ("\x04", False)])
def test_on_a_terminal_it_asks(book: Book, answer: str, gone: bool) -> None:
    """Only a yes removes anything."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-P", "-m", "ledger", "purge", "--session", OLD, "--db", str(book.path)],
                             stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)  # fmt: skip
    os.close(theirs)
    os.write(ours, answer.encode())
    out, _ = child.communicate(timeout=60)
    asked = told(ours)
    assert child.returncode == 0
    assert "Purge 4 texts" in asked and "[y/N]" in asked
    assert (b"nothing was purged" in out) is not gone
    assert (SHORT not in book.texts()) is gone


def test_a_reader_that_holds_the_file(book: Book, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program reads an old state: the log is right, traces may be left, and that is said; later they go."""
    from ledger.log import sqlite

    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    reader = sqlite.driver.connect(str(book.path), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM blobs").fetchone()
    code, out, err = ledger("purge", "--session", OLD, "--yes")
    assert code == 1
    assert "purged 4 texts" in out and "traces" in err
    assert SHORT not in book.texts()
    assert SHORT.encode() in book.bytes()
    reader.execute("COMMIT")
    code, out, err = ledger("purge", "--session", OLD, "--yes")
    assert (code, err, out.splitlines()[0]) == (0, "", f"nothing to purge of session {OLD}")
    assert SHORT.encode() not in book.bytes()
    reader.close()


def test_a_log_that_may_not_be_written(book: Book) -> None:
    with Log.open(book.path) as log, snapshot(log) as view:
        selection = select(log, view, SESSION)
    with Log.open(book.path, readonly=True) as log:
        with pytest.raises(LogReadOnly):
            purge(log, SESSION, selection)
        with pytest.raises(LogReadOnly):
            log.delete_blobs(list(selection.sizes), selection.position)
    assert book.texts() == ALL
