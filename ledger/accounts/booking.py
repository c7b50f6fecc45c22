"""From a claim to the rows that book it: the response, the calls made beside it, the sub-agents it started."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from ledger.accounts import clients
from ledger.accounts.claims import Claim, Sight
from ledger.accounts.entities import Job
from ledger.accounts.known import Account, Known
from ledger.accounts.live_usage import is_live
from ledger.accounts.live_usage import usage_of as live_usage_of
from ledger.accounts.prices import QuoteBook
from ledger.accounts.rows import Dimensions, SpanRow
from ledger.accounts.store import quote_key
from ledger.events import sources as seen
from ledger.events.envelope import Event
from ledger.events.outline import Outline, outline
from ledger.wire.usage import Part, Usage

NANO = 1_000_000_000
_COST_LIMIT = 1 << 62
_BODIES_MAX, _OUTLINES_MAX, _ORDERS_MAX = 32, 256, 100_000
"""How many events, how many of which little is decoded, and how many ids of events are kept from slice to slice."""

Order = tuple[int, bytes]
Body = seen.LinesObserved | seen.RecordsObserved | Outline


class Booking:
    """Makes span rows. Reads observations again from their events where a slice does not hold them."""

    def __init__(self, known: Known, book: QuoteBook, event_at: Callable[[int], Event]) -> None:
        self.known, self.book, self.event_at = known, book, event_at
        self.bodies: OrderedDict[int, Body] = OrderedDict()
        self._outlines: OrderedDict[int, Body] = OrderedDict()
        self._orders: dict[int, Order] = {}
        self.begin()

    def begin(self) -> None:
        """Forget what belongs to one slice. Events never change: a few are kept for the next."""
        while len(self.bodies) > _BODIES_MAX:
            self.bodies.popitem(last=False)
        if len(self._orders) > _ORDERS_MAX:
            self._orders.clear()
        self.parts: dict[tuple[int, int], tuple[Part, ...]] = {}
        """Readings of usage that the slice has made already, by event and observation."""
        self._dimension_ids: dict[tuple[object, ...], int] = {}
        self._agent_names: dict[tuple[object, ...], str] = {}

    def take(self, event: Event, body: Body) -> None:
        """Keep the body of an event that is being folded."""
        self.bodies[event.position] = body
        self._orders[event.position] = (event.at, event.event_id)

    def body(self, position: int) -> Body:
        """Return the body of the event at a position."""
        body = self.bodies.get(position) or self._outlines.get(position)
        if body is None:
            event = self.event_at(position)
            body = self._outlines[position] = outline(event.type, event.schema, event.data)
            self._orders[position] = (event.at, event.event_id)
            if len(self._outlines) > _OUTLINES_MAX:
                self._outlines.popitem(last=False)
        return body

    def order(self, position: int) -> Order:
        """Return what comes first of two that are equal: when the event was recorded, and its id."""
        if position not in self._orders:
            event = self.event_at(position)
            self._orders[position] = (event.at, event.event_id)
        return self._orders[position]

    def parts_at(self, client: str, one: Any, provider: str, position: int, index: int) -> tuple[Part, ...]:
        """Return the reading of an observation's usage, made once a slice."""
        parts = self.parts.get((position, index))
        if parts is None:
            parts = self.parts[position, index] = clients.parts_of(client, one, provider)
        return parts

    def rows(self, group_id: str, claim: Claim, jobs: Iterable[Job]) -> list[SpanRow]:
        """Return the rows of a claim: the response's own first, then what stands beside it."""
        best = claim.best
        body = self.body(best.position)
        one: Any = body.observations[best.index]
        context = body.contexts[one.c]
        client = group_id.partition(":")[0]
        account = self.account(claim.owner)
        base = self._base_row(group_id, claim, account, one)
        rows = []
        parts = self.parts_at(client, one, context.provider, best.position, best.index)
        for number, part in enumerate(parts or (None,)):
            row = _beside(base, part.role, number) if number and part else base
            row.dimension_id = self._dimension(client, claim, one, context, part, account)
            if part is not None:
                if part.role == "fallback":
                    row.attempt_kind = "fallback"
                fill_usage(row, part.usage)
                quote = _quote_of(body, one, number)
                row.named_quote = quote_key(quote) if quote else 0
                self.price(row, part.usage)
            rows.append(row)
        rows += [self._tool_row(base, job) for job in jobs if job.called_at is not None]
        return rows

    def seen_again(self, group_id: str, claim: Claim, old: SpanRow) -> SpanRow | None:
        """Return the row of a claim whose figures and owner are those that stand; None where anything else is another.

        The same as `rows`, without reading the event: of a response that was seen again mostly the lines change.
        """
        best, owner = claim.best, claim.owner
        account = self.account(owner)
        stands = (
            old.source_position, old.source_index, old.session_key, old.agent_id, old.occurred_at, old.final,
            old.ending, old.sidechain, old.nested, old.span_id,
        )  # fmt: skip
        told = (
            best.position, best.index, *account, claim.occurred_at, claim.final, claim.ending, owner.sidechain,
            owner.nested, f"{group_id}:{claim.variant}",
        )  # fmt: skip
        name = self.agent_name(owner.session_key, account, owner.sidechain)
        if stands != told or self.known.values(old.dimension_id).agent != name:
            return None
        row = copy_of(old)
        row.turn_key = self.known.turn(*account, claim.occurred_at)
        row.ended_at, row.rank, row.contested = claim.last_at, best.rank, claim.contested
        row.lines, row.copied_lines, row.replayed_lines = claim.lines, claim.copied_lines, claim.replayed_lines
        return row

    def account(self, owner: Sight) -> Account:
        """Return whose books a sighting is in."""
        return self.known.account(owner.session_key, owner.agent_id)

    def _base_row(self, group_id: str, claim: Claim, account: Account, one: Any) -> SpanRow:
        best, owner = claim.best, claim.owner
        row = SpanRow(
            f"{group_id}:{claim.variant}", account.session_key, account.agent_id,
            self.known.turn(account.session_key, account.agent_id, claim.occurred_at), 0, claim.occurred_at,
            ended_at=claim.last_at, source_position=best.position, source_index=best.index,
            final=int(claim.final), ending=claim.ending, lines=claim.lines, copied_lines=claim.copied_lines,
            replayed_lines=claim.replayed_lines, rank=best.rank,
            sidechain=int(owner.sidechain), nested=int(owner.nested), contested=claim.contested,
        )  # fmt: skip
        if type(one) is seen.Failure:
            row.http_status, row.attempt = one.status, max(1, one.attempt)
            if one.attempt > 1:
                row.attempt_kind = "retry"
        elif type(one) is seen.Response and one.cost:
            row.reported_cost_nanousd = nano(one.cost)
        return row

    def _dimension(
        self, client: str, claim: Claim, one: Any, context: seen.Context, part: Part | None, account: Account
    ) -> int:
        """Return the key of a row's dimensions, made once for all rows of an event that share them."""
        kind = type(one)
        agent = self.agent_name(claim.owner.session_key, account, claim.owner.sidechain)
        who = "agent" if agent else "main"
        model = one.model if kind is seen.Response or kind is seen.Cumulative else ""
        if part is not None and part.role != "message":
            who = {"compaction": "compact", "advisor": "advisor"}.get(part.role, who)
            model = part.model or model
        status = "failed" if kind is seen.Failure else claim.ending or "succeeded"
        shared = (claim.best.position, one.c, who, agent, model, status)
        found = self._dimension_ids.get(shared)
        if found is None:
            provider = clients.provider_of(client, context.provider)
            values = Dimensions(
                context.project, context.branch, client, who, agent, provider, model, "model", "", status
            )
            found = self._dimension_ids[shared] = self.known.dimension(values)
        return found

    def agent_name(self, native: int, account: Account, sidechain: bool) -> str:
        """Return the name of the sub-agent of a session: its type where known, else its id; empty for the root."""
        if not account.agent_id:
            return "sidechain" if sidechain else ""
        named = (native, *account)
        name = self._agent_names.get(named)
        if name is None:
            known = self.known.agent(account.session_key, account.agent_id)
            said = self.known.agent_type(known) if known else self.known.session(native).agent_type
            name = self._agent_names[named] = said or account.agent_id
        return name

    def _tool_row(self, base: SpanRow, job: Job) -> SpanRow:
        """Return the row of a call that started a sub-agent: the sub-agent's turns hang below it."""
        called_at = job.called_at or 0
        row = SpanRow(
            f"{base.span_id}+tool:{clients.quoted(job.call_id)}", base.session_key, base.agent_id, base.turn_key,
            0, called_at, parent=base.span_id, ended_at=job.returned_at, part="tool", call_id=job.call_id,
            lines=0, source_position=base.source_position, source_index=base.source_index,
            sidechain=base.sidechain, contested=base.contested,
        )  # fmt: skip
        if job.returned_at is not None:
            row.waited_us = max(0, job.returned_at - called_at)
        status = {"": "open", "completed": "succeeded"}.get(job.status, "failed")
        values = self.known.values(base.dimension_id)
        row.dimension_id = self.known.dimension(values._replace(kind="tool", tool=job.tool, status=status))
        return row

    def price(self, row: SpanRow, usage: Usage) -> None:
        """Price a row by the quote it names, or by what replaced that; keep the figure before."""
        first, final = self.book.of_span(row.span_id, row.named_quote)
        row.quote = final.key if final else 0
        cost, lower, upper = final.price(usage) if final else (None, False, False)
        row.cost_nanousd = cost
        placeholder = clients.is_placeholder(row.span_id, row.final, row.part, usage.output)
        row.partial = int(placeholder or bool(row.ending))
        row.lower_bound = int(lower or usage.unsplit_cache_write or row.partial)
        row.upper_bound = int(upper or usage.upper_bound)
        row.first_cost_nanousd = cost if first is final else (first.price(usage)[0] if first else None)

    def usage_of(self, row: SpanRow) -> Usage | None:
        """Return the usage that a row's figures came from, read again from its event."""
        if is_live(row.span_id):
            event = self.event_at(row.source_position)
            return live_usage_of(event, row, self.known.values(row.dimension_id).provider)
        body = self.body(row.source_position)
        one = body.observations[row.source_index]
        parts = clients.parts_of(row.span_id.partition(":")[0], one, body.contexts[one.c].provider)
        number = int(row.part[len(row.part.rstrip("0123456789")) :] or 0)
        return parts[number].usage if number < len(parts) and row.part != "tool" else None


def copy_of(row: SpanRow) -> SpanRow:
    """Return a row to change, with the old one kept for the difference."""
    return SpanRow(*msgspec.structs.astuple(row))


def _beside(base: SpanRow, role: str, number: int) -> SpanRow:
    row = copy_of(base)
    row.part = f"{role}{number}"
    row.span_id = f"{base.span_id}+{row.part}"
    row.parent = base.span_id
    row.lines = row.copied_lines = row.replayed_lines = 0
    row.reported_cost_nanousd = None
    row.attempt_kind = "first"
    return row


def fill_usage(row: SpanRow, usage: Usage) -> None:
    """Put the counts of a usage into a row."""
    row.input_uncached, row.cache_read = usage.input_uncached, usage.cache_read
    row.cache_write_5m, row.cache_write_1h = usage.cache_write_5m, usage.cache_write_1h
    row.output, row.reasoning = usage.output, usage.reasoning
    row.reported_total, row.web_searches = usage.reported_total, usage.web_searches


def _quote_of(body: Body, one: Any, number: int) -> str:
    """Return the name of the quote that the event gives a part, empty where it had none."""
    index = one.quote
    if number:
        index = one.part_quotes[number - 1] if number <= len(one.part_quotes) else -1
    return body.quotes[index] if 0 <= index < len(body.quotes) else ""


def nano(usd: str) -> int | None:
    """Return a decimal text of dollars in nano-dollars, rounded half-even; None where it is no amount."""
    try:
        value = round(Decimal(usd) * NANO)
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return value if -_COST_LIMIT < value < _COST_LIMIT else None
