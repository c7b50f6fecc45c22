"""Totals: every change of a span row moves them by after minus before."""

from __future__ import annotations

from itertools import chain
from operator import add, attrgetter, itemgetter, sub
from typing import Any

import msgspec

from ledger.accounts.amounts import (
    AMOUNTS,
    DAY_US,
    GRAIN_DAY,
    GRAIN_EDGE,
    GRAIN_MONTH,
    GRAIN_QUARTER,
    GRAIN_SESSION,
    QUARTER_HOUR_US,
)
from ledger.accounts.months import inner_month, inner_month_end
from ledger.accounts.rows import SpanRow, contribution
from ledger.accounts.store import Store
from ledger.wire.usage import Usage

_WIDTH = len(AMOUNTS)
_SPAN_US = {GRAIN_QUARTER: QUARTER_HOUR_US, GRAIN_DAY: DAY_US, GRAIN_EDGE: QUARTER_HOUR_US}

Cell = tuple[int, int, int]
"""(grain, bucket, dimension id)."""


class _Sum:
    """What a cell changes by, and the instants that came and went."""

    __slots__ = ("amounts", "first_at", "last_at", "left")

    def __init__(self) -> None:
        self.amounts = [0] * _WIDTH
        self.first_at = 1 << 62
        self.last_at = -(1 << 62)
        self.left: set[int] = set()


def _sum_of(found: list[_Sum]) -> _Sum:
    """Return what several changes of one cell come to."""
    if len(found) == 1:
        return found[0]
    total = _Sum()
    total.amounts = list(map(sum, zip(*[one.amounts for one in found], strict=True)))
    total.first_at = min([one.first_at for one in found])
    total.last_at = max([one.last_at for one in found])
    total.left = set().union(*[one.left for one in found])
    return total


class _Usual(msgspec.Struct, gc=False):
    """What responses that succeeded at the first attempt add to a cell: only what is not the same for all of them."""

    spans: int = 0
    input_uncached: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    input_uncached_unknown: int = 0
    cache_read_unknown: int = 0
    cache_write_5m_unknown: int = 0
    cache_write_1h_unknown: int = 0
    output_unknown: int = 0
    reasoning_unknown: int = 0
    unknown_usage_spans: int = 0
    partial_spans: int = 0
    lower_bound_spans: int = 0
    upper_bound_spans: int = 0
    priced_spans: int = 0
    cost_nanousd: int = 0
    reported_cost_spans: int = 0
    reported_cost_nanousd: int = 0
    lines: int = 0
    first_at: int = 1 << 62
    last_at: int = -(1 << 62)

    def whole(self) -> _Sum:
        """Return the same with every amount."""
        total = _Sum()
        total.amounts = list(_ALL((*_OWN(self), 0, self.spans - self.priced_spans)))
        total.first_at, total.last_at = self.first_at, self.last_at
        return total


_NAMES = [name for name in AMOUNTS if name in _Usual.__struct_fields__]
_OWN = attrgetter(*_NAMES)
_ALIKE = {"requests": _NAMES.index("spans"), "succeeded": _NAMES.index("spans"), "unpriced_spans": len(_NAMES) + 1}
_ALL = itemgetter(*(_NAMES.index(name) if name in _NAMES else _ALIKE.get(name, len(_NAMES)) for name in AMOUNTS))
"""Picks every amount, in order, out of those that `_Usual` has, a zero, and the spans without a price."""


class TotalsChange:
    """The changes of one slice, gathered finely and written once a cell."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._fine: dict[tuple[int, int, int], _Sum] = {}
        self._usual: dict[tuple[int, int, int], _Usual] = {}

    def __len__(self) -> int:
        return len(self._fine) + len(self._usual)

    def add_usual(
        self, at: int, session_key: int, dimension_id: int, usage: Usage, cost: int | None, reported: int | None,
        partial: int, lower_bound: int, upper_bound: int, lines: int,
    ) -> None:  # fmt: skip
        """Take in a response that succeeded at the first attempt: the same as `add` for its row, at less cost."""
        key = (at - at % QUARTER_HOUR_US, session_key, dimension_id)
        total = self._usual.get(key)
        if total is None:
            total = self._usual[key] = _Usual()
        total.spans += 1
        total.lines += lines
        if at < total.first_at:
            total.first_at = at
        if at > total.last_at:
            total.last_at = at
        uncached, read, output = usage.input_uncached, usage.cache_read, usage.output
        short, long, reasoning = usage.cache_write_5m, usage.cache_write_1h, usage.reasoning
        if uncached is None:
            total.input_uncached_unknown += 1
            if read is None and output is None:
                total.unknown_usage_spans += 1
        else:
            total.input_uncached += uncached
        if read is None:
            total.cache_read_unknown += 1
        else:
            total.cache_read += read
        if short is None:
            total.cache_write_5m_unknown += 1
        else:
            total.cache_write_5m += short
        if long is None:
            total.cache_write_1h_unknown += 1
        elif long:
            total.cache_write_1h += long
        if output is None:
            total.output_unknown += 1
        else:
            total.output += output
        if reasoning is None:
            total.reasoning_unknown += 1
        else:
            total.reasoning += reasoning
        if cost is not None:
            total.priced_spans += 1
            total.cost_nanousd += cost
        if reported is not None:
            total.reported_cost_spans += 1
            total.reported_cost_nanousd += reported
        if partial or lower_bound or upper_bound:
            total.partial_spans += partial
            total.lower_bound_spans += lower_bound
            total.upper_bound_spans += upper_bound

    def add(self, row: SpanRow, kind: str, status: str, sign: int) -> None:
        """Take in that a row came (sign 1) or went (sign -1)."""
        at = row.occurred_at
        key = (at - at % QUARTER_HOUR_US, row.session_key, row.dimension_id)
        total = self._fine.get(key)
        if total is None:
            total = self._fine[key] = _Sum()
        amounts = contribution(row, kind, status)
        if sign > 0:
            total.amounts = list(map(add, total.amounts, amounts))
            total.first_at = min(total.first_at, at)
            total.last_at = max(total.last_at, at)
            total.left.discard(at)
        else:
            total.amounts = list(map(sub, total.amounts, amounts))
            total.left.add(at)

    def write(self) -> None:
        """Move the totals. The span rows must already stand as they are counted."""
        cells = self._cells()
        left = {cell: total for cell, total in cells.items() if total.left}
        self.store.run(
            "add_totals",
            [
                (*cell, *total.amounts, total.first_at, total.last_at)
                for cell, total in sorted(cells.items(), key=itemgetter(0))
                if any(total.amounts) or total.left
            ],
        )  # in the order of the key: neighbours lie on one page
        self.store.run("drop_empty_total", list(left))
        bounds = [(*self._bounds(cell), *cell) for cell in left]
        self.store.run("set_bounds", [row for row in bounds if row[0] is not None])
        self._fine.clear()
        self._usual.clear()

    def _cells(self) -> dict[Cell, _Sum]:
        cells: dict[Cell, list[_Sum]] = {}
        usual = ((key, total.whole()) for key, total in self._usual.items())
        for (quarter, session_key, dimension_id), total in chain(usual, self._fine.items()):
            day = quarter - quarter % DAY_US
            month = inner_month(day)
            for cell in (
                (GRAIN_QUARTER, quarter, dimension_id),
                (GRAIN_DAY, day, dimension_id),
                (GRAIN_SESSION, session_key, dimension_id),
                (GRAIN_EDGE, quarter, dimension_id) if month is None else (GRAIN_MONTH, month, dimension_id),
            ):
                known = cells.get(cell)
                if known is None:
                    cells[cell] = [total]
                else:
                    known.append(total)
        return {cell: _sum_of(found) for cell, found in cells.items()}

    def _bounds(self, cell: Cell) -> Any:
        """Return first and last instant of a cell from its spans: minima cannot be subtracted."""
        grain, bucket, dimension_id = cell
        if grain == GRAIN_SESSION:
            return self.store.one("session_bounds", bucket, dimension_id)
        end = inner_month_end(bucket) if grain == GRAIN_MONTH else bucket + _SPAN_US[grain]
        return self.store.one("dimension_bounds", dimension_id, bucket, end)
