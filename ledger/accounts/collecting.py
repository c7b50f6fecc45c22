"""The first half of a fold: what events say, collected for a slice. Nothing is decided here, and few rows are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from ledger.accounts import clients
from ledger.accounts.booking import Booking
from ledger.accounts.entities import Job, Label, Source, smaller_time, smaller_word
from ledger.accounts.known import Known
from ledger.accounts.live import Live
from ledger.accounts.prices import QuoteBook, said_at
from ledger.accounts.rows import SpanRow
from ledger.accounts.store import Store, session_key
from ledger.accounts.totals import TotalsChange
from ledger.accounts.usual import Place, Seen, Usual
from ledger.events import book as prices
from ledger.events import sources as seen
from ledger.events.envelope import Event
from ledger.events.registry import ENTRIES, decode
from ledger.ids import row_key

SIGHTINGS = frozenset((seen.Response, seen.Cumulative, seen.Failure, seen.Cut))
"""Observations of which a response or an attempt is known."""
Observed = seen.LinesObserved | seen.RecordsObserved


class Collecting(ABC):
    """Takes in events one by one, and remembers what they may change until the slice is settled."""

    def __init__(self, store: Store, event_at: Callable[[int], Event], *, alone: bool = False) -> None:
        self.store = store
        self.known, self.book = Known(store, alone=alone), QuoteBook(store, alone=alone)
        self.booking = Booking(self.known, self.book, event_at)
        self.usual = Usual(self.known, self.book, self.booking)
        self.change = TotalsChange(self.store)
        self._apply: dict[type, Callable[[Event, Any], None]] = {
            seen.LinesObserved: self._lines,
            seen.RecordsObserved: self._records,
            seen.SourceOpened: self._opened,
            seen.SourceTruncated: self._truncated,
            seen.SourceBilled: self._billed,
            prices.QuoteRecorded: self._quote_recorded,
            prices.QuoteSuperseded: self._quote_superseded,
            prices.SpanPriced: self._span_priced,
            prices.LabelSet: self._label_set,
            prices.BlobsPurged: self._blobs_purged,
            prices.SealMade: _nothing,  # what these say is of the log, not of the accounts
            prices.LogRolled: _nothing,
        }
        self.live = Live(store, self.known, self.booking, self.find_live, self.put_live, alone=alone)
        # What a run decides, and what its hub does, moves no account; what it sends and calls does.
        self._apply |= {entry.struct: _nothing for entry in ENTRIES if entry.stream in ("run", "hub")}
        self._apply |= self.live.apply
        self._observe: dict[type, Callable[[str, Any, seen.Context, int], None]] = {
            seen.Prompt: self._prompt,
            seen.Call: self._called,
            seen.Returned: self._returned,
            seen.Delegated: self._delegated,
            seen.Run: self._run,
        }
        self._begin()

    def _begin(self) -> None:
        self.known.begin()
        self.booking.begin()
        self.news: dict[str, list[Seen]] = {}
        """What was seen of responses, by group."""
        self.calls: dict[str, dict[int, Job]] = {}
        """The delegations of a response that became known or changed, by the response's group."""
        self.turns_from: dict[tuple[int, str], int] = {}
        self.regrouped: set[int] = set()
        """Sessions whose say on their origin or records changed: their responses are decided again."""
        self.delegated: set[int] = set()
        """Sessions that turned out to be a sub-agent's: their turns go where their responses go."""
        self.recorded: set[int] = set()
        """Quotes that were recorded: what waited for them has a price now."""
        self.requoted: set[int] = set()
        """Quotes for which another one stands than before."""
        self.repriced: set[str] = set()
        """Spans that were priced one by one."""

    @abstractmethod
    def find_live(self, span_id: str) -> SpanRow | None:
        """Return the row of a span of our own agent, as it stands with this slice."""

    @abstractmethod
    def put_live(self, row: SpanRow, old: SpanRow | None) -> None:
        """Keep a row of a span of our own agent in place of the old one."""

    def apply(self, event: Event) -> None:
        """Take in one event. Raises LogTooNew for one that this program does not know."""
        body = decode(event.type, event.schema, event.data)
        self._apply[type(body)](event, body)

    def _opened(self, event: Event, body: seen.SourceOpened) -> None:
        source = Source(
            event.stream_id, body.client, body.path, body.root, event.version, device=body.device,
            inode=body.inode, billing=body.billing, origin=body.origin,
        )  # fmt: skip
        self.known.open(source)

    def _billed(self, event: Event, body: seen.SourceBilled) -> None:
        source = self.known.source(event.stream_id)
        source.version, source.billing = event.version, body.billing

    def _truncated(self, event: Event, body: seen.SourceTruncated) -> None:
        source = self.known.source(event.stream_id)
        source.version, source.end, source.tail, source.carry = event.version, 0, "", "{}"
        source.size = source.mtime_ns = 0

    def _quote_recorded(self, event: Event, body: prices.QuoteRecorded) -> None:
        self.recorded.add(self.book.record(body.sha256, bytes(body.quote), said_at(event)))

    def _quote_superseded(self, event: Event, body: prices.QuoteSuperseded) -> None:
        self.requoted |= self.book.supersede(body.old, body.new, said_at(event))

    def _span_priced(self, event: Event, body: prices.SpanPriced) -> None:
        self.repriced |= self.book.price_spans(body.spans, body.quote, said_at(event))

    def _label_set(self, event: Event, body: prices.LabelSet) -> None:
        self.known.set_label(
            Label(session_key(body.client, body.session), body.key, body.value, event.at, event.event_id.hex())
        )

    def _blobs_purged(self, event: Event, body: prices.BlobsPurged) -> None:
        self.known.purged.update((sha256, body.client, body.session, body.before) for sha256 in body.sha256)

    def _lines(self, event: Event, body: seen.LinesObserved) -> None:
        source = self.known.source(event.stream_id)
        source.end, source.tail = body.end, body.tail
        self._observed(event, body, source)

    def _records(self, event: Event, body: seen.RecordsObserved) -> None:
        self._observed(event, body, self.known.source(event.stream_id))

    def _observed(self, event: Event, body: Observed, source: Source) -> None:
        source.version, source.size, source.mtime_ns = event.version, body.size, body.mtime_ns
        if body.inode:  # it is not told before the end of the file
            source.device, source.inode = body.device, body.inode
        source.carry = msgspec.json.encode(body.carry).decode() if body.carry else "{}"
        places = [self._place(source.client, context) for context in body.contexts]
        self._take_in(event, body, source.client, places)

    def _place(self, client: str, context: seen.Context) -> Place:
        """Return the place that a context is; what it says of its session and its sub-agent is taken in."""
        place = self.usual.place(client, context)
        if place.epoch != self.known.epoch:  # else it was looked up since, and this was done before
            self.known.session(place.key, context.session, client)
            if context.agent_type and context.agent:
                self.known.learn_agent(place.key, context.agent, context.agent_type, "")
        return place

    def _take_in(self, event: Event, body: Observed, client: str, places: list[Place]) -> None:
        """Take in every observation of an event."""
        self.booking.take(event, body)
        news, position = self.news, event.position
        for index, one in enumerate(body.observations):
            place = places[one.c]
            if type(one) in SIGHTINGS:
                group_id = self._group(client, one, place)
                news.setdefault(group_id, []).append((place, one, body, position, index))
            else:
                self._observe[type(one)](client, one, place.context, place.key)

    def _group(self, client: str, one: Any, place: Place) -> str:
        """Return the group of an observation; a session of Codex that has records of its own is noted as such."""
        if client == "codex" and type(one) is seen.Response:
            self._has_records(place.key)
        return clients.group_of(client, one)

    def _has_records(self, key: int) -> None:
        session = self.known.session(key)
        if not session.has_records:
            session.has_records = 1
            self.known.changed_sessions.add(key)
            self.regrouped.add(key)

    def _prompt(self, client: str, one: seen.Prompt, context: seen.Context, key: int) -> None:
        account, agent = self.known.account(key, context.agent)
        turn_key = row_key("turn", client, context.session, context.agent, one.id)
        self.known.new_turns.append((turn_key, one.id, account, agent, one.at))
        pair = (account, agent)
        self.turns_from[pair] = min(one.at, self.turns_from.get(pair, one.at))

    def _called(self, client: str, one: seen.Call, context: seen.Context, key: int) -> None:
        job = self.known.job(client, one.id)
        job.tool = smaller_word(job.tool, one.tool)
        job.group_id = clients.group_of_id(client, one.response)
        job.agent_type = smaller_word(job.agent_type, one.agent_type)
        job.called_at = smaller_time(job.called_at, one.at)
        self._changed(job)
        for session, agent_id in self.known.agents_of_call(one.id):
            self.known.rename_agent(session, agent_id)

    def _returned(self, client: str, one: seen.Returned, context: seen.Context, key: int) -> None:
        job = self.known.job(client, one.id)
        job.agent_id = smaller_word(job.agent_id, one.agent)
        job.returned_at = smaller_time(job.returned_at, one.at)
        job.status = smaller_word(job.status, one.status or "completed")
        self._changed(job)
        if one.agent:
            self.known.learn_agent(key, one.agent, "", one.id)

    def _delegated(self, client: str, one: seen.Delegated, context: seen.Context, key: int) -> None:
        job = self.known.job(client, one.id)
        job.agent_id = smaller_word(job.agent_id, one.agent)
        self.known.learn_agent(key, one.agent, "", one.id)

    def _run(self, client: str, one: seen.Run, context: seen.Context, key: int) -> None:
        session = self.known.session(key)
        before = msgspec.structs.astuple(session)
        if one.parent:  # a session has a row as soon as it is named, whether or not anything is booked there
            self.known.session(session_key(client, one.parent), one.parent, client)
            if not session.parent:
                self.delegated.add(key)
        session.forked_from = smaller_word(session.forked_from, one.forked_from)
        session.parent = smaller_word(session.parent, one.parent)
        session.agent_type = smaller_word(session.agent_type, one.name)
        if msgspec.structs.astuple(session) != before:
            self.known.changed_sessions.add(key)
            self.known.epoch += 1
            self.regrouped.add(key)

    def _changed(self, job: Job) -> None:
        if job.group_id:
            self.calls.setdefault(job.group_id, {})[job.job_key] = job


def _nothing(event: Event, body: Any) -> None:
    """What no account is kept of."""
