"""Reads one source from where it was left and yields the events to append. Pure of the log: runs in any process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple

import msgspec

from ledger.events.registry import encode, entry_of
from ledger.events.sources import SourceBilled, SourceOpened, SourceTruncated
from ledger.log.blobs import Blob
from ledger.prices.quote import Quote
from ledger.sources import claude_code, codex, gemini
from ledger.sources.discover import Found, text_of
from ledger.sources.lines import blocks, tail_digest
from ledger.sources.reading import Draft, FindQuote, Projects

_PACKED_BYTES = 1 << 10
"""How much of a packed file is unpacked at once: no more than 32 MiB come of it."""
READERS: dict[str, Any] = {"claude-code": claude_code.Reader, "codex": codex.Reader, "gemini": gemini.Reader}
"""Of files that only grow; those of the others are in `records`."""


class Task(NamedTuple):
    """A file to read, and what the log knows of it."""

    found: Found
    stream_id: str
    version: int
    """Version of the stream's head, 0 for a new source."""
    begin: int
    tail: str
    carry: str
    billing: str = ""
    """How its use is billed, as far as known."""
    origin: str = ""
    """Which log, on which machine, reads it."""


class Item(msgspec.Struct, array_like=True):
    """One event to append, with what goes with it. Crosses from a reading process to the writing one."""

    stream_id: str
    type: str
    data: str
    begin: int = 0
    end: int = 0
    blobs: list[tuple[bytes, int, str, bytes]] = []
    quotes: list[Quote] = []
    lines: int = 0
    usage_rows: int = 0
    malformed: int = 0
    torn: int = 0
    repeated: int = 0


def read_source(task: Task, find_quote: FindQuote, projects: Projects) -> Iterator[Item]:
    """Yield the events that bring a source's stream up to its file. Raises OSError where it cannot be read."""
    with ExitStack() as opened:
        given = opened.enter_context(task.found.path.open("rb", buffering=0))
        stat = os.fstat(given.fileno())
        file = opened.enter_context(_plain(given)) if task.found.path.suffix == ".zst" else given
        size = os.fstat(file.fileno()).st_size
        begin, carry = task.begin, task.carry
        if task.version == 0:
            yield opening(task)
        elif size < begin or (begin and tail_digest(file, begin) != task.tail):
            yield item_of(task, SourceTruncated(offset=begin, size=size))
            begin, carry = 0, "{}"
        yield from _stretches(task, file, begin, size, carry, stat, find_quote, projects)


def opening(task: Task) -> Item:
    """Return the event that a source was met for the first time."""
    found = task.found
    place = (text_of(found.path), text_of(found.root), found.device, found.inode)
    return item_of(task, SourceOpened(found.client, *place, task.billing, task.origin))


def _stretches(
    task: Task, file: BinaryIO, begin: int, size: int, carry: str, stat: os.stat_result, find_quote: FindQuote,
    projects: Projects,
) -> Iterator[Item]:  # fmt: skip
    reader = READERS[task.found.client](
        task.found.path, msgspec.json.decode(carry), begin, projects, stat.st_mtime_ns // 1000
    )
    draft, torn = Draft(begin, find_quote), 0
    draft.end += _rest_of_line(file, begin)
    for block in blocks(file, draft.end, size):
        if block.torn and reader.torn(block.content):
            torn = 1
            break
        if draft.full:  # there is more: an import that ends here must not believe that it read everything
            yield _lines(task, file, draft, reader, None, 0)
            draft = Draft(draft.end, find_quote)
        reader.read(block, draft)
        draft.end += block.size
    # What the user stated stands. Before the last stretch, after which the file counts as read.
    if reader.billing and not task.billing:
        yield item_of(task, SourceBilled(reader.billing))
    if draft.end > draft.begin or (torn and task.version == 0 and draft.begin == begin):
        yield _lines(task, file, draft, reader, stat, torn)
    elif torn:
        yield Item(task.stream_id, "", "", torn=1)


def _rest_of_line(file: BinaryIO, begin: int) -> int:
    """Return how many bytes at `begin` only end the line before: one that was read before it had its newline."""
    if not begin:
        return 0
    file.seek(begin - 1)
    before, after = file.read(1), file.read(2)
    if before == b"\n":
        return 0
    return 2 if after == b"\r\n" else 1 if after[:1] == b"\n" else 0


def _lines(task: Task, file: BinaryIO, draft: Draft, reader: Any, stat: os.stat_result | None, torn: int) -> Item:
    position = file.tell()
    digest = tail_digest(file, draft.end)
    file.seek(position)
    item = item_of(task, draft.body(digest, stat, reader.carry))
    item.begin, item.end, item.lines = draft.begin, draft.end, draft.lines
    item.torn = torn
    return with_counts(item, draft)


def with_counts(item: Item, draft: Draft) -> Item:
    """Give an event of observations what goes with it: texts, quotes and what it counts."""
    item.blobs = [(one.sha256, one.size_bytes, one.encoding, one.bytes) for one in draft.blobs.values()]
    item.quotes = list(draft.used.values())
    item.usage_rows = sum(getattr(one, "lines", 0) for one in draft.observations) + draft.repeated
    item.malformed, item.repeated = draft.malformed, draft.repeated
    return item


def item_of(task: Task, body: msgspec.Struct) -> Item:
    """Return a body as an event of the task's stream."""
    return Item(task.stream_id, entry_of(body).type, encode(body))


def _plain(packed: BinaryIO) -> BinaryIO:
    """Return the text that a compressed file holds, as a file that vanishes when it is closed."""
    import zstandard

    plain = tempfile.TemporaryFile()  # noqa: SIM115 - returned, and closed with the last reference
    try:
        frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
        for piece in iter(lambda: packed.read(_PACKED_BYTES), b""):
            while piece:
                plain.write(frame.decompress(piece))
                piece, begun = frame.unused_data, not frame.eof
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
        if begun:
            raise zstandard.ZstdError("it ends too early")
    except zstandard.ZstdError as error:
        plain.close()
        raise OSError(f"is not a whole zstd file ({error})") from error
    plain.flush()
    return plain


def as_blob(fields: tuple[bytes, int, str, bytes]) -> Blob:
    """Return the blob that an item carries as plain fields."""
    return Blob(*fields)
