"""The catalogue: every type of event this program writes, and how old ones are read."""

from ledger.events.envelope import Event, NewEvent
from ledger.events.registry import CATALOGUE, decode, encode

__all__ = ["CATALOGUE", "Event", "NewEvent", "decode", "encode"]
