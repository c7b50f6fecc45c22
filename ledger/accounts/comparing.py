"""Holding the rows of two generations against each other, wherever each lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ledger.accounts.store import Store

_KEYS = {
    "dimensions": 1, "sessions": 1, "turns": 1, "jobs": 1, "agents": 2, "spans": 1, "sightings": 6, "quotes": 1,
    "replacements": 1, "span_quotes": 1, "sources": 1, "labels": 2, "purged": 4, "totals": 3,
}  # fmt: skip
"""How many columns at the beginning of a table are its key."""
_POINTED_AT = {"turns": "turn_key", "dimensions": "dimension_id"}
"""Rows that may be left over: what once had a span, and lost it."""

Row = tuple[Any, ...]


def differing(table: str, live: Store, again: Store) -> Iterator[tuple[str, Row]]:
    """Yield (`live` or `rebuilt`, row) for every row that only one of them has, or has otherwise."""
    width = _KEYS.get(table, 1)
    first, second = _rows(live, table, width), _rows(again, table, width)
    one, other = next(first, None), next(second, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[:width] < other[:width]):
            assert one is not None
            yield "live", one
            one = next(first, None)
        elif one is None or other[:width] < one[:width]:
            yield "rebuilt", other
            other = next(second, None)
        else:
            if one != other:
                yield "live", one
                yield "rebuilt", other
            one, other = next(first, None), next(second, None)


def _rows(store: Store, table: str, width: int) -> Iterator[Row]:
    """Yield the rows of a table in the order of its key, which is that of bytes for texts on both databases."""
    key = _POINTED_AT.get(table)
    used = f"WHERE {key} IN (SELECT {key} FROM gen_spans) " if key else ""
    order = ", ".join(str(place) for place in range(1, width + 1))
    for row in store.stream(f"SELECT * FROM gen_{table} {used}ORDER BY {order}"):
        yield tuple(row)
