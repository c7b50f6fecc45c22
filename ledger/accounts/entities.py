"""The rows beside the spans, as typed values in column order: sessions, delegations, agents, sources, runs."""

from __future__ import annotations

import msgspec


class Session(msgspec.Struct):
    """A native session of a client. A sub-agent's own session names its parent and is booked under the root."""

    session_key: int
    session_id: str
    client: str
    forked_from: str = ""
    parent: str = ""
    agent_type: str = ""
    has_records: int = 0
    """1 where its responses have records of their own: then its running totals do not count."""


class Job(msgspec.Struct):
    """A delegation: the call that started a sub-agent, and its end."""

    job_key: int
    call_id: str
    client: str
    tool: str = ""
    group_id: str = ""
    """The response that made the call."""
    agent_id: str = ""
    agent_type: str = ""
    called_at: int | None = None
    returned_at: int | None = None
    status: str = ""


class Agent(msgspec.Struct):
    """What is known of a sub-agent within a session."""

    session_key: int
    agent_id: str
    agent_type: str = ""
    """Its kind, where its own file or the note beside it says so."""
    call_id: str = ""
    """The call that started it; its kind is the sub-agent's where nothing else says it."""


class Source(msgspec.Struct):
    """How far a file was read."""

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
    billing: str = ""
    """`api` or `subscription`, empty where nobody said."""
    origin: str = ""
    """Which log, on which machine, reads it; empty in logs that were made before that was kept."""


class Label(msgspec.Struct):
    """What a session is labelled with under one key; an empty value is a label that was taken away."""

    session_key: int
    label: str
    value: str
    set_at: int
    event_id: str
    """Of the event that says so, hex; of two at one instant the larger holds."""


class RunRow(msgspec.Struct):
    """Where a run's stream stands: what its next span has in common with the last."""

    stream_id: str
    session_key: int
    folder: str = ""
    """The workspace."""
    project: str = ""
    branch: str = ""
    provider: str = ""
    model: str = ""
    """Of the newest request: a tool span carries the model that called."""
    turn_key: int = 0
    tools_bytes: int = 0
    """How long the definitions of its tools are, which go with every request (CTX-15)."""


class RunTurnRow(msgspec.Struct):
    """What a turn of a run says beside its beginning."""

    turn_key: int
    who: str
    agent: str
    number: int
    ended_at: int | None = None
    outcome: str = ""
    reason: str = ""
    continues: str = ""


class ToolCallRow(msgspec.Struct):
    """What a tool span has that no other span has."""

    span_id: str
    call_id: str
    arguments_bytes: int
    result_bytes: int | None = None
    truncated: int = 0
    exit_code: int | None = None


def smaller_word(known: str, new: str) -> str:
    """Return the smaller of two words that are given: the same whatever comes first."""
    return min(known, new) if known and new else known or new


def smaller_time(known: int | None, new: int) -> int:
    """Return the earlier of two instants, of which the first may be unknown."""
    return new if known is None else min(known, new)
