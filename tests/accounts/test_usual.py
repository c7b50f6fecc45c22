"""The short ways of the fold against the long ones: the same rows, totals and prices (OBS-19, OBS-51, OBS-53).

A fold takes the usual response straight to a row (usual.py), and a rebuild puts off what is not usual until its tables
have their indexes (building.py). Here the same events go all ways: with no short way at all, one event a slice, and
beside. Every table must have the same rows.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.accounts import known
from ledger.accounts.amounts import AMOUNTS
from ledger.accounts.booking import Booking
from ledger.accounts.building import Building, Filter
from ledger.accounts.catchup import fold_temporary, scratch
from ledger.accounts.claims import Claim
from ledger.accounts.comparing import differing
from ledger.accounts.fold import Fold
from ledger.accounts.prices import KnownQuote
from ledger.accounts.rows import SightingRow, SpanRow, contribution
from ledger.accounts.store import TABLES, Store
from ledger.accounts.totals import TotalsChange
from ledger.accounts.usual import Usual
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.events.sources import SourceOpened
from ledger.ids import new_id
from ledger.log.log import Log, StreamAppend
from ledger.prices.pricing import price
from ledger.prices.quote import Band, Quote
from ledger.wire import anthropic, codex
from ledger.wire.usage import Usage

ROOT = Path(__file__).parent.parent.parent
ZERO, TEN = (json.dumps({"input_tokens": count, "output_tokens": count}) for count in (0, 10))


def loaded(path: str) -> Any:
    """Return a file that belongs to no package as a module."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


properties, spans = loaded("tests/accounts/test_fold_properties.py"), loaded("benchmarks/spans.py")

if TYPE_CHECKING:

    def examples(few: int, many: int) -> settings: ...
else:
    examples = properties.examples


class LongWay(Fold):
    """A fold that knows no usual response, and of one that is seen again reads all anew."""

    def __init__(self, store: Store, log: Log) -> None:
        super().__init__(store, log.event_at)
        self.booking = NothingStands(self.known, self.book, log.event_at)
        self.usual = NothingUsual(self.known, self.book, self.booking)

    def _kept(self, group_id: str, existing: list[SpanRow]) -> list[SightingRow]:
        return self.store.sightings(group_id)


class NothingStands(Booking):
    """Makes every row from its event."""

    def seen_again(self, group_id: str, claim: Claim, old: SpanRow) -> None:
        return None


class NothingUsual(Usual):
    """Says of every response that it is not usual."""

    def merged(self, found: Any) -> None:
        return None


def folded(fold: Fold, log: Log, size: int) -> None:
    """Fold the whole log in slices of so many events."""
    for place, event in enumerate(log.all_events(), 1):
        fold.apply(event)
        if place % size == 0:
            fold.settle()
    fold.settle()


def beside(store: Store, log: Log) -> None:
    """Do what a rebuild does, in slices of two events."""
    fold = Building(store, log.event_at)
    folded(fold, log, 2)
    for steps in (store.index(), fold.finish()):
        for _ in steps:
            pass


def assert_same(expected: Store, found: Store) -> None:
    rows = [(table, side, row) for table in TABLES for side, row in differing(table, expected, found)]
    assert rows == []


def assert_same_in_slices(expected: Store, log: Log) -> None:
    """Hold the short way against rows, event by event and all at once."""
    for size in (1, 1000):
        with other(log) as found:
            for _ in found.index():
                pass
            folded(Fold(found, log.event_at), log, size)
            assert_same(expected, found)


@examples(40, 3000)
@given(properties.worlds_in_two_mixtures(one_price=False))
def test_every_way_gives_the_same_rows(world: Any) -> None:
    """Without a short way, with it in slices of several sizes, and beside: the same rows in every table."""
    with TemporaryDirectory(prefix="tallybook-ways-") as folder, Log.create(Path(folder) / "ledger.db") as log:
        properties.fill(log, world.streams, world.orders[0])
        with scratch(log.accounts) as expected:
            for _ in expected.index():
                pass
            folded(LongWay(expected, log), log, 3)
            assert_same_in_slices(expected, log)
            for kept in (1, known._KEPT_MAX):  # what is known is forgotten all the time, or never
                with other(log) as found, pytest.MonkeyPatch.context() as patch:
                    patch.setattr(known, "_KEPT_MAX", kept)
                    beside(found, log)
                    assert_same(expected, found)


@pytest.mark.parametrize("lines", [("{}", ZERO), (ZERO, "{}"), ("null", ZERO), (ZERO, TEN), (TEN, ZERO, "{}")])
@pytest.mark.parametrize("project", range(6))  # the digest of a line decides, and is another one in each
def test_lines_that_are_equally_full(lines: tuple[str, ...], project: int, tmp_path: Path) -> None:
    """Nothing told and zero told are equally full: the rule of the long way decides, also within one slice."""
    with Log.create(tmp_path / "ledger.db") as log:
        told = SourceOpened("claude-code", "/x", "/")
        events = [NewEvent(body=told, event_id=new_id())]
        for number, usage in enumerate(lines):
            one = {"k": "response", "c": 0, "o": number, "at": 5, "id": "m", "model": "x", "usage": json.loads(usage)}
            body = {
                "begin": number,
                "end": number + 1,
                "lines": 1,
                "tail": "",
                "contexts": [{"session": "s", "project": f"/{project}"}],
                "observations": [one],
            }
            events.append(NewEvent(body=EncodedBody("lines.observed", json.dumps(body)), event_id=new_id()))
        log.append([StreamAppend("source:x", 0, events)])
        with scratch(log.accounts) as expected:
            for _ in expected.index():
                pass
            folded(LongWay(expected, log), log, 1)
            assert_same_in_slices(expected, log)
            with other(log) as found:
                fold_temporary(log, found, 0, log.head_position())
                assert_same(expected, found)


def test_a_rebuild_of_a_made_up_log(tmp_path: Path) -> None:
    """The same for some thousand spans of the mix that folds are timed on, in the slices of a rebuild."""
    with Log.create(tmp_path / "ledger.db") as log:
        spans.fill(log, 3000, 11, small=True)
        with scratch(log.accounts) as expected:
            for _ in expected.index():
                pass
            folded(LongWay(expected, log), log, 500)
            with other(log) as found:
                fold_temporary(log, found, 0, log.head_position())
                assert_same(expected, found)
                (contested,) = found.query("SELECT count(*) FROM gen_spans WHERE contested <> 0").fetchone()
                assert contested > 20


class other:
    """A second scratch generation beside the first."""

    def __init__(self, log: Log) -> None:
        self.store = Store(log.accounts, 77, temporary=True)

    def __enter__(self) -> Store:
        self.store.drop()
        self.store.create(indexed=False)
        return self.store

    def __exit__(self, *_: object) -> None:
        self.store.drop()


# the parts

COUNTS = st.one_of(st.none(), st.sampled_from([0, 1, 999, 199_999, 200_001, 2**62]), st.integers(0, 10**6))
RATES = st.one_of(st.none(), st.sampled_from(["0", "3", "0.3", "3.75", "0.000000001"]))
BANDS = st.builds(
    Band, above=st.just(0), input=RATES, cache_read=RATES, cache_write_5m=RATES, cache_write_1h=RATES, output=RATES
)


@st.composite
def quotes(draw: st.DrawFn) -> Quote:
    bands = [draw(BANDS)]
    if draw(st.booleans()):
        bands.append(msgspec.structs.replace(draw(BANDS), above=200_000))
    tiers = {"standard": tuple(bands)} | ({"priority": (draw(BANDS),)} if draw(st.booleans()) else {})
    search = draw(st.sampled_from([None, "0.01"]))
    return Quote(provider="anthropic", model="m", tiers=tiers, web_search_usd=search, source="test")


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    return Usage(
        input_uncached=draw(COUNTS), cache_read=draw(COUNTS), cache_write_5m=draw(COUNTS), cache_write_1h=draw(COUNTS),
        output=draw(COUNTS), reasoning=draw(COUNTS), web_searches=draw(st.sampled_from([None, 0, 2])),
        billed_input=draw(st.sampled_from([None, None, 5])), upper_bound=draw(st.booleans()),
        service_tier=draw(st.sampled_from([None, "priority", "x"])), unsplit_cache_write=draw(st.booleans()),
    )  # fmt: skip


@examples(300, 20_000)
@given(quotes(), st.lists(usages(), min_size=1, max_size=4))
def test_a_price_by_the_short_way(quote: Quote, several: list[Usage]) -> None:
    """A known quote, asked for one usage after the other, says what pricing says (OBS-51)."""
    asked = KnownQuote(1, quote)
    for usage in several:
        priced = price(quote, usage)
        assert asked.price(usage) == (priced.cost_nanousd, priced.lower_bound, priced.upper_bound)


@examples(200, 5000)
@given(usages(), st.one_of(st.none(), st.integers(0, 10**12)), st.sampled_from([0, 1]), st.integers(0, 3))
def test_a_usual_response_in_the_totals(usage: Usage, cost: int | None, bound: int, lines: int) -> None:
    """What it adds to a cell is what its row contributes."""
    row = SpanRow(
        "claude-code:m:r", 1, "", 1, 1, 5, cost_nanousd=cost, reported_cost_nanousd=cost, lines=lines + 1,
        partial=bound, lower_bound=bound, upper_bound=bound,
    )  # fmt: skip
    for name in ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning"):
        setattr(row, name, getattr(usage, name))
    written: dict[str, list[Any]] = {}

    class Sink:
        def run(self, name: str, rows: list[Any]) -> None:
            written[name] = rows

    short, long = TotalsChange(Sink()), TotalsChange(Sink())  # type: ignore[arg-type]
    short.add_usual(5, 1, 1, usage, cost, cost, bound, bound, bound, lines + 1)
    short.write()
    first = written["add_totals"]
    long.add(row, "model", "succeeded", 1)
    long.write()
    assert first == written["add_totals"]
    assert list(first[0][3 : 3 + len(AMOUNTS)]) == list(contribution(row, "model", "succeeded"))


ODD = st.one_of(
    st.none(), st.integers(-2, 10**6), st.just(2**63), st.just(12.0), st.just(1.5), st.just("7"), st.just(True)
)


@examples(300, 5000)
@given(st.lists(st.dictionaries(st.sampled_from(codex.Counts.__struct_fields__), ODD), min_size=3, max_size=3))
def test_codex_counts_from_text(objects: list[dict[str, Any]]) -> None:
    """Read from text or from what the text is decoded to: the same rows (OBS-10)."""
    raws = [msgspec.Raw(msgspec.json.encode(one)) for one in objects]
    assert codex.parts_of_json(raws[0]) == codex.parts(objects[0])
    for carried in (False, True):
        assert codex.step_of_json(raws[0], raws[1], raws[2], carried=carried) == codex.step(*objects, carried=carried)
    nothing = msgspec.Raw(b"null")
    assert codex.step_of_json(raws[0], nothing, raws[2], carried=True) == codex.step(
        objects[0], None, objects[2], carried=True
    )


@examples(300, 5000)
@given(st.dictionaries(st.sampled_from(anthropic._Typed.__struct_fields__[:4]), ODD), st.one_of(st.none(), ODD), ODD)
def test_anthropic_counts_from_text(usage: dict[str, Any], five: Any, hour: Any) -> None:
    """The same for Anthropic's usage, with a split of what was written."""
    usage = {**usage, "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour}}
    assert anthropic.parts_of_json(msgspec.json.encode(usage)) == anthropic.parts(usage)


def test_the_filter_never_forgets() -> None:
    """A text that was met is always known again, also when the filter has grown; few others are."""
    met = Filter(1 << 15)
    texts = [f"claude-code:msg_{number}" for number in range(300_000)]
    wrong = sum(met.add(text) for text in texts)
    assert wrong < 3000
    assert all(met.add(text) for text in texts)
