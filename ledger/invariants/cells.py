"""Sums of the spans that share session, turn, agent, dimensions, quarter-hour and quote, made once for all checks.

A log of ten million spans has far fewer such cells, and every check of a sum or of a place can be asked of them. The
sums of a cell know nothing of kinds and statuses: those are of the cell's dimensions, and come in when cells are
rolled up.
"""

from __future__ import annotations

from ledger.accounts.amounts import AMOUNTS, QUARTER_HOUR_US, STATUSES
from ledger.accounts.sums import CELL_SUMS
from ledger.invariants.finding import Scene

_MODEL = "d.kind = 'model'"
_OF_ANY_KIND = frozenset(("spans", "ran_known_spans", "ran_us", "waited_known_spans", "waited_us"))


def cells(scene: Scene) -> str:
    """Return what stands for the cells in a FROM clause: a temporary table on SQLite, a question on PostgreSQL.

    There a reader may make no table. Of a scene that begins in the middle, only the sessions that have a new span.
    """
    if "cells" not in scene.kept:
        scene.kept["cells"] = _made(scene)
    return str(scene.kept["cells"])


def _made(scene: Scene) -> str:
    sums = ", ".join(f"{text} AS {name}" for name, text in CELL_SUMS.items())
    quarter = f"s.occurred_at - s.occurred_at % {QUARTER_HOUR_US}"
    keys = f"s.session_key, s.turn_key, s.agent_id, s.dimension_id, {quarter}, s.named_quote"
    where = f"WHERE {of_new(scene)} " if scene.since else ""
    return _kept(scene, "cells", (
        f"SELECT {keys.replace(quarter, quarter + ' AS quarter')}, {sums}, min(s.occurred_at) AS first_at, "
        f"max(s.occurred_at) AS last_at FROM gen_spans s {where}GROUP BY {keys}"
    ))  # fmt: skip


def quarters(scene: Scene) -> str:
    """Return what stands for the cells summed by quarter-hour and dimensions, with every amount."""
    if "quarters" not in scene.kept:
        scene.kept["quarters"] = _kept(scene, "quarters", rolled(cells(scene), "c.quarter"))
    return str(scene.kept["quarters"])


def fresh(scene: Scene) -> str:
    """Return what stands for session, dimensions and time of the spans that events beyond `since` told of last."""
    if "fresh" not in scene.kept:
        columns = "n.session_key, n.dimension_id, n.occurred_at"
        question = f"SELECT {columns} FROM gen_spans n WHERE n.source_position > {scene.since}"
        scene.kept["fresh"] = _kept(scene, "fresh", question)
    return str(scene.kept["fresh"])


def of_new(scene: Scene) -> str:
    """Return the condition on spans `s` that leaves out the sessions without a new span; true where all count."""
    return f"s.session_key IN (SELECT f.session_key FROM {fresh(scene)} AS f)" if scene.since else "1 = 1"


def _kept(scene: Scene, name: str, question: str) -> str:
    store = scene.view.store
    if store.connection.dialect != "sqlite":
        return f"({question})"
    store.connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
    store.query(f"CREATE TEMP TABLE {name} AS {question}")
    return f"temp.{name}"


def forget(scene: Scene) -> None:
    """Remove the temporary tables, where there are any."""
    for name in ("cells", "quarters", "fresh"):
        if scene.kept.pop(name, "") == f"temp.{name}":
            scene.view.store.connection.execute(f"DROP TABLE IF EXISTS temp.{name}")


def rolled(table: str, bucket: str) -> str:
    """Return the question for (bucket, dimension, every amount, first and last instant), summed over cells `c`."""
    sums = ", ".join(f"{_rolled(name)} AS {name}" for name in AMOUNTS)
    instants = "min(c.first_at) AS first_at, max(c.last_at) AS last_at"
    return (
        f"SELECT {bucket} AS bucket, c.dimension_id, {sums}, {instants} FROM {table} AS c "
        f"JOIN gen_dimensions d ON d.dimension_id = c.dimension_id GROUP BY {bucket}, c.dimension_id"
    )


def _rolled(name: str) -> str:
    if name in _OF_ANY_KIND:
        return f"sum(c.{name})"
    if name == "requests":
        return f"sum(CASE WHEN {_MODEL} THEN c.spans ELSE 0 END)"
    if name in STATUSES:
        return f"sum(CASE WHEN {_MODEL} AND d.status = '{name}' THEN c.spans ELSE 0 END)"
    return f"sum(CASE WHEN {_MODEL} THEN c.{name} ELSE 0 END)"
