"""What a usage object means: disjoint token buckets that sum to what the provider calls the total."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from ledger.wire.counts import MAX_COUNT

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
"""A token count as JSON is decoded into: what is none is refused, and then read in the long way (counts.count)."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Token counts of one response under one model; each is a number or None (unknown), never a guessed zero.

    The five buckets `input_uncached`, `cache_read`, `cache_write_5m`, `cache_write_1h` and `output` are
    disjoint. `reasoning` is a part of `output`. `reported_total` is the provider's own sum, kept beside.
    """

    input_uncached: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    reported_total: int | None = None
    tool_use_prompt: int | None = None
    """A part of the input that the provider names apart (Gemini)."""
    billed_input: int | None = None
    billed_output: int | None = None
    """What the provider says it bills where that differs from the tokens (Cohere)."""
    web_searches: int | None = None
    service_tier: str | None = None
    speed: str | None = None
    region: str | None = None
    """What a price depends on, in the provider's words: service tier, speed, inference region."""
    upper_bound: bool = False
    """The input is known and the cached part of it is not: priced at the full input rate."""
    unsplit_cache_write: bool = False
    """Cache writes of unknown duration stand in `cache_write_5m`: the cost is a lower bound."""

    @property
    def unknown(self) -> bool:
        """True where the provider gave no token count at all."""
        return self.input_uncached is None and self.output is None and self.cache_read is None

    @property
    def bucket_total(self) -> int | None:
        """The sum of the known buckets, None where none is: compared with `reported_total` (OBS-12)."""
        written = (self.cache_write_5m, self.cache_write_1h)
        buckets = (self.input_uncached, self.cache_read, *written, self.output)
        known = [tokens for tokens in buckets if tokens is not None]
        return sum(known) if known else None


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row that a response causes: the answer itself, or a call that the provider made beside it."""

    role: str
    """`message`, `compaction`, `advisor`, `fallback`, or `other` for a kind that is not known yet."""
    model: str
    """The model that the part names, empty where it is the model of the request."""
    usage: Usage


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one response's usage frames say."""

    parts: tuple[Part, ...]
    """The answer's own row first, then calls made beside it. Empty where no usage was given at all."""
    partial: bool = False
    """The stream has no final usage frame: the counts are a lower bound."""
    reported_cost_usd: Decimal | None = None
    """The provider's or gateway's own figure."""

    @property
    def unknown(self) -> bool:
        """True where no part carries a token count."""
        return all(part.usage.unknown for part in self.parts)
