"""One row's figures: known sums with the counts of what is unknown, as JSON and as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.accounts.amounts import AMOUNTS, STATUSES, TOKEN_CLASSES
from reports.periods import iso

_PLACES = {name: place for place, name in enumerate(AMOUNTS)}
_BUCKETS = TOKEN_CLASSES[:5]


class Figures:
    """Sums in the order of AMOUNTS, with the first and last instant."""

    __slots__ = ("amounts", "first_at", "last_at")

    def __init__(self) -> None:
        self.amounts: list[int] = [0] * len(AMOUNTS)
        self.first_at: int | None = None
        self.last_at: int | None = None

    def add(self, amounts: Sequence[int], first_at: int | None, last_at: int | None) -> None:
        """Add another row's sums."""
        self.amounts = [a + b for a, b in zip(self.amounts, amounts, strict=True)]
        if first_at is not None:
            self.first_at = first_at if self.first_at is None else min(self.first_at, first_at)
        if last_at is not None:
            self.last_at = last_at if self.last_at is None else max(self.last_at, last_at)

    def __getitem__(self, name: str) -> int:
        return self.amounts[_PLACES[name]]

    @property
    def tokens(self) -> int:
        """All known tokens: the five disjoint buckets."""
        return sum(self[name] for name in _BUCKETS)

    @property
    def input(self) -> int:
        """All known input, cached or not, written or not."""
        return self.tokens - self["output"]

    def as_json(self) -> dict[str, Any]:
        """Return the figures under the names that docs/report.md promises."""
        counts = {name: self[name] for name in ("requests", *STATUSES, "retries", "fallbacks")}
        tokens = {name: self[name] for name in TOKEN_CLASSES}
        return {
            **counts,
            "tokens": {**tokens, "total": self.tokens},
            "unknown_usage_spans": self["unknown_usage_spans"],
            "lower_bound_spans": self["lower_bound_spans"],
            "upper_bound_spans": self["upper_bound_spans"],
            "cost_usd": usd(self["cost_nanousd"]) if self["priced_spans"] else None,
            "unpriced_spans": self["unpriced_spans"],
            "reported_cost_usd": usd(self["reported_cost_nanousd"]) if self["reported_cost_spans"] else None,
            "ran_ms": self["ran_us"] // 1000 if self["ran_known_spans"] else None,
            "waited_ms": self["waited_us"] // 1000 if self["waited_known_spans"] else None,
            "first_at": iso(self.first_at),
            "last_at": iso(self.last_at),
            "tokens_unknown": {name: self[f"{name}_unknown"] for name in TOKEN_CLASSES},
        }

    def bound(self) -> str:
        """Return the sign before a cost: `>= ` a lower bound, `<= ` an upper one, `~ ` both, else nothing."""
        lower = self["lower_bound_spans"] or self["unpriced_spans"]
        if lower and self["upper_bound_spans"]:
            return "~ "
        return ">= " if lower else "<= " if self["upper_bound_spans"] else ""

    def cost_text(self, decimals: int) -> str:
        """Return the cost for a table, with its sign; `unknown` where nothing is known.

        Where no price is known and the client or provider gave a figure of its own, that is shown, and said so.
        """
        if not self["priced_spans"]:
            if self["reported_cost_spans"]:
                lower = ">= " if self["reported_cost_spans"] < self["requests"] else ""
                return f"{lower}{self['reported_cost_nanousd'] / 1e9:,.{decimals}f} reported"
            return "unknown" if self["requests"] else "-"
        return f"{self.bound()}{self['cost_nanousd'] / 1e9:,.{decimals}f}"

    def count_text(self, *names: str) -> str:
        """Return the sum of token classes for a table: `unknown` where no request told, `>= ` where some did not.

        The output of a response that broke off is a lower bound too.
        """
        value = sum(self[name] for name in names)
        unknown = max(self[f"{name}_unknown"] for name in names)
        if unknown and unknown == self["requests"] and not value:
            return "unknown"
        partial = "output" in names and self["partial_spans"]
        return f">= {value:,}" if unknown or partial else f"{value:,}"

    def input_text(self) -> str:
        """Return all input for a table; a part of it that a provider does not tell apart is in it all the same."""
        unknown = self["unknown_usage_spans"]
        if unknown and unknown == self["requests"]:
            return "unknown"
        untold = self["cache_read_unknown"] - self["upper_bound_spans"]  # not told, and not within the input either
        return f">= {self.input:,}" if max(unknown, untold) > 0 else f"{self.input:,}"


def usd(nanousd: int) -> str:
    """Return nano-dollars as a decimal string, exact, with at least two decimals."""
    sign, value = ("-", -nanousd) if nanousd < 0 else ("", nanousd)
    decimals = f"{value % 1_000_000_000:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{value // 1_000_000_000}.{decimals}"


def usd_or_none(nanousd: int | None) -> str | None:
    """Return the same for an amount that may be unknown."""
    return None if nanousd is None else usd(nanousd)


def decimals_for(costs: Sequence[int]) -> int:
    """Return how many decimals a column of costs needs so that none of them shows as zero."""
    return 4 if any(0 < cost < 5_000_000 for cost in costs) else 2
