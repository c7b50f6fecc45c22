"""An event of observations of which only what is asked for is decoded: for whoever wants a few out of hundreds."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.events.registry import CATALOGUE, decode, without_nul
from ledger.events.sources import AnyObservation, Context, LinesObserved, RecordsObserved


class _Outline(msgspec.Struct):
    """What `LinesObserved` and `RecordsObserved` have in common, with the observations as they stand."""

    contexts: list[Context] = []
    quotes: list[str] = []
    observations: list[msgspec.Raw] = []


class Observations:
    """The observations of an event, by index. One is decoded when it is asked for first."""

    __slots__ = ("_decoded", "_raws")

    def __init__(self, raws: list[msgspec.Raw]) -> None:
        self._raws = raws
        self._decoded: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        one = self._decoded.get(index)
        if one is None:
            one = self._decoded[index] = _observation(self._raws[index])
        return one

    def __len__(self) -> int:
        return len(self._raws)


class Outline:
    """A body with the three fields that tell what was seen, as those of LinesObserved and RecordsObserved."""

    __slots__ = ("contexts", "observations", "quotes")

    def __init__(self, contexts: list[Context], quotes: list[str], observations: Observations) -> None:
        self.contexts, self.quotes, self.observations = contexts, quotes, observations


_outline = msgspec.json.Decoder(_Outline).decode
_observation = msgspec.json.Decoder(AnyObservation).decode
_STRUCTS = (LinesObserved, RecordsObserved)


def outline(type_: str, schema: int, data: str) -> Outline | LinesObserved | RecordsObserved:
    """Return an event's contexts, quotes and observations; an older schema is lifted as a whole. Raises LogTooNew."""
    entry = CATALOGUE.get(type_)
    if entry is None or entry.schema != schema or entry.struct not in _STRUCTS:
        body: LinesObserved | RecordsObserved = decode(type_, schema, data)
        return body
    found = _outline(without_nul(data))
    return Outline(found.contexts, found.quotes, Observations(found.observations))
