"""Quotes are named by what they priced and read back the same (OBS-51)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.errors import LedgerError
from ledger.prices.own import quote_from_rates
from ledger.prices.quote import (
    Band,
    PriceError,
    Quote,
    canonical_decimal,
    canonical_instant,
    changed,
    instant_us,
    scaled,
)

QUOTE = Quote(
    provider="anthropic",
    model="claude-opus-4-5",
    valid_from="2025-11-24T00:00:00Z",
    tiers={"standard": (Band(input="5", output="25"), Band(above=200_000, input="10"))},
    multipliers={"region": {"us": "1.1"}},
    web_search_usd="0.01",
    context_window=200_000,
    source="test",
    source_version="1",
    checked_at="2026-11-30T00:00:00Z",
)


def test_the_name_is_stable() -> None:
    """A frozen vector: a log names quotes for ever, so the recipe may not move."""
    assert QUOTE.name == "8d14305c8d0efa5dcab83b3724771f23e706d70983fab330ee1fe9bf89403400"


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "openai"},
        {"model": "claude-opus-4-6"},
        {"valid_from": None},
        {"valid_until": "2027-01-01T00:00:00Z"},
        {"tiers": {"standard": (Band(input="5", output="25"),)}},
        {"multipliers": {}},
        {"web_search_usd": None},
        {"source": "user"},
        {"source_version": "2"},
    ],
)
def test_what_determines_the_price_renames(change: dict[str, object]) -> None:
    assert replace(QUOTE, **change).name != QUOTE.name


@pytest.mark.parametrize("change", [{"checked_at": None}, {"context_window": None}, {"max_output": 1}])
def test_what_does_not_price_does_not_rename(change: dict[str, object]) -> None:
    assert replace(QUOTE, **change).name == QUOTE.name


def test_the_order_of_mappings_does_not_rename() -> None:
    one = replace(QUOTE, tiers={"standard": (), "batch": ()})
    assert one.name == replace(QUOTE, tiers={"batch": (), "standard": ()}).name


def test_round_trip() -> None:
    again = Quote.from_json(QUOTE.to_json())
    assert again == QUOTE
    assert again.name == QUOTE.name
    with pytest.raises(PriceError, match="this is no quote"):
        Quote.from_json(b'{"provider": 3}')


def test_an_end_is_exclusive() -> None:
    quote = replace(QUOTE, valid_from="2026-03-13T00:00:00Z", valid_until="2026-03-14T00:00:00Z")
    start_us, end_us = 1_773_360_000_000_000, 1_773_446_400_000_000
    assert quote.valid_us == (start_us, end_us)
    assert [quote.covers(at) for at in (start_us - 1, start_us, end_us - 1, end_us)] == [
        False,
        True,
        True,
        False,
    ]


def test_instants() -> None:
    assert instant_us("2026-03-13T02:00:00+02:00") == instant_us("2026-03-13") == 1_773_360_000_000_000
    assert instant_us("1969-12-31T23:59:59.999999Z") == -1
    assert canonical_instant("2026-03-13T02:00:00.5+02:00") == "2026-03-13T00:00:00.500000Z"
    for text in ("yesterday", "2026-13-01", ""):
        with pytest.raises(PriceError, match="an instant is written like"):
            instant_us(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5.0", "5"),
        ("00.50", "0.5"),
        ("1E+2", "100"),
        ("1e-9", "0.000000001"),
        ("0e-99", "0"),
        ("100", "100"),
    ],
)
def test_one_spelling_of_a_decimal(text: str, expected: str) -> None:
    assert canonical_decimal(text) == expected


NO_RATES = ["", "free", "-1", "-0.1", "nan", "inf", "1e-10", "0.1234567891", "1e9", "1e999999", "1_0", "٣"]


@pytest.mark.parametrize("text", [*NO_RATES, "1,5", "5 USD", "5.000000000000000000000000000000000001"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(PriceError) as caught:
        quote_from_rates("m", input=text)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("input ")
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, LedgerError)


@given(st.integers(0, 10**18 - 1))
def test_decimals_are_exact(number: int) -> None:
    text = f"{number // 10**9}.{number % 10**9:09d}"
    assert scaled(canonical_decimal(text)) == scaled(text) == number


def test_quote_from_rates() -> None:
    quote = quote_from_rates(
        "acme-coder-9", "xAI", input="1.50", output="6", web_search_usd="0.010", valid_from="2026-01-01"
    )
    assert quote == Quote(
        provider="x-ai",
        model="acme-coder-9",
        valid_from="2026-01-01T00:00:00Z",
        tiers={"standard": (Band(input="1.5", output="6"),)},
        web_search_usd="0.01",
        source="user",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "", "input": "1"}, "needs the name of a model"),
        ({"model": " m", "input": "1"}, "needs the name of a model"),
        ({"model": "m\x1b[31m", "input": "1"}, "needs the name of a model"),
        ({"model": "m"}, "needs at least one rate"),
        ({"model": "m", "input": "1", "valid_from": "2026-01-02", "valid_until": "2026-01-02"}, "cannot end"),
        ({"model": "m", "input": "1", "valid_from": "soon"}, "an instant is written like"),
    ],
)
def test_what_is_no_quote(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(PriceError, match=message):
        quote_from_rates(**arguments)  # type: ignore[arg-type]


def test_changed_names_what_differs() -> None:
    assert changed(None, QUOTE) == ("quote",)
    assert changed(QUOTE, replace(QUOTE, source_version="2", checked_at=None)) == ()
    fresh = replace(
        QUOTE,
        valid_until="2027-01-01T00:00:00Z",
        tiers={"standard": (Band(input="4", output="25"),)},
        multipliers={},
    )
    assert changed(QUOTE, fresh) == (
        "multipliers.region.us",
        "tiers.standard.0.input",
        "tiers.standard.200000.input",
        "valid_until",
    )
