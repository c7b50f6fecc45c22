"""What a reader of one client's files works with: the file as it stands, and the event being filled."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from ledger.events.sources import AnyObservation, Context, LinesObserved, RecordsObserved, Skipped
from ledger.log.blobs import Blob, make_blob
from ledger.prices.quote import Quote
from ledger.redaction import masked

FindQuote = Callable[[str, str, int], Quote | None]
"""(provider, model, microseconds UTC) -> the quote in force, None where no price is known."""

Identity = tuple[int, int, int, int]
"""(size, mtime_ns, device, inode) of a source: if they are what they were, nothing in it is new."""

OBSERVATIONS_PER_EVENT = 400
SETTLED_NS = 2_000_000_000
"""A source that was changed less than this before it was read is looked into again by the next import."""
_WORD_LETTERS = 4096
"""A longer text is no id, no name and no path."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Draft:
    """One `lines.observed` in the making."""

    def __init__(self, begin: int, find_quote: FindQuote) -> None:
        self.begin, self.end = begin, begin
        self.lines = 0
        self.observations: list[AnyObservation] = []
        self.blobs: dict[bytes, Blob] = {}
        self.used: dict[str, Quote] = {}
        self.no_usage = self.malformed = self.rollup = self.repeated = 0
        self._find_quote = find_quote
        self._contexts: dict[Context, int] = {}
        self.context_keys: dict[tuple[object, ...], int] = {}
        """A reader's own key of a context -> its index, which spares making the context for each line."""
        self._quotes: dict[str, int] = {}

    def context(self, context: Context) -> int:
        """Return the index of a context in this event."""
        return self._contexts.setdefault(context, len(self._contexts))

    def quote(self, provider: str, model: str, at: int) -> int:
        """Return the index of the quote in force for a model, -1 where no price is known."""
        quote = self._find_quote(provider, model, at) if model else None
        if quote is None:
            return -1
        self.used[quote.name] = quote
        return self._quotes.setdefault(quote.name, len(self._quotes))

    def blob(self, text: str) -> str:
        """Keep a text beside the event, known secrets masked; return its sha256 in hex."""
        blob = make_blob(masked(text).encode("utf-8", "replace"))
        self.blobs[blob.sha256] = blob
        return blob.sha256.hex()

    @property
    def full(self) -> bool:
        """True where the event is large enough to be written."""
        return len(self.observations) >= OBSERVATIONS_PER_EVENT

    def records_body(self, identity: Identity | None, carry: dict[str, Any]) -> RecordsObserved:
        """Return the event of a source that is read by its records. Without `identity`, more is still to be read."""
        size, mtime_ns, device, inode = identity or (0, 0, 0, 0)
        return RecordsObserved(
            records=self.lines,
            contexts=list(self._contexts),
            quotes=list(self._quotes),
            observations=self.observations,
            skipped=Skipped(self.no_usage, self.malformed, self.rollup, self.repeated),
            mtime_ns=mtime_ns,
            size=size,
            device=device,
            inode=inode,
            carry={key: msgspec.Raw(msgspec.json.encode(value)) for key, value in carry.items()},
        )

    def body(self, tail: str, stat: os.stat_result | None, carry: dict[str, Any]) -> LinesObserved:
        """Return the event. Without `stat`, more of the file is still to be read."""
        return LinesObserved(
            begin=self.begin,
            end=self.end,
            lines=self.lines,
            tail=tail,
            contexts=list(self._contexts),
            quotes=list(self._quotes),
            observations=self.observations,
            skipped=Skipped(self.no_usage, self.malformed, self.rollup, self.repeated),
            mtime_ns=stat.st_mtime_ns if stat else 0,
            size=stat.st_size if stat else 0,
            device=stat.st_dev if stat else 0,
            inode=stat.st_ino if stat else 0,
            carry={key: msgspec.Raw(msgspec.json.encode(value)) for key, value in carry.items()},
        )


def instant(text: str | None) -> int | None:
    """Return an ISO 8601 time as microseconds UTC; None where it is none. Without a zone it is UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


_CHAINS_KEPT = 8


def is_settled(mtime_ns: int) -> bool:
    """Return whether a source was left alone for so long that what was read of it is all that its client wrote."""
    return time.time_ns() - mtime_ns >= SETTLED_NS


def chained(before: str, told: bytes) -> str:
    """Return the digest of all records up to one, from that of those before it and what the record says."""
    return hashlib.sha256(before.encode() + told).hexdigest()[:16]


def read_before(carry: dict[str, Any], told: Sequence[bytes]) -> int:
    """Return how many records at the beginning of a rewritten file are those that were read.

    That is all that were read, or some less where one of the newest changed, or none of them.
    """
    chains = carry.get("chains", [])
    first, chain, found = carry.get("read", 0) - len(chains) + 1, "", 0
    for number, one in enumerate(told[: carry.get("read", 0)], 1):
        chain = chained(chain, one)
        if number >= first and chains[number - first] == chain:
            found = number
    return found


def remember(carry: dict[str, Any], chains: Sequence[str]) -> None:
    """Keep how far a rewritten file was read: `chains` are the digests of its records until there."""
    carry["read"], carry["chains"] = len(chains), list(chains[-_CHAINS_KEPT:])


def word(value: object) -> str:
    """Return an id, a name or a path that somebody else wrote, as text that can be stored; empty for anything else."""
    if not isinstance(value, str) or len(value) > _WORD_LETTERS:
        return ""
    return value.encode("utf-8", "replace").decode("utf-8")


def loads_leniently(line: bytes) -> dict[str, Any] | None:
    """Return a line's JSON object by the standard library, which takes lone surrogates; None for anything else."""
    try:
        found = json.loads(line.decode("utf-8", "replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def as_object(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object that a text is, None for anything else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return loads_leniently(text)
    return found if isinstance(found, dict) else None


def as_raw(value: Any) -> msgspec.Raw:
    """Return a parsed value as JSON again, with what UTF-8 cannot hold replaced."""
    return msgspec.Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


class Projects:
    """Finds the repository root of a working folder, once a folder."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def root(self, folder: str) -> str:
        """Return the nearest folder above that holds `.git`, else the folder itself."""
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = self._find(folder)
        return known

    @staticmethod
    def _find(folder: str) -> str:
        if not folder.startswith("/"):
            return folder
        path = Path(folder)
        try:
            for candidate in (path, *path.parents):
                if (candidate / ".git").exists():
                    return str(candidate)
        except (OSError, ValueError):
            pass
        return folder
