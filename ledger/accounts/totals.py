"""Totals: every change of a span row moves them by after minus before."""

from __future__ import annotations

from operator import add, sub
from typing import Any

from ledger.accounts.amounts import (
    AMOUNTS,
    DAY_US,
    GRAIN_DAY,
    GRAIN_QUARTER,
    GRAIN_SESSION,
    QUARTER_HOUR_US,
)
from ledger.accounts.rows import SpanRow, contribution
from ledger.accounts.store import Store

_WIDTH = len(AMOUNTS)
_SPAN_US = {GRAIN_QUARTER: QUARTER_HOUR_US, GRAIN_DAY: DAY_US}

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

    def add(self, other: _Sum) -> None:
        self.amounts = list(map(add, self.amounts, other.amounts))
        self.first_at = min(self.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)
        self.left |= other.left


class TotalsChange:
    """The changes of one slice, gathered finely and written once a cell."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._fine: dict[tuple[int, int, int], _Sum] = {}

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
                for cell, total in cells.items()
                if any(total.amounts) or total.left
            ],
        )
        for cell in left:
            self.store.run("drop_empty_total", [cell])
            first_at, last_at = self._bounds(cell)
            if first_at is not None:
                self.store.run("set_bounds", [(first_at, last_at, *cell)])
        self._fine.clear()

    def _cells(self) -> dict[Cell, _Sum]:
        cells: dict[Cell, _Sum] = {}
        for (quarter, session_key, dimension_id), total in self._fine.items():
            for cell in (
                (GRAIN_QUARTER, quarter, dimension_id),
                (GRAIN_DAY, quarter - quarter % DAY_US, dimension_id),
                (GRAIN_SESSION, session_key, dimension_id),
            ):
                known = cells.get(cell)
                if known is None:
                    known = cells[cell] = _Sum()
                known.add(total)
        return cells

    def _bounds(self, cell: Cell) -> Any:
        """Return first and last instant of a cell from its spans: minima cannot be subtracted."""
        grain, bucket, dimension_id = cell
        if grain == GRAIN_SESSION:
            return self.store.one("session_bounds", bucket, dimension_id)
        return self.store.one("dimension_bounds", dimension_id, bucket, bucket + _SPAN_US[grain])
