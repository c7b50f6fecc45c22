"""Reads sources that their clients rewrite (databases, JSON files) from what the log knows of them, as events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from ledger.sources import gemini, opencode_records, reading
from ledger.sources.discover import Found
from ledger.sources.read import Item, Task, item_of, opening, read_source, with_counts
from ledger.sources.reading import Draft, FindQuote, Identity, Projects


class RecordReader(Protocol):
    """Reads the records of one source that are new or changed since its `carry` was written."""

    carry: dict[str, Any]
    """What it must remember: what was read up to the record that `records` yielded last."""

    def records(self) -> Iterator[Any]:
        """Yield the records to look into. Raises OSError where the source cannot be read."""

    def observe(self, record: Any, draft: Draft) -> None:
        """Put into a draft what a record says."""

    def check(self) -> None:
        """Raise OSError where what was yielded until now may be torn, since the source was written meanwhile."""


class _Make(Protocol):
    def __call__(self, found: Found, carry: dict[str, Any], projects: Projects) -> RecordReader: ...


READERS: dict[str, _Make] = {"gemini": gemini.Records, "opencode": opencode_records.reader}


def read_any(task: Task, find_quote: FindQuote, projects: Projects) -> Iterator[Item]:
    """Yield the events that bring a source's stream up to it. Raises OSError where it cannot be read."""
    read = _read_records if task.found.rewritten else read_source
    return read(task, find_quote, projects)


def _read_records(task: Task, find_quote: FindQuote, projects: Projects) -> Iterator[Item]:
    """What tells that nothing is new was looked at before the source was read: what is written meanwhile is read again.

    A source that was being written is read again however it looks: a database's -wal file has a commit some time
    before a reader can see it.
    """
    found = task.found
    is_settled = reading.is_settled(found.mtime_ns)
    reader = READERS[found.client](found, msgspec.json.decode(task.carry), projects)
    draft, is_open = Draft(0, find_quote), task.version > 0
    for record in reader.records():
        reader.observe(record, draft)
        draft.lines += 1
        if draft.full:  # there may be more: an import that ends here must not believe that it read everything
            reader.check()
            if not is_open:
                yield opening(task)
                is_open = True
            yield _event(task, draft, reader, None)
            draft = Draft(0, find_quote)
    reader.check()
    if not is_open:
        yield opening(task)
    elif not draft.lines and not is_settled:
        return  # nothing new, and nothing to rely on
    yield _event(task, draft, reader, (found.size, found.mtime_ns, found.device, found.inode) if is_settled else None)


def _event(task: Task, draft: Draft, reader: RecordReader, identity: Identity | None) -> Item:
    item = item_of(task, draft.records_body(identity, reader.carry))
    item.lines = draft.lines
    return with_counts(item, draft)
