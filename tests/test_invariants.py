"""What `ledger verify` can see: every check fails on a log in which it does not hold, and says where.

Each case changes one thing in a copy of a sound log, by the bare driver, as a fault or a forger would.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.accounts.amounts import AMOUNTS, GRAIN_DAY, GRAIN_MONTH, GRAIN_QUARTER, GRAIN_SESSION
from ledger.accounts.catchup import rebuild, snapshot
from ledger.accounts.store import Checkpoint, Store
from ledger.cli import run
from ledger.errors import LedgerError
from ledger.events import hubs, runs
from ledger.events.envelope import NewEvent
from ledger.events.sources import LinesObserved
from ledger.evidence.seals import make_seal
from ledger.ids import new_id
from ledger.invariants import CHECKS, FULL_CHECKS, Check, check, remember, verified
from ledger.keeping.rolling import roll
from ledger.log import sqlite
from ledger.log.log import Log, StreamAppend
from ledger.sources.importer import run_import

ROOT = Path(__file__).parents[1]
HOMES = [ROOT / "reports" / "sample", *(ROOT / "tests" / "cases" / "real-claude-code" / name for name in (
    "nested-agents", "retries", "fork-session"))]  # fmt: skip
CLIENTS = ("claude-code", "codex")
SESSION = "5e551011-grows"


def response(number: int) -> str:
    """Return the line of a response."""
    usage = {"input_tokens": number, "output_tokens": 100}
    return json.dumps({
        "type": "assistant", "uuid": f"u{number}", "sessionId": SESSION, "cwd": "/home/ada",
        "requestId": f"req{number}", "timestamp": f"2026-11-10T12:00:{number:02}Z", "message": {
            "id": f"msg{number}", "model": "claude-opus-4-5-20251101", "stop_reason": "end_turn", "usage": usage},
    }) + "\n"  # fmt: skip


def failure(number: int, text: str) -> str:
    """Return the line of a failed request, whose text becomes a blob."""
    return json.dumps({
        "type": "assistant", "uuid": f"f{number}", "sessionId": SESSION, "timestamp": f"2026-11-10T12:01:{number:02}Z",
        "isApiErrorMessage": True, "apiErrorStatus": 529, "message": {
            "id": f"err{number}", "model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0},
            "content": [{"type": "text", "text": text}]},
    }) + "\n"  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which everything holds: sub-agents, failures, forks, and a file that was read in four stretches."""
    folder = tmp_path_factory.mktemp("sound")
    home = folder / "home"
    file = home / ".claude" / "projects" / "x" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    with Log.create(folder / "ledger.db") as log:
        for one in HOMES:
            run_import(log, CLIENTS, one, use_environment=False)
        for stretch in (response(1), response(2), failure(3, "short"), failure(4, "overloaded " * 100)):
            with file.open("a") as growing:
                growing.write(stretch)
            run_import(log, CLIENTS, home, use_environment=False)
    return folder / "ledger.db"


Printed = Callable[..., tuple[int, str]]


class Case:
    """A copy of the sound log, to be spoilt."""

    def __init__(self, sound: Path, folder: Path) -> None:
        self.path = folder / "ledger.db"
        for end in ("", ".accounts"):
            shutil.copy(f"{sound}{end}", f"{self.path}{end}")
        self.connection = sqlite.connect(self.path)
        self.connection.execute("ATTACH ? AS accounts", (f"{self.path}.accounts",))
        triggers = self.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        assert triggers, "nothing guards the events"
        self.guards = [name for (name,) in triggers]
        ((generation,),) = self.rows("SELECT generation FROM projections WHERE live = 1")
        self.store = Store(self.connection, generation)

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        found = self.connection.execute(sql, parameters).fetchall()
        return [tuple(row) for row in found]

    def one(self, sql: str, *parameters: Any) -> Any:
        """Return the first value of a query in which `gen_` names the live tables."""
        return self.rows(self.store.named(sql), *parameters)[0][0]

    def spoil(self, sql: str, *parameters: Any) -> None:
        """Carry out a change that the log itself would refuse; it must change something."""
        for name in self.guards:
            self.connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        before = self.connection.total_changes
        self.connection.execute("PRAGMA foreign_keys=OFF")
        self.connection.execute(self.store.named(sql), parameters)
        assert self.connection.total_changes > before, "the case changes nothing"

    def check(self, *, full: bool = False) -> dict[str, Check]:
        """Return the outcome of every check, by name."""
        self.connection.commit()
        with Log.open(self.path) as log:
            return {one.name: one for one in check(log, full=full)}

    def failing(self, *, full: bool = False) -> set[str]:
        """Return the names of the checks that fail."""
        return {name for name, one in self.check(full=full).items() if not one.ok}

    def found(self, name: str, **place: Any) -> dict[str, object]:
        """Return the finding of a check at a place; the check must fail, and name that place."""
        outcome = self.check()[name]
        assert not outcome.ok
        matching = [one for one in outcome.found if all(one.get(key) == value for key, value in place.items())]
        assert matching, outcome.found
        return matching[0]

    def position(self, version: int) -> int:
        """Return the position of a version in the stream of the file that grew."""
        return int(self.one("SELECT position FROM events WHERE stream_id = ? AND version = ?", self.stream, version))

    @property
    def stream(self) -> str:
        """The stream of the file that was read in four stretches."""
        return str(self.one("SELECT stream_id FROM gen_sources WHERE path LIKE ?", f"%{SESSION}.jsonl"))

    @property
    def span(self) -> str:
        """A span of the file that grew."""
        return "claude-code:msg2:req2"


@pytest.fixture
def case(sound: Path, tmp_path: Path) -> Iterator[Case]:
    """A copy to spoil."""
    made = Case(sound, tmp_path)
    yield made
    made.connection.close()


def test_the_twin_in_which_everything_holds(case: Case) -> None:
    """Every case below begins from here: no check has a finding (OBS-26, OBS-27, OBS-53)."""
    outcomes = case.check(full=True)
    assert list(outcomes) == [name for name, _ in (*CHECKS, *FULL_CHECKS)]
    assert [one for one in outcomes.values() if not one.ok or one.found] == []
    assert len(case.rows("SELECT 1 FROM events WHERE stream_id = ?", case.stream)) == 5
    assert {encoding for (encoding,) in case.rows("SELECT DISTINCT encoding FROM blobs")} == {"plain", "zstd"}


def test_dropping_the_guards_alone_changes_nothing(case: Case) -> None:
    case.spoil("UPDATE log_meta SET value = value")
    assert case.failing(full=True) == set()


# chains (OBS-29)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("event_id", bytes(16)),
        ("session_id", "another"),
        ("at", 1),
        ("writer", "somebody else"),
        ("cause", bytes(16)),
        ("turn", "t"),
        ("span", ""),
        ("prev_hash", bytes(32)),
        ("prev_hash", None),
        ("hash", bytes(32)),
        ("hash", b""),
    ],
)
def test_any_changed_field_of_an_event(case: Case, column: str, value: Any) -> None:
    """The hash covers the envelope, null apart from empty."""
    case.spoil(f"UPDATE events SET {column} = ? WHERE position = ?", value, case.position(3))
    finding = case.found("chains", event=case.position(3))
    assert case.stream in str(finding["what"])


def test_one_changed_byte_of_the_data(case: Case) -> None:
    """A token count that was made smaller, in valid JSON."""
    position = case.position(3)
    data = str(case.one("SELECT data FROM events WHERE position = ?", position))
    changed = data.replace('"output_tokens":100', '"output_tokens":101')
    assert changed != data
    case.spoil("UPDATE events SET data = ? WHERE position = ?", changed, position)
    assert "hash does not fit the contents" in str(case.found("chains", event=position)["what"])
    assert case.failing() == {"chains"}
    assert case.failing(full=True) == {"chains", "live = rebuilt"}


def test_a_changed_hash_breaks_two_links(case: Case) -> None:
    case.spoil("UPDATE events SET hash = ? WHERE position = ?", bytes(32), case.position(3))
    assert "hash does not fit" in str(case.found("chains", event=case.position(3))["what"])
    assert "prev_hash" in str(case.found("chains", event=case.position(4))["what"])


def test_a_missing_event_in_the_middle(case: Case) -> None:
    position = case.position(3)
    case.spoil("DELETE FROM events WHERE position = ?", position)
    assert "version 4 follows 2" in str(case.found("chains", event=case.position(4))["what"])
    gap = case.found("chains", what="events are missing before this one")
    assert (gap["expected"], gap["found"]) == (str(position), str(position + 1))


def test_a_missing_event_at_the_end(case: Case) -> None:
    """No link points at the newest event, but the accounts have seen it."""
    position = int(case.one("SELECT max(position) FROM events"))
    case.spoil("DELETE FROM events WHERE position = ?", position)
    (hash_,) = case.rows("SELECT head FROM projections")[0]
    finding = case.found("chains", event=position)
    assert (finding["expected"], "log was cut" in str(finding["what"])) == (hash_.hex(), True)
    assert "chains" in case.failing()  # a report may have folded anew meanwhile: what was seen is remembered
    with Log.open(case.path) as log:
        rebuild(log)  # the user takes the log as it is
    assert case.failing(full=True) == set()


def test_a_whole_stream_missing(case: Case) -> None:
    stream = case.stream
    case.spoil("DELETE FROM events WHERE stream_id = ?", stream)
    assert "chains" in case.failing()  # the accounts are folded anew, and remember what they had seen


def test_two_versions_swapped(case: Case) -> None:
    second, third = case.position(2), case.position(3)
    for version, position in ((99, second), (2, third), (3, second)):
        case.spoil("UPDATE events SET version = ? WHERE position = ?", version, position)
    assert "version 3 follows 1" in str(case.found("chains", event=second)["what"])


def test_two_events_swapped(case: Case) -> None:
    second, third = case.position(2), case.position(3)
    for position, now in ((999, second), (second, third), (third, 999)):
        case.spoil("UPDATE events SET position = ? WHERE position = ?", position, now)
    assert "version 3 follows 1" in str(case.found("chains", event=second)["what"])


# catalogue


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("type", "lines.imagined", "lines.imagined"),
        ("schema", 99, "schema 99"),
        ("data", "{", "truncated"),
        ("data", "[]", "Expected `object`"),
        ("data", '{"begin":"x"}', "Expected `int`"),
    ],
)
def test_an_event_that_the_catalogue_does_not_know(case: Case, column: str, value: Any, told: str) -> None:
    """It is named, and every other check still says its part."""
    case.spoil(f"UPDATE events SET {column} = ? WHERE position = ?", value, case.position(3))
    assert told in str(case.found("catalogue", event=case.position(3))["what"])
    outcomes = case.check(full=True)
    assert list(outcomes) == [name for name, _ in (*CHECKS, *FULL_CHECKS)]
    assert not outcomes["live = rebuilt"].ok
    assert outcomes["totals"].ok


def test_an_event_that_cannot_be_folded(case: Case) -> None:
    """Damaged before any account knew it: the log is checked, the event named, and no traceback."""
    position = case.position(3)
    case.spoil("UPDATE events SET data = '{' WHERE position = ?", position)
    case.spoil("DELETE FROM projections")
    for table in ("spans", "totals", "sources"):
        case.spoil(f"DELETE FROM gen_{table}")
    outcomes = case.check(full=True)
    assert [name for name, one in outcomes.items() if not one.ok] == ["chains", "catalogue", "stretches", "accounts"]
    assert case.found("catalogue", event=position)
    assert run(["verify", "--db", str(case.path)]) == 1
    assert run(["report", "--db", str(case.path)]) == 2


# blobs


@pytest.mark.parametrize("encoding", ["plain", "zstd"])
@pytest.mark.parametrize("change", ["DELETE", "bytes = x'00'", "bytes = x''", "bytes = CAST(bytes || x'00' AS BLOB)",
                                    "encoding = 'rot13'", "encoding = 'plain', bytes = x'41'"])  # fmt: skip
def test_a_missing_or_changed_blob(case: Case, encoding: str, change: str) -> None:
    """A text that is not what was recorded is named by its digest, and by the first event that links it."""
    digest, position = case.rows(
        "SELECT b.sha256, min(e.position) FROM blobs b JOIN event_blobs l ON l.sha256 = b.sha256 "
        "JOIN events e ON e.event_id = l.event_id WHERE b.encoding = ? GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
        encoding,
    )[0]
    if change == "DELETE":
        case.spoil("DELETE FROM blobs WHERE sha256 = ?", digest)
    else:
        case.spoil(f"UPDATE blobs SET {change} WHERE sha256 = ?", digest)
    state = "missing" if change == "DELETE" else "changed"
    if encoding == "zstd" and "|| x'00'" in change:
        assert case.failing() == set()  # what stands behind a whole frame is not read
        return
    assert case.found("blobs", event=position)["what"] == f"blob {digest.hex()} is {state}"
    assert case.failing() == {"blobs"}


# seals; tests/evidence has what else they find, and purged blobs


def test_a_stream_that_does_not_hold_what_was_sealed(case: Case) -> None:
    """Its tail was cut off, which leaves a chain that is whole (OBS-29)."""
    with Log.open(case.path) as log:
        make_seal(log)
    case.spoil("DELETE FROM events WHERE stream_id = ? AND version = 5", case.stream)
    found = case.found("seals", stream=case.stream)
    assert (found["what"], found["version"]) == ("an event that was sealed is not in the log", 5)


def test_a_seal_that_was_removed_and_another_that_names_it(case: Case) -> None:
    """The chain of the book was made whole, the chain of seals was not."""
    with Log.open(case.path) as log:
        first, second = make_seal(log), make_seal(log)
    case.spoil("UPDATE events SET data = replace(data, ?, ?) WHERE position = ?",
               first.body.digest, "ab" * 32, second.event.position)  # fmt: skip
    found = case.found("seals", event=second.event.position)
    assert found["expected"] == first.body.digest


# stretches


def test_a_gap_between_two_stretches(case: Case) -> None:
    """An importer that skipped a part: the chain is whole, the stretches are not."""
    stream = case.stream
    with Log.open(case.path) as log:
        version = log.stream_version(stream)
        body = LinesObserved(begin=100_000, end=100_010, lines=1, tail="")
        log.append([StreamAppend(stream, version, [NewEvent(body=body, event_id=new_id())])])
    finding = case.found("stretches", event=case.position(version + 1))
    assert (finding["what"], finding["found"]) == ("a stretch does not begin where the last one ended", "100000")
    assert case.failing() == {"stretches"}


def test_accounts_that_are_elsewhere(case: Case) -> None:
    case.spoil('UPDATE gen_sources SET "end" = "end" - 1 WHERE stream_id = ?', case.stream)
    finding = case.found("places")
    assert finding["what"] == f"{case.stream}: the accounts are elsewhere"
    assert int(str(finding["expected"])) == int(str(finding["found"])) + 1
    assert case.failing(full=True) == {"places", "live = rebuilt"}


# totals


@pytest.mark.parametrize("grain", [GRAIN_QUARTER, GRAIN_DAY, GRAIN_SESSION, GRAIN_MONTH])
@pytest.mark.parametrize("name", [*AMOUNTS, "first_at", "last_at"])
def test_every_figure_of_the_totals_is_held_against_the_spans(case: Case, name: str, grain: int) -> None:
    """One too many in any figure of any grain: a nano-dollar, a token, a microsecond (OBS-19, OBS-26)."""
    bucket, dimension = case.rows(
        case.store.named("SELECT bucket, dimension_id FROM gen_totals WHERE grain = ? ORDER BY 1, 2 LIMIT 1"), grain
    )[0]
    sql = f"UPDATE gen_totals SET {name} = {name} + 1 WHERE grain = ? AND bucket = ? AND dimension_id = ?"
    case.spoil(sql, grain, bucket, dimension)
    told = [str(finding["what"]) for finding in case.check()["totals"].found]
    assert len(told) == 2
    assert all(f"{bucket}, dimension {dimension}" in what for what in told)
    assert "totals" in case.failing()


@pytest.mark.parametrize("grain", [GRAIN_QUARTER, GRAIN_DAY, GRAIN_SESSION, GRAIN_MONTH])
def test_a_row_of_totals_lost_made_up_or_moved(case: Case, grain: int) -> None:
    where = "WHERE grain = ? AND dimension_id = (SELECT min(dimension_id) FROM gen_totals)"
    case.spoil(f"UPDATE gen_totals SET bucket = bucket + 900000000 {where}", grain)
    assert "totals" in case.failing()
    case.spoil(f"DELETE FROM gen_totals {where}", grain)
    assert all("spans, not totals" in str(finding["what"]) for finding in case.check()["totals"].found)


@pytest.mark.parametrize(
    "change",
    [
        "cost_nanousd = cost_nanousd + 1",
        "cost_nanousd = NULL",
        "output = output - 1",
        "output = NULL",
        "occurred_at = occurred_at + 86400000000",
        "lower_bound = 1 - lower_bound",
        "reported_cost_nanousd = 0",
        "ran_us = 0",
        "attempt_kind = 'retry'",
        "dimension_id = (SELECT max(dimension_id) FROM gen_dimensions WHERE kind = 'model' AND status = 'failed')",
        "session_key = (SELECT max(session_key) FROM gen_spans)",
    ],
)
def test_a_changed_span(case: Case, change: str) -> None:
    """A span says something else than was summed (OBS-26)."""
    case.spoil(f"UPDATE gen_spans SET {change} WHERE span_id = ?", case.span)
    assert "totals" in case.failing()
    assert {"totals", "live = rebuilt"} <= case.failing(full=True)


def test_a_deleted_span(case: Case) -> None:
    case.spoil("DELETE FROM gen_spans WHERE span_id = ?", case.span)
    told = [str(finding["what"]) for finding in case.check()["totals"].found]
    assert any(what.startswith("session ") and "totals, not spans" in what for what in told)
    rebuilt = case.check(full=True)["live = rebuilt"]
    assert any(case.span in str(finding) for finding in rebuilt.found)


# the tree


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("turn_key = (SELECT turn_key FROM gen_turns t WHERE t.session_key <> gen_spans.session_key LIMIT 1)",
         "a span is in a turn of another session or agent"),
        ("turn_key = 1", "a span has no turn"),
        ("parent = 'nobody'", "a span has no parent"),
        ("parent = (SELECT span_id FROM gen_spans WHERE session_key <> (SELECT session_key FROM gen_spans "
         "WHERE span_id = 'claude-code:msg2:req2') LIMIT 1)", "a span has no parent"),
        ("dimension_id = 1", "a span has no dimensions"),
        ("session_key = 1", "a span has no session"),
        ("agent_id = 'somebody'", "a span is in a turn of another session or agent"),
    ],
)  # fmt: skip
def test_a_span_that_hangs_wrong(case: Case, change: str, told: str) -> None:
    """Each span has one place: the finding names the span and its session (OBS-18, OBS-20, OBS-46)."""
    case.spoil(f"UPDATE gen_spans SET {change} WHERE span_id = ?", case.span)
    finding = case.found("tree", span=case.span, what=told)
    assert finding.get("session") == (None if change == "session_key = 1" else SESSION)


def test_the_turns_of_a_session_that_do_not_add_up(case: Case) -> None:
    """A turn in another session takes its spans' sums with it (OBS-27)."""
    turn = case.one("SELECT turn_key FROM gen_spans WHERE span_id = ?", case.span)
    other = case.one("SELECT session_id FROM gen_sessions WHERE session_key = (SELECT max(session_key) FROM gen_spans)")
    assert other != SESSION
    case.spoil("UPDATE gen_turns SET session_key = (SELECT max(session_key) FROM gen_spans) WHERE turn_key = ?", turn)
    assert case.found("node sums", session=other)
    assert case.failing() == {"tree", "node sums"}


def test_statuses_that_do_not_add_up_to_the_requests(case: Case) -> None:
    """One more that succeeded than was sent (OBS-16)."""
    case.spoil("UPDATE gen_totals SET succeeded = succeeded + 1 WHERE grain = 1 AND bucket = "
               "(SELECT min(bucket) FROM gen_totals WHERE grain = 1)")  # fmt: skip
    finding = case.found("statuses")
    assert "grain 1, bucket " in str(finding["what"])
    assert int(str(finding["found"])) == int(str(finding["expected"])) + 1


# keys and quotes


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE gen_dimensions SET model = 'cheaper' WHERE model LIKE 'claude-opus%'", "cheaper"),
        ("UPDATE gen_dimensions SET branch = '', project = branch || project WHERE branch <> ''", "dimension "),
        ("UPDATE gen_sessions SET session_id = 'mine' WHERE session_id = '5e551011-grows'", "session key "),
        ("UPDATE gen_sessions SET client = 'codex' WHERE session_id = '5e551011-grows'", "session key "),
        ("UPDATE gen_quotes SET sha256 = substr(sha256, 2) || 'f'", "quote key "),
    ],
)
def test_a_renamed_row(case: Case, sql: str, told: str) -> None:
    """A dimension, a session, a quote under another name than its key is made of."""
    case.spoil(sql)
    assert told in str(case.found("keys")["what"])


def test_a_changed_quote(case: Case) -> None:
    """A rate that was lowered after the fact (OBS-51)."""
    sha256, quote = case.rows(case.store.named("SELECT sha256, quote FROM gen_quotes ORDER BY 1"))[0]
    changed = quote.replace('"output":"', '"output":"1')
    assert changed != quote
    case.spoil("UPDATE gen_quotes SET quote = ? WHERE sha256 = ?", changed, sha256)
    assert case.found("quotes", what=f"quote {sha256} is another one")
    assert case.failing() == {"quotes"}


def test_a_quote_that_is_no_quote(case: Case) -> None:
    """The check that cannot be carried out has failed, and the others go on."""
    case.spoil("UPDATE gen_quotes SET quote = '{}'")
    assert not case.check()["quotes"].ok
    assert case.failing() == {"quotes"}


@pytest.mark.parametrize("sql", ["DELETE FROM gen_quotes", "UPDATE gen_quotes SET quote = NULL"])
def test_a_quote_that_is_not_in_the_log(case: Case, sql: str) -> None:
    case.spoil(sql)
    findings = case.check()["quotes"].found
    assert all("a span names a quote that is not in the log" in str(finding["what"]) for finding in findings)
    assert all(case.one("SELECT count(*) FROM gen_spans WHERE span_id = ?", one["span"]) for one in findings)
    assert "quotes" in case.failing()


# the provider's own sum: flagged, and no failure


def codex_home(folder: Path, total: int) -> Path:
    """Write a rollout with one record, whose total the provider gives as `total`."""
    file = folder / ".codex" / "sessions" / "rollout-2026-11-10T12-00-00-019a5d3e-0000-7000-8000-000000000001.jsonl"
    file.parent.mkdir(parents=True)
    usage = {"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 10, "reasoning_output_tokens": 4,
             "total_tokens": total}  # fmt: skip
    record = {"response_id": "resp_1", "model": "gpt-5.3-codex", "usage": usage}
    line = {"timestamp": "2026-11-10T12:00:00Z", "type": "token_usage_record", "payload": record}
    file.write_text(json.dumps(line) + "\n")
    return folder


@pytest.mark.parametrize(("total", "word"), [(1010, "ok"), (1011, "flagged")])
def test_a_provider_that_contradicts_itself_is_flagged(
    total: int, word: str, tmp_path: Path, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server's total is kept and compared; a mismatch is shown, names its span, and is no failure (OBS-12)."""
    run_import(log, CLIENTS, codex_home(tmp_path / "home", total), use_environment=False)
    outcome = next(one for one in check(log, full=True) if one.name == "reported totals")
    assert outcome.ok
    assert [finding.get("span") for finding in outcome.found] == (["codex:resp_1:"] if word == "flagged" else [])
    assert run(["verify", "--full", "--db", str(log.path)]) == 0
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if line.startswith("reported totals"))
    assert line.split()[2] == word
    assert ("span: codex:resp_1:" in text) == (word == "flagged")
    assert text.endswith(f"all {len(CHECKS + FULL_CHECKS)} checks hold\n")


# folding again


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("UPDATE gen_spans SET ended_at = 0, http_status = 418 WHERE span_id = 'claude-code:msg2:req2'", "spans"),
        ("UPDATE gen_spans SET source_index = 7 WHERE span_id = 'claude-code:msg2:req2'", "spans"),
        ("UPDATE gen_sessions SET forked_from = 'x' WHERE session_id = '5e551011-grows'", "sessions"),
        ("UPDATE gen_turns SET started_at = 5 WHERE turn_key IN (SELECT turn_key FROM gen_spans)", "turns"),
        ("UPDATE gen_jobs SET status = 'lost'", "jobs"),
        ("DELETE FROM gen_agents", "agents"),
        ("DELETE FROM gen_sightings", "sightings"),
        ("INSERT INTO gen_span_quotes VALUES ('claude-code:msg2:req2', 1, 'x')", "span_quotes"),
        ("UPDATE gen_sources SET tail = 'x'", "sources"),
        ("UPDATE gen_quotes SET superseded_by = 1", "quotes"),
    ],
)
def test_rows_that_no_sum_holds_are_folded_again(case: Case, sql: str, table: str) -> None:
    """`--full` sees any row that folding the log would not give (OBS-53)."""
    case.spoil(sql)
    outcome = case.check(full=True)["live = rebuilt"]
    assert not outcome.ok
    assert any(str(finding["what"]).startswith(f"{table}: only ") for finding in outcome.found)


def test_a_rebuild_makes_it_good(case: Case) -> None:
    """Accounts are folded from the log and can be thrown away (OBS-53)."""
    case.spoil("UPDATE gen_spans SET cost_nanousd = 1")
    assert "totals" in case.failing()
    case.connection.close()
    assert run(["rebuild", "--db", str(case.path)]) == 0
    with Log.open(case.path) as log:
        assert [one for one in check(log, full=True) if not one.ok] == []


def rolled(case: Case) -> Path:
    """Roll the log; return where its first volume lies."""
    with Log.open(case.path) as log:
        archive = roll(log).archive
    assert case.failing(full=True) == set()
    return archive


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE carried SET version = version + 1 WHERE stream_id LIKE 'source:%'", "a stream goes on from another"),
        ("UPDATE carried SET hash = x'00' WHERE stream_id LIKE 'source:%'", "a stream goes on from another"),
        ("DELETE FROM carried WHERE stream_id LIKE 'source:%'", "a stream goes on from another"),
        ("UPDATE log_meta SET value = 'x' WHERE key = 'previous_seal'", "the log names another seal"),
        ("DELETE FROM events WHERE type = 'log.rolled'", "the log does not begin with the word"),
    ],
)
def test_a_volume_that_does_not_go_on_where_the_one_before_ends(case: Case, sql: str, what: str) -> None:
    """What a log that was rolled began with is held against its closed volume (OBS-29)."""
    rolled(case)
    case.spoil(sql)
    outcome = case.check()["volumes"]
    assert not outcome.ok
    assert str(outcome.found[0]["what"]).startswith(what)


def test_a_closed_volume_that_was_written_on(case: Case) -> None:
    """An event that was slipped into the closed file is found, as is one that was taken from it."""
    archive = rolled(case)
    with sqlite.connect(archive) as connection:
        connection.execute("DROP TRIGGER events_refuse_delete")
        connection.execute("DELETE FROM events WHERE position = (SELECT max(position) FROM events)")
    assert case.failing() >= {"chains", "volumes"}


def test_a_closed_volume_that_is_kept_elsewhere_is_said_and_no_failure(case: Case) -> None:
    """What is there is checked, and how far that goes is said."""
    archive = rolled(case)
    archive.rename(archive.with_suffix(".elsewhere"))
    outcome = case.check()["archives"]
    assert outcome.ok
    assert str(outcome.found[0]["what"]).startswith(f"{archive}: is not there")
    assert case.failing() == set()
    case.spoil("UPDATE events SET at = at + 1 WHERE type = 'log.rolled'")
    assert case.failing() == {"chains"}


# in two processes, and only what is new


SPOILT = {
    "chains": "UPDATE events SET at = at + 1 WHERE position = 7",
    "catalogue": "UPDATE events SET data = '{}' WHERE type = 'lines.observed' AND position > 7",
    "places": 'UPDATE gen_sources SET "end" = "end" + 1',
    "totals": "UPDATE gen_totals SET output = output + 1 WHERE grain = 0",
}


@pytest.mark.parametrize("name", [*SPOILT, ""])
def test_a_second_process_finds_the_same(name: str, case: Case) -> None:
    """Who reads the events apart says what one process would have said."""
    if name:
        case.spoil(SPOILT[name])
    case.connection.commit()
    with Log.open(case.path) as log:
        outcomes = [check(log, full=True, apart=apart) for apart in (False, True)]
    assert outcomes[0] == outcomes[1]
    assert {one.name for one in outcomes[1] if not one.ok} >= ({name} if name else set())
    assert all(one.ok for one in outcomes[1]) == (not name)


def test_a_process_apart_that_is_ended_is_said(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did not check is never taken to hold."""
    import ledger.invariants as module

    monkeypatch.setattr(module, "_apart", lambda *_: os.kill(os.getpid(), 9))
    with Log.open(case.path) as log, pytest.raises(LedgerError, match="ended from outside"):
        check(log, apart=True)


def test_only_what_is_new_is_verified(case: Case, printed: Printed, tmp_path: Path) -> None:
    """`--new` passes over what held before, finds what is wrong in what came since, and remembers only what held."""
    assert printed(case, "--new")[0] == 0  # nothing was verified before: everything is checked
    with Log.open(case.path) as log:
        before = log.head_position()
        assert verified(log) == before
        home = tmp_path / "more"
        file = home / ".claude" / "projects" / "y" / "6e551011-0000-4000-8000-000000000000.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(response(7).replace(SESSION, file.stem))
        run_import(log, CLIENTS, home, use_environment=False)
    old = case.rows("SELECT at FROM events WHERE position = 7")
    case.spoil("UPDATE events SET at = at + 1 WHERE position = 7")
    code, text = printed(case, "--new")
    assert (code, f"the {before:,} before them were verified earlier" in text) == (0, True)
    assert printed(case)[0] == 1  # the twin: the whole log is checked, and the old event is found
    case.spoil("UPDATE events SET at = ? WHERE position = 7", old[0][0])
    assert printed(case)[0] == 0
    for spoilt, mended in (("output + 1", "output - 1"), ("output - 1", "output + 1")):
        with Log.open(case.path) as log, log.accounts_transaction():
            Checkpoint(log.accounts).verify(before, log.hash_of(before) or b"")
        where = "WHERE bucket = (SELECT session_key FROM gen_spans ORDER BY source_position DESC LIMIT 1)"
        case.spoil(f"UPDATE gen_totals SET output = {spoilt} {where}")
        code, text = printed(case, "--new")
        assert (code, "totals" in text) == (1, True)
        with Log.open(case.path) as log:
            assert verified(log) == before
        case.spoil(f"UPDATE gen_totals SET output = {mended} {where}")


def test_what_was_verified_of_another_log_counts_for_nothing(case: Case) -> None:
    """The position is kept with the hash of the event there."""
    with Log.open(case.path) as log:
        assert all(one.ok for one in check(log))
        remember(log, log.head_position())
        assert verified(log) == log.head_position()
    case.spoil("UPDATE events SET hash = x'00' WHERE position = (SELECT max(position) FROM events)")
    with Log.open(case.path) as log:
        assert verified(log) == 0


RUN = "run:01890000-0000-7000-8000-000000000001"
CALLS = [runs.CallReference("a", "grep"), runs.CallReference("b", "grep")]
SENT = runs.RequestSent(
    call=1, attempt=1, provider="p", model="m", protocol="openai-chat", endpoint="", context=0, body_sha256="",
    body_bytes=0,
)  # fmt: skip
CALLED = runs.ToolCalled(tool="grep", call="a", arguments="", arguments_bytes=0)
BEGUN = [(runs.RunClaimed(epoch=1, host="h", pid=1), ""), (runs.TurnStarted(number=1, grant="g"), "")]


def told(role: str, answers: str = "", calls: list[runs.CallReference] | None = None) -> tuple[object, str]:
    """Return a message of a run."""
    return runs.MessageAdded(role=role, blob="", size_bytes=0, answers=answers, calls=calls or []), ""


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([(runs.RequestAnswered(), "s")], "ends that is not open"),
        ([(SENT, "s"), (runs.RequestLost(), "s"), (runs.RequestAnswered(), "s")], "ends that is not open"),
        ([(SENT, "s"), (SENT, "s")], "begins a second time"),
        ([(SENT, "s"), (runs.TurnEnded(outcome="ok"), "")], "1 spans are open where the run rests: request.sent"),
        ([(CALLED, "t"), (runs.RunReleased(epoch=1), "")], "1 spans are open where the run rests: tool.called"),
        ([(runs.RunClaimed(epoch=1, host="h", pid=2), "")], "a claim of epoch 1 after one of 1"),
        ([(runs.TurnStarted(number=2, grant="h"), "")], "before the last one ended"),
        ([told("assistant", calls=CALLS), told("user")], "before the results of 2 calls"),
        ([told("assistant", calls=CALLS), told("tool", "b")], "out of the order of the calls: b before a"),
        ([told("tool", "a")], "does not wait for one: a"),
        ([told("assistant", calls=CALLS), told("tool", "a"), told("tool", "a")], "does not wait for one: a"),
    ],
)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_what_runs_must_hold(events: list[tuple[object, str]], wrong: str, cut: int, tmp_path: Path) -> None:
    """A begun span ends once, each call has one result, in order (LOOP-03, LOOP-04): "runs", read in one go or two."""
    with Log.create(tmp_path / "ledger.db") as log:
        for number, (body, span) in enumerate([*BEGUN, *events]):
            new = NewEvent(body=body, event_id=new_id(), session_id=RUN[4:], turn="t", span=span or None)
            log.append([StreamAppend(RUN, number, [new])])
        (outcome,) = [one for one in check(log, since=cut) if one.name == "runs"]
        assert not outcome.ok
        assert wrong in str(outcome.found[0]["what"])
        assert (outcome.found[0]["stream"], outcome.found[0]["version"]) == (RUN, len(events) + 2)


def test_what_grants_must_hold(tmp_path: Path) -> None:
    """Of "grants": a reservation of no grant, and one beyond its ceiling, are found and named."""
    with Log.create(tmp_path / "ledger.db") as log:
        bodies = [
            hubs.GrantOpened("g", hubs.Limits(requests=1)), hubs.ReservationMade("g", 5), hubs.ReservationMade("g", 5),
            hubs.ReservationMade("none", 5),
        ]  # fmt: skip
        for number, body in enumerate(bodies):
            new = NewEvent(body=body, event_id=new_id(), session_id="s", span=f"s{number}")
            log.append([StreamAppend("hub:s", number, [new])])
        (outcome,) = [one for one in check(log) if one.name == "grants"]
        assert [(one["version"], str(one["what"]).partition(":")[0]) for one in outcome.found] == [
            (3, "a reservation breaks a ceiling (requests)"), (4, "the grant of a reservation is not open"),
        ]  # fmt: skip


def test_every_check_has_a_case_above() -> None:
    """A check that is added needs a log on which it fails."""
    text = Path(__file__).read_text("utf-8")
    for name, _ in (*CHECKS, *FULL_CHECKS):
        assert f'"{name}"' in text.partition("def test_every_check_has")[0]


# the command


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """A function that runs `ledger verify` and returns its exit code and what it printed."""

    def verify(case: Case, *words: str) -> tuple[int, str]:
        code = run(["verify", "--db", str(case.path), *words])
        return code, capsys.readouterr().out

    return verify


def test_verify_says_that_everything_holds(case: Case, printed: Printed) -> None:
    code, text = printed(case)
    assert (code, text.splitlines()[-1]) == (0, f"all {len(CHECKS)} checks hold")
    code, text = printed(case, "--full", "--format", "json")
    answer = json.loads(text)
    assert (code, answer["ok"]) == (0, True)
    assert [list(one) for one in answer["checks"]] == [["name", "ok", "detail", "found"]] * (len(CHECKS) + 1)
    code, text = printed(case, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["ok"] for row in rows} == {"true"}


def test_verify_exits_1_and_names_the_row(case: Case, printed: Printed) -> None:
    """In every format: which check, and the session, span or event at fault."""
    case.spoil("UPDATE gen_spans SET turn_key = 1 WHERE span_id = ?", case.span)
    code, text = printed(case)
    assert code == 1
    assert f"tree: what: a span has no turn, session: {SESSION}, span: {case.span}" in text
    assert text.splitlines()[-1] == f"2 of {len(CHECKS)} checks failed"
    code, text = printed(case, "--format", "json")
    answer = json.loads(text)
    assert (code, answer["ok"]) == (1, False)
    tree = next(one for one in answer["checks"] if one["name"] == "tree")
    assert tree["found"] == [{"what": "a span has no turn", "session": SESSION, "span": case.span}]
    assert tree["detail"].startswith("1 found: Every span has one place in the tree")
    code, text = printed(case, "--format", "csv")
    assert code == 1
    assert next(row for row in csv.DictReader(io.StringIO(text)) if row["name"] == "tree")["ok"] == "false"


def test_findings_are_counted_where_they_are_too_many_to_name(case: Case) -> None:
    case.spoil("UPDATE gen_spans SET parent = 'nobody'")
    outcome = case.check()["tree"]
    count = int(case.one("SELECT count(*) FROM gen_spans"))
    assert count > 20 and len(outcome.found) == 20
    assert outcome.detail.startswith(f"{count} found: ")


def test_a_check_reads_and_never_writes(case: Case) -> None:
    """Verifying a spoilt log leaves every byte of its tables as it was (OBS-29)."""
    case.spoil("UPDATE gen_spans SET cost_nanousd = 1")

    def contents() -> list[Any]:
        masters = ("main.sqlite_master", "accounts.sqlite_master")
        names = [name for one in masters for (name,) in case.rows(f"SELECT name FROM {one} WHERE type = 'table'")]
        return [(name, case.rows(f"SELECT * FROM {name}")) for name in names]

    before = contents()
    case.check(full=True)
    assert contents() == before


def test_a_log_that_may_only_be_read_is_verified_too(case: Case) -> None:
    with Log.open(case.path, readonly=True) as log, snapshot(log):
        pass
    with Log.open(case.path, readonly=True) as log:
        assert [one.name for one in check(log, full=True) if not one.ok] == []
