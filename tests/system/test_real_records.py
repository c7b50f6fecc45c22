"""Logs that real opencode and Gemini CLI wrote, and the count of the endpoint that answered them.

`truth.json` has what was sent (tests/cases/real/README.md). What each API means by its numbers is written down here
once more, so that no reader checks itself.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.accounts.catchup import snapshot
from ledger.cli import run
from ledger.invariants import check
from ledger.log.log import Log
from ledger.sources.discover import CLIENTS
from ledger.sources.importer import SourceReport, run_import

CASES = Path(__file__).parents[1] / "cases"
TREES = [
    pytest.param(path.parent, id=f"{folder}/{path.parent.name}")
    for folder in ("real-opencode", "real-gemini")
    for path in sorted((CASES / folder).glob("*/truth.json"))
]
EVERY_TREE = pytest.mark.parametrize("tree", TREES)
SPAN = ("span_id", "agent_id", "input_uncached", "cache_read", "cache_write_5m", "output", "reasoning", "http_status",
        "cost_nanousd", "reported_cost_nanousd")  # fmt: skip
DIMENSIONS = ("client", "who", "agent", "provider", "model", "status", "project")
Counts = tuple[str, int, int, int, int, int]
"""(model, uncached input, cache read, cache written, output with reasoning, reasoning)"""


def chat(usage: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """What /v1/chat/completions means: cached inside the prompt, reasoning inside the completion."""
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
    return usage["prompt_tokens"] - cached, cached, 0, usage["completion_tokens"], reasoning


def responses(usage: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """What /v1/responses means: the same under other names."""
    cached = usage["input_tokens_details"]["cached_tokens"]
    reasoning = usage["output_tokens_details"]["reasoning_tokens"]
    return usage["input_tokens"] - cached, cached, 0, usage["output_tokens"], reasoning


def messages(usage: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """What /v1/messages means: disjoint; how much was thought is not told."""
    written, read = usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]
    return usage["input_tokens"], read, written, usage["output_tokens"], 0


def gemini(usage: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """What generateContent means: cached inside the prompt, tool use outside it, thoughts outside the candidates."""
    cached, thoughts = usage.get("cachedContentTokenCount", 0), usage.get("thoughtsTokenCount", 0)
    prompt = usage["promptTokenCount"] - cached + usage.get("toolUsePromptTokenCount", 0)
    return prompt, cached, 0, usage["candidatesTokenCount"] + thoughts, thoughts


APIS = {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}


class Imported:
    """One tree, imported into a log of its own."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.truth: dict[str, Any] = json.loads((tree / "truth.json").read_bytes())
        self.log = Log.open(folder / "ledger.db", create=True)
        self.reports = import_tree(self.log, tree)

    def spans(self, kind: str = "model") -> list[dict[str, Any]]:
        """Return the spans of a kind with their session and dimensions."""
        columns = [*(f"s.{name}" for name in SPAN), "n.session_id", *(f"d.{name}" for name in DIMENSIONS)]
        sql = (
            f"SELECT {', '.join(columns)} FROM gen_spans s JOIN gen_sessions n ON n.session_key = s.session_key "
            "JOIN gen_dimensions d ON d.dimension_id = s.dimension_id WHERE d.kind = ?"
        )
        with snapshot(self.log) as view:
            found = list(view.store.query(sql, kind))
        return [dict(zip((*SPAN, "session_id", *DIMENSIONS), row, strict=True)) for row in found]

    def answered(self) -> list[dict[str, Any]]:
        """Return the endpoint's answers that the log can show."""
        return [one for one in self.truth["answered"] if one["in_log"]]

    def counts(self, answer: dict[str, Any]) -> Counts:
        """Return what an answer's usage means."""
        return (answer["model"], *APIS[self.truth["api"]](answer["usage"]))


def import_tree(log: Log, tree: Path) -> list[SourceReport]:
    return run_import(log, CLIENTS, tree, use_environment=False)


def counted(span: dict[str, Any]) -> Counts:
    names = ("input_uncached", "cache_read", "cache_write_5m", "output", "reasoning")
    return (span["model"], *(span[name] or 0 for name in names))  # type: ignore[return-value]


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


@EVERY_TREE
def test_the_tokens_are_the_endpoints_own(tree: Path, imported: Import) -> None:
    """Every response that the log shows stands once, with the tokens that were sent (OBS-01, OBS-11, OBS-22)."""
    one = imported(tree)
    found = Counter(counted(span) for span in one.spans() if span["status"] == "succeeded")
    assert found == Counter(one.counts(answer) for answer in one.answered())
    assert sum(found.values()) == one.truth["in_log"] > 0


@EVERY_TREE
def test_every_invariant_holds(tree: Path, imported: Import) -> None:
    """Sum of spans = totals, own + children = total, live = rebuilt, and the rest (OBS-19, OBS-26, OBS-53)."""
    assert [found for found in check(imported(tree).log, full=True) if not found.ok] == []


@EVERY_TREE
def test_nothing_is_left_out(tree: Path, imported: Import) -> None:
    """No record is malformed, and each with usage is new, a repetition or a copy (OBS-14)."""
    one = imported(tree)
    report = next(report for report in one.reports if report.client == one.truth["client"])
    assert (report.problems, report.malformed, report.torn) == ([], 0, 0)
    without_line = sum(1 for span in one.spans() if span["status"] == "cancelled")
    assert report.usage_rows == report.new - without_line + sum(report.duplicates.values())


@EVERY_TREE
def test_a_second_import_finds_nothing(tree: Path, imported: Import) -> None:
    """Importing again appends no event (OBS-15)."""
    one = imported(tree)
    before = [event.position for event in one.log.all_events()]
    assert all((report.lines, report.new) == (0, 0) for report in import_tree(one.log, tree))
    assert [event.position for event in one.log.all_events()] == before


@EVERY_TREE
def test_nothing_is_written_to_the_clients_folder(tree: Path, tmp_path: Path) -> None:
    """No file of the client is changed, and none is made beside them."""
    home = tmp_path / "home"
    shutil.copytree(tree, home)
    before = contents(home)
    with Log.open(tmp_path / "ledger.db", create=True) as log:
        import_tree(log, home)
        import_tree(log, home)
    assert contents(home) == before


def contents(home: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in home.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@EVERY_TREE
def test_from_the_command_line(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`report --import --client` reads the tree and prints the truth's tokens (OBS-08)."""
    truth = json.loads((tree / "truth.json").read_bytes())
    arguments = ["--home", str(tree), "--db", str(tmp_path / "ledger.db"), "--format", "json"]
    assert run(["report", "--import", "--client", truth["client"], *arguments]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    sent = [APIS[truth["api"]](answer["usage"]) for answer in truth["answered"] if answer["in_log"]]
    assert total["tokens"]["total"] == sum(sum(one[:4]) for one in sent)
    assert total["succeeded"] == len(sent)


@EVERY_TREE
def test_who_asked(tree: Path, imported: Import) -> None:
    """A sub-agent's responses stand under it, in its root's session; compactions are their own (OBS-04, OBS-23)."""
    one = imported(tree)
    spans = {counted(span): span for span in one.spans()}
    for answer in one.answered():
        span = spans[one.counts(answer)]
        who = {"main": "main", "compaction": "compact"}.get(answer["purpose"], "agent")
        assert span["who"] == who, answer
        assert span["agent"] == (
            "" if who != "agent" else "generalist" if one.truth["client"] == "gemini" else "general"
        )
        if "session_id" in answer:
            assert span["session_id"] == answer.get("parent_session_id", answer["session_id"])
        if "parent_session_id" in answer:
            assert span["agent_id"] == answer["session_id"]


@pytest.mark.parametrize("tree", [one for one in TREES if "sub-agents" in str(one.id)])
def test_the_calls_that_started_sub_agents(tree: Path, imported: Import) -> None:
    """Each call that started a sub-agent is a span below the response that made it (OBS-20)."""
    calls = imported(tree).spans("tool")
    assert len(calls) == 3
    assert {call["status"] for call in calls} == {"succeeded"}
    agents = {span["agent_id"] for span in imported(tree).spans() if span["who"] == "agent"}
    with snapshot(imported(tree).log) as view:
        started = list(view.store.query("SELECT agent_id, call_id FROM gen_jobs"))
    assert {agent for agent, _ in started} == agents
    assert len({call for _, call in started}) == 3


@pytest.mark.parametrize("name", ["fork", "old-1.1.53-fork"])
def test_a_fork_counts_its_copies_once(name: str, imported: Import) -> None:
    """A copied message counts for the session it came from; the others own what they added (OBS-12)."""
    one = imported(CASES / "real-opencode" / name)
    owned = Counter(span["session_id"] for span in one.spans())
    assert owned == Counter(answer["session_id"] for answer in one.answered())
    report = next(report for report in one.reports if report.client == "opencode")
    assert (report.new, report.duplicates["copied_session"]) == (6, 5)


@pytest.mark.parametrize(
    ("name", "status", "code"), [("failed", "failed", 401), ("old-1.1.53-interrupted", "cancelled", 0)]
)
def test_what_did_not_succeed(name: str, status: str, code: int, imported: Import) -> None:
    """The error at which the client gave up, and a response the user stopped, have no tokens (OBS-10, OBS-24)."""
    others = [span for span in imported(CASES / "real-opencode" / name).spans() if span["status"] != "succeeded"]
    assert [(span["status"], span["http_status"], span["output"], span["input_uncached"]) for span in others] == [
        (status, code, None, None)
    ]


def test_the_secret_in_an_error_is_masked(imported: Import) -> None:
    """The text of an error is kept with known secrets masked."""
    log = imported(CASES / "real-opencode" / "failed").log
    texts = [log.blob(digest) or b"" for digest in blobs_of(log)]
    assert [text.decode() for text in texts] == ["invalid key sk-ant-[masked]"]


def blobs_of(log: Log) -> list[bytes]:
    observed = [one for event in log.all_events() for one in json.loads(event.data).get("observations", [])]
    return [bytes.fromhex(one["error"]) for one in observed if one.get("error")]


@pytest.mark.parametrize("name", ["anthropic", "openai", "google"])
def test_the_clients_own_cost_is_beside_ours(name: str, imported: Import) -> None:
    """opencode's `cost` is its own figure, kept beside the computed one; at equal rates they agree (OBS-51)."""
    spans = imported(CASES / "real-opencode" / name).spans()
    assert all(span["cost_nanousd"] and span["reported_cost_nanousd"] for span in spans)
    if name != "google":  # there its configuration had another price for what is read from the cache
        assert [span["cost_nanousd"] for span in spans] == [span["reported_cost_nanousd"] for span in spans]


def test_a_provider_of_the_users_own_has_no_price(imported: Import) -> None:
    """A model is priced by who sold it: under a name that nobody knows it is unknown, whatever it is called."""
    spans = imported(CASES / "real-opencode" / "basic").spans()
    assert {(span["provider"], span["model"], span["cost_nanousd"]) for span in spans} == {
        ("script", "deepseek-chat", None)
    }


@pytest.mark.parametrize("folder", ["real-opencode", "real-gemini"])
@pytest.mark.parametrize("turn", [1, -1])
def test_any_order_of_trees_gives_the_same_accounts(folder: str, turn: int, tmp_path: Path, imported: Import) -> None:
    """All trees of a client, imported one after the other from one home into one log, forwards and backwards."""
    names = sorted(path.parent.name for path in (CASES / folder).glob("*/truth.json"))[::turn]
    with Log.open(tmp_path / "ledger.db", create=True) as log:
        for name in names:
            import_tree(log, CASES / folder / name)
        with snapshot(log) as view:
            total = next(iter(view.store.query("SELECT count(*), sum(input_uncached), sum(output) FROM gen_spans")))
        assert [found for found in check(log, full=True) if not found.ok] == []
    alone = [
        span for name in names for kind in ("model", "tool") for span in imported(CASES / folder / name).spans(kind)
    ]
    assert tuple(total) == (
        len(alone), sum(span["input_uncached"] or 0 for span in alone), sum(span["output"] or 0 for span in alone)
    )  # fmt: skip
