"""The figures of totals in SQL over spans: written apart from the fold's own sum, so that one checks the other."""

from __future__ import annotations

from ledger.accounts.amounts import STATUSES, TOKEN_CLASSES

_MODEL = "d.kind = 'model'"


def _row_sums(kind: str) -> dict[str, str]:
    """Return each figure that comes from a row's own columns, over the rows that meet `kind` (empty: all)."""
    also = f"{kind} AND " if kind else ""

    def count(condition: str) -> str:
        return f"count(*) FILTER (WHERE {also}{condition})"

    def total(column: str) -> str:
        value = f"coalesce(s.{column}, 0)"
        return f"sum(CASE WHEN {kind} THEN {value} ELSE 0 END)" if kind else f"coalesce(sum(s.{column}), 0)"

    return {
        "retries": count("s.attempt_kind = 'retry'"),
        "fallbacks": count("s.attempt_kind = 'fallback'"),
        "beside": count("s.lines = 0"),
        **{name: total(name) for name in TOKEN_CLASSES},
        **{f"{name}_unknown": count(f"s.{name} IS NULL") for name in TOKEN_CLASSES},
        "unknown_usage_spans": count("coalesce(s.input_uncached, s.cache_read, s.output) IS NULL"),
        "partial_spans": count("s.partial <> 0"),
        "lower_bound_spans": count("s.lower_bound <> 0"),
        "upper_bound_spans": count("s.upper_bound <> 0"),
        "unpriced_spans": count("s.cost_nanousd IS NULL"),
        "priced_spans": count("s.cost_nanousd IS NOT NULL"),
        "cost_nanousd": total("cost_nanousd"),
        "reported_cost_spans": count("s.reported_cost_nanousd IS NOT NULL"),
        "reported_cost_nanousd": total("reported_cost_nanousd"),
        **{name: total(name) for name in ("lines", "copied_lines", "replayed_lines")},
    }


_OF_ANY_KIND = {
    "spans": "count(*)",
    "ran_known_spans": "count(s.ran_us)",
    "ran_us": "coalesce(sum(s.ran_us), 0)",
    "waited_known_spans": "count(s.waited_us)",
    "waited_us": "coalesce(sum(s.waited_us), 0)",
}
SPAN_SUMS: dict[str, str] = {
    **_OF_ANY_KIND,
    "requests": f"count(*) FILTER (WHERE {_MODEL})",
    **{name: f"count(*) FILTER (WHERE {_MODEL} AND d.status = '{name}')" for name in STATUSES},
    **_row_sums(_MODEL),
}
"""Each figure of totals in SQL over spans `s` joined with their dimensions `d`."""

CELL_SUMS: dict[str, str] = {**_OF_ANY_KIND, **_row_sums("")}
"""The figures that come from the rows alone, over spans `s` of one kind and status: the others follow from those."""
