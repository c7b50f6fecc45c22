"""What holds for any JSON value at all: no crash, no negative bucket, and the sums (OBS-10, OBS-12)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.wire.counts import MAX_COUNT, split_writes
from ledger.wire.dialects import read, usage_of
from ledger.wire.usage import Reading, Usage


def only(provider: str, endpoint: str, usage: dict[str, Any]) -> Usage:
    (part,) = usage_of(provider, endpoint, usage)
    return part.usage


def chat(usage: dict[str, Any], provider: str = "openai") -> Usage:
    return only(provider, "/v1/chat/completions", usage)


def messages(*usages: Any) -> Reading:
    events = ("message_start", *("message_delta",) * (len(usages) - 1))
    frames = [{"event": event, "usage": usage} for event, usage in zip(events, usages, strict=True)]
    return read("anthropic", "/v1/messages", frames, stream=True)


NAMES = [
    *("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens"),
    *("prompt_tokens_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details"),
    *("reasoning_tokens", "cache_write_tokens", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens"),
    *("cache_creation", "cache_creation_input_tokens", "cache_read_input_tokens", "thinking_tokens"),
    *("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens", "iterations", "type", "model", "cost"),
    *("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
    *("cachedContentTokenCount", "totalTokenCount", "inputTokens", "outputTokens", "totalTokens"),
    *("cacheReadInputTokens", "cacheWriteInputTokens", "cacheDetails", "ttl", "tokens", "billed_units"),
    *("prompt_eval_count", "eval_count", "done", "service_tier", "server_tool_use", "cost_estimate"),
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2000),
    st.sampled_from([MAX_COUNT, MAX_COUNT - 1, 2**63, -(2**70), 12.0, 1.5, float("nan"), float("inf"), 1e300]),
    st.decimals(),
    st.sampled_from(["message", "compaction", "advisor_message", "fallback_message", "5m", "1h"]),
    st.text(max_size=4),
)
KEYS = st.sampled_from(NAMES) | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=8),
    max_leaves=25,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=12)
ROUTES = st.sampled_from(
    [
        ("", ""),
        ("openai", "/v1/chat/completions"),
        ("openai", "/v1/responses"),
        ("anthropic", "/v1/messages"),
        ("google", "/v1beta/models/m:generateContent"),
        ("google", "/v1beta/openai/chat/completions"),
        ("xai", "/v1/chat/completions"),
        ("bedrock", "/model/m/converse"),
        ("cohere", "/v2/chat"),
        ("ollama", "/api/chat"),
    ]
)
FRAMES = st.lists(
    st.fixed_dictionaries(
        {"at": st.sampled_from(["usage", "message.usage"]) | VALUES, "usage": OBJECTS | VALUES},
        optional={"event": st.sampled_from(["message_start", "message_delta"]) | VALUES, "frame": VALUES},
    )
    | VALUES,
    max_size=5,
)


def check_usage(usage: Usage) -> None:
    for name in Usage.__struct_fields__:
        value = getattr(usage, name)
        assert value is None or type(value) in (str, bool) or (type(value) is int and 0 <= value <= MAX_COUNT)
    assert usage.reasoning is None or usage.output is None or usage.reasoning <= usage.output
    assert not usage.upper_bound or (usage.input_uncached is not None and usage.cache_read is None)
    assert (usage.cache_write_5m is None) or not usage.unsplit_cache_write or usage.cache_write_1h is not None


class TestAnyJson:
    @settings(deadline=None)
    @given(route=ROUTES, usage=OBJECTS)
    def test_one_object(self, route: tuple[str, str], usage: dict[str, Any]) -> None:
        """No value crashes a reader, and no bucket is negative, fractional or too large."""
        for part in usage_of(*route, usage):
            check_usage(part.usage)
            part.model.encode()

    @settings(deadline=None)
    @given(route=ROUTES, frames=FRAMES, streamed=st.booleans())
    def test_frames(self, route: tuple[str, str], frames: list[Any], streamed: bool) -> None:
        reading = read(*route, frames, stream=streamed)
        for part in reading.parts:
            check_usage(part.usage)
        cost = reading.reported_cost_usd
        assert cost is None or (cost >= 0 and "E" not in format(cost, "f"))
        assert not (reading.unknown and reading.partial)


COUNTS = st.integers(0, 10**9)


class TestSums:
    """Buckets are disjoint and sum to the provider's total, where it gives one (OBS-12)."""

    @given(uncached=COUNTS, cached=COUNTS, written=COUNTS, answer=COUNTS, thoughts=COUNTS, inside=st.booleans())
    def test_openai_and_xai(
        self, uncached: int, cached: int, written: int, answer: int, thoughts: int, inside: bool
    ) -> None:
        prompt = uncached + cached + written
        usage = chat(
            {
                "prompt_tokens": prompt,
                "completion_tokens": answer + thoughts if inside else answer,
                "total_tokens": prompt + answer + thoughts,
                "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
                "completion_tokens_details": {"reasoning_tokens": thoughts},
            },
            "openai" if inside else "xai",
        )
        assert usage.bucket_total == usage.reported_total
        assert (usage.input_uncached, usage.cache_read, usage.cache_write_5m) == (uncached, cached, written)
        assert (usage.output, usage.reasoning) == (answer + thoughts, thoughts)

    @given(uncached=COUNTS, cached=COUNTS, tools=COUNTS, answer=COUNTS, thoughts=COUNTS)
    def test_gemini(self, uncached: int, cached: int, tools: int, answer: int, thoughts: int) -> None:
        fields = {
            "promptTokenCount": uncached + cached,
            "cachedContentTokenCount": cached,
            "toolUsePromptTokenCount": tools,
            "candidatesTokenCount": answer,
            "thoughtsTokenCount": thoughts,
            "totalTokenCount": uncached + cached + tools + answer + thoughts,
        }
        said = {name: value for name, value in fields.items() if value or name == "totalTokenCount"}
        usage = only("google", "/v1beta/models/m:generateContent", said)
        assert usage.bucket_total == usage.reported_total

    @given(given_=COUNTS, cached=COUNTS, written=COUNTS, output=COUNTS)
    def test_bedrock(self, given_: int, cached: int, written: int, output: int) -> None:
        usage = only(
            "bedrock",
            "/model/m/converse",
            {
                "inputTokens": given_,
                "cacheReadInputTokens": cached,
                "cacheWriteInputTokenCount": written,
                "outputTokens": output,
                "totalTokens": given_ + cached + written + output,
            },
        )
        assert usage.bucket_total == usage.reported_total

    @given(written=COUNTS, five=st.none() | COUNTS, hour=st.none() | COUNTS)
    def test_writes_keep_their_total(self, written: int, five: int | None, hour: int | None) -> None:
        short, long, _ = split_writes(written, five, hour)
        assert short is not None and long is not None and min(short, long) >= 0 and short + long == written

    @given(values=st.lists(st.tuples(st.none() | COUNTS, st.none() | COUNTS), min_size=1, max_size=6))
    def test_a_stream_is_its_last_known_values(self, values: list[tuple[int | None, int | None]]) -> None:
        reading = messages(*({"input_tokens": given_, "output_tokens": output} for given_, output in values))
        for position, name in enumerate(("input_uncached", "output")):
            last = next((each[position] for each in reversed(values) if each[position] is not None), None)
            assert {getattr(part.usage, name) for part in reading.parts} <= {last}
