"""What must hold of every log and its accounts: one list of checks, each a function that returns findings.

`ledger verify` runs them, and so does every test that writes a log. A check reads and never writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec

from ledger.accounts.amounts import (
    AMOUNTS,
    DAY_US,
    DIMENSIONS,
    GRAIN_DAY,
    GRAIN_QUARTER,
    GRAIN_SESSION,
    QUARTER_HOUR_US,
    STATUSES,
    TOKEN_CLASSES,
)
from ledger.accounts.catchup import View, fold_temporary, scratch, snapshot
from ledger.accounts.comparing import differing
from ledger.accounts.store import TABLES, Checkpoint
from ledger.accounts.sums import SPAN_SUMS
from ledger.errors import LogTooNew
from ledger.events import sources
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.evidence.purge import purged_names
from ledger.evidence.seals import Fault, check_seals
from ledger.log.hashing import broken_links
from ledger.log.log import Log

FOUND_MAX = 20
"""How many findings a check names; all are counted."""


class Finding(NamedTuple):
    """Something that does not hold, and where."""

    what: str
    expected: str = ""
    found: str = ""
    session: str = ""
    span: str = ""
    event: int | None = None
    """Position of the event."""
    stream: str = ""
    version: int | None = None
    """Of the event in its stream."""


class Check(msgspec.Struct):
    """The outcome of one check."""

    name: str
    ok: bool
    detail: str
    found: list[dict[str, object]]


class Scene(NamedTuple):
    """What a check may look at: the log and one snapshot of its accounts."""

    log: Log
    view: View

    def rows(self, sql: str, *parameters: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query in which `gen_` names the live tables."""
        yield from self.view.store.query(sql, *parameters)

    def log_rows(self, sql: str, *parameters: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query on the tables of the log itself."""
        yield from self.log.connection.execute(sql, parameters)


# the log


def chains(scene: Scene) -> Iterable[Finding]:
    """Versions are 1, 2, 3 ... in every stream, each event names the hash before it, and its own hash fits."""
    positions: list[int] = []

    def passing() -> Iterator[Event]:
        for event in scene.log.all_events():
            positions.append(event.position)
            yield event

    for event, wrong in broken_links(passing(), {}):
        yield Finding(f"{event.stream_id} version {event.version}: {wrong}", event=event.position)
    for before, position in zip([0, *positions], positions, strict=False):
        if position != before + 1:
            yield Finding("events are missing before this one", str(before + 1), str(position), event=position)
    for position, head in Checkpoint(scene.log.accounts).seen():
        if scene.log.hash_of(position) != head:
            what = "the accounts once saw another event here: the log was cut, or another one was put in its place"
            yield Finding(what, head.hex(), event=position)


def catalogue(scene: Scene) -> Iterable[Finding]:
    """Every event is of a type and schema that the catalogue knows, and fits it."""
    for event in scene.log.all_events():
        try:
            decode(event.type, event.schema, event.data)
        except (LogTooNew, msgspec.MsgspecError) as error:
            yield Finding(f"{event.type}: {error}", event=event.position)


def blobs(scene: Scene) -> Iterable[Finding]:
    """Every blob is what its name says, and none that an event links is missing, except where it was purged."""
    purged = purged_names(scene.log)
    sql = (
        "SELECT l.sha256, min(e.position), b.sha256 IS NULL FROM event_blobs l JOIN events e USING (event_id) "
        "LEFT JOIN blobs b ON b.sha256 = l.sha256 GROUP BY l.sha256, b.sha256"
    )
    for digest, position, missing in scene.log_rows(sql):
        if missing and bytes(digest) in purged:
            continue
        if missing or not _is_whole(scene.log, digest):
            state = "missing" if missing else "changed"
            yield Finding(f"blob {digest.hex()} is {state}", event=position)


def _is_whole(log: Log, digest: bytes) -> bool:
    """Return whether a blob's content has the digest that it is kept under."""
    import hashlib

    import zstandard

    try:
        content = log.blob(digest)
    except (zstandard.ZstdError, MemoryError, LogTooNew):
        return False
    return content is not None and hashlib.sha256(content).digest() == digest


def seals(scene: Scene) -> Iterable[Finding]:
    """Every seal of the log is the next one of its book, and what it covers is there as it was sealed."""
    return map(fault_finding, check_seals(scene.log))


def fault_finding(fault: Fault) -> Finding:
    """Return what a seal shows to be wrong as a finding."""
    return Finding(fault.what, fault.expected, fault.found, event=fault.position, stream=fault.stream,
                   version=fault.version)  # fmt: skip


def stretches(scene: Scene) -> Iterable[Finding]:
    """What was read of a file is read without a gap, and the accounts know how far."""
    ends: dict[str, int] = {}
    for event in scene.log.all_events():
        if not event.stream_id.startswith("source:"):
            continue
        try:
            body = decode(event.type, event.schema, event.data)
        except (LogTooNew, msgspec.MsgspecError):
            continue  # the catalogue's check names it
        if isinstance(body, sources.LinesObserved):
            expected = ends.get(event.stream_id, 0)
            if body.begin != expected:
                yield Finding("a stretch does not begin where the last one ended", str(expected), str(body.begin),
                              event=event.position)  # fmt: skip
            ends[event.stream_id] = body.end
        elif isinstance(body, sources.SourceTruncated):
            ends[event.stream_id] = 0
    for stream_id, end in scene.rows('SELECT stream_id, "end" FROM gen_sources'):
        if ends.get(str(stream_id), 0) != end:
            yield Finding(f"{stream_id}: the accounts are elsewhere", str(ends.get(str(stream_id), 0)), str(end))


# the accounts

_BUCKETS = {
    GRAIN_QUARTER: ("quarter-hour", f"s.occurred_at - s.occurred_at % {QUARTER_HOUR_US}"),
    GRAIN_DAY: ("day", f"s.occurred_at - s.occurred_at % {DAY_US}"),
    GRAIN_SESSION: ("session", "s.session_key"),
}


def totals(scene: Scene) -> Iterable[Finding]:
    """The sum of spans is the total, in every cell of all three grains, and so are first and last instant."""
    for grain, (name, bucket) in _BUCKETS.items():
        sums = ", ".join(SPAN_SUMS[amount] for amount in AMOUNTS)
        spans = (
            f"SELECT {bucket} AS bucket, s.dimension_id, {sums}, min(s.occurred_at), max(s.occurred_at) "
            "FROM gen_spans s JOIN gen_dimensions d ON d.dimension_id = s.dimension_id GROUP BY 1, 2"
        )
        kept = f"SELECT bucket, dimension_id, {', '.join(AMOUNTS)}, first_at, last_at "
        kept += f"FROM gen_totals WHERE grain = {grain}"
        for sides, first, second in (("spans, not totals", spans, kept), ("totals, not spans", kept, spans)):
            for row in scene.rows(f"SELECT * FROM ({first}) EXCEPT SELECT * FROM ({second})"):
                yield Finding(f"{name} {row[0]}, dimension {row[1]}: in {sides}", found=_shown(row))


def _shown(row: tuple[object, ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(AMOUNTS, row[2:], strict=False) if value)


def tree(scene: Scene) -> Iterable[Finding]:
    """Every span has one place in the tree: a session, a turn of its own agent, a parent in the same session.

    With that, own + children = total at every node, since each span is counted at exactly one.
    """
    sql = (
        "SELECT s.span_id, n.session_id, n.session_key IS NULL, t.turn_key IS NULL, "
        "t.turn_key IS NOT NULL AND (t.session_key <> s.session_key OR t.agent_id <> s.agent_id), "
        "s.parent IS NOT NULL AND p.span_id IS NULL, d.dimension_id IS NULL "
        "FROM gen_spans s LEFT JOIN gen_sessions n ON n.session_key = s.session_key "
        "LEFT JOIN gen_turns t ON t.turn_key = s.turn_key "
        "LEFT JOIN gen_spans p ON p.span_id = s.parent AND p.session_key = s.session_key "
        "LEFT JOIN gen_dimensions d ON d.dimension_id = s.dimension_id "
        "WHERE n.session_key IS NULL OR t.turn_key IS NULL OR t.session_key <> s.session_key "
        "OR t.agent_id <> s.agent_id OR (s.parent IS NOT NULL AND p.span_id IS NULL) OR d.dimension_id IS NULL"
    )
    wrong = ("has no session", "has no turn", "is in a turn of another session or agent", "has no parent",
             "has no dimensions")  # fmt: skip
    for span_id, session, *states in scene.rows(sql):
        for state, what in zip(states, wrong, strict=True):
            if state:
                yield Finding(f"a span {what}", session=str(session or ""), span=str(span_id))


def node_sums(scene: Scene) -> Iterable[Finding]:
    """Own + children = total: what the turns of a session hold, its sub-agents' included, is the session's total."""
    amounts = ("requests", *TOKEN_CLASSES, "cost_nanousd", "ran_us")
    nodes = ", ".join(f"{SPAN_SUMS[name]} AS {name}" for name in amounts)
    summed = ", ".join(f"sum(n.{name})" for name in amounts)
    kept = ", ".join(f"sum(t.{name})" for name in amounts)
    sql = (
        f"SELECT key, {summed} FROM (SELECT t.session_key AS key, {nodes} FROM gen_spans s "
        "JOIN gen_turns t ON t.turn_key = s.turn_key "
        "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id GROUP BY t.turn_key) n GROUP BY key "
        f"EXCEPT SELECT t.bucket, {kept} FROM gen_totals t WHERE t.grain = {GRAIN_SESSION} GROUP BY t.bucket"
    )
    for key, *found in scene.rows(sql):
        session = next(iter(scene.rows("SELECT session_id FROM gen_sessions WHERE session_key = ?", key)), ("",))
        yield Finding("the turns of a session do not add up to it", found=str(found), session=str(session[0]))


def statuses(scene: Scene) -> Iterable[Finding]:
    """requests = succeeded + failed + cut + cancelled + lost + open, in every cell."""
    ended = " + ".join(STATUSES)
    for grain, bucket, requests, total in scene.rows(
        f"SELECT grain, bucket, requests, {ended} FROM gen_totals WHERE requests <> {ended}"
    ):
        yield Finding(f"grain {grain}, bucket {bucket}", expected=str(requests), found=str(total))


def dimensions(scene: Scene) -> Iterable[Finding]:
    """Every key of an interned row is the key of its contents."""
    from ledger.accounts.rows import Dimensions
    from ledger.accounts.store import dimension_key, quote_key, session_key

    for key, *values in scene.rows(f"SELECT dimension_id, {', '.join(DIMENSIONS)} FROM gen_dimensions"):
        if dimension_key(Dimensions(*values)) != key:
            yield Finding(f"dimension {key} is not {values}")
    for key, client, session in scene.rows("SELECT session_key, client, session_id FROM gen_sessions"):
        if session_key(str(client), str(session)) != key:
            yield Finding(f"session key {key}", session=str(session))
    for key, sha256 in scene.rows("SELECT quote_key, sha256 FROM gen_quotes"):
        if quote_key(str(sha256)) != key:
            yield Finding(f"quote key {key} is not that of {sha256}")


def quotes(scene: Scene) -> Iterable[Finding]:
    """Every price that a span names is in the log, under the digest of what determines it."""
    from ledger.prices.quote import Quote

    for sha256, raw in scene.rows("SELECT sha256, quote FROM gen_quotes WHERE quote IS NOT NULL"):
        if Quote.from_json(str(raw)).name != sha256:
            yield Finding(f"quote {sha256} is another one")
    sql = (
        "SELECT s.span_id, s.named_quote FROM gen_spans s LEFT JOIN gen_quotes q ON q.quote_key = s.named_quote "
        "WHERE s.named_quote <> 0 AND (q.quote_key IS NULL OR q.quote IS NULL)"
    )
    for span_id, key in scene.rows(sql):
        yield Finding(f"a span names a quote that is not in the log ({key})", span=str(span_id))


def reported_totals(scene: Scene) -> Iterable[Finding]:
    """Where a provider gives its own sum and every bucket is known, the buckets add up to it."""
    buckets = " + ".join(f"coalesce({name}, 0)" for name in TOKEN_CLASSES[:5])
    sql = (
        f"SELECT span_id, reported_total, {buckets} FROM gen_spans WHERE reported_total IS NOT NULL "
        f"AND input_uncached IS NOT NULL AND output IS NOT NULL AND reported_total <> {buckets}"
    )
    for span_id, reported, found in scene.rows(sql):
        yield Finding("buckets and the provider's total differ", str(reported), str(found), span=str(span_id))


def rebuilt(scene: Scene) -> Iterable[Finding]:
    """Folding the whole log again gives the same rows."""
    live = scene.view.store
    with scratch(live.connection) as store:
        fold_temporary(scene.log, store, 0, scene.view.position)
        for table in TABLES:
            for side, row in differing(table, live, store):
                told = ", ".join(str(value) for value in row if value not in (None, "", 0))
                yield Finding(f"{table}: only {side}", found=told)


Checker = Callable[[Scene], Iterable[Finding]]

CHECKS: tuple[tuple[str, Checker], ...] = (
    ("chains", chains),
    ("catalogue", catalogue),
    ("blobs", blobs),
    ("seals", seals),
    ("stretches", stretches),
    ("totals", totals),
    ("tree", tree),
    ("node sums", node_sums),
    ("statuses", statuses),
    ("keys", dimensions),
    ("quotes", quotes),
    ("reported totals", reported_totals),
)
OF_THE_LOG = (chains, catalogue, blobs, seals, stretches)
"""Checks that need no account."""
FULL_CHECKS: tuple[tuple[str, Checker], ...] = (("live = rebuilt", rebuilt),)
FLAGGED = frozenset(("reported totals",))
"""Checks whose findings are the provider's own contradiction: shown, and no failure of the log."""


def check(log: Log, *, full: bool = False, progress: Callable[[int, int], None] | None = None) -> list[Check]:
    """Run every check in one snapshot of the accounts; `full` adds folding everything again.

    Where an event is so damaged that the accounts cannot be folded, only the log is checked, and that is said.
    """
    wanted = CHECKS + (FULL_CHECKS if full else ())
    outcomes = []
    with ExitStack() as stack:
        try:
            view = stack.enter_context(snapshot(log))
        except msgspec.MsgspecError as error:
            return _without_accounts(log, error)
        scene = Scene(log, view)
        for number, (name, checker) in enumerate(wanted):
            if progress:
                progress(number, len(wanted))
            outcomes.append(_outcome(name, checker, scene))
    return outcomes


def _without_accounts(log: Log, error: Exception) -> list[Check]:
    """Check the log alone, and say why there are no accounts."""
    with log.reading(), scratch(log.accounts) as nothing:
        scene = Scene(log, View(nothing, 0, 0))
        outcomes = [_outcome(name, checker, scene) for name, checker in CHECKS if checker in OF_THE_LOG]
    found: list[dict[str, object]] = [{"what": f"an event cannot be read, so there are none: {error}"}]
    return [*outcomes, Check("accounts", False, "1 found: The accounts can be folded from the log.", found)]


def named(finding: Finding) -> dict[str, object]:
    """Return a finding by the names of its fields, without those that say nothing."""
    return {key: value for key, value in finding._asdict().items() if value not in ("", None)}


def _outcome(name: str, checker: Checker, scene: Scene) -> Check:
    found: list[dict[str, object]] = []
    count = 0
    for finding in _findings(checker, scene):
        count += 1
        if len(found) < FOUND_MAX:
            found.append(named(finding))
    promise = (checker.__doc__ or "").strip().splitlines()[0]
    if not count:
        return Check(name, True, promise, found)
    word = "flagged" if name in FLAGGED else "found"
    return Check(name, name in FLAGGED, f"{count:,} {word}: {promise}", found)


def _findings(checker: Checker, scene: Scene) -> Iterator[Finding]:
    """Yield a check's findings; that it cannot be carried out on damaged rows is one more."""
    execute = scene.log.connection.execute
    execute("SAVEPOINT one_check")  # a question that fails must not spoil the transaction for the others
    try:
        yield from checker(scene)
    except Exception as error:
        execute("ROLLBACK TO SAVEPOINT one_check")
        if isinstance(error, scene.log.connection.OperationalError):
            raise  # no room, no lock, no permission: that says nothing of the log
        yield Finding(f"the check cannot be carried out: {type(error).__name__}: {error}")
    execute("RELEASE SAVEPOINT one_check")
