"""The fold under anything that clients may write: every invariant holds, and the order of streams does not matter.

Hypothesis draws a few files of both clients from a small alphabet (sessions, sub-agents, messages, requests, totals,
forks, prompts, calls, failures, cuts) and a book of prices, cuts them into events and appends those to a log, stream by
stream in any mixture, with the accounts brought up to date in between or not. TALLYBOOK_SOAK=1 draws many.

What is the same wherever it stands, as in real files: a message's model and price, a prompt's time, what a call starts.
Anything else varies: usage, place, copies, replays, times, request ids, the order of lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from postgres_server import new_place

from ledger.accounts.amounts import AMOUNTS, DIMENSIONS
from ledger.accounts.catchup import View, catch_up, snapshot
from ledger.accounts.rows import SpanRow
from ledger.events import sources as seen
from ledger.events.book import QuoteRecorded, QuoteSuperseded, SpanPriced
from ledger.events.envelope import NewEvent
from ledger.ids import named_id
from ledger.invariants import check
from ledger.log.log import Log, StreamAppend
from ledger.prices.own import quote_from_rates
from ledger.prices.quote import Quote

SOAK = os.environ.get("TALLYBOOK_SOAK", "") not in ("", "0")
SHARE = float(os.environ.get("TALLYBOOK_SOAK_SHARE") or 1)


def examples(few: int, many: int) -> settings:
    """Return how many examples to draw: the same words as `Soak.rounds`, which hypothesis cannot take."""
    count = max(few, round(many * SHARE)) if SOAK else few
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    phases = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
    return settings(max_examples=count, deadline=None, suppress_health_check=slow, phases=phases)


pytestmark = pytest.mark.soak

# the alphabet

BEGIN = 1_773_186_600_000_000  # 2026-03-10 23:50 UTC: a few steps on it is another quarter hour, and another day
STEP = 200_000_000
MODELS = {"m1": "acme-1", "m2": "acme-1", "m3": "acme-2", "m4": "acme-free"}
"""The messages, each with its model; the last one has no price."""
QUOTES = {
    "acme-1": quote_from_rates("acme-1", input="1", output="5", cache_read="0.1", cache_write_5m="2"),
    "acme-2": quote_from_rates("acme-2", input="3", output="15"),
}
OWN = quote_from_rates("acme-1", input="7", output="7", cache_read="7", cache_write_5m="7")
BOOK = [*QUOTES.values(), OWN]
Prices = dict[str, Quote]
PRICES: list[Prices] = [QUOTES, QUOTES, {}, {**QUOTES, "acme-1": OWN}]
"""What prices were known when a file was read: usually the same; none yet; one of the user's own."""
CALLS = {"c1": ("m1", "a1", "Explore"), "c2": ("m2", "a2", "")}
"""The calls that start sub-agents: by which message, which agent, of which type."""
USAGES = [
    b'{"input_tokens":10,"output_tokens":1}',
    b'{"input_tokens":10,"output_tokens":90}',
    b'{"input_tokens":10,"output_tokens":90,"cache_read_input_tokens":5,"cache_creation_input_tokens":7}',
    b'{"input_tokens":0,"output_tokens":0}',
    b'{"input_tokens":null,"output_tokens":null}',
    b'{"output_tokens":90,"input_tokens":10}',
    b'{"input_tokens":1,"output_tokens":2,"iterations":[{"type":"message","input_tokens":1,"output_tokens":2},'
    b'{"type":"compaction","input_tokens":50,"output_tokens":9}]}',
    b'{"input_tokens":3,"output_tokens":4,"iterations":[{"type":"advisor_message","model":"acme-2","input_tokens":8,'
    b'"output_tokens":8}]}',
    b"{}",
]
SESSIONS = ("s1", "s2", "s3")
AGENTS = ("", "a1", "a2")
THREADS = ("t1", "t2", "t3")

Streams = dict[str, list[msgspec.Struct]]
"""What is appended: stream -> its events in order."""


class Line(NamedTuple):
    """What one place of a file says, with the context it stands in."""

    context: seen.Context
    make: type
    fields: dict[str, Any]
    quote: str = ""
    part_quotes: tuple[str, ...] = ()


def body_of(lines: Sequence[Line], begin: int, end: int) -> seen.LinesObserved:
    """Return a stretch of a file as the importer would write it down."""
    contexts = list(dict.fromkeys(line.context for line in lines))
    quotes = list(dict.fromkeys(name for line in lines for name in (line.quote, *line.part_quotes) if name))
    observations = []
    for offset, line in enumerate(lines, begin):
        fields = {**line.fields, "c": contexts.index(line.context), "o": offset}
        if line.quote:
            fields["quote"] = quotes.index(line.quote)
        if line.part_quotes:
            fields["part_quotes"] = [quotes.index(name) for name in line.part_quotes]
        observations.append(line.make(**fields))
    return seen.LinesObserved(
        begin=begin, end=end, lines=end - begin, tail="", contexts=contexts, quotes=quotes, observations=observations
    )


BRANCHES = st.sampled_from(["main", "fix"])
TIMES = st.integers(0, 8).map(lambda step: BEGIN + step * STEP)


# Claude Code


@st.composite
def claude_line(draw: st.DrawFn, context: seen.Context, prices: Prices) -> list[Line]:
    """Return what a line of Claude Code may say: mostly responses."""
    kind = draw(
        st.sampled_from(["response"] * 5 + ["call", "prompt", "failure", "cut", "returned", "returned", "delegated"])
    )
    if kind in ("response", "call"):
        call = draw(st.sampled_from(sorted(CALLS))) if kind == "call" else ""
        message = CALLS[call][0] if call else draw(st.sampled_from(sorted(MODELS)))
        usage = draw(st.sampled_from(USAGES))
        at, lines = draw(TIMES), draw(st.integers(1, 2))
        quote = prices.get(MODELS[message])
        beside = prices.get("acme-2") if b"advisor" in usage else quote if b"compaction" in usage else None
        parts = (beside.name,) if beside else ()
        fields = {
            "at": at, "id": message, "request": draw(st.sampled_from(["", "r1", "r2"])), "model": MODELS[message],
            "usage": msgspec.Raw(usage), "stop": draw(st.sampled_from(["", "end_turn"])), "lines": lines,
            "last_at": at + STEP // 2 if lines > 1 else 0, "nested": draw(st.booleans()),
            "cost": draw(st.sampled_from(["", "", "0.5"])),
            "earlier": [msgspec.Raw(USAGES[0])] if draw(st.integers(0, 3)) == 0 else [],
        }  # fmt: skip
        found = [Line(context, seen.Response, fields, quote.name if quote else "", parts)]
        if call:
            started = {"at": at, "id": call, "tool": "Agent", "response": message, "agent_type": CALLS[call][2]}
            found.append(Line(context, seen.Call, started))
        return found
    if kind == "prompt":
        number = draw(st.integers(1, 3))
        return [Line(context, seen.Prompt, {"at": BEGIN + 3 * number * STEP, "id": f"p{number}"})]
    if kind == "failure":
        number = draw(st.integers(1, 2))
        fields = {"at": draw(TIMES), "id": f"e{number}", "status": 529, "attempt": number - 1}
        return [Line(context, seen.Failure, fields)]
    if kind == "cut":
        fields = {
            "at": draw(TIMES),
            "id": draw(st.sampled_from(sorted(MODELS))),
            "by": draw(st.sampled_from(["cut", "cancelled"])),
        }
        return [Line(context, seen.Cut, fields)]
    call = draw(st.sampled_from(sorted(CALLS)))
    if kind == "returned":
        fields = {
            "at": draw(TIMES),
            "id": call,
            "agent": CALLS[call][1],
            "status": draw(st.sampled_from(["", "completed", "failed"])),
        }
        return [Line(context, seen.Returned, fields)]
    return [Line(context, seen.Delegated, {"at": draw(TIMES), "id": call, "agent": CALLS[call][1]})]


@st.composite
def claude_file(draw: st.DrawFn, prices: Prices) -> list[list[Line]]:
    """Return the stretches of a file: of one session, with a context or two."""
    session = draw(st.sampled_from(SESSIONS))
    contexts = []
    for _ in range(draw(st.integers(1, 2))):
        agent = draw(st.sampled_from(AGENTS))
        contexts.append(
            seen.Context(
                session=session, agent=agent, agent_type=draw(st.sampled_from(["", "Explore"])) if agent else "",
                sidechain=bool(agent) or draw(st.booleans()), project=f"/home/{session}", branch=draw(BRANCHES),
                provider=draw(st.sampled_from(["", "anthropic"])),
            )
        )  # fmt: skip
    stretches = []
    lines = st.sampled_from(contexts).flatmap(lambda context: claude_line(context, prices))
    for _ in range(draw(st.integers(1, 3))):
        groups = draw(st.lists(lines, min_size=1, max_size=6))
        stretches.append([line for group in groups for line in group])
    return stretches


# Codex CLI


def totals(steps: Sequence[int]) -> list[tuple[str, dict[str, int]]]:
    """Return the running totals after each step, with the chain that names all of them."""
    found, chain, tokens = [], "", 0
    for step in steps:
        tokens += step
        chain = f"{chain}{step}."
        found.append((chain, {"input_tokens": tokens, "cached_input_tokens": tokens // 10, "output_tokens": tokens // 2,
                              "total_tokens": tokens + tokens // 2}))  # fmt: skip
    return found


@st.composite
def codex_file(draw: st.DrawFn, thread: str, lineage: tuple[str, str]) -> list[list[Line]]:
    """Return the stretches of a thread's rollout: where it comes from, running totals, records, prompts."""
    context = seen.Context(session=thread, project=f"/home/{thread}", provider="openai")
    forked_from, parent = lineage
    lines: list[Line] = []
    if forked_from or parent:
        fields = {"at": BEGIN, "forked_from": forked_from, "parent": parent, "name": "reviewer" if parent else ""}
        lines.append(Line(context, seen.Run, fields))
    before: dict[str, int] | None = None
    quote = QUOTES["acme-2"].name
    for ordinal, (chain, total) in enumerate(
        totals(draw(st.lists(st.sampled_from([100, 200]), min_size=1, max_size=4)))
    ):
        if draw(st.integers(0, 2)) == 0:
            # The same offset of the same thread is the same prompt.
            at = BEGIN + (ordinal + THREADS.index(thread)) * STEP
            lines.append(Line(context, seen.Prompt, {"at": at, "id": f"{thread}@{ordinal}"}))
        last = {name: value - (before or {}).get(name, 0) for name, value in total.items()}
        fields = {
            "at": draw(TIMES), "ordinal": ordinal, "chain": chain, "model": "acme-2", "total": raw(total),
            "before": raw(before), "last": raw(last), "carried": ordinal == 0 and bool(forked_from or parent),
        }  # fmt: skip
        lines.append(Line(context, seen.Cumulative, fields, quote))
        before = total
    for response in draw(st.lists(st.sampled_from(["resp1", "resp2", "resp3"]), max_size=2)):
        usage = {"input_tokens": 50, "cached_input_tokens": 5, "output_tokens": 9, "total_tokens": 59}
        fields = {"at": draw(TIMES), "id": response, "model": "acme-2", "usage": raw(usage)}
        lines.append(Line(context, seen.Response, fields, quote))
    cuts = sorted(draw(st.lists(st.integers(0, len(lines)), max_size=2)))
    return [lines[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(lines)], strict=True)]


def raw(value: Any) -> msgspec.Raw:
    """Return a value as the file has it."""
    return msgspec.Raw(msgspec.json.encode(value))


# the book

SPANS = [
    *(f"claude-code:{message}:{request}" for message in MODELS for request in ("", "r1", "r2")),
    "claude-code:m1:r1+compaction1", "codex:~100.:t1", "codex:resp1:",
]  # fmt: skip


@st.composite
def book(draw: st.DrawFn) -> list[msgspec.Struct]:
    """Return the events of the book: quotes recorded, replaced, and spans priced one by one."""
    names = [quote.name for quote in BOOK]
    events: list[msgspec.Struct] = [
        QuoteRecorded(quote.name, msgspec.Raw(quote.to_json())) for quote in draw(st.permutations(BOOK))
    ]
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            old, new = draw(st.sampled_from(names)), draw(st.sampled_from(names))
            events.append(QuoteSuperseded(old, new, "tested"))
        else:
            spans = draw(st.lists(st.sampled_from(SPANS), min_size=1, max_size=3, unique=True))
            events.append(SpanPriced(spans, draw(st.sampled_from(names)), "tested"))
    return events


# streams and their mixtures


def stream_of(client: str, number: int, stretches: Sequence[Sequence[Line]], again: bool) -> list[msgspec.Struct]:
    """Return a file's events; `again`: it is billed, truncated after the first stretch, and read again."""
    events: list[msgspec.Struct] = [seen.SourceOpened(client, f"/{client}/{number}", "/")]
    if again:
        events.append(seen.SourceBilled("subscription"))
    end = 0
    for place, lines in enumerate(stretches):
        events.append(body_of(lines, end, end + len(lines) + 1))
        end += len(lines) + 1
        if again and place == 0:
            events += [seen.SourceTruncated(end, 0), body_of(lines, 0, end)]
    return events


@st.composite
def worlds(draw: st.DrawFn, *, one_price: bool = True) -> Streams:
    """Return the streams of a log. `one_price`: every file was read when the same prices were known."""
    streams: Streams = {"book": draw(book())}
    prices = draw(st.sampled_from(PRICES))
    for number in range(draw(st.sampled_from([1, 2, 3, 3, 0]))):
        stretches = draw(claude_file(prices if one_price else draw(st.sampled_from(PRICES))))
        streams[f"source:claude{number}"] = stream_of("claude-code", number, stretches, draw(st.integers(0, 5)) == 0)
    lineages = {}
    for number, thread in enumerate(THREADS):
        older = ["", *THREADS[:number]]
        lineages[thread] = draw(st.sampled_from(["", *older])), draw(st.sampled_from(older))
    # A thread may have several files: archived ones, and what versions before 0.50 began at a resume.
    for number, thread in enumerate(draw(st.lists(st.sampled_from(THREADS), max_size=4))):
        stretches = draw(codex_file(thread, lineages[thread]))
        streams[f"source:codex{number}"] = stream_of("codex", number, stretches, draw(st.integers(0, 5)) == 0)
    return streams


@st.composite
def mixtures(draw: st.DrawFn, streams: Streams) -> list[tuple[str, bool]]:
    """Return an order in which all events are appended, each with whether the accounts are brought up to date then."""
    words = [name for name, events in streams.items() for _ in events]
    return [(name, draw(st.booleans())) for name in draw(st.permutations(words))]


class World:
    """Streams, and orders to append them in. It shows itself as a reader of a failure needs it."""

    def __init__(self, streams: Streams, *orders: list[tuple[str, bool]]) -> None:
        self.streams, self.orders = streams, orders

    def __repr__(self) -> str:
        return "\n\n".join(told(self.streams, order) for order in self.orders)


@st.composite
def worlds_in_two_mixtures(draw: st.DrawFn, *, one_price: bool = True) -> World:
    """Return streams and two orders to append them in."""
    streams = draw(worlds(one_price=one_price))
    return World(streams, draw(mixtures(streams)), draw(mixtures(streams)))


@st.composite
def worlds_in_two_paces(draw: st.DrawFn) -> World:
    """Return streams, one after the other: folded at the end, and after every event."""
    streams = draw(worlds())
    words = [name for name, events in streams.items() for _ in events]
    return World(streams, [(name, False) for name in words], [(name, True) for name in words])


def fill(log: Log, streams: Streams, mixture: Sequence[tuple[str, bool]]) -> None:
    """Append every event in this order."""
    versions = dict.fromkeys(streams, 0)
    for name, now in mixture:
        version = versions[name]
        event = NewEvent(body=streams[name][version], event_id=named_id("tested", name, str(version)))
        log.append([StreamAppend(name, version, [event])])
        versions[name] += 1
        if now:
            catch_up(log)
    catch_up(log)


# what the accounts say, without where in the log it was read

ELSEWHERE = ("source_position", "source_index")


class Accounts(NamedTuple):
    """The accounts by natural keys: equal for two logs that hold the same facts."""

    spans: dict[str, dict[str, Any]]
    totals: set[tuple[Any, ...]]
    turns: set[tuple[Any, ...]]
    jobs: set[tuple[Any, ...]]
    agents: set[tuple[Any, ...]]


def accounts(view: View) -> Accounts:
    """Return what the accounts say."""

    def rows(sql: str) -> Iterator[tuple[Any, ...]]:
        yield from (tuple(row) for row in view.store.connection.execute(view.store.named(sql)))

    columns = [name for name in SpanRow.__struct_fields__ if name not in (*ELSEWHERE, "session_key", "turn_key",
               "dimension_id", "named_quote", "quote")]  # fmt: skip
    names = ["session", "client", "turn", *DIMENSIONS, "named", "priced_by", *columns]
    chosen = ", ".join(f"s.{name}" for name in columns)
    values = ", ".join(f"d.{name}" for name in DIMENSIONS)
    spans = rows(
        f"SELECT n.session_id, n.client, t.turn_id, {values}, coalesce(a.sha256, ''), coalesce(b.sha256, ''), {chosen} "
        "FROM gen_spans s JOIN gen_sessions n ON n.session_key = s.session_key "
        "JOIN gen_turns t ON t.turn_key = s.turn_key JOIN gen_dimensions d ON d.dimension_id = s.dimension_id "
        "LEFT JOIN gen_quotes a ON a.quote_key = s.named_quote LEFT JOIN gen_quotes b ON b.quote_key = s.quote"
    )
    found = [dict(zip(names, row, strict=True)) for row in spans]
    sums = ", ".join(f"t.{name}" for name in AMOUNTS)
    return Accounts(
        {row["span_id"]: row for row in found},
        set(rows(f"SELECT t.grain, t.bucket, {values}, {sums}, t.first_at, t.last_at FROM gen_totals t "
                 "JOIN gen_dimensions d ON d.dimension_id = t.dimension_id")),
        set(rows("SELECT n.session_id, t.turn_id, t.agent_id, t.started_at FROM gen_turns t JOIN gen_sessions n "
                 "ON n.session_key = t.session_key WHERE turn_key IN (SELECT turn_key FROM gen_spans)")),
        set(rows("SELECT * FROM gen_jobs")),
        set(rows("SELECT * FROM gen_agents")),
    )  # fmt: skip


def told(streams: Streams, order: Sequence[tuple[str, bool]]) -> str:
    """Return a log as text: an event a line, in order; `|` where the accounts were brought up to date."""
    places = dict.fromkeys(streams, 0)
    lines = []
    for name, now in order:
        body = streams[name][places[name]]
        places[name] += 1
        fields = msgspec.json.decode(msgspec.json.encode(body))
        seen_there = fields.pop("observations", [])
        contexts = fields.pop("contexts", [])
        if "sha256" in fields:
            del fields["quote"]  # the name says it all
        short = {key: value for key, value in fields.items() if key != "tail"}
        lines.append(f"{name}: {type(body).__name__} {short}{' |' if now else ''}")
        for one in seen_there:
            kind, context, at = one.pop("k"), contexts[one.pop("c")], (one.pop("at") - BEGIN) / STEP
            lines.append(f"    {kind} in {context} at {at:g}: { {key: one[key] for key in one if key != 'o'} }")
    text = "\n".join(lines)
    for letter, quote in zip("ABC", BOOK, strict=True):
        text = text.replace(quote.name, letter)
    return text


# the properties


WHERE = st.sampled_from(["file", "file", "file", "server"])
"""Where the log of the second order lies: a quarter on PostgreSQL."""


def folded(world: World, where: str = "file") -> list[Accounts]:
    """Return the accounts after each order; every invariant must hold each time."""
    found = []
    for number, order in enumerate(world.orders):
        with TemporaryDirectory(prefix="tallybook-fold-") as folder, ExitStack() as stack:
            on_server = number and where == "server"
            log = stack.enter_context(Log.open(new_place()) if on_server else Log.create(Path(folder) / "ledger.db"))
            fill(log, world.streams, order)
            assert [outcome for outcome in check(log, full=True) if not outcome.ok] == []
            with snapshot(log) as view:
                found.append(accounts(view))
    return found


@examples(30, 4000)
@given(worlds_in_two_mixtures(), WHERE)
def test_every_invariant_holds_and_no_order_matters(world: World, where: str) -> None:
    """Sums, tree, keys and prices hold, live = rebuilt; another mixture gives the same accounts, also on PostgreSQL.

    OBS-19, OBS-26, OBS-27, OBS-46, OBS-51, OBS-53.
    """
    first, second = folded(world, where)
    assert second.spans == first.spans
    assert second == first


PRICED = ("named", "priced_by", "cost_nanousd", "first_cost_nanousd", "lower_bound", "upper_bound")
"""What a price makes of a span."""


@examples(10, 1000)
@given(worlds_in_two_mixtures(one_price=False), WHERE)
def test_prices_that_were_set_between_two_readings(world: World, where: str) -> None:
    """Files repeat a response, read at different prices: every invariant holds, and only the price may differ.

    OBS-26, OBS-51.
    """
    first, second = (
        {span: {name: row[name] for name in row if name not in PRICED} for span, row in found.spans.items()}
        for found in folded(world, where)
    )
    assert second == first


@pytest.mark.parametrize("prices", [[QUOTES, {}], [{}, QUOTES], [PRICES[3], QUOTES], [QUOTES, PRICES[3]]])
def test_what_was_priced_once_keeps_its_price(prices: list[Prices]) -> None:
    """Of two lines that say the same the first in the log names the price, whatever is read later (OBS-51)."""
    context = seen.Context(session="s1", project="/home/s1")
    fields = {
        "at": BEGIN,
        "id": "m1",
        "request": "r1",
        "model": "acme-1",
        "usage": msgspec.Raw(USAGES[1]),
        "stop": "stop",
    }
    streams: Streams = {"book": [QuoteRecorded(quote.name, msgspec.Raw(quote.to_json())) for quote in BOOK]}
    names = [known["acme-1"].name if known else "" for known in prices]
    for number, name in enumerate(names):
        lines = [Line(context, seen.Response, fields, name)]
        streams[f"source:{number}"] = stream_of("claude-code", number, [lines], again=False)
    order = [(stream, True) for stream, events in streams.items() for _ in events]
    (found,) = folded(World(streams, order))
    assert found.spans["claude-code:m1:r1"]["named"] == names[0]


@examples(10, 500)
@given(worlds_in_two_paces())
def test_in_one_slice_or_event_by_event(world: World) -> None:
    """Folding everything at once gives what folding after every event gives (OBS-53)."""
    first, second = folded(world)
    assert second.spans == first.spans
    assert second == first
