"""Seals in the log: what is digested can be computed anew from docs/evidence.md, and covers every stream's head."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import LedgerError, LogReadOnly
from ledger.evidence.kept import as_file, hold_against, read_file
from ledger.evidence.seals import Heads, check_seals, make_seal, read_listing
from ledger.invariants import check
from ledger.log.log import Head, Log

DOCUMENT = Path(__file__).parents[2] / "docs" / "evidence.md"


# a second implementation, written from the recipe


def field(value: bytes | str | int | None) -> bytes:
    """Return a field as docs/hash.md says."""
    if value is None:
        return b"\xff\xff\xff\xff"
    raw = value if isinstance(value, bytes) else str(value).encode()
    return len(raw).to_bytes(4, "big") + raw


def listed(heads: list[Any]) -> str:
    """Return the digest of a list of heads as docs/evidence.md says."""
    heads = sorted(heads, key=lambda head: head[0].encode())
    return hashlib.sha256(b"".join(field(s) + field(v) + field(bytes.fromhex(h)) for s, v, h in heads)).hexdigest()


def digest(seal: dict[str, Any], made_at: int) -> str:
    """Return the digest of a kept seal as docs/evidence.md says."""
    fields = [
        seal["recipe"], seal["book"]["stream"], seal["book"]["version"],
        bytes.fromhex(seal["previous"]) if seal["previous"] else None, made_at, seal["position"], seal["streams"],
        seal["streams_changed"], seal["events"], bytes.fromhex(seal["changed"]), bytes.fromhex(seal["heads_sha256"]),
    ]  # fmt: skip
    return hashlib.sha256(b"".join(map(field, fields))).hexdigest()


def test_a_kept_seal_can_be_computed_anew(log: Log, add: Any) -> None:
    """The file alone, by another implementation: list, changed list, digest; the chain goes from seal to seal."""
    add(log, "source:a", 1, 2)
    add(log, "source:b", 1)
    first = make_seal(log)
    add(log, "source:b", 2)
    add(log, "source:ä", 1)
    second = make_seal(log)
    told = [json.loads(as_file(made)) for made in (first, second)]
    for made, seal in zip((first, second), told, strict=True):
        assert listed(seal["heads"]) == seal["heads_sha256"]
        assert digest(seal, made.body.made_at) == seal["digest"]
    changed = [head for head in told[1]["heads"] if head not in told[0]["heads"]]
    assert [head[:2] for head in changed] == [[log.book_stream, 1], ["source:b", 2], ["source:ä", 1]]
    assert listed(changed) == told[1]["changed"]
    assert (told[1]["streams"], told[1]["streams_changed"], told[1]["events"]) == (4, 3, 6)
    assert told[1]["previous"] == told[0]["digest"]


def test_the_document_has_a_seal_that_both_reach() -> None:
    """docs/evidence.md has a seal as a test vector, and its digest is that of the recipe."""
    text = DOCUMENT.read_text("utf-8")
    seal = json.loads(text.split("```json\n")[1].split("```")[0])
    assert listed(seal["heads"]) == seal["heads_sha256"]
    assert digest(seal, int(text.split("`made_at` is ")[1].split(" ")[0].replace(",", ""))) == seal["digest"]


HEAD = st.builds(Head, st.text(max_size=8), st.integers(1, 10**12), st.binary(min_size=32, max_size=32))


@given(st.lists(HEAD, max_size=12), st.randoms(use_true_random=False))
def test_a_list_of_heads_is_read_as_it_was_written(heads: list[Head], random: Any) -> None:
    """Whatever the names are; the order in which heads come does not matter, and of a stream the last counts."""
    one, other = Heads(), Heads()
    one.put(heads)
    shuffled = list(one.by_stream.values())
    random.shuffle(shuffled)
    other.put(shuffled)
    assert one.listing() == other.listing()
    assert {head.stream_id: head for head in read_listing(one.listing())} == one.by_stream


@pytest.mark.parametrize("raw", [b"\x00", b"\x00\x00\x00\x05ab", b"\x00\x00\x00\x01a", b"\xff\xff\xff\xff"])
def test_what_is_no_list_of_heads(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"list of heads|invalid literal"):
        read_listing(raw)


# what the log says of itself


def test_an_empty_log_and_one_that_did_not_change(log: Log) -> None:
    """Both can be sealed: that nothing happened until now is a fact too."""
    first = make_seal(log)
    assert (first.body.streams, first.body.events) == (0, 0)
    second, third = make_seal(log), make_seal(log)
    assert (second.body.streams, second.body.streams_changed) == (1, 1)
    assert (third.body.previous, third.body.events) == (second.body.digest, 2)
    assert list(check_seals(log)) == []
    assert hold_against(log, read_back(log, first)) == ([], 2)


def read_back(log: Log, made: Any) -> Any:
    """Return a seal by way of its file."""
    path = Path(f"{log.place}.{made.body.digest[:8]}.json")
    path.write_bytes(as_file(made))
    return read_file(path)


def test_the_event_stays_small(log: Log, add: Any) -> None:
    """Heads are in the file and in a blob, a digest is in the event; only what changed is stored again."""
    for number in range(50):
        add(log, f"source:{number}", 1)
    first, second = make_seal(log), make_seal(log)
    assert len(first.event.data) < 700
    assert len(second.event.data) < 700
    sizes = [log.blob(bytes.fromhex(made.body.changed)) for made in (first, second)]
    assert len(sizes[0] or b"") > 50 * 32
    assert [head.stream_id for head in read_listing(sizes[1] or b"")] == [log.book_stream]


SPOILT = {
    "digest": "a seal's digest does not fit what it says",
    "heads": "a seal's heads are not those",
    "changed": "a seal's list of heads is missing",
    "previous": "a seal names another one as the one before it",
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_seal_that_was_changed(sealed: Any, name: str) -> None:
    """Each name in it is held against what it names."""
    number = {"digest": 1, "heads": 1, "changed": 1, "previous": 2}[name]
    events = [one for one in sealed.events(sealed.book) if one.type == "seal.made"]
    event = events[number - 1]
    data = json.loads(event.data)
    data[name] = "ab" * 32
    sealed.spoil("UPDATE events SET data = ? WHERE position = ?", json.dumps(data, separators=(",", ":")),
                 event.position)  # fmt: skip
    sealed.rehash(sealed.book)
    with Log.open(sealed.path) as log:
        faults = list(check_seals(log))
    assert any(one.what.startswith(SPOILT[name]) and one.position == event.position for one in faults), faults


def test_a_list_of_heads_that_is_gone_or_damaged(sealed: Any) -> None:
    """The seal is named; the next one of the log lists all that is not known to be sealed."""
    sealed.connection.execute("PRAGMA foreign_keys=OFF")
    events = [one for one in sealed.events(sealed.book) if one.type == "seal.made"]
    changed = bytes.fromhex(json.loads(events[0].data)["changed"])
    sealed.spoil("DELETE FROM blobs WHERE sha256 = ?", changed)
    with Log.open(sealed.path) as log:
        [fault] = check_seals(log)
        assert (fault.version, fault.what) == (events[0].version, "a seal's list of heads is missing or is another one")
        assert {one.name for one in check(log) if not one.ok} == {"blobs", "seals"}
        made = make_seal(log)
        assert made.body.streams_changed > 1


def test_a_cut_tail_of_a_stream_that_an_older_seal_covers(sealed: Any, growing: str) -> None:
    """The newest seal does not list the stream, since it did not change: the chain of seals knows it (OBS-29)."""
    sealed.spoil("DELETE FROM events WHERE stream_id = ? AND version = 5", growing)
    with Log.open(sealed.path) as log:
        [fault] = check_seals(log)
        assert (fault.stream, fault.version) == (growing, 5)
        with pytest.raises(LedgerError, match="does not hold what an earlier seal covers"):
            make_seal(log)  # it would cover up what is missing


def test_a_log_that_may_not_be_written(sealed: Any) -> None:
    with Log.open(sealed.path, readonly=True) as log, pytest.raises(LogReadOnly):
        make_seal(log)


def test_another_writer_between_reading_and_sealing(log: Log, add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The book moved on: the heads are read again, and the seal is the next of its chain."""
    add(log, "source:a", 1)
    real, raced = log.heads, []

    def heads() -> list[Head]:
        found = real()
        if not raced:
            raced.append(True)
            make_seal(Log.open(Path(str(log.place))))
        return found

    monkeypatch.setattr(log, "heads", heads)
    made = make_seal(log)
    assert made.event.version == 2
    assert list(check_seals(log)) == []


def test_a_log_of_many_streams(log: Log) -> None:
    """Streams by the ten thousand: seconds, not minutes, and the event is as small as ever."""
    count = 20_000
    rows = [(place, place.to_bytes(16, "big"), None, f"source:{place}", 1, "source.truncated", 1, 0, "w", None, None,
             None, '{"offset":0,"size":0}', None, hashlib.sha256(b"%d" % place).digest())
            for place in range(1, count + 1)]  # fmt: skip
    log.connection.execute("BEGIN")
    log.connection.executemany(log.sql["append_event"], rows)
    log.connection.execute("COMMIT")
    begun = time.monotonic()
    made = make_seal(log)
    again = make_seal(log)
    assert (made.body.streams, again.body.streams_changed) == (count, 1)
    assert list(check_seals(log)) == []
    assert time.monotonic() - begun < 30
    assert len(made.event.data) < 700
