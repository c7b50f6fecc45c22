"""Events of the `book` stream: prices and what was learnt about them later, labels, seals, purges."""

from __future__ import annotations

import msgspec


class QuoteRecorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dated price with its source was used for the first time, or set by the user."""

    sha256: str
    """The quote's name: digest of all that determines a price."""
    quote: msgspec.Raw
    """The quote itself (ledger.prices.quote.Quote): rates as decimals in USD per million tokens."""


class QuoteSuperseded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A quote was wrong or incomplete: what it priced is priced by another, the old figure stays visible."""

    old: str
    """The name of the quote that is not used any more."""
    new: str
    """The name of the quote in its place."""
    reason: str
    """A code, not a text."""


class SpanPriced(msgspec.Struct, frozen=True, omit_defaults=True):
    """Spans that had no price get one."""

    spans: list[str]
    """Span ids."""
    quote: str
    """The name of the quote that prices them."""
    reason: str
    """A code, not a text."""


class LabelSet(msgspec.Struct, frozen=True, omit_defaults=True):
    """The user gave a session a label, or took it away. Of several for one key the latest recorded holds."""

    client: str
    """The client whose session it is."""
    session: str
    """The client's own session id."""
    key: str
    """What kind of label it is."""
    value: str = ""
    """What it says; empty where the label was taken away."""


class SealMade(msgspec.Struct, frozen=True, omit_defaults=True):
    """The heads of all streams were sealed: the log can be held against a copy of this that is kept elsewhere."""

    digest: str
    """sha256 over all that this event says and where it stands; docs/evidence.md has the recipe."""
    heads: str
    """sha256 of the list of all heads."""
    changed: str
    """sha256 of the list of those heads that the seal before does not have. It names a blob, which is the list."""
    streams: int
    """How many streams the log had."""
    streams_changed: int
    """How many of them the seal before does not have at this head."""
    events: int
    """*Running total*: how many events the log had, which is the sum of the versions of all heads."""
    position: int
    """The newest position of the log in which the seal was made; in a copy positions are others."""
    made_at: int
    """When it was made, microseconds UTC."""
    previous: str = ""
    """The digest of the seal before in the same stream, empty for the first."""
    recipe: int = 1
    """The number of the recipe by which it was made."""


class BlobsPurged(msgspec.Struct, frozen=True, omit_defaults=True):
    """Texts were removed, by the user's wish. The events that name them stay, and so does this list of them."""

    count: int
    """How many this event lists; a large purge is several events."""
    size_bytes: int
    """How long these texts were together, uncompressed."""
    sha256: list[str]
    """The names of the blobs that left."""
    client: str = ""
    """The client of the session that was asked for, empty where a time was."""
    session: str = ""
    """The session that was asked for, with its sub-agents; empty where a time was."""
    before: int = 0
    """The time that was asked for: texts of before it were removed, microseconds UTC; 0 where a session was."""


class LogRolled(msgspec.Struct, frozen=True, omit_defaults=True):
    """The log had become large: its events so far went into a file of their own, and this one goes on after them."""

    volume: int
    """The number of the volume that was closed, from 1."""
    archive: str
    """The name of its file, in the folder of the log."""
    position: int
    """The newest event of that volume."""
    seal: str
    """The digest of the seal that covers all its events."""
