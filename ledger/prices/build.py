"""Make `book.json`: `python -m ledger.prices.build` reads the installed genai-prices and our overlay.

One model a line, sorted, so that a change of a price is a change of one line. `--check` writes nothing and
fails where the file is not what would be written; a test does the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from ledger.prices.book import BOOK_FILE, SOURCES, BookFile, Entry, Stored
from ledger.prices.catalogue import records
from ledger.prices.overlay import Limits, Overlay, load_overlay, merge
from ledger.prices.record import GENAI, OVERLAY, BookError, Period, Record

_ABOUT = (
    "Prices by provider and model, made by ledger/prices/build.py from genai-prices (MIT, Pydantic Services) "
    "and overlay.json. USD per million tokens. by: g = genai-prices, o = overlay, go = both."
)
_LETTERS = {
    frozenset({GENAI}): "g",
    frozenset({OVERLAY}): "o",
    frozenset({GENAI, OVERLAY}): "go",
}


def installed() -> tuple[Iterable[Any], str]:
    """The providers of the installed genai-prices and its version. The import costs a quarter second."""
    from importlib.metadata import version

    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot().providers, version(GENAI)


def book_bytes(providers: Iterable[Any], version: str, overlay: Overlay, strict: bool = True) -> bytes:
    """The book file of these providers and this overlay, the same bytes for the same input.

    Strict raises BookError where they do not fit together; else genai-prices keeps its word.
    """
    kept, _ = records(providers, strict)
    merged, limits = merge(kept, overlay, strict)
    shelves: dict[str, list[Record]] = {}
    for record in merged:
        if record.periods:
            shelves.setdefault(record.provider, []).append(record)
    day = overlay.checked_at.partition("T")[0]
    versions = {SOURCES["g"]: version, SOURCES["o"]: day, SOURCES["go"]: f"{version}+{day}"}
    head = {"about": _ABOUT, "versions": versions, "checked_at": overlay.checked_at}
    opening = msgspec.json.encode(head)[:-1] + b',"shelves":{\n'
    return opening + b",\n".join(_shelf(name, shelf, limits) for name, shelf in shelves.items()) + b"\n}}\n"


def _shelf(provider: str, shelf: list[Record], limits: Limits) -> bytes:
    names = {name: record.model for record in shelf for name in record.names}
    if len(names) != sum(len(record.names) for record in shelf):
        raise BookError(f"{provider}: two models have one name")
    taken = names.keys() & {record.model for record in shelf}
    if taken:
        raise BookError(f"{provider}: {sorted(taken)} are models and other names of models")
    blocks = [
        b'"names":{\n' + _rows(dict(sorted(names.items()))) + b"}",
        b'"limits":{\n' + _rows(dict(sorted(limits.get(provider, {}).items()))) + b"}",
        b'"models":{\n' + _rows({record.model: _entry(record) for record in shelf}) + b"}",
    ]
    return msgspec.json.encode(provider) + b":{" + b",\n".join(blocks) + b"}"


def _rows(mapping: dict[str, Any]) -> bytes:
    return b",\n".join(msgspec.json.encode(key) + b":" + msgspec.json.encode(value) for key, value in mapping.items())


def _entry(record: Record) -> Entry:
    return Entry(
        quotes=tuple(_stored(period) for period in record.periods),
        context_window=record.context_window,
        max_output=record.max_output,
    )


def _stored(period: Period) -> Stored:
    return Stored(
        valid_from=period.valid_from,
        valid_until=period.valid_until,
        tiers=dict(sorted(period.tiers.items())),
        multipliers={by: dict(sorted(words.items())) for by, words in sorted(period.multipliers.items())},
        web_search_usd=period.web_search_usd,
        by=_LETTERS[period.sources],
    )


def main(arguments: list[str] | None = None) -> int:
    """The command. Exit code 1: `--check` found another file than would be written."""
    parser = argparse.ArgumentParser(prog="python -m ledger.prices.build", description="Make the price book.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the file is stale")
    options = parser.parse_args(arguments)
    providers, version = installed()
    made = book_bytes(providers, version, load_overlay())
    msgspec.json.decode(made, type=BookFile)
    if options.check:
        same = BOOK_FILE.read_bytes() == made
        sys.stdout.write("the book is current\n" if same else "the book is stale: run python -m ledger.prices.build\n")
        return 0 if same else 1
    BOOK_FILE.write_bytes(made)
    _, left_out = records(providers)
    sys.stdout.write(f"{BOOK_FILE.name}: {len(made)} bytes from genai-prices {version}\n")
    for name, why in sorted(left_out.items()):
        sys.stdout.write(f"left out {name}: {why}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
