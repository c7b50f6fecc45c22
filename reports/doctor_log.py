"""What `ledger doctor` says of a log's contents: events, blobs, accounts, sources, prices, clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ledger.accounts.store import VERSION, Checkpoint, Store
from ledger.errors import LedgerError
from ledger.log import sqlite
from ledger.log.log import Log
from ledger.prices.book import USER
from ledger.prices.quote import Quote, instant_us
from ledger.sources import discover
from ledger.sources.quotes import recorded_quotes
from ledger.sql import script
from reports.health import BAD, OK, WARN, Check, age_text, count_text, size_text

_DAY_US = 86_400_000_000
_STALE_US = 7 * _DAY_US
_CLOCK_SLACK_US = 60_000_000
_BLOBS = "SELECT count(*), coalesce(sum(size_bytes), 0), coalesce(sum(length(bytes)), 0) FROM blobs"
_SOURCES = """SELECT s.client, count(*), max(e.at) FROM gen_sources AS s
JOIN events AS e ON e.stream_id = s.stream_id AND e.version = s.version GROUP BY s.client ORDER BY s.client"""
_IN_USE = "SELECT DISTINCT q.sha256 FROM gen_spans AS p JOIN gen_quotes AS q ON q.quote_key = p.quote"


def contents(log: Log) -> Iterator[Check]:
    """Yield the checks of an open log. What cannot be read is a bad verdict, and ends them."""
    try:
        yield from _events(log)
        yield from _accounts(log)
        yield _prices(log)
    except sqlite.Error as error:
        advice = sqlite.explain(error, log.path).removeprefix(f"{log.path}: ")
        yield Check("contents", f"cannot be read to the end: {error}", BAD, advice)
    except LedgerError as error:
        yield Check("contents", "holds what this program does not know", WARN, str(error))


def _events(log: Log) -> Iterator[Check]:
    ask = log.connection.execute
    yield Check("format", f"{log.meta('format')}, hash recipe {log.meta('hash_recipe') or 'unknown'}")
    events, streams = ask("SELECT count(*), count(DISTINCT stream_id) FROM events").fetchone()
    yield Check("events", f"{events:,} in {streams:,} streams")
    yield _guards(log)
    blobs, size, stored = ask(_BLOBS).fetchone()
    yield Check("blobs", f"{blobs:,}: {size_text(size)} of text in {size_text(stored)}")
    head = log.head_position()
    if head:
        yield _clock(log.event_at(head).at, time.time_ns() // 1000)


def _guards(log: Log) -> Check:
    """Say whether the triggers stand that refuse to change or remove an event."""
    wanted = {text for text in script("sqlite", "log") if text.startswith("CREATE TRIGGER")}
    found = {text for (text,) in log.connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")}
    missing = sorted(text.split()[2] for text in wanted - found)
    if missing:
        advice = "somebody removed them: run `ledger verify --full`, and restore a copy if that fails"
        return Check("guards", f"missing: {', '.join(missing)}", BAD, advice)
    return Check("guards", f"{len(wanted)} triggers refuse to change what was written")


def _clock(newest_us: int, now_us: int) -> Check:
    if newest_us > now_us + _CLOCK_SLACK_US:
        advice = "this machine's clock is behind, or that of the machine that wrote it was ahead: set it right"
        return Check("clock", "the newest event is in the future", WARN, advice)
    return Check("clock", f"the newest event was written {age_text(newest_us, now_us)}")


def _accounts(log: Log) -> Iterator[Check]:
    live, head = Checkpoint(log.connection).live(), log.head_position()
    if live is None:
        yield Check("accounts", "not folded yet", OK, "the next report folds them")
        return
    generation, version, position = live
    value = f"generation {generation}, version {version}, at position {position:,} of {head:,}"
    if position > head:
        advice = "the accounts know events that the log has not: restore the log, or run `ledger rebuild`"
        yield Check("accounts", value, BAD, advice)
    elif version > VERSION:
        yield Check("accounts", value, WARN, "a newer tallybook made them: update, or reports fold in memory")
    elif version < VERSION or position < head:
        yield Check("accounts", value, OK, "the next report brings them up to date")
    else:
        yield Check("accounts", value)
    if version == VERSION:
        store = Store(log.connection, generation)
        for client, count, at in log.connection.execute(store.named(_SOURCES)).fetchall():
            yield Check(f"{client} in log", f"{count_text(count, 'file')} known, last read {age_text(at)}")


def _prices(log: Log) -> Check:
    recorded = recorded_quotes(log)
    if not recorded:
        return Check("prices", "none recorded yet", OK, "`ledger import` records those it uses")
    own = sum(quote.source == USER for quote in recorded.values())
    value = f"{count_text(len(recorded), 'quote')}, {own:,} of your own"
    used = [quote for quote in _in_use(log, recorded) if quote.source != USER]
    if not used:
        return Check("prices", value)
    advice = "compare them: upgrade the package genai-prices, then `ledger prices refresh`"
    checked = [instant_us(quote.checked_at) for quote in used]
    known = [at_us for at_us in checked if at_us is not None]
    if len(known) < len(checked):
        return Check("prices", f"{value}; when {len(checked) - len(known):,} were checked is unknown", WARN, advice)
    value += f"; the oldest was checked {age_text(min(known))}"
    stale = time.time_ns() // 1000 - min(known) > _STALE_US
    return Check("prices", value, WARN if stale else OK, advice if stale else "")


def _in_use(log: Log, recorded: dict[str, Quote]) -> list[Quote]:
    """Return the quotes that price a span; every recorded one where the accounts cannot tell."""
    live = Checkpoint(log.connection).live()
    if live is None or live[1] != VERSION:
        return list(recorded.values())
    rows = log.connection.execute(Store(log.connection, live[0]).named(_IN_USE)).fetchall()
    return [recorded[name] for (name,) in rows if name in recorded] or list(recorded.values())


def session_files(home: Path, use_environment: bool) -> Iterator[Check]:
    """Yield how many session files of each client this machine has."""
    for client in discover.CLIENTS:
        problems: list[str] = []
        roots = discover.roots(client, home, use_environment=use_environment)
        count = sum(1 for root in roots for _ in discover.files(client, root, problems))
        value = f"{count_text(count, 'session file')} here" if roots else "no session files here"
        if problems:
            yield Check(client, f"{value}, {count_text(len(problems), 'folder')} unreadable", WARN, problems[0])
        else:
            yield Check(client, value, OK, f"`ledger import {client}` reads what is new" if count else "")
