"""What a report answers: every grouping adds up to the same total, whichever rows the answer is summed from.

The log holds the bundled sample, every tree of the real clients, and one home written here for what those lack:
several projects, zones' midnights, unknown prices, failures, reported costs.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.accounts.amounts import DIMENSIONS, GRAIN_DAY, GRAIN_QUARTER, GRAIN_SESSION, STATUSES
from ledger.accounts.catchup import View, snapshot
from ledger.accounts.rows import Dimensions, SpanRow, contribution
from ledger.errors import UsageError
from ledger.invariants import check
from ledger.log.log import Log
from ledger.sources.importer import run_import
from reports.figures import Figures, decimals_for, usd
from reports.periods import PERIODS, Zone
from reports.query import BY, Question, _from_spans, _from_totals, ask, make_question
from reports.report import report

ROOT = Path(__file__).parents[2]
HOMES = [
    ROOT / "reports" / "sample",
    *sorted((ROOT / "tests" / "cases" / "real-claude-code").iterdir()),
    *sorted((ROOT / "tests" / "cases" / "real-codex").iterdir()),
]
CLIENTS = ("claude-code", "codex")
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "America/Los_Angeles")

ROW_KEYS = [
    "requests", "succeeded", "failed", "cut", "cancelled", "lost", "open", "retries", "fallbacks", "tokens",
    "unknown_usage_spans", "lower_bound_spans", "upper_bound_spans", "cost_usd", "unpriced_spans",
    "reported_cost_usd", "ran_ms", "waited_ms", "first_at", "last_at", "tokens_unknown", "address",
]  # fmt: skip
TOKEN_KEYS = ["input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning", "total"]

ADDITIVE = ["requests", *STATUSES, "retries", "fallbacks", "unknown_usage_spans", "lower_bound_spans",
            "upper_bound_spans", "unpriced_spans"]  # fmt: skip

PRICED, FREE = "claude-opus-4-5-20251101", "acme-coder-9"
"""A model of the price book (5 USD for a million input tokens, 25 for output), and one that has no price."""


# the home that is written here

_LINES: list[tuple[str, str, str, dict[str, Any]]] = []


def line(session: str, project: str, at: str, **fields: Any) -> None:
    """Take note of a line of a session file: (session, project, time, what it says)."""
    _LINES.append((session, project, at, fields))


def answer(session: str, project: str, at: str, number: int, model: str = PRICED, **extra: Any) -> None:
    """Take note of a response that used `number` thousand input tokens."""
    usage = {"input_tokens": number * 1000, "output_tokens": number, "cache_read_input_tokens": 0,
             "cache_creation_input_tokens": 0}  # fmt: skip
    message = {"id": f"msg_{session}_{number}", "model": model, "role": "assistant", "usage": usage,
               "stop_reason": "end_turn", "content": []}  # fmt: skip
    line(session, project, at, type="assistant", message=message, requestId=f"req_{session}_{number}", **extra)


def failure(session: str, project: str, at: str, status: int) -> None:
    """Take note of a request that failed."""
    usage = {"input_tokens": 0, "output_tokens": 0}
    message = {"id": f"err-{at}", "model": "<synthetic>", "role": "assistant", "usage": usage, "content": "no"}
    line(session, project, at, type="assistant", message=message, isApiErrorMessage=True, apiErrorStatus=status)


NIGHT = "5e550001-night"
answer(NIGHT, "/home/ada/webshop", "2026-10-24T21:59:59.999Z", 1)
answer(NIGHT, "/home/ada/webshop", "2026-10-24T22:00:00.000Z", 2)
answer(NIGHT, "/home/ada/webshop", "2026-10-25T22:59:59.999Z", 3)
answer(NIGHT, "/home/ada/webshop", "2026-10-25T23:00:00.000Z", 4)
answer(NIGHT, "/home/ada/webshop", "2026-12-31T18:14:59.000Z", 5)
answer(NIGHT, "/home/ada/webshop", "2026-12-31T18:15:00.000Z", 6)
answer(NIGHT, "/home/ada/webshop", "2026-12-31T18:29:59.000Z", 7)
answer(NIGHT, "/home/ada/webshop", "2026-12-31T18:30:00.000Z", 8)
answer("5e550002-%", "/home/bob/webshop", "2026-11-01T12:00:00Z", 9, costUSD=0.5)
answer("5e550002-%", "/home/bob/web_shop", "2026-11-01T12:00:01Z", 10, costUSD=0.25)
answer("5e550002-_", "/home/bob/web%shop", "2026-11-01T12:00:02Z", 11)
answer("5e55000200", "/home/bob/webXshop", "2026-11-01T12:00:03Z", 12)
answer("5e550003", "/home/bob/WebShop", "2026-11-01T12:00:04Z", 13, model=FREE)
answer(
    "5e550003",
    "/home/bob/100%",
    "2026-11-01T12:00:05Z",
    14,
    model=FREE,
    gitBranch='odd "branch", with\ncontrol \x1b[31m',
)
answer("5e550004", "/home/bob/\u043f\u0440\u043e\u0435\u043a\u0442", "2026-11-01T12:00:06Z", 15, gitBranch="=1+1")
failure("5e550004", "/home/bob/webshop", "2026-11-01T12:00:07Z", 529)
failure("5e550005", "/home/bob/only-failed", "2026-11-02T12:00:00Z", 500)


def write_home(folder: Path) -> Path:
    """Write the lines as Claude Code would, a file a session."""
    root = folder / ".claude" / "projects" / "-home"
    root.mkdir(parents=True)
    for number, (session, project, at, fields) in enumerate(_LINES):
        whole = {"uuid": f"u{number}", "sessionId": session, "cwd": project, "gitBranch": "main", "version": "2.1.197",
                 "isSidechain": False, "timestamp": at, **fields}  # fmt: skip
        with (root / f"{session}.jsonl").open("a") as file:
            file.write(json.dumps(whole) + "\n")
    return folder


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """A log with everything that there is to import."""
    folder = tmp_path_factory.mktemp("query")
    with Log.create(folder / "ledger.db") as made:
        for home in [*HOMES, write_home(folder / "home")]:
            run_import(made, CLIENTS, home, use_environment=False)
        yield made


@pytest.fixture(scope="module")
def view(log: Log) -> Iterator[View]:
    """One snapshot of its accounts."""
    with snapshot(log) as found:
        yield found


# an oracle that sums in plain Python

Spans = list[tuple[str, SpanRow, Dimensions]]


@pytest.fixture(scope="module")
def spans(view: View) -> Spans:
    """Return every span with its session's id and its dimension values."""
    own = ", ".join(f"p.{name}" for name in SpanRow.__struct_fields__)
    values = ", ".join(f"d.{name}" for name in DIMENSIONS)
    sql = (
        f"SELECT s.session_id, {values}, {own} FROM gen_spans p JOIN gen_sessions s ON s.session_key = p.session_key "
        "JOIN gen_dimensions d ON d.dimension_id = p.dimension_id"
    )
    width = len(DIMENSIONS) + 1
    rows = view.store.connection.execute(view.store.named(sql)).fetchall()
    return [(row[0], SpanRow(*row[width:]), Dimensions(*row[1:width])) for row in rows]


def matches(name: str, wanted: str, value: str) -> bool:
    """Return what a filter means, said another way than in SQL."""
    if name == "session":
        return value.startswith(wanted)
    if name == "project":
        folder = wanted.rstrip("/")
        return value in (wanted, folder or wanted) or (bool(folder) and value.endswith("/" + folder))
    return value == wanted


def expected(spans: Spans, question: Question) -> dict[tuple[str, ...], Figures]:
    """Answer a question by looking at every span, with its own instant."""
    labels = {name: question.zone.label(name) for name in PERIODS}
    groups: dict[tuple[str, ...], Figures] = {}
    for session, row, values in spans:
        at = row.occurred_at
        if (question.since_us or at) > at or (question.until_us is not None and at >= question.until_us):
            continue
        known = {"session": session, **values._asdict()}
        if not all(matches(name, wanted, known[name]) for name, wanted in question.filters):
            continue
        known |= {name: label(at) for name, label in labels.items()}
        key = tuple(known[name] for name in question.by)
        groups.setdefault(key, Figures()).add(contribution(row, values.kind, values.status), at, at)
    return groups


def plain(groups: Mapping[tuple[str, ...], Figures]) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """Return figures as values that can be compared."""
    return {key: (figures.amounts, figures.first_at, figures.last_at) for key, figures in groups.items()}


def answered(view: View, question: Question) -> dict[tuple[str, ...], Figures]:
    """Return the rows of an answer; no key may come twice."""
    rows = ask(view, question).rows
    groups = dict(rows)
    assert len(groups) == len(rows)
    return groups


# sums

NARROWED: list[dict[str, str]] = [
    {},
    {"client": "codex"},
    {"project": "webshop"},
    {"session": "5e55000"},
    {"kind": "tool"},
    {"model": PRICED},
    {"since": "2026-11-01"},
    {"until": "2026-11-03"},
    {"since": "2026-11-01", "until": "2026-12-01", "client": "claude-code"},
    {"since": "2026-10-25", "session": NIGHT},
]


@pytest.mark.parametrize("narrowed", NARROWED, ids=lambda one: " ".join(one.values()) or "all")
@pytest.mark.parametrize("tz", ["UTC", "Asia/Kathmandu"])
def test_every_grouping_adds_up_to_the_same_total(view: View, spans: Spans, narrowed: dict[str, str], tz: str) -> None:
    """Rows by any dimension or pair sum to the total in every figure, and it is the sum over spans (OBS-19, OBS-26)."""
    question = make_question("kind", tz=tz, **narrowed)
    whole = Figures()
    for figures in expected(spans, question).values():
        whole.add(figures.amounts, figures.first_at, figures.last_at)
    assert whole["spans"], "the case tests nothing"
    for by in [*((name,) for name in BY), *combinations(BY, 2)]:
        answer = ask(view, question._replace(by=by))
        summed = Figures()
        for _, figures in answer.rows:
            summed.add(figures.amounts, figures.first_at, figures.last_at)
        assert plain({by: summed}) == plain({by: answer.total}) == plain({by: whole})


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("period", PERIODS)
def test_periods_by_session_sum_to_periods(view: View, tz: str, period: str) -> None:
    """What is summed from spans (by day and session) is what is summed from totals (by day) (OBS-02, OBS-19)."""
    alone = answered(view, make_question(period, tz=tz))
    summed: dict[tuple[str, ...], Figures] = {}
    for (name, _), figures in answered(view, make_question(f"{period},session", tz=tz)).items():
        summed.setdefault((name,), Figures()).add(figures.amounts, figures.first_at, figures.last_at)
    assert plain(summed) == plain(alone)


@pytest.mark.parametrize("by", [(), ("model",), ("project", "status"), ("who", "agent", "tool"), DIMENSIONS])
@pytest.mark.parametrize("narrowed", [{}, {"project": "webshop"}, {"client": "codex", "kind": "model"}])
def test_the_three_ways_to_an_answer_agree(view: View, by: tuple[str, ...], narrowed: dict[str, str]) -> None:
    """Quarter hours, days, sessions and the spans themselves hold the same sums (OBS-26)."""
    question = make_question("kind", tz="UTC", **narrowed)._replace(by=("kind", *by))
    ways = [plain(_from_totals(view, question, grain)) for grain in (GRAIN_QUARTER, GRAIN_DAY, GRAIN_SESSION)]
    ways.append(plain(_from_spans(view, question)))
    assert all(way == ways[0] for way in ways)
    assert ways[0]


@pytest.mark.parametrize("period", PERIODS)
def test_days_and_quarter_hours_agree(view: View, period: str) -> None:
    """A UTC day is the sum of its quarter hours, also where the days are bounded."""
    for narrowed in ({}, {"since": "2026-11-01"}, {"since": "2026-11-01", "until": "2026-11-06"}):
        question = make_question(f"{period},model", tz="UTC", **narrowed)
        ways = [plain(_from_totals(view, question, grain)) for grain in (GRAIN_QUARTER, GRAIN_DAY)]
        assert ways[0] == ways[1] == plain(_from_spans(view, question))


def test_sessions_from_totals_and_from_spans_agree(view: View) -> None:
    for by in ("session", "session,model,status", "who,session"):
        question = make_question(by, tz="UTC")
        assert plain(_from_totals(view, question, GRAIN_SESSION)) == plain(_from_spans(view, question))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_question_is_answered_as_the_spans_say(view: View, spans: Spans, data: st.DataObject) -> None:
    """Any grouping, filters, days and zone give what a walk over all spans gives (OBS-19, OBS-26)."""
    by = data.draw(st.lists(st.sampled_from(BY), min_size=1, max_size=4, unique=True))
    narrowed: dict[str, str] = {}
    session, _, values = data.draw(st.sampled_from(spans))
    for name, value in {"session": session, **values._asdict()}.items():
        if name in ("session", "project", "model", "client", "kind") and data.draw(st.integers(0, 4)) == 0:
            if name == "session":
                value = value[: data.draw(st.integers(0, len(value)))]
            elif name == "project":
                value = data.draw(st.sampled_from([value, value + "/", value.rpartition("/")[2], value[1:]]))
            narrowed[name] = value
    days = sorted(data.draw(st.lists(st.dates(*SEEN), max_size=2, unique=True)))
    if days and data.draw(st.booleans()):
        narrowed["since"] = days[0].isoformat()
        days = days[1:]
    if days:
        narrowed["until"] = days[-1].isoformat()
    question = make_question(",".join(by), tz=data.draw(st.sampled_from(ZONES)), **narrowed)
    assert plain(answered(view, question)) == plain(expected(spans, question))


SEEN = (Zone("UTC").date(1_758_000_000_000_000), Zone("UTC").date(1_798_800_000_000_000))
"""Days around those of the log."""


# filters


def numbers(view: View, **narrowed: str) -> list[int]:
    """Return which of the responses written here match, by their thousands of input tokens, a sum for each day."""
    question = make_question("session", tz="UTC", **narrowed)._replace(by=("session", "day", "project", "status"))
    with_paths = _from_spans(view, question)
    found = [figures["input_uncached"] // 1000 for key, figures in with_paths.items() if key[0].startswith("5e55")]
    assert plain(with_paths) == plain(answered(view, question))
    return sorted(number for number in found if number)


@pytest.mark.parametrize(
    ("project", "found"),
    [
        ("/home/bob/webshop", [9]),
        ("/home/bob/webshop/", [9]),
        ("bob/webshop", [9]),
        ("WebShop", [13]),
        ("webshop/", [1 + 2, 3 + 4, 9, 5 + 6 + 7 + 8]),
        ("web_shop", [10]),
        ("web%shop", [11]),
        ("webXshop", [12]),
        ("100%", [14]),
        ("%", []),
        ("shop", []),
        ("_ebshop", []),
        ("/webshop", []),
        ("\u043f\u0440\u043e\u0435\u043a\u0442", [15]),
        ("", []),
    ],
)
def test_a_project_by_its_folder_or_the_last_part_of_it(view: View, project: str, found: list[int]) -> None:
    """`%` and `_` are themselves, capitals count, a slash at the end does not."""
    assert numbers(view, project=project) == found


@pytest.mark.parametrize(
    ("session", "found"),
    [("5e550002", [9, 10, 11, 12]), ("5e550002-%", [9, 10]), ("5e550002-_", [11]), ("5e55000200", [12]),
     ("%", []), ("_e55", []), ("5E55", []), (f"{NIGHT}x", [])],
)  # fmt: skip
def test_a_session_by_how_it_begins(view: View, session: str, found: list[int]) -> None:
    assert numbers(view, session=session) == found


def test_other_filters_are_exact(view: View) -> None:
    assert numbers(view, model=FREE) == [13, 14]
    assert numbers(view, model=FREE[:-1]) == []
    assert numbers(view, client="codex") == []
    assert numbers(view, kind="hook") == []
    assert numbers(view, model=FREE, project="WebShop", session="5e55", client="claude-code", kind="model") == [13]


# time


@pytest.mark.parametrize(
    ("tz", "days"),
    [
        ("UTC", {"2026-10-24": [1, 2], "2026-10-25": [3, 4], "2026-12-31": [5, 6, 7, 8]}),
        ("Europe/Berlin", {"2026-10-24": [1], "2026-10-25": [2, 3], "2026-10-26": [4], "2026-12-31": [5, 6, 7, 8]}),
        ("Asia/Kathmandu", {"2026-10-25": [1, 2], "2026-10-26": [3, 4], "2026-12-31": [5], "2027-01-01": [6, 7, 8]}),
        ("Asia/Kolkata", {"2026-10-25": [1, 2], "2026-10-26": [3, 4], "2026-12-31": [5, 6, 7], "2027-01-01": [8]}),
    ],
)
def test_a_response_is_of_the_day_that_its_viewer_had(view: View, tz: str, days: dict[str, list[int]]) -> None:
    """The zone moves a response over midnight, over a clock change and into another year (OBS-02)."""
    found = answered(view, make_question("session,day", session=NIGHT, tz=tz))
    assert {day: figures["input_uncached"] // 1000 for (_, day), figures in found.items()} == {
        day: sum(numbers) for day, numbers in days.items()
    }
    months = answered(view, make_question("month", session=NIGHT, tz=tz))
    assert set(months) == {(day[:7],) for day in days}
    by_project = answered(view, make_question("day,project", project="/home/ada/webshop", tz=tz))
    told = {day: figures["input_uncached"] // 1000 for (day, _), figures in by_project.items() if day in days}
    assert told == {day: sum(numbers) for day, numbers in days.items()}


def test_until_is_exclusive_and_since_is_not(view: View) -> None:
    """A day's first microsecond is its own; the day after's is not."""

    def thousands(**days: str) -> int:
        question = make_question("day", project="/home/ada/webshop", tz="Europe/Berlin", model=PRICED, **days)
        by_totals = ask(view, question).total
        by_spans = ask(view, question._replace(filters=(*question.filters, ("session", NIGHT)))).total
        assert by_spans["input_uncached"] == by_totals["input_uncached"]
        return by_totals["input_uncached"] // 1000

    assert thousands(since="2026-10-24", until="2026-10-25") == 1
    assert thousands(since="2026-10-25", until="2026-10-26") == 2 + 3
    assert thousands(since="2026-10-26", until="2026-10-27") == 4
    assert thousands(since="2026-10-24", until="2026-10-27") == 1 + 2 + 3 + 4
    assert thousands(since="2026-12") == 5 + 6 + 7 + 8


@pytest.mark.parametrize(("since", "until"), [("2026-11-02", "2026-11-02"), ("2026-11-02", "2026-11-01")])
def test_days_that_hold_nothing_are_refused(since: str, until: str) -> None:
    with pytest.raises(UsageError, match="--until is exclusive and must be later than --since"):
        make_question("day", since=since, until=until, tz="UTC")


# words


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ({"by": "colour"}, "--by colour: unknown: use one or more of session, project"),
        ({"by": "day,,colour"}, "--by colour: unknown"),
        ({"by": " , "}, "--by: name at least one of"),
        ({"by": "day", "sort": "name"}, "--sort name: unknown: use one of cost, tokens, time"),
        ({"by": "day", "kind": "models"}, "--kind models: unknown: use one of model, tool, hook, approval"),
        ({"by": "day", "tz": "Mars"}, "--tz Mars: unknown time zone"),
        ({"by": "day", "since": "soon"}, "--since soon: not a day"),
        ({"by": "day", "until": "soon"}, "--until soon: not a day"),
    ],
)
def test_what_cannot_be_asked(words: dict[str, str], begins: str) -> None:
    """One line that names the option and what it takes."""
    with pytest.raises(UsageError) as refused:
        make_question(words.pop("by"), **words)
    assert str(refused.value).startswith(begins)
    assert "\n" not in str(refused.value)


def test_a_dimension_named_twice_or_with_spaces() -> None:
    assert make_question(" model , day,model").by == ("model", "day")


# order


def test_sorted_by_cost_tokens_and_time(view: View) -> None:
    """Without --sort, sessions and periods stand by time and the rest by cost."""

    def rows(by: str, sort: str | None = None) -> list[Figures]:
        return [figures for _, figures in ask(view, make_question(by, sort=sort, tz="UTC")).rows]

    for by in ("session", "model", "day", "project,branch", "session,day"):
        costs = [figures["cost_nanousd"] for figures in rows(by, "cost")]
        assert costs == sorted(costs, reverse=True)
        tokens = [figures.tokens for figures in rows(by, "tokens")]
        assert tokens == sorted(tokens, reverse=True)
    first = [figures.first_at or 0 for figures in rows("model", "time")]
    assert first == sorted(first)
    days = [key[1] for key, _ in ask(view, make_question("model,day", sort="time", tz="UTC")).rows]
    assert days == sorted(days)
    assert plain(answered(view, make_question("session"))) == plain(
        answered(view, make_question("session", sort="cost"))
    )
    by_default = [key for key, _ in ask(view, make_question("model", tz="UTC")).rows]
    assert by_default == [key for key, _ in ask(view, make_question("model", sort="cost", tz="UTC")).rows]
    assert [key for key, _ in ask(view, make_question("week", tz="UTC")).rows] == sorted(
        key for key, _ in ask(view, make_question("week", tz="UTC", sort="cost")).rows
    )


def test_the_same_question_has_the_same_order(view: View) -> None:
    """Rows that are equal in what they are sorted by stand by their names."""
    for sort in ("cost", "tokens", "time"):
        rows = ask(view, make_question("status,kind,tool", sort=sort)).rows
        assert rows == sorted(rows, key=lambda row: row[0]) or len({key for key, _ in rows}) == len(rows)
        again = ask(view, make_question("status,kind,tool", sort=sort)).rows
        assert [key for key, _ in rows] == [key for key, _ in again]


# JSON and CSV


def printed(view: View, capsys: pytest.CaptureFixture[str], format_: str, by: str, **words: str) -> str:
    """Return what a report prints."""
    report(view, make_question(by, tz="UTC", **words), format_)
    return capsys.readouterr().out


def nano(text: str | None) -> int:
    """Return a decimal of dollars in nano-dollars; it must be exact."""
    value = Decimal(text or 0) * 1_000_000_000
    assert value == int(value)
    return int(value)


@pytest.mark.parametrize(
    "by", ["session", "month,model", "project,branch,client", "who,agent,kind,tool,status", "week"]
)
def test_json_is_exactly_what_is_promised(view: View, capsys: pytest.CaptureFixture[str], by: str) -> None:
    """The keys of rows and total, integers for counts, decimals as strings, null for unknown (OBS-01, OBS-10)."""
    text = printed(view, capsys, "json", by)
    assert text.isascii()
    answer = json.loads(text, parse_float=lambda number: pytest.fail(f"a float: {number}"))
    assert list(answer) == ["as_of", "billing", "rows", "total"]
    assert answer["as_of"] == view.position
    for row in answer["rows"]:
        assert list(row) == [*by.split(","), *ROW_KEYS, *(["labels"] if by == "session" else [])]
        assert all(isinstance(row[name], str) for name in by.split(","))
    assert list(answer["total"]) == ROW_KEYS
    for row in [*answer["rows"], answer["total"]]:
        assert list(row["tokens"]) == TOKEN_KEYS
        assert row["tokens"]["total"] == sum(row["tokens"][name] for name in TOKEN_KEYS[:5])
        assert row["requests"] == sum(row[name] for name in STATUSES)
        assert all(type(row[name]) is int for name in ADDITIVE)
        for name in ("cost_usd", "reported_cost_usd"):
            assert row[name] is None or isinstance(row[name], str)
        for name in ("ran_ms", "waited_ms"):
            assert row[name] is None or type(row[name]) is int
        assert row["first_at"] <= row["last_at"]


@pytest.mark.parametrize("by", ["session", "day,who", "model,status", "project"])
def test_json_rows_add_up(view: View, capsys: pytest.CaptureFixture[str], by: str) -> None:
    """Whoever adds the rows of the JSON gets its total, money to the nano-dollar (OBS-19, OBS-26)."""
    answer = json.loads(printed(view, capsys, "json", by))
    rows, total = answer["rows"], answer["total"]
    for name in ADDITIVE:
        assert sum(row[name] for row in rows) == total[name], name
    for name in TOKEN_KEYS:
        assert sum(row["tokens"][name] for row in rows) == total["tokens"][name], name
    for name in ("cost_usd", "reported_cost_usd"):
        assert sum(nano(row[name]) for row in rows) == nano(total[name]), name
    assert min(row["first_at"] for row in rows) == total["first_at"]
    assert max(row["last_at"] for row in rows) == total["last_at"]


def test_what_is_unknown_is_null_and_never_zero(view: View, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown price, a failed request, times that nobody measured (OBS-10, OBS-24, OBS-51)."""
    rows = {row["session"]: row for row in json.loads(printed(view, capsys, "json", "session"))["rows"]}
    free = rows["5e550003"]
    assert (free["cost_usd"], free["unpriced_spans"], free["requests"]) == (None, 2, 2)
    failed = rows["5e550005"]
    assert (failed["requests"], failed["failed"], failed["unknown_usage_spans"]) == (1, 1, 1)
    assert failed["cost_usd"] is failed["reported_cost_usd"] is failed["ran_ms"] is failed["waited_ms"] is None
    partly = rows["5e550004"]
    assert (partly["cost_usd"], partly["unpriced_spans"]) == ("0.075375", 1)
    told = rows["5e550002-%"]
    assert (told["cost_usd"], told["reported_cost_usd"]) == ("0.095475", "0.75")


def test_an_empty_answer(view: View, capsys: pytest.CaptureFixture[str]) -> None:
    """No row, a total in which nothing is known, and a table that says what to do."""
    answer = json.loads(printed(view, capsys, "json", "day", session="nobody"))
    assert answer["rows"] == []
    assert (answer["total"]["requests"], answer["total"]["cost_usd"], answer["total"]["first_at"]) == (0, None, None)
    assert "nothing matches" in printed(view, capsys, "table", "day", session="nobody")
    lines = list(csv.reader(io.StringIO(printed(view, capsys, "csv", "day", session="nobody"))))
    assert [row[0] for row in lines] == ["day", "total"]


@pytest.mark.parametrize("by", ["session", "project,branch", "month,model,status"])
def test_csv_says_what_json_says(view: View, capsys: pytest.CaptureFixture[str], by: str) -> None:
    """Commas, quotes and line breaks in names survive; an unknown value is an empty cell (OBS-10)."""
    rows = list(csv.DictReader(io.StringIO(printed(view, capsys, "csv", by))))
    answer = json.loads(printed(view, capsys, "json", by))
    told = [*answer["rows"], {**dict.fromkeys(by.split(","), ""), by.split(",")[0]: "total", **answer["total"]}]
    assert len(rows) == len(told)
    for row, expected in zip(rows, told, strict=True):
        tokens, unknown = expected.pop("tokens"), expected.pop("tokens_unknown")
        expected.pop("labels", None)  # in JSON only
        flat = {**expected, **{f"tokens_{name}": value for name, value in tokens.items()}}
        flat |= {f"tokens_unknown_{name}": value for name, value in unknown.items()}
        texts = {name: "" if value is None else str(value) for name, value in flat.items()}
        texts |= {name: escaped(texts[name]) for name in by.split(",")}
        assert row == texts
    assert rows[-1][by.split(",")[0]] == "total"


def escaped(text: str) -> str:
    """Return a name as it reaches a terminal."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def test_no_control_character_of_a_log_leaves(view: View, capsys: pytest.CaptureFixture[str]) -> None:
    """A branch may hold an escape sequence: no format lets it through."""
    for format_ in ("table", "json", "csv"):
        text = printed(view, capsys, format_, "branch,project")
        assert {char for char in text if not char.isprintable()} <= {"\n"}
        assert "odd" in text


def cell(lines: list[str], row: str, title: str) -> str:
    """Return the cell of a table below a title: figures end where their title does."""
    line = next(line for line in lines if line.startswith(row))
    return line[: lines[0].index(title) + len(title)].rpartition("  ")[2].strip()


def test_the_table_marks_bounds_and_unknowns(
    view: View, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`>= 1.23` where a part is unknown, `unknown` where all is, and a line that says why (OBS-10, OBS-51)."""
    monkeypatch.setenv("COLUMNS", "300")
    lines = printed(view, capsys, "table", "session", session="5e55").splitlines()
    assert cell(lines, "5e550003", "cost USD") == "unknown"
    assert cell(lines, "5e550004", "cost USD") == ">= 0.08"
    assert cell(lines, "5e550002-%", "cost USD") == "0.10"
    for title in ("input", "output", "cost USD", "cache read"):
        assert cell(lines, "5e550005", title) == "unknown"
    assert any("without a known cost" in text for text in lines[-3:])


# figures


@settings(max_examples=300)
@given(st.integers(-(1 << 62), 1 << 62))
def test_dollars_are_exact(nanousd: int) -> None:
    """A decimal string of at least two decimals, without an exponent, that gives back every nano-dollar."""
    text = usd(nanousd)
    assert nano(text) == nanousd
    whole, point, decimals = text.partition(".")
    assert point and 2 <= len(decimals) <= 9 and whole.lstrip("-").isdigit() and decimals.isdigit()
    assert len(decimals) == 2 or not decimals.endswith("0")


@pytest.mark.parametrize(
    ("nanousd", "text"), [(0, "0.00"), (1, "0.000000001"), (-1, "-0.000000001"), (10**9, "1.00"), (123 * 10**7, "1.23")]
)
def test_dollars(nanousd: int, text: str) -> None:
    assert usd(nanousd) == text


def test_small_costs_get_more_decimals() -> None:
    """No known cost of a column shows as 0.00."""
    assert decimals_for([0, 10**9]) == 2
    assert decimals_for([4_999_999, 10**9]) == 4


def test_the_accounts_hold(log: Log, view: View) -> None:
    """The log that these answers come from breaks no invariant (OBS-26, OBS-27, OBS-53)."""
    assert isinstance(log.place, Path)
    with Log.open(log.place) as other:  # the first one is in the middle of a snapshot
        assert [one for one in check(other, full=True) if not one.ok] == []
