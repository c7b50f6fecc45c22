"""A log held against a kept seal: whatever was done to it after it was sealed is found, and named where it is.

Each case tampers with the file by the bare driver, triggers dropped. What a strong forger does (chains computed
anew, seals in the log removed, accounts folded from the forgery) is found by the kept file alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.cli import run
from ledger.errors import UsageError
from ledger.evidence.kept import as_file, hold_against, new_file, read_file
from ledger.evidence.seals import Fault, make_seal
from ledger.invariants import check
from ledger.log.log import Log
from ledger.sources.importer import run_import


def at(faults: list[Fault], stream: str, version: int | None = None) -> Fault:
    """Return the fault that is found at a place; it must be there."""
    found = [one for one in faults if one.stream == stream and (version is None or one.version == version)]
    assert found, faults
    return found[0]


def test_the_twin_that_nobody_touched_passes(sealed: Any) -> None:
    """Every case below begins from here: no fault, no event since (OBS-29)."""
    assert sealed.held() == ([], 0)
    assert sealed.plainly_failing() == set()


def test_what_came_since_is_counted_and_no_fault(sealed: Any, add: Any) -> None:
    """A log goes on after it is sealed: in known streams, in new ones, by further seals."""
    with Log.open(sealed.path) as log:
        run_import(log, ("claude-code",), Path(__file__).parents[1] / "cases" / "real-claude-code" / "retries",
                   use_environment=False)  # fmt: skip
        make_seal(log)
        total = log.head_position()
    assert total > sealed.seal.events + 2
    assert sealed.held() == ([], total - sealed.seal.events - 1)


def test_a_byte_of_the_data(sealed: Any, growing: str) -> None:
    """A figure in an event: named with stream, version and position (OBS-29)."""
    sealed.spoil("UPDATE events SET data = replace(data, '\"output_tokens\":100', '\"output_tokens\":101') "
                 "WHERE stream_id = ? AND version = 3", growing)  # fmt: skip
    faults, _ = sealed.held()
    fault = at(faults, growing, 3)
    assert "hash does not fit the contents" in fault.what
    assert fault.position == sealed.events(growing)[2].position
    assert len(faults) == 1


ANOTHER: dict[str, Any] = {
    "event_id": b"\x01" * 16, "session_id": "s", "type": "source.billed", "schema": 2, "at": 1, "writer": "w",
    "cause": b"\x02" * 16, "turn": "t", "span": "", "data": "{}", "prev_hash": b"\x03" * 32, "hash": b"\x04" * 32,
}  # fmt: skip


@pytest.mark.parametrize("column", ANOTHER)
def test_any_column_of_the_envelope(sealed: Any, growing: str, column: str) -> None:
    """Every column but the position is under the seal, also one that was empty, also in an event in the middle."""
    sealed.spoil(f"UPDATE events SET {column} = ? WHERE stream_id = ? AND version = 3", ANOTHER[column], growing)
    faults, _ = sealed.held()
    assert {one.stream for one in faults} == {growing}
    assert at(faults, growing, 3).position == sealed.events(growing)[2].position


@pytest.mark.parametrize("version", [1, 3, 5])
def test_a_changed_time(sealed: Any, growing: str, version: int) -> None:
    """By a microsecond, in the first, a middle and the last event of a stream."""
    sealed.spoil("UPDATE events SET at = at + 1 WHERE stream_id = ? AND version = ?", growing, version)
    faults, _ = sealed.held()
    assert "hash does not fit" in at(faults, growing, version).what
    assert len(faults) == 1


@pytest.mark.parametrize("version", [1, 3])
def test_a_missing_event_in_the_middle(sealed: Any, growing: str, version: int) -> None:
    """The event after the gap names it."""
    sealed.spoil("DELETE FROM events WHERE stream_id = ? AND version = ?", growing, version)
    faults, _ = sealed.held()
    assert at(faults, growing, version + 1).what.endswith(f"version {version + 1} follows {version - 1}")


@pytest.mark.parametrize("left", [1, 3, 4])
def test_a_cut_tail(sealed: Any, growing: str, left: int) -> None:
    """The stream did not change since the seal before, so only the list of all heads knows its end."""
    sealed.spoil("DELETE FROM events WHERE stream_id = ? AND version > ?", growing, left)
    faults, _ = sealed.held()
    [fault] = faults
    assert fault == Fault("the end of a stream was cut off", growing, left, None, "5 events", str(left))


def test_a_dropped_stream(sealed: Any, growing: str) -> None:
    """It is named, with how many events it had."""
    sealed.spoil("DELETE FROM events WHERE stream_id = ?", growing)
    faults, _ = sealed.held()
    [fault] = faults
    assert fault == Fault("a stream was dropped: it is not in the log", growing, expected="5 events", found="none")


@pytest.mark.parametrize("swapped", ["position", "data", "version"])
def test_a_swapped_pair(sealed: Any, growing: str, swapped: str) -> None:
    """Two events of a stream that change places, or contents, or numbers."""
    sealed.connection.execute("PRAGMA foreign_keys=OFF")
    second, third = sealed.events(growing)[1:3]
    one, other = getattr(second, swapped), getattr(third, swapped)
    key = "event_id"
    spare = "{}" if swapped == "data" else 10**6
    for value, event in ((spare, second), (one, third), (other, second)):
        sealed.spoil(f"UPDATE events SET {swapped} = ? WHERE {key} = ?", value, event.event_id)
    faults, _ = sealed.held()
    assert {one.stream for one in faults} == {growing}
    assert {2, 3} & {one.version for one in faults}


def forged(sealed: Any, stream: str) -> None:
    """Change a figure in the middle of a stream and make its chain whole again."""
    sealed.spoil("UPDATE events SET data = replace(data, '\"output_tokens\":100', '\"output_tokens\":1') "
                 "WHERE stream_id = ? AND version = 3", stream)  # fmt: skip
    sealed.rehash(stream)


def test_a_rewritten_chain(sealed: Any, growing: str) -> None:
    """Every hash fits again, so `chains` holds; the seals in the log and the kept one know the old head."""
    forged(sealed, growing)
    sealed.forget_accounts()
    assert sealed.plainly_failing() == {"seals"}
    faults, _ = sealed.held()
    [fault] = faults
    assert fault.what.startswith("a stream was written anew")
    assert (fault.stream, fault.version) == (growing, 5)
    assert fault.position == sealed.events(growing)[4].position
    assert fault.expected != fault.found


def without_seals(sealed: Any) -> None:
    """Remove every seal from the book, and make the book whole again."""
    sealed.connection.execute("PRAGMA foreign_keys=OFF")
    for (event_id,) in sealed.rows("SELECT event_id FROM events WHERE type = 'seal.made'"):
        sealed.spoil("DELETE FROM event_blobs WHERE event_id = ?", event_id)
    sealed.spoil("DELETE FROM blobs WHERE sha256 NOT IN (SELECT sha256 FROM event_blobs)")
    sealed.spoil("DELETE FROM events WHERE type = 'seal.made'")
    sealed.rehash(sealed.book)
    sealed.close_gaps()
    sealed.forget_accounts()


def sealed_anew(sealed: Any) -> None:
    """Remove the seals, and seal the forgery as often."""
    without_seals(sealed)
    with Log.open(sealed.path) as log:
        make_seal(log)
        make_seal(log)


def tampered(sealed: Any, stream: str, kind: str) -> None:
    """Do to a stream what a test above does, and make its chain whole."""
    sealed.connection.execute("PRAGMA foreign_keys=OFF")
    if kind == "figure":
        forged(sealed, stream)
    elif kind == "time":
        sealed.spoil("UPDATE events SET at = at - 86400000000 WHERE stream_id = ?", stream)
        sealed.rehash(stream)
    elif kind == "tail":
        sealed.spoil("DELETE FROM events WHERE stream_id = ? AND version > 3", stream)
    else:
        sealed.spoil("DELETE FROM events WHERE stream_id = ?", stream)


STRONG: dict[str, Callable[[Any], None]] = {"removes the seals": without_seals, "seals anew": sealed_anew}


@pytest.mark.parametrize("kind", ["figure", "time", "tail", "stream"])
@pytest.mark.parametrize("cover", STRONG)
def test_a_strong_forger_is_found_by_the_kept_file_alone(sealed: Any, growing: str, kind: str, cover: str) -> None:
    """All that the log says of itself fits: every check holds, in full. The file kept elsewhere does not (OBS-29)."""
    tampered(sealed, growing, kind)
    STRONG[cover](sealed)
    assert sealed.plainly_failing() == set()
    faults, _ = sealed.held()
    assert growing in {one.stream for one in faults}
    assert at(faults, sealed.book, sealed.seal.book.version)


@pytest.mark.parametrize("cover", STRONG)
def test_removing_the_seals_alone_is_found(sealed: Any, cover: str) -> None:
    """Nothing else was touched, and yet the place of the seal is empty or another's."""
    STRONG[cover](sealed)
    assert sealed.plainly_failing() == set()
    faults, _ = sealed.held()
    assert {one.stream for one in faults} == {sealed.book}


# the file itself


def rewritten(path: Path, **fields: Any) -> None:
    """Change fields of a kept seal."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def forge_heads(path: Path, change: Callable[[list[Any]], None]) -> None:
    """Change the heads of a kept seal."""
    heads = json.loads(path.read_text())["heads"]
    change(heads)
    rewritten(path, heads=heads)


FORGERIES: dict[str, Callable[[list[Any]], None]] = {
    "a hash": lambda heads: heads[1].__setitem__(2, "ab" * 32),
    "a version": lambda heads: heads[1].__setitem__(1, heads[1][1] + 1),
    "a name": lambda heads: heads[1].__setitem__(0, "source:another"),
    "one left out": lambda heads: heads.pop(1),
    "one more": lambda heads: heads.append(["source:another", 1, "ab" * 32]),
    "one twice": lambda heads: heads.append(heads[-1]),
    "no hash": lambda heads: heads[1].__setitem__(2, "xyz"),
    "a version below zero": lambda heads: heads[1].__setitem__(1, -1),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_forged_heads_in_the_file(sealed: Any, kind: str) -> None:
    """The digest does not fit them: the file is named, and nothing is said of the log."""
    forge_heads(sealed.kept, FORGERIES[kind])
    faults, _ = sealed.held()
    assert faults and all("file" in one.what and not one.stream for one in faults)


OTHER_FIELDS = {
    "digest": "ab" * 32, "made_at": "2026-01-01T00:00:00.000000Z", "position": 1, "previous": None, "streams": 99,
    "streams_changed": 99, "events": 1, "changed": "ab" * 32, "heads_sha256": "ab" * 32,
    "book": {"stream": "book", "version": 1, "event_id": "", "hash": ""},
}  # fmt: skip


@pytest.mark.parametrize("field", OTHER_FIELDS)
def test_any_other_field_of_the_file(sealed: Any, field: str) -> None:
    """Also its time and its place in the log are under the digest."""
    rewritten(sealed.kept, **{field: OTHER_FIELDS[field]})
    faults, _ = sealed.held()
    assert faults and all("the file" in one.what for one in faults)


@pytest.mark.parametrize("field", ["event_id", "hash"])
def test_what_the_file_says_of_the_event_that_made_it(sealed: Any, field: str) -> None:
    """The event covers the digest and not the other way round, so the log is asked."""
    book = json.loads(sealed.kept.read_text())["book"]
    rewritten(sealed.kept, book=book | {field: "ab" * 16})
    faults, _ = sealed.held()
    assert [(one.stream, one.version) for one in faults] == [(sealed.book, sealed.seal.book.version)]


def test_a_forged_file_with_a_digest_that_fits(sealed: Any, growing: str) -> None:
    """Whoever forges heads and digest alike makes a seal of something that no log ever was: its heads are not here."""
    with Log.open(sealed.path) as log:
        heads = log.heads()
    with Log.create(sealed.path.parent / "other.db") as other:
        made = make_seal(other)
    fake = made._replace(heads=[head._replace(hash=bytes(32)) for head in heads])
    from ledger.evidence.seals import Heads, digest_of, sha256

    listed = Heads()
    listed.put(fake.heads)
    body = msgspec.structs.replace(
        made.body, heads=sha256(listed.listing()), streams=len(fake.heads), events=listed.events
    )
    body = msgspec.structs.replace(body, digest=digest_of(body, made.event.stream_id, made.event.version))
    sealed.kept.write_bytes(as_file(fake._replace(body=body)))
    faults, _ = sealed.held()
    assert at(faults, growing, 5)


def test_the_seal_of_another_log(sealed: Any, add: Any) -> None:
    """Said first, in so many words, with both books; also where both logs read the same files."""
    with Log.create(sealed.path.parent / "other.db") as other:
        run_import(other, ("claude-code", "codex"), Path(__file__).parents[2] / "reports" / "sample",
                   use_environment=False)  # fmt: skip
        made = make_seal(other)
        assert hold_against(other, msgspec.json.decode(as_file(made), type=type(sealed.seal))) == ([], 0)
    (sealed.kept).write_bytes(as_file(made))
    faults, _ = sealed.held()
    assert "the seal of another log" in faults[0].what
    assert faults[0].expected == made.event.stream_id != faults[0].found
    assert len(faults) == len(made.heads) + 2


# the command


def outcome(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run a command; return exit code and both outputs."""
    code = run([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_command_says_what_holds(sealed: Any, capsys: pytest.CaptureFixture[str], add: Any) -> None:
    """Exit 0, one more check, and how much came since."""
    code, out, _ = outcome(capsys, "verify", "--seal", sealed.kept, "--db", sealed.path)
    assert (code, out.splitlines()[-1]) == (0, f"0 events since the seal of {sealed.seal.made_at[:19]}Z")
    assert "kept seal" in out
    code, out, _ = outcome(capsys, "verify", "--seal", sealed.kept, "--db", sealed.path, "--format", "json")
    told = json.loads(out)
    assert (code, told["ok"], told["seal"]["events_since"]) == (0, True, 0)
    assert told["checks"][-1]["name"] == "kept seal"


def test_the_command_says_what_does_not(sealed: Any, growing: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, and each finding has its stream, version and position."""
    sealed.spoil("UPDATE events SET writer = 'x' WHERE stream_id = ? AND version = 3", growing)
    code, out, _ = outcome(capsys, "verify", "--seal", sealed.kept, "--db", sealed.path, "--format", "json")
    assert code == 1
    [finding] = json.loads(out)["checks"][-1]["found"]
    assert (finding["stream"], finding["version"]) == (growing, 3)
    assert finding["event"] == sealed.events(growing)[2].position


@pytest.mark.parametrize("content", ["", "no json", "[]", "{}", '{"format": "x"}', "\x00" * 100, "[" * 100_000])
def test_a_file_that_is_no_seal(sealed: Any, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 and one line: it is not the log that is wrong."""
    sealed.kept.write_text(content)
    code, out, err = outcome(capsys, "verify", "--seal", sealed.kept, "--db", sealed.path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "kept.json: is no seal" in err


def test_a_file_that_is_missing_or_of_a_later_format(sealed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, "verify", "--seal", sealed.kept.parent / "none", "--db", sealed.path)
    assert (code, err.count("\n")) == (2, 1)
    rewritten(sealed.kept, version=2)
    code, _, err = outcome(capsys, "verify", "--seal", sealed.kept, "--db", sealed.path)
    assert code == 2 and "update tallybook" in err


def test_sealing_to_a_file(sealed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The file and JSON on standard output are the same; a file that is there is never written over."""
    new = sealed.path.parent / "new.json"
    code, out, _ = outcome(capsys, "seal", "--out", new, "--db", sealed.path, "--format", "json")
    assert code == 0
    assert new.read_text() == out
    assert read_file(new).previous == sealed.seal.digest
    with Log.open(sealed.path) as log:
        before = log.head_position()
    code, _, err = outcome(capsys, "seal", "--out", new, "--db", sealed.path)
    assert code == 2 and "is there already" in err
    with Log.open(sealed.path) as log:
        assert log.head_position() == before
    with pytest.raises(UsageError):
        new_file(new)


def test_a_file_that_cannot_be_written_seals_nothing(sealed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be kept is not sealed, and no half of a file is left behind."""
    code, _, _ = outcome(capsys, "seal", "--out", sealed.path.parent / "no" / "where.json", "--db", sealed.path)
    assert code == 2
    sealed.connection.close()
    sealed.path.chmod(0o400)
    if os.access(sealed.path, os.W_OK):  # as root, permissions stop nobody
        assert sealed.held() == ([], 0)
        return
    code, _, err = outcome(capsys, "seal", "--out", sealed.path.parent / "x.json", "--db", sealed.path)
    assert code == 2 and "may not be written" in err
    assert not (sealed.path.parent / "x.json").exists()


def test_a_seal_survives_a_copy_into_another_database(sealed: Any, tmp_path: Path, add: Any) -> None:
    """Copied event by event into a log that has events of its own: positions change, the seal holds all the same."""
    with Log.open(sealed.path) as log, Log.create(tmp_path / "copy.db") as copy:
        add(copy, "source:own", 1, 2, 3)
        mine = make_seal(copy)
        events = list(log.all_events())
        # stream by stream, so in another order than they were recorded in
        events.sort(key=lambda event: (event.stream_id, event.version))
        begin = copy.head_position()
        rows = [(begin + place, *event[1:]) for place, event in enumerate(events, 1)]
        copy.connection.executemany(copy.sql["append_event"], rows)
        for table in ("blobs", "event_blobs"):
            found = log.connection.execute(f"SELECT * FROM {table}").fetchall()
            marks = ", ".join("?" * len(found[0]))
            for row in found:
                copy.connection.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(row))
        assert hold_against(copy, sealed.seal) == ([], 4)
        names = {one.name: one.ok for one in check(copy)}
        assert names["seals"] and names["chains"] and names["blobs"]
        merged = make_seal(copy)  # one seal over both logs, after the one that this log made of itself
        assert merged.body.previous == mine.body.digest
        assert {head.stream_id for head in merged.heads} == {one.stream_id for one in copy.heads()}
        assert {one.name: one.ok for one in check(copy)}["seals"]
