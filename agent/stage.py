"""What the effects of a run work with. Everything from outside comes in by here, so that a test can give another."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from agent.approvals import Approver
from agent.configuration import Configuration, Target
from agent.run import Run
from agent.secrets import Masker
from agent.state import MessageReference
from agent.stops import Stops
from agent.tools.tool import ToolContext
from ledger.accounts.live_usage import read
from ledger.budget.bound import reported_tokens
from ledger.budget.reserve import Hub
from ledger.errors import LogUnavailable
from ledger.events.runs import RequestAnswered, RequestEnd
from ledger.prices.book import Book
from ledger.prices.pricing import price
from ledger.prices.quote import Quote
from ledger.sources.quotes import record_quote
from ledger.wire.conversation import Message, ToolSchema, message_of
from ledger.wire.protocols import Delta

if TYPE_CHECKING:
    import httpx


class Conversation:
    """The messages of a run by the names of their texts, read from the log once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._messages: dict[str, Message] = {}

    def learn(self, blob: str, message: Message) -> None:
        """Take in a message that is just being added."""
        self._messages[blob] = message

    def message(self, blob: str) -> Message:
        """Return a message. Raises LogUnavailable where its text was purged."""
        message = self._messages.get(blob)
        if message is None:
            content = self._run.log.blob(bytes.fromhex(blob))
            if content is None:
                raise LogUnavailable(
                    f"session {self._run.session_id}: a message is not in the log any more (purged?): it can be "
                    "shown, but not continued; begin a new session"
                )
            message = self._messages[blob] = message_of(content)
        return message

    def messages(self, references: list[MessageReference]) -> list[Message]:
        """Return messages in order."""
        return [self.message(one.blob) for one in references]


class Report(NamedTuple):
    """What the provider said of the last answered request: the next one begins with as much."""

    target: Target
    version: int
    """Of the `context.assembled` that it showed."""
    tokens: int
    body_bytes: int


class Stage:
    """A run with its surroundings."""

    def __init__(
        self,
        run: Run,
        hub: Hub,
        *,
        client: Callable[[], httpx.AsyncClient],
        system: str,
        schemas: list[ToolSchema],
        tools: ToolContext,
        approver: Approver,
        masker: Masker,
        book: Book,
        keys: Callable[[Target], str],
        on_delta: Callable[[Delta], None] = lambda delta: None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.run, self.hub = run, hub
        self._make_client = client
        self._client: httpx.AsyncClient | None = None
        self.system, self.schemas, self.tools = system, schemas, tools
        self.approver, self.masker, self.keys = approver, masker, keys
        self.on_delta, self.clock = on_delta, clock
        self.stops = Stops()
        self.conversation = Conversation(run)
        self.last_report: Report | None = None
        self._book = book
        self._recorded: set[str] = set()

    def client(self) -> httpx.AsyncClient:
        """Return the client of this run, made when the first request is about to leave."""
        if self._client is None:
            self._client = self._make_client()
        return self._client

    async def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()

    @property
    def configuration(self) -> Configuration:
        """The configuration that is in force. The run has one since its first turn."""
        found = self.run.state.configuration
        assert found is not None, "a turn begins with its configuration"
        return found

    def quote(self, provider: str, model: str) -> Quote | None:
        """Return the price in force now, None where it is not known."""
        return self._book.find(provider, model, self.clock())

    def limits(self, provider: str, model: str) -> tuple[int | None, int | None]:
        """Return a model's context window, and what it can give in one answer (tokens); None where not known."""
        return self._book.limits(provider, model)

    def record(self, quote: Quote) -> None:
        """Have a quote in the log's book before an event names it."""
        if quote.name not in self._recorded:
            record_quote(self.run.log, quote)
            self._recorded.add(quote.name)

    def settlement(
        self, end: RequestEnd, target: Target, quote: Quote | None, body_bytes: int
    ) -> tuple[int | None, int | None]:
        """Return (tokens, nano-dollars) of a request that ended, None for what is unknown; remember what was reported.

        A failure that the provider does not bill used nothing.
        """
        if end.unbilled:
            return 0, 0
        reading = read(end, target.provider)
        tokens = [reported_tokens(part.usage) for part in reading.parts]
        if not tokens or None in tokens or not isinstance(end, RequestAnswered) or reading.partial:
            return None, None
        known = [count for count in tokens if count is not None]
        self.last_report = Report(target, self.run.state.shown.version, known[0], body_bytes)
        costs = [price(quote, part.usage).cost_nanousd if quote else None for part in reading.parts]
        paid = [cost for cost in costs if cost is not None]
        return sum(known), sum(paid) if len(paid) == len(costs) else None
