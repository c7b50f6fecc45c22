"""The figures that add up: which there are, and what one span contributes to each."""

from __future__ import annotations

TOKEN_CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
"""The five disjoint buckets, and `reasoning`, which is a part of `output`."""

STATUSES = ("succeeded", "failed", "cut", "cancelled", "lost", "open")
"""How a request ended. `open` has begun and not ended; `lost` was closed by a later owner of its run."""

AMOUNTS = (
    "spans",
    "requests",
    *STATUSES,
    "retries",
    "fallbacks",
    "beside",
    *TOKEN_CLASSES,
    *(f"{name}_unknown" for name in TOKEN_CLASSES),
    "unknown_usage_spans",
    "partial_spans",
    "lower_bound_spans",
    "upper_bound_spans",
    "unpriced_spans",
    "priced_spans",
    "cost_nanousd",
    "reported_cost_spans",
    "reported_cost_nanousd",
    "ran_known_spans",
    "ran_us",
    "waited_known_spans",
    "waited_us",
    "lines",
    "copied_lines",
    "replayed_lines",
)
"""Names of the additive columns of `totals`, in order. Every one is an integer; `*_unknown` counts spans."""

IMPORT_AMOUNTS = (
    "requests", "beside", "lines", "copied_lines", "replayed_lines", "lower_bound_spans", "unpriced_spans",
)  # fmt: skip
"""What an import report is made of. `beside` counts the rows that have no line of their own."""

DIMENSIONS = (
    "project",
    "branch",
    "client",
    "who",
    "agent",
    "provider",
    "model",
    "kind",
    "tool",
    "status",
)
"""What totals are kept by, besides time and session. Every value is a text, empty where it does not apply."""

QUARTER_HOUR_US = 15 * 60 * 1_000_000
DAY_US = 24 * 3600 * 1_000_000

GRAIN_QUARTER, GRAIN_DAY, GRAIN_SESSION, GRAIN_MONTH, GRAIN_EDGE = 0, 1, 2, 3, 4
"""What `totals.bucket` holds: the start of a quarter-hour, of a UTC day (microseconds), or a session's key; the start
of the inside of a month; the start of a quarter-hour in a month's first or last UTC day (see months.py).

The spans of each of these are all spans: quarters; days; sessions; months and edges together.
"""
