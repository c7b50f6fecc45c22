"""`ledger tail`: the newest events, one a line, and those that come."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ledger.errors import UsageError
from ledger.events.envelope import Event
from ledger.events.registry import ascii_json
from ledger.ids import id_text
from ledger.log.log import Log
from reports.output import put
from reports.periods import Zone
from reports.text import counted, safe, shortened, terminal_columns

POLL_SECONDS = 0.1
_NARROW_COLUMNS = 110
"""Below this, the day or the seconds of a time and most of a stream's id make room for the digest."""
_DIGEST_ROOM = 400
"""A digest is no longer than this even where nothing bounds the line."""
HEADER = (
    "position", "event_id", "session_id", "stream_id", "version", "type", "schema", "at", "writer", "cause", "turn",
    "span", "data", "prev_hash", "hash",
)  # fmt: skip


def tail(log: Log, lines: int, format_: str, *, follow: bool) -> int:
    """Print the newest `lines` events, oldest first; with `follow`, go on until interrupted."""
    if lines < 0:
        raise UsageError(f"--lines {lines}: give how many events to begin with: 0 or more")
    show = _printer(format_)
    # Positions have no gaps: nothing is ever removed, and a rolled-back append draws none.
    position = max(log.reach()[0], log.head_position() - lines)
    position = _print_after(log, position, show)
    while follow:
        time.sleep(POLL_SECONDS)
        position = _print_after(log, position, show)
    return 0


def _print_after(log: Log, position: int, show: Callable[[Event], None]) -> int:
    """Print every event beyond a position; return the position of the last."""
    for event in log.all_events(position):
        show(event)
        position = event.position
    sys.stdout.flush()
    return position


def _printer(format_: str) -> Callable[[Event], None]:
    if format_ == "json":
        return lambda event: put(as_json_line(event))
    if format_ == "csv":
        put(",".join(HEADER))
        return lambda event: put(as_csv_line(event))
    zone = Zone(None)
    return lambda event: put(as_text_line(event, zone, time.time_ns() // 1000))


def as_json_line(event: Event) -> str:
    """Return an event as one line of ASCII JSON: every field of its envelope, ids as UUIDs, hashes in hex.

    `at` is microseconds UTC. `data` is the event's own text, so that no number in it is rounded.
    """
    # A line break in JSON can only be space between its signs: inside a string it is escaped.
    data = event.data.replace("\n", " ").replace("\r", " ")
    fields = dict(zip(HEADER, _values(event), strict=True)) | {"data": msgspec.Raw(data.encode())}
    return ascii_json(msgspec.json.encode(fields)).replace("\x7f", "\\u007f")


def _values(event: Event) -> list[Any]:
    return [
        event.position, id_text(event.event_id), event.session_id, event.stream_id, event.version, event.type,
        event.schema, event.at, event.writer, id_text(event.cause) if event.cause else None, event.turn, event.span,
        event.data, event.prev_hash.hex() if event.prev_hash else None, event.hash.hex(),
    ]  # fmt: skip


def as_csv_line(event: Event) -> str:
    """Return an event as one line of CSV (RFC 4180), in the order of HEADER; what is not given is empty."""
    import csv

    line = io.StringIO()
    cells = ["" if cell is None else safe(cell) if isinstance(cell, str) else cell for cell in _values(event)]
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def as_text_line(event: Event, zone: Zone, now_us: int) -> str:
    """Return an event as a line that fits the terminal: position, time, stream, version, type, digest."""
    room = terminal_columns()
    if room < _NARROW_COLUMNS:
        moment, stream = _short_moment(event.at, zone, now_us), _short_stream(event.stream_id, 4)
        head = f"{event.position:>5} {moment:<11} {stream:<11} {event.version:>3} {event.type:<16} "
    else:
        moment = f"{zone.moment(event.at):%Y-%m-%d %H:%M:%S}"
        stream = _short_stream(event.stream_id, 8)
        head = f"{event.position:>8}  {moment}  {stream:<15} {event.version:>5}  {event.type:<16}  "
    return shortened((safe(head) + safe(digest(event))).rstrip(), min(room, len(head) + _DIGEST_ROOM))


def _short_moment(at_us: int, zone: Zone, now_us: int) -> str:
    moment = zone.moment(at_us)
    return f"{moment:%H:%M:%S}" if zone.date(at_us) == zone.date(now_us) else f"{moment:%m-%d %H:%M}"


def _short_stream(stream_id: str, digits: int) -> str:
    """Return a stream's kind and the first digits of its id."""
    kind, colon, native = stream_id.partition(":")
    return f"{kind}{colon}{native[:digits]}"


def digest(event: Event) -> str:
    """Return in a few words what an event says. Types that this program does not know are shown as they are."""
    try:
        data = msgspec.json.decode(event.data)
        if event.type in _DIGESTS:
            return _DIGESTS[event.type](data)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return event.data
    if not isinstance(data, dict):
        return event.data
    return " ".join(f"{key}={_word(value)}" for key, value in data.items())


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _lines_observed(data: dict[str, Any]) -> str:
    seen = data.get("observations", [])
    words = f"[{data['begin']},{data['end']}) {counted(data['lines'], 'line')}, {counted(len(seen), 'observation')}"
    skipped = ", ".join(f"{count} {reason}" for reason, count in data.get("skipped", {}).items())
    return f"{words}, skipped {skipped}" if skipped else words


def _records_observed(data: dict[str, Any]) -> str:
    words = f"{counted(data['records'], 'record')}, {counted(len(data.get('observations', [])), 'observation')}"
    skipped = ", ".join(f"{count} {reason}" for reason, count in data.get("skipped", {}).items())
    return f"{words}, skipped {skipped}" if skipped else words


def _quote_recorded(data: dict[str, Any]) -> str:
    quote = data["quote"]
    bands = quote.get("tiers", {}).get("standard") or [{}]
    rates = " ".join(f"{name} {bands[0].get(name, 'unknown')}" for name in ("input", "output"))
    seller = f"{quote['provider']}/" if quote.get("provider") else ""
    return f"{data['sha256'][:12]} {seller}{quote['model']} {rates} by {quote['source']}"


_DIGESTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "source.opened": lambda data: f"{data['client']} {data['path']}",
    "lines.observed": _lines_observed,
    "records.observed": _records_observed,
    "source.truncated": lambda data: f"read up to {data['offset']}, now {data['size']} bytes: read again",
    "quote.recorded": _quote_recorded,
    "quote.superseded": lambda data: f"{data['old'][:12]} by {data['new'][:12]}: {data['reason']}",
    "span.priced": lambda data: f"{counted(len(data['spans']), 'span')} by {data['quote'][:12]}: {data['reason']}",
}
