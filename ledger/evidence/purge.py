"""Purging: texts leave the log by the user's wish, and an event says exactly which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from ledger.accounts.catchup import View
from ledger.errors import LogTooNew, VersionConflict
from ledger.events.book import BlobsPurged
from ledger.events.envelope import Event, NewEvent
from ledger.events.registry import CATALOGUE, decode
from ledger.events.sources import Failure, LinesObserved, RecordsObserved
from ledger.ids import new_id
from ledger.log.blobs import Blob
from ledger.log.log import BOOK, BlobLink, Log, StreamAppend

LISTED_PER_EVENT = 1000
"""How many names one event lists; of 64 characters each."""
PURGED = "blobs.purged"


class Wish(NamedTuple):
    """What to purge: the texts of a session and its sub-agents, or those of before an instant."""

    client: str = ""
    session: str = ""
    before_us: int = 0


class Mention(NamedTuple):
    """One place where the log names a text."""

    client: str
    """Empty where the event does not belong to a client's file."""
    session: str
    at: int
    """When it happened (`occurred_at`), else when it was recorded; microseconds UTC."""


class Selection(NamedTuple):
    """The blobs that a wish comes to."""

    sizes: dict[bytes, int]
    """sha256 -> length of the text, bytes."""
    shared: int
    """How many more it would be, if another event did not name them too."""
    position: int
    """The log as of which that holds."""


def select(log: Log, view: View, wish: Wish) -> Selection:
    """Return what a wish selects: the texts that are named within it and nowhere else."""
    position = log.head_position()
    wanted = _wanted(wish, root_sessions(view) if wish.session else {})
    clients = {
        str(stream): str(client) for stream, client in view.store.query("SELECT stream_id, client FROM gen_sources")
    }
    inside: dict[bytes, int] = {}
    outside: set[bytes] = set()
    for event, links in _linked(log):
        named = mentions(event, clients.get(event.stream_id, ""))
        for link in links:
            places = named.get(link.sha256) or [Mention("", event.session_id or "", event.at)]
            held = [wanted(place) for place in places]
            if any(held):
                inside[link.sha256] = link.size_bytes
            if not all(held) or event.stream_id.partition(":")[0] == BOOK:  # a seal's list is evidence, and no text
                outside.add(link.sha256)
    return Selection({name: size for name, size in inside.items() if name not in outside},
                     sum(name in outside for name in inside), position)  # fmt: skip


def _linked(log: Log) -> Iterator[tuple[Event, list[BlobLink]]]:
    """Yield every event that blobs belong to, with those that are there."""
    by_event: dict[int, list[BlobLink]] = {}
    for link in log.blob_links():
        by_event.setdefault(link.position, []).append(link)
    for position, links in by_event.items():
        yield log.event_at(position), links


def mentions(event: Event, client: str) -> dict[bytes, list[Mention]]:
    """Return the texts that the observations of an event name, and in which session and when."""
    try:
        body = decode(event.type, event.schema, event.data)
    except (LogTooNew, msgspec.MsgspecError):
        return {}
    return mentions_of(body, client, event.at) if isinstance(body, LinesObserved | RecordsObserved) else {}


def mentions_of(body: LinesObserved | RecordsObserved, client: str, recorded_at: int) -> dict[bytes, list[Mention]]:
    """Return the texts that observations name. Where they have no time, they are of when they were read."""
    found: dict[bytes, list[Mention]] = {}
    for one in body.observations:
        if isinstance(one, Failure) and one.error:
            place = Mention(client, body.contexts[one.c].session, one.at if one.at > 0 else recorded_at)
            found.setdefault(bytes.fromhex(one.error), []).append(place)
    return found


Roots = dict[tuple[str, str], tuple[str, str]]
"""(client, session) of a sub-agent's own session -> the session in whose account it is."""


def _wanted(wish: Wish, roots: Roots) -> Callable[[Mention], bool]:
    if not wish.session:
        return lambda place: place.at < wish.before_us
    asked = (wish.client, wish.session)
    return lambda place: asked == roots.get((place.client, place.session), (place.client, place.session))


def root_sessions(view: View) -> Roots:
    """Return the roots of all sessions that are a sub-agent's."""
    sql = "SELECT client, session_id, parent FROM gen_sessions WHERE parent <> ''"
    parents = {(client, session): (client, parent) for client, session, parent in view.store.query(sql)}
    roots = {}
    for session in parents:
        root, visited = session, {session}
        while root in parents and parents[root] not in visited:
            root = parents[root]
            visited.add(root)
        roots[session] = root
    return roots


def purge(log: Log, wish: Wish, selection: Selection) -> bool:
    """Append what leaves, and remove it; return whether no trace is left in the files of the database.

    The event comes first: where the program dies in between, the texts are still there and a second purge selects
    them again. Where nothing is selected, traces of earlier purges are removed. Raises LogReadOnly, LogUnavailable.
    """
    log.check_writable()
    names = sorted(selection.sizes)
    if not names and not purged_names(log):
        return True
    events = []
    for begin in range(0, len(names), LISTED_PER_EVENT):
        some = names[begin : begin + LISTED_PER_EVENT]
        body = BlobsPurged(
            len(some), sum(selection.sizes[name] for name in some), [name.hex() for name in some],
            wish.client, wish.session, wish.before_us,
        )  # fmt: skip
        events.append(NewEvent(body=body, event_id=new_id()))
    while events:
        try:
            log.append([StreamAppend(log.book_stream, log.stream_version(log.book_stream), events)])
        except VersionConflict:
            continue
        break
    return log.delete_blobs(names, selection.position)


def purged_names(log: Log) -> set[bytes]:
    """Return the names of all blobs that an event of some book says were purged."""
    found: set[bytes] = set()
    for event in log.book_events():
        if event.type == PURGED:
            try:
                body = decode(PURGED, event.schema, event.data)
                found.update(bytes.fromhex(name) for name in body.sha256)
            except (LogTooNew, msgspec.MsgspecError, ValueError):
                continue  # the catalogue's check names it
    return found


class Purged:
    """What was purged so far, for an import: a file that is read anew brings its texts along once more."""

    def __init__(self, view: View) -> None:
        self._wishes: dict[str, list[Wish]] = {}
        for sha256, *wish in view.store.query("SELECT sha256, client, session_id, before_at FROM gen_purged"):
            self._wishes.setdefault(sha256, []).append(Wish(*wish))
        self._roots = root_sessions(view) if self._wishes else {}

    def left(self, blobs: list[Blob], client: str, type_: str, data: str) -> list[Blob]:
        """Return those blobs of an event about to be appended that are kept.

        A text that was purged is kept again only where the event names it outside of what was purged: a new failure
        with the same words is another text.
        """
        if not any(blob.sha256.hex() in self._wishes for blob in blobs):
            return blobs
        named = mentions_of(decode(type_, CATALOGUE[type_].schema, data), client, 0)
        return [blob for blob in blobs if not self._stays_away(blob.sha256, named.get(blob.sha256, []))]

    def _stays_away(self, sha256: bytes, places: list[Mention]) -> bool:
        wanted = [_wanted(wish, self._roots) for wish in self._wishes.get(sha256.hex(), ())]
        return bool(wanted) and all(any(one(place) for one in wanted) for place in places)
