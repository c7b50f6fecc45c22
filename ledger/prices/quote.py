"""A quote: the dated price of one model, named by what it priced.

A quote is recorded once (`quote.recorded`) and never edited; a span names the quote that priced it, so that
rebuilding the accounts gives the same money for ever, without a network (OBS-51).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property

import msgspec

from ledger.errors import UsageError

CLASSES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
"""The token classes that have rates, in the order of the buckets of `Usage`."""

STANDARD = "standard"
"""The name of the tier that every quote has."""

DECIMALS_MAX = 9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class PriceError(UsageError, ValueError):
    """A rate, an instant or a name cannot be used in a quote. One line."""


class Band(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rates of one tier for requests whose whole input exceeds `above` tokens (0: the base band).

    A rate is USD per million tokens as a decimal string. None is *not listed*, which is unknown, not free.
    A band says everything about its requests: nothing is taken over from a lower band.
    """

    above: int = 0
    input: str | None = None
    cache_read: str | None = None
    cache_write_5m: str | None = None
    cache_write_1h: str | None = None
    output: str | None = None

    def rates(self) -> tuple[str | None, str | None, str | None, str | None, str | None]:
        """The five rates in the order of `CLASSES`."""
        return self.input, self.cache_read, self.cache_write_5m, self.cache_write_1h, self.output


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What one model costs between two instants, and who says so.

    `tiers` has bands by service tier name, ascending by `above`; where `standard` has a higher band than
    another tier, that tier lists nothing for so much input. `multipliers` has `region` and `speed`, each
    a mapping from the provider's word to a factor on every token class. `web_search_usd` is USD a search, on
    top of tokens. Instants are ISO 8601 UTC; `valid_until` is the first instant no longer covered.
    """

    provider: str
    """The seller as the price data names it (`anthropic`, `x-ai`, `aws`); empty: any, stated by the user."""
    model: str
    """The exact id in the price data, not a name that a client made up."""
    valid_from: str | None = None
    valid_until: str | None = None
    tiers: dict[str, tuple[Band, ...]] = {}
    multipliers: dict[str, dict[str, str]] = {}
    web_search_usd: str | None = None
    context_window: int | None = None
    max_output: int | None = None
    source: str
    source_version: str = ""
    checked_at: str | None = None

    @cached_property
    def name(self) -> str:
        """The sha256 (hex) over the canonical JSON of what determines the price and its origin.

        In: provider, model, valid_from, valid_until, tiers, multipliers, web_search_usd, source and
        source_version. Out: checked_at (to check again is not to rename), context_window and max_output
        (they price nothing). Canonical: keys sorted, no spaces, fields at their default left out of a band.
        """
        import hashlib  # OpenSSL costs 2 ms, and only a new quote needs a name.

        priced = {
            "provider": self.provider,
            "model": self.model,
            "valid_from": self.valid_from,
            "valid_until": self.valid_until,
            "tiers": self.tiers,
            "multipliers": self.multipliers,
            "web_search_usd": self.web_search_usd,
            "source": self.source,
            "source_version": self.source_version,
        }
        return hashlib.sha256(msgspec.json.encode(priced, order="sorted")).hexdigest()

    @cached_property
    def valid_us(self) -> tuple[int | None, int | None]:
        """`valid_from` and `valid_until` as microseconds UTC."""
        return instant_us(self.valid_from), instant_us(self.valid_until)

    def covers(self, at_us: int) -> bool:
        """True where the quote is valid at this instant (microseconds UTC)."""
        start_us, end_us = self.valid_us
        return (start_us is None or start_us <= at_us) and (end_us is None or at_us < end_us)

    def to_json(self) -> bytes:
        """The quote as JSON, for an event."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Quote:
        """A quote from its JSON. Raises PriceError where it is none."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise PriceError(f"this is no quote: {error}") from error


def canonical_decimal(value: str | int | Decimal, what: str = "a rate") -> str:
    """The one spelling of a non-negative decimal: no exponent, no trailing zeros ("5", "0.125").

    At most 9 decimals, so that every price is a small exact fraction. Raises PriceError in one line.
    """
    shown = repr(str(value)[:40])
    try:
        if isinstance(value, str) and (not value.isascii() or "_" in value):
            raise ValueError
        number = Decimal(value)
    except (InvalidOperation, ValueError, TypeError):
        raise PriceError(f"{what} must be a decimal number, not {shown}") from None
    if not number.is_finite() or number < 0:
        raise PriceError(f"{what} must be a finite number that is not negative, not {shown}")
    if number >= 10**9:
        raise PriceError(f"{what} must be below a thousand million, not {shown}")
    if number == 0:
        return "0"
    # Digit by digit: Decimal's own normalize() would round to the precision of its context.
    digits, exponent = "".join(map(str, number.as_tuple().digits)), int(number.as_tuple().exponent)
    while exponent < 0 and digits[-1] == "0":
        digits, exponent = digits[:-1], exponent + 1
    if exponent < -DECIMALS_MAX:
        raise PriceError(f"{what} has more than {DECIMALS_MAX} decimals: {shown}")
    whole, rest = divmod(int(digits) * 10 ** (exponent + DECIMALS_MAX), 10**DECIMALS_MAX)
    return f"{whole}.{rest:0{DECIMALS_MAX}d}".rstrip("0").rstrip(".")


def scaled(text: str) -> int:
    """A decimal of a quote times 10^9, exact. Raises PriceError where it is none, or has more decimals."""
    whole, _, rest = text.partition(".")
    if not (whole + rest).isdecimal() or not text.isascii() or len(rest) > DECIMALS_MAX:
        raise PriceError(f"a quote has {text[:40]!r} where a decimal belongs")
    return int(whole + rest.ljust(DECIMALS_MAX, "0"))


def instant_us(text: str | None) -> int | None:
    """An ISO 8601 instant as microseconds since 1970, exact. A text without an offset is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise PriceError(f"an instant is written like 2026-03-13T00:00:00Z, not {str(text)[:40]!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def canonical_instant(text: str | None) -> str | None:
    """The one spelling of an instant: UTC, with Z, microseconds only where there are any."""
    at_us = instant_us(text)
    if at_us is None:
        return None
    return (_EPOCH + at_us * _MICROSECOND).isoformat().replace("+00:00", "Z")


def changed(old: Quote | None, new: Quote) -> tuple[str, ...]:
    """What differs between a recorded quote and a fresh one, as dotted names; empty where nothing does.

    Compares what prices a request and how long (OBS-51): validity, every rate, multipliers, web search. A
    new `source_version` or `checked_at` alone is no change. Without an old quote: `("quote",)`.
    """
    if old is None:
        return ("quote",)
    before, after = _facts(old), _facts(new)
    return tuple(key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key))


def _facts(quote: Quote) -> dict[str, str]:
    """Everything that prices, flat: `tiers.batch.200000.output` -> rate."""
    facts = {"valid_from": quote.valid_from or "", "valid_until": quote.valid_until or ""}
    facts["web_search_usd"] = quote.web_search_usd or ""
    for tier, bands in quote.tiers.items():
        for band in bands:
            for key, rate in zip(CLASSES, band.rates(), strict=True):
                if rate is not None:
                    facts[f"tiers.{tier}.{band.above}.{key}"] = rate
    for kind, factors in quote.multipliers.items():
        facts |= {f"multipliers.{kind}.{word}": factor for word, factor in factors.items()}
    return facts
