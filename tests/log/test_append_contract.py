"""What appending promises on every kind of database. A backend joins by one entry of BACKENDS in conftest.py."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ledger.errors import EventIdReused, InvalidEvent, VersionConflict
from ledger.events.envelope import EncodedBody, Event, NewEvent
from ledger.events.sources import SourceOpened, SourceTruncated
from ledger.ids import new_id
from ledger.log.blobs import make_blob
from ledger.log.log import Log, StreamAppend

MakeEvent = Callable[..., NewEvent]
Sound = Callable[[Log], None]


def everything(log: Log) -> list[Event]:
    return list(log.all_events())


def test_versions_count_from_one_in_each_stream(book: Log, event: MakeEvent, assert_sound: Sound) -> None:
    """Two streams interleaved: each has versions 1, 2, 3, and positions are the order of commits."""
    assert book.append([StreamAppend("a", 0, [event(1), event(2)])]) == [1, 2]
    assert book.append([StreamAppend("b", 0, [event(3)])]) == [1]
    assert book.append([StreamAppend("a", 2, [event(4)])]) == [3]
    found = [(one.position, one.stream_id, one.version) for one in everything(book)]
    assert found == [(1, "a", 1), (2, "a", 2), (3, "b", 1), (4, "a", 3)]
    assert_sound(book)


@pytest.mark.parametrize("expected", [0, 1, 3, 7])
def test_a_wrong_version_conflicts_and_writes_nothing(book: Log, event: MakeEvent, expected: int) -> None:
    """A head that moved, or that was never there, is a conflict that says what was found."""
    book.append([StreamAppend("a", 0, [event(1), event(2)])])
    before = everything(book)
    with pytest.raises(VersionConflict) as raised:
        book.append([StreamAppend("a", expected, [event(3)])])
    assert (raised.value.stream_id, raised.value.expected, raised.value.found) == ("a", expected, 2)
    assert "\n" not in str(raised.value)
    assert everything(book) == before


def test_after_a_conflict_the_same_event_is_appended_at_the_new_head(
    backend: Any, book: Log, event: MakeEvent, assert_sound: Sound
) -> None:
    """An observation that met a conflict is appended again, the same object, at the head that was found."""
    late = event(9)
    with backend.open() as other:
        other.append([StreamAppend("a", 0, [event(1)])])
    with pytest.raises(VersionConflict) as raised:
        book.append([StreamAppend("a", 0, [late])])
    assert book.append([StreamAppend("a", raised.value.found, [late])]) == [2]
    assert_sound(book)


def test_several_streams_are_one_transaction(book: Log, event: MakeEvent, assert_sound: Sound) -> None:
    """All streams of an append are written, or, where one conflicts, none; whichever it is."""
    book.append([StreamAppend("a", 0, [event(1)]), StreamAppend("b", 0, [event(2), event(3)])])
    before = everything(book)
    assert [(one.stream_id, one.version) for one in before] == [("a", 1), ("b", 1), ("b", 2)]
    for appends in (
        [StreamAppend("a", 1, [event(4)]), StreamAppend("b", 1, [event(5)])],
        [StreamAppend("b", 1, [event(4)]), StreamAppend("a", 1, [event(5)])],
        [StreamAppend("a", 1, [event(4)]), StreamAppend("c", 1, [event(5)])],
    ):
        with pytest.raises(VersionConflict):
            book.append(appends)
        assert everything(book) == before
    assert book.append([StreamAppend("b", 2, [event(6)]), StreamAppend("a", 1, [event(7)])]) == [3, 2]
    assert_sound(book)


def test_one_stream_twice_in_one_append_goes_on_where_it_was(book: Log, event: MakeEvent, assert_sound: Sound) -> None:
    """The second part of a stream expects the version that the first part reached."""
    parts = [StreamAppend("a", 0, [event(1), event(2)]), StreamAppend("a", 2, [event(3)])]
    assert book.append(parts) == [1, 2, 3]
    with pytest.raises(VersionConflict):
        book.append([StreamAppend("a", 3, [event(4)]), StreamAppend("a", 3, [event(5)])])
    assert book.stream_version("a") == 3
    assert_sound(book)


def test_a_retry_returns_the_stored_versions(book: Log, event: MakeEvent) -> None:
    """The same append again writes nothing and returns what the first one did, whatever was added since."""
    appends = [StreamAppend("a", 0, [event(1), event(2)]), StreamAppend("b", 0, [event(3)])]
    assert book.append(appends) == [1, 2, 1]
    book.append([StreamAppend("a", 2, [event(4)])])
    before = everything(book)
    assert book.append(appends) == [1, 2, 1]
    assert book.append([StreamAppend("a", 77, appends[0].events)]) == [1, 2]
    assert everything(book) == before


def test_a_known_id_with_other_contents_is_refused(book: Log, event: MakeEvent) -> None:
    """Another stream, type, cause or data under a known id is an error and writes nothing."""
    first = event(1, cause=bytes(16))
    known = first.event_id
    book.append([StreamAppend("a", 0, [first])])
    before = everything(book)
    others = {
        "stream": StreamAppend("b", 0, [event(1, event_id=known, cause=bytes(16))]),
        "data": StreamAppend("a", 1, [event(2, event_id=known, cause=bytes(16))]),
        "cause": StreamAppend("a", 1, [event(1, event_id=known, cause=new_id())]),
        "no cause": StreamAppend("a", 1, [event(1, event_id=known)]),
        "type": StreamAppend("a", 1, [NewEvent(body=SourceOpened("c", "/p", "/"), event_id=known, cause=bytes(16))]),
        "type alone": StreamAppend(
            "a",
            1,
            [NewEvent(body=EncodedBody("source.opened", before[0].data), event_id=known, cause=bytes(16))],
        ),
    }
    for append in others.values():
        with pytest.raises(EventIdReused):
            book.append([append])
        assert everything(book) == before
    assert book.append([StreamAppend("a", 0, [first])]) == [1]


def test_a_partly_known_append_is_refused(book: Log, event: MakeEvent) -> None:
    """Some events known and some not is an error, in either order, and writes nothing."""
    first, second = event(1), event(2)
    book.append([StreamAppend("a", 0, [first])])
    before = everything(book)
    for events in ([first, second], [second, first]):
        with pytest.raises(EventIdReused):
            book.append([StreamAppend("a", 0, events)])
    with pytest.raises(EventIdReused):
        book.append([StreamAppend("a", 0, [first]), StreamAppend("b", 0, [second])])
    assert everything(book) == before
    assert book.append([StreamAppend("a", 1, [second])]) == [2]


def test_one_id_twice_in_one_append_is_refused(book: Log, event: MakeEvent) -> None:
    """Two events under one id cannot both be stored: it is an error that says so, and writes nothing."""
    one = event(1)
    with pytest.raises(EventIdReused):
        book.append([StreamAppend("a", 0, [one, one])])
    with pytest.raises(EventIdReused):
        book.append([StreamAppend("a", 0, [one]), StreamAppend("b", 0, [event(2, event_id=one.event_id)])])
    assert everything(book) == []


def test_an_empty_append_writes_nothing(book: Log, event: MakeEvent) -> None:
    """Nothing to append is a success; with a stream it still asks whether its head is where it is believed."""
    assert book.append([]) == []
    assert book.append([StreamAppend("a", 0, [])]) == []
    book.append([StreamAppend("a", 0, [event(1)])])
    assert book.append([StreamAppend("a", 1, []), StreamAppend("b", 0, [event(2)])]) == [1]
    with pytest.raises(VersionConflict):
        book.append([StreamAppend("a", 0, []), StreamAppend("b", 1, [event(3)])])
    assert [one.stream_id for one in everything(book)] == ["a", "b"]


def test_the_chain_of_each_stream_is_unbroken(book: Log, event: MakeEvent, assert_sound: Sound) -> None:
    """Each event names the hash of the version before in its stream, the first names none."""
    for number in range(6):
        stream = "ab"[number % 2]
        book.append([StreamAppend(stream, book.stream_version(stream), [event(number), event(number + 100)])])
    for stream in "ab":
        events = book.stream_events(stream)
        assert events[0].prev_hash is None
        assert all(later.prev_hash == earlier.hash for earlier, later in pairwise(events))
    assert_sound(book)


def test_a_thousand_events_are_one_append(book: Log, event: MakeEvent, assert_sound: Sound) -> None:
    """A batch of 1,000 is written in order, and again by its ids without effect."""
    batch = [event(number) for number in range(1000)]
    assert book.append([StreamAppend("a", 0, batch)]) == list(range(1, 1001))
    assert [one.event_id for one in everything(book)] == [one.event_id for one in batch]
    assert book.append([StreamAppend("a", 0, batch)]) == list(range(1, 1001))
    assert book.head_position() == 1000
    assert_sound(book)


def test_blobs_are_in_the_same_commit(book: Log, backend: Any, event: MakeEvent) -> None:
    """A blob is there with its event, small or large, and is not there where the append failed."""
    small, large = b"\x00text", os.urandom(300_000)
    one = event(1)
    blobs = [(one.event_id, make_blob(small)), (one.event_id, make_blob(large))]
    book.append([StreamAppend("a", 0, [one])], blobs)
    with backend.open() as other:
        assert other.blob(hashlib.sha256(small).digest()) == small
        assert other.blob(hashlib.sha256(large).digest()) == large
        assert other.blob(bytes(32)) is None
    lost = event(2)
    with pytest.raises(VersionConflict):
        book.append([StreamAppend("a", 0, [lost])], [(lost.event_id, make_blob(b"never"))])
    assert book.blob(hashlib.sha256(b"never").digest()) is None


def test_one_blob_serves_several_events(book: Log, event: MakeEvent) -> None:
    """The same text again, in the same or a later append or a retry, is kept once and does no harm."""
    blob = make_blob(b"said twice")
    first, second, third = event(1), event(2), event(3)
    pairs = [(one.event_id, blob) for one in (first, second)]
    book.append([StreamAppend("a", 0, [first, second])], pairs)
    book.append([StreamAppend("a", 2, [third])], [(third.event_id, blob)])
    assert book.append([StreamAppend("a", 0, [first, second])], pairs) == [1, 2]
    assert book.blob(blob.sha256) == b"said twice"


def test_the_envelope_is_stored_as_given(book: Log, event: MakeEvent) -> None:
    """Session, turn, span and cause of every row are what was given, absent apart from empty (OBS-46)."""
    cause = new_id()
    full = event(1, session_id="s-1", turn="t-1", span="r-1", cause=cause)
    empty = event(2, session_id="", turn="", span="")
    bare = event(3)
    book.append([StreamAppend("run:ä", 0, [full, empty, bare])])
    stored = book.stream_events("run:ä")
    assert [(one.session_id, one.turn, one.span, one.cause) for one in stored] == [
        ("s-1", "t-1", "r-1", cause),
        ("", "", "", None),
        (None, None, None, None),
    ]
    assert [one.type for one in stored] == ["source.truncated"] * 3
    assert stored[0].data == '{"offset":1,"size":2}'


def test_every_event_says_when_and_by_whom(book: Log, event: MakeEvent) -> None:
    """`at` is microseconds of this moment, `writer` names program, host and process."""
    import time

    from ledger.log.log import writer_parts

    before = time.time_ns() // 1000
    book.append([StreamAppend("a", 0, [event(1)])])
    stored = book.event_at(1)
    assert before <= stored.at <= time.time_ns() // 1000
    assert writer_parts(stored.writer)["process"] == str(os.getpid())
    assert stored.writer.startswith("tallybook/")


@pytest.mark.parametrize(
    "body",
    [
        EncodedBody("no.such.type", "{}"),
        EncodedBody("source.truncated", '{"offset":1,"size":2,"é":3}'),
        SourceTruncated(offset="nine", size=object()),  # type: ignore[arg-type]
        SourceTruncated(offset=1, size="\ud800"),  # type: ignore[arg-type]
        object(),
    ],
    ids=["unknown type", "not ASCII", "no JSON", "no text", "no event"],
)
def test_a_body_that_fits_no_type_is_refused_before_anything_is_written(
    book: Log, event: MakeEvent, body: object
) -> None:
    """The good events of the append are not written either."""
    bad = NewEvent(body=body, event_id=new_id())
    with pytest.raises(InvalidEvent):
        book.append([StreamAppend("a", 0, [event(1), bad])])
    assert everything(book) == []


def test_an_envelope_that_cannot_be_stored_is_refused(book: Log, event: MakeEvent) -> None:
    """A short id, or a name with half a character in it, is an InvalidEvent; the log goes on working."""
    for bad in (event(1, event_id=b"short"), event(1, session_id="\ud800"), event(1, turn="\udfff")):
        with pytest.raises(InvalidEvent):
            book.append([StreamAppend("a", 0, [event(2), bad])])
    with pytest.raises(InvalidEvent):
        book.append([StreamAppend("\ud800", 0, [event(3)])])
    assert book.append([StreamAppend("a", 0, [event(4)])]) == [1]
    assert len(everything(book)) == 1
