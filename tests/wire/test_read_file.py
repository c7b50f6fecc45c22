"""The body of `ledger usage`: what files it takes, returns and refuses, and how (OBS-10, OBS-11)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.wire.read_file import BUCKETS, UsageFileError, read_usage_file

CHAT = ("openai", "/v1/chat/completions")
CLAUDE = ("anthropic", "/v1/messages")
START = {
    "type": "message_start",
    "message": {"model": "m", "usage": {"input_tokens": 30, "output_tokens": 1}},
}
DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 12}}


def written(folder: Path, content: Any, name: str = "usage.json") -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def lines(*frames: Any) -> str:
    return "\n".join(json.dumps(frame) for frame in frames) + "\n"


class TestWhatItReturns:
    def test_all_keys_are_there(self, tmp_path: Path) -> None:
        usage = {
            "prompt_tokens": 280,
            "completion_tokens": 40,
            "total_tokens": 320,
            "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 0},
        }
        assert read_usage_file(written(tmp_path, usage), *CHAT, False) == {
            "by_model": {
                "": {
                    "input_uncached": 200,
                    "cache_read": 80,
                    "cache_write_5m": 0,
                    "cache_write_1h": 0,
                    "output": 40,
                    "reasoning": None,
                    "reported_total": 320,
                }
            },
            "unknown": False,
            "partial": False,
            "upper_bound": False,
            "reported_cost_usd": None,
        }

    @pytest.mark.parametrize("content", ["{}", "[]", '{"usage": null}', '[{"usage": null}, {"usage": {}}]'])
    def test_no_usage_is_unknown_in_every_bucket(self, tmp_path: Path, content: str) -> None:
        result = read_usage_file(written(tmp_path, content), *CHAT, True)
        assert result["by_model"] == {"": dict.fromkeys(BUCKETS)}
        assert result["unknown"] and not result["partial"] and not result["upper_bound"]

    def test_parts_of_one_model_are_summed_and_unknown_adds_nothing(self, tmp_path: Path) -> None:
        usage = {
            "input_tokens": 5,
            "output_tokens": 6,
            "iterations": [
                {"type": "advisor_message", "model": "big", "input_tokens": 10, "output_tokens": 1},
                {"type": "advisor_message", "model": "big", "output_tokens": 2, "cache_read_input_tokens": 7},
                {"type": "compaction", "input_tokens": 100, "output_tokens": 50},
            ],
        }
        rows = read_usage_file(written(tmp_path, usage), *CLAUDE, False)["by_model"]
        assert (rows["big"]["input_uncached"], rows["big"]["cache_read"], rows["big"]["output"]) == (10, 7, 3)
        assert (rows[""]["input_uncached"], rows[""]["output"]) == (105, 56)
        assert rows[""]["cache_read"] is None and rows["big"]["cache_write_5m"] is None

    @pytest.mark.parametrize(
        ("text", "figure"),
        [
            ("4e-05", "0.00004"),
            ("0.00019199999999999998", "0.00019199999999999998"),
            ("1.10", "1.10"),
            ("0.1234567890123456789012345", "0.1234567890123456789012345"),
            ("1e2", "100"),
            ("-0.0", "0"),
            ("0", "0"),
            ("-1", None),
            ("1e999999999", None),
            ("NaN", None),
            ("null", None),
        ],
    )
    def test_the_cost_is_exact_and_without_exponent(self, tmp_path: Path, text: str, figure: str | None) -> None:
        path = written(tmp_path, f'{{"prompt_tokens": 1, "cost": {text}}}')
        assert read_usage_file(path, *CHAT, False)["reported_cost_usd"] == figure

    @pytest.mark.parametrize("number", ["9223372036854775808", "1" * 9000, "-1", "1.5", "true", '"7"'])
    def test_a_number_that_is_no_count_is_unknown(self, tmp_path: Path, number: str) -> None:
        path = written(tmp_path, f'{{"prompt_tokens": {number}, "completion_tokens": 12.0}}')
        row = read_usage_file(path, *CHAT, False)["by_model"][""]
        assert (row["input_uncached"], row["output"]) == (None, 12)


class TestWhatItTakes:
    def test_frames_with_and_without_the_stream_flag(self, tmp_path: Path) -> None:
        frames = [{"at": "usage", "usage": None}, {"at": "usage", "usage": {"prompt_tokens": 4}}]
        for content in (json.dumps(frames), lines(*frames)):
            for stream in (True, False):
                result = read_usage_file(written(tmp_path, content), *CHAT, stream)
                assert result["by_model"][""]["input_uncached"] == 4 and result["upper_bound"]

    def test_an_object_alone_is_whole_with_the_stream_flag(self, tmp_path: Path) -> None:
        path = written(tmp_path, {"input_tokens": 30, "output_tokens": 12})
        assert not read_usage_file(path, *CLAUDE, True)["partial"]

    def test_events_as_the_provider_sent_them(self, tmp_path: Path) -> None:
        between = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
        result = read_usage_file(written(tmp_path, lines(START, between, DELTA)), *CLAUDE, True)
        assert result["by_model"][""]["input_uncached"] == 30 and result["by_model"][""]["output"] == 12
        assert not result["partial"]
        cut = read_usage_file(written(tmp_path, lines(START, between)), *CLAUDE, True)
        assert cut["partial"] and cut["by_model"][""]["output"] == 1

    @pytest.mark.parametrize(
        ("provider", "endpoint", "body"),
        [
            (
                "anthropic",
                "/v1/messages",
                {"type": "message", "usage": {"input_tokens": 4, "output_tokens": 2}},
            ),
            ("google", "/m:generateContent", {"usageMetadata": {"promptTokenCount": 4}}),
            (
                "openai",
                "/v1/responses",
                {"type": "response.completed", "response": {"usage": {"input_tokens": 4}}},
            ),
            ("groq", "/v1/chat/completions", {"choices": [], "x_groq": {"usage": {"prompt_tokens": 4}}}),
            (
                "cohere",
                "/v2/chat",
                {"type": "message-end", "delta": {"usage": {"tokens": {"input_tokens": 4}}}},
            ),
            ("bedrock", "/converse-stream", {"metadata": {"usage": {"inputTokens": 4}}}),
            ("ollama", "/api/chat", {"message": {"content": "x"}, "done": True, "prompt_eval_count": 4}),
        ],
    )
    def test_a_recorded_body(self, tmp_path: Path, provider: str, endpoint: str, body: dict[str, Any]) -> None:
        result = read_usage_file(written(tmp_path, body), provider, endpoint, False)
        assert result["by_model"][""]["input_uncached"] == 4 and not result["partial"]

    def test_a_sample_brings_its_own_names(self, tmp_path: Path) -> None:
        sample = {
            "provider": "xai",
            "endpoint": "/v1/chat/completions",
            "usage_frames": [
                {
                    "usage": {
                        "prompt_tokens": 4,
                        "completion_tokens": 1,
                        "completion_tokens_details": {"reasoning_tokens": 5},
                    }
                }
            ],
        }
        path = written(tmp_path, sample)
        assert read_usage_file(path, "", "", False)["by_model"][""]["output"] == 6
        assert read_usage_file(path, "groq", "", False)["by_model"][""]["output"] == 1

    def test_byte_order_mark_and_other_line_separators(self, tmp_path: Path) -> None:
        text = '\ufeff{"usage": null, "text": "a\u2028b"}\r\n{"usage": {"prompt_tokens": 4}}'
        path = written(tmp_path, text)
        assert read_usage_file(str(path), *CHAT, True)["by_model"][""]["input_uncached"] == 4


class TestWhatItRefuses:
    @pytest.mark.parametrize(
        "content",
        [
            "",
            " \n\n",
            "hello",
            "null",
            "5",
            '"x"',
            "[1, 2]",
            "[null]",
            '{"prompt_tokens": ',
            '{"usage": {}}\n{"usage": \n',
            '{"usage": {}}\n7\n',
            '{"usage_frames": 5}',
            '{"usage_frames": []}\n{"usage_frames": []}',
            b"\xff\xfe\x00\x01",
            b"\x00" * 64,
            "[" * 100_000,
        ],
        ids=lambda content: repr(content[:24]),
    )
    def test_in_one_line_that_says_what_to_do(self, tmp_path: Path, content: str | bytes) -> None:
        path = written(tmp_path, content)
        with pytest.raises(UsageFileError, match=r"^usage\.json|usage\.json ") as caught:
            read_usage_file(path, *CHAT, False)
        assert "\n" not in str(caught.value) and "give" in str(caught.value)

    def test_a_missing_file_and_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UsageFileError, match="does not exist: check the path"):
            read_usage_file(tmp_path / "none.json", *CHAT, False)
        with pytest.raises(UsageFileError, match="cannot be read"):
            read_usage_file(tmp_path, *CHAT, False)
        with pytest.raises(UsageFileError, match="cannot be read"):
            read_usage_file("a\0b", *CHAT, False)

    def test_a_name_cannot_break_the_line(self, tmp_path: Path) -> None:
        with pytest.raises(UsageFileError) as caught:
            read_usage_file(written(tmp_path, "no", "a\nb\x1b[2J"), *CHAT, False)
        assert str(caught.value).isprintable()

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(content=st.binary(max_size=40) | st.text(alphabet='{}[]":,1eE.-+ \nnul', max_size=30).map(str.encode))
    def test_any_bytes_give_a_result_or_the_one_error(self, tmp_path: Path, content: bytes) -> None:
        try:
            result = read_usage_file(written(tmp_path, content), *CHAT, False)
        except UsageFileError as error:
            assert str(error).isprintable()
        else:
            json.dumps(result)
