"""The rows that the fold works on, as typed values in column order."""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar, NamedTuple

import msgspec

from ledger.accounts.amounts import AMOUNTS, STATUSES


class Dimensions(NamedTuple):
    """The values that totals are kept by, in the order of amounts.DIMENSIONS."""

    project: str
    branch: str
    client: str
    who: str
    agent: str
    provider: str
    model: str
    kind: str
    tool: str
    status: str


class SpanRow(msgspec.Struct):
    """One interaction with something outside the loop, as the accounts see it."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset(
        (
            "parent",
            "ended_at",
            "ran_us",
            "waited_us",
            "input_uncached",
            "cache_read",
            "cache_write_5m",
            "cache_write_1h",
            "output",
            "reasoning",
            "reported_total",
            "web_searches",
            "cost_nanousd",
            "first_cost_nanousd",
            "reported_cost_nanousd",
        )
    )

    span_id: str
    session_key: int
    agent_id: str
    turn_key: int
    dimension_id: int
    occurred_at: int
    parent: str | None = None
    """The span that this one hangs below, where it is not simply its turn."""
    ended_at: int | None = None
    ran_us: int | None = None
    waited_us: int | None = None
    input_uncached: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    reported_total: int | None = None
    web_searches: int | None = None
    partial: int = 0
    """1 where the output is a lower bound: broken off, or only its opening was written."""
    lower_bound: int = 0
    upper_bound: int = 0
    cost_nanousd: int | None = None
    named_quote: int = 0
    """Key of the quote that the settling event names, 0 for none."""
    quote: int = 0
    """Key of the quote that priced it: another one where that was superseded, or the span was priced later."""
    first_cost_nanousd: int | None = None
    """What the named quote alone makes of it: the figure before any repricing."""
    reported_cost_nanousd: int | None = None
    attempt: int = 1
    attempt_kind: str = "first"
    """`first`, `retry` or `fallback`."""
    http_status: int = 0
    part: str = ""
    """`compaction1`, `advisor2`, `tool` ... for a row beside the response's own."""
    call_id: str = ""
    source_position: int = 0
    source_index: int = 0
    """The event, and the observation in it, that the row's figures were read from."""
    final: int = 0
    """1 where a line had a stop reason."""
    ending: str = ""
    """`cut` or `cancelled` where the client says that the response broke off."""
    lines: int = 1
    copied_lines: int = 0
    replayed_lines: int = 0
    rank: int = 0
    """What makes the fullest usage win: output tokens, then all tokens (31 bits each), plus 1; below 1 without any."""
    sidechain: int = 0
    nested: int = 0
    contested: int = 0
    """0: seen in one place. 1: in several of one session. 2: in several sessions. Its sightings are then kept."""


UNKNOWN, NOTHING = -(1 << 62), ""
"""What is bound to `put_span` and `add_usual_span` where a number or a text is NULL: SQLite's driver takes ten times
as long over None as over a number, and most rows have several. No figure of a row is that small."""

USUAL = (
    "span_id", "session_key", "agent_id", "turn_key", "dimension_id", "occurred_at", "ended_at", "input_uncached",
    "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning", "reported_total", "web_searches",
    "partial", "lower_bound", "upper_bound", "cost_nanousd", "named_quote", "quote", "first_cost_nanousd",
    "reported_cost_nanousd", "source_position", "source_index", "final", "lines", "rank", "sidechain",
)  # fmt: skip
"""The columns of a row that a usual response fills (see usual.py); all others have the defaults of SpanRow."""

SEEN_AGAIN = ("turn_key", "ended_at", "lines", "copied_lines", "replayed_lines", "rank", "contested")
"""The columns of a row that may be others when its response is seen once more; no index has them."""


def seen_again(row: SpanRow) -> tuple[object, ...]:
    """Return a row's values as `see_span_again` takes them."""
    return (*_seen_again(row), row.span_id)


_seen_again = attrgetter(*SEEN_AGAIN)


def bound(row: SpanRow) -> tuple[object, ...]:
    """Return a row's values as `put_span` takes them."""
    values = [UNKNOWN if value is None else value for value in msgspec.structs.astuple(row)]
    values[_PARENT] = row.parent or NOTHING
    return tuple(values)


_PARENT = SpanRow.__struct_fields__.index("parent")


class SightingRow(msgspec.Struct):
    """One place (session, agent, sidechain or not) in which a response was seen, and its fullest line there."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset()

    group_id: str
    variant: str
    session_key: int
    agent_id: str
    sidechain: int
    nested: int
    first_at: int
    last_at: int
    lines: int
    final: int
    ending: str
    rank: int
    digest: int
    source_position: int
    source_index: int


def contribution(row: SpanRow, kind: str, status: str) -> tuple[int, ...]:
    """Return what a span adds to every figure of totals, in the order of AMOUNTS. Pure.

    Only model spans have usage, requests and money; a tool, hook or approval adds its times. An unknown
    count adds to the count of unknowns, never a zero to the sum.
    """
    ran, waited = row.ran_us, row.waited_us
    times = (ran is not None, ran or 0, waited is not None, waited or 0)
    if kind != "model":
        return (1, *_NO_USAGE, *times, 0, 0, 0)
    uncached, read = row.input_uncached, row.cache_read
    short, long = row.cache_write_5m, row.cache_write_1h
    output, reasoning = row.output, row.reasoning
    cost, reported = row.cost_nanousd, row.reported_cost_nanousd
    return (
        1,
        1,
        *_ENDED[status],
        row.attempt_kind == "retry",
        row.attempt_kind == "fallback",
        row.lines == 0,
        uncached or 0,
        read or 0,
        short or 0,
        long or 0,
        output or 0,
        reasoning or 0,
        uncached is None,
        read is None,
        short is None,
        long is None,
        output is None,
        reasoning is None,
        uncached is None and read is None and output is None,
        row.partial,
        row.lower_bound,
        row.upper_bound,
        cost is None,
        cost is not None,
        cost or 0,
        reported is not None,
        reported or 0,
        *times,
        row.lines,
        row.copied_lines,
        row.replayed_lines,
    )


_ENDED = {name: tuple(int(name == one) for one in STATUSES) for name in STATUSES}
_NO_USAGE = (0,) * (AMOUNTS.index("ran_known_spans") - 1)
