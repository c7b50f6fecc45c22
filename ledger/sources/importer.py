"""The import: finds what is new in every source, appends it, and says what became of each line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from ledger.accounts import catchup
from ledger.accounts.amounts import IMPORT_AMOUNTS
from ledger.accounts.entities import Source
from ledger.accounts.store import Store
from ledger.errors import EventIdReused, VersionConflict
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.events.sources import SourceBilled
from ledger.evidence.purge import Purged
from ledger.ids import id_text, named_id, new_id
from ledger.log.log import Log, StreamAppend
from ledger.prices.book import Book
from ledger.prices.quote import Quote
from ledger.sources import discover
from ledger.sources.discover import Found
from ledger.sources.quotes import record_quote, recorded_quotes
from ledger.sources.read import Item, Task, as_blob
from ledger.sources.reading import Projects
from ledger.sources.records import read_any
from ledger.sources.workers import read_all

FIRST_BATCH_EVENTS, BATCH_EVENTS = 8, 128
"""How many events are appended in one commit; few at first, so that folding begins while files are being read."""
BATCH_BYTES = 1 << 20
_ATTEMPTS = 3

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes to read)."""


class SourceReport(msgspec.Struct, kw_only=True):
    """What an import read of one client, and what that came to."""

    client: str
    files: int = 0
    lines: int = 0
    usage_rows: int = 0
    new: int = 0
    duplicates: dict[str, int] = {}
    replays: int = 0
    malformed: int = 0
    torn: int = 0
    lower_bound: int = 0
    unpriced: int = 0
    roots: list[str] = []
    problems: list[str] = []
    repeated: int = 0
    """Running totals that said again what the line before had said."""

    @property
    def clean(self) -> bool:
        """True where nothing was lost or left out."""
        return not (self.malformed or self.torn or self.problems)


def run_import(
    log: Log,
    clients: Sequence[str],
    home: Path,
    *,
    use_environment: bool,
    billing: str | None = None,
    progress: Progress | None = None,
) -> list[SourceReport]:
    """Import everything new of the clients; return one report each.

    `billing` (`api` or `subscription`) states how the clients' use is billed, for what was read before too.

    Safe to run twice at once, to stop at any instant and to repeat: what another import read first is left
    to it, and a file's new lines and how far it was read are one commit.
    """
    log.check_writable()
    reports = {client: SourceReport(client=client) for client in clients}
    catchup.try_catch_up(log)
    before = _account(log, clients)
    found = list(_discover(reports, home, use_environment))
    torn: set[tuple[str, str]] = set()
    for _ in range(_ATTEMPTS):
        raced = _Pass(log, reports, torn, progress).run(found)
        catchup.try_catch_up(log)
        if not raced:
            break
    if billing is not None:
        _state_billing(log, clients, billing)
    after = _account(log, clients)
    if reports and not catchup.try_catch_up(log):  # what was read is recorded all the same
        next(iter(reports.values())).problems.append(catchup.unwritable(log))
    for client, report in reports.items():
        report.torn = sum(1 for one, _ in torn if one == client)
        _conclude(report, before[client], after[client])
    return list(reports.values())


def _discover(reports: dict[str, SourceReport], home: Path, use_environment: bool) -> Iterable[Found]:
    for client, report in reports.items():
        for root in discover.roots(client, home, use_environment=use_environment):
            report.roots.append(discover.text_of(root))
            for one in discover.files(client, root, report.problems):
                report.files += 1
                yield one


def _state_billing(log: Log, clients: Sequence[str], billing: str) -> None:
    """Append what the user says of how the use is billed, to every source that says something else."""
    with catchup.snapshot(log) as view:
        known = [Source(*row) for row in view.store.all("all_sources")]
    appends = [
        StreamAppend(source.stream_id, source.version, [NewEvent(body=SourceBilled(billing), event_id=new_id())])
        for source in known
        if source.client in clients and source.billing != billing
    ]
    if appends:
        log.append(appends)
        catchup.try_catch_up(log)


class _Pass:
    """One round of reading what is new and appending it."""

    def __init__(
        self, log: Log, reports: dict[str, SourceReport], torn: set[tuple[str, str]], progress: Progress | None
    ) -> None:
        self.log, self.reports, self.torn, self.progress = log, reports, torn, progress
        with catchup.snapshot(log) as view:
            self.sources = {row[0]: Source(*row) for row in view.store.all("all_sources")}
            self.purged = Purged(view)
        self.origin = origin_of(log)
        self.recorded: set[str] = set()
        self.versions: dict[str, int] = {}
        self.raced: set[str] = set()
        self.pending: list[tuple[str, Item]] = []
        self.size = 0
        self.batch = FIRST_BATCH_EVENTS

    def run(self, found: list[Found]) -> bool:
        """Read and append; return whether another import got in between."""
        tasks = self._tasks(found)
        if not tasks:
            return False
        own = recorded_quotes(self.log)
        self.recorded = set(own)
        find_quote, projects = Book.bundled().with_quotes(own.values()).find, Projects()
        total = sum(max(0, task.found.size - task.begin) for task in tasks)
        done = 0
        self.versions = {task.stream_id: task.version for task in tasks}
        for result in read_all(tasks, lambda task: read_any(task, find_quote, projects)):
            task = tasks[result.task]
            if result.problem and result.problem not in self.reports[task.found.client].problems:
                self.reports[task.found.client].problems.append(result.problem)
            if result.item is not None:
                self._take(task.found.client, result.item)
            if result.done:
                done += max(0, task.found.size - task.begin)
                if self.progress:
                    self.progress(done, total)
        self._write()
        return bool(self.raced)

    def _tasks(self, found: list[Found]) -> list[Task]:
        by_inode: dict[tuple[int, int], list[Source]] = {}
        for source in self.sources.values():
            by_inode.setdefault((source.device, source.inode), []).append(source)
        return [task for one in found if (task := self._task(one, by_inode)) is not None]

    def _task(self, one: Found, by_inode: dict[tuple[int, int], list[Source]]) -> Task | None:
        """Return what there is to read of a file, None where it stands as it was read."""
        path = os.path.abspath(one.path)
        stream_id = f"source:{id_text(named_id('source', self.origin, one.client, path))}"
        known = self.sources.get(stream_id)
        if known is None:  # in a log made before origins were kept
            before = f"source:{id_text(named_id('source', one.client, path))}"
            known = self.sources.get(before)
            stream_id = before if known else stream_id
        if known is None:
            for source in by_inode.get((one.device, one.inode), ()):
                if source.client == one.client and source.origin == self.origin and not os.path.exists(source.path):
                    known, stream_id = source, source.stream_id  # renamed: it goes on under its old stream
                    by_inode[one.device, one.inode].remove(source)  # of two new names only one is its
                    break
        if known is None:
            return Task(one, stream_id, 0, 0, "", "{}", self._billing(one), self.origin)
        same = (known.size, known.mtime_ns, known.device, known.inode)
        if same == (one.size, one.mtime_ns, one.device, one.inode):
            packed = one.path.suffix == ".zst"  # then it has another size
            if known.end < known.size and not packed and not one.rewritten:
                self.torn.add((one.client, stream_id))
            return None
        self.torn.discard((one.client, stream_id))
        return Task(one, stream_id, known.version, known.end, known.tail, known.carry, known.billing)

    def _billing(self, one: Found) -> str:
        """Return how a new file's use is billed: as the others of its folder, where they agree."""
        said = {source.billing for source in self.sources.values() if source.root == discover.text_of(one.root)}
        return said.pop() if len(said) == 1 else ""

    def _take(self, client: str, item: Item) -> None:
        if item.torn:
            self.torn.add((client, item.stream_id))
        if not item.type:  # only a torn line, and nothing to append
            return
        self.pending.append((client, item))
        self.size += len(item.data)
        if len(self.pending) >= self.batch or self.size >= BATCH_BYTES:
            self._write()
            self.batch = BATCH_EVENTS
            catchup.try_catch_up(self.log)

    def _write(self) -> None:
        """Append what is pending in one commit; stream by stream where another import was faster."""
        pending, self.pending, self.size = self.pending, [], 0
        if not pending:
            return
        self._record_quotes(quote for _, item in pending for quote in item.quotes)
        by_stream: dict[str, list[tuple[str, Item]]] = {}
        for client, item in pending:
            if item.stream_id not in self.raced:
                by_stream.setdefault(item.stream_id, []).append((client, item))
        try:
            self._append(by_stream)
        except (VersionConflict, EventIdReused):
            for stream_id, items in by_stream.items():
                try:
                    self._append({stream_id: items})
                except (VersionConflict, EventIdReused):
                    self.raced.add(stream_id)

    def _append(self, by_stream: dict[str, list[tuple[str, Item]]]) -> None:
        appends, blobs = [], []
        for stream_id, items in by_stream.items():
            version = self.versions[stream_id]
            events = []
            for number, (client, item) in enumerate(items, version + 1):
                event_id = named_id(stream_id, str(number), str(item.begin), str(item.end))
                events.append(NewEvent(body=EncodedBody(item.type, item.data), event_id=event_id))
                kept = self.purged.left([as_blob(fields) for fields in item.blobs], client, item.type, item.data)
                blobs += [(event_id, blob) for blob in kept]
            appends.append(StreamAppend(stream_id, version, events))
        self.log.append(appends, blobs)
        for stream_id, items in by_stream.items():
            self.versions[stream_id] += len(items)
            for client, item in items:
                report = self.reports[client]
                report.lines += item.lines
                report.usage_rows += item.usage_rows
                report.malformed += item.malformed
                report.repeated += item.repeated

    def _record_quotes(self, quotes: Iterable[Quote]) -> None:
        for quote in quotes:
            if quote.name not in self.recorded:
                record_quote(self.log, quote)
                self.recorded.add(quote.name)


def origin_of(log: Log) -> str:
    """Return what a log's own sources are named apart by: its id, and on a log of many machines the machine's.

    Streams of several logs can then be copied into one, though their files had the same paths.
    """
    return log.log_id if log.kind == "sqlite" else f"{log.log_id}/{_machine()}"


def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text("ascii").strip() or os.uname().nodename
    except (OSError, ValueError):
        return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "unknown")


def _account(log: Log, clients: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the sums of the figures that an import report is made of, by client."""
    with catchup.snapshot(log) as view:
        return {client: dict(zip(IMPORT_AMOUNTS, _sums(view.store, client), strict=True)) for client in clients}


def _sums(store: Store, client: str) -> list[int]:
    return [value or 0 for value in store.one("import_sums", client)]


def _conclude(report: SourceReport, before: dict[str, int], after: dict[str, int]) -> None:
    """Fill in what the lines came to: the difference that this import made to the accounts."""
    change = {name: after[name] - before[name] for name in after}
    report.new = change["requests"]
    repeats = change["lines"] - (change["requests"] - change["beside"])
    copies = change["copied_lines"]
    if repeats < 0:  # lines that were counted as repeats before turned out to be copies
        repeats, copies = 0, copies + repeats
    told = change["lines"] + change["copied_lines"] + change["replayed_lines"]
    report.duplicates = {
        "same_response": repeats,
        "copied_session": copies,
        "repeated_total": report.repeated,
        "total_beside_record": max(0, report.usage_rows - report.repeated - told),
    }
    report.replays = change["replayed_lines"]
    report.lower_bound = change["lower_bound_spans"]
    report.unpriced = change["unpriced_spans"]
