"""Fill a log with N imported spans in minutes, through Log.append: what folds, reports, checks and copies are timed on.

    python benchmarks/spans.py OUT.db --spans 1000000 --seed 7            up to 400 observations an event, as imported
    python benchmarks/spans.py OUT.db --spans 1000000 --seed 7 --small    one observation an event, about 570 bytes

The same arguments write the same facts. What is in it: three shapes of two clients (Claude Code; Codex CLI with
records of single responses, and with running totals), sessions of 20 to 300 responses over half a year, prompts,
sub-agents with files of their own, the calls that start them, failures, broken-off responses, quotes of the bundled
price book. About 5 % of the responses are seen more than once: an opening line and its final one, copies in resumed
sessions, replays by a sub-agent. Observations are written as text, as a worker of the import hands them over; the log
encodes nothing again.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ledger.events.book import QuoteRecorded
from ledger.events.envelope import EncodedBody, NewEvent
from ledger.events.registry import encode
from ledger.events.sources import SourceOpened
from ledger.ids import named_id
from ledger.log.log import Log, StreamAppend
from ledger.prices.book import Book

BEGIN = 1_767_225_600_000_000  # 2026-01-01 UTC
HALF_YEAR = 181 * 86_400_000_000
OBSERVATIONS = 400
"""How many an event of an import holds at most."""
BATCH_BYTES = 1 << 22
CLAUDE_MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001")
CODEX_MODELS = ("gpt-5-codex", "gpt-5.1-codex")
SHARES = (("claude", 70), ("records", 15), ("totals", 15))
"""Out of a hundred sessions, how many are of each shape."""


class Stream(NamedTuple):
    """One file: its client, the contexts of its lines as JSON, and what was seen in it as JSON."""

    client: str
    name: str
    contexts: list[str]
    quotes: tuple[str, ...]
    observations: list[str]


class Maker:
    """Makes sessions one after the other; what it remembers is what a later one may repeat."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sessions = self.responses = 0
        self.last: list[str] = []
        """The beginning of an earlier Claude Code session: what a resumed one copies."""
        book = Book.bundled()
        names = [("anthropic", name) for name in CLAUDE_MODELS] + [("openai", name) for name in CODEX_MODELS]
        found = [book.find(provider, name, BEGIN) for provider, name in names]
        self.book = [quote for quote in found if quote is not None]
        assert len(self.book) == len(names), "the bundled book lacks a model of the mix"
        self.quotes = tuple(quote.name for quote in self.book)

    def word(self, length: int) -> str:
        """Return so many hexadecimal digits."""
        return f"{self.random.getrandbits(4 * length):0{length}x}"

    def session(self, spans: int) -> list[Stream]:
        """Return the files of one more session with at most `spans` responses of its own."""
        self.sessions += 1
        shape = self.random.choices([name for name, _ in SHARES], [share for _, share in SHARES])[0]
        count = min(spans, self.random.randint(20, 300))
        at = BEGIN + self.random.randrange(HALF_YEAR)
        project, branch = self.random.randrange(24), self.random.choice(("main", "main", "develop", "fix/one"))
        session = f"{self.word(8)}-{self.word(4)}-4{self.word(3)}-a{self.word(3)}-{self.word(12)}"
        where = f'"session":"{session}","project":"/home/dev/work/project-{project:02}"'
        if shape == "claude":
            return self._claude(session, f'{where},"branch":"{branch}","provider":"anthropic"', count, at)
        where = f'{{{where},"branch":"{branch}","provider":"openai","client_version":"0.120.0"}}'
        make = self._records if shape == "records" else self._totals
        return [Stream("codex", session, [where], self.quotes, list(make(session, count, at)))]

    # Claude Code

    def _claude(self, session: str, where: str, count: int, at: int) -> list[Stream]:
        rand = self.random.random
        lines: list[str] = []
        streams: list[Stream] = []
        model = self.random.randrange(len(CLAUDE_MODELS))
        if self.last and rand() < 0.25:  # resumed: it begins with a copy of an earlier one
            lines += self.last[: self.random.randint(5, 40)]
        copied = len(lines)
        cached, own = 20_000, 0
        while own < count:
            if own % 8 == 0:
                lines.append(
                    f'{{"k":"prompt","c":0,"o":{len(lines) * 900},"at":{at},"id":"{self.word(8)}-{self.word(12)}"}}'
                )
            at += self.random.randrange(2_000_000, 60_000_000)
            fresh = self.random.randrange(200, 4_000)
            cached += fresh
            if rand() < 0.005:
                lines.append(
                    f'{{"k":"failure","c":0,"o":{len(lines) * 900},"at":{at},"id":"{self.word(8)}-{self.word(12)}",'
                    '"status":529,"attempt":1}'
                )
                continue
            text, message = self._response(0, len(lines), at, model, fresh, cached)
            if rand() < 0.02:  # an opening that another line, not the next one, completes
                opening = text.replace('"stop":"end_turn",', "").replace(
                    ',"output_tokens":', ',"output_tokens":1,"was":'
                )
                lines.append(opening)
                lines.append(
                    f'{{"k":"prompt","c":0,"o":{len(lines) * 900},"at":{at},"id":"{self.word(8)}-{self.word(12)}"}}'
                )
            lines.append(text)
            own += 1
            if rand() < 0.002:
                lines.append(f'{{"k":"cut","c":0,"o":{len(lines) * 900},"at":{at},"id":"{message}","by":"cancelled"}}')
            if rand() < 0.01:
                agent, call = self.word(12), f"toolu_01{self.word(22)}"
                lines.append(
                    f'{{"k":"call","c":0,"o":{len(lines) * 900},"at":{at},"id":"{call}","tool":"Agent",'
                    f'"response":"{message}","agent_type":"Explore"}}'
                )
                few = self.random.randint(5, 25)
                streams.append(self._agent(session, where, agent, call, min(few, count - own), at, text))
                own += min(few, count - own)
                lines.append(
                    f'{{"k":"returned","c":0,"o":{len(lines) * 900},"at":{at + 9_000_000},"id":"{call}",'
                    f'"agent":"{agent}","status":"completed"}}'
                )
        self.responses += own
        if rand() < 0.3:
            self.last = lines[copied : copied + 40]
        return [
            Stream("claude-code", session, [f'{{{where},"client_version":"2.1.87"}}'], self.quotes, lines),
            *streams,
        ]

    def _prompt(self, line: int, at: int) -> str:
        return f'{{"k":"prompt","c":0,"o":{line * 900},"at":{at},"id":"{self.word(8)}-{self.word(12)}"}}'

    def _agent(self, session: str, where: str, agent: str, call: str, count: int, at: int, parent: str) -> Stream:
        """Return a sub-agent's file; some begin with a replay of the parent's response under another request."""
        context = f'{{{where},"agent":"{agent}","sidechain":true,"client_version":"2.1.87"}}'
        lines = [f'{{"k":"delegated","c":0,"o":0,"at":{at},"id":"{call}","agent":"{agent}"}}']
        lines.append(self._prompt(len(lines), at))
        if self.random.random() < 0.3:
            begin = parent.index('"request":"') + 11
            lines.append(f"{parent[:begin]}req_011{self.word(21)}{parent[parent.index(chr(34), begin) :]}")
        for _ in range(count):
            at += self.random.randrange(1_000_000, 20_000_000)
            fresh = self.random.randrange(100, 2_000)
            lines.append(self._response(0, len(lines), at, 2, fresh, 8_000 + fresh)[0])
        return Stream("claude-code", f"{session}/{agent}", [context], self.quotes, lines)

    def _response(self, context: int, line: int, at: int, model: int, fresh: int, cached: int) -> tuple[str, str]:
        message, five = f"msg_01{self.word(22)}", self.random.random() < 0.7
        short, long = (fresh, 0) if five else (0, fresh)
        text = (
            f'{{"k":"response","c":{context},"o":{line * 900},"at":{at},"id":"{message}",'
            f'"request":"req_011{self.word(21)}","model":"{CLAUDE_MODELS[model]}",'
            f'"usage":{{"input_tokens":{line % 7 + 1},"cache_creation_input_tokens":{fresh},'
            f'"cache_read_input_tokens":{cached},"cache_creation":{{"ephemeral_5m_input_tokens":{short},'
            f'"ephemeral_1h_input_tokens":{long}}},"output_tokens":{self.random.randrange(20, 2_000)},'
            f'"service_tier":"standard"}},"stop":"end_turn","quote":{model}}}'
        )
        return text, message

    # Codex CLI

    def _records(self, session: str, count: int, at: int) -> Iterator[str]:
        model = self.random.randrange(2)
        for number in range(count):
            if number % 8 == 0:
                yield f'{{"k":"prompt","c":0,"o":{number * 700},"at":{at},"id":"{session}@{number * 700}"}}'
            at += self.random.randrange(2_000_000, 60_000_000)
            entered, left = self.random.randrange(5_000, 90_000), self.random.randrange(20, 2_000)
            yield (
                f'{{"k":"response","c":0,"o":{number * 700 + 1},"at":{at},"id":"resp_0{self.word(45)}",'
                f'"model":"{CODEX_MODELS[model]}","usage":{{"input_tokens":{entered},'
                f'"cached_input_tokens":{entered * 3 // 4},"output_tokens":{left},'
                f'"reasoning_output_tokens":{left // 3},"total_tokens":{entered + left}}},'
                f'"quote":{3 + model}}}'
            )
        self.responses += count

    def _totals(self, session: str, count: int, at: int) -> Iterator[str]:
        model, total, before = self.random.randrange(2), (0, 0, 0, 0), "null"
        for number in range(count):
            if number % 8 == 0:
                yield f'{{"k":"prompt","c":0,"o":{number * 700},"at":{at},"id":"{session}@{number * 700}"}}'
            at += self.random.randrange(2_000_000, 60_000_000)
            entered, left = self.random.randrange(5_000, 90_000), self.random.randrange(20, 2_000)
            last = (entered, entered * 3 // 4, left, left // 3)
            total = (total[0] + last[0], total[1] + last[1], total[2] + last[2], total[3] + last[3])
            now = _codex(total)
            yield (
                f'{{"k":"cumulative","c":0,"o":{number * 700 + 1},"at":{at},"ordinal":{number},'
                f'"chain":"{self.word(32)}","model":"{CODEX_MODELS[model]}","total":{now},"before":{before},'
                f'"last":{_codex(last)},"quote":{3 + model}}}'
            )
            before = now
        self.responses += count


def _codex(counts: tuple[int, int, int, int]) -> str:
    entered, read, left, reasoning = counts
    return (
        f'{{"input_tokens":{entered},"cached_input_tokens":{read},"output_tokens":{left},'
        f'"reasoning_output_tokens":{reasoning},"total_tokens":{entered + left}}}'
    )


def events_of(stream: Stream, size: int) -> list[EncodedBody]:
    """Return a file's events, `size` observations each."""
    opened = SourceOpened(stream.client, f"/home/dev/{stream.client}/{stream.name}.jsonl", f"/home/dev/{stream.client}")
    events = [EncodedBody("source.opened", encode(opened))]
    head = f'"contexts":[{",".join(stream.contexts)}],"quotes":{msgspec.json.encode(stream.quotes).decode()}'
    for first in range(0, len(stream.observations), size):
        chunk = stream.observations[first : first + size]
        begin, end = first * 900, (first + len(chunk)) * 900
        if size == 1:  # one observation names one quote, so that the event has the size of a live one
            head, chunk = _alone(stream, chunk[0])
        events.append(
            EncodedBody(
                "lines.observed",
                f'{{"begin":{begin},"end":{end},"lines":{len(chunk)},"tail":"{begin:016x}",{head},'
                f'"observations":[{",".join(chunk)}],"mtime_ns":{BEGIN}000,"size":{end}}}',
            )
        )
    return events


def _alone(stream: Stream, observation: str) -> tuple[str, list[str]]:
    before, mark, number = observation.rpartition(',"quote":')
    if not mark:
        return f'"contexts":[{stream.contexts[0]}]', [observation]
    quote = stream.quotes[int(number[:-1])]
    return f'"contexts":[{stream.contexts[0]}],"quotes":["{quote}"]', [f'{before},"quote":0}}']


def fill(log: Log, spans: int, seed: int, *, small: bool = False) -> int:
    """Append sessions until they have `spans` responses of their own; return how many events that were."""
    maker = Maker(seed)
    prices = [
        NewEvent(body=QuoteRecorded(quote.name, msgspec.Raw(quote.to_json())), event_id=named_id("quote", quote.name))
        for quote in maker.book
    ]
    log.append([StreamAppend(log.book_stream, log.stream_version(log.book_stream), prices)])
    count, size = len(prices), 0
    appends: list[StreamAppend] = []
    while maker.responses < spans:
        for stream in maker.session(spans - maker.responses):
            name = f"source:{seed}:{stream.name}"
            bodies = events_of(stream, 1 if small else OBSERVATIONS)
            events = [NewEvent(body=body, event_id=named_id(name, str(place))) for place, body in enumerate(bodies)]
            appends.append(StreamAppend(name, 0, events))
            count, size = count + len(events), size + sum(len(body.data) for body in bodies)
        if size > BATCH_BYTES:
            log.append(appends)
            appends, size = [], 0
    if appends:
        log.append(appends)
    return count


def main() -> None:
    """Write the log that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="one observation an event")
    given = parser.parse_args()
    with Log.create(given.path) as log:
        count = fill(log, given.spans, given.seed, small=given.small)
    print(f"{given.path}: {count:,} events, {given.path.stat().st_size / 1e6:,.1f} MB")


if __name__ == "__main__":
    main()
