"""Quotes into the log: those that the user states, and those that changed in the price data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ledger.accounts.catchup import snapshot
from ledger.accounts.repricing import Difference, difference
from ledger.errors import EventIdReused, VersionConflict
from ledger.events.book import QuoteRecorded
from ledger.events.envelope import NewEvent
from ledger.events.registry import decode
from ledger.ids import named_id
from ledger.log.log import Log, StreamAppend
from ledger.prices.book import USER, Book
from ledger.prices.quote import Quote

_UNPRICED_MODELS = """SELECT DISTINCT d.provider, d.model
FROM gen_spans AS p JOIN gen_dimensions AS d ON d.dimension_id = p.dimension_id
WHERE d.kind = 'model' AND d.model <> '' AND p.quote = 0"""


class Refreshed(NamedTuple):
    """What a comparison with the price data came to."""

    compared: int
    """Quotes of the price data that were held against those in use."""
    recorded: list[Difference]


def recorded_quotes(log: Log) -> dict[str, Quote]:
    """Return the quotes of the log by name, in the order in which each was first recorded.

    That order decides which of several wins; a quote that was only checked again keeps its place.
    """
    found: dict[str, Quote] = {}
    for event in log.book_events():
        if event.type == "quote.recorded":
            body = decode(event.type, event.schema, event.data)
            found[body.sha256] = Quote.from_json(bytes(body.quote))
    return found


def state(log: Log, quote: Quote) -> Quote | None:
    """Record a quote that the user states; return it, or None where it is in force already."""
    recorded = recorded_quotes(log)
    laid = Book.bundled().with_quotes(recorded.values()).quotes(quote.provider, quote.model)
    if difference(quote, [one for one in laid if one.source == USER]) is None:
        return None
    stated = _distinct(quote, recorded)
    record_quote(log, stated)
    return stated


def refresh(log: Log) -> Refreshed:
    """Hold the quotes in use against the installed price data and record those that say something else."""
    from ledger.prices.refresh import fresh_quotes  # half a second, and only this command needs it

    log.check_writable()
    recorded = recorded_quotes(log)
    used = {name: quote for name, quote in recorded.items() if quote.source != USER}
    book = Book.bundled().with_quotes(used.values())
    models = {(quote.provider, quote.model) for quote in used.values()} | _unpriced_models(log)
    fresh = fresh_quotes(sorted(models)) if models else []
    found = []
    for quote in fresh:
        laid = book.quotes(quote.provider, quote.model)
        differs = difference(quote, laid)
        if differs is None:
            _checked(log, quote, laid, recorded)
            continue
        new = _distinct(quote, recorded)
        record_quote(log, new)
        found.append(differs._replace(new=new))
    return Refreshed(len(fresh), found)


def _unpriced_models(log: Log) -> set[tuple[str, str]]:
    """Return (provider, model) of spans without a quote, and the same without a provider: any maker's."""
    with snapshot(log) as view:
        rows = view.store.query(_UNPRICED_MODELS).fetchall()
    return {(provider, model) for row in rows for provider, model in (row, ("", row[1]))}


def _checked(log: Log, fresh: Quote, laid: tuple[Quote, ...], recorded: dict[str, Quote]) -> None:
    """Record that a quote of the log was found unchanged, if the price data was checked since."""
    same = next((quote for quote in laid if quote.valid_us == fresh.valid_us), None)
    if same is None or same.name not in recorded or not fresh.checked_at:
        return
    if (same.checked_at or "") < fresh.checked_at:
        again = msgspec.structs.replace(same, checked_at=fresh.checked_at)
        append_to_book(log, log.stream_version(log.book_stream), [recording(log, again, fresh.checked_at)])


def _distinct(quote: Quote, recorded: dict[str, Quote]) -> Quote:
    """Return the quote, under another name where the log knows the name: stated again, it is the newest."""
    if quote.name not in recorded:
        return quote
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return msgspec.structs.replace(quote, source_version=f"{quote.source_version} {now}".strip())


def record_quote(log: Log, quote: Quote) -> None:
    """Append `quote.recorded` unless the log has it: a quote is a fact under its own name."""
    while True:
        try:
            log.append([StreamAppend(log.book_stream, log.stream_version(log.book_stream), [recording(log, quote)])])
            return
        except EventIdReused:  # recorded before, checked at another date
            return
        except VersionConflict:
            continue


def recording(log: Log, quote: Quote, *identity: str) -> NewEvent:
    """Return the event that records a quote in a log's book; its id is found again from both and what follows."""
    body = QuoteRecorded(quote.name, msgspec.Raw(quote.to_json()))
    return NewEvent(body=body, event_id=named_id("quote", log.log_id, quote.name, *identity))


def append_to_book(log: Log, version: int, events: list[NewEvent]) -> bool:
    """Append to the book stream at a version; return False where another program was faster."""
    try:
        log.append([StreamAppend(log.book_stream, version, events)])
    except (VersionConflict, EventIdReused):
        return False
    return True
