"""Copying a log into another one: every event as it is, but for its position, and its texts with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from ledger.accounts.catchup import snapshot
from ledger.errors import Diverged, InvalidEvent, LogTooNew, UsageError
from ledger.events.envelope import Event
from ledger.events.registry import CATALOGUE, decode
from ledger.events.sources import SourceOpened
from ledger.evidence.purge import Purged, purged_names
from ledger.log.blobs import Blob, is_whole
from ledger.log.log import Head, Log, may_write, version_tuple

PAGE_EVENTS = 250
"""How many events are read at once."""
BATCH_EVENTS, BATCH_BYTES = 2000, 4 << 20
"""A commit ends at whichever comes first: so many events, or so much data and text."""

_NAMING = frozenset(("lines.observed", "records.observed"))
"""Types of events whose texts can be purged."""

Progress = Callable[[int, int], None]
"""Called with (events copied, events to copy)."""


class Copied(NamedTuple):
    """What a copy came to."""

    events: int
    streams: int
    """How many streams these events belong to."""
    blobs: int
    """How many texts came with them."""
    known: int
    """How many events of the source were in the target before."""
    purged: int
    """How many texts did not come, since they were purged in the target."""


def copy(source: Log, target: Log, progress: Progress | None = None) -> Copied:
    """Append to the target what it lacks of the source, in the source's order.

    Both may be written meanwhile; what is appended to the source after the beginning is left to the next copy. Each
    commit is a sound log: where the program dies, another copy goes on. Raises Diverged before anything is written
    where a stream of both differs; InvalidEvent where an event of the source is damaged; UsageError, LogReadOnly,
    LogTooNew, LogUnavailable.
    """
    _check(source, target)
    heads = source.heads()
    until = source.head_position()  # after the heads: all that they stand for is up to here
    source.settle()
    here = {head.stream_id: head for head in target.heads()}
    wanted = [head for head in heads if head.version > _version(here, head.stream_id)]
    begin = _begin(source, target, heads, here, until)
    total = sum(head.version - _version(here, head.stream_id) for head in wanted)
    barred = _Barred(target)
    events = blobs = 0
    for batch, texts in _batches(source, {name: head.version for name, head in here.items()}, begin, until):
        left = [pair for event in batch for pair in barred.left(source, event, texts.get(event.event_id, []))]
        adopted = target.adopt(batch, left, barred.since)
        events, blobs = events + adopted.events, blobs + adopted.blobs
        if progress:
            progress(min(events, total), total)
    known = sum(min(head.version, _version(here, head.stream_id)) for head in heads)
    return Copied(events, len(wanted), blobs, known, barred.count)


def _version(heads: dict[str, Head], stream_id: str) -> int:
    head = heads.get(stream_id)
    return 0 if head is None else head.version


def _check(source: Log, target: Log) -> None:
    """Raise where the two cannot be brought together, whatever is in them."""
    if str(source.place) == str(target.place):
        raise UsageError(f"{source.place}: is the log that is copied: give another one with --to")
    target.check_writable()
    lowest = source.meta("min_writer") or "0"
    if not may_write(lowest):
        raise LogTooNew(f"{source.place}: is written by a newer tallybook: update tallybook, then copy")
    if version_tuple(lowest) > version_tuple(target.meta("min_writer") or "0"):
        raise UsageError(
            f"{target.place}: older programs than {lowest} may write there, and could not read what {source.place} "
            "holds: run `ledger init` on it with this program"
        )
    recipes = [log.meta("hash_recipe") for log in (source, target)]
    if recipes[0] != recipes[1]:
        raise UsageError(f"{target.place}: has another hash recipe than {source.place}: update tallybook, then copy")


def _begin(source: Log, target: Log, heads: list[Head], here: dict[str, Head], until: int) -> int:
    """Return the position before the first event that is lacking. Raises Diverged."""
    begin = until if here else 0
    for head in heads:
        known = here.get(head.stream_id)
        if known is not None:
            _compare(source, target, head, known)
        if here and (known is None or known.version < head.version):
            place = source.hash_at(head.stream_id, 1 if known is None else known.version + 1)
            begin = min(begin, place[0] - 1) if place else 0
    return begin


def _compare(source: Log, target: Log, head: Head, known: Head) -> None:
    """Raise Diverged where neither of two streams is the beginning of the other."""
    if known == head:
        return
    common = min(head.version, known.version)
    if _same(source, target, head.stream_id, common):
        return
    low, high = 0, common  # the same at `low`, different at `high`: hashes cover all that is before
    while high - low > 1:
        middle = (low + high) // 2
        if _same(source, target, head.stream_id, middle):
            low = middle
        else:
            high = middle
    raise Diverged(head.stream_id, high)


def _same(source: Log, target: Log, stream_id: str, version: int) -> bool:
    one, other = source.hash_at(stream_id, version), target.hash_at(stream_id, version)
    return one is not None and other is not None and one[1] == other[1]


Texts = dict[bytes, list[Blob]]
"""Event id -> the blobs that belong to it."""


def _batches(source: Log, here: dict[str, int], begin: int, until: int) -> Iterator[tuple[list[Event], Texts]]:
    """Yield what is lacking in (begin, until] with its texts, in batches of one commit each."""
    batch: list[Event] = []
    texts: Texts = {}
    size = 0
    while begin < until and (page := source.events_after(begin, PAGE_EVENTS)):
        begin = page[-1].position
        news = [event for event in page if event.version > here.get(event.stream_id, 0) and event.position <= until]
        sizes = source.blob_sizes(news[0].position - 1, news[-1].position) if news else {}
        for portion in _portions(news, sizes):
            if any(event.position in sizes for event in portion):
                texts |= _texts(source, portion)
            batch += portion
            size += sum(len(event.data) + sizes.get(event.position, 0) for event in portion)
            if size >= BATCH_BYTES or len(batch) >= BATCH_EVENTS:
                yield batch, texts
                batch, texts, size = [], {}, 0
    if batch:
        yield batch, texts


def _portions(events: list[Event], sizes: dict[int, int]) -> Iterator[list[Event]]:
    """Yield a page's events in parts whose texts are read at once."""
    batch: list[Event] = []
    size = 0
    for event in events:
        batch.append(event)
        size += len(event.data) + sizes.get(event.position, 0)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _texts(source: Log, batch: list[Event]) -> Texts:
    found: Texts = {}
    for event_id, blob in source.blobs_between(batch[0].position - 1, batch[-1].position):
        if not is_whole(blob):
            raise InvalidEvent(
                f"text {blob.sha256.hex()} was changed in {source.place}: run `ledger verify` there, restore a copy"
            )
        found.setdefault(event_id, []).append(blob)
    return found


class _Barred:
    """Which texts stay away from the target, since they were purged there."""

    def __init__(self, target: Log) -> None:
        self.target = target
        self.names = purged_names(target)
        self.count = 0
        self._clients: dict[str, str] = {}
        self._purged: Purged | None = None
        if self.names:
            with snapshot(target) as view:
                self._purged = Purged(view)

    def left(self, source: Log, event: Event, blobs: list[Blob]) -> list[tuple[bytes, Blob]]:
        """Return (event id, blob) for those texts of an event that come along."""
        kept = blobs
        if self._purged is not None and any(blob.sha256 in self.names for blob in blobs):
            if event.type in _NAMING and CATALOGUE[event.type].schema == event.schema:
                kept = self._purged.left(blobs, self._client(source, event.stream_id), event.type, event.data)
            self.count += len(blobs) - len(kept)
        return [(event.event_id, blob) for blob in kept]

    def _client(self, source: Log, stream_id: str) -> str:
        """Return the client whose file a stream was read from, empty for other streams."""
        if stream_id not in self._clients:
            [first] = source.stream_events(stream_id, 0, 1)
            body = decode(first.type, first.schema, first.data)
            self._clients[stream_id] = body.client if isinstance(body, SourceOpened) else ""
        return self._clients[stream_id]

    def since(self) -> Collection[bytes]:
        """Return what was purged in the target since this copy began: all of that stays away."""
        return purged_names(self.target) - self.names
