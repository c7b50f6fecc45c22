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
from ledger.findings import Finding
from ledger.invariants.cells import cells, fresh, of_new, quarters, rolled
from ledger.invariants.finding import Scene

_DAY = f"q.bucket - q.bucket % {DAY_US}"
_NAMES = {
    GRAIN_QUARTER: "quarter-hour",
    GRAIN_DAY: "day",
    GRAIN_SESSION: "session",
    GRAIN_MONTH: "month",
    GRAIN_EDGE: "quarter-hour at a month's edge",
}
_CELL = f"SELECT q.bucket, q.dimension_id, {', '.join(f'q.{name}' for name in AMOUNTS)}, q.first_at, q.last_at"
_SUMMED = f"{', '.join(f'sum(q.{name})' for name in AMOUNTS)}, min(q.first_at), max(q.last_at)"
_IN_QUARTER = f"s.occurred_at >= w.bucket AND s.occurred_at < w.bucket + {QUARTER_HOUR_US}"
_KEPT = f"SELECT bucket, dimension_id, {', '.join(AMOUNTS)}, first_at, last_at FROM gen_totals WHERE grain = "


def totals(scene: Scene) -> Iterable[Finding]:
    """The sum of spans is the total, in every cell of every grain, and so are first and last instant."""
    if scene.since:
        yield from _new_totals(scene)
        return
    for grain, (spans, count) in _sums(scene).items():
        name, kept = _NAMES[grain], f"{_KEPT}{grain}"
        wrong = 0
        for row in scene.rows(f"SELECT * FROM ({spans}) AS mine EXCEPT {kept}"):
            wrong += 1
            yield Finding(f"{name} {row[0]}, dimension {row[1]}: in spans, not totals", found=_shown(row))
        # Each group of spans has its total: there are others only if there are more of them.
        ((mine,),) = scene.rows(f"SELECT count(*) FROM ({count}) AS g")
        ((there,),) = scene.rows(f"SELECT count(*) FROM gen_totals WHERE grain = {grain}")
        if wrong or there != mine:
            for row in scene.rows(f"{kept} EXCEPT SELECT * FROM ({spans}) AS mine"):
                yield Finding(f"{name} {row[0]}, dimension {row[1]}: in totals, not spans", found=_shown(row))


def _sums(scene: Scene) -> dict[int, tuple[str, str]]:
    """Return for each grain the question for (bucket, dimension, amounts, instants), and one with as many rows."""
    whole, table = cells(scene), quarters(scene)
    by_day = f"FROM {table} AS q GROUP BY {_DAY}, q.dimension_id"
    inside, edges = _by_month(scene, table)
    return {
        GRAIN_QUARTER: (
            f"{_CELL} FROM {table} AS q",
            f"SELECT 1 AS n FROM {table} AS q",
        ),
        GRAIN_DAY: (f"SELECT {_DAY}, q.dimension_id, {_SUMMED} {by_day}", f"SELECT 1 AS n {by_day}"),
        GRAIN_SESSION: (
            rolled(whole, "c.session_key"),
            f"SELECT DISTINCT c.session_key, c.dimension_id FROM {whole} AS c",
        ),
        GRAIN_MONTH: (
            f"{inside[0]} SELECT m.month, q.dimension_id, {_SUMMED} {inside[1]}",
            f"{inside[0]} SELECT 1 AS n {inside[1]}",
        ),
        GRAIN_EDGE: (
            f"{edges[0]} {_CELL} {edges[1]}",
            f"{edges[0]} SELECT 1 AS n {edges[1]}",
        ),
    }


def _by_month(scene: Scene, table: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return beginning and end of a question for the insides of months, and of one for their edges."""
    days = [day for (day,) in scene.rows(f"SELECT DISTINCT {_DAY} FROM {table} AS q")]
    months = {day: month for day in days if (month := inner_month(day)) is not None}
    pairs = ", ".join(f"({day}, {month})" for day, month in (months or {-1: -1}).items())  # no day begins at -1
    begin = f"WITH m(day, month) AS (VALUES {pairs})"
    inside = f"FROM {table} AS q JOIN m ON m.day = {_DAY} GROUP BY m.month, q.dimension_id"
    edges = f"FROM {table} AS q LEFT JOIN m ON m.day = {_DAY} WHERE m.day IS NULL"
    return (begin, inside), (begin, edges)


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
            f"WITH w AS (SELECT DISTINCT {bucket} AS bucket, n.dimension_id FROM {fresh(scene)} AS n) "
            f"SELECT w.bucket, w.dimension_id, {sums}, min(s.occurred_at), max(s.occurred_at) FROM w "
            f"JOIN gen_spans s ON s.dimension_id = w.dimension_id AND {within} "
            "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id GROUP BY w.bucket, w.dimension_id"
        )
        for row in scene.rows(f"SELECT * FROM ({spans}) AS mine EXCEPT {_KEPT}{grain}"):
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
        f"WHERE s.parent IS NOT NULL AND p.span_id IS NULL AND {of_new(scene)} LIMIT 1"
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
        f"WHERE s.named_quote <> 0 AND (q.quote_key IS NULL OR q.quote IS NULL) AND {of_new(scene)}"
    )
    for span_id, key in scene.rows(sql):
        yield Finding(f"a span names a quote that is not in the log ({key})", span=str(span_id))


def reported_totals(scene: Scene) -> Iterable[Finding]:
    """Where a provider gives its own sum and every bucket is known, the buckets add up to it."""
    buckets = " + ".join(f"coalesce({name}, 0)" for name in TOKEN_CLASSES[:5])
    sql = (
        f"SELECT span_id, reported_total, {buckets} FROM gen_spans s WHERE reported_total IS NOT NULL "
        f"AND input_uncached IS NOT NULL AND output IS NOT NULL AND reported_total <> {buckets} AND {of_new(scene)}"
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
