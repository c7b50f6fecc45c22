"""The figures of totals in SQL over spans: written apart from the fold's own sum, so that one checks the other."""

from __future__ import annotations

from ledger.accounts.amounts import STATUSES, TOKEN_CLASSES

_MODEL = "d.kind = 'model'"
SPAN_SUMS: dict[str, str] = {
    "spans": "count(*)",
    "requests": f"sum({_MODEL})",
    **{name: f"sum({_MODEL} AND d.status = '{name}')" for name in STATUSES},
    "retries": f"sum({_MODEL} AND s.attempt_kind = 'retry')",
    "fallbacks": f"sum({_MODEL} AND s.attempt_kind = 'fallback')",
    "beside": f"sum({_MODEL} AND s.lines = 0)",
    **{name: f"sum(CASE WHEN {_MODEL} THEN coalesce(s.{name}, 0) ELSE 0 END)" for name in TOKEN_CLASSES},
    **{f"{name}_unknown": f"sum({_MODEL} AND s.{name} IS NULL)" for name in TOKEN_CLASSES},
    "unknown_usage_spans": f"sum({_MODEL} AND coalesce(s.input_uncached, s.cache_read, s.output) IS NULL)",
    "partial_spans": f"sum({_MODEL} AND s.partial)",
    "lower_bound_spans": f"sum({_MODEL} AND s.lower_bound)",
    "upper_bound_spans": f"sum({_MODEL} AND s.upper_bound)",
    "unpriced_spans": f"sum({_MODEL} AND s.cost_nanousd IS NULL)",
    "priced_spans": f"sum({_MODEL} AND s.cost_nanousd IS NOT NULL)",
    "cost_nanousd": f"sum(CASE WHEN {_MODEL} THEN coalesce(s.cost_nanousd, 0) ELSE 0 END)",
    "reported_cost_spans": f"sum({_MODEL} AND s.reported_cost_nanousd IS NOT NULL)",
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
