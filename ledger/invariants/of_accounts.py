"""What must hold of the accounts: sums in SQL over the spans, held against what the fold has kept."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.accounts.amounts import (
    AMOUNTS,
    DAY_US,
    DIMENSIONS,
    GRAIN_DAY,
    GRAIN_EDGE,
    GRAIN_MONTH,
    GRAIN_QUARTER,
    GRAIN_SESSION,
    QUARTER_HOUR_US,
    STATUSES,
    TOKEN_CLASSES,
)
from ledger.accounts.catchup import fold_temporary, scratch
from ledger.accounts.comparing import differing
from ledger.accounts.months import inner_month
from ledger.accounts.store import TABLES
from ledger.accounts.sums import SPAN_SUMS
from ledger.invariants.cells import cells, rolled
from ledger.invariants.finding import Finding, Scene

_DAY = f"c.quarter - c.quarter % {DAY_US}"
_BUCKETS = {
    GRAIN_QUARTER: ("quarter-hour", "c.quarter"),
    GRAIN_DAY: ("day", _DAY),
    GRAIN_SESSION: ("session", "c.session_key"),
    GRAIN_MONTH: ("month", "c.month"),
    GRAIN_EDGE: ("quarter-hour at a month's edge", "c.quarter"),
}
_IN_QUARTER = f"s.occurred_at >= w.bucket AND s.occurred_at < w.bucket + {QUARTER_HOUR_US}"
_KEPT = f"SELECT bucket, dimension_id, {', '.join(AMOUNTS)}, first_at, last_at FROM gen_totals WHERE grain = "


def totals(scene: Scene) -> Iterable[Finding]:
    """The sum of spans is the total, in every cell of every grain, and so are first and last instant."""
    if scene.since:
        yield from _new_totals(scene)
        return
    whole = cells(scene)
    tables = {GRAIN_MONTH: _by_month(scene, whole, inside=True), GRAIN_EDGE: _by_month(scene, whole, inside=False)}
    for grain, (name, bucket) in _BUCKETS.items():
        table = tables.get(grain, whole)
        spans, kept = rolled(table, bucket), f"{_KEPT}{grain}"
        wrong = 0
        for row in scene.rows(f"SELECT * FROM ({spans}) AS mine EXCEPT {kept}"):
            wrong += 1
            yield Finding(f"{name} {row[0]}, dimension {row[1]}: in spans, not totals", found=_shown(row))
        # Each group of spans has its total: there are others only if there are more of them.
        groups = f"SELECT count(*) FROM (SELECT DISTINCT {bucket} AS bucket, c.dimension_id FROM {table} AS c) AS g"
        ((count,),) = scene.rows(groups)
        ((there,),) = scene.rows(f"SELECT count(*) FROM gen_totals WHERE grain = {grain}")
        if wrong or there != count:
            for row in scene.rows(f"{kept} EXCEPT SELECT * FROM ({spans}) AS mine"):
                yield Finding(f"{name} {row[0]}, dimension {row[1]}: in totals, not spans", found=_shown(row))


def _by_month(scene: Scene, table: str, *, inside: bool) -> str:
    """Return what stands for the cells inside of months, each with its `month`, or for those at the edges."""
    days = [day for (day,) in scene.rows(f"SELECT DISTINCT {_DAY} FROM {table} AS c")]
    months = {day: month for day in days if (month := inner_month(day)) is not None}
    pairs = ", ".join(f"({day}, {month})" for day, month in (months or {-1: -1}).items())  # no day begins at -1
    joined = f"{'JOIN' if inside else 'LEFT JOIN'} m ON m.day = {_DAY}{'' if inside else ' WHERE m.day IS NULL'}"
    return f"(WITH m(day, month) AS (VALUES {pairs}) SELECT c.*, m.month FROM {table} AS c {joined})"


def _new_totals(scene: Scene) -> Iterable[Finding]:
    """Check the cells in which a span of a new event stands, quarter-hours and sessions."""
    sums = ", ".join(SPAN_SUMS[amount] for amount in AMOUNTS)
    quarter = f"n.occurred_at - n.occurred_at % {QUARTER_HOUR_US}"
    grains = (
        (
            GRAIN_QUARTER,
            "quarter-hour",
            quarter,
            _IN_QUARTER,
        ),
        (GRAIN_SESSION, "session", "n.session_key", "s.session_key = w.bucket"),
    )
    for grain, name, bucket, within in grains:
        spans = (
            f"WITH w AS (SELECT DISTINCT {bucket} AS bucket, n.dimension_id FROM gen_spans n "
            "WHERE n.source_position > ?) "
            f"SELECT w.bucket, w.dimension_id, {sums}, min(s.occurred_at), max(s.occurred_at) FROM w "
            f"JOIN gen_spans s ON s.dimension_id = w.dimension_id AND {within} "
            "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id GROUP BY w.bucket, w.dimension_id"
        )
        for row in scene.rows(f"SELECT * FROM ({spans}) AS mine EXCEPT {_KEPT}{grain}", scene.since):
            yield Finding(f"{name} {row[0]}, dimension {row[1]}: in spans, not totals", found=_shown(row))


def _shown(row: tuple[object, ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(AMOUNTS, row[2:], strict=False) if value)


def places(scene: Scene) -> Iterable[Finding]:
    """What the accounts know of how far each file was read is what the log says."""
    from ledger.invariants.of_log import reading

    ends, since = reading(scene).ends, reading(scene).since
    for stream_id, end in scene.rows('SELECT stream_id, "end" FROM gen_sources'):
        if ends.get(str(stream_id), end if since else 0) != end:
            yield Finding(f"{stream_id}: the accounts are elsewhere", str(ends.get(str(stream_id), 0)), str(end))


def tree(scene: Scene) -> Iterable[Finding]:
    """Every span has one place in the tree: a session, a turn of its own agent, a parent in the same session.

    With that, own + children = total at every node, since each span is counted at exactly one.
    """
    if _all_placed(scene):
        return
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


def _all_placed(scene: Scene) -> bool:
    """Return whether every span has its place, asked of the cells that spans of one place share."""
    unplaced = (
        f"SELECT 1 FROM {cells(scene)} AS c LEFT JOIN gen_sessions n ON n.session_key = c.session_key "
        "LEFT JOIN gen_turns t ON t.turn_key = c.turn_key "
        "LEFT JOIN gen_dimensions d ON d.dimension_id = c.dimension_id "
        "WHERE n.session_key IS NULL OR t.turn_key IS NULL OR d.dimension_id IS NULL OR t.session_key <> c.session_key "
        "OR t.agent_id <> c.agent_id LIMIT 1"
    )
    orphans = (
        "SELECT 1 FROM gen_spans s LEFT JOIN gen_spans p ON p.span_id = s.parent AND p.session_key = s.session_key "
        "WHERE s.parent IS NOT NULL AND p.span_id IS NULL LIMIT 1"
    )
    return not any(list(scene.rows(sql)) for sql in (unplaced, orphans))


def node_sums(scene: Scene) -> Iterable[Finding]:
    """Own + children = total: what the turns of a session hold, its sub-agents' included, is the session's total."""
    amounts = ("spans", *TOKEN_CLASSES, "cost_nanousd", "ran_us")
    summed = ", ".join(
        f"sum(c.{name})" if name in ("spans", "ran_us") else f"sum(CASE WHEN d.kind = 'model' THEN c.{name} ELSE 0 END)"
        for name in amounts
    )
    kept = ", ".join(f"sum(t.{name})" for name in amounts)
    sql = (
        f"SELECT t.session_key, {summed} FROM {cells(scene)} AS c JOIN gen_turns t ON t.turn_key = c.turn_key "
        "JOIN gen_dimensions d ON d.dimension_id = c.dimension_id GROUP BY t.session_key "
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
