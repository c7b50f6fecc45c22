"""Every log tree whose truth is known: what an import, the fold and a report make of it, figure by figure.

`import-*` trees hold one pitfall each; `real-*` trees were written by the real clients while they talked to
a scripted endpoint that counted what it answered (tests/cases/real/README.md).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.accounts.catchup import snapshot
from ledger.accounts.comparing import differing
from ledger.accounts.store import TABLES
from ledger.cli import run
from ledger.invariants import check
from ledger.log.log import Log
from ledger.log.postgres_log import PostgresLog
from ledger.sources.importer import SourceReport, origin_of, run_import
from reports.figures import Figures
from reports.query import ask, make_question

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
ORIGINALS = ROOT.parent / "shared" / "cases"
CLIENTS = ("claude-code", "codex")

CLASSES = {
    "input": "input_uncached",
    "cache_read": "cache_read",
    "cache_5m": "cache_write_5m",
    "cache_1h": "cache_write_1h",
    "output": "output",
}
"""The truth's names of the token classes, and ours."""

USAGE_CLASSES = {
    "input": ("input_tokens",),
    "cache_read": ("cache_read_input_tokens",),
    "cache_5m": ("cache_creation", "ephemeral_5m_input_tokens"),
    "cache_1h": ("cache_creation", "ephemeral_1h_input_tokens"),
}
"""Where a class stands in a usage object as the endpoint sent it. Output is taken as the log has it."""

OWNED_BY_ITS_FORK = {
    "fork-session": {"msg_01cfork000000", "msg_01cfork000001"},
}
"""Responses that the rule of ownership gives to a fork: the original went on later than its fork did, and no response
tells which of the two is older (README, Limits)."""


def trees(folder: str) -> list[Any]:
    """Return the trees of a folder as parameters."""
    found = sorted(path.parent for path in (CASES / folder).glob("*/truth.json"))
    return [pytest.param(tree, id=f"{folder}/{tree.name}") for tree in found]


CLAUDE = pytest.mark.parametrize("tree", trees("import-claude-code"))
CODEX = pytest.mark.parametrize("tree", trees("import-codex"))
REAL_CLAUDE = pytest.mark.parametrize("tree", trees("real-claude-code"))
REAL_CODEX = pytest.mark.parametrize("tree", trees("real-codex"))
EVERY_TREE = pytest.mark.parametrize(
    "tree",
    [
        tree
        for folder in ("import-claude-code", "import-codex", "real-claude-code", "real-codex")
        for tree in trees(folder)
    ],
)


class Imported:
    """One tree, imported once into a log of its own."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.truth: dict[str, Any] = json.loads((tree / "truth.json").read_bytes())
        self.log = Log.open(folder / "ledger.db", create=True)
        self.reports: list[SourceReport] = run_import(self.log, CLIENTS, tree, use_environment=False)

    def by(self, names: str) -> dict[str, Figures]:
        """Return the rows of a report in UTC, as the first name's value -> figures."""
        with snapshot(self.log) as view:
            return {key[0]: figures for key, figures in ask(view, make_question(names, tz="UTC")).rows}

    def total(self) -> Figures:
        """Return the total of a report."""
        with snapshot(self.log) as view:
            return ask(view, make_question("client", tz="UTC")).total

    def spans(self) -> list[dict[str, Any]]:
        """Return the model spans, with the values of their session and dimensions."""
        own = ("span_id", "agent_id", "part", "lower_bound", "http_status", *CLASSES.values(), "reasoning")
        dimensions = ("who", "agent", "model", "status")
        return self.rows(
            [*(f"s.{name}" for name in own), "n.session_id", *(f"d.{name}" for name in dimensions)],
            "FROM gen_spans s JOIN gen_sessions n ON n.session_key = s.session_key "
            "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id WHERE d.kind = 'model'",
        )

    def rows(self, names: list[str], tables: str, *parameters: object) -> list[dict[str, Any]]:
        """Return rows of the accounts by column name, without the table's."""
        with snapshot(self.log) as view:
            sql = view.store.named(f"SELECT {', '.join(names)} {tables}")
            found = view.store.connection.execute(sql, parameters).fetchall()
        return [dict(zip((name.split(".")[-1] for name in names), row, strict=True)) for row in found]

    def responses(self) -> dict[str, dict[str, Any]]:
        """Return the spans of answered requests by the provider's response id, without what stands beside."""
        ended = ("succeeded", "cut")
        answered = [span for span in self.spans() if span["status"] in ended and not span["part"]]
        found = {span["span_id"].split(":")[1]: span for span in answered}
        assert len(found) == len(answered), "a response is counted twice"
        return found


Import = Callable[[Path], Imported]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Import]:
    """Import a tree, each only once in this module."""
    done: dict[Path, Imported] = {}

    def one(tree: Path) -> Imported:
        if tree not in done:
            done[tree] = Imported(tree, tmp_path_factory.mktemp(tree.name))
        return done[tree]

    yield one
    for each in done.values():
        each.log.close()


def nano(usd: float) -> int:
    """Return a truth's figure, a float of dollars, in nano-dollars."""
    return round(usd * 1_000_000_000)


def counts_of(figures: Figures) -> dict[str, int]:
    """Return a row's figures under the truth's names."""
    return {
        **{name: figures[ours] for name, ours in CLASSES.items()},
        "responses": figures["succeeded"] + figures["cut"],
    }


def with_tokens(rows: dict[str, Figures]) -> dict[str, dict[str, int]]:
    """Return the rows that have tokens: a failed request's row has none, and the truth does not know it."""
    return {key: counts_of(figures) for key, figures in rows.items() if figures.tokens}


def truth_counts(row: dict[str, Any]) -> dict[str, int]:
    """Return the counts of a truth's row."""
    return {name: row[name] for name in (*CLASSES, "responses")}


# every tree


@EVERY_TREE
def test_every_invariant_holds(tree: Path, imported: Import) -> None:
    """Sum of spans = totals, own + children = total, live = rebuilt, and the rest.

    OBS-19, OBS-26, OBS-27, OBS-53.
    """
    assert [found for found in check(imported(tree).log, full=True) if not found.ok] == []


@EVERY_TREE
def test_nothing_is_malformed_or_left_out(tree: Path, imported: Import) -> None:
    """Only the tree whose last line is torn has a line that was not read, and it says so."""
    reports = imported(tree).reports
    torn = 1 if tree.name == "p11_torn_last_line" else 0
    assert [report.problems for report in reports] == [[], []]
    assert sum(report.malformed for report in reports) == 0
    assert sum(report.torn for report in reports) == torn


@pytest.mark.parametrize(
    "tree",
    [
        *trees("import-claude-code"),
        *trees("real-claude-code"),
    ],
)
def test_what_an_import_says_adds_up(tree: Path, imported: Import) -> None:
    """Every line that held a usage is new, a repetition, a copy or a replay: nothing is dropped in silence."""
    one = imported(tree)
    report = one.reports[0]
    assert report.new == one.total()["requests"]
    without_line = sum(1 for span in one.spans() if span["part"] or span["status"] == "cancelled")
    assert report.usage_rows == report.new - without_line + sum(report.duplicates.values()) + report.replays


@EVERY_TREE
def test_a_second_import_finds_nothing(tree: Path, imported: Import) -> None:
    """Importing again appends no event and changes no figure."""
    one = imported(tree)
    head, before = one.log.head_position(), one.total().amounts
    again = run_import(one.log, CLIENTS, tree, use_environment=False)
    assert one.log.head_position() == head
    assert [report.new for report in again] == [0, 0]
    assert one.total().amounts == before


# one pitfall each, Claude Code


@CLAUDE
def test_the_total(tree: Path, imported: Import) -> None:
    """Tokens of each class, their sum, and the answered requests (OBS-01, OBS-16, OBS-21, OBS-22)."""
    one = imported(tree)
    total = one.total()
    assert counts_of(total) == truth_counts(one.truth["total"])
    assert total.tokens == one.truth["total"]["all_tokens"]


@CLAUDE
@pytest.mark.parametrize("by", ["day", "month", "model", "session"])
def test_each_group(tree: Path, by: str, imported: Import) -> None:
    """Tokens and answered requests of each day, month, model and session (OBS-01, OBS-02, OBS-08, OBS-19)."""
    one = imported(tree)
    expected = {key: truth_counts(row) for key, row in one.truth[f"by_{by}"].items()}
    assert with_tokens(one.by(by)) == expected


@CLAUDE
def test_main_and_the_rest(tree: Path, imported: Import) -> None:
    """What the main conversation used, and what was done for it by others (OBS-02, OBS-04, OBS-23)."""
    one = imported(tree)
    found: dict[str, Counter[str]] = {}
    for who, counts in with_tokens(one.by("who")).items():
        found.setdefault("main" if who == "main" else "subagent", Counter()).update(counts)
    expected = {key: truth_counts(row) for key, row in one.truth["by_main_or_subagent"].items()}
    assert {key: dict(row) for key, row in found.items()} == expected


@CLAUDE
def test_the_cost(tree: Path, imported: Import) -> None:
    """The cost to the nano-dollar by the whole price rule; unknown where no price is known (OBS-51)."""
    one = imported(tree)
    total, truth = one.total(), one.truth
    if "expected_cost_usd" in truth and truth["expected_cost_usd"] is None:
        assert (total["priced_spans"], total["unpriced_spans"]) == (0, total["requests"])
        assert total.as_json()["cost_usd"] is None
        assert total.cost_text(2) == "unknown"
        return
    assert total["unpriced_spans"] == 0
    assert total["cost_nanousd"] == nano(truth.get("expected_cost_usd", truth["total"]["cost_usd"]))


@CLAUDE
@pytest.mark.parametrize("by", ["day", "month", "model", "session"])
def test_the_cost_of_each_group(tree: Path, by: str, imported: Import) -> None:
    """The cost of each group, where the plain rates are the whole rule (OBS-08, OBS-51)."""
    one = imported(tree)
    truth = one.truth
    rows = {key: figures["cost_nanousd"] for key, figures in one.by(by).items() if figures.tokens}
    if truth.get("expected_cost_usd", truth["total"]["cost_usd"]) != truth["total"]["cost_usd"]:
        whole = truth["expected_cost_usd"]
        assert sum(rows.values()) == (0 if whole is None else nano(whole))
        return
    assert rows == {key: nano(row["cost_usd"]) for key, row in truth[f"by_{by}"].items()}


@CLAUDE
def test_from_the_command_line(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`import` and `report` print the truth as JSON; `--strict` exits 1 only for the torn line."""
    truth = json.loads((tree / "truth.json").read_bytes())
    database = str(tmp_path / "ledger.db")
    code = run(["import", "--home", str(tree), "--db", database, "--strict", "--format", "json"])
    read = json.loads(capsys.readouterr().out)
    assert code == (1 if tree.name == "p11_torn_last_line" else 0)
    assert read["total"]["torn"] == code

    code = run(["report", "--by", "day,model", "--tz", "UTC", "--db", database, "--format", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == 0
    assert {row["day"] for row in answer["rows"]} == set(truth["by_day"])
    assert {row["model"] for row in answer["rows"]} == set(truth["by_model"])
    total = answer["total"]
    assert {name: total["tokens"][ours] for name, ours in CLASSES.items()} == {
        name: truth["total"][name] for name in CLASSES
    }
    assert total["tokens"]["total"] == truth["total"]["all_tokens"]
    expected = truth.get("expected_cost_usd", truth["total"]["cost_usd"])
    assert (total["cost_usd"] and nano(float(total["cost_usd"]))) == (expected and nano(expected))
    with Log.open(tmp_path / "ledger.db") as log:
        assert [found for found in check(log, full=True) if not found.ok] == []


# one pitfall each, Codex


@CODEX
def test_billed_tokens(tree: Path, imported: Import) -> None:
    """Billed input and output together: re-emits, forks, lost differences and reasoning (OBS-11, OBS-22)."""
    one = imported(tree)
    total = one.total()
    assert total.tokens == one.truth["tokens"]
    assert total["unpriced_spans"] == 0
    assert total["reasoning"] <= total["output"]


@CODEX
def test_billed_tokens_from_the_command_line(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`report --import` reads the tree and prints the same."""
    database = str(tmp_path / "ledger.db")
    assert run(["report", "--import", "--home", str(tree), "--db", database, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    truth = json.loads((tree / "truth.json").read_bytes())
    assert answer["total"]["tokens"]["total"] == truth["tokens"]
    with Log.open(tmp_path / "ledger.db") as log:
        assert [found for found in check(log, full=True) if not found.ok] == []


def test_the_model_of_each_turn(imported: Import) -> None:
    """A turn's tokens stand under the model that was in force in it (OBS-08, LOOP-26)."""
    rows = imported(CASES / "import-codex" / "x6_model_switch").by("model")
    tokens = {model: figures.tokens for model, figures in rows.items()}
    assert tokens == {"gpt-5.3-codex": 1300, "gpt-5.4": 2700}


# real trees, Claude Code


def as_logged(answered: dict[str, Any]) -> dict[str, int]:
    """Return an answered request's tokens, with the largest output that the log has for it."""
    found: dict[str, int] = {}
    for name, (outer, *inner) in USAGE_CLASSES.items():
        value = answered["usage"].get(outer)
        found[name] = (value or {}).get(inner[0], 0) if inner else value
    return {**found, "output": answered["log_max_output"]}


def tokens_of(span: dict[str, Any]) -> dict[str, int]:
    """Return a span's tokens under the truth's names; every class must be known."""
    return {name: span[ours] for name, ours in CLASSES.items()}


@REAL_CLAUDE
def test_as_logged(tree: Path, imported: Import) -> None:
    """Every response of the log counts once, with what the log has of it (OBS-01, OBS-21)."""
    one = imported(tree)
    responses = one.responses()
    logged = {answer["message_id"]: answer for answer in one.truth["answered"] if answer["in_log"]}
    assert {key: tokens_of(span) for key, span in responses.items()} == {
        key: as_logged(answer) for key, answer in logged.items()
    }
    assert {key: span["model"] for key, span in responses.items()} == {
        key: answer["model"] for key, answer in logged.items()
    }
    sums: Counter[str] = Counter()
    for span in responses.values():
        sums.update(tokens_of(span))
    expected = one.truth["total_as_logged"]
    assert {name: sums[name] for name in CLASSES} == {name: expected[name] for name in CLASSES}
    assert sum(sums.values()) == expected["all_tokens"]
    assert len(responses) == expected["responses"]


@REAL_CLAUDE
def test_the_report_is_the_sum_of_the_responses(tree: Path, imported: Import) -> None:
    """A report shows the responses and the calls beside them, no more and no less (OBS-19, OBS-26)."""
    one = imported(tree)
    extra = sum(row[name] for row in one.truth.get("iterations_extra", []) for name in ("input", "output"))
    assert one.total().tokens == one.truth["total_as_logged"]["all_tokens"] + extra
    for by in ("session", "day", "model", "who", "agent", "branch", "project", "status"):
        assert sum(figures.tokens for figures in one.by(by).values()) == one.total().tokens, by


@REAL_CLAUDE
def test_each_response_is_in_the_session_that_asked(tree: Path, imported: Import) -> None:
    """A copy in a resumed or forked session counts where it was asked (OBS-02).

    Clients before 2.1 send a new session id for each run, also where the log goes on under the old one: what
    the log does not name cannot be compared.
    """
    one = imported(tree)
    sessions = {row["session_id"] for row in one.rows(["session_id"], "FROM gen_sessions")}
    responses = one.responses()
    asked = {
        answer["message_id"]: answer["session_id"]
        for answer in one.truth["answered"]
        if answer["in_log"] and answer["session_id"] in sessions
    }
    elsewhere = {key for key, session in asked.items() if responses[key]["session_id"] != session}
    assert elsewhere == OWNED_BY_ITS_FORK.get(tree.name, set())


@REAL_CLAUDE
def test_lower_bounds(tree: Path, imported: Import) -> None:
    """Exactly the responses whose output the log has not in full are lower bounds, and shown so.

    OBS-05, OBS-10.
    """
    one = imported(tree)
    flagged = sorted(key for key, span in one.responses().items() if span["lower_bound"])
    assert flagged == sorted(one.truth["lower_bound_in_log"])
    assert one.total()["lower_bound_spans"] == len(flagged)
    if flagged:
        assert one.total().cost_text(2).startswith(">= ")


@REAL_CLAUDE
def test_who_asked(tree: Path, imported: Import) -> None:
    """A sub-agent's responses stand under the sub-agent, below the agent that started it.

    OBS-02, OBS-20, OBS-23. Clients before 2.1 do not say which agent asked; workflows have no starting call.
    """
    one = imported(tree)
    responses = one.responses()
    names_agents = any("agent_id" in answer for answer in one.truth["answered"])
    for answer in one.truth["answered"]:
        if not answer["in_log"]:
            continue
        span = responses[answer["message_id"]]
        if names_agents:
            assert span["agent_id"] == answer.get("agent_id", "")
            assert span["who"] == ("agent" if "agent_id" in answer else "main")
        elif answer["purpose"].startswith(("main", "sub-")):
            assert span["who"] == ("main" if answer["purpose"].startswith("main") else "agent")
        if "agent_id" in answer:
            starters = one.rows(
                ["s.agent_id"],
                "FROM gen_agents a JOIN gen_spans s ON s.call_id = a.call_id AND s.part = 'tool' WHERE a.agent_id = ?",
                answer["agent_id"],
            )
            expected = [{"agent_id": answer.get("parent_agent_id", "")}]
            assert starters == ([] if tree.name == "workflow" else expected), "the call that started it"


@REAL_CLAUDE
def test_what_the_log_does_not_show(tree: Path, imported: Import) -> None:
    """A response that the log does not have is in no row, except as a request that was broken off (OBS-10)."""
    one = imported(tree)
    missing = set(one.truth["not_in_log"])
    assert not missing & one.responses().keys()
    named = [span for span in one.spans() if span["span_id"].split(":")[1] in missing]
    assert [(span["status"], span["output"]) for span in named] == [("cancelled", None)] * len(named)
    assert len(named) == (1 if tree.name == "interactive" else 0)


@REAL_CLAUDE
def test_calls_beside_the_answer(tree: Path, imported: Import) -> None:
    """Compaction and advisor calls are rows of their own, under their own model (OBS-04, OBS-08)."""
    one = imported(tree)
    roles = {"advisor_message": "advisor", "compaction": "compact"}
    found = [
        (span["span_id"].split(":")[1], span["who"], span["model"], span["input_uncached"], span["output"])
        for span in one.spans()
        if span["part"]
    ]
    assert sorted(found) == sorted(
        (row["message_id"], roles[row["type"]], row["model"], row["input"], row["output"])
        for row in one.truth.get("iterations_extra", [])
    )


@REAL_CLAUDE
def test_failed_requests(tree: Path, imported: Import) -> None:
    """A failure that the log shows is a row of its own, without tokens, unpriced (OBS-03, OBS-24, OBS-28)."""
    one = imported(tree)
    failed = [span for span in one.spans() if span["status"] == "failed"]
    statuses = {"retries": [400, 500], "old-2.0.14": [0]}.get(tree.name, [])
    assert sorted(span["http_status"] for span in failed) == statuses
    assert all(span["output"] is None and span["input_uncached"] is None for span in failed)
    seen = {failure["status"] for failure in one.truth["failed"]}
    assert {span["http_status"] for span in failed} - {0} <= seen


# real trees, Codex


def codex_counts(spans: list[dict[str, Any]]) -> dict[str, int]:
    """Return the sums of spans under the truth's names."""
    parts = ("input_uncached", "cache_read", "cache_write_5m")
    return {
        "input": sum(span[part] or 0 for span in spans for part in parts),
        "output": sum(span["output"] for span in spans),
        "responses": len(spans),
    }


@REAL_CODEX
def test_the_total_of_codex(tree: Path, imported: Import) -> None:
    """Input, cached, written, output, reasoning and responses, by the endpoint's count (OBS-11, OBS-22)."""
    one = imported(tree)
    spans, total = one.spans(), one.total()
    found = {
        **codex_counts(spans),
        "cached": total["cache_read"],
        "cache_write": total["cache_write_5m"],
        "reasoning": total["reasoning"],
        "tokens": total.tokens,
    }
    assert found == one.truth["total"]
    for by in ("session", "day", "model", "who", "agent"):
        assert sum(figures.tokens for figures in one.by(by).values()) == total.tokens, by


@REAL_CODEX
def test_each_thread(tree: Path, imported: Import) -> None:
    """Each thread has its own responses: forks, sub-agents, resumed and archived files (OBS-02, OBS-23)."""
    one = imported(tree)
    threads: dict[str, list[dict[str, Any]]] = {}
    for span in one.spans():
        threads.setdefault(span["agent_id"] or span["session_id"], []).append(span)
    assert {thread: codex_counts(spans) for thread, spans in threads.items()} == one.truth["by_thread"]


@REAL_CODEX
def test_the_sub_agents_of_codex(tree: Path, imported: Import) -> None:
    """A sub-agent's thread is booked in the session of the thread that started it (OBS-20, OBS-23)."""
    one = imported(tree)
    spans = {span["agent_id"] or span["session_id"]: span for span in one.spans()}
    for answer in one.truth["answered"]:
        if answer["usage"] is None:
            continue
        span = spans[answer["thread_id"]]
        assert span["who"] == ("agent" if answer.get("subagent") else "main")
        assert span["model"] == answer["model"]
        if answer.get("parent_thread_id"):
            assert span["session_id"] == answer["parent_thread_id"]


# the copies

LEFT_OUT = ("__pycache__", ".DS_Store")


@pytest.mark.skipif(not ORIGINALS.exists(), reason="the shared folder is not beside the repository")
@pytest.mark.parametrize("folder", ["import-claude-code", "import-codex"])
def test_the_copies_are_the_originals(folder: str) -> None:
    """The cases of this repository are those that are handed over, byte for byte, dot folders included."""

    def contents(base: Path) -> dict[str, bytes]:
        files = (path for path in base.rglob("*") if path.is_file() and path.name not in LEFT_OUT)
        return {str(path.relative_to(base)): path.read_bytes() for path in files}

    copies = contents(CASES / folder)
    assert copies
    assert copies == contents(ORIGINALS / folder)


# on PostgreSQL


def told(log: Log) -> list[tuple[Any, ...]]:
    """Return what was appended, but for the ids that every log has of its own."""
    return [(one.position, one.version, one.type, one.data.replace(origin_of(log), "")) for one in log.all_events()]


@EVERY_TREE
def test_the_same_rows_on_both_databases(tree: Path, imported: Import, pg_log: PostgresLog) -> None:
    """Every tree imported into PostgreSQL too: the events and all rows of all projections are those of the file's log,
    and every invariant holds. So all that is said above of a tree's figures holds of both."""
    twin = imported(tree).log
    run_import(pg_log, CLIENTS, tree, use_environment=False)
    assert [found for found in check(pg_log, full=True) if not found.ok] == []
    assert told(pg_log) == told(twin)
    with snapshot(pg_log) as view, snapshot(twin) as expected:
        for table in set(TABLES) - {"sources", "quotes"}:  # what has ids and times of the log itself in it
            assert list(differing(table, view.store, expected.store)) == [], table
