"""Which struct a (type, schema) is, how it is written, and the chain that lifts old ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ledger.errors import InvalidEvent, LogTooNew
from ledger.events import book, hubs, runs, sources

Struct = type[msgspec.Struct]


class Entry(NamedTuple):
    """One type of the catalogue, at the schema this program writes."""

    type: str
    schema: int
    struct: Struct
    stream: str
    """The kind of stream it belongs to."""


ENTRIES = (
    Entry("source.opened", 1, sources.SourceOpened, "source"),
    Entry("source.billed", 1, sources.SourceBilled, "source"),
    Entry("lines.observed", 1, sources.LinesObserved, "source"),
    Entry("records.observed", 1, sources.RecordsObserved, "source"),
    Entry("source.truncated", 1, sources.SourceTruncated, "source"),
    Entry("quote.recorded", 1, book.QuoteRecorded, "book"),
    Entry("quote.superseded", 1, book.QuoteSuperseded, "book"),
    Entry("span.priced", 1, book.SpanPriced, "book"),
    Entry("label.set", 1, book.LabelSet, "book"),
    Entry("seal.made", 1, book.SealMade, "book"),
    Entry("blobs.purged", 1, book.BlobsPurged, "book"),
    Entry("log.rolled", 1, book.LogRolled, "book"),
    Entry("run.claimed", 1, runs.RunClaimed, "run"),
    Entry("run.released", 1, runs.RunReleased, "run"),
    Entry("session.opened", 1, runs.SessionOpened, "run"),
    Entry("turn.started", 1, runs.TurnStarted, "run"),
    Entry("turn.ended", 1, runs.TurnEnded, "run"),
    Entry("message.added", 1, runs.MessageAdded, "run"),
    Entry("input.received", 1, runs.InputReceived, "run"),
    Entry("context.assembled", 1, runs.ContextAssembled, "run"),
    Entry("request.sent", 1, runs.RequestSent, "run"),
    Entry("request.answered", 1, runs.RequestAnswered, "run"),
    Entry("request.failed", 1, runs.RequestFailed, "run"),
    Entry("request.cut", 1, runs.RequestCut, "run"),
    Entry("request.cancelled", 1, runs.RequestCancelled, "run"),
    Entry("request.lost", 1, runs.RequestLost, "run"),
    Entry("retry.scheduled", 1, runs.RetryScheduled, "run"),
    Entry("fallback.taken", 1, runs.FallbackTaken, "run"),
    Entry("tool.called", 1, runs.ToolCalled, "run"),
    Entry("tool.returned", 1, runs.ToolReturned, "run"),
    Entry("approval.asked", 1, runs.ApprovalAsked, "run"),
    Entry("approval.answered", 1, runs.ApprovalAnswered, "run"),
    Entry("gate.refused", 1, runs.GateRefused, "run"),
    Entry("grant.opened", 1, hubs.GrantOpened, "hub"),
    Entry("reservation.made", 1, hubs.ReservationMade, "hub"),
    Entry("reservation.settled", 1, hubs.ReservationSettled, "hub"),
    Entry("endpoint.held", 1, hubs.EndpointHeld, "hub"),
    Entry("month.observed", 1, hubs.MonthObserved, "hub"),
)
CATALOGUE = {entry.type: entry for entry in ENTRIES}
_BY_STRUCT = {entry.struct: entry for entry in ENTRIES}

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(type, schema) -> a pure function from the data of that schema to the data of the next."""

_encoder = msgspec.json.Encoder()


class _Decoders(dict[str, Any]):
    """Type -> its decoder, made when the first event of that type is read: a command meets few of them."""

    def __missing__(self, type_: str) -> Any:
        decoder = self[type_] = msgspec.json.Decoder(CATALOGUE[type_].struct)
        return decoder


_decoders = _Decoders()


def entry_of(body: msgspec.Struct) -> Entry:
    """Return the catalogue entry of a body. Raises InvalidEvent for a struct of no event."""
    try:
        return _BY_STRUCT[type(body)]
    except KeyError:
        raise InvalidEvent(f"{type(body).__name__} is not an event of the catalogue") from None


def ascii_json(raw: bytes) -> str:
    """Return JSON text in which every character beyond ASCII is escaped, values untouched.

    Such characters stand only inside strings (RFC 8259), so each can be replaced where it stands.
    """
    if raw.isascii():
        return raw.decode("ascii")
    return "".join(char if char < "\x80" else _escape(char) for char in raw.decode("utf-8", "replace"))


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 | code >> 10:04x}\\u{0xDC00 | code & 0x3FF:04x}"


def encode(body: msgspec.Struct) -> str:
    """Return the ASCII JSON of an event's body, as it is hashed and stored."""
    return ascii_json(_encoder.encode(body))


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""An escaped NUL, not the text \\u0000 after an escaped backslash."""


def without_nul(data: str) -> str:
    """Return the data of an event with the replacement character in place of every NUL in a text."""
    # A backslash is rare and one character is found ten times as fast as six: events have some hundred thousand.
    return _NUL.sub(r"\1\\ufffd", data) if "\\" in data and "\\u0000" in data else data


def decode(type_: str, schema: int, data: str) -> Any:
    """Return the typed body of a stored event, lifted to today's schema.

    A NUL in a text is read as the replacement character: not every database that accounts lie in can keep one.
    Raises LogTooNew for a type or schema this program does not know: whoever folds stops there.
    """
    data = without_nul(data)
    entry = CATALOGUE.get(type_)
    if entry is None or schema > entry.schema:
        raise LogTooNew(
            f"the log holds an event this program does not know ({type_}, schema {schema}): update tallybook"
        )
    if schema == entry.schema:
        return _decoders[type_].decode(data)
    fields = msgspec.json.decode(data)
    while schema < entry.schema:
        fields = UPCASTERS[type_, schema](fields)
        schema += 1
    return _decoders[type_].decode(_encoder.encode(fields))  # by way of JSON, since some fields are kept raw
