"""The figures of totals in SQL over spans: written apart from the fold's own sum, so that one checks the other."""

from __future__ import annotations

from ledger.accounts.amounts import STATUSES, TOKEN_CLASSES

_MODEL = "d.kind = 'model'"


def _count(condition: str) -> str:
    return f"count(*) FILTER (WHERE {condition})"


SPAN_SUMS: dict[str, str] = {
    "spans": "count(*)",
    "requests": _count(_MODEL),
    **{name: _count(f"{_MODEL} AND d.status = '{name}'") for name in STATUSES},
    "retries": _count(f"{_MODEL} AND s.attempt_kind = 'retry'"),
    "fallbacks": _count(f"{_MODEL} AND s.attempt_kind = 'fallback'"),
    "beside": _count(f"{_MODEL} AND s.lines = 0"),
    **{name: f"sum(CASE WHEN {_MODEL} THEN coalesce(s.{name}, 0) ELSE 0 END)" for name in TOKEN_CLASSES},
    **{f"{name}_unknown": _count(f"{_MODEL} AND s.{name} IS NULL") for name in TOKEN_CLASSES},
    "unknown_usage_spans": _count(f"{_MODEL} AND coalesce(s.input_uncached, s.cache_read, s.output) IS NULL"),
    "partial_spans": _count(f"{_MODEL} AND s.partial <> 0"),
    "lower_bound_spans": _count(f"{_MODEL} AND s.lower_bound <> 0"),
    "upper_bound_spans": _count(f"{_MODEL} AND s.upper_bound <> 0"),
    "unpriced_spans": _count(f"{_MODEL} AND s.cost_nanousd IS NULL"),
    "priced_spans": _count(f"{_MODEL} AND s.cost_nanousd IS NOT NULL"),
    "cost_nanousd": f"sum(CASE WHEN {_MODEL} THEN coalesce(s.cost_nanousd, 0) ELSE 0 END)",
    "reported_cost_spans": _count(f"{_MODEL} AND s.reported_cost_nanousd IS NOT NULL"),
    "reported_cost_nanousd": f"sum(CASE WHEN {_MODEL} THEN coalesce(s.reported_cost_nanousd, 0) ELSE 0 END)",
    "ran_known_spans": "count(s.ran_us)",
    "ran_us": "coalesce(sum(s.ran_us), 0)",
    "waited_known_spans": "count(s.waited_us)",
    "waited_us": "coalesce(sum(s.waited_us), 0)",
    **{
        name: f"sum(CASE WHEN {_MODEL} THEN s.{name} ELSE 0 END)"
        for name in ("lines", "copied_lines", "replayed_lines")
    },
}
"""Each figure of totals in SQL over spans: written apart from the fold's own sum, so that one checks the other."""
