"""Copies in processes of their own: killed at any instant, several at once, while both sides are written (OBS-49)."""

from __future__ import annotations

import time
from typing import Any

from books import append, argument, events, failing, texts

from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened
from ledger.ids import new_id
from ledger.keeping.copying import copy
from ledger.log.blobs import make_blob
from ledger.log.hashing import broken_links
from ledger.log.log import Log, StreamAppend


def with_texts(log: Log, count: int) -> None:
    """Append to many streams in turn, every tenth event with a text."""
    for number in range(count):
        new = NewEvent(body=SourceOpened("x", f"/{number}", "/"), event_id=new_id())
        blobs = [(new.event_id, make_blob(b"%d" % number * 300))] if number % 10 == 0 else []
        stream = f"source:s{number % 7}"
        log.append([StreamAppend(stream, log.stream_version(stream), [new])], blobs)


def test_a_killed_copy_leaves_a_sound_log_and_is_gone_on_with(books: Any, kind: str, child: Any, soak: Any) -> None:
    """SIGKILL at a random instant: no stream has a gap, no event lacks its text, and the next copy ends it."""
    source = books.filled("sqlite")
    with_texts(source, 100)
    append(source, "source:many", *range(12_000))
    everything, reached = texts(source), set()
    for _ in soak.rounds(4, 40):
        place = books.place(kind)
        target = books.open(place, create=True)
        for _ in range(3):
            process = child.start("copy", "--db", source.place, "--to", argument(place))
            time.sleep(soak.random.uniform(0.25, 0.9))
            process.kill()
            process.wait()
            found = list(target.all_events())
            assert [event.position for event in found] == list(range(1, len(found) + 1))
            assert list(broken_links(found, {})) == []
            ids = {event.event_id for event in found}
            assert texts(target) == {owned: text for owned, text in everything.items() if owned[0] in ids}
            reached.add(len(found) == source.head_position())
        copy(source, target)
        assert events(target) == events(source)
        assert texts(target) == texts(source)
    assert failing(target) == []
    print("reached the end", reached)


def test_both_sides_are_written_meanwhile(books: Any, kind: str, child: Any) -> None:
    """What is acknowledged on either side is there at the end, once; copies in both directions at once are safe."""
    left, right = books.filled("sqlite"), books.empty(kind)
    with_texts(left, 50)
    writers = [child.script("writer", argument(log.place), f"source:own{number}") for number, log in
               enumerate((left, right))]  # fmt: skip
    for writer in writers:
        assert writer.stdout.readline()
    copies = []
    for one, other in ((left, right), (right, left)) * 2:
        copies.append(child.start("copy", "--db", argument(one.place), "--to", argument(other.place)))
    for process in copies:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    for writer in writers:
        writer.kill()
        writer.wait()
    copy(left, right)
    copy(right, left)
    assert events(left) == events(right)
    assert texts(left) == texts(right)
    assert failing(left) == failing(right) == []
