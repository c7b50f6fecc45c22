"""What a check finds, what comes of it, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ledger.accounts.catchup import View
from ledger.findings import Finding
from ledger.log.log import Log

FOUND_MAX = 20
"""How many findings a check names; all are counted."""


class Check(msgspec.Struct):
    """The outcome of one check."""

    name: str
    ok: bool
    detail: str
    found: list[dict[str, object]]


class Scene:
    """What a check may look at: the log up to a position, and one snapshot of its accounts."""

    def __init__(self, log: Log, view: View, until: int, since: int = 0) -> None:
        self.log, self.view, self.until, self.since = log, view, until, since
        self.kept: dict[str, Any] = {}
        """What checks share, made by the first that needs it."""

    def rows(self, sql: str, *parameters: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query in which `gen_` names the live tables."""
        yield from self.view.store.query(sql, *parameters)

    def log_rows(self, sql: str, *parameters: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query on the tables of the log itself."""
        yield from self.log.connection.execute(sql, parameters)


Progress = Callable[[int, int], None]
"""Called with (events read, events to read)."""
Checker = Callable[[Scene], Iterable[Finding]]


def named(finding: Finding) -> dict[str, object]:
    """Return a finding by the names of its fields, without those that say nothing."""
    return {key: value for key, value in finding._asdict().items() if value not in ("", None)}
