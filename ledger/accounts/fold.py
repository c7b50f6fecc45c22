"""The fold: events in, changed rows out. Order of streams, files and lines does not matter to what comes out."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec

from ledger.accounts import clients
from ledger.accounts.claims import Claim, SessionFacts, Sight
from ledger.accounts.prices import QuoteBook
from ledger.accounts.rows import Dimensions, SightingRow, SpanRow
from ledger.accounts.store import Store, dimension_key, quote_key, session_key
from ledger.accounts.totals import TotalsChange
from ledger.errors import LedgerError
from ledger.events import book as book_events
from ledger.events import sources as seen
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.ids import row_key
from ledger.wire.usage import Part, Usage

NANO = 1_000_000_000
_MASK31 = (1 << 31) - 1


class Session(msgspec.Struct):
    """A session's row, in column order."""

    session_key: int
    session_id: str
    client: str
    forked_from: str = ""
    parent: str = ""
    billing: str = ""
    agent_type: str = ""
    has_records: int = 0


class Job(msgspec.Struct):
    """A delegation's row, in column order: a call that started a sub-agent, and its end."""

    job_key: int
    call_id: str
    client: str
    tool: str = ""
    group_id: str = ""
    agent_id: str = ""
    agent_type: str = ""
    called_at: int | None = None
    returned_at: int | None = None
    status: str = ""


class Agent(msgspec.Struct):
    """What is known of a sub-agent of a session, in column order."""

    session_key: int
    agent_id: str
    agent_type: str = ""
    call_id: str = ""


class Source(msgspec.Struct):
    """How far a file was read, in column order."""

    stream_id: str
    client: str
    path: str
    root: str
    version: int = 0
    end: int = 0
    tail: str = ""
    size: int = 0
    mtime_ns: int = 0
    device: int = 0
    inode: int = 0
    carry: str = "{}"


class Turns(NamedTuple):
    """The turns of one agent in one session, by start."""

    starts: list[int]
    keys: list[int]


class Fold:
    """Applies events to one generation. `apply` collects, `settle` decides and writes; the caller commits."""

    def __init__(self, store: Store, event_at: Callable[[int], Event]) -> None:
        self.store, self.event_at = store, event_at
        self.book = QuoteBook(store)
        self._dimensions: dict[Dimensions, int] = {}
        self._values: dict[int, Dimensions] = {}
        self._begin()

    def _begin(self) -> None:
        self.bodies: dict[int, Any] = {}
        self.parts: dict[tuple[int, int], tuple[Part, ...]] = {}
        self.news: dict[str, dict[tuple[Any, ...], Sight]] = {}
        self.sources: dict[str, Source] = {}
        self.sessions: dict[int, Session] = {}
        self.changed_sessions: set[int] = set()
        self.agents: dict[tuple[int, str], Agent] = {}
        self.changed_agents: set[tuple[int, str]] = set()
        self.jobs: dict[int, Job] = {}
        self.changed_jobs: set[int] = set()
        self.turns: dict[tuple[int, str], Turns] = {}
        self.new_turns: list[tuple[int, str, int, str, int | None]] = []
        self.turns_from: dict[tuple[int, str], int] = {}
        self.regroup: set[str] = set()
        self.repriced: set[str] = set()
        self.touched: set[int] = set()
        self.rows: dict[str, SpanRow] = {}
        self.change = TotalsChange(self.store)

    # collecting

    def apply(self, event: Event) -> None:
        """Take in one event. Raises LogTooNew for one that this program does not know."""
        body = decode(event.type, event.schema, event.data)
        kind = type(body)
        if kind is seen.LinesObserved:
            self._lines(event, body)
        elif kind is seen.SourceOpened:
            self.sources[event.stream_id] = Source(
                event.stream_id, body.client, body.path, body.root, device=body.device, inode=body.inode
            )
            self.sources[event.stream_id].version = event.version
        elif kind is seen.SourceTruncated:
            source = self._source(event.stream_id)
            source.version, source.end, source.tail, source.carry = event.version, 0, "", "{}"
            source.size = source.mtime_ns = 0
        elif kind is book_events.QuoteRecorded:
            self.repriced.update(self.book.record(body.sha256, bytes(body.quote)))
        elif kind is book_events.QuoteSuperseded:
            self.repriced.update(self.book.supersede(body.old, body.new))
        elif kind is book_events.SpanPriced:
            self.repriced.update(self.book.price_spans(body.spans, body.quote))

    def _source(self, stream_id: str) -> Source:
        source = self.sources.get(stream_id)
        if source is None:
            source = self.sources[stream_id] = Source(*self.store.one("source", stream_id))
        return source

    def _lines(self, event: Event, body: seen.LinesObserved) -> None:
        source = self._source(event.stream_id)
        source.version, source.end, source.tail = event.version, body.end, body.tail
        source.size, source.mtime_ns = body.size, body.mtime_ns
        source.device, source.inode = body.device, body.inode
        source.carry = msgspec.json.encode(body.carry).decode()
        client = source.client
        self.bodies[event.position] = body
        keys = [session_key(client, context.session) for context in body.contexts]
        for context, key in zip(body.contexts, keys, strict=True):
            self._session(key, context.session, client)
            if context.agent_type and context.agent:
                self._agent(key, context.agent, context.agent_type, "")
        for index, one in enumerate(body.observations):
            context, key = body.contexts[one.c], keys[one.c]
            kind = type(one)
            if kind is seen.Response or kind is seen.Cumulative or kind in _ENDINGS:
                self._sight(client, one, context, key, event.position, index)
            elif kind is seen.Prompt:
                self._prompt(client, one, context, key)
            elif kind is seen.Call:
                self._called(client, one)
            elif kind is seen.Returned:
                self._returned(client, one, key)
            elif kind is seen.Delegated:
                self._delegated(client, one, key)
            else:
                self._run(one, key)

    def _sight(
        self, client: str, one: Any, context: seen.Context, key: int, position: int, index: int
    ) -> None:
        parts = self.parts[position, index] = clients.parts_of(client, one)
        response = type(one) is seen.Response
        if response and client == "codex":
            session = self._session(key)
            if not session.has_records:
                session.has_records = 1
                self.changed_sessions.add(key)
        sight = Sight(
            clients.quoted(one.request) if response else "",
            key,
            context.agent,
            context.sidechain or (response and one.nested),
            response and one.nested,
            one.at,
            max(one.at, one.last_at) if response else one.at,
            getattr(one, "lines", 0),
            client != "claude-code" or bool(response and one.stop),
            one.by if type(one) is seen.Cut else "",
            _rank(parts),
            _digest(one) if parts else 0,
            position,
            index,
        )
        places = self.news.setdefault(clients.group_of(client, one), {})
        known = places.get(sight.place)
        if known is None:
            places[sight.place] = sight
        else:
            known.merge(sight)

    def _prompt(self, client: str, one: seen.Prompt, context: seen.Context, key: int) -> None:
        turn_key = row_key("turn", client, context.session, context.agent, one.id)
        self.new_turns.append((turn_key, one.id, key, context.agent, one.at))
        pair = (key, context.agent)
        self.turns_from[pair] = min(one.at, self.turns_from.get(pair, one.at))

    def _called(self, client: str, one: seen.Call) -> None:
        job = self._job(client, one.id)
        job.tool = job.tool or one.tool
        job.group_id = f"{client}:{clients.quoted(one.response)}"
        job.agent_type = _first_word(job.agent_type, one.agent_type)
        job.called_at = one.at if job.called_at is None else min(job.called_at, one.at)
        self.regroup.add(job.group_id)
        for row in self.store.all("agents_of_call", one.id):
            self._agent(row[0], row[1], job.agent_type, one.id)
        for agent in list(self.agents.values()):
            if agent.call_id == one.id:
                self._agent(agent.session_key, agent.agent_id, job.agent_type, one.id)

    def _returned(self, client: str, one: seen.Returned, key: int) -> None:
        job = self._job(client, one.id)
        job.agent_id = _first_word(job.agent_id, one.agent)
        job.returned_at = one.at if job.returned_at is None else min(job.returned_at, one.at)
        job.status = _first_word(job.status, one.status or "completed")
        if job.group_id:
            self.regroup.add(job.group_id)
        if one.agent:
            self._agent(key, one.agent, job.agent_type, one.id)

    def _delegated(self, client: str, one: seen.Delegated, key: int) -> None:
        job = self._job(client, one.id)
        job.agent_id = _first_word(job.agent_id, one.agent)
        self._agent(key, one.agent, job.agent_type, one.id)

    def _run(self, one: seen.Run, key: int) -> None:
        session = self._session(key)
        before = msgspec.structs.astuple(session)
        session.forked_from = _first_word(session.forked_from, one.forked_from)
        session.parent = _first_word(session.parent, one.parent)
        session.billing = _first_word(session.billing, one.billing)
        session.agent_type = _first_word(session.agent_type, one.name)
        if msgspec.structs.astuple(session) != before:
            self.changed_sessions.add(key)

    # rows that are found again, or made

    def _session(self, key: int, session_id: str = "", client: str = "") -> Session:
        session = self.sessions.get(key)
        if session is None:
            row = self.store.one("session", key)
            session = self.sessions[key] = Session(*row) if row else Session(key, session_id, client)
            if row is None:
                self.changed_sessions.add(key)
            elif session_id and (session.session_id, session.client) != (session_id, client):
                raise LedgerError(f"two sessions have one key ({session.session_id}, {session_id}): report this")
        return session

    def _agent(self, key: int, agent_id: str, agent_type: str, call_id: str) -> None:
        agent = self._known_agent(key, agent_id)
        if agent is None:
            agent = Agent(key, agent_id)
        before = (agent.agent_type, agent.call_id)
        agent.agent_type = _first_word(agent.agent_type, agent_type)
        agent.call_id = _first_word(agent.call_id, call_id)
        self.agents[key, agent_id] = agent
        if before != (agent.agent_type, agent.call_id):
            self.changed_agents.add((key, agent_id))

    def _known_agent(self, key: int, agent_id: str) -> Agent | None:
        agent = self.agents.get((key, agent_id))
        if agent is None:
            row = self.store.one("agent", key, agent_id)
            if row is None:
                return None
            agent = self.agents[key, agent_id] = Agent(*row)
        return agent

    def _job(self, client: str, call_id: str) -> Job:
        key = row_key("job", client, call_id)
        job = self.jobs.get(key)
        if job is None:
            row = self.store.one("job", key)
            job = self.jobs[key] = Job(*row) if row else Job(key, call_id, client)
        self.changed_jobs.add(key)
        return job

    # settling

    def settle(self) -> None:
        """Decide everything that the collected events touch, and write the changed rows."""
        store = self.store
        store.run("put_turn", self.new_turns)
        store.run("put_session", [_tuple(self.sessions[key]) for key in self.changed_sessions])
        store.run("put_agent", [_tuple(self.agents[key]) for key in self.changed_agents])
        store.run("put_job", [_tuple(self.jobs[key]) for key in self.changed_jobs])
        store.run("put_source", [_tuple(source) for source in self.sources.values()])
        self.book.write()
        self.regroup.update(self._groups_of_changed_sessions())
        for group_id, places in self.news.items():
            self._settle_group(group_id, places)
        for group_id in self.regroup - self.news.keys():
            self._settle_group(group_id, {})
        self._flush()
        self._settle_shared()
        self._rename_agents()
        self._reassign_turns()
        self._reprice()
        self._flush()
        self.change.write()
        self._begin()

    def _groups_of_changed_sessions(self) -> Iterable[str]:
        """Groups whose claims depend on what a session says of its origin or its records."""
        for key in self.changed_sessions:
            session = self.sessions[key]
            if not (session.forked_from or session.parent or session.has_records):
                continue
            for row in self.store.spans("session_spans", key):
                yield clients.group_of_span(row.span_id)
            for (group_id,) in self.store.all("session_groups", key):
                yield group_id

    def _settle_shared(self) -> None:
        """Decide again who owns what several sessions hold, now that their own responses are known."""
        groups = {group_id for key in self.touched for (group_id,) in self.store.all("session_groups", key)}
        for group_id in groups:
            self._settle_group(group_id, {})
        self._flush()

    def _settle_group(self, group_id: str, places: dict[tuple[Any, ...], Sight]) -> None:
        existing = self.store.group_spans(group_id)
        sights = self._sights(group_id, existing, places)
        facts = {sight.session_key: self._facts(sight.session_key, len(sights) > 1) for sight in sights}
        claims = clients.decide(group_id, sights, facts)
        rows = {row.span_id: row for claim in claims for row in self._rows(group_id, claim)}
        for old in existing:
            if old.span_id not in rows:
                self._drop(old)
        before = {old.span_id: old for old in existing}
        for span_id, row in rows.items():
            self._put(row, before.get(span_id))
        if len(sights) > 1 or (existing and existing[0].contested):
            self.store.run("put_sighting", [_sighting_row(group_id, sight) for sight in sights])

    def _sights(
        self, group_id: str, existing: list[SpanRow], places: dict[tuple[Any, ...], Sight]
    ) -> list[Sight]:
        """Return all sightings of a group: those kept, those that a lone row stands for, and the news."""
        known: dict[tuple[Any, ...], Sight] = {}
        if any(row.contested for row in existing) or not existing:
            for row in self.store.sightings(group_id):
                sight = _sight_of_row(row)
                known[sight.place] = sight
        if not known:
            for span in existing:
                if not span.part:
                    sight = self._sight_of_span(group_id, span)
                    known[sight.place] = sight
        for place, sight in places.items():
            if place in known:
                known[place].merge(sight)
            else:
                known[place] = sight
        self.touched.update(sight.session_key for sight in places.values())
        return list(known.values())

    def _sight_of_span(self, group_id: str, span: SpanRow) -> Sight:
        native, agent_id = span.session_key, span.agent_id
        variant = clients.variant_of_span(span.span_id)
        if group_id.startswith("codex:"):
            variant = ""
            if agent_id:
                native, agent_id = session_key("codex", agent_id), ""
        return Sight(
            variant, native, agent_id, bool(span.sidechain), bool(span.nested), span.occurred_at,
            span.ended_at or span.occurred_at, span.lines, bool(span.final), span.ending, span.rank, span.digest,
            span.source_position, span.source_index,
        )  # fmt: skip

    def _facts(self, key: int, contested: bool) -> SessionFacts:
        session = self._session(key)
        own_at = self.store.one("earliest_own", key) if contested else None
        return SessionFacts(
            session.session_id,
            session.forked_from,
            session.parent,
            bool(session.has_records),
            own_at[0] if own_at else None,
        )

    # one claim's rows

    def _rows(self, group_id: str, claim: Claim) -> Iterable[SpanRow]:
        position, index = claim.best.position, claim.best.index
        body = self._body(position)
        one = body.observations[index]
        context = body.contexts[one.c]
        client = group_id.partition(":")[0]
        parts = self._parts(client, position, index, one)
        account = self._account(claim.owner, context.agent)
        base = self._base_row(group_id, claim, account, one)
        span_id = base.span_id
        first = True
        for number, part in enumerate(parts or (None,)):
            row = base if first else _beside(base, part.role, number)  # type: ignore[union-attr]
            values = self._dimensions_of(client, claim, one, context, part, account)
            row.dimension_id = self._dimension(values)
            if part is not None:
                quote = _quote_of(body, one, number)
                _fill_usage(row, part.usage)
                row.named_quote = quote_key(quote) if quote else 0
                self._price(row, part.usage)
            first = False
            yield row
        yield from self._tool_rows(group_id, span_id, base)

    def _base_row(self, group_id: str, claim: Claim, account: _Account, one: Any) -> SpanRow:
        row = SpanRow(
            f"{group_id}:{claim.variant}", account.session_key, account.agent_id,
            self._turn(account.session_key, account.agent_id, claim.occurred_at), 0, claim.occurred_at,
            ended_at=claim.last_at, source_position=claim.best.position, source_index=claim.best.index,
            final=int(claim.final), ending=claim.ending, lines=claim.lines, copied_lines=claim.copied_lines,
            replayed_lines=claim.replayed_lines, rank=claim.best.rank, digest=claim.best.digest,
            sidechain=int(claim.owner.sidechain), nested=int(claim.owner.nested), contested=claim.contested,
        )  # fmt: skip
        if type(one) is seen.Failure:
            row.http_status, row.attempt = one.status, max(1, one.attempt)
            if one.attempt > 1:
                row.attempt_kind = "retry"
        elif type(one) is seen.Response and one.cost:
            row.reported_cost_nanousd = _nano(one.cost)
        return row

    def _tool_rows(self, group_id: str, parent: str, base: SpanRow) -> Iterable[SpanRow]:
        """Rows for the calls that this response made to start sub-agents."""
        for job in self._jobs_of(group_id):
            if job.called_at is None:
                continue
            row = SpanRow(
                f"{parent}+tool:{clients.quoted(job.call_id)}", base.session_key, base.agent_id, base.turn_key,
                0, job.called_at, parent=parent, ended_at=job.returned_at, part="tool", call_id=job.call_id,
                lines=0, source_position=base.source_position, source_index=base.source_index,
                sidechain=base.sidechain, contested=base.contested,
            )  # fmt: skip
            if job.returned_at is not None:
                row.waited_us = max(0, job.returned_at - job.called_at)
            status = {"": "open", "completed": "succeeded"}.get(job.status, "failed")
            values = self._values_of(base.dimension_id)
            row.dimension_id = self._dimension(values._replace(kind="tool", tool=job.tool, status=status))
            yield row

    def _jobs_of(self, group_id: str) -> list[Job]:
        found = {row[0]: Job(*row) for row in self.store.all("jobs_of_group", group_id)}
        return sorted(found.values(), key=lambda job: job.call_id)

    def _account(self, owner: Sight, agent_id: str) -> _Account:
        """Return session and agent that a sighting is booked under: a sub-agent's thread under its root."""
        session = self._session(owner.session_key)
        if not session.parent:
            return _Account(owner.session_key, owner.agent_id)
        root, visited = session, {session.session_key}
        while root.parent:
            above = session_key(root.client, root.parent)
            if above in visited:
                break
            visited.add(above)
            root = self._session(above, root.parent, root.client)
        return _Account(root.session_key, session.session_id)

    def _dimensions_of(
        self, client: str, claim: Claim, one: Any, context: seen.Context, part: Part | None, account: _Account
    ) -> Dimensions:
        failed = type(one) is seen.Failure
        response = type(one) in (seen.Response, seen.Cumulative)
        agent_id = account.agent_id
        agent = ""
        if agent_id or claim.owner.sidechain:
            known = self._known_agent(account.session_key, agent_id) if agent_id else None
            own = self._session(claim.owner.session_key)
            agent = (known.agent_type if known else own.agent_type) or agent_id or "sidechain"
        who = "agent" if agent else "main"
        model = one.model if response else ""
        if part is not None and part.role != "message":
            who = {"compaction": "compact", "advisor": "advisor"}.get(part.role, who)
            model = part.model or model
        provider = clients.provider_of(client, context.provider)
        return Dimensions(
            context.project, context.branch, client, who, agent, provider, model,
            "model", "", "failed" if failed else claim.ending or "succeeded",
        )  # fmt: skip

    def _body(self, position: int) -> Any:
        body = self.bodies.get(position)
        if body is None:
            event = self.event_at(position)
            body = self.bodies[position] = decode(event.type, event.schema, event.data)
        return body

    def _parts(self, client: str, position: int, index: int, one: Any) -> tuple[Part, ...]:
        parts = self.parts.get((position, index))
        return clients.parts_of(client, one) if parts is None else parts

    def _turn(self, key: int, agent_id: str, at: int) -> int:
        """Return the turn that holds an instant: the last prompt before it, else the one without a prompt."""
        turns = self.turns.get((key, agent_id))
        if turns is None:
            rows = self.store.all("turns", key, agent_id)
            turns = Turns([row[4] or 0 for row in rows], [row[0] for row in rows])
            self.turns[key, agent_id] = turns
        place = bisect_right(turns.starts, at)
        if place:
            return turns.keys[place - 1]
        turn_key = row_key("turn", str(key), agent_id)
        self.store.run("put_turn", [(turn_key, "", key, agent_id, None)])
        turns.starts.insert(0, 0)
        turns.keys.insert(0, turn_key)
        return turn_key

    def _dimension(self, values: Dimensions) -> int:
        key = self._dimensions.get(values)
        if key is None:
            key = self._dimensions[values] = dimension_key(values)
            self._values[key] = values
            self.store.run("put_dimension", [(key, *values)])
            if self.store.dimension(key) != values:
                raise LedgerError(f"two dimensions have one key ({values}): report this")
        return key

    def _values_of(self, dimension_id: int) -> Dimensions:
        values = self._values.get(dimension_id)
        if values is None:
            values = self._values[dimension_id] = self.store.dimension(dimension_id)
        return values

    def _price(self, row: SpanRow, usage: Usage) -> None:
        """Price a row by the quote it names, or by what replaced that; keep the figure before."""
        first, final = self.book.of_span(row.span_id, row.named_quote)
        row.quote = final.key if final else 0
        unpriced = None, False, False
        cost, lower, upper = final.price(usage) if final else unpriced
        row.cost_nanousd = cost
        placeholder = clients.is_placeholder(row.span_id, row.final, row.part, usage.output)
        row.lower_bound = int(lower or usage.unsplit_cache_write or placeholder or bool(row.ending))
        row.upper_bound = int(upper or usage.upper_bound)
        row.first_cost_nanousd = cost if first is final else (first.price(usage)[0] if first else None)

    # what changes rows that stand

    def _rename_agents(self) -> None:
        """Bring the spans of an agent whose name became known under that name."""
        for key, agent_id in self.changed_agents:
            agent = self.agents[key, agent_id]
            if not agent.agent_type:
                continue
            for old in self.store.spans("agent_spans", key, agent_id):
                values = self._values_of(old.dimension_id)
                if values.agent != agent.agent_type:
                    row = _copy(old)
                    row.dimension_id = self._dimension(values._replace(agent=agent.agent_type))
                    self._put(row, old)
        self._flush()

    def _reassign_turns(self) -> None:
        """Move spans that stand after a prompt which became known only now."""
        for (key, agent_id), since in self.turns_from.items():
            for old in self.store.spans("agent_spans", key, agent_id):
                if old.occurred_at >= since:
                    turn_key = self._turn(key, agent_id, old.occurred_at)
                    if turn_key != old.turn_key:
                        row = _copy(old)
                        row.turn_key = turn_key
                        self._put(row, old)
        self._flush()

    def _reprice(self) -> None:
        for span_id in self.repriced:
            for old in self.store.spans("span", span_id):
                row = _copy(old)
                usage = self._usage_of(row)
                if usage is not None:
                    self._price(row, usage)
                    self._put(row, old)

    def _usage_of(self, row: SpanRow) -> Usage | None:
        client = row.span_id.partition(":")[0]
        body = self._body(row.source_position)
        one = body.observations[row.source_index]
        parts = self._parts(client, row.source_position, row.source_index, one)
        number = int(row.part[len(row.part.rstrip("0123456789")) :]) if row.part else 0
        return parts[number].usage if number < len(parts) else None

    # writing

    def _put(self, row: SpanRow, old: SpanRow | None) -> None:
        if row == old:
            return
        if old is not None:
            self._count(old, -1)
        self._count(row, 1)
        self.rows[row.span_id] = row

    def _count(self, row: SpanRow, sign: int) -> None:
        values = self._values_of(row.dimension_id)
        self.change.add(row, values.kind, values.status, sign)

    def _drop(self, old: SpanRow) -> None:
        self._count(old, -1)
        self.store.run("drop_span", [(old.span_id,)])

    def _flush(self) -> None:
        self.store.run("put_span", [_tuple(row) for row in self.rows.values()])
        self.rows.clear()


_ENDINGS = (seen.Failure, seen.Cut)


class _Account(NamedTuple):
    session_key: int
    agent_id: str


_tuple = msgspec.structs.astuple


def _copy(row: SpanRow) -> SpanRow:
    return SpanRow(*_tuple(row))


def _beside(base: SpanRow, role: str, number: int) -> SpanRow:
    row = _copy(base)
    row.part = f"{role}{number}"
    row.span_id = f"{base.span_id}+{row.part}"
    row.parent = base.span_id
    row.lines = row.copied_lines = row.replayed_lines = 0
    row.reported_cost_nanousd = None
    row.attempt_kind = "fallback" if role == "fallback" else "first"
    return row


def _fill_usage(row: SpanRow, usage: Usage) -> None:
    row.input_uncached, row.cache_read = usage.input_uncached, usage.cache_read
    row.cache_write_5m, row.cache_write_1h = usage.cache_write_5m, usage.cache_write_1h
    row.output, row.reasoning = usage.output, usage.reasoning
    row.reported_total = usage.reported_total


def _quote_of(body: seen.LinesObserved, one: Any, number: int) -> str:
    if number:
        index = one.part_quotes[number - 1] if number <= len(one.part_quotes) else -1
    else:
        index = one.quote
    return body.quotes[index] if 0 <= index < len(body.quotes) else ""


def _rank(parts: tuple[Part, ...]) -> int:
    """Return what makes the fullest usage win: output tokens first, then all tokens, 31 bits each."""
    if not parts:
        return 0
    usage = parts[0].usage
    output = usage.output or 0
    total = output + (usage.input_uncached or 0) + (usage.cache_read or 0)
    total += (usage.cache_write_5m or 0) + (usage.cache_write_1h or 0)
    return min(output, _MASK31) << 31 | min(total, _MASK31)


def _digest(one: Any) -> int:
    raw = bytes(one.usage if type(one) is seen.Response else one.total)
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") >> 1


def _first_word(known: str, new: str) -> str:
    """Return the smaller of two words that are given: the same whatever comes first."""
    return min(known, new) if known and new else known or new


def _nano(usd: str) -> int | None:
    try:
        value = int(round(Decimal(usd) * NANO))
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return value if -(2**62) < value < 2**62 else None


def _sighting_row(group_id: str, sight: Sight) -> tuple[Any, ...]:
    return _tuple(
        SightingRow(
            group_id, sight.variant, sight.session_key, sight.agent_id, int(sight.sidechain),
            int(sight.nested), sight.first_at, sight.last_at, sight.lines, int(sight.final), sight.ending, sight.rank,
            sight.digest, sight.position, sight.index,
        )
    )  # fmt: skip


def _sight_of_row(row: SightingRow) -> Sight:
    return Sight(
        row.variant, row.session_key, row.agent_id, bool(row.sidechain), bool(row.nested), row.first_at,
        row.last_at, row.lines, bool(row.final), row.ending, row.rank, row.digest, row.source_position, row.source_index,
    )  # fmt: skip
