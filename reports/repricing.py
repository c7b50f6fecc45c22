"""What `ledger prices refresh` recorded and what `ledger reprice` moved, with the figures before and after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.accounts.repricing import Difference, Move
from ledger.log.log import Log
from ledger.prices.quote import CLASSES, Quote
from ledger.sources import quotes as quotes_of_log
from ledger.sources import repricing
from ledger.sources.repricing import Repriced
from reports.figures import decimals_for, usd
from reports.output import put, put_csv, put_json
from reports.quotes import UNKNOWN, short, source
from reports.text import Column, counted, table

_REASON = "the price book has another price for its time"
_NEWER = "newer price data: upgrade the package genai-prices (pip install --upgrade genai-prices), then run this again"


def refresh(log: Log, format_: str) -> int:
    """Record what the installed price data says otherwise than the log, and print it."""
    from importlib.metadata import version

    done = quotes_of_log.refresh(log)
    installed = version("genai-prices")
    header = ["provider", "model", "what", "old", "new", "old_quote", "new_quote"]
    if format_ == "json":
        put_json(
            {
                "installed": installed,
                "compared": done.compared,
                "recorded": [_difference(one) for one in done.recorded],
                "advice": _NEWER,
            }
        )
    elif format_ == "csv":
        put_csv(header, [row for one in done.recorded for row in _rows(one, None)])
    else:
        columns = [Column("provider", rank=2), Column("model"), Column("what"), Column("old", right=True)]
        columns += [Column("new", right=True), Column("old quote", rank=1), Column("new quote")]
        if done.recorded:
            put(table(columns, [row for one in done.recorded for row in _rows(one, "-")]))
        put(_refreshed(installed, done.compared, len(done.recorded)))
        put(_NEWER)
    return 0


def _refreshed(installed: str, compared: int, recorded: int) -> str:
    if not compared:
        return "the log uses no prices of the price data yet: `ledger import` records those it uses"
    said = f"{counted(compared, 'price')} compared with genai-prices {installed}: "
    if not recorded:
        return said + "nothing changed"
    return said + f"{recorded:,} changed and recorded; `ledger reprice` applies them to what is already imported"


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "provider": one.new.provider,
        "model": one.new.model,
        "old_quote": one.old.name if one.old else None,
        "new_quote": one.new.name,
        "changes": [{"what": what, "old": _value(one.old, what), "new": _value(one.new, what)} for what in one.what],
    }


def _rows(one: Difference, nothing: str | None) -> Iterable[list[Any]]:
    """Yield a row for each thing that differs; what a side does not list is `nothing`."""
    old = one.old.name if one.old else ""
    names = [old, one.new.name] if nothing is None else [short(old), short(one.new.name)]
    for what in one.what:
        values = [_value(quote, what) or nothing for quote in (one.old, one.new)]
        yield [one.new.provider, one.new.model, what, *values, *names]


def _value(quote: Quote | None, what: str) -> str | None:
    """Return what a quote says under a dotted name of `changed`, None where it says nothing."""
    if quote is None:
        return None
    kind, _, rest = what.partition(".")
    if kind == "tiers":
        tier, above, name = rest.rsplit(".", 2)
        bands = [band for band in quote.tiers.get(tier, ()) if band.above == int(above)]
        return bands[0].rates()[CLASSES.index(name)] if bands else None
    if kind == "multipliers":
        by, _, word = rest.partition(".")
        return quote.multipliers.get(by, {}).get(word)
    return None if kind == "quote" else getattr(quote, kind)


def reprice(log: Log, model: str | None, reason: str | None, format_: str) -> int:
    """Price again what the book prices otherwise now, and print the sums before and after."""
    done = repricing.reprice(log, model, reason or _REASON)
    rows = [_Row(move, done) for move in done.moves]
    total = _Sums([cost for row in rows for cost in row.before], [cost for row in rows for cost in row.after])
    spans = sum(len(move.spans) for move in done.moves)
    if format_ == "json":
        figures = {"spans": spans, **total.as_json()}
        put_json({"as_of": done.position, "moves": [row.as_json() for row in rows], "total": figures})
    elif format_ == "csv":
        header = ["model", "old_quote", "new_quote", "event", "spans", *total.as_json()]
        put_csv(header, [list(row.as_json().values()) for row in rows])
    elif rows:
        put(_table(rows, total, spans))
        put("the figure before any repricing stays with every request: `first_cost_nanousd`")
        lost = sum(row.lost for row in rows)
        if lost:
            put(
                f"{counted(lost, 'request')} of known cost before and unknown now: the new price lists no rate for a "
                "class or tier they used: `ledger prices set` states one"
            )
    else:
        put(f"nothing to do: every request{f' of {model}' if model else ''} has the price that the book has for it")
    return 0


def _table(rows: list[_Row], total: _Sums, spans: int) -> str:
    decimals = decimals_for([cost for row in rows for cost in row.before + row.after if cost is not None])
    columns = [
        Column("model"), Column("old quote"), Column("new quote"), Column("price from", rank=2),
        Column("event", rank=1), Column("spans", right=True), Column("before USD", right=True),
        Column("after USD", right=True),
    ]  # fmt: skip
    cells = [
        [row.move.model, short(row.move.old), short(row.move.new), source(row.new), row.event,
         f"{len(row.move.spans):,}", *row.texts(decimals)]
        for row in rows
    ]  # fmt: skip
    return table(columns, cells, ["total", "", "", "", "", f"{spans:,}", *total.texts(decimals)])


class _Sums:
    """Costs of the same spans before and after, nano-dollars; None is unknown and adds nothing."""

    def __init__(self, before: list[int | None], after: list[int | None]) -> None:
        self.before, self.after = before, after

    @property
    def lost(self) -> int:
        """How many had a cost and have none now."""
        return sum(old is not None and new is None for old, new in zip(self.before, self.after, strict=True))

    def texts(self, decimals: int) -> list[str]:
        """Return both sums for a table."""
        return [_text(costs, decimals) for costs in (self.before, self.after)]

    def as_json(self) -> dict[str, Any]:
        """Return both sums as decimal strings, with how many spans have no known cost."""
        found: dict[str, Any] = {}
        for name, costs in (("before", self.before), ("after", self.after)):
            known = [cost for cost in costs if cost is not None]
            found[f"{name}_usd"] = usd(sum(known)) if known else None
            found[f"{name}_unpriced_spans"] = len(costs) - len(known)
        return found


class _Row(_Sums):
    """One move and its sums."""

    def __init__(self, move: Move, done: Repriced) -> None:
        kept = [span for span in move.spans if span.span_id in done.costs]
        super().__init__([span.cost_nanousd for span in kept], [done.costs[span.span_id] for span in kept])
        self.move, self.new = move, done.quotes[move.new]
        self.event = "quote.superseded" if move.superseded else "span.priced"

    def as_json(self) -> dict[str, Any]:
        """Return the move with whole quote names."""
        move = self.move
        names = {"model": move.model, "old_quote": move.old or None, "new_quote": move.new}
        return {**names, "event": self.event, "spans": len(move.spans), **super().as_json()}


def _text(costs: list[int | None], decimals: int) -> str:
    known = [cost for cost in costs if cost is not None]
    if not known:
        return UNKNOWN
    return f"{'>= ' if len(known) < len(costs) else ''}{sum(known) / 1e9:,.{decimals}f}"
