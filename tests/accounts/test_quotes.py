"""The fold of quote events: whatever comes first, the same money; the figure before stays (OBS-51)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from ledger.accounts.fold import Fold
from ledger.accounts.store import Store, quote_key
from ledger.events.book import QuoteRecorded, QuoteSuperseded, SpanPriced
from ledger.events.envelope import Event
from ledger.events.registry import encode, entry_of
from ledger.events.sources import Context, LinesObserved, Response, SourceOpened
from ledger.log import sqlite
from ledger.prices.own import quote_from_rates
from ledger.prices.quote import Quote

MODEL = "acme-coder-9"
AT = 1_773_144_000_000_000  # 2026-03-10 12:00 UTC
SPAN, OTHER = "claude-code:msg_1:req_1", "claude-code:msg_2:req_2"
USAGE = b'{"input_tokens":1000,"output_tokens":1000}'


def quote(input_rate: str) -> Quote:
    return quote_from_rates(MODEL, input=input_rate, output="0")


A, B, C = quote("1"), quote("2"), quote("3")
COST_A, COST_B, COST_C = 1_000_000, 2_000_000, 3_000_000  # nano-dollars for 1,000 input tokens

Posting = tuple[str, Any]
"""(stream, body)."""


def recorded(one: Quote) -> Posting:
    return "book", QuoteRecorded(one.name, msgspec.Raw(one.to_json()))


def superseded(old: Quote, new: Quote) -> Posting:
    return "book", QuoteSuperseded(old.name, new.name, "tested")


def priced(one: Quote, *spans: str) -> Posting:
    return "book", SpanPriced(list(spans), one.name, "tested")


def response(number: int, named: Quote | None) -> list[Posting]:
    """Return the events of one file with one response, which names a quote or none."""
    stream = f"source:{number}"
    seen = Response(
        c=0, o=0, at=AT + number, id=f"msg_{number}", request=f"req_{number}", model=MODEL,
        usage=msgspec.Raw(USAGE), quote=-1 if named is None else 0, stop="end_turn",
    )  # fmt: skip
    lines = LinesObserved(
        begin=0, end=100, lines=1, tail="", contexts=[Context(session=f"s{number}")],
        quotes=[named.name] if named else [], observations=[seen],
    )  # fmt: skip
    return [(stream, SourceOpened("claude-code", f"/{number}", "/")), (stream, lines)]


def events(postings: Iterable[Posting]) -> list[Event]:
    versions: dict[str, int] = {}
    found = []
    for position, (stream, body) in enumerate(postings, 1):
        versions[stream] = versions.get(stream, 0) + 1
        entry = entry_of(body)
        envelope = entry.type, entry.schema, AT + position, "", None, None, None
        found.append(
            Event(
                position,
                position.to_bytes(16, "big"),
                None,
                stream,
                versions[stream],
                *envelope,
                encode(body),
                None,
                b"",
            )
        )
    return found


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite.Connection]:
    opened = sqlite.connect(tmp_path / "fold.db")
    yield opened
    opened.close()


def folded(connection: sqlite.Connection, postings: list[Posting], *, apart: bool) -> Store:
    """Fold in one slice, or `apart`: one slice an event."""
    store = Store(connection, 0, temporary=True)
    store.drop()
    store.create()
    found = events(postings)
    fold = Fold(store, lambda position: found[position - 1])
    for event in found:
        fold.apply(event)
        if apart:
            fold.settle()
    fold.settle()
    return store


def money(store: Store) -> dict[str, tuple[int | None, int | None, int]]:
    """Return (cost, figure before any repricing, key of the quote) by span."""
    rows = [row for span_id in (SPAN, OTHER) for row in store.spans("span", span_id)]
    return {row.span_id: (row.cost_nanousd, row.first_cost_nanousd, row.quote) for row in rows}


def totals(store: Store) -> list[Any]:
    text = "SELECT * FROM gen_totals ORDER BY grain, bucket, dimension_id"
    return list(store.connection.execute(store.named(text)))


def total_cost(store: Store) -> int:
    text = "SELECT sum(cost_nanousd) FROM gen_totals WHERE grain = 1"
    return int(store.connection.execute(store.named(text)).fetchone()[0])


def any_order(connection: sqlite.Connection, base: list[Posting], loose: list[Posting]) -> Store:
    """Fold `loose` in every order (of five, in 24 orders), with `base` before, amid and after; return one.

    Every order must give the same rows and totals, in one slice and in many.
    """
    expected: Any = None
    store: Store | None = None
    orders = list(permutations(loose))
    for order in orders if len(orders) <= 24 else Random(5).sample(orders, 24):
        for place in range(len(order) + 1):
            for apart in (False, True):
                store = folded(connection, [*order[:place], *base, *order[place:]], apart=apart)
                found = money(store), totals(store)
                expected = expected or found
                assert found == expected, (order, place, apart)
    assert store is not None
    return store


def test_a_quote_may_be_recorded_after_what_it_prices(connection: sqlite.Connection) -> None:
    store = any_order(connection, response(1, A), [recorded(A)])
    assert money(store)[SPAN] == (COST_A, COST_A, quote_key(A.name))
    assert total_cost(store) == COST_A


def test_a_quote_that_is_never_recorded_is_unknown_and_not_zero(connection: sqlite.Connection) -> None:
    store = any_order(connection, response(1, A), [recorded(B)])
    assert money(store)[SPAN] == (None, None, 0)


def test_superseded_in_any_order_keeps_the_first_figure(connection: sqlite.Connection) -> None:
    store = any_order(connection, response(1, A), [recorded(A), recorded(B), superseded(A, B)])
    assert money(store)[SPAN] == (COST_B, COST_A, quote_key(B.name))
    assert total_cost(store) == COST_B


def test_the_old_quote_recorded_last(connection: sqlite.Connection) -> None:
    """The figure before is filled in even where the span has a cost already."""
    late = [*response(1, A), superseded(A, B), recorded(B), recorded(A)]
    assert money(folded(connection, late, apart=True))[SPAN] == (COST_B, COST_A, quote_key(B.name))


def test_a_chain_of_superseded_quotes(connection: sqlite.Connection) -> None:
    loose = [recorded(A), recorded(B), recorded(C), superseded(A, B), superseded(B, C)]
    store = any_order(connection, [*response(1, A), *response(2, B)], loose)
    assert money(store) == {
        SPAN: (COST_C, COST_A, quote_key(C.name)),
        OTHER: (COST_C, COST_B, quote_key(C.name)),
    }
    assert total_cost(store) == 2 * COST_C


def test_unpriced_then_priced(connection: sqlite.Connection) -> None:
    store = any_order(connection, response(1, None), [recorded(A), priced(A, SPAN)])
    assert money(store)[SPAN] == (COST_A, None, quote_key(A.name))


def test_one_span_priced_apart_from_its_quote(connection: sqlite.Connection) -> None:
    base = [*response(1, A), *response(2, A)]
    store = any_order(connection, base, [recorded(A), recorded(B), priced(B, SPAN)])
    assert money(store) == {
        SPAN: (COST_B, COST_A, quote_key(B.name)),
        OTHER: (COST_A, COST_A, quote_key(A.name)),
    }


def test_priced_apart_by_a_quote_that_is_superseded(connection: sqlite.Connection) -> None:
    loose = [recorded(A), recorded(B), recorded(C), priced(B, SPAN), superseded(B, C)]
    store = any_order(connection, [*response(1, A), *response(2, A)], loose)
    assert money(store) == {
        SPAN: (COST_C, COST_A, quote_key(C.name)),
        OTHER: (COST_A, COST_A, quote_key(A.name)),
    }


@pytest.mark.parametrize("apart", [False, True])
def test_the_newest_word_of_the_book_stream_wins(connection: sqlite.Connection, apart: bool) -> None:
    """A price that moves back, and a span that is priced twice: the stream's own order decides."""
    known = [*response(1, A), *response(2, B), recorded(A), recorded(B), recorded(C)]
    back = folded(connection, [*known, superseded(A, B), superseded(B, A)], apart=apart)
    assert money(back) == {
        SPAN: (COST_A, COST_A, quote_key(A.name)),
        OTHER: (COST_A, COST_B, quote_key(A.name)),
    }
    round_trip = [superseded(A, B), superseded(B, C), superseded(C, A)]
    longer = folded(connection, [*known, *round_trip], apart=apart)
    assert {span: figures[0] for span, figures in money(longer).items()} == {SPAN: COST_A, OTHER: COST_A}
    twice = folded(connection, [*known, priced(B, SPAN), priced(C, SPAN)], apart=apart)
    assert money(twice)[SPAN] == (COST_C, COST_A, quote_key(C.name))


@pytest.mark.parametrize("apart", [False, True])
def test_superseded_by_itself_stands_again(connection: sqlite.Connection, apart: bool) -> None:
    known = [*response(1, A), recorded(A), recorded(B), superseded(A, B), superseded(A, A)]
    assert money(folded(connection, known, apart=apart))[SPAN] == (COST_A, COST_A, quote_key(A.name))


def test_checked_again_changes_no_money(connection: sqlite.Connection) -> None:
    again = msgspec.structs.replace(A, checked_at="2026-12-01T00:00:00Z")
    assert again.name == A.name
    loose = [recorded(A), recorded(again), recorded(B), superseded(A, B)]
    store = any_order(connection, response(1, A), loose)
    assert money(store)[SPAN] == (COST_B, COST_A, quote_key(B.name))


def test_a_quote_of_another_model_moves_nothing(connection: sqlite.Connection) -> None:
    other = quote_from_rates("another", input="9")
    before = folded(connection, [*response(1, A), recorded(A)], apart=True)
    rows, sums = money(before), totals(before)
    after = folded(connection, [*response(1, A), recorded(A), recorded(other)], apart=True)
    assert (money(after), totals(after)) == (rows, sums)


def test_two_books_that_disagree_come_to_the_same_in_any_order(connection: sqlite.Connection) -> None:
    """In a log into which another was copied the later word holds, by the time of recording (OBS-51, OBS-53)."""
    first = [recorded(A), superseded(A, B), recorded(B), priced(C, OTHER), superseded(B, C), priced(A, SPAN)]
    second = [recorded(C), recorded(A), superseded(B, A), priced(B, SPAN), superseded(C, A), superseded(A, C)]
    files = [*response(1, A), *response(2, B)]
    random = Random(8)
    for _ in range(20):  # what is said when differs from round to round, what is read when within one
        moments = sorted(random.sample(range(100), len(first) + len(second)))
        said: dict[str, list[tuple[int, Posting]]] = {"book:1": [], "book:2": []}
        for at in moments:
            book, postings = random.choice((("book:1", first), ("book:2", second)))
            place = len(said[book])
            if place == len(postings):
                book, postings = ("book:2", second) if book == "book:1" else ("book:1", first)
                place = len(said[book])
            said[book].append((at, (book, postings[place][1])))
        outcomes = set()
        for _ in range(12):
            left = {**said, "files": [(0, one) for one in files]}
            left = {name: list(rest) for name, rest in left.items()}
            order = []
            while waiting := [name for name, rest in left.items() if rest]:
                order.append(left[random.choice(waiting)].pop(0))
            found = [one._replace(at=AT + at) for one, (at, _) in
                     zip(events([posting for _, posting in order]), order, strict=True)]  # fmt: skip
            store = Store(connection, 0, temporary=True)
            store.drop()
            store.create()
            fold = Fold(store, lambda position, found=found: found[position - 1])
            for event in found:
                fold.apply(event)
                if random.random() < 0.5:
                    fold.settle()
            fold.settle()
            rows = [
                sorted(store.connection.execute(store.named(f"SELECT * FROM gen_{table}")), key=repr)
                for table in ("quotes", "span_quotes", "replacements")
            ]
            costs = money(store)
            outcomes.add(repr((rows, costs, total_cost(store))))
        assert len(outcomes) == 1
