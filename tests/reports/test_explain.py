"""`ledger explain`: every figure opens into spans that add up to it, and a figure that lies is said to lie."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.accounts.amounts import AMOUNTS
from ledger.accounts.catchup import View, snapshot
from ledger.cli import run
from ledger.invariants import check
from ledger.log import sqlite
from ledger.log.location import PostgresPlace
from ledger.log.log import Log
from ledger.sources.importer import run_import
from reports.address import row_address, total_address
from reports.explain import differing, span_json
from reports.explain_find import find
from reports.explain_span import Opener
from reports.figures import Figures
from reports.output import put_json_list
from reports.query import BY, ask, make_question

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "reports" / "sample"
CASES = [*sorted((ROOT / "tests" / "cases" / "real-claude-code").iterdir()),
         *sorted((ROOT / "tests" / "cases" / "real-codex").iterdir())]  # fmt: skip
CLIENTS = ("claude-code", "codex")
OLDER = "3f2b8a6e-51c4-4d0a-9a1e-7c0d5b1e2f10"
SEARCHED = "claude-code:msg_01demo0007:req_011demo0007"
NO_OPTIONS: dict[str, Any] = {}

Explained = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Log, View]]:
    """A log with the sample and every tree of the real clients: bounds, failures, advisors, forks, unpriced models."""
    path = tmp_path_factory.mktemp("explain") / "ledger.db"
    with Log.create(path) as log:
        for home in (SAMPLE, *CASES):
            run_import(log, list(CLIENTS), home, use_environment=False)
        assert all(outcome.ok for outcome in check(log))
        with snapshot(log) as view:
            yield log, view


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A log of its own with the sample."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "data" / "ledger.db"
    assert run(["import", "--home", str(SAMPLE), "--db", str(path)]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def explained(db: Path, capsys: pytest.CaptureFixture[str]) -> Explained:
    """Run `ledger explain`; return exit code, output, errors."""

    def explain(*words: str) -> tuple[int, str, str]:
        code = run(["explain", *words, "--db", str(db)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return explain


def listed(log: Log, view: View, address: str, **options: Any) -> tuple[Figures, Figures, list[Any]]:
    """Return (what the spans add up to, the figure, the spans) of an address."""
    found = find(log, view, address, options)
    spans = list(Opener(log, view).spans(found))
    figures = Figures()
    for span in spans:
        figures.add(span.amounts, span.row.occurred_at, span.row.occurred_at)
    return figures, found.figure, spans


# the law: what is listed is the figure


@pytest.mark.parametrize(
    "by",
    [*BY, "month,model", "session,day", "project,branch,client", "who,agent,kind,tool,status", "week,provider,session"],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_every_row_opens_into_what_it_sums(everything: tuple[Log, View], by: str, zone: str) -> None:
    """OBS-55: requests, every class, cost, bounds, unknowns, first and last instant, of every row and of the total."""
    log, view = everything
    question = make_question(by, tz=zone)
    answer = ask(view, question)
    spans = 0
    for key, figures in answer.rows:
        sums, figure, opened = listed(log, view, row_address(question, key))
        assert differing(sums, figures) == differing(figure, figures) == []
        assert all(one.agrees for one in opened)
        spans += len(opened)
    sums, figure, opened = listed(log, view, total_address(question))
    assert differing(sums, answer.total) == differing(figure, answer.total) == []
    assert spans == len(opened) == answer.total["spans"] > 100


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "session": st.sampled_from(["3f2b", "0", "00000000", "8c1d4e77-0b5f-4a39-8f62-1de0a9b7c355"]),
        "project": st.sampled_from(["webshop", "/home/ada/webshop", "shop"]),
        "client": st.sampled_from(CLIENTS),
        "kind": st.sampled_from(["model", "tool"]),
        "model": st.sampled_from(["", "claude-opus-4-5-20251101", "gpt-5.3-codex"]),
        "since": st.sampled_from(["2026-11-03", "2026-11-05", "2026-11"]),
        "until": st.sampled_from(["2026-11-30", "2026-12-01", "2027-01"]),
        "tz": st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati"]),
    },
)


@settings(max_examples=60)
@given(by=st.lists(st.sampled_from(BY), unique=True, min_size=1, max_size=4), filters=FILTERS)
def test_filters_are_in_the_address(everything: tuple[Log, View], by: list[str], filters: dict[str, str]) -> None:
    """OBS-55: an address of a filtered report opens the filtered row, with no option beside it."""
    log, view = everything
    question = make_question(",".join(by), **filters)
    answer = ask(view, question)
    for key, figures in answer.rows[:3]:
        found = find(log, view, row_address(question, key), {})
        sums, figure, _ = listed(log, view, found.address)
        assert differing(sums, figures) == differing(figure, figures) == []
    if answer.rows:
        sums, figure, _ = listed(log, view, total_address(question))
        assert differing(sums, answer.total) == differing(figure, answer.total) == []


def test_a_mix_of_bounds_and_unknowns_adds_up(everything: tuple[Log, View]) -> None:
    """OBS-55: the total has unpriced requests, lower and upper bounds, and untold classes, and still adds up."""
    log, view = everything
    sums, figure, opened = listed(log, view, "total")
    for name in ("unpriced_spans", "lower_bound_spans", "unknown_usage_spans", "partial_spans", "cache_read_unknown"):
        assert figure[name] == sums[name] > 0, name
    assert any(one.again.lower_bound for one in opened) and any(one.again.cost_nanousd is None for one in opened)


def test_every_line_of_a_price_is_exact(everything: tuple[Log, View]) -> None:
    """OBS-55: the products are tokens x rate, their exact sum is rounded once to the cost, none is left out."""
    log, view = everything
    _, _, opened = listed(log, view, "total")
    priced = [one for one in map(span_json, opened) if one["cost_usd"] is not None]
    assert len(priced) > 100
    for one in priced:
        lines = one["price"]["lines"]
        for line in lines:
            each = 1 if line["what"] == "web_search" else 10**6
            assert Decimal(line["count"]) * Decimal(line["rate_usd"]) / each == Decimal(line["amount_usd"])
        exact = sum((Decimal(line["amount_usd"]) for line in lines), Decimal(0))
        assert exact == Decimal(one["price"]["exact_usd"])
        assert abs(exact - Decimal(one["cost_usd"])) <= Decimal("0.0000000005")
        told = {"input": "input_uncached"}
        assert {
            told.get(line["what"], line["what"]): line["count"] for line in lines if line["what"] != "web_search"
        } == {name: count for name, count in one["tokens"].items() if count and name != "reasoning"}


def test_the_place_in_the_file_is_the_line(everything: tuple[Log, View]) -> None:
    """OBS-55: file and byte offset lead to the line that has the response."""
    log, view = everything
    _, _, opened = listed(log, view, "total")
    for one in opened:
        place = one.place
        assert place.file and place.offset is not None
        if place.file.endswith(".zst"):
            continue  # there it is the place in what it unpacks to
        with Path(place.file).open("rb") as file:
            file.seek(place.offset)
            line = json.loads(file.readline())
        if one.values.client == "claude-code" and one.values.status == "succeeded" and not one.row.part:
            assert line["message"]["id"] == one.row.span_id.split(":")[1]


# sessions, turns, spans


def test_sessions_turns_and_spans(db: Path, explained: Explained) -> None:
    """OBS-55: a session by its id or beginning, a turn by its number or id, a span: each gives what `show` says."""
    whole = json.loads(explained("3f2b", "--format", "json")[1])
    assert whole["address"] == f"session={OLDER}" and whole["adds_up"]
    assert json.loads(explained(OLDER, "--format", "json")[1]) == whole
    turn = json.loads(explained("3f2b#1", "--format", "json")[1])
    assert (turn["address"], turn["figure"]["cost_usd"], turn["figure"]["requests"]) == (f"{OLDER}#1", "0.348346", 6)
    assert turn["adds_up"] and len(turn["spans"]) == 7
    assert json.loads(explained(turn["spans"][0]["turn"], "--format", "json")[1]) == turn
    span = json.loads(explained(SEARCHED, "--format", "json")[1])
    assert (span["address"], span["listed"]["cost_usd"], span["adds_up"]) == (SEARCHED, "0.0588225", True)
    assert span["spans"][0]["price"]["lines"][-1] == {
        "what": "web_search", "count": 2, "rate_usd": "0.01", "amount_usd": "0.02",
    }  # fmt: skip
    assert span["spans"][0]["price"]["rules"] == ["web_search"]


def test_show_and_report_say_the_addresses(db: Path, explained: Explained, capsys: pytest.CaptureFixture[str]) -> None:
    """OBS-55: every address that JSON and CSV write opens the figure that stands beside it."""
    assert run(["show", "3f2b", "--db", str(db), "--format", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert [turn["number"] for turn in tree["turns"]] == [1, 2, 3]
    turns = [*tree["turns"], *(below for span in tree["turns"][0]["spans"] for below in span.get("turns", []))]
    assert len(turns) == 4
    for turn in turns:
        opened = json.loads(explained(turn["address"], "--format", "json")[1])
        assert (opened["figure"], opened["adds_up"]) == (turn["total"], True)
    for by in ("month,model", "agent", "session"):
        assert run(["report", "--db", str(db), "--by", by, "--format", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert run(["report", "--db", str(db), "--by", by, "--format", "csv"]) == 0
        in_csv = [row["address"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))]
        assert in_csv == [row["address"] for row in [*answer["rows"], answer["total"]]]
        for row in [*answer["rows"], answer["total"]]:
            opened = json.loads(explained(row["address"], "--format", "json")[1])
            assert opened["figure"].items() <= row.items() and opened["adds_up"]


def test_labels(db: Path, explained: Explained, capsys: pytest.CaptureFixture[str]) -> None:
    """OBS-55: rows by a label, and rows of a report that was filtered by one."""
    assert run(["label", "3f2b", "client=a, b=c", "--db", str(db)]) == 0
    capsys.readouterr()
    code, out, _ = explained("label.client=a%2C%20b%3Dc", "--format", "json")
    assert (code, json.loads(out)["figure"]["requests"]) == (0, 8)
    code, out, _ = explained("label.client=", "--format", "json")
    assert (code, json.loads(out)["figure"]["requests"]) == (0, 4)
    assert run(["report", "--db", str(db), "--by", "day", "--label", "client=a, b=c", "--format", "json"]) == 0
    for row in json.loads(capsys.readouterr().out)["rows"]:
        opened = json.loads(explained(row["address"], "--format", "json")[1])
        assert (opened["figure"]["requests"], opened["adds_up"]) == (row["requests"], True)
    assert json.loads(explained("total", "--label", "client=a, b=c", "--format", "json")[1])["figure"]["requests"] == 8


# prices that changed


def test_a_repriced_span_shows_both_figures_and_why(db: Path, explained: Explained) -> None:
    """OBS-55, OBS-51: the first figure with its quote, the final one with its own, and the reason in the book."""
    before = json.loads(explained("model=gpt-5.3-codex", "--format", "json")[1])
    assert run(["prices", "set", "gpt-5.3-codex", "--input", "1", "--cache-read", "0", "--output", "10",
                "--db", str(db)]) == 0  # fmt: skip
    assert run(["reprice", "--reason", "contract-7", "--db", str(db)]) == 0
    explained("total")
    after = json.loads(explained("model=gpt-5.3-codex", "--format", "json")[1])
    assert after["adds_up"]
    for old, new in zip(before["spans"], after["spans"], strict=True):
        assert new["first_price"] == old["price"] and new["price"]["cost_usd"] != old["price"]["cost_usd"]
        assert [one["reason"] for one in new["repriced"]] == ["contract-7"]
        assert new["price"]["source"] == "user"
    _, table, _ = explained("model=gpt-5.3-codex")
    assert table.count("first openai gpt-5.3-codex") == 3 and table.count(": contract-7") == 3


def test_a_span_that_had_no_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """OBS-55, OBS-51: unknown with the reason; after `prices set` the figure, and that there was none before."""
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    message = {"id": "msg_1", "model": "acme-coder-9", "role": "assistant", "stop_reason": "end_turn",
               "usage": {"input_tokens": 1000, "output_tokens": 10}}  # fmt: skip
    line = {"type": "assistant", "sessionId": "5e551011", "uuid": "u", "timestamp": "2026-03-10T12:00:00Z",
            "requestId": "req_1", "message": message}  # fmt: skip
    (folder / "s.jsonl").write_text(json.dumps(line) + "\n")
    db = ["--db", str(tmp_path / "ledger.db")]
    assert run(["import", "--home", str(tmp_path / "home"), *db]) == 0
    capsys.readouterr()
    assert run(["explain", "total", *db]) == 0
    assert "the cost is unknown: no price of acme-coder-9 was known" in capsys.readouterr().out
    assert run(["prices", "set", "acme-coder-9", "--input", "1", "--output", "4", *db]) == 0
    assert run(["reprice", *db]) == 0
    capsys.readouterr()
    assert run(["explain", "total", *db]) == 0
    table = capsys.readouterr().out
    assert "first no price was known when it was read" in table and "priced, 20" in table
    assert re.search(r"uncached +1,000 x 1 a million = 0\.001\n", table)
    assert "cost USD" in table and "0.00104" in table


# loud where it is wrong


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        ("UPDATE g1_totals SET output = output + 1 WHERE grain = 3", "output"),
        ("UPDATE g1_totals SET cost_nanousd = cost_nanousd + 1 WHERE grain = 3", "cost_nanousd"),
        ("UPDATE g1_totals SET unpriced_spans = unpriced_spans + 1 WHERE grain = 3", "unpriced_spans"),
        ("UPDATE g1_totals SET requests = requests + 1 WHERE grain = 3", "requests"),
    ],
)
@pytest.mark.parametrize("format_", ["table", "json", "csv"])
def test_a_figure_that_lies_is_said_to(db: Path, explained: Explained, change: str, figure: str, format_: str) -> None:
    """OBS-55: where totals say something else than the spans, every format says so, and the exit code is 1."""
    with sqlite.connect(Path(f"{db}.accounts")) as connection:
        connection.execute(change)
    connection.close()
    for limit in ("50", "2"):
        code, out, err = explained("total", "--format", format_, "--limit", limit)
        assert code == 1
        assert f"ledger: total: DOES NOT ADD UP: {figure} of the spans is" in err and "`ledger verify --full`" in err
        if format_ == "json":
            answer = json.loads(out)
            assert not answer["adds_up"] and [one["figure"] for one in answer["differences"]] == [figure]
        if format_ == "table":
            assert "DO NOT ADD UP" in out


def test_a_row_of_the_accounts_that_lies_is_named(db: Path, explained: Explained) -> None:
    """OBS-55: a span whose booked tokens are not those of its event does not hide behind totals that agree with it."""
    with sqlite.connect(Path(f"{db}.accounts")) as connection:
        for table, where in (("g1_spans", f"span_id = '{SEARCHED}'"), ("g1_totals", "grain = 3 AND output = 980")):
            assert connection.execute(f"UPDATE {table} SET output = output + 5 WHERE {where}").rowcount <= 1
    connection.close()
    code, out, err = explained(SEARCHED, "--format", "json")
    assert code == 1 and [one["figure"] for one in json.loads(out)["differences"]] == ["output"]
    assert "THE ACCOUNTS SAY SOMETHING ELSE of this span" in json.loads(out)["spans"][0]["why"][-1]
    assert "DOES NOT ADD UP: output of the spans is 980, the accounts say 985" in err


def test_differences_of_every_figure() -> None:
    for place, name in enumerate(AMOUNTS):
        one, other = Figures(), Figures()
        one.amounts[place] = 1
        assert [(found.figure, found.listed, found.accounts) for found in differing(one, other)] == [(name, 1, 0)]


# the table


def test_a_table_sums_up_what_it_does_not_show(db: Path, explained: Explained) -> None:
    """OBS-55: `--limit 2` opens two spans and adds the rest in SQL; `--limit 0` opens all; the sum is the same."""
    _, two, _ = explained("total", "--limit", "2")
    _, every, _ = explained("total", "--limit", "0")
    assert two.count("    span  ") == 2 and every.count("    span  ") == 13
    assert "... and 11 spans more" in two and "... and" not in every
    sums = [[line for line in text.splitlines() if line.startswith(("sum", "figure"))] for text in (two, every)]
    assert [line.split()[1:] for line in sums[0]] == [line.split()[1:] for line in sums[1]]
    assert "The 2 spans above and the 11 more add up to the figure of the accounts" in two


def test_json_is_written_while_spans_come(capsys: pytest.CaptureFixture[str]) -> None:
    """OBS-55: a million spans are never held at once: each is written before the next is asked for."""
    written = []

    def items() -> Iterator[dict[str, int]]:
        for number in range(3):
            written.append(capsys.readouterr().out)
            yield {"number": number}

    put_json_list({"a": 1, "b": {"c": []}}, "spans", items(), lambda: {"sum": 3})
    written.append(capsys.readouterr().out)
    assert [f'"number":{number}' in written[number + 1] for number in range(3)] == [True] * 3
    whole = {"a": 1, "b": {"c": []}, "spans": [{"number": number} for number in range(3)], "sum": 3}
    assert json.loads("".join(written)) == whole and list(json.loads("".join(written))) == list(whole)
    put_json_list({"a": "\x7f\u2028"}, "spans", [], lambda: {"sum": 0})
    told = capsys.readouterr().out
    assert json.loads(told) == {"a": "\x7f\u2028", "spans": [], "sum": 0} and told.isascii() and "\x7f" not in told


def test_a_report_on_a_terminal_says_how_to_open_a_row(
    db: Path, explained: Explained, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """OBS-55: the last line is a command that works; where it does not fit, it says where addresses are."""
    assert run(["report", "--by", "month,model", "--db", str(db)]) == 0
    assert "ledger explain" not in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["report", "--by", "month,model", "--client", "codex", "--db", str(db)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == "to open a row: ledger explain month=2026-11,model=gpt-5.3-codex,client=codex"
    assert explained(line.split()[-1])[0] == 0
    monkeypatch.setenv("COLUMNS", "60")
    assert run(["report", "--by", "project,branch,model", "--db", str(db)]) == 0
    assert "ledger explain ADDRESS" in capsys.readouterr().out.splitlines()[-1]


def test_csv_ends_with_the_sum(explained: Explained) -> None:
    code, out, _ = explained("total", "--format", "csv", "--limit", "1")
    *rows, total = csv.DictReader(io.StringIO(out))
    assert (code, len(rows), total["span"]) == (0, 13, "total")
    assert sum(Decimal(row["cost_usd"] or 0) for row in rows) == Decimal(total["cost_usd"]) == Decimal("0.58988525")
    assert sum(int(row["output"] or 0) for row in rows) == int(total["output"]) == 9675
    assert rows[0]["arithmetic"] == "9 x 5/M + 18240 x 10/M + 412 x 25/M"


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_fits_the_terminal(explained: Explained, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """Nothing is wider than the terminal but a path, which is not cut: its end is what one needs."""
    monkeypatch.setenv("COLUMNS", columns)
    for address in ("total", "3f2b#2", SEARCHED):
        _, out, _ = explained(address, "--limit", "3")
        assert [line for line in out.splitlines() if len(line) > int(columns) and "/" not in line] == []
        assert SAMPLE.name in out and "…" not in out


def test_why_something_is_unknown(explained: Explained) -> None:
    """OBS-55, OBS-10: the failed request and the classes that nobody told."""
    _, out, _ = explained("3f2b#2")
    assert "failed with HTTP status 529, no token count was told: tokens and cost are unknown, not zero" in out
    assert "The span above is the figure" in out
    _, out, _ = explained("model=gpt-5.3-codex")
    assert "not told, so unknown and not zero: cache write 5m, cache write 1h" in out


# nothing behind it


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "no session begins so, and no turn or span has this id"),
        (["model=nope"], "no model nope: there are claude-opus-4-5-20251101"),
        (["status=(none)"], "nothing is without a status: there are "),
        (["agent=(none),month=2026-10"], "no month 2026-10: there are 2026-11"),
        (["month=2026-13"], "is no month: write it as 2026-11"),
        (["week=2026-W99"], "is no week: write it as 2026-W45"),
        (["day=today"], "is no day: write it as 2026-11-30"),
        (["agent=Explore,model=gpt-5.3-codex"], "nothing matches all of it together: `ledger report --by agent,model`"),
        (["colour=red"], "colour is no dimension"),
        (["3f2b#9"], "has no turn 9: it has #1 to #3"),
        (["3f2b#"], "has no turn #: it has #1 to #3"),
        (["3f2b#1", "--model", "x"], "--model: 3f2b#1 is a turn, which is explained whole"),
        ([SEARCHED, "--since", "2026-11"], f"--since: {SEARCHED} is a span"),
        (["total,since=2026-11-01", "--since", "2026-11"], "the address says it already"),
        (["total", "--limit", "-1"], "--limit -1"),
        (["total", "--client", "cursor"], "nothing matches all of it together"),
        ([""], "is empty: give a session's id"),
    ],
)
def test_an_address_with_nothing_behind_it(explained: Explained, words: list[str], said: str) -> None:
    """OBS-55: one line that says what there is, and exit code 2."""
    code, out, err = explained(*words)
    assert (code, out) == (2, "")
    assert said in err and err.count("\n") == 1


def test_several_sessions_with_one_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """OBS-55: a prompt that a fork copied and went on from is a turn of both; both are named as they can be typed."""
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)

    def line(session: str, uuid: str, minute: int, **more: Any) -> str:
        at = f"2026-03-10T12:{minute:02d}:00Z"
        return json.dumps({"sessionId": session, "uuid": uuid, "timestamp": at, "cwd": "/p", **more}) + "\n"

    def answer(name: str) -> dict[str, Any]:
        usage = {"input_tokens": 1000, "output_tokens": 10}
        message = {"id": name, "model": "claude-opus-4-5-20251101", "role": "assistant", "stop_reason": "end_turn"}
        return {"type": "assistant", "requestId": f"req_{name}", "message": {**message, "usage": usage}}

    prompt = {"type": "user", "message": {"role": "user", "content": "go"}}
    first = line("aaaa", "u1", 0, **prompt) + line("aaaa", "u2", 1, **answer("m1"))
    (folder / "aaaa.jsonl").write_text(first)
    forked = first.replace('"aaaa"', '"bbbb"') + line("bbbb", "u3", 2, **answer("m2"))
    (folder / "bbbb.jsonl").write_text(forked)
    db = ["--db", str(tmp_path / "ledger.db")]
    assert run(["import", "--home", str(tmp_path / "home"), *db]) == 0
    capsys.readouterr()
    assert run(["explain", "u1", *db]) == 2
    assert "u1: 2 sessions have a turn of this id: give aaaa#u1, bbbb#u1" in capsys.readouterr().err
    for address, span in (("aaaa#u1", "claude-code:m1:req_m1"), ("bbbb#u1", "claude-code:m2:req_m2")):
        assert run(["explain", address, *db, "--format", "json"]) == 0
        assert [one["span"] for one in json.loads(capsys.readouterr().out)["spans"]] == [span]


def test_on_postgresql(schema: PostgresPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """OBS-55: the same answers from the other database, read in bounded memory by the server's cursor."""
    db = ["--db", f"{schema.url}{'&' if '?' in schema.url else '?'}schema={schema.schema}"]
    assert run(["import", "--home", str(SAMPLE), *db]) == 0
    for address in ("total", "3f2b#1", "month=2026-11,model=gpt-5.3-codex", "label.client=",
                    f"day=2026-11-03,session={OLDER}", "total,project~webshop,since=2026-11-04", SEARCHED):  # fmt: skip
        capsys.readouterr()
        assert run(["explain", address, "--limit", "1", *db]) == 0
        assert run(["explain", address, "--format", "csv", *db]) == 0
        assert "add up to the figure" in (out := capsys.readouterr().out) or "is the figure" in out
