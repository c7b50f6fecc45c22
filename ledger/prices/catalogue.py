"""genai-prices as records of the book: exact names, dated periods, bands, tiers. Never prefix matching.

It reads the data objects of genai-prices (0.2) and imports nothing of it: the caller hands over the
providers, so that only `build` and `refresh` pay for pydantic.

What does not come over, because the usage of a response cannot decide the price:

- a price by the time of day (DeepSeek's peak hours also depend on weekdays and holidays)
- a price for something else than tokens and searches: hours, pages, characters, requests
- another rate for output that is sound, image, video, reasoning or citation, and models made for these
- a variant that depends on what only the request says (search type, route)
- a rate that genai-prices says is not the seller's own, or only the cheapest of several
- a model without any rate, unless its name ends in `:free`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from ledger.prices.identity import BEDROCK_REGIONS, DATED, without_date, without_version
from ledger.prices.quote import DECIMALS_MAX, STANDARD, Band, PriceError, canonical_decimal
from ledger.prices.record import BookError, Period, Record, factor_between
from ledger.prices.scheme import BATCH, HALVES_BATCH, STANDARD_NAMES

_CLASS_KEYS = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
}
_SEARCH_KEY = "web_searches_kcount"
_HARMLESS_KEYS = {
    *_CLASS_KEYS.values(),
    _SEARCH_KEY,
    "storage_searches_kcount",
    # Input of other kinds: a coding agent sends text, and images at the text rate where none is listed.
    "input_audio_mtok",
    "input_image_mtok",
    "input_video_mtok",
    "cache_audio_read_mtok",
    "cache_image_read_mtok",
}
_OTHER_OUTPUT = re.compile(r"audio|realtime|[-.]tts|transcribe|whisper|-image|image-|-live-|omni-flash|-ocr|lyria")
_NOT_THE_SELLERS = re.compile(r"[Ii]mported from OpenRouter|[Ss]een on OpenRouter|trusting", re.DOTALL)
_LEFT_OUT_PROVIDERS = {
    "zhipuai": "flagship prices are those of the cheapest input length, converted from CNY",
    "openai-decisions": "the same names as OpenAI's with other rates, under OpenAI's own address",
    "elevenlabs": "speech",
}
_TELLING_KEYS = {"processing", "service_tier", "speed"}
_DASHED_DATE = r"-\d{4}-\d{2}-\d{2}$"


class LeftOut(Exception):
    """A model that does not come into the book, and why."""


def records(providers: Iterable[Any], strict: bool = True) -> tuple[list[Record], dict[str, str]]:
    """The records of all providers of genai-prices, and `provider/model` -> why it was left out.

    Strict (a build): data that does not fit raises BookError, for a person to look at. Else (a refresh from
    a newer genai-prices): that model alone is left out.
    """
    kept: list[Record] = []
    left_out: dict[str, str] = {}
    for provider in providers:
        for model in provider.models:
            try:
                kept.append(_record(provider, model))
            except LeftOut as reason:
                left_out[f"{provider.id}/{model.id}"] = str(reason)
            except (BookError, PriceError) as reason:
                if strict:
                    raise
                left_out[f"{provider.id}/{model.id}"] = str(reason)
    return kept, left_out


def _record(provider: Any, model: Any) -> Record:
    _check(provider, model)
    return Record(
        provider=provider.id,
        model=model.id,
        names=frozenset(_names(provider, model)) - {model.id},
        periods=tuple(_periods(provider, model)),
        context_window=model.context_window,
    )


def _check(provider: Any, model: Any) -> None:
    """Raise LeftOut where a response's usage cannot decide the price."""
    if provider.id in _LEFT_OUT_PROVIDERS:
        raise LeftOut(_LEFT_OUT_PROVIDERS[provider.id])
    comment = model.price_comments or ""
    if _NOT_THE_SELLERS.search(comment) and "Verified against" not in comment:
        raise LeftOut("the rate is not the seller's own, says genai-prices")
    if _OTHER_OUTPUT.search(model.id.lower()) or model.id.startswith("ft:"):
        raise LeftOut("made for another output than text, or a family of fine-tuned names")
    for entry in _conditional(model):
        if type(entry.constraint).__name__ == "TimeOfDateConstraint":
            raise LeftOut("a price by the time of day")
        odd = {key for key, value in entry.prices.__dict__.items() if value is not None} - _HARMLESS_KEYS
        if odd:
            raise LeftOut(f"priced by {', '.join(sorted(odd))}")
    for variant in model.price_variants or ():
        odd = variant.when.keys() - _TELLING_KEYS
        if odd:
            raise LeftOut(f"depends on {', '.join(sorted(odd))}")


def _conditional(model: Any) -> list[Any]:
    """The prices as a list of (constraint, prices), oldest first."""
    if isinstance(model.prices, list):
        return list(model.prices)
    return [_Always(model.prices)]


class _Always:
    """A price without a condition, in the shape of a conditional one."""

    constraint = None

    def __init__(self, prices: Any) -> None:
        self.prices = prices


def _periods(provider: Any, model: Any) -> Iterator[Period]:
    entries = _conditional(model)
    starts = [_start(entry.constraint) for entry in entries]
    later = [start for start in starts if start is not None]
    if starts[0] is not None or None in starts[1:] or later != sorted(set(later)):
        raise BookError(f"{model.id}: the periods of genai-prices are not in order: {starts}")
    for entry, start, end in zip(entries, starts, [*later, None], strict=True):
        yield _period(provider, model, entry.prices, start, end)


def _start(constraint: Any) -> date | None:
    start: date | None = None if constraint is None else constraint.start_date
    return start


def _midnight(day: date | None) -> str | None:
    return None if day is None else f"{day.isoformat()}T00:00:00Z"


def _period(provider: Any, model: Any, prices: Any, start: date | None, end: date | None) -> Period:
    standard = _bands(prices)
    if not standard and model.id.endswith(":free"):
        standard = (Band(input="0", cache_read="0", output="0"),)
    if not standard:
        raise LeftOut("no rate is listed")
    tiers, multipliers = {STANDARD: standard}, {}
    for (key, word), variant in _variants(model, start, end).items():
        if key == "speed":
            factor = factor_between(standard, _over(prices, variant))
            if factor is None:
                raise BookError(f"{model.id}: speed {word} is no multiple of the standard rates")
            multipliers["speed"] = {word: factor}
        elif word not in STANDARD_NAMES:
            tiers[word] = _tier(provider, word, prices, variant)
    return Period(_midnight(start), _midnight(end), tiers, multipliers, _search(prices))


def _tier(provider: Any, word: str, prices: Any, variant: Any) -> tuple[Band, ...]:
    """The bands of a tier. A class that it lacks is not listed, but for a batch that keeps standard rates.

    For Anthropic and OpenAI a class without a batch rate is half of standard, as they publish, which is
    worked out when pricing. For others genai-prices says that it stays at the standard rate (Gemini's
    context caching), as it says of an OpenAI batch that has nothing else.
    """
    listed = _bands(variant)
    if word == BATCH and not (provider.id in HALVES_BATCH and listed):
        return _over(prices, variant)
    return listed or _bands(prices)


def _variants(model: Any, start: date | None, end: date | None) -> dict[tuple[str, str], Any]:
    """The tier prices of a standard period: those first listed in it, or without a date.

    genai-prices dates a tier from the day it was looked at, not from the day it was sold. A tier therefore
    holds for the whole standard period that it was listed in, and for no other one.
    """
    found: dict[tuple[str, str], Any] = {}
    for variant in model.price_variants or ():
        since = _start(variant.constraint)
        inside = since is None or ((start is None or since >= start) and (end is None or since < end))
        (when,) = variant.when.items()
        if inside and when in found:
            raise BookError(f"{model.id}: {when} changes inside one period of the standard price")
        if inside:
            found[when] = variant.prices
    return found


def _over(prices: Any, variant: Any) -> tuple[Band, ...]:
    """The bands of a variant laid over the standard prices."""
    merged = {**prices.__dict__, **{k: v for k, v in variant.__dict__.items() if v is not None}}
    return _bands(type(prices)(**merged))


def _bands(prices: Any) -> tuple[Band, ...]:
    """The bands of a price: a class without tiers of its own has one rate in all of them."""
    listed = {what: getattr(prices, key) for what, key in _CLASS_KEYS.items() if getattr(prices, key) is not None}
    if not listed:
        return ()
    thresholds = {tier.start for price in listed.values() for tier in getattr(price, "tiers", ())}
    return tuple(
        Band(above=above, **{what: _clean(_rate(price, above)) for what, price in listed.items()})
        for above in sorted(thresholds | {0})
    )


def _rate(price: Any, above: int) -> Decimal:
    if isinstance(price, Decimal):
        return price
    rate: Decimal = price.base
    for tier in price.tiers:
        if tier.start <= above:
            rate = tier.price
    return rate


def _clean(rate: Decimal) -> str:
    """A rate at 9 decimals: without the noise of a float ("0.18000000000000002") or the end of a 1/12."""
    return canonical_decimal(rate.quantize(Decimal(1).scaleb(-DECIMALS_MAX), rounding=ROUND_HALF_EVEN))


def _search(prices: Any) -> str | None:
    thousand: Decimal | None = getattr(prices, _SEARCH_KEY)
    return None if thousand is None else _clean(thousand / 1000)


def _names(provider: Any, model: Any) -> Iterator[str]:
    """Every exact name that the match rules of a model spell out."""
    yield from _spelled(model.match)
    if model.id.endswith("-latest") and model.match.is_match(model.id.removesuffix("-latest")):
        yield model.id.removesuffix("-latest")
    if provider.id == "aws":
        yield from _bedrock(provider, model)
    if provider.id == "google" and model.id.startswith("claude-"):
        yield from _vertex(model.match)


def _spelled(match: Any) -> Iterator[str]:
    kind = type(match).__name__
    if kind == "ClauseOr":
        for clause in match.or_:
            yield from _spelled(clause)
    elif kind == "ClauseEquals":
        yield match.equals
    elif kind == "ClauseRegex":
        yield from _pattern(match.regex)


def _pattern(regex: str) -> Iterator[str]:
    """A whole-string pattern that is one name, or one name with a dashed date."""
    dated = regex.endswith(_DASHED_DATE)
    body = regex.removeprefix("^").removesuffix(_DASHED_DATE if dated else "$")
    name = re.sub(r"\\([.\[\]])", r"\1", body)
    whole = regex.startswith("^") and regex.endswith("$")
    if whole and re.fullmatch(r"[\w./@:=\[\]-]+", name) and "." not in body.replace("\\.", ""):
        yield name + DATED if dated else name


def _vertex(match: Any) -> Iterator[str]:
    """Vertex's Claude ids stand in `contains` rules; a part of a name or of a date is none."""
    for clause in getattr(match, "or_", [match]):
        text = getattr(clause, "contains", None) or getattr(clause, "ends_with", None) or ""
        if text.startswith("claude-") and not text.endswith(("@", "-2025")):
            yield text


def _bedrock(provider: Any, model: Any) -> Iterator[str]:
    """The ids of a Bedrock model: the entry of genai-prices that is first to match each region's form.

    Claude's ids also without their version, and without their date where no other entry has the rest.
    """
    stem = _stem(model)
    short = without_version(stem)
    undated = without_date(short)
    alone = undated and all(
        without_date(without_version(_stem(other))) != undated or other is model or _stem(other) == stem
        for other in provider.models
    )
    for region in ("", *BEDROCK_REGIONS):
        first = next((other for other in provider.models if other.is_match(region + stem)), None)
        if first is model:
            yield region + stem
            if stem.startswith("anthropic."):
                yield region + short
                if alone:
                    yield region + undated


def _stem(model: Any) -> str:
    stem: str = model.id.removeprefix("global.").removeprefix("regional.")
    return stem
