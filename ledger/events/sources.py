"""Events of `source` streams: what an importer read in one file of another agent's log."""

from __future__ import annotations

import msgspec


class Context(msgspec.Struct, frozen=True, omit_defaults=True, array_like=False):
    """What a run of lines has in common, written once an event."""

    session: str
    """The client's own session id."""
    agent: str = ""
    """The id of the sub-agent that the line belongs to, empty for the root."""
    agent_type: str = ""
    """The sub-agent's name where the file says it."""
    sidechain: bool = False
    project: str = ""
    """Repository root where it was found, else the working folder."""
    branch: str = ""
    provider: str = ""
    client_version: str = ""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="k"):
    """One thing seen at one place of a file. `c` is the index of its context, `o` its byte offset."""

    c: int
    o: int
    at: int
    """When it happened by the client's clock (`occurred_at`), microseconds UTC."""


class Response(Observation, frozen=True, omit_defaults=True, tag="response", kw_only=True):
    """A line that holds a model response's usage."""

    id: str
    """The provider's response id, or what stands in for it."""
    request: str = ""
    """The provider's request id."""
    model: str = ""
    usage: msgspec.Raw = msgspec.Raw(b"null")
    """The usage object as it stood in the file."""
    quote: int = -1
    """Index into the event's `quotes`, -1 where no price was known."""
    part_quotes: list[int] = []
    """The same for the calls made beside the answer, in the order of the usage reading."""
    stop: str = ""
    """The stop reason, where the line has one."""
    lines: int = 1
    """How many lines in a row said exactly this."""
    last_at: int = 0
    """The time of the last of them, where there are several."""
    nested: bool = False
    """Seen inside a progress line of the parent."""
    cost: str = ""
    """The cost in USD that the client itself wrote beside it."""


class Cumulative(Observation, frozen=True, omit_defaults=True, tag="cumulative", kw_only=True):
    """A running total of a session (Codex `token_count`), with the one before it in the same file."""

    ordinal: int
    """The how-manieth distinct total of the file, from 0."""
    chain: str
    """Digest of all totals of the file up to and with this one: equal prefixes have equal chains."""
    model: str = ""
    total: msgspec.Raw = msgspec.Raw(b"null")
    before: msgspec.Raw = msgspec.Raw(b"null")
    last: msgspec.Raw = msgspec.Raw(b"null")
    carried: bool = False
    """The first total of a file that says it was forked: it may hold what another session spent."""
    quote: int = -1
    lines: int = 1


class Failure(Observation, frozen=True, omit_defaults=True, tag="failure", kw_only=True):
    """A request that the client says failed; its text is a blob."""

    id: str
    status: int = 0
    """The HTTP status, 0 where the client does not say."""
    attempt: int = 0
    """The how-manieth retry this failure caused, from 1, where the client says."""
    error: str = ""
    """sha256 of the text's blob, hex."""
    lines: int = 1


class Cut(Observation, frozen=True, omit_defaults=True, tag="cut", kw_only=True):
    """The client says that a response was not received to its end: broken off, or stopped by the user."""

    id: str
    """The provider's response id."""
    by: str
    """`cut` or `cancelled`."""


class Prompt(Observation, frozen=True, omit_defaults=True, tag="prompt", kw_only=True):
    """A user's prompt (or the task given to a sub-agent): a turn begins."""

    id: str


class Call(Observation, frozen=True, omit_defaults=True, tag="call", kw_only=True):
    """A tool call that starts a sub-agent."""

    id: str
    tool: str
    response: str = ""
    """The id of the response that made the call."""
    agent_type: str = ""


class Returned(Observation, frozen=True, omit_defaults=True, tag="returned", kw_only=True):
    """The result of such a call, naming the sub-agent."""

    id: str
    agent: str = ""
    status: str = ""


class Delegated(Observation, frozen=True, omit_defaults=True, tag="delegated", kw_only=True):
    """What stands beside a sub-agent's file: the call that started it."""

    id: str
    """The call's id."""
    agent: str


class Run(Observation, frozen=True, omit_defaults=True, tag="run", kw_only=True):
    """What a file says of its session: where it was forked from, and whose sub-agent it is."""

    forked_from: str = ""
    parent: str = ""
    name: str = ""
    """What the client calls the sub-agent."""
    billing: str = ""
    """`api` or `subscription`, where the client says."""


AnyObservation = Response | Cumulative | Failure | Cut | Prompt | Call | Returned | Delegated | Run


class Skipped(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines of the stretch that were read and hold nothing to observe, by reason."""

    no_usage: int = 0
    malformed: int = 0
    rollup: int = 0
    """Lines that repeat a sub-agent's total, which is never added."""
    repeated: int = 0
    """Totals that did not change since the line before."""


class SourceOpened(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="_", tag=False):
    """An importer met a file for the first time."""

    client: str
    path: str
    """Absolute path on the importing host."""
    root: str
    """The folder in which it was found."""
    device: int = 0
    inode: int = 0


class SourceTruncated(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file no longer begins with what was read: it is read again from its start."""

    offset: int
    """How far it had been read, bytes."""
    size: int
    """How large it is now, bytes."""


class LinesObserved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of a file was read, with everything worth knowing in it."""

    begin: int
    end: int
    """Byte offsets: the stretch is [begin, end), whole lines."""
    lines: int
    tail: str
    """sha256 (hex, first 16 digits) of up to 256 bytes before `end`: the evidence that the file only grew."""
    contexts: list[Context] = []
    quotes: list[str] = []
    """sha256 names of the quotes in force, by index."""
    observations: list[AnyObservation] = []
    skipped: Skipped = Skipped()
    mtime_ns: int = 0
    size: int = 0
    device: int = 0
    inode: int = 0
    """The file as it stood after the read: equal values next time mean nothing is new."""
    carry: dict[str, msgspec.Raw] = {}
    """What the reader must remember to go on at `end` (running total, model in force)."""
