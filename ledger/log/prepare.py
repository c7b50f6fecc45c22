"""What is to be appended, checked and encoded before the database is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ledger.errors import EventIdReused, InvalidEvent
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.events.registry import CATALOGUE, encode, entry_of

if TYPE_CHECKING:
    from ledger.log.log import StreamAppend


class Prepared(NamedTuple):
    """An event with its type, schema and the text of its data."""

    new: NewEvent
    type: str
    schema: int
    data: str


Batch = list[tuple["StreamAppend", list[Prepared]]]


def prepare(appends: Sequence[StreamAppend]) -> Batch:
    """Return the events of an append as they will be stored. Raises InvalidEvent, EventIdReused."""
    batch = [(one, [_prepare(event) for event in one.events]) for one in appends]
    ids = [event.new.event_id for _, events in batch for event in events]
    if len(set(ids)) != len(ids):
        raise EventIdReused("an event id stands twice in one append: give every event its own")
    return batch


def _prepare(new: NewEvent) -> Prepared:
    if len(new.event_id) != 16:
        raise InvalidEvent("an event id has 16 bytes")
    if type(new.body) is EncodedBody:
        known = CATALOGUE.get(new.body.type)
        if known is None or not new.body.data.isascii():
            raise InvalidEvent(f"{new.body.type}: an encoded body has a type of the catalogue and is ASCII JSON")
        return Prepared(new, known.type, known.schema, new.body.data)
    entry = entry_of(new.body)
    try:
        return Prepared(new, entry.type, entry.schema, encode(new.body))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InvalidEvent(f"{entry.type}: {error}") from error
