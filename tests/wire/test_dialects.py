"""Each trap of the usage dialects but Anthropic's, with other numbers than the samples (OBS-11, OBS-22)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from ledger.wire.dialects import dialect_of, read, usage_of
from ledger.wire.usage import Reading, Usage


def only(provider: str, endpoint: str, usage: dict[str, Any]) -> Usage:
    (part,) = usage_of(provider, endpoint, usage)
    return part.usage


def chat(usage: dict[str, Any], provider: str = "openai") -> Usage:
    return only(provider, "/v1/chat/completions", usage)


def stream(provider: str, endpoint: str, *usages: Any, events: tuple[str | None, ...] = ()) -> Reading:
    named = events or (None,) * len(usages)
    frames = [{"at": "usage", "event": event, "usage": usage} for usage, event in zip(usages, named, strict=True)]
    return read(provider, endpoint, frames, stream=True)


class TestOpenAI:
    def test_cached_and_written_are_inside_the_prompt(self) -> None:
        details = {"cached_tokens": 700, "cache_write_tokens": 200}
        usage = chat({"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": details})
        assert (usage.input_uncached, usage.cache_read) == (100, 700)
        assert (usage.cache_write_5m, usage.cache_write_1h) == (200, 0)
        assert not usage.upper_bound and not usage.unsplit_cache_write

    def test_only_openai_has_one_class_of_writes(self) -> None:
        details = {"cached_tokens": 0, "cache_write_tokens": 200}
        assert chat({"prompt_tokens": 900, "prompt_tokens_details": details}, "openrouter").unsplit_cache_write

    def test_cached_unknown_is_an_upper_bound(self) -> None:
        usage = chat({"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": None})
        assert (usage.input_uncached, usage.cache_read, usage.upper_bound) == (1000, None, True)
        assert usage.cache_write_5m is None and usage.cache_write_1h is None

    def test_responses_names(self) -> None:
        usage = only(
            "openai",
            "/v1/responses",
            {
                "input_tokens": 900,
                "input_tokens_details": {"cached_tokens": 300, "cache_write_tokens": 0},
                "output_tokens": 80,
                "output_tokens_details": {"reasoning_tokens": 64},
                "total_tokens": 980,
            },
        )
        assert (usage.input_uncached, usage.cache_read, usage.cache_write_5m) == (600, 300, 0)
        assert (usage.output, usage.reasoning, usage.bucket_total) == (80, 64, 980)

    def test_responses_stream(self) -> None:
        real = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
        events = ("response.created", "response.in_progress", "response.completed")
        whole = stream("openai", "/v1/responses", None, None, real, events=events)
        assert not whole.partial and whole.parts[0].usage.output == 3
        cut = stream("openai", "/v1/responses", None, None, events=events[:2])
        assert cut.unknown and not cut.partial
        early = stream("openai", "/v1/responses", None, real, events=events[:2])
        assert early.partial

    def test_background_is_unknown_until_polled(self) -> None:
        frames: list[dict[str, Any]] = [{"usage": None}, {"usage": {"input_tokens": 5}}]
        assert read("openai", "/v1/responses/resp_1", frames[:1], stream=False).unknown
        assert not read("openai", "/v1/responses/resp_1", frames, stream=False).unknown

    def test_nothing_in_a_stream_is_unknown_and_not_zero(self) -> None:
        reading = stream("openai", "/v1/chat/completions", None, {}, None)
        assert reading == Reading(parts=())

    @pytest.mark.parametrize("name", ["cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens"])
    def test_cached_at_the_top_level(self, name: str) -> None:
        usage = chat({"prompt_tokens": 90, "prompt_tokens_details": None, name: 70}, "mistral")
        assert (usage.input_uncached, usage.cache_read) == (20, 70)

    def test_hit_and_miss_are_the_prompt(self) -> None:
        usage = chat({"prompt_cache_hit_tokens": 30, "prompt_cache_miss_tokens": 12}, "deepseek")
        assert (usage.input_uncached, usage.cache_read) == (12, 30)
        usage = chat({"prompt_tokens": 42, "prompt_cache_miss_tokens": 12}, "deepseek")
        assert (usage.input_uncached, usage.cache_read) == (12, 30)

    def test_codex_names(self) -> None:
        usage = only(
            "openai",
            "",
            {
                "input_tokens": 500,
                "cached_input_tokens": 400,
                "output_tokens": 30,
                "reasoning_output_tokens": 20,
                "total_tokens": 530,
            },
        )
        assert (usage.input_uncached, usage.cache_read, usage.reasoning) == (100, 400, 20)

    def test_embeddings_have_no_output(self) -> None:
        usage = only("openai", "/v1/embeddings", {"prompt_tokens": 9, "total_tokens": 9})
        assert (usage.input_uncached, usage.output) == (9, None)


class TestTotalsDecide:
    """xAI and Gemini by the OpenAI route: where reasoning stands is read from the total (OBS-12, OBS-22)."""

    CASE: ClassVar[dict[str, Any]] = {
        "prompt_tokens": 40,
        "completion_tokens": 10,
        "completion_tokens_details": {"reasoning_tokens": 200},
    }

    def test_xai_outside(self) -> None:
        usage = chat({**self.CASE, "total_tokens": 250}, "xai")
        assert (usage.output, usage.reasoning, usage.bucket_total) == (210, 200, 250)

    def test_xai_without_a_total_is_outside(self) -> None:
        assert chat(self.CASE, "xai").output == 210

    def test_xai_inside_where_the_total_says_so(self) -> None:
        inside = {"prompt_tokens": 40, "completion_tokens": 210, "total_tokens": 250}
        usage = chat({**inside, "completion_tokens_details": {"reasoning_tokens": 200}}, "xai")
        assert (usage.output, usage.reasoning) == (210, 200)

    def test_xai_stream_has_empty_frames(self) -> None:
        first, last = {**self.CASE, "total_tokens": 250}, {"prompt_tokens": 40, "completion_tokens": 12}
        reading = stream("xai", "/v1/chat/completions", {}, first, {}, last, {})
        assert reading.parts[0].usage.output == 12

    def test_a_gateway_before_xai(self) -> None:
        assert chat({**self.CASE, "total_tokens": 250}, "some-gateway").output == 210

    def test_openai_keeps_its_own_sum(self) -> None:
        """A total that no rule explains is kept beside, not explained away."""
        usage = chat({"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 77})
        assert (usage.output, usage.reported_total, usage.bucket_total) == (10, 77, 50)

    @pytest.mark.parametrize("completion", [{"completion_tokens": 10}, {}])
    def test_gemini_hides_thoughts(self, completion: dict[str, int]) -> None:
        usage = only(
            "google",
            "/v1beta/openai/chat/completions",
            {"prompt_tokens": 40, "total_tokens": 300, **completion},
        )
        assert (usage.output, usage.reasoning, usage.bucket_total) == (260, None, 300)


class TestGemini:
    ENDPOINT = "/v1beta/models/gemini-3-pro:streamGenerateContent"

    def test_thoughts_and_tool_prompt_are_outside(self) -> None:
        usage = only(
            "google",
            self.ENDPOINT,
            {
                "promptTokenCount": 1000,
                "cachedContentTokenCount": 600,
                "toolUsePromptTokenCount": 50,
                "candidatesTokenCount": 70,
                "thoughtsTokenCount": 30,
                "totalTokenCount": 1150,
                "serviceTier": "priority",
            },
        )
        assert (usage.input_uncached, usage.cache_read, usage.tool_use_prompt) == (450, 600, 50)
        assert (usage.output, usage.reasoning, usage.bucket_total) == (100, 30, 1150)
        assert usage.service_tier == "priority"

    def test_left_out_is_zero_and_no_upper_bound(self) -> None:
        usage = only("google", self.ENDPOINT, {"promptTokenCount": 15, "totalTokenCount": 15})
        assert (usage.input_uncached, usage.output, usage.cache_read) == (15, 0, None)
        assert not usage.upper_bound

    def test_the_last_frame_counts_even_where_it_falls(self) -> None:
        first = {"promptTokenCount": 90, "candidatesTokenCount": 9, "thoughtsTokenCount": 5}
        reading = stream("google", self.ENDPOINT, first, {"promptTokenCount": 80, "candidatesTokenCount": 4})
        (part,) = reading.parts
        assert (part.usage.input_uncached, part.usage.output, part.usage.reasoning) == (80, 4, None)

    def test_nonsense_is_unknown_and_not_zero(self) -> None:
        usage = only("google", self.ENDPOINT, {"promptTokenCount": -4, "candidatesTokenCount": "9"})
        assert (usage.input_uncached, usage.output) == (None, None)


class TestOthers:
    @pytest.mark.parametrize("ending", ["Tokens", "TokenCount"])
    def test_bedrock_under_two_names(self, ending: str) -> None:
        usage = only(
            "bedrock",
            "/model/m/converse",
            {
                "inputTokens": 10,
                "outputTokens": 4,
                "totalTokens": 1114,
                f"cacheReadInput{ending}": 800,
                f"cacheWriteInput{ending}": 300,
                "cacheReadInputTokens": 800,
            },
        )
        assert (usage.input_uncached, usage.cache_read, usage.cache_write_5m) == (10, 800, 300)
        assert usage.bucket_total == 1114 and usage.unsplit_cache_write and not usage.upper_bound

    def test_bedrock_details_split_the_writes(self) -> None:
        details: list[Any] = [
            {"ttl": "1h", "inputTokens": 100},
            {"ttl": "5m", "inputTokens": 200},
            None,
            {"ttl": []},
        ]
        usage = only(
            "bedrock",
            "/model/m/converse-stream",
            {"inputTokens": 1, "cacheWriteInputTokens": 300, "cacheDetails": details},
        )
        assert (usage.cache_write_5m, usage.cache_write_1h, usage.unsplit_cache_write) == (200, 100, False)

    def test_cohere_keeps_tokens_and_billed_units(self) -> None:
        usage = only(
            "cohere",
            "/v2/chat",
            {
                "tokens": {"input_tokens": 90, "output_tokens": 12},
                "billed_units": {"input_tokens": 30.0, "output_tokens": 10},
            },
        )
        assert (usage.input_uncached, usage.output, usage.upper_bound) == (90, 12, True)
        assert (usage.billed_input, usage.billed_output) == (30, 10)

    def test_ollama_counts_stand_at_the_top_level(self) -> None:
        lines = [{"response": "a", "done": False}, {"done": True, "prompt_eval_count": 8, "eval_count": 3}]
        reading = stream("ollama", "/api/chat", *lines)
        (part,) = reading.parts
        assert (part.usage.input_uncached, part.usage.output, reading.partial) == (8, 3, False)
        early = stream("ollama", "/api/chat", {"done": False, "prompt_eval_count": 8, "eval_count": 3})
        assert early.partial

    def test_groq_counts_once(self) -> None:
        whole = {"prompt_tokens": 50, "completion_tokens": 9, "total_tokens": 59}
        part = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24}
        frames = [
            {"frame": 7, "at": "x_groq.usage", "usage": {**whole, "queue_time": 0.1}},
            {"frame": 7, "at": "usage", "usage": {**whole, "prompt_tokens_details": {"cached_tokens": 40}}},
            {"frame": 7, "at": "x_groq.usage_breakdown.models[].usage", "usage": part},
        ]
        for order in (frames, frames[::-1]):
            (found,) = read("groq", "/openai/v1/chat/completions", order, stream=True).parts
            assert (found.usage.input_uncached, found.usage.cache_read, found.usage.output) == (10, 40, 9)


class TestChoice:
    @pytest.mark.parametrize(
        ("provider", "endpoint", "name"),
        [
            ("anthropic", "", "anthropic"),
            ("Azure-OpenAI", "/openai/deployments/x/chat/completions?api-version=1", "openai"),
            ("gateway", "/anthropic/v1/messages", "anthropic"),
            ("openrouter", "/api/v1/messages/", "anthropic"),
            ("mistral", "/v1/chat/completions#stream", "openai-compatible"),
            ("xai", "/v1/responses", "xai"),
            ("google", "/v1beta/openai/chat/completions", "gemini-by-openai"),
            ("vertex", "/v1/publishers/google/models/m:generateContent", "gemini"),
            ("xllamacpp", "/v1/chat/completions", "openai-compatible"),
            ("ollama", "/v1/chat/completions", "openai-compatible"),
            ("ollama", "/api/generate", "ollama"),
        ],
    )
    def test_by_name(self, provider: str, endpoint: str, name: str) -> None:
        dialect = dialect_of(provider, endpoint)
        assert dialect is not None and dialect.name == name

    @pytest.mark.parametrize(
        ("provider", "endpoint"),
        [("", ""), ("new-cloud", "/run"), ("bedrock", "/model/m/invoke"), ("vertex", "/m:rawPredict")],
    )
    @pytest.mark.parametrize(
        ("usage", "cache_read"),
        [
            ({"input_tokens": 3, "output_tokens": 7, "cache_read_input_tokens": 5}, 5),
            ({"input_tokens": 3, "output_tokens": 7}, None),
            ({"prompt_tokens": 8, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}, 5),
            ({"promptTokenCount": 8, "candidatesTokenCount": 7, "cachedContentTokenCount": 5}, 5),
            ({"inputTokens": 3, "outputTokens": 7, "cacheReadInputTokens": 5}, 5),
            ({"tokens": {"input_tokens": 8, "output_tokens": 7}, "cached_tokens": 5}, 5),
            ({"prompt_eval_count": 3, "eval_count": 7}, None),
        ],
    )
    def test_by_shape(self, provider: str, endpoint: str, usage: dict[str, Any], cache_read: int | None) -> None:
        found = only(provider, endpoint, usage)
        assert (found.input_uncached, found.cache_read, found.output) == (3, cache_read, 7)


def test_reading_needs_no_heavy_module() -> None:
    """A hook and an import start with these modules: only the standard library and msgspec behind them."""
    code = "import sys, json, ledger.wire.read_file; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    banned = {"sqlalchemy", "typer", "rich", "genai_prices", "pydantic", "httpx", "alembic", "asyncio"}
    assert banned.isdisjoint(name.partition(".")[0] for name in loaded)
