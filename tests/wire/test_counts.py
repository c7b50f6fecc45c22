"""Single numbers and costs out of foreign JSON (OBS-10)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ledger.wire.counts import MAX_COUNT, cost_of, count
from ledger.wire.dialects import read, usage_of
from ledger.wire.usage import Usage


def chat(usage: dict[str, Any]) -> Usage:
    (part,) = usage_of("openai", "/v1/chat/completions", usage)
    return part.usage


class TestCounts:
    """A doubtful number is unknown, never zero (OBS-10)."""

    @pytest.mark.parametrize("value", [0, 7, 12.0, Decimal("12.0"), MAX_COUNT])
    def test_a_count(self, value: object) -> None:
        assert count(value) == value and type(count(value)) is int

    @pytest.mark.parametrize(
        "value",
        [None, True, "7", -1, 1.5, float("nan"), float("inf"), MAX_COUNT + 1, 1e19, [], {}, -0.5]
        + [Decimal(text) for text in ("-1", "1.5", "NaN", "sNaN", "Infinity", "1e999999", "1e-999999")],
    )
    def test_no_count(self, value: object) -> None:
        assert count(value) is None

    def test_a_bad_part_does_not_spoil_the_rest(self) -> None:
        usage = chat({"prompt_tokens": "60", "completion_tokens": 8, "total_tokens": -3})
        assert (usage.input_uncached, usage.output, usage.reported_total) == (None, 8, None)

    def test_more_cached_than_given_keeps_cached(self) -> None:
        usage = chat({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 25}})
        assert (usage.input_uncached, usage.cache_read) == (0, 25)

    def test_more_reasoning_than_output_is_unknown(self) -> None:
        usage = chat({"completion_tokens": 10, "completion_tokens_details": {"reasoning_tokens": 25}})
        assert (usage.output, usage.reasoning) == (10, None)


class TestCosts:
    @pytest.mark.parametrize(
        ("usage", "cost"),
        [
            ({"cost": 4e-05}, "0.00004"),
            ({"cost": Decimal("0.10")}, "0.10"),
            ({"cost": 0}, "0"),
            ({"cost": {"total_cost": 0.006}}, "0.006"),
            ({"any_gateway": {"cost_estimate": 0.00019199999999999998}}, "0.00019199999999999998"),
            ({"cost_in_usd_ticks": 318319000}, "0.0318319000"),
        ],
    )
    def test_a_figure(self, usage: dict[str, Any], cost: str) -> None:
        found = cost_of(usage)
        assert found is not None and format(found, "f") == cost

    @pytest.mark.parametrize(
        "cost",
        [None, True, "0.1", -0.1, float("nan"), 1e300, 1e-300, Decimal("1e999999"), Decimal("sNaN"), []],
    )
    def test_no_figure(self, cost: object) -> None:
        assert cost_of({"cost": cost}) is None

    def test_the_last_figure_of_a_stream_counts(self) -> None:
        reading = read(
            "openrouter",
            "/api/v1/chat/completions",
            [{"usage": usage} for usage in ({"cost": 0.1}, {"cost": 0.3}, None)],
            stream=True,
        )
        assert reading.reported_cost_usd == Decimal("0.3") and reading.unknown
