"""Seals: a digest over the heads of all streams, chained to the seal before. docs/evidence.md has the recipe."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ledger.errors import LedgerError, LogTooNew, VersionConflict, VolumeMissing
from ledger.events.book import SealMade
from ledger.events.envelope import Event, NewEvent
from ledger.events.registry import decode
from ledger.ids import new_id
from ledger.log.blobs import make_blob
from ledger.log.hashing import pack
from ledger.log.log import Head, Log, StreamAppend
from ledger.log.volumes import Volumes

RECIPE = 1
"""The number of the recipe; it is the first field of a digest."""
SEAL = "seal.made"


class Fault(NamedTuple):
    """Something that a seal shows to be wrong, and where."""

    what: str
    stream: str = ""
    version: int | None = None
    position: int | None = None
    """Of the event, in the log as it is now."""
    expected: str = ""
    found: str = ""


class Made(NamedTuple):
    """A seal as it stands in the log: the event, and all heads that it covers."""

    event: Event
    body: SealMade
    heads: list[Head]


class Heads:
    """Heads by stream, and their list as it is digested: by stream id (UTF-8), each packed as an event's fields are."""

    def __init__(self) -> None:
        self.by_stream: dict[str, Head] = {}
        self._packed: dict[bytes, bytes] = {}
        self._order: list[bytes] = []

    def put(self, heads: Iterable[Head]) -> None:
        """Take in heads; of a stream the last one counts."""
        for head in heads:
            key = _bytes(head.stream_id)
            if key not in self._packed:
                self._order.append(key)
            self._packed[key] = pack(key) + pack(b"%d" % head.version) + pack(head.hash)
            self.by_stream[head.stream_id] = head

    def listing(self) -> bytes:
        """Return the list, as bytes."""
        self._order.sort()
        return b"".join([self._packed[key] for key in self._order])

    @property
    def events(self) -> int:
        """How many events the streams hold together."""
        return sum(head.version for head in self.by_stream.values())


def read_listing(raw: bytes) -> list[Head]:
    """Return the heads of a list. Raises ValueError for what is none."""
    fields: list[bytes] = []
    place = 0
    while place < len(raw):
        begin = place + 4
        place = begin + int.from_bytes(raw[begin - 4 : begin], "big")
        if place > len(raw):
            raise ValueError("a list of heads ends within a field")
        fields.append(raw[begin:place])
    if len(fields) % 3:
        raise ValueError("a list of heads ends within a head")
    rows = zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    return [Head(_text(stream), int(version), hash_) for stream, version, hash_ in rows]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def sha256(content: bytes) -> str:
    """Return the sha256 in lower-case hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_of(body: SealMade, stream_id: str, version: int) -> str:
    """Return the digest that a seal at a place must have. Raises ValueError where a name in it is not hexadecimal."""
    numbers = (body.made_at, body.position, body.streams, body.streams_changed, body.events)
    fields = (
        b"%d" % body.recipe,
        _bytes(stream_id),
        b"%d" % version,
        bytes.fromhex(body.previous) if body.previous else None,
        *(b"%d" % number for number in numbers),
        bytes.fromhex(body.changed),
        bytes.fromhex(body.heads),
    )
    return sha256(b"".join(map(pack, fields)))


# making


def make_seal(log: Log) -> Made:
    """Seal the log as it is and append that to its book.

    What other programs append meanwhile is either sealed or not; each stream is sealed at one of its heads.
    Raises LogReadOnly; LedgerError where the log does not hold what an earlier seal of it covers.
    """
    log.check_writable()
    event_id = new_id()
    while True:
        made = _sealed(log, event_id)
        try:
            blob = make_blob(made.listing)
            [version] = log.append(
                [StreamAppend(made.stream_id, made.version, [NewEvent(body=made.body, event_id=event_id)])],
                [(event_id, blob)],
            )
        except VersionConflict:
            continue
        [event] = log.stream_events(made.stream_id, version - 1, 1)
        return Made(event, made.body, made.heads)


class _Sealed(NamedTuple):
    stream_id: str
    version: int
    """Of the book's head before the seal."""
    body: SealMade
    heads: list[Head]
    listing: bytes
    """The heads that changed since the seal before."""


def _sealed(log: Log, event_id: bytes) -> _Sealed:
    """Return the next seal, from the heads as they are now."""
    stream_id = log.book_stream
    position = log.head_position()  # before the heads: what they hold beyond it is sealed all the same
    now, before, changed = Heads(), Heads(), Heads()
    now.put(log.heads())
    previous = ""
    for _, body in seals_of(log).get(stream_id, ()):
        previous = body.digest
        try:
            before.put(read_listing(log.blob(bytes.fromhex(body.changed)) or b""))
        except ValueError:
            continue  # what it listed is listed anew; `ledger verify` names the damage
    for head in before.by_stream.values():
        found = now.by_stream.get(head.stream_id)
        if found is None or found.version < head.version or (found.version == head.version and found != head):
            raise LedgerError(
                f"{head.stream_id}: does not hold what an earlier seal covers: run `ledger verify`, restore a copy"
            )
    changed.put(head for head in now.by_stream.values() if before.by_stream.get(head.stream_id) != head)
    listing = changed.listing()
    version = now.by_stream[stream_id].version if stream_id in now.by_stream else 0
    body = SealMade(
        digest="",
        heads=sha256(now.listing()),
        changed=sha256(listing),
        streams=len(now.by_stream),
        streams_changed=len(changed.by_stream),
        events=now.events,
        position=position,
        made_at=time.time_ns() // 1000,
        previous=previous,
    )
    body = msgspec.structs.replace(body, digest=digest_of(body, stream_id, version + 1))
    return _Sealed(stream_id, version, body, list(now.by_stream.values()), listing)


# checking what the log says of itself


def seals_of(log: Log) -> dict[str, list[tuple[Event, SealMade]]]:
    """Return the seals in each book, those of copied logs included, in the order in which they were made."""
    found: dict[str, list[tuple[Event, SealMade]]] = {}
    for event in sorted(log.book_events(), key=lambda event: event.version):
        if event.type == SEAL:
            try:
                found.setdefault(event.stream_id, []).append((event, decode(SEAL, event.schema, event.data)))
            except (LogTooNew, msgspec.MsgspecError):
                continue  # the catalogue's check names it
    return found


def check_seals(log: Log) -> Iterator[Fault]:
    """Yield what does not hold of the seals in the log, and of what they cover."""
    for seals in seals_of(log).values():
        yield from _check_chain(log, seals)


def _check_chain(log: Log, seals: list[tuple[Event, SealMade]]) -> Iterator[Fault]:
    state, previous, whole = Heads(), "", True
    for event, body in seals:
        place = (event.stream_id, event.version, event.position)
        if body.previous != previous:
            yield Fault("a seal names another one as the one before it", *place, previous, body.previous)
        previous = body.digest
        if not _fits(body, event):
            yield Fault("a seal's digest does not fit what it says", *place)
        heads = _listed(log, body)
        if heads is None:
            yield Fault("a seal's list of heads is missing or is another one", *place)
            whole = False
            continue
        for head in heads:
            yield from _check_head(log, head)
        state.put(heads)
        if whole:
            counts = (len(heads), len(state.by_stream), state.events)
            said = (body.streams_changed, body.streams, body.events)
            if said != counts:
                yield Fault("a seal's counts are not those of its heads", *place, str(counts), str(said))
            if sha256(state.listing()) != body.heads:
                yield Fault("a seal's heads are not those that it and the seals before it list", *place)


def _fits(body: SealMade, event: Event) -> bool:
    try:
        return body.recipe == RECIPE and digest_of(body, event.stream_id, event.version) == body.digest
    except ValueError:
        return False


def _listed(log: Log, body: SealMade) -> list[Head] | None:
    """Return the heads that a seal lists, None where that list is gone or damaged."""
    import zstandard

    try:
        raw = log.blob(bytes.fromhex(body.changed))
        return None if raw is None or sha256(raw) != body.changed else read_listing(raw)
    except (ValueError, MemoryError, LogTooNew, zstandard.ZstdError):
        return None


def _check_head(log: Log, head: Head) -> Iterator[Fault]:
    try:
        found = log.hash_at(head.stream_id, head.version)
    except VolumeMissing:
        return  # it is in a file that is kept elsewhere, which another check says
    if found is None:
        yield Fault("an event that was sealed is not in the log", head.stream_id, head.version)
    elif found[1] != head.hash:
        yield Fault("a stream was written anew after it was sealed: its hash at this version is another one",
                    head.stream_id, head.version, found[0], head.hash.hex(), found[1].hex())  # fmt: skip


def check_volume(volume: Volumes, before: Volumes) -> Iterator[Fault]:
    """Yield where a volume of a rolled log does not go on where the one before it ends."""
    base, last = volume.base(), before.head_position()
    if last != base:
        yield Fault("a closed volume does not end where the log goes on", position=base, expected=str(base),
                    found=str(last))  # fmt: skip
    heads, carried = {head.stream_id: head for head in before.heads()}, volume.carried()
    for stream in sorted(heads.keys() | carried.keys()):
        head, found = heads.get(stream), carried.get(stream)
        if head is None or found is None or head[:3] != found[:3]:
            yield Fault("a stream goes on from another head than its closed volume has", stream,
                        found.version if found else None)  # fmt: skip
    digests = [body.digest for _, body in seals_of(before).get(before.book_stream, ())]
    named = volume.meta("previous_seal") or ""
    if digests[-1:] != [named]:
        yield Fault("the log names another seal than the last one of its closed volume", expected=named,
                    found=digests[-1] if digests else "none")  # fmt: skip
    said = [event for event in volume.book_events() if event.type == "log.rolled" and event.position == base + 1]
    if not said or decode(said[0].type, said[0].schema, said[0].data).seal != named:
        yield Fault("the log does not begin with the word that it was rolled", position=base + 1, expected=named)
