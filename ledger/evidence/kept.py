"""The seal as a file that somebody else keeps, and the log held against it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from ledger.errors import UsageError
from ledger.events.book import SealMade
from ledger.events.envelope import Event
from ledger.events.registry import ascii_json
from ledger.evidence.seals import SEAL, Fault, Heads, Made, digest_of, sha256
from ledger.ids import id_text
from ledger.log.hashing import broken_links
from ledger.log.log import Head, Log

FORMAT = "tallybook-seal"
VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Book(msgspec.Struct, frozen=True):
    """Where the seal stands in the log."""

    stream: str
    version: int
    event_id: str
    hash: str
    """Of the event, hex; the only thing here that the digest does not cover, as it covers the digest."""


class Kept(msgspec.Struct, frozen=True):
    """The file: one JSON object. docs/evidence.md explains each field."""

    format: str
    version: int
    """Of this format."""
    recipe: int
    digest: str
    made_at: str
    """ISO 8601 in UTC, six decimals."""
    position: int
    book: Book
    previous: str | None
    streams: int
    streams_changed: int
    events: int
    changed: str
    heads_sha256: str
    heads: list[tuple[str, int, str]]
    """[stream, version, hash in hex] of every stream, by stream id."""


class Outcome(NamedTuple):
    """What came of holding a log against a kept seal."""

    faults: list[Fault]
    events_since: int
    """How many events the log has that the seal does not cover, the seal itself apart."""


def as_file(made: Made) -> bytes:
    """Return the content of the file that keeps a seal: ASCII JSON, a head a line, so that two can be compared."""
    body, event = made.body, made.event
    heads = [(head.stream_id, head.version, head.hash.hex()) for head in made.heads]
    heads.sort(key=lambda head: head[0].encode("utf-8", "surrogatepass"))
    kept = Kept(
        FORMAT, VERSION, body.recipe, body.digest, _iso(body.made_at), body.position,
        Book(event.stream_id, event.version, id_text(event.event_id), event.hash.hex()),
        body.previous or None, body.streams, body.streams_changed, body.events, body.changed, body.heads, [],
    )  # fmt: skip
    encode = msgspec.json.encode
    front = msgspec.json.format(encode(kept), indent=1).removesuffix(b"[]\n}")
    lines = b",\n  ".join(encode(head) for head in heads)
    text = b"".join((front, b"[\n  ", lines, b"\n ]\n}\n")) if heads else front + b"[]\n}\n"
    return ascii_json(text).encode("ascii")


def new_file(path: Path) -> BinaryIO:
    """Make the file that a seal is written to. Raises UsageError where there is one: an older seal is evidence too."""
    try:
        return path.open("xb")
    except FileExistsError:
        raise UsageError(f"{path}: is there already, and a kept seal is not written over: give another name") from None


def read_file(path: Path) -> Kept:
    """Return a kept seal. Raises UsageError for a file that is none or is of a later format, OSError."""
    raw = path.read_bytes()
    try:
        kept = msgspec.json.decode(raw, type=Kept)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{path}: is no seal ({error}): give the file that `ledger seal --out` wrote") from None
    if kept.format != FORMAT:
        raise UsageError(f"{path}: is no seal: give the file that `ledger seal --out` wrote")
    if kept.version > VERSION or kept.recipe > 1:
        raise UsageError(f"{path}: was written by a newer tallybook: update tallybook")
    return kept


def hold_against(log: Log, kept: Kept) -> Outcome:
    """Compare a log with a kept seal. Every event that the seal covers is read and its hash computed anew."""
    faults = list(_of_the_file(kept))
    if faults:
        return Outcome(faults, 0)  # it proves nothing: neither for the log nor against it
    wanted = {stream: Head(stream, version, bytes.fromhex(hash_)) for stream, version, hash_ in kept.heads}
    tally = _Tally(log, wanted, kept.book)
    damage = list(tally.damage())
    faults = [*_of_another_log(wanted, tally, kept), *_of_heads(wanted, tally), *damage]
    faults += _of_the_seal(kept, tally)
    covered = sum(min(head.version, tally.heads.get(stream, (0, b""))[0]) for stream, head in wanted.items())
    return Outcome(faults, max(0, tally.events - covered - (tally.seal is not None)))


def _of_the_file(kept: Kept) -> Iterator[Fault]:
    """Yield what the file contradicts itself in: then it was changed, or was never a seal."""
    heads = Heads()
    try:
        heads.put(Head(stream, version, bytes.fromhex(hash_)) for stream, version, hash_ in kept.heads)
        counts = (len(kept.heads), heads.events)
        body = SealMade(
            kept.digest, kept.heads_sha256, kept.changed, kept.streams, kept.streams_changed, kept.events,
            kept.position, _microseconds(kept.made_at), kept.previous or "", kept.recipe,
        )  # fmt: skip
        digest = digest_of(body, kept.book.stream, kept.book.version)
    except ValueError as error:
        yield Fault(f"the file is no sound seal: {error}")
        return
    found = sha256(heads.listing())
    if found != kept.heads_sha256 or len(heads.by_stream) != len(kept.heads):
        yield Fault("the file was changed or forged: its list of heads is not the one that was sealed",
                    expected=kept.heads_sha256, found=found)  # fmt: skip
    elif counts != (kept.streams, kept.events):
        yield Fault("the file was changed or forged: its counts are not those of its heads",
                    expected=str(counts), found=str((kept.streams, kept.events)))  # fmt: skip
    if digest != kept.digest:
        yield Fault("the file was changed or forged: its digest does not fit what it says",
                    expected=kept.digest, found=digest)  # fmt: skip


class _Tally:
    """What one pass over the log finds of the streams that a seal covers."""

    def __init__(self, log: Log, wanted: dict[str, Head], book: Book) -> None:
        self.log, self.wanted, self.book = log, wanted, book
        self.events = 0
        self.heads: dict[str, tuple[int, bytes]] = {}
        """Stream -> (version, hash) of its last event."""
        self.sealed: dict[str, tuple[int, bytes]] = {}
        """Stream -> (position, hash) of the version that the seal covers as its head."""
        self.seal: Event | None = None

    def damage(self) -> Iterator[Fault]:
        """Read the log; yield where a stream breaks off in what the seal covers."""
        for event, wrong in broken_links(self._events(), self.heads):
            head = self.wanted.get(event.stream_id)
            if head is not None and event.version <= head.version:
                yield Fault(f"an event that was sealed is not as it was: {wrong}", event.stream_id, event.version,
                            event.position)  # fmt: skip

    def _events(self) -> Iterator[Event]:
        for event in self.log.all_events():
            self.events += 1
            head = self.wanted.get(event.stream_id)
            if head is not None and head.version == event.version:
                self.sealed[event.stream_id] = (event.position, event.hash)
            if (event.stream_id, event.version) == (self.book.stream, self.book.version):
                self.seal = event
            yield event


def _of_another_log(wanted: dict[str, Head], tally: _Tally, kept: Kept) -> Iterator[Fault]:
    """Yield that nothing at all of the sealed log is here: whoever held the wrong two together reads that first."""
    held = any(tally.sealed.get(stream, (0, b""))[1] == head.hash for stream, head in wanted.items())
    itself = tally.seal is not None and tally.seal.hash.hex() == kept.book.hash
    if not held and not itself:
        yield Fault("no stream is here as it was sealed: this is the seal of another log, or all of it was replaced",
                    expected=kept.book.stream, found=tally.log.book_stream)  # fmt: skip


def _of_heads(wanted: dict[str, Head], tally: _Tally) -> Iterator[Fault]:
    for stream, head in sorted(wanted.items()):
        last = tally.heads.get(stream, (0, b""))[0]
        found = tally.sealed.get(stream)
        expected = f"{head.version} events" if head.version != 1 else "1 event"
        if not last:
            yield Fault("a stream was dropped: it is not in the log", stream, expected=expected, found="none")
        elif last < head.version and found is None:
            yield Fault("the end of a stream was cut off", stream, last, expected=expected, found=f"{last}")
        elif found is None:
            yield Fault("the event that was sealed as a stream's head is missing", stream, head.version)
        elif found[1] != head.hash:
            yield Fault("a stream was written anew up to here or further: its hash is not the one that was sealed",
                        stream, head.version, found[0], head.hash.hex(), found[1].hex())  # fmt: skip


def _of_the_seal(kept: Kept, tally: _Tally) -> Iterator[Fault]:
    """Yield where the log no longer says that it was sealed so."""
    book, event = kept.book, tally.seal
    if event is None:
        yield Fault("the seal itself is not in the log: what is there was cut off or replaced after it was made",
                    book.stream, book.version)  # fmt: skip
    elif event.type != SEAL or event.hash.hex() != book.hash or id_text(event.event_id) != book.event_id:
        yield Fault("in the place of the seal the log has another event", book.stream, book.version, event.position,
                    book.hash, event.hash.hex())  # fmt: skip


def _iso(at_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(text: str) -> int:
    """Return an instant in microseconds UTC. Raises ValueError for another spelling than that of the file."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return (moment - _EPOCH) // _MICROSECOND
