"""What `ledger explain` says of a span in words: rules of its price, bounds, and what is unknown and why."""

from __future__ import annotations

from ledger.accounts.amounts import TOKEN_CLASSES
from ledger.prices.quote import Quote
from reports.explain_span import Opened, Pricing

_RULES = {
    "batch_half": "batch: half of the standard rate, where no batch rate is listed",
    "web_search": "searches on the web cost apart from tokens, in every tier the same",
    "billed_units": "the provider bills other counts than it reports as tokens",
    "cache_write_as_5m": "written to a cache for a time that nobody says: at the rate of 5 minutes",
    "input_at_full_rate": "which part of the input was cached is not told: all of it at the uncached rate",
}
CLASS_NAMES = {
    "input": "uncached",
    "input_uncached": "uncached",
    "cache_read": "cache read",
    "cache_write_5m": "cache write 5m",
    "cache_write_1h": "cache write 1h",
    "output": "output",
    "reasoning": "reasoning",
    "web_search": "web search",
}
"""Token classes as tables name them, under the names of usage and of quotes."""


def rule_text(rule: str, quote: Quote) -> str:
    """Return a rule of ledger.prices.pricing in words."""
    name, _, value = rule.partition(":")
    if name == "tier":
        return f"service tier {value}: its own rates"
    if name == "above":
        return f"long context: all input is above {int(value):,} tokens, so the whole request has the upper rates"
    if name in ("region", "speed"):
        return f"{name} {value}: {quote.multipliers[name][value]} x on every class of tokens"
    if name == "unreported":
        return f"{CLASS_NAMES.get(value, value)} was not told and may have cost something"
    return _RULES.get(rule, rule)


def quote_text(quote: Quote) -> str:
    """Return a quote in one line: whose, of what, since when, and who says so."""
    validity = " ".join(
        f"{word} {_day(instant)}" for word, instant in (("from", quote.valid_from), ("until", quote.valid_until))
        if instant
    )  # fmt: skip
    of = " ".join(filter(None, (quote.provider, quote.model)))
    source = " ".join(filter(None, (quote.source, quote.source_version)))
    checked = f", checked {quote.checked_at[:10]}" if quote.checked_at else ""
    return f"{of}, {validity or 'without dates'}, by {source}{checked} ({quote.name[:12]})"


def _day(instant: str) -> str:
    return instant.removesuffix("T00:00:00Z")


def whys(opened: Opened) -> list[str]:
    """Return a sentence for everything about a span's figures that is unknown or only a bound."""
    if opened.values.kind != "model":
        return []
    usage, row = opened.usage, opened.again
    said = []
    if usage is None or usage.unknown:
        said.append(f"{_no_usage(opened)}: tokens and cost are unknown, not zero")
    else:
        silent = [CLASS_NAMES[name] for name in TOKEN_CLASSES if getattr(usage, name) is None]
        if silent:
            said.append(f"not told, so unknown and not zero: {', '.join(silent)}")
        said += _bounds(opened)
        if row.cost_nanousd is None:
            said.append(f"the cost is unknown: {_no_cost(opened)}")
    if not opened.agrees:
        said.append("THE ACCOUNTS SAY SOMETHING ELSE of this span: run `ledger verify --full`")
    return said


def _no_usage(opened: Opened) -> str:
    status = opened.values.status
    http = f" with HTTP status {opened.row.http_status}" if opened.row.http_status else ""
    return f"{status}{http}, no token count was told" if status != "succeeded" else "no token count was told"


def _bounds(opened: Opened) -> list[str]:
    said = []
    rules = opened.final.priced.rules if opened.final else ()
    if opened.row.ending:
        said.append(f"{opened.row.ending}: what was received counts; output and cost are a lower bound (>=)")
    elif opened.again.partial:
        said.append("its end was never written, only its opening: output and cost are a lower bound (>=)")
    if any(rule.startswith("unreported:") for rule in rules) or (opened.usage and opened.usage.unsplit_cache_write):
        said.append("the cost is a lower bound (>=): see the rules")
    if opened.again.upper_bound:
        said.append("the cost is an upper bound (<=): what was cached of the input costs less")
    return said


def _no_cost(opened: Opened) -> str:
    if opened.final is not None:
        return opened.final.priced.reason
    if opened.row.named_quote or opened.row.quote:
        return "the price that the event names is not in the log"
    model = opened.values.model or "an unknown model"
    return f"no price of {model} was known (`ledger prices set`, then `ledger reprice`)"


def rules_of(pricing: Pricing) -> list[str]:
    """Return the rules that a price followed, in words."""
    return [rule_text(rule, pricing.quote) for rule in pricing.priced.rules]
