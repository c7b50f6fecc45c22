"""Events that are about to be appended together, with the texts that they name."""

from __future__ import annotations

from typing import Any, NamedTuple

from agent.state import Place
from ledger.events.envelope import NewEvent
from ledger.ids import new_id
from ledger.log.blobs import Blob, make_blob
from ledger.log.log import StreamAppend


class Drafted(NamedTuple):
    """An event of the run's own stream, before it has a version."""

    new: NewEvent
    turn: str
    span: str


class Draft:
    """Events of one run's stream, their texts, and what goes into other streams in the same transaction.

    A draft keeps the ids of its events, so that appending it again is harmless.
    """

    def __init__(self, session_id: str, turn: str = "") -> None:
        self.session_id, self.turn = session_id, turn
        self.events: list[Drafted] = []
        self.blobs: list[tuple[bytes, Blob]] = []
        self.others: list[StreamAppend] = []
        self._texts: dict[str, Blob] = {}

    def keep(self, content: str | bytes) -> str:
        """Keep a text, already masked, with the next event that is added; return its sha256. Empty for no text."""
        if not content:
            return ""
        blob = make_blob(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        name = blob.sha256.hex()
        self._texts[name] = blob
        return name

    def drop_kept(self) -> None:
        """Forget the texts that were kept and belong to no event."""
        self._texts = {}

    def add(self, body: Any, *, span: str = "") -> None:
        """Add an event; the texts that were kept since the last one are its own."""
        new = NewEvent(
            body=body, event_id=new_id(), session_id=self.session_id, turn=self.turn or None, span=span or None
        )
        self.events.append(Drafted(new, self.turn, span))
        self.blobs += [(new.event_id, blob) for blob in self._texts.values()]
        self._texts = {}

    def placed(self, version: int) -> list[tuple[Place, Any]]:
        """Return each event with its place, for a stream whose head had this version."""
        return [
            (Place(version + number, one.turn, one.span), one.new.body) for number, one in enumerate(self.events, 1)
        ]
