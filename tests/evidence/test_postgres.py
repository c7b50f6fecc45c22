"""The same evidence on PostgreSQL: seals, labels, and what a purge selects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ledger.accounts.catchup import snapshot
from ledger.evidence.kept import Kept, as_file, hold_against
from ledger.evidence.purge import Wish, purge, purged_names, select
from ledger.evidence.seals import check_seals, make_seal
from ledger.invariants import check
from ledger.labels import set_labels
from ledger.log.log import Log
from ledger.sources.importer import run_import
from reports.query import ask, make_question

SAMPLE = Path(__file__).parents[2] / "reports" / "sample"
CLIENTS = ("claude-code", "codex")
SESSION = "3f2b8a6e-51c4-4d0a-9a1e-7c0d5b1e2f10"


def test_seals(pg_log: Log, add: Any) -> None:
    """Made, chained, checked in the log and by the kept file (OBS-29)."""
    run_import(pg_log, CLIENTS, SAMPLE, use_environment=False)
    first = make_seal(pg_log)
    add(pg_log, "source:ä", 1)
    second = make_seal(pg_log)
    assert second.body.previous == first.body.digest
    assert list(check_seals(pg_log)) == []
    for made, since in ((first, 2), (second, 0)):
        kept = msgspec.json.decode(as_file(made), type=Kept)
        assert hold_against(pg_log, kept) == ([], since)
    heads = [(stream, version + 1, hash_) for stream, version, hash_ in kept.heads]
    assert hold_against(pg_log, msgspec.structs.replace(kept, heads=heads)).faults
    assert [one.name for one in check(pg_log) if not one.ok] == []


def test_labels(pg_log: Log) -> None:
    """Set, taken away, and a dimension of reports with and without periods."""
    run_import(pg_log, CLIENTS, SAMPLE, use_environment=False)
    set_labels(pg_log, "claude-code", SESSION, {"client": "acme", "team": "web"})
    assert set_labels(pg_log, "claude-code", SESSION, {"team": ""}) == {"client": "acme"}
    with snapshot(pg_log) as view:
        for by in ("label.client", "label.client,day"):
            answer = ask(view, make_question(by, tz="UTC"))
            assert {key[0]: row["requests"] for key, row in answer.rows if key[0]} == {"acme": 8}
            assert answer.total.amounts == ask(view, make_question("client", tz="UTC")).total.amounts
        assert ask(view, make_question("model", label=["client="])).total["requests"] == 4
    assert [one.name for one in check(pg_log, full=True) if not one.ok] == []


def test_what_a_purge_selects(pg_log: Log) -> None:
    """By session and by age alike: the one text of the sample, and never a seal's list."""
    run_import(pg_log, CLIENTS, SAMPLE, use_environment=False)
    make_seal(pg_log)
    with snapshot(pg_log) as view:
        by_session = select(pg_log, view, Wish("claude-code", SESSION))
        by_age = select(pg_log, view, Wish(before_us=1 << 60))
        assert select(pg_log, view, Wish("claude-code", "another")).sizes == {}
    assert by_session.sizes == by_age.sizes
    assert list(by_age.sizes.values()) == [82]
    assert purged_names(pg_log) == set()


def test_a_purge(pg_log: Log) -> None:
    """The text is gone, evidence and invariants say so."""
    run_import(pg_log, CLIENTS, SAMPLE, use_environment=False)
    wish = Wish("claude-code", SESSION)
    with snapshot(pg_log) as view:
        selection = select(pg_log, view, wish)
    assert purge(pg_log, wish, selection)
    assert purged_names(pg_log) == set(selection.sizes)
    assert [pg_log.blob(name) for name in selection.sizes] == [None]
    assert [one.name for one in check(pg_log, full=True) if not one.ok] == []
