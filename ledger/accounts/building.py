"""The fold of a generation that nobody reads yet: rows first, their indexes later, and what needs those rows last.

Nine of ten responses are usual ones (usual.py), and those need no row that stands: they are appended in the order of
the log to a table without an index. Everything that would have to look at span rows is put off: an observation whose
response may have been seen before, a call, a session that turns out to belong to another, a prompt that became known
after what it caused. When the end of the log is reached the indexes are made, each by one sort, and what was put off is
settled by the rules of `Fold`, as if it had come in later events. The order of events never mattered to those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from ledger.accounts import clients
from ledger.accounts.claims import SHARED, Facts, Sight
from ledger.accounts.collecting import SIGHTINGS, Observed
from ledger.accounts.entities import Job
from ledger.accounts.fold import Fold
from ledger.accounts.rows import SpanRow, bound, seen_again
from ledger.accounts.store import Store
from ledger.accounts.usual import Place, Seen
from ledger.events.envelope import Event

_CELLS = 20_000
"""How many cells of totals are gathered before they are written."""
_SLICE = 400
"""How much of what was put off is settled in one slice."""


class Building(Fold):
    """Applies a whole log to empty tables without indexes. After `finish` they hold what `Fold` would have made."""

    def __init__(self, store: Store, event_at: Callable[[int], Event]) -> None:
        super().__init__(store, event_at, alone=True)
        self._groups = Filter()
        self._first: dict[str, Seen] = {}
        """What the slice saw of responses that were never met before."""
        self._several: dict[str, list[Seen]] = {}
        """The same where that is several observations."""
        self._clients: list[str] = []
        self._later: list[int] = []
        """Observations that were put off: number of the client, position, index, number of the client ..."""
        self._latest: dict[tuple[int, str], int] = {}
        """When the last response was that an account (a session, and a sub-agent in it) has in the table."""
        self._sessions: set[int] = set()
        """Native sessions, and sessions in whose books they are, that have rows in the table."""
        self._late_turns: dict[tuple[int, str], int] = {}
        self._late_sessions: set[int] = set()
        self._late_agents: set[tuple[int, str]] = set()
        self._late_calls: set[str] = set()
        self._late_recorded: set[int] = set()
        self._late_quotes: set[int] = set()
        self._late_spans: set[str] = set()
        self._complete = False
        self._open: dict[str, SpanRow] = {}
        """Rows of our own agent whose spans have not ended."""
        self._ended: list[tuple[object, ...]] = []
        """Those that ended in this slice, as they are bound."""

    def settle(self) -> None:
        """Append the rows of usual responses; put off what needs rows that stand."""
        self.known.write()
        self.book.write()
        self._move_turns()
        self._put_off_changes()
        self._book()
        self._append_ended()
        self._note_rows()
        self.known.write()
        self._write_totals()
        self._begin()

    def _write_totals(self) -> None:
        if len(self.change) > _CELLS:
            self.change.write()

    def _take_in(self, event: Event, body: Observed, client: str, places: list[Place]) -> None:
        """Take in every observation of an event; of responses only the first one of each, and others of its slice."""
        position, may_be_known, first = event.position, self._groups.add, self._first
        for index, one in enumerate(body.observations):
            place = places[one.c]
            if type(one) not in SIGHTINGS:
                self._observe[type(one)](client, one, place.context, place.key)
                continue
            group_id = self._group(client, one, place)
            if may_be_known(group_id):
                self._meet_again(group_id, (place, one, body, position, index))
            else:
                first[group_id] = (place, one, body, position, index)

    def _meet_again(self, group_id: str, one: Seen) -> None:
        """Take in what may have been met before: in this slice, or put off."""
        if group_id in self._first:
            self._several[group_id] = [self._first.pop(group_id), one]
        elif group_id in self._several:
            self._several[group_id].append(one)
        else:
            self._put_off(group_id, one)

    def _put_off(self, group_id: str, one: Seen) -> None:
        place, _, _, position, index = one
        if place.client not in self._clients:
            self._clients.append(place.client)
        self._later.extend((self._clients.index(place.client), position, index))

    def _unusual(self, group_id: str, one: Seen) -> None:
        """Put off what turned out not to be usual, as it was seen."""
        for each in self._several.get(group_id, (one,)):
            self._put_off(group_id, each)

    def find_live(self, span_id: str) -> SpanRow | None:
        """Return the row of a span of our own agent that has not ended."""
        return self._open.get(span_id)

    def put_live(self, row: SpanRow, old: SpanRow | None) -> None:
        """Keep a row until its span has ended: rows that stand cannot be found yet."""
        if old is not None:
            self._count(old, -1)
        self._count(row, 1)
        self._open.pop(row.span_id, None)
        if self.known.values(row.dimension_id).status == "open":
            self._open[row.span_id] = row
        else:
            self._ended.append(bound(row))

    def _append_ended(self) -> None:
        self.store.run("add_span", self._ended)
        self._ended.clear()
        self.live.write()

    def _book(self) -> None:
        """Append the rows of responses that the slice met for the first time."""
        for group_id, found in list(self._several.items()):
            merged = self.usual.merged(found)
            if merged is None:  # the first makes the row, the others come later
                merged, *others = found
                del self._several[group_id]
                for one in others:
                    self._put_off(group_id, one)
            self._first[group_id] = merged
        for group_id in self._first.keys() & self.calls.keys():  # with what it started it is more than one row
            self._unusual(group_id, self._first.pop(group_id))
        self.store.run("add_usual_span", self.usual.book_all(self._first.items(), self.change, self._unusual))
        self._first.clear()
        self._several.clear()

    def _note_rows(self) -> None:
        """Remember which accounts have rows, and up to when."""
        for place, turns in self.usual.turns_of.items():
            account = (place.owner, place.agent_id)
            self._latest[account] = max(turns.last_at, self._latest.get(account, turns.last_at))
            self._sessions.add(place.key)
            self._sessions.add(place.owner)

    def _put_off_changes(self) -> None:
        """Remember what may change rows that stand already."""
        for account, since in self.turns_from.items():
            if self._latest.get(account, since - 1) >= since:
                self._late_turns[account] = min(since, self._late_turns.get(account, since))
        self._late_sessions |= self.regrouped & self._sessions
        self._late_agents |= self.known.changed_agents & self._latest.keys()
        self._late_calls |= self.calls.keys()
        self._late_recorded |= self.recorded
        self._late_quotes |= self.requoted
        self._late_spans |= self.repriced

    # the end

    def finish(self) -> Iterator[None]:
        """Settle what was put off; the caller commits after each step. The tables must have their indexes."""
        self._ended += [bound(row) for row in self._open.values()]
        self._append_ended()
        yield
        for turns in _chunks(self._late_turns.items()):
            self.turns_from = dict(turns)
            super().settle()
            yield
        for key in self._late_sessions:
            self.regrouped = {key}
            super().settle()
            yield
        for agents in _chunks(self._late_agents):
            self.known.changed_agents = {key for key in agents if self.known.agent(*key) is not None}
            super().settle()
            yield
        yield from self._observe_later()
        yield from self._settle_shared()
        for groups in _chunks(self._late_calls):
            self.calls = {group_id: {} for group_id in groups}
            super().settle()
            yield
        yield from self._price_again()
        self.change.write()
        yield

    def _observe_later(self) -> Iterator[None]:
        """Take in the observations that were put off."""
        numbers = iter(self._later)
        for chunk in _chunks(zip(numbers, numbers, numbers, strict=True)):
            for number, position, index in chunk:
                body = self.booking.body(position)
                one: Any = body.observations[index]
                client = self._clients[number]
                place = self.usual.place(client, body.contexts[one.c])
                group_id = clients.group_of(client, one)
                self.news.setdefault(group_id, []).append((place, one, body, position, index))
                if group_id in self._late_calls:
                    self._late_calls.discard(group_id)
                    self.calls[group_id] = {}
            super().settle()
            yield

    def _shared_groups(self) -> set[str]:
        return set()

    def _touch(self, group_id: str, before: dict[str, SpanRow], after: dict[str, SpanRow]) -> None:
        """Note nothing: all that several sessions hold is decided once at the end."""

    def _facts(self, sights: list[Sight]) -> Facts:
        """Return what deciding needs; who came first is asked when everything that was put off is there."""
        facts = super()._facts(sights)
        return facts if self._complete else Facts(facts.sessions)

    def _waits(self, group_id: str, existing: list[SpanRow], sights: list[Sight], jobs: list[Job]) -> bool:
        """Let the usual group that several sessions hold wait for `_settle_shared`: it is decided only once then.

        Until then its row says only that it is contested, on which it depends which session came first.
        """
        if self._complete or jobs or len(existing) != 1 or not group_id.startswith("claude-code:"):
            return False
        row = existing[0]
        one_variant = row.span_id == f"{group_id}:{sights[0].variant}" and len({one.variant for one in sights}) == 1
        if not one_variant or len({one.session_key for one in sights}) == 1:
            return False
        if row.contested != SHARED:
            row.contested = SHARED
            self.again.append(seen_again(row))  # no total counts that
        self._keep(group_id, sights)
        return True

    def _settle_shared(self) -> Iterator[None]:
        """Decide who owns what several sessions hold: once, since it depends on all that they hold.

        In the order of the log, so that an event that tells of many is read once.
        """
        self._complete = True
        for groups in _chunks([group_id for (group_id,) in self.store.all("shared_groups")]):
            self._settle_groups(groups)
            self._write_totals()
            self._begin()
            yield

    def _price_again(self) -> Iterator[None]:
        """Price what stood before its price was known, or before another took its place."""
        spans = self.book.waiting(self._late_recorded) | self.book.spans_of(self._late_quotes) | self._late_spans
        for chunk in _chunks(self._in_order(spans)):
            self.repriced = set(chunk)
            super().settle()
            yield


class Filter:
    """Texts that were met. It may say so of one that was not (one in some hundred), never the other way round."""

    def __init__(self, room: int = 1 << 21) -> None:
        self._older: list[tuple[bytearray, int]] = []
        self._grow(room)  # of what is not used no memory is taken

    def _grow(self, room: int) -> None:
        self._room = self._left = room
        self._mask, self._bits = room * 32 - 1, bytearray(room * 4)

    def add(self, text: str) -> bool:
        """Take in a text; return whether it may have been met before."""
        number = hash(text)
        for bits, mask in self._older:
            first, second = number & mask, (number >> 32) & mask
            if bits[first >> 3] >> (first & 7) & 1 and bits[second >> 3] >> (second & 7) & 1:
                return True
        bits, mask = self._bits, self._mask
        first, second = number & mask, (number >> 32) & mask
        one, other = 1 << (first & 7), 1 << (second & 7)
        if bits[first >> 3] & one and bits[second >> 3] & other:
            return True
        bits[first >> 3] |= one
        bits[second >> 3] |= other
        self._left -= 1
        if not self._left:
            self._older.append((bits, mask))
            self._grow(self._room * 8)
        return False


_One = TypeVar("_One")


def _chunks(found: Iterable[_One]) -> Iterator[list[_One]]:
    rest = iter(found)
    while chunk := list(islice(rest, _SLICE)):
        yield chunk
