"""The quotes that the log names, and which of them prices a span."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.accounts.store import Store, quote_key
from ledger.events.envelope import Event
from ledger.prices.pricing import price
from ledger.prices.quote import Quote
from ledger.prices.scheme import Rated, Scheme, scheme_of
from ledger.wire.usage import Usage

_BOUNDS_MAX = 256


class KnownQuote:
    """A quote of the log under its key."""

    __slots__ = ("_bounds", "_schemes", "key", "quote")

    def __init__(self, key: int, quote: Quote) -> None:
        self.key, self.quote = key, quote
        self._schemes: dict[tuple[str | None, str | None, str | None], Scheme] = {}
        self._bounds: dict[tuple[object, ...], tuple[bool, bool]] = {}

    def price(self, usage: Usage) -> tuple[int | None, bool, bool]:
        """Return cost in nano-dollars (None: unknown), and whether it is a lower or an upper bound.

        The same as pricing.price says. Whether a cost is a bound depends on which counts are known and on the
        band, so that is asked for once; the sum is made here.
        """
        said = (usage.service_tier, usage.speed, usage.region)
        scheme = self._schemes.get(said) or self._scheme(said)
        entered, read, left = usage.input_uncached, usage.cache_read, usage.output
        short, long = usage.cache_write_5m, usage.cache_write_1h
        if (
            scheme.reason or usage.web_searches or usage.billed_input is not None or usage.billed_output is not None
            or (entered is None and read is None and left is None)
        ):  # fmt: skip
            return self._priced(usage)
        bands = scheme.bands
        band = bands[-1]
        if len(bands) > 1:
            all_input = (entered or 0) + (read or 0) + (short or 0) + (long or 0)
            band = next((one for one in bands if all_input > one.above), band)
        rates: Any = band.rates
        a, b, c, d, e = rates
        try:
            total = (entered * a if entered else 0) + (read * b if read else 0) + (left * e if left else 0)
            total += (short * c if short else 0) + (long * d if long else 0)
        except TypeError:  # a class with tokens has no listed rate
            return None, False, False
        cost, rest = divmod(total, scheme.denominator)
        if 2 * rest > scheme.denominator or (2 * rest == scheme.denominator and cost & 1):
            cost += 1
        if (
            entered is None or read is None or left is None or short is None or long is None
            or usage.upper_bound or usage.unsplit_cache_write
        ):  # fmt: skip
            return cost, *self._bound(usage, band)
        return cost, False, False

    def _scheme(self, said: tuple[str | None, str | None, str | None]) -> Scheme:
        if len(self._schemes) >= _BOUNDS_MAX:
            self._schemes.clear()  # a hostile log may carry any number of invented tiers
        scheme = self._schemes[said] = scheme_of(self.quote, *said)
        return scheme

    def _bound(self, usage: Usage, band: Rated) -> tuple[bool, bool]:
        unsplit = usage.unsplit_cache_write and bool(usage.cache_write_5m)
        unknown = (
            usage.input_uncached is None, usage.cache_read is None, usage.cache_write_5m is None,
            usage.cache_write_1h is None, usage.output is None, usage.upper_bound, unsplit,
        )  # fmt: skip
        known = (*unknown, usage.service_tier, usage.speed, usage.region, band.above)
        found = self._bounds.get(known)
        if found is None:
            if len(self._bounds) >= _BOUNDS_MAX:
                self._bounds.clear()
            found = self._bounds[known] = self._priced(usage)[1:]
        return found

    def _priced(self, usage: Usage) -> tuple[int | None, bool, bool]:
        priced = price(self.quote, usage)
        return priced.cost_nanousd, priced.lower_bound, priced.upper_bound


def said_at(event: Event) -> str:
    """Return when a book said something, and where: texts that sort. Of two words of two books the later holds."""
    return f"{event.at:020d} {event.stream_id} {event.version:012d}"


def _replace(chain: dict[int, int], old: int, new: int) -> set[int]:
    """Put into the chain that a quote was replaced; return the quotes whose replacement that changed.

    The newest word wins: where the new quote had been replaced by the old one, that ends.
    """
    changed = {old}
    if old != new:
        chain[old] = new
    if old == new or old in _path(chain, new):
        chain.pop(new, None)
        changed.add(new)
    return changed


def _path(chain: dict[int, int], key: int) -> list[int]:
    """Return a quote and what replaced it, one after the other."""
    path = [key]
    while (key := chain.get(key, 0)) and key not in path:
        path.append(key)
    return path


class QuoteBook:
    """Quotes by key, what superseded them, and spans that were priced one by one.

    In a log into which others were copied the books of several have their say; what comes of it is the same in
    whatever order they are read.
    """

    def __init__(self, store: Store, *, alone: bool = False) -> None:
        self.store = store
        self._all_apart: dict[str, tuple[int, str]] | None = {} if alone else None
        """Every span that was priced one by one, where these tables began empty and nobody else writes them."""
        self._words: dict[str, tuple[int, int]] | None = None
        """When it was said -> (old quote, new quote): every replacement that any book tells of."""
        self._new_words: list[tuple[str, int, int]] = []
        self._known: dict[int, KnownQuote | None] = {}
        self._rows: dict[int, list[Any]] = {}
        self._found: dict[int, tuple[KnownQuote | None, KnownQuote | None]] = {}
        """Answers of `of_span` while no span is priced apart; forgotten when a quote replaces another."""
        self._superseded: dict[int, int] | None = None
        self._span_quotes: dict[str, tuple[int, str]] = {}
        self._has_span_quotes: bool | None = None
        self._first_time: set[int] = set()
        """Quotes that were recorded for the first time, until `waiting` is asked for them."""

    def record(self, sha256: str, raw: bytes, said: str) -> int:
        """Take in a quote; return its key. What it prices may have waited for it."""
        key = quote_key(sha256)
        row = self._row(key, sha256)
        if row[2] is None:
            self._first_time.add(key)
        if said > row[4]:
            row[2], row[4] = raw.decode(), said
        self._known[key] = KnownQuote(key, Quote.from_json(raw))
        return key

    def supersede(self, old: str, new: str, said: str) -> set[int]:
        """Take in that a quote was replaced; return the quotes whose spans have another price by that."""
        self._found.clear()
        key, to = quote_key(old), quote_key(new)
        self._row(key, old), self._row(to, new)
        words, chain = self._all_words(), self._superseded_by()
        latest = not words or said > max(words)
        words[said] = key, to
        self._new_words.append((said, key, to))
        if latest:
            affected = self._replaced_by(key)
            changed = _replace(chain, key, to)
        else:
            before = dict(chain)
            chain.clear()
            for _, (one, other) in sorted(words.items()):
                _replace(chain, one, other)
            changed = {one for one in before.keys() | chain.keys() if before.get(one) != chain.get(one)}
            affected = {one for key in changed for keys in (before, chain) for one in self._replaced_by(key, keys)}
        for one in changed:
            self._row(one)[3] = chain.get(one, 0)
        return affected

    def price_spans(self, spans: list[str], quote: str, said: str) -> set[str]:
        """Take in that spans were priced one by one; return those whose price that is."""
        key = quote_key(quote)
        self._row(key, quote)
        priced = {span_id for span_id in spans if said > self._span_quote(span_id)[1]}
        for known in (self._span_quotes, self._all_apart):
            if known is not None:
                known.update(dict.fromkeys(priced, (key, said)))
        self._has_span_quotes = True
        return priced

    def of_span(self, span_id: str, named_quote: int) -> tuple[KnownQuote | None, KnownQuote | None]:
        """Return the quote that the span's event names, and the one that prices it today."""
        if self.any_apart():
            chosen = self._span_quote(span_id)[0] or named_quote
            return self._quote(named_quote), self._quote(self._latest(chosen))
        found = self._found.get(named_quote)
        if found is None:
            found = self._quote(named_quote), self._quote(self._latest(named_quote))
            if named_quote and all(found):
                self._found[named_quote] = found
        return found

    def write(self) -> None:
        """Write what was taken in."""
        self.store.run("put_quote", [tuple(row) for row in self._rows.values()])
        self.store.run("put_span_quote", [(span_id, *chosen) for span_id, chosen in self._span_quotes.items()])
        self.store.run("put_replacement", self._new_words)
        self._rows.clear()
        self._span_quotes.clear()
        self._new_words.clear()

    def _row(self, key: int, sha256: str = "") -> list[Any]:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = list(self.store.one("quote", key) or (key, sha256, None, 0, ""))
        return row

    def _quote(self, key: int) -> KnownQuote | None:
        if not key:
            return None
        if key not in self._known:
            row = self.store.one("quote", key)
            if row is None or row[2] is None:
                return None  # named before it was recorded: it will come
            self._known[key] = KnownQuote(key, Quote.from_json(row[2]))
        return self._known[key]

    def _span_quote(self, span_id: str) -> tuple[int, str]:
        """Return the quote by which a span was priced apart, 0 for none, and when that was said."""
        if self._all_apart is not None:
            return self._all_apart.get(span_id, (0, ""))
        if not self.any_apart():
            return 0, ""
        if span_id in self._span_quotes:
            return self._span_quotes[span_id]
        row = self.store.one("span_quote", span_id)
        return (row[1], row[2]) if row else (0, "")

    def any_apart(self) -> bool:
        """Return whether any span was priced one by one."""
        if self._has_span_quotes is None:
            self._has_span_quotes = bool(self.store.all("any_span_quote"))
        return self._has_span_quotes

    def _superseded_by(self) -> dict[int, int]:
        if self._superseded is None:
            self._superseded = dict(self.store.all("superseded_quotes"))
        return self._superseded

    def _all_words(self) -> dict[str, tuple[int, int]]:
        if self._words is None:
            self._words = {said: (old, new) for said, old, new in self.store.all("replacements")}
        return self._words

    def _latest(self, key: int) -> int:
        return _path(self._superseded_by(), key)[-1]

    def _replaced_by(self, key: int, chain: dict[int, int] | None = None) -> set[int]:
        """Return a quote and those that it replaced, directly or through others."""
        chain = self._superseded_by() if chain is None else chain
        keys, found = {key}, {key}
        while found:
            found = {old for old, new in chain.items() if new in found} - keys
            keys |= found
        return keys

    def waiting(self, recorded: Iterable[int]) -> set[str]:
        """Return the spans that such quotes can price and that lack a figure; what was taken in must be written."""
        found: set[str] = set()
        for key in recorded:
            for one in self._replaced_by(key):
                found |= self._ids("unpriced_of_quote", one) | self._ids("span_quotes_of", one)
            if key in self._first_time:  # spans that name it and were priced by another before
                found |= self._ids("spans_of_quote" if key in self._superseded_by() else "spans_apart_of_quote", key)
        self._first_time.clear()
        return found

    def spans_of(self, quotes: Iterable[int]) -> set[str]:
        """Return the spans that name such quotes, or were priced by them one by one."""
        names = ("spans_of_quote", "span_quotes_of")
        return {span_id for key in quotes for name in names for span_id in self._ids(name, key)}

    def _ids(self, name: str, key: int) -> set[str]:
        return {span_id for (span_id,) in self.store.all(name, key)}
