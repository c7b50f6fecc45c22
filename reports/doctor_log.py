"""What `ledger doctor` says of a log's contents, in either database: events, blobs, accounts, prices, clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from ledger.accounts.store import VERSION, Checkpoint, Store
from ledger.errors import LedgerError
from ledger.log.log import Log
from ledger.log.sqlite_log import SqliteLog
from ledger.log.volumes import CLOSED, Volumes
from ledger.prices.book import USER
from ledger.prices.quote import Quote, instant_us
from ledger.sources.quotes import recorded_quotes
from reports.health import BAD, OK, WARN, Check, age_text, size_text
from reports.text import counted

_DAY_US = 86_400_000_000
_STALE_US = 7 * _DAY_US
_CLOCK_SLACK_US = 60_000_000
_NEWEST = 100
"""How many of the last events are asked for their time: writers on several hosts have several clocks."""
_BLOBS = "SELECT count(*), coalesce(sum(size_bytes), 0), coalesce(sum(length(bytes)), 0) FROM blobs"
_STREAMS_ASKED = 500
"""Of how many streams the newest event is asked for at once."""
_IN_USE = "SELECT DISTINCT q.sha256 FROM gen_spans AS p JOIN gen_quotes AS q ON q.quote_key = p.quote"


def contents(log: Log, of_its_kind: Callable[[Log], Iterator[Check]]) -> Iterator[Check]:
    """Yield the checks of an open log; `of_its_kind` are those that only its database has.

    What cannot be read is a bad verdict, and ends them.
    """
    try:
        yield from _events(log)
        yield from of_its_kind(log)
        yield from _accounts(log)
        yield _prices(log)
    except log.connection.Error as error:
        advice = log.explain(error).removeprefix(f"{log.place}: ")
        yield Check("contents", f"cannot be read to the end: {error}", BAD, advice)
    except LedgerError as error:
        yield Check("contents", "holds what this program does not know", BAD, str(error))


def _events(log: Log) -> Iterator[Check]:
    ask = log.connection.execute
    yield Check("format", f"{log.meta('format')}, hash recipe {log.meta('hash_recipe') or 'unknown'}")
    events, streams = ask("SELECT count(*), count(DISTINCT stream_id) FROM events").fetchone()
    yield Check("events", f"{events:,} in {counted(streams, 'stream')}")
    if isinstance(log, Volumes) and log.volume > 1:
        yield _volumes(log)
    blobs, size, stored = ask(_BLOBS).fetchone()
    yield Check("blobs", f"{blobs:,}: {size_text(size)} of text in {size_text(stored)}")
    newest = log.events_after(max(log.reach()[0], log.head_position() - _NEWEST), _NEWEST)
    if newest:
        yield _clock(max(event.at for event in newest), time.time_ns() // 1000)


def _volumes(log: Volumes) -> Check:
    after, _, missing = log.reach()
    value = f"{log.volume:,}: this file goes on after position {log.base():,} of the one before"
    if missing is None:
        return Check("volumes", value)
    advice = f"what is up to position {after:,} lies in {missing}, which is not there: reports go on without it"
    return Check("volumes", value, OK, advice)


def _clock(newest_us: int, now_us: int) -> Check:
    if newest_us > now_us + _CLOCK_SLACK_US:
        advice = "this machine's clock is behind, or that of the machine that wrote it was ahead: set it right"
        return Check("clock", "the newest event is in the future", WARN, advice)
    return Check("clock", f"the newest event was written {age_text(newest_us, now_us)}")


def _accounts(log: Log) -> Iterator[Check]:
    live, head = Checkpoint(log.accounts).live(), log.head_position()
    if live is None:
        yield Check("accounts", "not folded yet", OK, _folding(log))
        return
    generation, version, position = live
    value = f"generation {generation}, version {version}, at position {position:,} of {head:,}"
    behind = log.connection.execute("SELECT count(*) FROM events WHERE position > ?", (position,)).fetchone()[0]
    if behind:
        value += f", behind by {counted(behind, 'event')}"
    if position > head:
        advice = "the accounts know events that the log has not: restore the log, or run `ledger rebuild`"
        yield Check("accounts", value, BAD, advice)
    elif version > VERSION:
        yield Check("accounts", value, WARN, "a newer tallybook made them: update, or reports fold in memory")
    elif version < VERSION or position < head:
        yield Check("accounts", value, OK, _folding(log))
    else:
        yield Check("accounts", value)
    left = [number for number in Checkpoint(log.accounts).generations() if number != generation]
    if left:
        value = f"{counted(len(left), 'generation')} beside the one in use"
        advice = "a rebuild is running, or one broke off: if none runs, `ledger rebuild` removes them"
        yield Check("generations", value, WARN, advice)
    if version == VERSION:
        store = Store(log.accounts, generation)
        streams: dict[str, list[str]] = {}
        for client, stream in store.query("SELECT client, stream_id FROM gen_sources ORDER BY client"):
            streams.setdefault(client, []).append(stream)
        for client, names in streams.items():
            newest = _newest(log, names)
            read = "last read in a volume that is not there" if newest is None else f"last read {age_text(newest)}"
            yield Check(f"{client} in log", f"{counted(len(names), 'file')} known, {read}")


def _folding(log: Log) -> str:
    """Return what becomes of events that are not folded: whoever may write the accounts keeps what it folds."""
    if isinstance(log, SqliteLog):
        path = log.accounts_path
        if log.meta(CLOSED) is not None or (path.exists() and not os.access(path, os.W_OK)):
            return "every report folds what is missing in memory"
    return "the next report brings them up to date"


def _newest(log: Log, streams: list[str]) -> int | None:
    """Return when the newest event of some streams was recorded. The accounts may lie in a database of their own."""
    for volume in log.volumes() if isinstance(log, Volumes) else (log,):
        found = []
        for first in range(0, len(streams), _STREAMS_ASKED):
            part = streams[first : first + _STREAMS_ASKED]
            sql = f"SELECT max(at) FROM events WHERE stream_id IN ({', '.join('?' * len(part))})"
            found.append(volume.connection.execute(sql, part).fetchone()[0])
        if known := [int(at) for at in found if at is not None]:
            return max(known)
    return None


def _prices(log: Log) -> Check:
    recorded = recorded_quotes(log)
    if not recorded:
        return Check("prices", "none recorded yet", OK, "`ledger import` records those it uses")
    own = sum(quote.source == USER for quote in recorded.values())
    value = f"{counted(len(recorded), 'quote')}, {own:,} of your own"
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
    live = Checkpoint(log.accounts).live()
    if live is None or live[1] != VERSION:
        return list(recorded.values())
    rows = Store(log.accounts, live[0]).query(_IN_USE).fetchall()
    return [recorded[name] for (name,) in rows if name in recorded] or list(recorded.values())
