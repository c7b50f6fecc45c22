"""A model's prices while the book is made: one record a model, one period a price. Not loaded by readers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal

from ledger.prices.quote import CLASSES, Band, instant_us

GENAI = "genai-prices"
OVERLAY = "overlay"


class BookError(Exception):
    """The price data or the overlay says something that the book cannot: the build stops."""


@dataclass(frozen=True)
class Period:
    """What a model costs between two instants (ISO 8601 UTC or None) and who said so."""

    valid_from: str | None = None
    valid_until: str | None = None
    tiers: dict[str, tuple[Band, ...]] = field(default_factory=dict)
    multipliers: dict[str, dict[str, str]] = field(default_factory=dict)
    web_search_usd: str | None = None
    sources: frozenset[str] = frozenset({GENAI})

    def covers(self, instant: str) -> bool:
        """True where the instant is in the period."""
        at_us, start_us, end_us = (
            instant_us(instant),
            instant_us(self.valid_from),
            instant_us(self.valid_until),
        )
        assert at_us is not None
        return (start_us is None or start_us <= at_us) and (end_us is None or at_us < end_us)

    def split(self, instant: str) -> tuple[Period, ...]:
        """The period before and from an instant; itself alone where the instant is not inside."""
        if not self.covers(instant) or self.valid_from == instant:
            return (self,)
        return replace(self, valid_until=instant), replace(self, valid_from=instant)


@dataclass(frozen=True)
class Record:
    """One model of one provider: its id, its other exact names, its periods in order and its limits."""

    provider: str
    model: str
    names: frozenset[str] = frozenset()
    periods: tuple[Period, ...] = ()
    context_window: int | None = None
    max_output: int | None = None


def fill(listed: tuple[Band, ...], more: tuple[Band, ...], where: str, strict: bool) -> tuple[Band, ...]:
    """Bands with the rates added that they lack. Strict: to contradict a listed rate is a BookError."""
    merged = {band.above: band for band in listed}
    for band in more:
        old = merged.get(band.above, Band(above=band.above))
        rates = {}
        for what, have, new in zip(CLASSES, old.rates(), band.rates(), strict=True):
            if strict and have is not None and new is not None and have != new:
                raise BookError(f"{where} {band.above} {what}: {have} is listed and the overlay says {new}")
            rates[what] = new if have is None else have
        merged[band.above] = Band(above=band.above, **rates)
    return tuple(merged[above] for above in sorted(merged))


def factor_between(standard: tuple[Band, ...], other: tuple[Band, ...]) -> str | None:
    """The whole number that every rate of another mode is a multiple by; None where there is no one."""
    factors = set()
    if [band.above for band in standard] != [band.above for band in other]:
        return None
    for plain, band in zip(standard, other, strict=True):
        for base, rate in zip(plain.rates(), band.rates(), strict=True):
            if (base is None) != (rate is None):
                return None
            if base is not None and rate is not None:
                factors.add(Decimal(rate) / Decimal(base))
    if len(factors) != 1:
        return None
    (one,) = factors
    return str(int(one)) if one == one.to_integral_value() else None
