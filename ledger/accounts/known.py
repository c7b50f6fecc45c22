"""The rows that a slice has looked up or changed, written once at its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from ledger.accounts.claims import Facts, SessionFacts
from ledger.accounts.entities import Agent, Job, Label, Session, Source, smaller_word
from ledger.accounts.rows import Dimensions
from ledger.accounts.store import Store, dimension_key, session_key
from ledger.errors import LedgerError
from ledger.ids import row_key

_tuple = msgspec.structs.astuple


class Account(NamedTuple):
    """Whose books a response is in: a session, and a sub-agent in it (empty for the root)."""

    session_key: int
    agent_id: str


class Turns:
    """The turns of one agent in one session, by start."""

    __slots__ = ("keys", "last_at", "starts")

    def __init__(self, starts: list[int], keys: list[int]) -> None:
        self.starts, self.keys = starts, keys
        self.last_at = -(1 << 62)
        """When the last usual response was that was booked in one of them."""


_KEPT_MAX = 20_000
"""How many rows of one kind are kept in memory from slice to slice."""


class Known:
    """Rows by key. `begin` forgets what another process may have changed meanwhile; dimensions never change.

    `alone`: nobody else writes these tables, so that what was looked up is kept from slice to slice.
    """

    def __init__(self, store: Store, *, alone: bool = False) -> None:
        self.store, self.alone = store, alone
        self._dimensions: dict[Dimensions, int] = {}
        self._values: dict[int, Dimensions] = {}
        self.epoch = 0
        """Another number whenever the books that a session is in, or the name of a sub-agent, may be others."""
        self.sessions: dict[int, Session] = {}
        self.agents: dict[tuple[int, str], Agent | None] = {}
        self.sources: dict[str, Source] = {}
        self._turns: dict[tuple[int, str], Turns] = {}
        self.lacking: dict[tuple[int, int], int | None] = {}
        """Answers of `_earliest_lacking`; to be forgotten when it may be another."""
        self.begin()

    def begin(self) -> None:
        """Begin another slice: what was changed is written, what may have changed is forgotten."""
        kept: tuple[dict[Any, Any], ...] = (self.sessions, self.agents, self.sources, self._turns)
        if not self.alone or any(len(rows) > _KEPT_MAX for rows in kept):
            for rows in kept:
                rows.clear()
            self.epoch += 1
        if not self.alone:
            self.lacking.clear()
        self.changed_sessions: set[int] = set()
        self.changed_agents: set[tuple[int, str]] = set()
        self.changed_sources: set[str] = set()
        self.jobs: dict[int, Job] = {}
        self.changed_jobs: set[int] = set()
        self.labels: dict[tuple[int, str], Label] = {}
        self.purged: set[tuple[str, str, str, int]] = set()
        self.new_turns: list[tuple[int, str, int, str, int | None]] = []

    def write(self) -> None:
        """Write what was made or changed."""
        run = self.store.run
        run("put_turn", self.new_turns)
        for _, _, session, agent_id, _ in self.new_turns:
            self._turns.pop((session, agent_id), None)
        run("put_session", [_tuple(self.sessions[key]) for key in self.changed_sessions])
        run("put_agent", [_tuple(agent) for key in self.changed_agents if (agent := self.agents[key])])
        run("put_job", [_tuple(self.jobs[key]) for key in self.changed_jobs])
        run("put_source", [_tuple(self.sources[stream_id]) for stream_id in self.changed_sources])
        run("put_label", [_tuple(label) for label in self.labels.values()])
        run("put_purged", list(self.purged))
        for written in (self.new_turns, self.changed_sessions, self.changed_jobs, self.changed_sources):
            written.clear()

    def source(self, stream_id: str) -> Source:
        """Return how far a file was read, to be changed; its `source.opened` must have been folded."""
        source = self.sources.get(stream_id)
        if source is None:
            row = self.store.one("source", stream_id)
            if row is None:
                raise LedgerError(f"{stream_id}: has lines but was never opened: run `ledger verify`, restore a copy")
            source = self.sources[stream_id] = Source(*row)
        self.changed_sources.add(stream_id)
        return source

    def open(self, source: Source) -> None:
        """Take in a file that is met for the first time."""
        self.sources[source.stream_id] = source
        self.changed_sources.add(source.stream_id)

    def set_label(self, label: Label) -> None:
        """Take in a label: of several the latest recorded holds, in whatever order the books are read."""
        key = (label.session_key, label.label)
        known = self.labels.get(key)
        if known is None:
            row = self.store.one("label", *key)
            known = Label(*row) if row else label
        later = (label.set_at, label.event_id) > (known.set_at, known.event_id)
        self.labels[key] = label if later else known

    def session(self, key: int, session_id: str = "", client: str = "") -> Session:
        """Return a session's row, made where it is new. Raises LedgerError if two sessions share a key."""
        session = self.sessions.get(key)
        if session is None:
            row = self.store.one("session", key)
            session = self.sessions[key] = Session(*row) if row else Session(key, session_id, client)
            if row is None:
                self.changed_sessions.add(key)
        if session_id and session.session_id != session_id:
            raise LedgerError(f"two sessions have one key ({session.session_id}, {session_id}): report this")
        return session

    def account(self, key: int, agent_id: str) -> Account:
        """Return whose books a native session is in: a sub-agent's own session is booked under its root."""
        session = self.session(key)
        if not session.parent:
            return Account(key, agent_id)
        root, visited = session, {key}
        while root.parent:
            above = session_key(root.client, root.parent)
            if above in visited:
                break
            visited.add(above)
            root = self.session(above, root.parent, root.client)
        return Account(root.session_key, session.session_id)

    def facts(self, keys: Iterable[int]) -> Facts:
        """Return what deciding needs to know of sessions."""
        return Facts({key: self._facts(key) for key in keys}, self._earliest_lacking)

    def _facts(self, key: int) -> SessionFacts:
        session = self.session(key)
        return SessionFacts(session.session_id, session.forked_from, session.parent, bool(session.has_records))

    def _earliest_lacking(self, holder: int, other: int) -> int | None:
        """Return when the first response was that one session holds and the other lacks, by what is written."""
        pair = (holder, other)
        if pair not in self.lacking:
            if self.session(holder).client != "claude-code":  # where sub-agents have sessions of their own
                found = [row[0] for row in self.store.all("earliest_own_of_agent", *self.account(holder, ""))]
            else:
                found = [row[0] for row in self.store.all("earliest_own", holder)]
            found += [row[0] for row in self.store.all("earliest_lacking", holder, other) if row[0] is not None]
            self.lacking[pair] = min(found, default=None)
        return self.lacking[pair]

    def agent(self, key: int, agent_id: str) -> Agent | None:
        """Return what is known of a sub-agent, None where that is nothing."""
        try:
            return self.agents[key, agent_id]
        except KeyError:
            row = self.store.one("agent", key, agent_id)
            agent = self.agents[key, agent_id] = Agent(*row) if row else None
            return agent

    def learn_agent(self, key: int, agent_id: str, agent_type: str, call_id: str) -> None:
        """Take in a sub-agent's name and the call that started it, either may be empty."""
        agent = self.agent(key, agent_id)
        if agent is None:
            agent = self.agents[key, agent_id] = Agent(key, agent_id)
            self.changed_agents.add((key, agent_id))
        before = (agent.agent_type, agent.call_id)
        agent.agent_type = smaller_word(agent.agent_type, agent_type)
        agent.call_id = smaller_word(agent.call_id, call_id)
        if before != (agent.agent_type, agent.call_id):
            self.rename_agent(key, agent_id)

    def rename_agent(self, key: int, agent_id: str) -> None:
        """Note that a sub-agent's call says another type than before."""
        if self.agent(key, agent_id) is not None:
            self.changed_agents.add((key, agent_id))
            self.epoch += 1

    def agent_type(self, agent: Agent) -> str:
        """Return what kind of sub-agent it is: as its own file says, else as the call that started it."""
        if agent.agent_type or not agent.call_id:
            return agent.agent_type
        key = row_key("job", self.session(agent.session_key).client, agent.call_id)
        job = self.jobs.get(key)
        if job is None:
            row = self.store.one("job", key)
            return Job(*row).agent_type if row else ""
        return job.agent_type

    def agents_of_call(self, call_id: str) -> list[tuple[int, str]]:
        """Return the keys of the agents that a call is known to have started."""
        stored = [(row[0], row[1]) for row in self.store.all("agents_of_call", call_id)]
        changed = ((key, self.agents[key]) for key in self.changed_agents)
        fresh = [key for key, agent in changed if agent is not None and agent.call_id == call_id]
        return list(dict.fromkeys(stored + sorted(fresh)))

    def job(self, client: str, call_id: str) -> Job:
        """Return a delegation's row, made where it is new. It counts as changed."""
        key = row_key("job", client, call_id)
        job = self.jobs.get(key)
        if job is None:
            row = self.store.one("job", key)
            job = self.jobs[key] = Job(*row) if row else Job(key, call_id, client)
        self.changed_jobs.add(key)
        return job

    def forget_turns(self) -> None:
        """Look turns up again: they have gone from one session to another."""
        self._turns.clear()

    def turns(self, key: int, agent_id: str) -> Turns:
        """Return the turns of an agent in a session that have been written."""
        turns = self._turns.get((key, agent_id))
        if turns is None:
            rows = self.store.all("turns", key, agent_id)
            turns = self._turns[key, agent_id] = Turns([row[4] or 0 for row in rows], [row[0] for row in rows])
        return turns

    def turn(self, key: int, agent_id: str, at: int) -> int:
        """Return the turn that holds an instant: the last prompt before it, else the one without a prompt."""
        turns = self.turns(key, agent_id)
        place = bisect_right(turns.starts, at)
        if place:
            return turns.keys[place - 1]
        turn_key = row_key("turn", str(key), agent_id)
        self.store.run("put_turn", [(turn_key, "", key, agent_id, None)])
        turns.starts.insert(0, 0)
        turns.keys.insert(0, turn_key)
        return turn_key

    def dimension(self, values: Dimensions) -> int:
        """Return the key of a combination of dimension values, stored where it is new."""
        key = self._dimensions.get(values)
        if key is None:
            key = self._dimensions[values] = dimension_key(values)
            self._values[key] = values
            self.store.run("put_dimension", [(key, *values)])
            if self.store.dimension(key) != values:
                raise LedgerError(f"two dimensions have one key ({values}): report this")
        return key

    def values(self, dimension_id: int) -> Dimensions:
        """Return the values behind a dimension's key."""
        values = self._values.get(dimension_id)
        if values is None:
            values = self._values[dimension_id] = self.store.dimension(dimension_id)
        return values
