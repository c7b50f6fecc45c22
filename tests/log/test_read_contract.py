"""What reading promises on every kind of database, also while others write."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledger.events.envelope import NewEvent
from ledger.log.blobs import make_blob
from ledger.log.log import Log, StreamAppend

MakeEvent = Callable[..., NewEvent]


def test_an_empty_log_has_nothing(book: Log) -> None:
    """Every question has an answer before the first event."""
    assert book.head_position() == 0
    assert book.events_after(0) == []
    assert list(book.all_events()) == []
    assert book.stream_events("a") == []
    assert book.stream_version("a") == 0
    assert book.blob(bytes(32)) is None
    with pytest.raises(KeyError):
        book.event_at(1)


def test_events_after_goes_page_by_page(book: Log, event: MakeEvent) -> None:
    """Pages of any size, put together, are the whole log in order; beyond the head there is nothing."""
    batch = [event(number) for number in range(23)]
    book.append([StreamAppend("a", 0, batch)])
    expected = [one.event_id for one in batch]
    for limit in (1, 2, 7, 23, 100):
        found, last = [], 0
        while page := book.events_after(last, limit):
            assert len(page) <= limit
            found += page
            last = page[-1].position
        assert [one.event_id for one in found] == expected
    assert book.events_after(23) == []
    assert book.events_after(10_000) == []
    assert [one.position for one in book.all_events(after=20)] == [21, 22, 23]


def test_all_events_reads_on_over_many_pages(book: Log, event: MakeEvent) -> None:
    """More events than a page holds come without a gap."""
    book.append([StreamAppend("a", 0, [event(number) for number in range(1203)])])
    assert [one.position for one in book.all_events()] == list(range(1, 1204))


def test_stream_events_are_one_stream_in_order(book: Log, event: MakeEvent) -> None:
    """A stream is read by version, from anywhere, in pages, without the other streams."""
    for number in range(5):
        book.append([StreamAppend("a", number, [event(number)]), StreamAppend("b", number, [event(50 + number)])])
    assert [one.version for one in book.stream_events("a")] == [1, 2, 3, 4, 5]
    assert {one.stream_id for one in book.stream_events("b")} == {"b"}
    assert [one.version for one in book.stream_events("a", after=2, limit=2)] == [3, 4]
    assert book.stream_events("a", after=5) == []
    assert book.stream_version("a") == 5


def test_event_at_returns_what_stands_there(book: Log, event: MakeEvent) -> None:
    """Any position up to the head has its event; none beyond."""
    book.append([StreamAppend("a", 0, [event(1), event(2)])])
    assert [book.event_at(position).version for position in (1, 2)] == [1, 2]
    for position in (0, 3, -1):
        with pytest.raises(KeyError):
            book.event_at(position)


def test_an_acknowledged_append_is_seen_at_once(backend: Any, book: Log, event: MakeEvent) -> None:
    """Whatever append returned, another open connection sees in its very next question, blobs included."""
    with backend.open() as reader:
        for number in range(50):
            one = event(number)
            blob = make_blob(b"%d" % number)
            book.append([StreamAppend("a", number, [one])], [(one.event_id, blob)])
            assert reader.head_position() == number + 1
            assert reader.stream_version("a") == number + 1
            assert [seen.event_id for seen in reader.events_after(number)] == [one.event_id]
            assert reader.blob(blob.sha256) == b"%d" % number


def test_a_reader_sees_every_event_once_while_four_processes_write(
    backend: Any, child: Any, soak: Any, assert_sound: Callable[[Log], None]
) -> None:
    """Tailing `position > last` never misses a late commit: all events, once, in order, without a gap."""
    count = len(soak.rounds(40, 1000))
    streams = [f"source:{number}" for number in range(4)]
    writers = [child.start("writer", backend.place, stream, count) for stream in streams]
    seen, last = [], 0
    deadline = time.monotonic() + 120
    with backend.open() as reader, ThreadPoolExecutor(4) as pool:
        said = [pool.submit(writer.stdout.read) for writer in writers]
        while len(seen) < 4 * count and time.monotonic() < deadline:
            page = reader.events_after(last, soak.random.choice((1, 3, 500)))
            assert [one.position for one in page] == list(range(last + 1, last + 1 + len(page)))
            seen += page
            last += len(page)
        lines = [line for one in said for line in one.result().splitlines()]
        assert [one.wait() for one in writers] == [0, 0, 0, 0]
        assert Counter(one.stream_id for one in seen) == Counter(dict.fromkeys(streams, count))
        assert {one.event_id.hex() for one in seen} == {line.split()[1] for line in lines if line.startswith("ack")}
        assert len({one.event_id for one in seen}) == len(seen)
        assert_sound(reader)
