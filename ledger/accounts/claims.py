"""Which response counts, once, and for whom: pure decisions over everything that was seen of it.

A response can be seen on several lines, in several files, under several sessions. The sightings are a set:
whatever order they were read in, the same claims come out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec


class Sight(msgspec.Struct):
    """What was seen of a response in one place: a session, an agent in it, as itself or as a copy."""

    variant: str
    """The provider's request id, empty where the client does not keep it."""
    session_key: int
    """The native session of the lines."""
    agent_id: str
    sidechain: bool
    nested: bool
    first_at: int
    last_at: int
    lines: int
    final: bool
    ending: str
    """`cut` or `cancelled` where the client says that the response broke off, else empty."""
    rank: int
    digest: int
    position: int
    index: int
    """Event and observation that hold the fullest line."""
    order: tuple[int, bytes] = (0, b"")
    """When that event was recorded, and its id: which of two that are equal counts, wherever they stand in the log."""

    @property
    def place(self) -> tuple[str, int, str, bool, bool]:
        """What tells sightings of one response apart."""
        return (self.variant, self.session_key, self.agent_id, self.sidechain, self.nested)

    def merge(self, other: Sight) -> None:
        """Take in another sighting of the same place. Commutative and associative."""
        self.first_at = min(self.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)
        self.lines += other.lines
        self.final = self.final or other.final
        self.ending = max(self.ending, other.ending)
        mine, theirs = (self.rank, self.digest), (other.rank, other.digest)
        if theirs > mine or (theirs == mine and (other.order, other.index) < (self.order, self.index)):
            self.rank, self.digest, self.order = other.rank, other.digest, other.order
            self.position, self.index = other.position, other.index


SHARED = 2
"""What a row's `contested` is where several sessions hold the response."""


class SessionFacts(NamedTuple):
    """What deciding needs to know of a session."""

    session_id: str = ""
    forked_from: str = ""
    parent: str = ""
    has_records: bool = False


class Claim(NamedTuple):
    """One response that counts: where it belongs and which line tells its figures."""

    variant: str
    owner: Sight
    """The sighting it is attributed to."""
    best: Sight
    """The sighting that has the fullest usage."""
    occurred_at: int
    last_at: int
    final: bool
    ending: str
    lines: int
    copied_lines: int
    replayed_lines: int
    contested: int


class Facts(NamedTuple):
    """What deciding may ask of the sessions that hold a response."""

    sessions: Mapping[int, SessionFacts]
    earliest_lacking: Callable[[int, int], int | None] = lambda holder, other: None
    """(holder, other) -> when the first response was that `holder` has and `other` lacks; None: it has none."""


OwnerRule = Callable[[list[Sight], Facts], int]


def lone_claim(sight: Sight) -> Claim:
    """Return the claim of a response that was seen in one place only, under its own request id."""
    return Claim(
        sight.variant,
        sight,
        sight,
        sight.first_at,
        sight.last_at,
        sight.final,
        sight.ending,
        sight.lines,
        0,
        0,
        0,
    )


def by_request(sights: list[Sight], facts: Facts) -> list[Claim]:
    """Claims of a response known by message id and request id (Claude Code).

    Each request id is a response of its own, except a replay: a sidechain repeats its parent's message under
    a new request id. A line without a request id says nothing of its own.
    """
    variants: dict[str, list[Sight]] = {}
    for sight in sights:
        variants.setdefault(sight.variant, []).append(sight)
    mains = sorted(name for name, seen in variants.items() if not all(s.sidechain for s in seen))
    kept = [name for name in mains if name] or mains
    if not kept:
        kept = [min(variants, key=lambda name: (not name, min(s.first_at for s in variants[name]), name))]
    home = kept[0]
    if home and "" in variants and ("" in mains or not mains):
        variants[home] += variants.pop("")
    replayed = sum(s.lines for name, seen in variants.items() if name not in kept for s in seen)
    places = len(sights)
    return [
        _claim(name, variants[name], facts, replayed if name == home else 0, places, owner_by_time) for name in kept
    ]


def by_response(sights: list[Sight], facts: Facts) -> list[Claim]:
    """Claims of a response whose id is unique everywhere (Codex `response_id`): one, with the first of a fork."""
    return [_claim("", sights, facts, 0, len(sights), owner_by_lineage)]


def by_copy(sights: list[Sight], facts: Facts) -> list[Claim]:
    """Claims of messages of one instant, known by their own ids (opencode): a fork copies them under new ones.

    Messages of two sessions that began and ended at one instant with the same tokens are one where the one is older
    than its session, or where both also said and called the same. One that had not ended when it was copied is one
    with what it became. The one that is not older than its session is the original, then the one with the smallest
    id: ids grow with time.
    """
    messages: dict[tuple[str, int], list[Sight]] = {}
    for sight in sights:
        messages.setdefault((sight.variant, sight.session_key), []).append(sight)
    families: list[list[tuple[str, int]]] = []
    for own in sorted(messages, key=lambda name: (messages[name][0].nested, *name)):
        family = next((one for one in families if _repeats(own, one, messages)), None)
        if family is None:
            families.append([own])
        else:
            family.append(own)
    claims = []
    for family in families:
        variant, owner = family[0]
        seen = [sight for name in family for sight in messages[name]]
        claims.append(_claim(variant, seen, facts, 0, len(sights), _owned_by(owner)))
    return claims


def _owned_by(session_key: int) -> OwnerRule:
    return lambda seen, facts: session_key


def _repeats(
    own: tuple[str, int], family: list[tuple[str, int]], messages: Mapping[tuple[str, int], list[Sight]]
) -> bool:
    """Return whether a message is a copy of a family's: of another session than all of it, and telling the same."""
    if any(own[1] == session for _, session in family):
        return False
    copy, original = (_fullest(messages[name]) for name in (own, family[0]))
    copied = any(sight.nested for sight in messages[own])
    if copied and not copy.final:
        return 0 < copy.rank <= original.rank
    same = copy.rank == original.rank and copy.last_at == original.last_at
    return same and (copied or copy.digest == original.digest)


def _fullest(seen: list[Sight]) -> Sight:
    return max(seen, key=lambda sight: (sight.rank, sight.final, sight.last_at, sight.digest))


def by_lineage(sights: list[Sight], facts: Facts) -> list[Claim]:
    """Claims of a step known only by the running totals up to it (Codex `token_count`).

    Two sessions with equal totals are two sessions, unless one was forked from the other: then its equal
    prefix is a replay. Sessions that have records of their own responses do not count by totals.
    """
    counted = [s for s in sights if not facts.sessions[s.session_key].has_records]
    families: dict[int, list[Sight]] = {}
    holders = {s.session_key for s in counted}
    ids = {facts.sessions[key].session_id: key for key in holders}
    for sight in counted:
        families.setdefault(_eldest(sight.session_key, facts, ids), []).append(sight)
    return [
        _claim(facts.sessions[eldest].session_id, family, facts, 0, len(sights), owner_by_lineage)
        for eldest, family in sorted(families.items(), key=lambda item: facts.sessions[item[0]].session_id)
    ]


def _claim(variant: str, seen: list[Sight], facts: Facts, replayed: int, places: int, owner_of: OwnerRule) -> Claim:
    sessions = {s.session_key for s in seen}
    owner_key = next(iter(sessions)) if len(sessions) == 1 else owner_of(seen, facts)
    own = [s for s in seen if s.session_key == owner_key]
    owner = min(own, key=lambda s: (s.sidechain, s.nested, s.first_at, s.agent_id))
    fullest = max((s.rank, s.session_key == owner_key, s.digest) for s in seen)
    equal = [s for s in seen if (s.rank, s.session_key == owner_key, s.digest) == fullest]
    best = min(equal, key=lambda s: (s.order, s.index))
    lines = sum(s.lines for s in own)
    return Claim(
        variant,
        owner,
        best,
        min(s.first_at for s in own),
        max(s.last_at for s in own),
        any(s.final for s in seen),
        max(s.ending for s in seen),
        lines,
        sum(s.lines for s in seen) - lines,
        replayed,
        0 if places == 1 else 1 if len(sessions) == 1 else SHARED,
    )


def owner_by_time(seen: list[Sight], facts: Facts) -> int:
    """Return the session that comes first: whose earliest response that the other lacks is earliest.

    A session that has none, being wholly contained in the other, comes before it. Of several sessions the one
    that comes behind the fewest others owns, then the one that saw the response first.
    """
    keys = sorted({s.session_key for s in seen})

    def behind(key: int, other: int) -> bool:
        mine, theirs = facts.earliest_lacking(key, other), facts.earliest_lacking(other, key)
        return (-1 if mine is None else mine) > (-1 if theirs is None else theirs)

    def order(key: int) -> tuple[int, int, str]:
        losses = sum(behind(key, other) for other in keys if other != key)
        first_at = min(s.first_at for s in seen if s.session_key == key)
        return (losses, first_at, facts.sessions[key].session_id)

    return min(keys, key=order)


def owner_by_lineage(seen: list[Sight], facts: Facts) -> int:
    """Return the session that the others were forked from, by what they say themselves; else by time."""
    ids = {facts.sessions[s.session_key].session_id: s.session_key for s in seen}
    roots = {_eldest(key, facts, ids) for key in ids.values()}
    if len(roots) == 1:
        return roots.pop()
    return owner_by_time([s for s in seen if s.session_key in roots], facts)


def _eldest(key: int, facts: Facts, holders: Mapping[str, int]) -> int:
    """Return the furthest ancestor among the holders, following fork and parent links without a gap."""
    visited = {key}
    while True:
        fact = facts.sessions[key]
        above = holders.get(fact.forked_from) if fact.forked_from else None
        if above is None and fact.parent:
            above = holders.get(fact.parent)
        if above is None or above in visited:
            return key
        visited.add(above)
        key = above
