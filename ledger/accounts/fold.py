"""The fold: events in, changed rows out. Order of streams, files and lines does not matter to what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ledger.accounts import clients
from ledger.accounts.booking import copy_of
from ledger.accounts.claims import SHARED, Claim, Facts, Sight
from ledger.accounts.collecting import Collecting
from ledger.accounts.entities import Job
from ledger.accounts.rows import SightingRow, SpanRow, bound, seen_again
from ledger.accounts.sights import row_of_sight, sight_of, sight_of_row, sight_of_span
from ledger.accounts.usual import Seen
from ledger.events import sources as seen

Places = dict[tuple[Any, ...], Sight]


class Fold(Collecting):
    """Applies events to one generation. `apply` collects, `settle` decides and writes; the caller commits."""

    def _begin(self) -> None:
        super()._begin()
        self.touched: set[int] = set()
        """Sessions that hold another response than before, or another that no other session holds."""
        self.rows: dict[str, SpanRow] = {}
        self.again: list[tuple[object, ...]] = []
        """The rows of responses that were only seen once more, as `see_span_again` takes them."""
        self.sightings: list[tuple[Any, ...]] = []
        self.uncontested: list[tuple[str]] = []

    def settle(self) -> None:
        """Decide everything that the collected events touch, and write the changed rows."""
        self.known.write()
        self.book.write()
        self._move_turns()
        self._reassign_turns()
        self._settle_groups(self.news.keys() | self.calls.keys() | self._groups_of_regrouped())
        self.known.lacking.clear()
        self._settle_groups(self._shared_groups())
        self._rename_agents()
        self._reprice()
        self.live.write()
        self.known.write()
        self._write_totals()
        self._begin()

    def _write_totals(self) -> None:
        self.change.write()

    def _groups_of_regrouped(self) -> set[str]:
        """Groups whose claims depend on what a session says of its origin or its records."""
        found: set[str] = set()
        for key in self.regrouped:
            spans = self.store.spans("session_spans", key)
            account = self.known.account(key, "")
            if account.agent_id:  # a sub-agent's session stands in the books of its root
                spans += self.store.spans("agent_spans", *account)
            found |= {clients.group_of_span(row.span_id) for row in spans}
            found |= {group_id for (group_id,) in self.store.all("session_groups", key)}
        return found

    def _shared_groups(self) -> set[str]:
        """Groups that several sessions hold: who owns them depends on what those hold alone."""
        return {group_id for key in self.touched for (group_id,) in self.store.all("session_groups", key)}

    def _settle_groups(self, groups: Iterable[str]) -> None:
        existing = self.store.groups_spans(groups)
        usual: list[tuple[str, Seen]] = []
        others: list[tuple[str, list[SpanRow], list[Seen]]] = []
        several: dict[str, list[Seen]] = {}
        for group_id in groups:
            news, rows = self.news.pop(group_id, []), existing.get(group_id, [])
            one = self.usual.merged(news) if news and not rows and group_id not in self.calls else None
            if one is None:
                others.append((group_id, rows, news))
            else:
                usual.append((group_id, one))
                several[group_id] = news
        self._settle_usual(usual, lambda group_id, one: others.append((group_id, [], several[group_id])))
        for group_id, rows, news in others:
            self._settle_group(group_id, rows, self._places(group_id, news))
        self._flush()

    def _settle_usual(self, found: list[tuple[str, Seen]], unusual: Callable[[str, Seen], None]) -> None:
        """Settle the usual case: responses that nothing was known of, seen in one place, without sub-agents."""
        self.touched.update(one[0].key for _, one in found)
        self.store.run("add_usual_span", self.usual.book_all(found, self.change, unusual))

    def _places(self, group_id: str, news: list[Seen]) -> Places:
        """Return the sightings that observations are."""
        places: Places = {}
        for place, one, _, position, index in news:
            _merge(places, self._sight(place.client, one, place.context, place.key, position, index))
        return places

    def _sight(self, client: str, one: Any, context: seen.Context, key: int, position: int, index: int) -> Sight:
        parts = self.booking.parts_at(client, one, context.provider, position, index)
        sight = sight_of(client, one, parts, context, key, position, index)
        sight.order = self.booking.order(position)
        return sight

    def _sight_of_span(self, group_id: str, span: SpanRow) -> Sight:
        """Return the one sighting that an uncontested row stands for; what it said is read again from its event."""
        sight = sight_of_span(group_id, span)
        body = self.booking.body(span.source_position)
        one = body.observations[span.source_index]
        found = self._sight(
            group_id.partition(":")[0], one, body.contexts[one.c], sight.session_key, span.source_position,
            span.source_index,
        )  # fmt: skip
        sight.digest, sight.order = found.digest, found.order
        return sight

    def _settle_group(self, group_id: str, existing: list[SpanRow], places: Places) -> None:
        sights = self._sights(group_id, existing, places)
        jobs = self._jobs(group_id, existing)
        if self._waits(group_id, existing, sights, jobs):
            return
        claims = self._claims(group_id, sights)
        if not existing and len(sights) < 2:  # the usual case: a new response, seen in one place
            for claim in claims:
                for row in self.booking.rows(group_id, claim, jobs):
                    self._put(row, None)
            return
        if len(existing) == 1 == len(claims) and not jobs:
            same = self.booking.seen_again(group_id, claims[0], existing[0])
        else:
            same = None
        rows = [same] if same else [row for claim in claims for row in self.booking.rows(group_id, claim, jobs)]
        self._change(group_id, existing, rows, lone=same is not None)
        if group_id.startswith("codex:") and any(row.contested for row in existing):  # some may count no more
            self.uncontested.append((group_id,))
            self._keep(group_id, sights)
        elif places:  # else they are those that were kept
            self._keep(group_id, sights)

    def _change(self, group_id: str, existing: list[SpanRow], rows: list[SpanRow], *, lone: bool) -> None:
        """Put the rows of a group in the place of those that stand; a lone one may only have been seen once more."""
        before, after = {old.span_id: old for old in existing}, {row.span_id: row for row in rows}
        self._touch(group_id, before, after)
        for span_id, old in before.items():
            if span_id not in after:
                self._drop(old)
        for span_id, row in after.items():
            if lone:
                self._see_again(row, before[span_id])
            else:
                self._put(row, before.get(span_id))

    def _waits(self, group_id: str, existing: list[SpanRow], sights: list[Sight], jobs: list[Job]) -> bool:
        """Return whether a group is decided later, with all that is known by then; its sightings are kept."""
        return False

    def _keep(self, group_id: str, sights: list[Sight]) -> None:
        """Keep the sightings of a response one by one where there are several."""
        if len(sights) > 1:
            self.sightings += [row_of_sight(group_id, sight) for sight in sights]

    def _touch(self, group_id: str, before: dict[str, SpanRow], after: dict[str, SpanRow]) -> None:
        """Note the sessions of which another response, or another time of one, is now held by no other session."""
        alone = [
            {
                (row.span_id, sight_of_span(group_id, row).session_key, row.occurred_at)
                for row in rows.values()
                if row.contested < SHARED
            }
            for rows in (before, after)
        ]
        self.touched.update(session for _, session, _ in alone[0] ^ alone[1])

    def _sights(self, group_id: str, existing: list[SpanRow], places: Places) -> list[Sight]:
        """Return all sightings of a group: those kept, those that a lone row stands for, and the news.

        Left out are running totals of sessions that have records of their own: they never count again.
        """
        if not existing and not group_id.startswith("codex:"):
            known = places  # nothing was seen before: where nothing counts, nothing is kept either
        else:
            known = {}
            for row in self._kept(group_id, existing):
                sight = sight_of_row(row)
                sight.order = self.booking.order(sight.position)
                _merge(known, sight)
            if not known:
                for span in existing:
                    if not span.part:
                        _merge(known, self._sight_of_span(group_id, span))
            for sight in places.values():
                _merge(known, sight)
        self.touched.update(sight.session_key for sight in places.values())
        if group_id.startswith("codex:~"):
            return [sight for sight in known.values() if not self.known.session(sight.session_key).has_records]
        return list(known.values())

    def _kept(self, group_id: str, existing: list[SpanRow]) -> list[SightingRow]:
        """Return the sightings that are kept of a group: only those of contested rows are, and of totals of Codex."""
        if any(row.contested for row in existing) or group_id.startswith("codex:"):
            return self.store.sightings(group_id)
        return []

    def _claims(self, group_id: str, sights: list[Sight]) -> list[Claim]:
        if not sights:
            return []
        contested = len(sights) > 1
        if not contested and not group_id.startswith("codex:"):
            return clients.decide(group_id, sights, Facts({}))
        return clients.decide(group_id, sights, self._facts(sights))

    def _facts(self, sights: list[Sight]) -> Facts:
        return self.known.facts({sight.session_key for sight in sights})

    def _jobs(self, group_id: str, existing: list[SpanRow]) -> list[Job]:
        """Return the delegations of a response. A call stands in the response's own line, so none is missed."""
        changed = self.calls.get(group_id, {})
        if group_id not in self.calls and not any(row.part == "tool" for row in existing):
            return []
        jobs = {row[0]: Job(*row) for row in self.store.all("jobs_of_group", group_id)} | changed
        return sorted(jobs.values(), key=lambda job: job.call_id)

    # what changes rows that stand

    def _rename_agents(self) -> None:
        """Bring the spans of an agent whose name changed under its name: its type where that is known, else its id."""
        for key, agent_id in self.known.changed_agents:
            agent = self.known.agent(key, agent_id)
            if agent is None:
                continue
            name = self.known.agent_type(agent) or agent_id
            for old in self.store.spans("agent_spans", key, agent_id):
                values = self.known.values(old.dimension_id)
                if values.agent != name:
                    row = copy_of(old)
                    row.dimension_id = self.known.dimension(values._replace(agent=name))
                    self._put(row, old)
        self._flush()

    def _move_turns(self) -> None:
        """Bring the turns of sub-agents' sessions, and of what those started, to the session at the root."""
        for key in self.delegated:
            for turn_key, turn_id, _, agent_id, started_at in self.store.all("session_turns", key):
                if turn_id:
                    account = self.known.account(key, "")
                    moved = (turn_key, turn_id, account.session_key, agent_id or account.agent_id, started_at)
                    self.store.run("put_turn", [moved])
        if self.delegated:
            self.known.forget_turns()

    def _reassign_turns(self) -> None:
        """Move spans of earlier slices that stand after a prompt which became known only now."""
        for (key, agent_id), since in self.turns_from.items():
            moved: dict[str, int] = {}
            for old in self.store.spans("agent_spans_since", key, since, agent_id):
                turn_key = self.known.turn(key, agent_id, old.occurred_at)
                if old.part != "tool" and turn_key != old.turn_key:
                    moved[old.span_id] = turn_key
                    self._put_in_turn(old, turn_key)
            groups = {clients.group_of_span(span_id) for span_id in moved}
            for spans in self.store.groups_spans(groups).values() if moved else ():
                for old in spans:  # a call is in the turn of the response that made it
                    if old.part == "tool" and old.parent in moved:
                        self._put_in_turn(old, moved[old.parent])
        self._flush()

    def _put_in_turn(self, old: SpanRow, turn_key: int) -> None:
        row = copy_of(old)
        row.turn_key = turn_key
        self._put(row, old)

    def _reprice(self) -> None:
        spans = self.repriced | self.book.waiting(self.recorded) | self.book.spans_of(self.requoted)
        for span_id in self._in_order(spans):
            for old in self.store.spans("span", span_id):
                usage = self.booking.usage_of(old)
                if usage is not None:
                    row = copy_of(old)
                    self.booking.price(row, usage)
                    self._put(row, old)
        self._flush()

    def _in_order(self, spans: Iterable[str]) -> list[str]:
        """Return span ids in the order of the log, so that an event that tells of many is read once."""
        found = [(old.source_position, span_id) for span_id in spans for old in self.store.spans("span", span_id)]
        return [span_id for _, span_id in sorted(found)]

    # writing

    def find_live(self, span_id: str) -> SpanRow | None:
        """Return the row of a span of our own agent, as it stands with this slice."""
        return self.rows.get(span_id) or next(iter(self.store.spans("span", span_id)), None)

    def put_live(self, row: SpanRow, old: SpanRow | None) -> None:
        """Keep a row of a span of our own agent in place of the old one."""
        self._put(row, old)

    def _put(self, row: SpanRow, old: SpanRow | None) -> None:
        if row == old:
            return
        if old is not None:
            self._count(old, -1)
        self._count(row, 1)
        self.rows[row.span_id] = row

    def _see_again(self, row: SpanRow, old: SpanRow) -> None:
        """Write a row of which only what `rows.SEEN_AGAIN` names can be another."""
        if row != old:
            self._count(old, -1)
            self._count(row, 1)
            self.again.append(seen_again(row))

    def _drop(self, old: SpanRow) -> None:
        self._count(old, -1)
        self.store.run("drop_span", [(old.span_id,)])

    def _count(self, row: SpanRow, sign: int) -> None:
        values = self.known.values(row.dimension_id)
        self.change.add(row, values.kind, values.status, sign)

    def _flush(self) -> None:
        self.store.run("drop_sightings", self.uncontested)
        self.store.run("put_sighting", self.sightings)
        self.uncontested.clear()
        self.sightings.clear()
        self.store.run("put_span", [bound(row) for row in self.rows.values()])
        self.rows.clear()
        self.store.run("see_span_again", self.again)
        self.again.clear()


def _merge(places: Places, sight: Sight) -> None:
    """Add a sighting to those of its group."""
    known = places.get(sight.place)
    if known is None:
        places[sight.place] = sight
    else:
        known.merge(sight)
