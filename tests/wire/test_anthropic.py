"""Anthropic's frames, cache writes and iterations, with other numbers than the samples (OBS-13)."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.wire import anthropic
from ledger.wire.counts import split_writes
from ledger.wire.dialects import read, usage_of
from ledger.wire.usage import Reading, Usage


def claude(usage: dict[str, Any]) -> Usage:
    (part,) = anthropic.parts(usage)
    return part.usage


def stream(provider: str, endpoint: str, *usages: Any, events: tuple[str | None, ...] = ()) -> Reading:
    named = events or (None,) * len(usages)
    frames = [{"at": "usage", "event": event, "usage": usage} for usage, event in zip(usages, named, strict=True)]
    return read(provider, endpoint, frames, stream=True)


def messages(*usages: Any) -> Reading:
    events = ("message_start", *("message_delta",) * (len(usages) - 1))
    return stream("anthropic", "/v1/messages", *usages, events=events)


class TestAnthropic:
    def test_input_excludes_the_cache(self) -> None:
        usage = claude(
            {
                "input_tokens": 5,
                "output_tokens": 60,
                "cache_read_input_tokens": 9000,
                "cache_creation_input_tokens": 300,
                "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
                "output_tokens_details": {"thinking_tokens": 44},
                "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
                "service_tier": "batch",
                "speed": "fast",
                "inference_geo": "not_available",
            }
        )
        assert (usage.input_uncached, usage.cache_read, usage.output, usage.reasoning) == (5, 9000, 60, 44)
        assert (usage.cache_write_5m, usage.cache_write_1h, usage.unsplit_cache_write) == (100, 200, False)
        assert (usage.web_searches, usage.service_tier, usage.speed) == (2, "batch", "fast")
        assert usage.region == "not_available" and not usage.upper_bound

    @pytest.mark.parametrize(
        ("written", "five", "hour", "expected"),
        [
            (500, 0, 0, (500, 0, True)),
            (500, None, None, (500, 0, True)),
            (500, None, 500, (0, 500, False)),
            (500, 100, 150, (350, 150, True)),
            (500, 400, 300, (400, 100, True)),
            (0, 0, 0, (0, 0, False)),
            (0, None, None, (0, 0, False)),
            (0, 7, 8, (0, 0, True)),
            (None, 7, 8, (7, 8, False)),
            (None, None, None, (None, None, False)),
        ],
    )
    def test_split_of_writes(self, written: Any, five: Any, hour: Any, expected: Any) -> None:
        assert split_writes(written, five, hour) == expected
        usage = claude(
            {
                "cache_creation_input_tokens": written,
                "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour},
            }
        )
        assert (usage.cache_write_5m, usage.cache_write_1h, usage.unsplit_cache_write) == expected

    def test_old_shape_knows_no_cache(self) -> None:
        usage = claude({"input_tokens": 70, "output_tokens": 8})
        assert (usage.cache_read, usage.cache_write_5m, usage.cache_write_1h) == (None, None, None)
        assert not usage.upper_bound

    def test_frames_are_merged_and_never_added(self) -> None:
        start = {
            "input_tokens": 20,
            "cache_creation_input_tokens": 90,
            "cache_creation": {"ephemeral_5m_input_tokens": 90, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 3,
            "service_tier": "standard",
        }
        middle = {"output_tokens": 40, "input_tokens": None, "cache_creation": None, "service_tier": None}
        last = {
            "input_tokens": 25,
            "output_tokens": 66,
            "cache_creation": {"ephemeral_5m_input_tokens": None},
        }
        reading = messages(start, middle, last)
        (part,) = reading.parts
        assert (part.usage.input_uncached, part.usage.output, part.usage.cache_write_5m) == (25, 66, 90)
        assert part.usage.service_tier == "standard" and not reading.partial

    def test_what_is_no_count_erases_no_count(self) -> None:
        (part,) = messages({"input_tokens": 20, "output_tokens": 1}, {"input_tokens": -1, "output_tokens": 9}).parts
        assert part.usage.input_uncached == 20

    def test_a_writing_that_grew_after_its_split(self) -> None:
        start = {"cache_creation_input_tokens": 100, "cache_creation": {"ephemeral_1h_input_tokens": 100}}
        (part,) = messages(start, {"cache_creation_input_tokens": 160, "output_tokens": 5}).parts
        assert (part.usage.cache_write_5m, part.usage.cache_write_1h) == (60, 100)
        assert part.usage.unsplit_cache_write

    def test_partial(self) -> None:
        start = {"input_tokens": 20, "output_tokens": 1}
        assert messages(start).partial
        assert messages(start, {"output_tokens": None}).partial
        assert not messages(start, {"output_tokens": 50}).partial
        assert not stream("anthropic", "/v1/messages", start, {"output_tokens": 50}).partial
        assert stream("anthropic", "/v1/messages", start).partial
        by_place: list[dict[str, Any]] = [{"at": "message.usage", "usage": start}]
        assert read("anthropic", "/v1/messages", by_place, stream=True).partial
        body: list[dict[str, Any]] = [{"at": "usage", "usage": start}]
        assert not read("anthropic", "/v1/messages", body, stream=False).partial

    def test_local_server_without_cache_creation(self) -> None:
        (part,) = usage_of("llama.cpp", "/v1/messages", {"cache_read_input_tokens": 9, "input_tokens": 1})
        usage = part.usage
        assert (usage.cache_read, usage.cache_write_5m, usage.cache_write_1h) == (9, None, None)


def entry(kind: object, given: int, output: int, model: str | None = None) -> dict[str, Any]:
    named = {} if model is None else {"model": model}
    return {"type": kind, "input_tokens": given, "output_tokens": output, **named}


def rows(given: int, output: int, *iterations: object, **more: Any) -> list[tuple[str, str, int | None, int | None]]:
    usage = {"input_tokens": given, "output_tokens": output, "iterations": list(iterations), **more}
    return [(part.role, part.model, part.usage.input_uncached, part.usage.output) for part in anthropic.parts(usage)]


class TestIterations:
    """Calls that the provider made beside the answer are rows of their own, each counted once (OBS-08)."""

    def test_advisor_and_compaction(self) -> None:
        found = rows(
            300,
            30,
            entry("compaction", 9000, 400),
            entry("message", 100, 10),
            entry("advisor_message", 500, 50, "big-model"),
            entry("message", 200, 20),
        )
        assert found == [
            ("message", "", 300, 30),
            ("compaction", "", 9000, 400),
            ("advisor", "big-model", 500, 50),
        ]

    def test_a_fallback_that_the_top_level_leaves_out(self) -> None:
        found = rows(300, 30, entry("message", 300, 30), entry("fallback_message", 500, 50, "second"))
        assert found == [("message", "", 300, 30), ("fallback", "second", 500, 50)]

    def test_a_fallback_that_the_top_level_repeats(self) -> None:
        """The declined attempt is then the one left out."""
        found = rows(412, 264, entry("message", 535, 7, "first"), entry("fallback_message", 412, 264, "second"))
        assert found == [("fallback", "second", 412, 264), ("message", "first", 535, 7)]

    def test_a_fallback_alone(self) -> None:
        assert rows(40, 9, entry("fallback_message", 40, 9, "second")) == [("fallback", "second", 40, 9)]

    def test_a_stream_that_kept_the_input_of_the_declined_attempt(self) -> None:
        found = rows(535, 264, entry("message", 535, 7, "first"), entry("fallback_message", 412, 264, "second"))
        assert found == [("fallback", "second", 412, 264), ("message", "first", 535, 7)]

    def test_an_unknown_kind_is_not_dropped(self) -> None:
        found = rows(300, 30, entry("message", 300, 30), entry("critic", 60, 6), entry(7, 70, 7, "judge"))
        assert found == [("message", "", 300, 30), ("other", "", 60, 6), ("other", "judge", 70, 7)]

    def test_an_unknown_kind_inside_the_top_level_is_not_counted_twice(self) -> None:
        assert rows(300, 30, entry(None, 100, 10), entry(None, 200, 20)) == [("message", "", 300, 30)]

    def test_without_a_top_level_the_entries_count(self) -> None:
        usage = {"iterations": [entry("message", 100, 10), entry("advisor_message", 50, 5, "big")]}
        assert [part.usage.output for part in anthropic.parts(usage)] == [10, 5]

    def test_tier_and_region_are_the_requests(self) -> None:
        usage = {
            "input_tokens": 1,
            "output_tokens": 1,
            "service_tier": "batch",
            "inference_geo": "us",
            "speed": "fast",
            "iterations": [entry("compaction", 9, 9), entry("advisor_message", 5, 5, "big")],
        }
        own, compaction, advisor = (part.usage for part in anthropic.parts(usage))
        assert {own.service_tier, compaction.service_tier, advisor.service_tier} == {"batch"}
        assert {own.region, compaction.region, advisor.region} == {"us"}
        assert (own.speed, compaction.speed, advisor.speed) == ("fast", "fast", None)

    def test_whose_thinking_it_was_is_unknown_with_two_models(self) -> None:
        usage = {
            "input_tokens": 1,
            "output_tokens": 40,
            "output_tokens_details": {"thinking_tokens": 28},
            "iterations": [entry("message", 1, 40), entry("advisor_message", 5, 5, "big")],
        }
        assert [part.usage.reasoning for part in anthropic.parts(usage)] == [None, None]

    @pytest.mark.parametrize("iterations", [None, {}, 5, "x", [], [None, 3, "x"]])
    def test_iterations_of_no_use(self, iterations: object) -> None:
        (part,) = anthropic.parts({"input_tokens": 1, "output_tokens": 2, "iterations": iterations})
        assert part.usage.output == 2

    def test_a_model_name_is_safe_to_print(self) -> None:
        found = rows(1, 1, entry("advisor_message", 5, 5, "a\x1b[31mb\ud800"))
        assert found[1][1] == "a\ufffd[31mb\ufffd"


def test_a_deep_object_is_no_problem() -> None:
    usage: dict[str, Any] = {}
    for _ in range(100_000):
        usage = {"cache_creation": usage}
    assert messages({"input_tokens": 3, **usage}, {"output_tokens": 4, **usage}).parts[0].usage.output == 4
