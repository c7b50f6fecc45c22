"""Our own dated additions to the price data: what genai-prices lacks or hides, and where it is overruled.

`overlay.json` is kept by hand. A patch names one model of one provider and does one of three things:

- *fills*: adds tiers, classes, bands, multipliers, a search fee and limits that are not listed. It cannot
  change a listed figure. Tiers, classes and the fee hold for the period of the standard price that is in
  force when the overlay was checked; multipliers hold for all of the model's time, or until their end.
- *overrules* (`spans`, with the reason in `why`): its periods are the whole price history.
- *joins* (`same_as`): the name is another exact name of that model.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from ledger.prices.quote import Band
from ledger.prices.record import OVERLAY, BookError, Period, Record, fill

OVERLAY_FILE = Path(__file__).with_name("overlay.json")


class Factor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A multiplier on every token class: `by` is region or speed, `word` the provider's word."""

    by: str
    word: str
    times: str
    until: str | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One period of an overruled price history."""

    valid_from: str | None = None
    valid_until: str | None = None
    tiers: dict[str, tuple[Band, ...]]


class Patch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the overlay says of one name of one provider."""

    why: str = ""
    same_as: str = ""
    spans: tuple[Span, ...] | None = None
    tiers: dict[str, tuple[Band, ...]] = {}
    factors: tuple[Factor, ...] = ()
    web_search_usd: str | None = None
    context_window: int | None = None
    max_output: int | None = None

    @property
    def prices(self) -> bool:
        """True where it says more than limits."""
        return self.spans is not None or bool(self.tiers or self.factors or self.web_search_usd)


class Overlay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The overlay file."""

    about: str
    sources: dict[str, str]
    checked_at: str
    left_out: dict[str, str]
    """What the tiers table lists and the overlay does not take: `provider/model` -> why."""
    decisions: dict[str, str]
    """Where the two sources disagree and genai-prices keeps its word: `provider/model` -> why."""
    models: dict[str, dict[str, Patch]]


Limits = dict[str, dict[str, tuple[int | None, int | None]]]
"""provider -> name -> (context_window, max_output) of a name whose limits are not those of its model."""


def load_overlay(path: Path = OVERLAY_FILE) -> Overlay:
    """The overlay that is shipped. Raises msgspec.ValidationError where the file is not as described."""
    return msgspec.json.decode(path.read_bytes(), type=Overlay)


def merge(records: list[Record], overlay: Overlay, strict: bool = True) -> tuple[list[Record], Limits]:
    """The records with the overlay laid over them, sorted, and the limits of single names.

    Strict (a build): a patch that contradicts a listed figure, or has nothing to lie on, raises BookError.
    Else (a refresh from a newer genai-prices): what is listed stays and the patch adds what is still missing.
    """
    shelves: dict[str, dict[str, Record]] = {}
    for record in records:
        shelves.setdefault(record.provider, {})[record.model] = record
    limits: Limits = {}
    for provider, patches in overlay.models.items():
        layer = _Layer(provider, shelves.setdefault(provider, {}), overlay.checked_at, strict)
        limits[provider] = layer.lay(patches)
    return [shelf[model] for _, shelf in sorted(shelves.items()) for model in sorted(shelf)], limits


class _Layer:
    """The patches of one provider going onto its shelf."""

    def __init__(self, provider: str, shelf: dict[str, Record], checked_at: str, strict: bool) -> None:
        self._provider, self._shelf = provider, shelf
        self._checked_at, self._strict = checked_at, strict

    def lay(self, patches: dict[str, Patch]) -> dict[str, tuple[int | None, int | None]]:
        """Lay all of them; the limits of names that have not those of their model."""
        for name, patch in patches.items():
            self._one(name, patch)
        limits = {}
        for record in self._shelf.values():
            for name in record.names & patches.keys():
                own = patches[name].context_window, patches[name].max_output
                if own not in ((None, None), (record.context_window, record.max_output)):
                    limits[name] = own
        return limits

    def _one(self, name: str, patch: Patch) -> None:
        owner = next((record for record in self._shelf.values() if name in record.names), None)
        if patch.same_as:
            target = self._shelf.get(patch.same_as)
            if target and not owner and name not in self._shelf:
                self._shelf[target.model] = replace(target, names=target.names | {name})
            else:
                self._object(f"{name} cannot be the same as {patch.same_as}")
        elif owner and patch.prices:
            # An alias with a price of its own is a model of its own.
            self._shelf[owner.model] = replace(owner, names=owner.names - {name})
            self._shelf[name] = self._patched(replace(owner, model=name, names=frozenset()), patch)
        elif not owner:
            record = self._shelf.get(name, Record(provider=self._provider, model=name))
            self._shelf[name] = self._patched(record, patch)

    def _object(self, what: str) -> None:
        if self._strict:
            raise BookError(f"{self._provider}: {what}")

    def _patched(self, record: Record, patch: Patch) -> Record:
        periods = record.periods
        if patch.spans is not None:
            periods = tuple(
                Period(span.valid_from, span.valid_until, span.tiers, sources=frozenset({OVERLAY}))
                for span in patch.spans
            )
        elif not periods and patch.tiers:
            periods = (Period(sources=frozenset({OVERLAY})),)
        elif not periods and patch.prices:
            self._object(f"{record.model} has no rates to add to")
        for factor in patch.factors:
            periods = tuple(piece for period in periods for piece in self._cut(period, factor))
        return replace(
            record,
            periods=tuple(self._filled(record.model, period, patch) for period in periods),
            context_window=patch.context_window or record.context_window,
            max_output=patch.max_output or record.max_output,
        )

    def _cut(self, period: Period, factor: Factor) -> list[Period]:
        """The period with the factor in it, in two pieces where the factor ends inside."""
        if factor.until is None:
            return [self._with_factor(period, factor)]
        # Canonical instants of one spelling compare as text.
        return [
            self._with_factor(piece, factor) if (piece.valid_from or "") < factor.until else piece
            for piece in period.split(factor.until)
        ]

    def _with_factor(self, period: Period, factor: Factor) -> Period:
        words = dict(period.multipliers.get(factor.by, {}))
        if words.setdefault(factor.word, factor.times) != factor.times:
            self._object(f"{factor.by} {factor.word} is listed with another factor")
        return replace(
            period,
            multipliers={**period.multipliers, factor.by: words},
            sources=period.sources | {OVERLAY},
        )

    def _filled(self, model: str, period: Period, patch: Patch) -> Period:
        """The period with what it lacks, where it is the one in force."""
        if not (patch.tiers or patch.web_search_usd) or not period.covers(self._checked_at):
            return period
        if patch.web_search_usd is not None and period.web_search_usd is not None:
            self._object(f"{model}: a search fee is listed already")
        tiers = dict(period.tiers)
        for tier, bands in patch.tiers.items():
            where = f"{self._provider}/{model} {tier}"
            tiers[tier] = fill(tiers.get(tier, ()), bands, where, self._strict)
        return replace(
            period,
            tiers=tiers,
            web_search_usd=period.web_search_usd or patch.web_search_usd,
            sources=period.sources | {OVERLAY},
        )
