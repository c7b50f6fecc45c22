"""`ledger prices` and `ledger reprice`: what is recorded, what moves, and that the figure before stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.accounts.catchup import snapshot
from ledger.accounts.repricing import Move, PricedSpan, bodies, decide, difference, followed
from ledger.cli import run
from ledger.errors import LogReadOnly
from ledger.events.book import QuoteSuperseded, SpanPriced
from ledger.events.registry import decode
from ledger.log.log import Log
from ledger.prices.book import Book
from ledger.prices.own import quote_from_rates
from ledger.prices.quote import Quote
from ledger.sources import repricing
from ledger.sources.quotes import append_to_book, recorded_quotes

OPUS, SONNET, ACME = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "acme-coder-9"
Ask = Callable[..., Any]


def line(number: int, model: str, at: str, session: str = "5e551011") -> str:
    """Return one response of 1,000 tokens in and 1,000 out, as Claude Code writes it."""
    usage = {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "model": model, "id": f"msg_{number}", "type": "message", "role": "assistant", "content": [],
        "stop_reason": "end_turn", "usage": {**usage, "output_tokens": 1000, "service_tier": "standard"},
    }  # fmt: skip
    return json.dumps(
        {
            "type": "assistant",
            "uuid": f"u{number}",
            "sessionId": session,
            "timestamp": at,
            "cwd": "/p",
            "requestId": f"req_{number}",
            "message": message,
        }
    )


def write(home: Path, name: str, lines: Iterable[str]) -> None:
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(f"{one}\n" for one in lines))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    write(
        home,
        "first",
        [
            line(1, OPUS, "2026-03-10T12:00:00Z"),
            line(2, OPUS, "2026-05-10T12:00:00Z"),
            line(3, SONNET, "2026-03-10T12:00:00Z"),
            line(4, ACME, "2026-03-10T12:00:00Z"),
        ],
    )
    return home


@pytest.fixture
def db(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "ledger.db"
    assert run(["import", "--home", str(home), "--db", str(path)]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def ask(db: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a command and return its JSON, or with `text` what it printed."""

    def asked(*words: str, text: bool = False, code: int = 0) -> Any:
        extra = [] if text else ["--format", "json"]
        assert run([*words, *extra, "--db", str(db)]) == code
        printed = capsys.readouterr()
        if code:
            assert printed.err.count("\n") == 1
            return printed.err
        return printed.out if text else json.loads(printed.out)

    return asked


def spans(db: Path) -> dict[int, tuple[int | None, int | None]]:
    """Return (cost, figure before) in nano-dollars by the number of the response."""
    with Log.open(db) as log, snapshot(log) as view:
        rows = view.store.connection.execute(
            view.store.named("SELECT span_id, cost_nanousd, first_cost_nanousd FROM gen_spans")
        )
        return {int(row[0].split("_")[1].partition(":")[0]): (row[1], row[2]) for row in rows}


def book_events(db: Path, after: int = 0) -> list[Any]:
    with Log.open(db) as log:
        return [decode(one.type, one.schema, one.data) for one in log.stream_events(log.book_stream, after)]


def version(db: Path) -> int:
    with Log.open(db) as log:
        return log.stream_version(log.book_stream)


def sound(db: Path) -> None:
    """Check that folding everything again gives the same rows."""
    with Log.open(db) as log, snapshot(log) as view:
        text = "SELECT * FROM gen_totals ORDER BY grain, bucket, dimension_id"
        kept = view.store.connection.execute(view.store.named(text)).fetchall()
    with Log.open(db) as log:
        from ledger.accounts.catchup import rebuild

        rebuild(log)
        with snapshot(log) as view:
            assert view.store.connection.execute(view.store.named(text)).fetchall() == kept


# list and show


def test_a_list_of_what_the_log_used(ask: Ask) -> None:
    found = {quote["model"]: quote for quote in ask("prices", "list")}
    assert set(found) == {"claude-opus-4-5", "claude-sonnet-4-5"}
    opus = found["claude-opus-4-5"]
    assert opus["usd_per_million_tokens"]["standard"][0]["output"] == "25"
    assert (opus["spans"], opus["recorded"], opus["source"]) == (2, True, "genai-prices")


def test_everything_is_the_whole_book_and_each_quote_once(ask: Ask) -> None:
    ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    found = ask("prices", "list", "--all")
    assert len({quote["quote"] for quote in found}) == len(found) > 2_000
    assert {quote["model"]: quote["spans"] for quote in found}["gpt-5"] == 0
    assert [quote["provider"] for quote in found if quote["model"] == ACME] == [None]


def test_a_rate_that_is_not_listed_is_unknown(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    row = next(one for one in ask("prices", "list", text=True).splitlines() if one.startswith(ACME))
    assert row.split()[1:7] == ["any", "1", "unknown", "unknown", "unknown", "4"]
    lines = ask("prices", "list", "--format", "csv", text=True).splitlines()
    assert ",acme-coder-9,standard,0,1,,,,4," in next(one for one in lines if ACME in one)


def test_an_empty_log_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prices", "list", "--db", str(tmp_path / "new.db")]) == 0
    assert "`ledger import`" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 160])
def test_tables_fit_the_terminal(ask: Ask, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    ask("prices", "set", OPUS, "--input", "1", "--output", "4", text=True)
    words: list[tuple[str, ...]] = [("prices", "list"), ("prices", "list", "--all"), ("prices", "show", OPUS)]
    for command in [*words, ("reprice",)]:
        lines = ask(*command, text=True).splitlines()
        table = [one for one in lines if "`" not in one and ";" not in one]
        assert len(table) > 1 and max(map(len, table)) <= columns


def test_show_has_every_tier_and_says_what_is_in_force(ask: Ask) -> None:
    found = ask("prices", "show", "claude-opus-4-6")
    assert [quote["valid_until"] for quote in found] == ["2026-03-13T00:00:00Z", "2027-01-01T00:00:00Z", None]
    assert [band["above_tokens"] for band in found[0]["usd_per_million_tokens"]["standard"]] == [0, 200000]
    assert sum(quote["in_force"] for quote in found) <= 1
    assert found[0]["multipliers"] == {"region": {"us": "1.1"}, "speed": {"fast": "6"}}
    assert "region us x 1.1, speed fast x 6" in ask("prices", "show", "claude-opus-4-6", text=True)


def test_show_puts_the_users_own_first(ask: Ask) -> None:
    ask("prices", "set", OPUS, "--input", "1", "--output", "4", text=True)
    found = ask("prices", "show", OPUS)
    assert [quote["source"] for quote in found] == ["user", "genai-prices"]
    assert [quote["in_force"] for quote in found] == [True, False]
    assert [quote["spans"] for quote in found] == [0, 2]


def test_show_by_seller(ask: Ask) -> None:
    sellers = {quote["provider"] for quote in ask("prices", "show", "deepseek/deepseek-v4-flash")}
    assert len(sellers) > 1
    one = ask("prices", "show", "deepseek/deepseek-v4-flash", "--provider", "openrouter")
    assert {quote["provider"] for quote in one} == {"openrouter"}


def test_a_model_without_a_price_is_an_error_that_helps(ask: Ask) -> None:
    said = ask("prices", "show", "claude-opus-4-5-foo", code=2)
    assert "no price is known (near: claude-opus-4-5" in said and "`ledger prices set" in said
    assert "of openai" in ask("prices", "show", ACME, "--provider", "openai", code=2)


# set


def test_set_says_what_it_did_and_what_is_next(ask: Ask, db: Path) -> None:
    said = ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    assert said.count("\n") == 1
    assert "input 1, output 4 USD" in said and "`ledger reprice`" in said
    before = version(db)
    assert "already" in ask("prices", "set", ACME, "--input", "1.0", "--output", "4", text=True)
    assert version(db) == before


def test_the_newest_price_of_ones_own_wins_even_if_it_was_stated_before(ask: Ask, db: Path) -> None:
    for rate in ("1", "2", "1"):
        ask("prices", "set", ACME, "--input", rate, "--output", "0", text=True)
    ask("reprice")
    assert spans(db)[4][0] == 1_000_000


def test_set_takes_dates_and_searches(ask: Ask) -> None:
    words = ("--input", "1", "--web-search", "0.02", "--valid-from", "2026-03-01", "--valid-until", "2026-04-01")
    assert "0.02 USD a web search from 2026-03-01 until 2026-04-01" in ask("prices", "set", ACME, *words, text=True)
    quote = ask("prices", "list")[0]
    assert (quote["valid_from"], quote["web_search_usd"]) == ("2026-03-01T00:00:00Z", "0.02")
    assert quote["checked_at"].startswith("20")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--web-search", "1"),
        ("--input", "abc"),
        ("--input=-1",),
        ("--input", "nan"),
        ("--input", "1", "--valid-from", "yesterday"),
        ("--input", "1", "--valid-from", "2026-03-01", "--valid-until", "2026-03-01"),
    ],
)
def test_a_price_that_is_none_changes_nothing(ask: Ask, db: Path, words: tuple[str, ...]) -> None:
    before = version(db)
    assert ask("prices", "set", ACME, *words, text=True, code=2)
    assert version(db) == before


# reprice


def test_unpriced_then_priced(ask: Ask, db: Path) -> None:
    assert spans(db)[4] == (None, None)
    ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    after = version(db)
    done = ask("reprice")
    assert done["moves"] == [
        {
            "model": ACME,
            "old_quote": None,
            "new_quote": done["moves"][0]["new_quote"],
            "event": "span.priced",
            "spans": 1,
            "before_usd": None,
            "before_unpriced_spans": 1,
            "after_usd": "0.005",
            "after_unpriced_spans": 0,
        }
    ]
    assert [type(body) for body in book_events(db, after)] == [SpanPriced]
    assert spans(db)[4] == (5_000_000, None)
    sound(db)


def test_a_second_time_does_nothing(ask: Ask, db: Path) -> None:
    ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    ask("prices", "set", OPUS, "--input", "1", "--output", "4", "--valid-from", "2026-04-01", text=True)
    ask("prices", "set", "claude-sonnet-4-5", "--input", "1", "--output", "4", text=True)
    assert len(ask("reprice")["moves"]) == 3
    before = version(db)
    again = ask("reprice")
    assert again["moves"] == [] and again["total"]["spans"] == 0
    assert "nothing to do" in ask("reprice", text=True)
    assert version(db) == before


def test_a_whole_quote_is_superseded_and_the_first_figure_stays(ask: Ask, db: Path) -> None:
    ask("prices", "set", "claude-opus-4-5", "--input", "1", "--output", "4", text=True)
    after = version(db)
    done = ask("reprice", "--reason", "agreed with the provider")
    (event,) = book_events(db, after)
    assert isinstance(event, QuoteSuperseded) and event.reason == "agreed with the provider"
    assert done["total"] == {
        "spans": 2, "before_usd": "0.06", "before_unpriced_spans": 0, "after_usd": "0.01", "after_unpriced_spans": 0,
    }  # fmt: skip
    assert spans(db)[1] == spans(db)[2] == (5_000_000, 30_000_000)
    sound(db)


def test_the_table_names_both_quotes(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    ask("prices", "set", "claude-opus-4-5", "--input", "1", "--output", "4", text=True)
    old, new = (one["quote"][:12] for one in sorted(ask("prices", "show", OPUS), key=lambda one: one["in_force"]))
    row = next(one for one in ask("reprice", text=True).splitlines() if one.startswith(OPUS))
    assert row.split() == [OPUS, old, new, "user", "quote.superseded", "2", "0.06", "0.01"]


def test_a_price_for_a_time_moves_only_the_spans_of_that_time(ask: Ask, db: Path, home: Path) -> None:
    """And what is imported later for another time keeps the old price: the old quote still holds there."""
    words = ("--input", "1", "--output", "4", "--valid-from", "2026-04-01", "--valid-until", "2026-06-01")
    ask("prices", "set", "claude-opus-4-5", *words, text=True)
    ask("prices", "set", "claude-sonnet-4-5", "--input", "9", "--output", "9", "--valid-until", "2026-04-01", text=True)
    after = version(db)
    ask("reprice")
    assert {type(body) for body in book_events(db, after)} == {SpanPriced}
    figures = spans(db)
    assert (figures[1][0], figures[2][0], figures[3][0]) == (30_000_000, 5_000_000, 18_000_000)
    write(home, "later", [line(7, SONNET, "2026-08-01T00:00:00Z"), line(8, SONNET, "2026-02-01T00:00:00Z")])
    assert run(["import", "--home", str(home), "--db", str(db)]) == 0
    assert (spans(db)[7][0], spans(db)[8][0]) == (18_000_000, 18_000_000)  # 3 + 15, and 9 + 9
    sound(db)


def test_only_the_model_that_is_named(ask: Ask, db: Path) -> None:
    for model in ("claude-opus-4-5", "claude-sonnet-4-5"):
        ask("prices", "set", model, "--input", "1", "--output", "4", text=True)
    assert [move["model"] for move in ask("reprice", "--model", SONNET)["moves"]] == [SONNET]
    assert spans(db)[1][0] == 30_000_000
    assert "`ledger report --by model`" in ask("reprice", "--model", "nope", code=2)
    assert [move["model"] for move in ask("reprice")["moves"]] == [OPUS]


def test_a_price_that_moves_back(ask: Ask, db: Path) -> None:
    for rate in ("2", "3", "2"):
        ask("prices", "set", "claude-opus-4-5", "--input", rate, "--output", "0", text=True)
        ask("reprice")
        assert spans(db)[1] == (int(rate) * 1_000_000, 30_000_000)
    sound(db)


def test_a_price_without_a_class_that_was_used_is_said(ask: Ask, db: Path) -> None:
    ask("prices", "set", "claude-opus-4-5", "--input", "1", text=True)
    assert "2 requests of known cost before and unknown now" in ask("reprice", text=True)
    assert spans(db)[1] == (None, 30_000_000)


def test_the_provider_that_the_log_names_is_asked(ask: Ask, db: Path) -> None:
    """Claude Code with a foreign model names no provider: a price of any seller holds, as for the import."""
    ask("prices", "set", ACME, "--provider", "acme", "--input", "1", "--output", "4", text=True)
    assert ask("reprice")["total"]["spans"] == 1
    assert spans(db)[4][0] == 5_000_000


def test_csv(ask: Ask) -> None:
    ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    lines = ask("reprice", "--format", "csv", text=True).splitlines()
    assert lines[0].startswith("model,old_quote,new_quote,event,spans,before_usd")
    assert lines[1].startswith("acme-coder-9,,") and lines[1].endswith(",span.priced,1,,1,0.005,0")


def test_a_log_that_may_not_be_written(ask: Ask, db: Path) -> None:
    ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    with Log.open(db, readonly=True) as log, pytest.raises(LogReadOnly):
        repricing.reprice(log, None, "tested")


def test_another_program_in_between(ask: Ask, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision is taken again: what another repriced meanwhile is not priced twice."""
    ask("prices", "set", ACME, "--input", "1", "--output", "4", text=True)
    calls: list[int] = []

    def raced(log: Log, at: int, events: Any) -> bool:
        calls.append(at)
        if len(calls) == 1:
            with Log.open(db) as other:
                repricing.reprice(other, None, "faster")
        return append_to_book(log, at, events)

    monkeypatch.setattr(repricing, "append_to_book", raced)
    assert ask("reprice")["moves"] == []
    assert sum(isinstance(body, SpanPriced) for body in book_events(db)) == 1


# refresh


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the price data say this of Opus 4.5, in a version of its own."""
    plain = Book.bundled().quotes("anthropic", "claude-opus-4-5")[0]

    def says(release: str, *periods: tuple[str, str | None, str | None], checked_at: str | None = None) -> None:
        named = msgspec.structs.replace(plain, source_version=release, checked_at=checked_at or plain.checked_at)
        quotes = []
        for rate, begin, end in periods:
            tiers = {"standard": (msgspec.structs.replace(plain.tiers["standard"][0], input=rate),)}
            quotes.append(msgspec.structs.replace(named, valid_from=begin, valid_until=end, tiers=tiers))
        monkeypatch.setattr("ledger.prices.refresh.fresh_quotes", lambda models: quotes)

    return says


def test_refresh_against_the_installed_data(ask: Ask, db: Path) -> None:
    before = version(db)
    done = ask("prices", "refresh")
    assert (done["recorded"], done["compared"]) == ([], 2)
    assert "genai-prices" in done["advice"]
    assert version(db) == before
    assert "nothing changed" in ask("prices", "refresh", text=True)


def test_refresh_records_what_changed_and_reprice_applies_it(ask: Ask, db: Path, fresh: Any) -> None:
    change = "2026-04-01T00:00:00Z"
    fresh("9.9", ("5", None, change), ("7", change, None))
    done = ask("prices", "refresh")
    assert [one["new_quote"] in {q["quote"] for q in ask("prices", "list")} for one in done["recorded"]] == [True] * 2
    assert {"what": "tiers.standard.0.input", "old": "5", "new": "7"} in done["recorded"][1]["changes"]
    assert ask("prices", "refresh")["recorded"] == []
    ask("reprice")
    assert spans(db)[1] == (30_000_000, 30_000_000)
    assert spans(db)[2] == (32_000_000, 30_000_000)
    fresh("10.0", ("5", None, None))  # the rise was withdrawn
    assert len(ask("prices", "refresh")["recorded"]) == 1
    ask("reprice")
    assert spans(db)[2] == (30_000_000, 30_000_000)
    assert ask("prices", "refresh")["recorded"] == ask("reprice")["moves"] == []
    sound(db)


def test_refresh_to_data_that_was_known_before(ask: Ask, db: Path, fresh: Any) -> None:
    for rate in ("6", "7", "6"):
        fresh(f"data {rate}", (rate, None, None))
        assert len(ask("prices", "refresh")["recorded"]) == 1
        ask("reprice")
        assert spans(db)[1][0] == (int(rate) + 25) * 1_000_000


def test_checked_again_is_recorded_and_keeps_its_rank(ask: Ask, db: Path, fresh: Any) -> None:
    fresh("9.9", ("6", None, None))
    ask("prices", "refresh")
    order = list(recorded(db))
    fresh("9.9", ("6", None, None), checked_at="2027-01-01T00:00:00Z")
    before = version(db)
    assert ask("prices", "refresh")["recorded"] == []
    assert version(db) == before + 1
    assert list(recorded(db)) == order
    assert "2027-01-01T00:00:00Z" in {quote.checked_at for quote in recorded(db).values()}
    ask("prices", "refresh")
    assert version(db) == before + 1
    sound(db)


def test_refresh_learns_a_price_for_an_unpriced_model(ask: Ask, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = quote_from_rates(ACME, "acme", input="1", output="4", source="genai-prices", source_version="9.9")
    asked: list[tuple[str, str]] = []

    def fresh_quotes(models: list[tuple[str, str]]) -> list[Quote]:
        asked.extend(models)
        return [acme]

    monkeypatch.setattr("ledger.prices.refresh.fresh_quotes", fresh_quotes)
    (found,) = ask("prices", "refresh")["recorded"]
    assert ("", ACME) in asked
    assert (found["old_quote"], found["new_quote"]) == (None, acme.name)
    assert ask("reprice")["total"]["after_usd"] == "0.005"


def test_the_users_own_price_is_not_compared(ask: Ask, fresh: Any) -> None:
    ask("prices", "set", "claude-opus-4-5", "--input", "1", "--output", "4", text=True)
    fresh("9.9", ("6", None, None))
    assert len(ask("prices", "refresh")["recorded"]) == 1
    ask("reprice")
    assert ask("prices", "refresh")["recorded"] == []


def test_refresh_of_an_empty_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prices", "refresh", "--db", str(tmp_path / "new.db")]) == 0
    assert "`ledger import`" in capsys.readouterr().out


def recorded(db: Path) -> dict[str, Quote]:
    with Log.open(db) as log:
        return recorded_quotes(log)


# the decisions, pure


def quote(rate: str, provider: str = "", begin: str | None = None, end: str | None = None) -> Quote:
    return quote_from_rates("m", provider, input=rate, valid_from=begin, valid_until=end)


def span(number: int, old: Quote | None, new: Quote | None, model: str = "m") -> PricedSpan:
    return PricedSpan(f"c:{number}:", model, 0, old.name if old else "", new.name if new else "", 1)


def named(*quotes: Quote) -> dict[str, Quote]:
    return {one.name: one for one in quotes}


def test_decide_supersedes_only_where_all_spans_go_one_way() -> None:
    a, b, c = quote("1"), quote("2"), quote("3")
    (whole,) = decide([span(1, a, b), span(2, a, b)], named(a, b))
    assert whole.superseded
    for others in ([span(2, a, a)], [span(2, a, None)], [span(2, a, c)], [span(2, a, b, "other")]):
        moves = decide([span(1, a, b), *others], named(a, b, c), "m")
        assert moves and not any(move.superseded for move in moves)
    assert not decide([span(1, a, a), span(2, None, None), span(3, a, None)], named(a))


def test_decide_never_supersedes_by_what_does_not_hold_wherever_the_old_one_does() -> None:
    old = quote("1", "acme")
    for new in (
        quote("2", "other"),
        quote("2", "acme", begin="1960-01-01"),
        quote("2", "", end="2026-01-01"),
        quote_from_rates("another", input="2"),
    ):
        (move,) = decide([span(1, old, new)], named(old, new))
        assert not move.superseded
    elsewhere = quote("1", "", begin="2026-01-01")  # does not hold at the span's time
    (move,) = decide([span(1, elsewhere, quote("2"))], named(elsewhere, quote("2")))
    assert not move.superseded


def test_bodies_come_in_chunks() -> None:
    a = quote("1")
    found = bodies([Move("m", "", a.name, tuple(span(n, None, a) for n in range(2_500)), False)], "why")
    assert [len(body.spans) for body in found if isinstance(body, SpanPriced)] == [200] * 12 + [100]
    assert len({name for body in found if isinstance(body, SpanPriced) for name in body.spans}) == 2_500


def test_followed_ends_in_a_circle_too() -> None:
    assert followed("a", {"a": "b", "b": "c"}) == "c"
    assert followed("a", {"a": "b", "b": "a"}) == "b"
    assert followed("a", {}) == "a"


def test_difference_looks_at_the_whole_time() -> None:
    old, later = quote("1"), quote("2", begin="2026-01-01")
    assert difference(quote("1"), [old]) is None
    found = difference(quote("1"), [later, old])  # in force at first, and replaced from 2026 on
    assert found is not None and found.old == later and "tiers.standard.0.input" in found.what
    new = difference(quote("1"), [])
    assert new is not None and new.what == ("quote",)
