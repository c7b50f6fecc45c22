"""The windows of subscriptions: where they begin, what they hold, and what the running one comes to."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from ledger.accounts.amounts import AMOUNTS, QUARTER_HOUR_US
from ledger.accounts.catchup import snapshot
from ledger.cli import run
from ledger.errors import UsageError
from ledger.log.location import PostgresPlace
from ledger.log.log import Log
from reports.blocks import LARGEST, Blocks, find, make_choice
from reports.blocks_windows import HOUR_US, MINUTE_US, WINDOW_US, Quarter, Window, projection, rate, windows
from reports.figures import Figures

MODEL, CHEAP = "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001"


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 10**6)


def quarters(*texts: str, answered: bool = True) -> list[Quarter]:
    return [Quarter(us(text) - us(text) % QUARTER_HOUR_US, answered) for text in texts]


def begins(found: list[Window]) -> list[str]:
    return [f"{datetime.fromtimestamp(window.begin_us / 1e6, UTC):%d %H:%M}" for window in found]


# where windows begin


def test_a_window_begins_at_the_full_hour_and_lasts_five() -> None:
    """OBS-07: one meaning: floor to the hour in UTC, five hours, the end exclusive."""
    assert begins(windows(quarters("2026-11-03T10:55:30"))) == ["03 10:00"]
    assert begins(windows(quarters("2026-11-03T10:55:30", "2026-11-03T14:59:59"))) == ["03 10:00"]
    assert begins(windows(quarters("2026-11-03T10:55:30", "2026-11-03T15:00:00"))) == ["03 10:00", "03 15:00"]
    assert begins(windows(quarters("2026-11-03T10:00:00", "2026-11-04T09:59:00"))) == ["03 10:00", "04 09:00"]
    assert windows([]) == []


def test_a_failed_request_begins_no_window() -> None:
    failed = quarters("2026-11-03T08:10:00", answered=False)
    assert begins(windows([*failed, *quarters("2026-11-03T10:10:00")])) == ["03 10:00"]
    assert windows(failed) == []


INSTANTS = st.lists(st.integers(-3 * 86_400, 30 * 86_400), max_size=60).map(
    lambda seconds: sorted(second * 10**6 + us("2026-11-01T00:00:00") for second in seconds)
)


@given(INSTANTS)
def test_quarter_hours_are_as_good_as_instants(instants: list[int]) -> None:
    """The rule, request by request, finds the same windows; each request is in exactly one, and none overlap."""
    expected: list[int] = []
    for at in instants:
        if not expected or at >= expected[-1] + WINDOW_US:
            expected.append(at // HOUR_US * HOUR_US)
    found = windows(Quarter(at - at % QUARTER_HOUR_US, True) for at in instants)
    assert [window.begin_us for window in found] == expected
    for at in instants:
        assert sum(window.begin_us <= at < window.end_us for window in found) == 1


# rates


def figures(first: str, last: str, tokens: int, cost: int | None) -> Figures:
    told = Figures()
    amounts = dict.fromkeys(AMOUNTS, 0) | {"output": tokens, "requests": 1}
    amounts |= {"cost_nanousd": cost or 0, "priced_spans": int(cost is not None)}
    told.add(list(amounts.values()), us(first), us(last))
    return told


def test_burn_rate_and_projection() -> None:
    """6,000 tokens and 0.30 USD in 60 minutes; half an hour is left: 9,000 tokens and 0.45 USD."""
    used = figures("2026-11-03T10:10:00", "2026-11-03T11:10:00", 6000, 300_000_000)
    going = rate(used)
    assert going is not None
    assert (going.active_us, going.tokens_a_minute, going.nanousd_an_hour) == (60 * MINUTE_US, 100, 300_000_000)
    window = Window(us("2026-11-03T10:00:00"))
    ahead = projection(window, used, us("2026-11-03T14:30:00"))
    assert ahead == (30 * MINUTE_US, 9000, 450_000_000)
    for over in ("2026-11-03T15:00:00", "2026-11-03T09:59:59"):
        assert projection(window, used, us(over)) is None


def test_no_rate_from_nothing() -> None:
    """OBS-10: less than a minute gives no rate, an unknown cost none in money; neither is zero."""
    assert rate(figures("2026-11-03T10:10:00", "2026-11-03T10:10:59", 9, 9)) is None
    assert rate(Figures()) is None
    going = rate(figures("2026-11-03T10:10:00", "2026-11-03T10:20:00", 10, None))
    assert going is not None and going.nanousd_an_hour is None
    used = figures("2026-11-03T10:10:00", "2026-11-03T10:20:00", 10, None)
    ahead = projection(Window(us("2026-11-03T10:00:00")), used, us("2026-11-03T10:30:00"))
    assert ahead is not None and ahead.cost_nanousd is None


# over a log


def write(home: Path, *answers: tuple[str, int, str]) -> Path:
    """Write a home in which Claude Code had these answers: (when, output tokens, model; empty for a failure)."""
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    lines = []
    for number, (at, tokens, model) in enumerate(answers):
        message: dict[str, Any] = {"id": f"m{number}", "model": model or "<synthetic>", "role": "assistant",
                                   "stop_reason": "end_turn", "content": "no" if not model else [],
                                   "usage": {"input_tokens": 0, "output_tokens": tokens}}  # fmt: skip
        failed = {"isApiErrorMessage": True, "apiErrorStatus": 529} if not model else {}
        lines.append({"type": "assistant", "sessionId": "5e551011", "uuid": f"u{number}", "timestamp": at,
                      "requestId": f"r{number}", "message": message, **failed})  # fmt: skip
    (folder / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return home


ANSWERS = (
    ("2026-11-03T08:30:00Z", 0, ""),
    ("2026-11-03T10:10:00Z", 1000, MODEL),
    ("2026-11-03T11:10:00Z", 2000, CHEAP),
    ("2026-11-03T14:59:59.999Z", 4000, MODEL),
    ("2026-11-03T15:00:00Z", 500, MODEL),
    ("2026-11-04T20:00:00Z", 100, MODEL),
    ("2026-11-04T20:40:00Z", 0, ""),
    ("2026-11-04T21:00:00Z", 300, MODEL),
)
NOW = "2026-11-04T22:00:00"


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "data" / "ledger.db"
    assert run(["import", "--home", str(write(tmp_path / "home", *ANSWERS)), "--db", str(path)]) == 0
    capsys.readouterr()
    return path


def found(db: Path, **options: Any) -> Blocks:
    with Log.open(db) as log, snapshot(log) as view:
        return find(view, make_choice(us(NOW), tz="UTC", **options), us(NOW))


def test_what_windows_hold(db: Path) -> None:
    """OBS-07, OBS-26: every answered request is in one window; the failed ones are in one, or counted outside."""
    all_ = found(db)
    assert begins([block.window for block in all_.blocks]) == ["03 10:00", "03 15:00", "04 20:00"]
    assert [block.figures.tokens for block in all_.blocks] == [7000, 500, 400]
    assert [block.figures["requests"] for block in all_.blocks] == [3, 1, 3]
    assert [block.figures["failed"] for block in all_.blocks] == [0, 0, 1]
    assert [block.running for block in all_.blocks] == [False, False, True]
    assert [block.models for block in all_.blocks] == [(CHEAP, MODEL), (MODEL,), (MODEL,)]
    assert all_.outside == {"claude-code": 1}
    assert sum(block.figures["requests"] for block in all_.blocks) + 1 == len(ANSWERS)
    first = all_.blocks[0].figures
    assert (first.first_at, first.last_at) == (us("2026-11-03T10:10:00"), us("2026-11-03T14:59:59.999"))
    assert first["cost_nanousd"] == 5000 * 25_000 + 2000 * 5_000


def test_which_are_wanted(db: Path) -> None:
    """What is shown does not move where windows begin: they are found from the first request on."""
    assert begins([block.window for block in found(db, active=True).blocks]) == ["04 20:00"]
    assert begins([block.window for block in found(db, since="2026-11-04").blocks]) == ["04 20:00"]
    assert begins([block.window for block in found(db, until="2026-11-04").blocks]) == ["03 10:00", "03 15:00"]
    assert len(found(db, recent=True).blocks) == 3
    assert [block.window for block in found(db, client="claude-code").blocks] == [b.window for b in found(db).blocks]
    with pytest.raises(UsageError, match="no request of it"):
        found(db, client="cursor")


def test_limits(db: Path) -> None:
    """`max` is the largest earlier window: none for the first, 7,000 for those after it."""
    assert [block.limit for block in found(db, limit="max").blocks] == [None, 7000, 7000]
    assert [block.percent for block in found(db, limit="max").blocks] == [None, 7, 5]
    assert [block.percent for block in found(db, limit="500").blocks] == [1400, 100, 80]
    assert [block.limit for block in found(db, limit="max", active=True).blocks] == [7000]
    assert make_choice(0, limit="5,000_000").limit == 5_000_000
    assert make_choice(0, limit="max").limit == LARGEST


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": "0"}, "--limit 0"),
        ({"limit": "many"}, "give a number of tokens"),
        ({"since": "soon"}, "--since soon"),
        ({"since": "2026-11-04", "until": "2026-11-03"}, "--until is exclusive"),
        ({"recent": True, "since": "7d"}, "--recent: is the last 3 days"),
        ({"recent": True, "active": True}, "--recent: the window that is running is all that --active leaves"),
    ],
)
def test_what_cannot_be_asked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_choice(0, **options)


Printed = Callable[..., str]


@pytest.fixture
def printed(db: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    def blocks(*words: str) -> str:
        with time_machine.travel(datetime.fromisoformat(NOW).replace(tzinfo=UTC), tick=False):
            assert run(["blocks", *words, "--tz", "UTC", "--db", str(db)]) == 0
        return capsys.readouterr().out

    return blocks


def test_json(printed: Printed) -> None:
    """OBS-01: windows and gaps in order; of the running one what is left, its rate and projection."""
    answer = json.loads(printed("--format", "json", "--limit", "500"))
    rows = answer["windows"]
    assert [(row["what"], row["begins_at"][5:16], row["ends_at"][5:16]) for row in rows] == [
        ("window", "11-03T10:00", "11-03T15:00"),
        ("window", "11-03T15:00", "11-03T20:00"),
        ("gap", "11-03T20:00", "11-04T20:00"),
        ("window", "11-04T20:00", "11-05T01:00"),
    ]
    last = rows[-1]
    assert (last["left_ms"], last["active_ms"], last["tokens_a_minute"]) == (3 * 3_600_000, 3_600_000, 7)
    assert (last["projected_tokens"], last["cost_usd_an_hour"], last["projected_cost_usd"]) == (1600, "0.01", "0.04")
    assert (last["limit_tokens"], last["limit_percent"], last["warning"]) == (500, 80, True)
    assert rows[0]["left_ms"] is rows[0]["projected_tokens"] is None
    assert answer["outside"] == {"claude-code": 1} and answer["now"] == "2026-11-04T22:00:00.000Z"


def test_csv(printed: Printed) -> None:
    rows = list(csv.DictReader(io.StringIO(printed("--format", "csv"))))
    assert [row["what"] for row in rows] == ["window", "window", "gap", "window"]
    assert [row["tokens_total"] for row in rows] == ["7000", "500", "", "400"]
    assert [row["running"] for row in rows] == ["0", "0", "", "1"]


def test_the_table(printed: Printed) -> None:
    """A figure at list price is said to be that; a limit that is near warns, and says when it is reached."""
    out = printed("--limit", "500")
    assert "at list price USD" in out and "2026-11-04 20:00-01:00 running" in out and "no window for 1 d" in out
    assert "claude-code: 3 h left, until 01:00; 7 tokens a minute and 0.01 USD an hour in 1 h of use" in out
    assert "at this rate 1,600 tokens and 0.04 USD at its end (at list price)" in out
    assert "WARNING: 80 % of 500 tokens are used" in out and "the limit is reached at 22:15" in out
    assert "claude-code: 1 failed request in no window" in out
    assert "WARNING" not in printed("--limit", "501") and "limit" not in printed()


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_fits_the_terminal(printed: Printed, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert max(map(len, printed("--limit", "max").splitlines())) <= int(columns)


def test_none_is_running(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with time_machine.travel(datetime(2026, 11, 6, tzinfo=UTC), tick=False):
        assert run(["blocks", "--active", "--tz", "UTC", "--db", str(db)]) == 0
    assert "no window is running; the last one of claude-code ended 2026-11-05 01:00" in capsys.readouterr().out


def test_an_empty_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Log.create(tmp_path / "ledger.db").close()
    assert run(["blocks", "--db", str(tmp_path / "ledger.db")]) == 0
    assert "there are no windows yet" in capsys.readouterr().out


def test_on_postgresql(schema: PostgresPlace, db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same windows from the other database."""
    url = f"{schema.url}{'&' if '?' in schema.url else '?'}schema={schema.schema}"
    assert run(["import", "--home", str(tmp_path / "home"), "--db", url]) == 0
    capsys.readouterr()
    told = []
    for place in (str(db), url):
        with time_machine.travel(datetime.fromisoformat(NOW).replace(tzinfo=UTC), tick=False):
            assert run(["blocks", "--limit", "max", "--format", "csv", "--db", place]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != ""
