"""The price book: which quote prices a model at an instant, offline, from one file beside this module.

`book.json` is made by `python -m ledger.prices.build`. Only the shelves of the providers that are asked for
are decoded, and of them only the models that are, so that a report on three models costs a few milliseconds.
Quotes that were recorded in the log are laid over the shipped ones with `with_quotes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ledger.prices.identity import ANY_MAKER, FIRST_PARTY, Candidate, candidates, makes, provider_key
from ledger.prices.quote import Band, Quote

BOOK_FILE = Path(__file__).with_name("book.json")
USER = "user"
"""The source of a quote that the user stated."""
SOURCES = {"g": "genai-prices", "o": "overlay", "go": "genai-prices+overlay"}
"""The letters of `Stored.by`: the price data package, our own dated additions, both."""


class Stored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A quote in the file, without what its place there says."""

    valid_from: str | None = None
    valid_until: str | None = None
    tiers: dict[str, tuple[Band, ...]]
    multipliers: dict[str, dict[str, str]] = {}
    web_search_usd: str | None = None
    by: str = "g"


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model in the file: its quotes, oldest first, and what it can take and give (tokens)."""

    quotes: tuple[Stored, ...] = ()
    context_window: int | None = None
    max_output: int | None = None


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """One provider in the file."""

    names: dict[str, str]
    """Another exact name -> the id of its model."""
    limits: dict[str, tuple[int | None, int | None]]
    """(context_window, max_output) of names whose limits are not those of their model."""
    models: dict[str, msgspec.Raw]
    """Id -> Entry, decoded when asked for."""


class BookFile(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    about: str
    versions: dict[str, str]
    """Source -> its version, for the quotes that it made."""
    checked_at: str
    shelves: dict[str, msgspec.Raw]
    """Provider -> Shelf, decoded when asked for."""


class Book:
    """Quotes by provider, model and instant. Reading is all it does; a book is cheap to lay over."""

    def __init__(self, file: BookFile, laid: Iterable[Quote] = ()) -> None:
        self._file = file
        self._laid = tuple(laid)
        self._shelves: dict[str, Shelf] = {}
        self._entries: dict[tuple[str, str], tuple[Quote, ...]] = {}
        self._found: dict[tuple[str, str], tuple[Quote, ...]] = {}
        self._laid_by_model: dict[str, list[Quote]] = {}
        for quote in self._laid:
            self._laid_by_model.setdefault(quote.model, []).append(quote)

    @classmethod
    def bundled(cls) -> Book:
        """The book that is shipped with the program."""
        return cls.load(BOOK_FILE)

    @classmethod
    def load(cls, path: Path = BOOK_FILE) -> Book:
        """A book from a file made by `ledger.prices.build`."""
        return cls.from_bytes(path.read_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Book:
        """A book from the content of such a file."""
        return cls(msgspec.json.decode(data, type=BookFile))

    def with_quotes(self, quotes: Iterable[Quote]) -> Book:
        """The same book with recorded quotes laid over it, in the order in which they were recorded.

        The user's own (source `user`) win over all others, then the newest recorded, then the shipped ones;
        a quote counts only where it is valid.
        """
        return Book(self._file, (*self._laid, *quotes))

    def find(self, provider: str, model: str, at_us: int) -> Quote | None:
        """The quote that prices the model at an instant (microseconds UTC), or None: the cost is unknown.

        The name must be exact (`ledger.prices.identity`). An empty provider finds a model that exactly one
        first-party vendor has; a provider that the book does not know has no prices.
        """
        key = (provider, model)
        quotes = self._found.get(key)
        if quotes is None:
            quotes = self._found[key] = self.quotes(provider, model)
        for quote in quotes:
            if quote.covers(at_us):
                return quote
        return None

    def quotes(self, provider: str, model: str) -> tuple[Quote, ...]:
        """Every quote of a model whatever its dates, the first that is valid wins."""
        names, shelved = self._resolved(provider, model)
        return (*self._over(names), *(self._entry(shelved) if shelved else ()))

    def limits(self, provider: str, model: str) -> tuple[int | None, int | None]:
        """(context_window, max_output) in tokens; each None where it is not known.

        The window is what the table of 2026-11 counts: for OpenAI the input that a request can carry.
        """
        names, shelved = self._resolved(provider, model)
        for quote in self._over(names):
            if quote.context_window or quote.max_output:
                return quote.context_window, quote.max_output
        if shelved is None:
            return None, None
        shelf = self._shelf(shelved.provider)
        named = next(name for _, name in names if self._has(shelved.provider, name))
        entry = self._stored(shelved)
        return shelf.limits.get(named, (entry.context_window, entry.max_output))

    def context_window(self, provider: str, model: str) -> int | None:
        """The tokens that a request can carry, or None where it is not known."""
        return self.limits(provider, model)[0]

    def max_output(self, provider: str, model: str) -> int | None:
        """The tokens that an answer can have, or None where it is not known."""
        return self.limits(provider, model)[1]

    def models(self) -> tuple[tuple[str, str], ...]:
        """Every (provider, model id) with a price, sorted: the shipped ones and those laid over them."""
        shelved = {(seller, model) for seller in self._file.shelves for model in self._shelf(seller).models}
        return tuple(sorted(shelved | {(quote.provider, quote.model) for quote in self._laid}))

    def names(self, provider: str, model: str) -> tuple[str, ...]:
        """The other exact names under which the book has a model id."""
        shelf = self._shelf(provider_key(provider))
        return tuple(sorted(name for name, of in shelf.names.items() if of == model))

    # What is shipped.

    def _shelf(self, provider: str) -> Shelf:
        shelf = self._shelves.get(provider)
        if shelf is None:
            raw = self._file.shelves.get(provider)
            empty = Shelf(names={}, limits={}, models={})
            shelf = self._shelves[provider] = msgspec.json.decode(raw, type=Shelf) if raw else empty
        return shelf

    def _resolved(self, provider: str, model: str) -> tuple[tuple[Candidate, ...], Candidate | None]:
        """The exact names of a model with their seller, and its shipped entry: that of the most exact name.

        That entry decides even where it has no quote for the time: a dated name with a price of its own is
        never priced by the undated one.
        """
        names = candidates(provider, model)
        for seller, name in names:
            owner = self._maker(name) if seller == ANY_MAKER else seller
            if owner and self._has(owner, name):
                shelved = Candidate(owner, self._shelf(owner).names.get(name, name))
                pinned = dict.fromkeys((*(Candidate(owner, each) for _, each in names), shelved))
                return tuple(pinned), shelved
        return names, None

    def _maker(self, name: str) -> str:
        """The one first-party vendor that has the name; empty where none or several have."""
        makers = [maker for maker in FIRST_PARTY if makes(maker, name) and self._has(maker, name)]
        return makers[0] if len(makers) == 1 else ""

    def _has(self, provider: str, name: str) -> bool:
        shelf = self._shelf(provider)
        return name in shelf.models or name in shelf.names

    def _stored(self, at: Candidate) -> Entry:
        return msgspec.json.decode(self._shelf(at.provider).models[at.name], type=Entry)

    def _entry(self, at: Candidate) -> tuple[Quote, ...]:
        quotes = self._entries.get(at)
        if quotes is None:
            entry = self._stored(at)
            quotes = self._entries[at] = tuple(self._quote(at, entry, stored) for stored in entry.quotes)
        return quotes

    def _quote(self, at: Candidate, entry: Entry, stored: Stored) -> Quote:
        source = SOURCES[stored.by]
        return Quote(
            provider=at.provider,
            model=at.name,
            valid_from=stored.valid_from,
            valid_until=stored.valid_until,
            tiers=stored.tiers,
            multipliers=stored.multipliers,
            web_search_usd=stored.web_search_usd,
            context_window=entry.context_window,
            max_output=entry.max_output,
            source=source,
            source_version=self._file.versions[source],
            checked_at=self._file.checked_at,
        )

    # What was recorded.

    def _over(self, names: Iterable[Candidate]) -> list[Quote]:
        """The laid quotes of these names: the user's first, then the most exact name, then the newest."""
        matches: list[tuple[bool, int, int, Quote]] = []
        for exactness, (seller, name) in enumerate(names):
            for age, quote in enumerate(reversed(self._laid_by_model.get(name, ()))):
                if not quote.provider or seller in (ANY_MAKER, provider_key(quote.provider)):
                    matches.append((quote.source != USER, exactness, age, quote))
        matches.sort(key=lambda match: match[:3])
        found = [match[3] for match in matches]
        if len({provider_key(quote.provider) for quote in found} - {ANY_MAKER}) > 1:
            # No seller was named and several sell it: only what holds for any of them.
            return [quote for quote in found if not quote.provider]
        return found
