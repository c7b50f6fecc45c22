"""What an import says of itself: what was read, and what became of every line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from ledger.sources.discover import CLIENTS
from reports.output import put, put_csv, put_json
from reports.text import Column, counted, safe, table

if TYPE_CHECKING:
    from ledger.sources.importer import SourceReport

_COUNTS = ("files", "lines", "usage_rows", "new", "replays", "malformed", "torn", "lower_bound", "unpriced")


def print_import(reports: list[SourceReport], format_: str, strict: bool) -> int:
    """Print an import's reports; return 1 under `strict` where something was lost or left out."""
    sources = [fields_of(report) for report in reports]
    total = _total(sources)
    if format_ == "json":
        put_json({"sources": sources, "total": total})
    elif format_ == "csv":
        header = ["client", *_COUNTS, *(f"duplicates_{rule}" for rule in total["duplicates"]), "roots"]
        put_csv(header, [_csv_row(source, total["duplicates"]) for source in sources])
    else:
        put(_table(sources, total))
    warn(reports)
    return 1 if strict and not all(report.clean for report in reports) else 0


def fields_of(report: SourceReport) -> dict[str, Any]:
    """Return what a report says; what it only counts to get there is among its duplicates."""
    fields: dict[str, Any] = msgspec.to_builtins(report)
    del fields["repeated"]
    return fields


def _total(sources: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {name: sum(source[name] for source in sources) for name in _COUNTS}
    rules = dict.fromkeys(rule for source in sources for rule in source["duplicates"])
    total["duplicates"] = {rule: sum(source["duplicates"].get(rule, 0) for source in sources) for rule in rules}
    return total


def _csv_row(source: dict[str, Any], rules: dict[str, int]) -> list[Any]:
    duplicates = [source["duplicates"].get(rule, 0) for rule in rules]
    return [source["client"], *(source[name] for name in _COUNTS), *duplicates, ";".join(source["roots"])]


def _table(sources: list[dict[str, Any]], total: dict[str, Any]) -> str:
    shown = {
        "files": 0, "lines": 0, "usage rows": 1, "new": 0, "same response": 1, "copied": 1, "repeated totals": 2,
        "replays": 1, "malformed": 2, "torn": 2, "lower bound": 3, "unpriced": 3,
    }  # fmt: skip
    columns = [Column("client"), *(Column(title, right=True, rank=rank) for title, rank in shown.items())]
    rows = [[source["client"], *_cells(source)] for source in sources if source["roots"] or source["files"]]
    text = table(columns, rows, ["total", *_cells(total)])
    missing = [source["client"] for source in sources if not source["roots"]]
    # Few have them all: it is worth a word only to whoever asked for one by name, or has none.
    if missing and (len(sources) < len(CLIENTS) or len(missing) == len(sources)):
        text += f"\nno session files found for {', '.join(missing)}"
    return text


def _cells(source: dict[str, Any]) -> list[str]:
    duplicates = source["duplicates"]
    figures = [source[name] for name in ("files", "lines", "usage_rows", "new")]
    figures += [duplicates.get("same_response", 0), duplicates.get("copied_session", 0)]
    figures.append(duplicates.get("repeated_total", 0) + duplicates.get("total_beside_record", 0))
    figures += [source[name] for name in ("replays", "malformed", "torn", "lower_bound", "unpriced")]
    return [f"{figure:,}" for figure in figures]


def has_warnings(report: SourceReport) -> bool:
    """Return whether there is something that `warn` says of a report."""
    return bool(report.problems or report.malformed or report.torn)


def warn(reports: list[SourceReport]) -> None:
    """Say on standard error what was left out, a line each."""
    for report in reports:
        for problem in report.problems:
            sys.stderr.write(f"ledger: {safe(problem)}\n")
        if report.malformed:
            sys.stderr.write(
                f"ledger: {report.client}: {counted(report.malformed, 'malformed line')} counted and left out: "
                "`ledger import --strict` exits 1 for it\n"
            )
        if report.torn:
            ends = "ends" if report.torn == 1 else "end"
            sys.stderr.write(
                f"ledger: {report.client}: {counted(report.torn, 'file')} {ends} in the middle of a line: "
                "it is read again by the next import\n"
            )
