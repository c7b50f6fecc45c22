"""From an observation to a sighting, and between sightings and the rows that keep them."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from ledger.accounts import clients
from ledger.accounts.claims import Sight
from ledger.accounts.rows import SightingRow, SpanRow
from ledger.accounts.store import session_key
from ledger.events import sources as seen
from ledger.wire.usage import Part, Usage

_MASK31 = (1 << 31) - 1
FAILED, CUT = 0, -1
"""Ranks of what has no usage: below every response, an ending that says nothing else below a failure."""


def sight_of(
    client: str, one: Any, parts: tuple[Part, ...], context: seen.Context, key: int, position: int, index: int
) -> Sight:
    """Return the sighting that an observation of a response, a total or an ending is; `parts` is its reading."""
    kind = type(one)
    if client == "opencode":
        return _record_sight(one, parts, context, key, position, index)
    if kind is seen.Response:
        return Sight(
            clients.quoted(one.request), key, context.agent, context.sidechain or one.nested, one.nested,
            one.at, one.last_at if one.last_at > one.at else one.at, one.lines,
            bool(one.stop) or client != "claude-code", "", rank_of_parts(parts),
            _digest(context, one.model, one.cost, bytes(one.usage)), position, index,
        )  # fmt: skip
    if kind is seen.Cumulative:
        totals = (bytes(one.total), bytes(one.before), bytes(one.last))
        digest = _digest(context, one.model, one.carried, *totals)
        return Sight("", key, context.agent, context.sidechain, False, one.at, one.at, one.lines, True, "",
                     rank_of_parts(parts), digest, position, index)  # fmt: skip
    rank, ending, lines = (CUT, one.by, 0) if kind is seen.Cut else (FAILED, "", one.lines)
    said = (one.status, one.attempt) if kind is seen.Failure else ()
    return Sight("", key, context.agent, context.sidechain, False, one.at, one.at, lines, True, ending,
                 rank, _digest(context, *said), position, index)  # fmt: skip


def _record_sight(
    one: Any, parts: tuple[Part, ...], context: seen.Context, key: int, position: int, index: int
) -> Sight:
    """Return the sighting of a message of opencode: its id is the variant, and its digest is what a copy repeats."""
    variant = clients.quoted(clients.message_of(one.id))
    if type(one) is seen.Response:
        usage = parts[0].usage if parts else None
        ended = one.last_at or one.at
        digest = _told(one.evidence, one.model, one.role, one.cost, usage)
        return Sight(variant, key, context.agent, False, one.copied, one.at, ended, one.lines, bool(one.evidence), "",
                     rank_of_parts(parts), digest, position, index)  # fmt: skip
    rank, ending, lines = (CUT, one.by, 0) if type(one) is seen.Cut else (FAILED, "", one.lines)
    said = (one.status, one.error) if type(one) is seen.Failure else (one.by,)
    return Sight(variant, key, context.agent, False, False, one.at, one.at, lines, True, ending,
                 rank, _told(variant, *said), position, index)  # fmt: skip


def _told(*told: object) -> int:
    text = "\0".join(str(one) for one in told).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1 | 1


def rank_of_parts(parts: tuple[Part, ...]) -> int:
    """Return what makes the fullest usage win: output tokens first, then all tokens, 31 bits each; at least 1."""
    return rank_of(parts[0].usage) if parts else 1


def rank_of(usage: Usage) -> int:
    """Return the same of one reading."""
    output = usage.output or 0
    total = (usage.input_uncached or 0) + (usage.cache_read or 0) + output
    total += (usage.cache_write_5m or 0) + (usage.cache_write_1h or 0)
    return ((output if output < _MASK31 else _MASK31) << 31 | (total if total < _MASK31 else _MASK31)) + 1


def _digest(context: seen.Context, *told: object) -> int:
    """Return the digest of all that the accounts take from one observation, but for its time and its price.

    Of two that are equal in this the one that was recorded first counts, so that what was priced once keeps its price.
    """
    parts = [_prefix(context.project, context.branch, context.provider)]
    parts += [one if type(one) is bytes else str(one).encode("utf-8", "surrogatepass") for one in told]
    return int.from_bytes(hashlib.blake2b(b"\0".join(parts), digest_size=8).digest(), "big") >> 1 | 1


@lru_cache(maxsize=256)
def _prefix(*words: str) -> bytes:
    return "\0".join(words).encode("utf-8", "surrogatepass")


def sight_of_span(group_id: str, span: SpanRow) -> Sight:
    """Return the one sighting that an uncontested row stands for, but for its digest, which no row has."""
    native, agent_id = span.session_key, span.agent_id
    variant = clients.variant_of_span(span.span_id)
    client = group_id.partition(":")[0]
    if client != "claude-code":  # a sub-agent has a session of its own, which is booked under its root
        variant = variant if client == "opencode" else ""
        if agent_id:
            native, agent_id = session_key(client, agent_id), ""
    return Sight(
        variant, native, agent_id, bool(span.sidechain), bool(span.nested), span.occurred_at,
        span.occurred_at if span.ended_at is None else span.ended_at, span.lines, bool(span.final), span.ending,
        span.rank, 0, span.source_position, span.source_index,
    )  # fmt: skip


def sight_of_row(row: SightingRow) -> Sight:
    """Return a sighting that was kept."""
    return Sight(
        row.variant, row.session_key, row.agent_id, bool(row.sidechain), bool(row.nested), row.first_at,
        row.last_at, row.lines, bool(row.final), row.ending, row.rank, row.digest, row.source_position,
        row.source_index,
    )  # fmt: skip


def row_of_sight(group_id: str, sight: Sight) -> tuple[Any, ...]:
    """Return a sighting as a row to keep."""
    return (
        group_id, sight.variant, sight.session_key, sight.agent_id, int(sight.sidechain), int(sight.nested),
        sight.first_at, sight.last_at, sight.lines, int(sight.final), sight.ending, sight.rank, sight.digest,
        sight.position, sight.index,
    )  # fmt: skip
