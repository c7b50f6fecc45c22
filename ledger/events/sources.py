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
    """The client says that the line is not of the main conversation."""
    project: str = ""
    """Repository root where it was found, else the working folder."""
    branch: str = ""
    """The branch in git, where the client says."""
    provider: str = ""
    """Whose endpoint answered, where the client says or it follows from the client."""
    client_version: str = ""
    """The version of the client, where it says."""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="k"):
    """One thing seen at one place of a file."""

    c: int
    """Index into the event's `contexts`."""
    o: int
    """Where its line begins in the file, bytes; of records, their number in the event."""
    at: int
    """When it happened by the client's clock (`occurred_at`), microseconds UTC."""


class Response(Observation, frozen=True, omit_defaults=True, tag="response", kw_only=True):
    """A line that holds a model response's usage."""

    id: str
    """The provider's response id, or what stands in for it."""
    request: str = ""
    """The provider's request id."""
    model: str = ""
    """The model that answered, as the file names it."""
    usage: msgspec.Raw = msgspec.Raw(b"null")
    """The usage object as it stood in the file."""
    earlier: list[msgspec.Raw] = []
    """Less full usage objects of other lines in the same row of lines: snapshots of a response that grew."""
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
    role: str = ""
    """`compaction` where the client says that the request summarised the conversation."""
    copied: bool = False
    """The record is older than its session: a fork copied it from another."""
    evidence: str = ""
    """Digest of what a copy repeats (when it ended, what was said and called); empty of one that has not ended."""


class Cumulative(Observation, frozen=True, omit_defaults=True, tag="cumulative", kw_only=True):
    """A running total of a session (Codex `token_count`), with the one before it in the same file."""

    ordinal: int
    """The how-manieth distinct total of the file, from 0."""
    chain: str
    """Digest of all totals of the file up to and with this one: equal prefixes have equal chains."""
    model: str = ""
    """The model in force at this place of the file."""
    total: msgspec.Raw = msgspec.Raw(b"null")
    """The running total as it stood in the file."""
    before: msgspec.Raw = msgspec.Raw(b"null")
    """The running total before it, null for the first of a file."""
    last: msgspec.Raw = msgspec.Raw(b"null")
    """What the client says of the last request alone, as it stood beside the running total."""
    carried: bool = False
    """The first total of a file that says it was forked: it may hold what another session spent."""
    quote: int = -1
    """Index into the event's `quotes`, -1 where no price was known."""
    lines: int = 1
    """How many lines in a row said exactly this."""


class Failure(Observation, frozen=True, omit_defaults=True, tag="failure", kw_only=True):
    """A request that the client says failed; its text is a blob."""

    id: str
    """The line's own id, or what stands in for it."""
    status: int = 0
    """The HTTP status, 0 where the client does not say."""
    attempt: int = 0
    """The how-manieth retry this failure caused, from 1, where the client says."""
    error: str = ""
    """sha256 of the text's blob, hex."""
    lines: int = 1
    """How many lines in a row said exactly this."""


class Cut(Observation, frozen=True, omit_defaults=True, tag="cut", kw_only=True):
    """The client says that a response was not received to its end: broken off, or stopped by the user."""

    id: str
    """The provider's response id."""
    by: str
    """`cut` or `cancelled`."""


class Prompt(Observation, frozen=True, omit_defaults=True, tag="prompt", kw_only=True):
    """A user's prompt (or the task given to a sub-agent): a turn begins."""

    id: str
    """The line's own id, or session@offset."""


class Call(Observation, frozen=True, omit_defaults=True, tag="call", kw_only=True):
    """A tool call that starts a sub-agent."""

    id: str
    """The call's id."""
    tool: str
    """The tool's name."""
    response: str = ""
    """The id of the response that made the call."""
    agent_type: str = ""
    """Which kind of sub-agent the call asks for."""


class Returned(Observation, frozen=True, omit_defaults=True, tag="returned", kw_only=True):
    """The result of such a call, naming the sub-agent."""

    id: str
    """The call's id."""
    agent: str = ""
    """The sub-agent's id."""
    status: str = ""
    """How it ended, in the client's word."""


class Delegated(Observation, frozen=True, omit_defaults=True, tag="delegated", kw_only=True):
    """What stands beside a sub-agent's file: the call that started it."""

    id: str
    """The call's id."""
    agent: str
    """The sub-agent's id."""


class Run(Observation, frozen=True, omit_defaults=True, tag="run", kw_only=True):
    """What a file says of its session: where it was forked from, and whose sub-agent it is."""

    forked_from: str = ""
    """The session whose history this one begins with."""
    parent: str = ""
    """The session whose sub-agent this one is."""
    name: str = ""
    """What the client calls the sub-agent."""


AnyObservation = Response | Cumulative | Failure | Cut | Prompt | Call | Returned | Delegated | Run


class Skipped(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines of the stretch that were read and hold nothing to observe, by reason."""

    no_usage: int = 0
    """Lines about something else."""
    malformed: int = 0
    """Lines that could not be read."""
    rollup: int = 0
    """Lines that repeat a sub-agent's total, which is never added."""
    repeated: int = 0
    """Totals that did not change since the line before."""


class SourceOpened(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="_", tag=False):
    """An importer met a file for the first time."""

    client: str
    """The program that wrote the file."""
    path: str
    """Absolute path on the importing host."""
    root: str
    """The folder in which it was found."""
    device: int = 0
    """The number of the file system it lay on, 0 where that is not known."""
    inode: int = 0
    """The file's number on that file system, 0 where that is not known."""
    billing: str = ""
    """How its use is billed: `api` or `subscription`, empty where nobody said."""
    origin: str = ""
    """Which log reads it, and on a log of many machines which of them: what another reads is another source."""


class SourceBilled(msgspec.Struct, frozen=True, omit_defaults=True):
    """The user stated, or the file itself showed, how the use of a source is billed."""

    billing: str
    """`api` or `subscription`: a subscription's cost is a figure at list price."""


class SourceTruncated(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file no longer begins with what was read: it is read again from its start."""

    offset: int
    """How far it had been read, bytes."""
    size: int
    """How large it is now, bytes."""


class RecordsObserved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source that its client rewrites (a database, a JSON file, a folder of them) was read: what was new in it."""

    records: int
    """How many records were looked into: messages that are new, or changed since they were read."""
    contexts: list[Context] = []
    """What the observations have in common, by index."""
    quotes: list[str] = []
    """sha256 names of the quotes in force, by index."""
    observations: list[AnyObservation] = []
    """What was seen. `o` is the number of the record among those of this event."""
    skipped: Skipped = Skipped()
    """How many records held nothing to observe."""
    mtime_ns: int = 0
    """When the source was changed last, nanoseconds UTC; of a database also its -wal file. 0: it must be read again.

    If this, size, device and inode are what they were, nothing is new.
    """
    size: int = 0
    """How large it was, bytes; of a database with its -wal file."""
    device: int = 0
    """The number of the file system it lay on."""
    inode: int = 0
    """The number of the file or folder on that file system."""
    carry: dict[str, msgspec.Raw] = {}
    """What the reader must remember to find what is new."""


class LinesObserved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of a file was read, with everything worth knowing in it."""

    begin: int
    """Where the stretch begins, bytes: the end of the stretch before, or 0."""
    end: int
    """Where it ends, bytes: the stretch is [begin, end), whole lines."""
    lines: int
    """How many lines the stretch has."""
    tail: str
    """sha256 (hex, first 16 digits) of up to 256 bytes before `end`: the evidence that the file only grew."""
    contexts: list[Context] = []
    """What the observations have in common, by index."""
    quotes: list[str] = []
    """sha256 names of the quotes in force, by index."""
    observations: list[AnyObservation] = []
    """What was seen, in the order of the file."""
    skipped: Skipped = Skipped()
    """How many lines held nothing to observe."""
    mtime_ns: int = 0
    """When the file was changed last, nanoseconds UTC.

    If this, size, device and inode are what they were, nothing is new.
    """
    size: int = 0
    """How large the file was when the stretch was read, bytes."""
    device: int = 0
    """The number of the file system it lay on."""
    inode: int = 0
    """The file's number on that file system."""
    carry: dict[str, msgspec.Raw] = {}
    """What the reader must remember to go on at `end` (running total, model in force)."""
