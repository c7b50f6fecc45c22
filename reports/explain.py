"""`ledger explain`: opens a figure into the spans that it is made of, and says whether they add up to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ledger.accounts.amounts import AMOUNTS, TOKEN_CLASSES
from ledger.accounts.catchup import View
from ledger.accounts.sums import SPAN_SUMS
from ledger.errors import UsageError
from ledger.log.log import Log
from ledger.prices.pricing import exact_usd, lines
from reports.explain_find import Found, find
from reports.explain_span import TABLES, Opened, Opener, Pricing
from reports.explain_table import block, heading, sums
from reports.explain_words import whys
from reports.figures import Figures, usd, usd_or_none
from reports.output import put, put_csv, put_json_list
from reports.periods import Zone, iso

LIMIT = 50
"""How many spans a table opens before it sums up the rest."""
_SUMS = ", ".join(re.sub(r"\bs\.", "p.", SPAN_SUMS[name]) for name in AMOUNTS)
"""The figures of totals over gen_spans AS p: written apart from what adds up the spans that are listed."""


class Difference(NamedTuple):
    """A figure that what is listed does not add up to."""

    figure: str
    listed: int | None
    accounts: int | None


def explain(log: Log, view: View, address: str, options: Mapping[str, Any], limit: int, format_: str) -> int:
    """Print what is behind an address; return 1 where it does not add up to the figure of the accounts."""
    if limit < 0:
        raise UsageError(f"--limit {limit}: give how many spans a table opens, 0 for all")
    found = find(log, view, address, options)
    opened = Opener(log, view).spans(found)
    listed = Figures()
    if format_ == "json":
        head = {"as_of": view.position, "address": found.address, "figure": found.figure.as_json()}
        differences = _stream_json(head, found, _added(opened, listed), listed)
    elif format_ == "csv":
        put_csv(_CSV, _csv(_added(opened, listed), listed))
        differences = differing(listed, found.figure)
    else:
        differences = _table(view, found, _added(opened, listed), listed, limit, Zone(options.get("tz")))
    for one in differences:
        _complain(one, found)
    return 1 if differences else 0


def _table(
    view: View, found: Found, spans: Iterator[Opened], listed: Figures, limit: int, zone: Zone
) -> list[Difference]:
    """Print a block a span, then the sum beside the figure; return what differs."""
    put(heading(found, zone))
    shown, last = 0, None
    for last in islice(spans, limit or None):
        put("\n" + block(last, zone))
        shown += 1
    rest = _rest(view, found, last) if last and shown == limit else Figures()
    whole = Figures()
    for part in (listed, rest):
        whole.add(part.amounts, part.first_at, part.last_at)
    differences = differing(whole, found.figure)
    put("\n" + sums(listed, rest, whole, found.figure, adds_up=not differences))
    return differences


def _added(spans: Iterator[Opened], into: Figures) -> Iterator[Opened]:
    """Yield the spans and add up what each contributes, as it was worked out again."""
    for span in spans:
        into.add(span.amounts, span.row.occurred_at, span.row.occurred_at)
        yield span


def _rest(view: View, found: Found, last: Opened) -> Figures:
    """Return the sum over the spans after the last one shown, in SQL."""
    at, span_id = last.row.occurred_at, last.row.span_id
    where = (*found.where, "(p.occurred_at > ? OR (p.occurred_at = ? AND p.span_id > ?))")
    sql = (
        f"SELECT {_SUMS}, min(p.occurred_at), max(p.occurred_at) FROM {TABLES}{found.joins} WHERE {' AND '.join(where)}"
    )
    *amounts, first_at, last_at = view.store.query(sql, *found.parameters, at, at, span_id).fetchone()
    figures = Figures()
    figures.add([int(amount or 0) for amount in amounts], first_at, last_at)
    return figures


def differing(listed: Figures, accounts: Figures) -> list[Difference]:
    """Return every figure in which two sums differ. Pure."""
    pairs = zip((*AMOUNTS, "first_at", "last_at"), _all(listed), _all(accounts), strict=True)
    return [Difference(name, one, other) for name, one, other in pairs if one != other]


def _all(figures: Figures) -> list[int | None]:
    return [*figures.amounts, figures.first_at, figures.last_at]


def _complain(one: Difference, found: Found) -> None:
    sys.stdout.flush()
    sys.stderr.write(
        f"ledger: {found.address}: DOES NOT ADD UP: {one.figure} of the spans is {one.listed}, the accounts say "
        f"{one.accounts}: run `ledger verify --full`, then `ledger rebuild`\n"
    )


# JSON and CSV


def _stream_json(head: dict[str, Any], found: Found, spans: Iterator[Opened], listed: Figures) -> list[Difference]:
    differences: list[Difference] = []

    def tail() -> dict[str, Any]:
        differences.extend(differing(listed, found.figure))
        told = [one._asdict() for one in differences]
        return {"listed": listed.as_json(), "adds_up": not differences, "differences": told}

    put_json_list(head, "spans", map(span_json, spans), tail)
    return differences


def span_json(opened: Opened) -> dict[str, Any]:
    """Return a span as docs/report.md promises it."""
    row, values, again, place = opened.row, opened.values, opened.again, opened.place
    names = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
    return {
        "span": row.span_id,
        "session": opened.session_id,
        "turn": opened.turn or None,
        "parent": row.parent,
        "at": iso(row.occurred_at),
        **values._asdict(),
        "agent_id": row.agent_id,
        "attempt": row.attempt,
        "attempt_kind": row.attempt_kind,
        "http_status": row.http_status or None,
        "read_from": {"file": place.file or None, "offset": place.offset, "record": place.record,
                      "stream": place.stream, "event": place.event, "observation": place.observation},
        "tokens": {name: getattr(again, name) for name in names},
        "reported_total": again.reported_total,
        "web_searches": again.web_searches,
        "cost_usd": usd_or_none(again.cost_nanousd),
        "lower_bound": bool(again.lower_bound),
        "upper_bound": bool(again.upper_bound),
        "reported_cost_usd": usd_or_none(row.reported_cost_nanousd),
        "price": None if opened.final is None else _price_json(opened.final),
        "first_price": None if opened.first is None else _price_json(opened.first),
        "repriced": [{"event": one.event, "at": iso(one.at), "reason": one.reason} for one in opened.repriced],
        "why": whys(opened),
        "waited_ms": None if row.waited_us is None else row.waited_us // 1000,
        "ran_ms": None if row.ran_us is None else row.ran_us // 1000,
    }  # fmt: skip


def _price_json(pricing: Pricing) -> dict[str, Any]:
    quote, priced = pricing
    return {
        "quote": quote.name,
        **{name: getattr(quote, name) for name in _QUOTE},
        "rules": list(priced.rules),
        "lines": [
            {"what": line.what, "count": line.count, "rate_usd": line.rate_usd, "amount_usd": line.amount_usd}
            for line in lines(priced)
        ],
        "exact_usd": None if priced.cost_nanousd is None else exact_usd(priced),
        "cost_usd": usd_or_none(priced.cost_nanousd),
        "reason": priced.reason or None,
    }


_QUOTE = ("provider", "model", "valid_from", "valid_until", "source", "source_version", "checked_at")


_CSV = ("span", "session", "turn", "at", "client", "who", "agent", "model", "kind", "status", "file", "offset",
        "event", "observation", "input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output",
        "reasoning", "web_searches", "cost_usd", "lower_bound", "upper_bound", "first_cost_usd", "repriced", "quote",
        "quote_source", "valid_from", "valid_until", "rules", "arithmetic", "why")  # fmt: skip


def _csv(spans: Iterator[Opened], listed: Figures) -> Iterator[list[Any]]:
    for opened in spans:
        row, values, again, place = opened.row, opened.values, opened.again, opened.place
        quote = opened.final.quote if opened.final else None
        yield [
            row.span_id, opened.session_id, opened.turn, iso(row.occurred_at), values.client, values.who,
            values.agent, values.model, values.kind, values.status, place.file or None, place.offset, place.event,
            place.observation, again.input_uncached, again.cache_read, again.cache_write_5m, again.cache_write_1h,
            again.output, again.reasoning, again.web_searches, usd_or_none(again.cost_nanousd), again.lower_bound,
            again.upper_bound, usd_or_none(opened.first.priced.cost_nanousd) if opened.first else None,
            "; ".join(one.reason for one in opened.repriced), quote and quote.name,
            quote and f"{quote.source} {quote.source_version}".strip(), quote and quote.valid_from,
            quote and quote.valid_until, " ".join(opened.final.priced.rules) if opened.final else None,
            arithmetic(opened), "; ".join(whys(opened)),
        ]  # fmt: skip
    sums: dict[str, Any] = {
        name: None if name in TOKEN_CLASSES and listed[f"{name}_unknown"] == listed["requests"] else listed[name]
        for name in _CSV
        if name in AMOUNTS
    }
    sums["cost_usd"] = usd(listed["cost_nanousd"]) if listed["priced_spans"] else None
    sums |= {name: listed[f"{name}_spans"] for name in ("lower_bound", "upper_bound")}
    yield ["total", *(sums.get(name) for name in _CSV[1:])]


def arithmetic(opened: Opened) -> str:
    """Return the products of a price in one line: `6 x 5 + 655 x 25`, rates in USD per million tokens."""
    if opened.final is None:
        return ""
    return " + ".join(
        f"{line.count} x {line.rate_usd}{'' if line.what == 'web_search' else '/M'}"
        for line in lines(opened.final.priced)
    )
