"""`ledger import --watch`: imports again and again, says what was found, and ends when it is told to."""

from __future__ import annotations

import csv
import gc
import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

from ledger.errors import LogUnavailable, UsageError
from reports.imports import fields_of, has_warnings, warn
from reports.output import put
from reports.text import counted, safe

if TYPE_CHECKING:
    from ledger.sources.importer import SourceReport

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
EVERY_S = 30
"""Seconds between two imports, unless told otherwise."""
_EVERY_MAX_S = 7 * 86_400
COLUMNS = ("at", "client", "lines", "usage_rows", "new", "duplicates_copied_session", "replays", "malformed", "torn")


def watched(
    import_: Callable[[], list[SourceReport]], asked: bool, every_s: int | None, format_: str, strict: bool
) -> int:
    """Watch, where that was asked for. Raises UsageError for an interval without it."""
    if not asked:
        raise UsageError(f"--every {every_s}: is the interval of --watch: give both")
    return watch(import_, EVERY_S if every_s is None else every_s, format_, strict)


def watch(import_: Callable[[], list[SourceReport]], every_s: int, format_: str, strict: bool) -> int:
    """Import every `every_s` seconds until SIGINT or SIGTERM; return 0, or 1 under `strict` where a line was lost.

    One line of text, JSON or CSV is printed for an import that found something. What the signal interrupts is
    finished first. That the log cannot be opened ends it only at the start; later it is said once and tried again.
    """
    if not 1 <= every_s <= _EVERY_MAX_S:
        raise UsageError(f"--every {every_s}: give seconds, from 1 to {_EVERY_MAX_S:,}")
    if format_ == "csv":
        put(",".join(COLUMNS))
    clean, first, said = True, True, ""
    with _stopping() as stop:
        while not stop.is_set():
            try:
                reports = import_()
            except LogUnavailable as error:
                if first:
                    raise
                said = _say_once(str(error), said)
            else:
                said = _warn_once(reports, said)
                clean = clean and all(report.clean for report in reports)
                for line in _lines(reports, format_):
                    put(line)
                sys.stdout.flush()
            first = False
            gc.collect()
            stop.wait(every_s)
    return 1 if strict and not clean else 0


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Turn the first SIGINT or SIGTERM into a wish to stop; the second ends the program at once."""
    stop = threading.Event()

    def told(number: int, frame: FrameType | None) -> None:
        stop.set()
        for one in _SIGNALS:
            signal.signal(one, before[one])

    before = {one: signal.signal(one, told) for one in _SIGNALS}
    try:
        yield stop
    finally:
        for one in _SIGNALS:
            signal.signal(one, before[one])


def _lines(reports: list[SourceReport], format_: str) -> Iterator[str]:
    """Yield what an import found; nothing where it found nothing."""
    found = [report for report in reports if report.usage_rows or report.new or report.malformed]
    now = datetime.fromtimestamp(time.time()).astimezone()
    if not found:
        return
    if format_ == "json":
        import msgspec

        yield msgspec.json.encode({"at": now.isoformat(), "sources": [fields_of(one) for one in found]}).decode()
    elif format_ == "csv":
        for report in found:
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow(_row(now, report))
            yield line.getvalue()
    else:
        words = [f"{safe(one.client)} {counted(one.new, 'new request')} ({_beside(one)})" for one in found]
        yield f"{now:%H:%M:%S}  {'; '.join(words)}"


def _beside(report: SourceReport) -> str:
    """Return what else there was: the lines, and what of them did not count."""
    copied = report.duplicates.get("copied_session", 0) + report.replays
    counts = {"copied": copied, "malformed": report.malformed, "torn": report.torn}
    return ", ".join([counted(report.lines, "line"), *(f"{count:,} {word}" for word, count in counts.items() if count)])


def _row(now: datetime, report: SourceReport) -> list[Any]:
    return [
        now.isoformat(), report.client, report.lines, report.usage_rows, report.new,
        report.duplicates.get("copied_session", 0), report.replays, report.malformed, report.torn,
    ]  # fmt: skip


def _warn_once(reports: list[SourceReport], said: str) -> str:
    """Say what was left out, unless the import before said the same; return it."""
    told = repr([(one.client, one.problems, one.torn) for one in reports if has_warnings(one)])
    if told != said and any(has_warnings(one) for one in reports):
        warn(reports)
    return told


def _say_once(text: str, said: str) -> str:
    if text != said:
        sys.stderr.write(f"ledger: {safe(text)}: tried again\n")
        sys.stderr.flush()
    return text
