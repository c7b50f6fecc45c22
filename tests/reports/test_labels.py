"""Labels: set and taken away as events, one winner whatever the order of books, sums that stay exact."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ledger.accounts.catchup import rebuild, snapshot
from ledger.accounts.store import session_key
from ledger.cli import run
from ledger.errors import LedgerError, UsageError
from ledger.events.book import LabelSet
from ledger.events.envelope import NewEvent
from ledger.invariants import check
from ledger.labels import all_labels, labels_of, parsed, set_labels
from ledger.log.log import Log, StreamAppend
from ledger.sources.importer import run_import
from reports.query import BY, ask, make_question
from reports.report import as_json

ROOT = Path(__file__).parents[2]
HOMES = [
    ROOT / "reports" / "sample",
    *sorted((ROOT / "tests" / "cases" / "real-claude-code").iterdir()),
    *sorted((ROOT / "tests" / "cases" / "real-codex").iterdir()),
]
PARENT, FORK = "3f2b8a6e-51c4-4d0a-9a1e-7c0d5b1e2f10", "8c1d4e77-0b5f-4a39-8f62-1de0a9b7c355"
CLIENT = "claude-code"


@pytest.fixture
def filled(log: Log) -> Iterator[Log]:
    """A log with the bundled sample; its invariants hold at the end."""
    run_import(log, ("claude-code", "codex"), HOMES[0], use_environment=False)
    yield log
    assert [one.name for one in check(log, full=True) if not one.ok] == []


def now(log: Log, session: str = PARENT) -> dict[str, str]:
    """Return the labels that a session has."""
    with snapshot(log) as view:
        return labels_of(view, CLIENT, session)


# setting


def test_a_label_is_set_replaced_and_taken_away(filled: Log) -> None:
    """Each is an event; none is where nothing changes (OBS-29)."""
    assert set_labels(filled, CLIENT, PARENT, {"client": "acme", "team": "web"}) == {"client": "acme", "team": "web"}
    head = filled.head_position()
    assert set_labels(filled, CLIENT, PARENT, {"client": "acme", "other": ""}) == {"client": "acme", "team": "web"}
    assert filled.head_position() == head
    assert set_labels(filled, CLIENT, PARENT, {"client": "beta", "team": ""}) == {"client": "beta"}
    assert filled.head_position() == head + 2
    assert {event.stream_id for event in filled.all_events(head)} == {filled.book_stream}
    assert now(filled, FORK) == {}
    rebuild(filled)
    assert now(filled) == {"client": "beta"}


@pytest.mark.parametrize(
    "word",
    ["client", "", "=x", "Client=x", "1a=x", "_a=x", "a b=x", "ä=x", f"{'a' * 65}=x", "a'b=x", 'a"=x', "a,b=x",
     f"a={'x' * 257}", "a=one\ntwo", "a=\x1b[31m", "a=one\u2028two", "a= ",
     "a=\u00a0\u3000", "a=(none)", " =x", " a=x", "a =x"],
)  # fmt: skip
def test_what_is_no_label(word: str) -> None:
    """No key or value is blank, nor reads as the sign that a table has for none."""
    with pytest.raises(UsageError):
        parsed([word])


@pytest.mark.parametrize("word", ["a=", "a=x", "a=b=c", "a.b-c_9=x", f"{'a' * 64}={'x' * 256}", "a= Å, ü ", "a='"])
def test_what_is_a_label(word: str) -> None:
    key, _, value = word.partition("=")
    assert parsed([word]) == {key: value}


def test_one_key_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="given twice"):
        parsed(["a=1", "a=2"])


def test_a_secret_in_a_value_is_masked(filled: Log) -> None:
    """What looks like a key never reaches the log, and setting it again is no change."""
    secret = "sk-ant-api03-" + "A1b2" * 22
    labels = set_labels(filled, CLIENT, PARENT, {"token": secret})
    head = filled.head_position()
    assert secret not in labels["token"]
    assert all(secret not in event.data for event in filled.all_events())
    set_labels(filled, CLIENT, PARENT, {"token": secret})
    assert filled.head_position() == head


# several books


def test_of_several_books_the_latest_recorded_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By time, then by event id: in whatever order the books are read, and in however many slices (OBS-53)."""
    said = [
        ("book:a", 1_000, 1, "first"), ("book:b", 3_000, 2, "latest, lower id"), ("book:c", 3_000, 9, "latest"),
        ("book:a", 2_000, 8, "later"),
    ]  # fmt: skip
    for number, order in enumerate(permutations(said)):
        with Log.create(tmp_path / f"{number}.db") as log:
            for stream, at, identity, value in order:
                with monkeypatch.context() as patch:
                    patch.setattr(time, "time_ns", lambda at=at: at * 1000)
                    event = NewEvent(body=LabelSet(CLIENT, PARENT, "k", value), event_id=bytes([identity]) * 16)
                    log.append([StreamAppend(stream, log.stream_version(stream), [event])])
                if number % 2:
                    now(log)  # folds what there is
            assert now(log) == {"k": "latest"}


def test_taking_away_holds_against_what_was_set_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal is a word like any other: an older book that is read later does not bring the label back."""
    with Log.create(tmp_path / "one.db") as log:
        for stream, at, value in (("book:a", 2_000, ""), ("book:b", 1_000, "older")):
            with monkeypatch.context() as patch:
                patch.setattr(time, "time_ns", lambda at=at: at * 1000)
                event = NewEvent(body=LabelSet(CLIENT, PARENT, "k", value), event_id=bytes([at % 251]) * 16)
                log.append([StreamAppend(stream, 0, [event])])
            now(log)
        assert now(log) == {}


def test_a_clock_that_is_behind_is_said(filled: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label recorded in the future holds; whoever sets another is told and not left in the belief that it took."""
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 4_000_000_000_000_000_000)
        set_labels(filled, CLIENT, PARENT, {"client": "future"})
    with pytest.raises(LedgerError, match="check this machine's clock"):
        set_labels(filled, CLIENT, PARENT, {"client": "acme"})
    assert now(filled) == {"client": "future"}


def test_another_writer_between_reading_and_setting(filled: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The book moved on: it is read again."""
    real, raced = filled.stream_version, []

    def version(stream: str) -> int:
        found = real(stream)
        if not raced:
            raced.append(True)
            with Log.open(Path(str(filled.place))) as other:
                set_labels(other, CLIENT, PARENT, {"team": "web"})
        return found

    monkeypatch.setattr(filled, "stream_version", version)
    assert set_labels(filled, CLIENT, PARENT, {"client": "acme"}) == {"client": "acme", "team": "web"}


# reports


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """All trees of the real clients, with labels on most sessions: one value, another, an empty one, none."""
    with Log.create(tmp_path_factory.mktemp("labelled") / "ledger.db") as log:
        for home in HOMES:
            run_import(log, ("claude-code", "codex"), home, use_environment=False)
        with snapshot(log) as view:
            sql = "SELECT DISTINCT s.client, s.session_id FROM gen_sessions s JOIN gen_spans p USING (session_key)"
            sessions = sorted(tuple(row) for row in view.store.query(sql))
        assert len(sessions) > 5
        for number, (client, session) in enumerate(sessions):
            if number % 4:
                set_labels(log, client, session, {"client": ("acme", "beta", "gamma")[number % 3], "n": str(number)})
            if number % 5 == 0:
                set_labels(log, client, session, {"client": ""})
        yield log
        assert [one.name for one in check(log, full=True) if not one.ok] == []


def figures(answer: Any) -> list[int]:
    """Return the sums over the rows of an answer."""
    return [sum(column) for column in zip(*(row.amounts for _, row in answer.rows), strict=True)]


@pytest.mark.parametrize("beside", ["", *BY])
@pytest.mark.parametrize("tz", ["UTC", "Asia/Kathmandu"])
def test_rows_by_label_add_up_to_the_total(labelled: Log, beside: str, tz: str) -> None:
    """With every other dimension and every period: exactly the total without labels, nothing twice (OBS-26)."""
    by = ",".join(filter(None, ("label.client", beside, "label.n")))
    with snapshot(labelled) as view:
        answer = ask(view, make_question(by, tz=tz))
        whole = ask(view, make_question("client", tz=tz)).total
        plain = ask(view, make_question(beside, tz=tz)) if beside else None
    assert figures(answer) == answer.total.amounts == whole.amounts
    if plain is not None:
        place = answer.rows and 1
        sums: dict[str, list[int]] = {}
        for key, row in answer.rows:
            known = sums.setdefault(key[place], [0] * len(row.amounts))
            sums[key[place]] = [a + b for a, b in zip(known, row.amounts, strict=True)]
        assert sums == {key[0]: row.amounts for key, row in plain.rows}


def test_a_row_holds_the_sessions_with_that_label(labelled: Log) -> None:
    """By totals and by spans alike; without the label is a row of its own (OBS-55)."""
    with snapshot(labelled) as view:
        labels = all_labels(view)
        by_session = ask(view, make_question("client,session"))
        wanted: dict[str, list[int]] = {}
        for key, row in by_session.rows:
            value = labels.get((key[0], key[1]), {}).get("client", "")
            known = wanted.setdefault(value, [0] * len(row.amounts))
            wanted[value] = [a + b for a, b in zip(known, row.amounts, strict=True)]
        assert set(wanted) == {"", "acme", "beta", "gamma"}
        for since in (None, "2000-01-01"):
            answer = ask(view, make_question("label.client", since=since, tz="UTC"))
            assert {key[0]: row.amounts for key, row in answer.rows} == wanted
            for value, amounts in wanted.items():
                filtered = ask(view, make_question("model", since=since, tz="UTC", label=[f"client={value}"]))
                assert filtered.total.amounts == amounts


def test_filters_are_taken_together(labelled: Log) -> None:
    """Several labels, and labels with other filters: what fits all of them."""
    with snapshot(labelled) as view:
        both = ask(view, make_question("session", label=["client=acme", "n="]))
        assert both.rows == []
        acme = ask(view, make_question("session,label.n", label=["client=acme"]))
        for key, row in acme.rows:
            one = ask(view, make_question("session", label=["client=acme", f"n={key[1]}"]))
            assert [(name, found.amounts) for (name,), found in one.rows] == [(key[0], row.amounts)]


def test_a_sub_agent_counts_under_the_label_of_its_root(filled: Log) -> None:
    """The sample's session has a sub-agent: its requests are in the row (OBS-23)."""
    set_labels(filled, CLIENT, PARENT, {"client": "acme"})
    with snapshot(filled) as view:
        answer = ask(view, make_question("label.client,who"))
        assert {key: row["requests"] for key, row in answer.rows if key[0] == "acme"} == {
            ("acme", "main"): 6, ("acme", "agent"): 2,
        }  # fmt: skip


def test_labels_of_a_log_that_may_not_be_written(filled: Log, tmp_path: Path) -> None:
    """The accounts are folded into tables that vanish, labels with them."""
    set_labels(filled, CLIENT, PARENT, {"client": "acme"})
    with snapshot(filled) as view:
        expected = {key: row.amounts for key, row in ask(view, make_question("label.client,day", tz="UTC")).rows}
    copy = tmp_path / "copy.db"
    filled.connection.execute("VACUUM INTO ?", (str(copy),))
    with Log.open(copy, readonly=True) as log, snapshot(log) as view:
        assert view.folded == filled.head_position()
        assert {k: row.amounts for k, row in ask(view, make_question("label.client,day", tz="UTC")).rows} == expected


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_labels_are_a_view(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """On both databases, SQL sees the labels that hold now: none that was replaced or taken away."""
    log: Log = request.getfixturevalue("log" if kind == "sqlite" else "pg_log")
    run_import(log, ("claude-code", "codex"), HOMES[0], use_environment=False)
    set_labels(log, CLIENT, PARENT, {"client": "acme", "team": "web"})
    set_labels(log, CLIENT, PARENT, {"client": "beta", "team": ""})
    ask = log.accounts.execute("SELECT session_id, client, label, value, set_at > 0 FROM labels")
    assert [tuple(row) for row in ask] == [(PARENT, CLIENT, "client", "beta", True)]
    sql = (
        "SELECT l.value, count(*) FROM spans s JOIN labels l ON l.session_id = s.session_id AND l.client = s.client "
        "WHERE s.kind = 'model' GROUP BY l.value"
    )
    assert [tuple(row) for row in log.accounts.execute(sql)] == [("beta", 8)]


def test_rows_by_session_name_all_labels(filled: Log) -> None:
    """In JSON, whatever else is grouped; a session without any has an empty object."""
    set_labels(filled, CLIENT, PARENT, {"team": "web", "client": "acme"})
    with snapshot(filled) as view:
        question = make_question("session,model")
        rows = as_json(view, question, ask(view, question))["rows"]
        assert {row["session"]: row["labels"] for row in rows}[PARENT] == {"client": "acme", "team": "web"}
        assert {row["session"]: row["labels"] for row in rows}[FORK] == {}
        question = make_question("model")
        assert all("labels" not in row for row in as_json(view, question, ask(view, question))["rows"])


@pytest.mark.parametrize("name", ["label.", "label.A", "label.a b", "label.a'", "label", 'label.x" OR 1=1 --'])
def test_a_dimension_that_is_no_label(name: str) -> None:
    with pytest.raises(UsageError, match="--by"):
        make_question(name)


# the command


Ledger = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ledger(filled: Log, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A function that runs a command on the log, at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")

    def call(*words: str) -> tuple[int, str, str]:
        code = run([*words, "--db", str(filled.place)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_the_command(ledger: Ledger) -> None:
    """Set by a beginning of the id, printed in every format, seen in `show` and `report`."""
    code, out, _ = ledger("label", "3f2b", "client=acme", "team=web, two")
    assert (code, out.splitlines()[2:]) == (0, ["client  acme", "team    web, two"])
    assert ledger("label", "3f2b")[1] == out
    assert json.loads(ledger("label", "3f2b", "--format", "json")[1]) == {
        "session": PARENT, "client": CLIENT, "labels": {"client": "acme", "team": "web, two"},
    }  # fmt: skip
    assert ledger("label", "3f2b", "--format", "csv")[1] == (
        f'session,client,label,value\n{PARENT},{CLIENT},client,acme\n{PARENT},{CLIENT},team,"web, two"\n'
    )
    assert "has no labels" in ledger("label", "8c1d")[1]
    assert "labels: client=acme, team=web, two\n" in ledger("show", "3f2b")[1]
    assert json.loads(ledger("show", "3f2b", "--format", "json")[1])["labels"]["client"] == "acme"
    code, out, _ = ledger("report", "--by", "label.client")
    assert [line.split()[:2] for line in out.splitlines()[1:3]] == [["acme", "8"], ["(none)", "4"]]
    code, out, _ = ledger("report", "--label", "client=acme", "--label", "team=web, two", "--by", "client")
    assert out.splitlines()[1].split()[:2] == [CLIENT, "8"]
    assert ledger("report", "--label", "client=", "--by", "client", "--format", "csv")[1].count("\n") == 4
    code, out, _ = ledger("label", "3f2b", "client=", "team=")
    assert "has no labels" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("label 3f2b client", "client: is no label: write key=value"),
        ("label nobody client=acme", "nobody: no session begins so"),
        ("report --label client", "--label client: is no label: write key=value"),
        ("report --by label.X", "--by label.X: a label's key begins with a letter"),
        ("report --label 'client= '", "'client= ': a label's value is neither blank nor (none): `client=` stands"),
        ("label 3f2b ' a=x'", "' a=x': a label's key begins with a letter"),
        ("label '' a=x", "'': is empty: give a session's id"),
        ("show ' '", "' ': is empty: give a session's id"),
    ],
)
def test_bad_use(ledger: Ledger, words: str, told: str) -> None:
    """One line, exit 2."""
    code, out, err = ledger(*shlex.split(words))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_a_beginning_of_several_sessions(ledger: Ledger, filled: Log, tmp_path: Path) -> None:
    """One line that says how many."""
    for session in ("5e55aa", "5e55ab"):
        file = tmp_path / "home" / ".claude" / "projects" / "x" / f"{session}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        message = {"id": f"m{session}", "model": "x", "usage": {"input_tokens": 1, "output_tokens": 1}}
        file.write_text(json.dumps({"type": "assistant", "sessionId": session, "requestId": session,
                                    "timestamp": "2026-11-10T12:00:00Z", "message": message}) + "\n")  # fmt: skip
    run_import(filled, ("claude-code",), tmp_path / "home", use_environment=False)
    code, _, err = ledger("label", "5e55", "a=b")
    assert code == 2 and "2 sessions begin so" in err and err.count("\n") == 1
    assert session_key(CLIENT, "5e55aa") != session_key(CLIENT, "5e55ab")
