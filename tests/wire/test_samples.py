"""Every recorded usage object against its right answer (OBS-10, OBS-11, OBS-13, OBS-22)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ledger.wire.counts import plus
from ledger.wire.dialects import read
from ledger.wire.read_file import BUCKETS, read_usage_file
from ledger.wire.usage import Reading, Usage

ROOT = Path(__file__).parents[2]
COPY = ROOT / "tests" / "cases" / "usage" / "samples.jsonl"
ORIGINAL = ROOT.parent / "shared" / "cases" / "usage" / "samples.jsonl"
SAMPLES: list[dict[str, Any]] = [
    json.loads(line, parse_float=Decimal) for line in COPY.read_text(encoding="utf-8").splitlines()
]
REQUEST_MODEL = "(request model)"

EVERY_SAMPLE = pytest.mark.parametrize("sample", SAMPLES, ids=[sample["id"] for sample in SAMPLES])


def reading_of(sample: dict[str, Any]) -> Reading:
    return read(sample["provider"], sample["endpoint"], sample["usage_frames"], stream=sample["stream"])


def expected_by_model(sample: dict[str, Any]) -> dict[str, dict[str, Any]]:
    expect = sample["expect"]
    rows = expect.get("by_model", {REQUEST_MODEL: expect})
    return {"" if model == REQUEST_MODEL else model: row for model, row in rows.items()}


def in_the_words_of_the_samples(usage: Usage) -> dict[str, int | None]:
    write = plus(usage.cache_write_5m, usage.cache_write_1h)
    return {
        "input_total": plus(usage.input_uncached, usage.cache_read, write),
        "cached_read": usage.cache_read,
        "cache_write": write,
        "output_total": usage.output,
        "reasoning": usage.reasoning,
        "reported_total": usage.reported_total,
        "tool_use_prompt": usage.tool_use_prompt,
        "billed_input": usage.billed_input,
        "billed_output": usage.billed_output,
    }


@EVERY_SAMPLE
def test_reads_the_sample(sample: dict[str, Any]) -> None:
    """Each number that `expect` names, and no model that it does not name."""
    reading = reading_of(sample)
    rows = {part.model: in_the_words_of_the_samples(part.usage) for part in reading.parts}
    expected = expected_by_model(sample)
    assert (rows.keys() or {""}) == expected.keys()
    for model, row in expected.items():
        found = rows.get(model, dict.fromkeys(in_the_words_of_the_samples(Usage())))
        assert {name: found[name] for name in row if name in found} == {
            name: value for name, value in row.items() if name in found
        }
    assert reading.unknown is sample["expect"].get("unknown", False)
    assert reading.reported_cost_usd == sample["expect"].get("cost_usd_reported")


@EVERY_SAMPLE
def test_no_field_of_expect_goes_unread(sample: dict[str, Any]) -> None:
    """A new field in a newer samples file fails here instead of being ignored."""
    known = {*in_the_words_of_the_samples(Usage()), "by_model", "unknown", "cost_usd_reported"}
    assert sample["expect"].keys() <= known


@EVERY_SAMPLE
def test_upper_bound(sample: dict[str, Any]) -> None:
    """Input known, cached part not: an upper bound, except where the cache is outside or left out as 0."""
    expect = sample["expect"]
    outside = "iterations" in str(sample["usage_frames"]) or sample["endpoint"].endswith("/messages")
    uncertain = expect.get("input_total") is not None and expect["cached_read"] is None
    bounded = uncertain and not outside and sample["provider"] != "google"
    assert any(part.usage.upper_bound for part in reading_of(sample).parts) is bounded


@EVERY_SAMPLE
def test_buckets_sum_to_the_reported_total(sample: dict[str, Any]) -> None:
    """OBS-12: in the recorded data every stated total is met."""
    for part in reading_of(sample).parts:
        if part.usage.reported_total is not None:
            assert part.usage.bucket_total == part.usage.reported_total


@EVERY_SAMPLE
def test_the_file_body_says_the_same(sample: dict[str, Any], tmp_path: Path) -> None:
    """The same numbers come out of a file: as a sample, as a list of frames and as one frame a line."""
    raw = next(line for line in COPY.read_text().splitlines() if json.loads(line)["id"] == sample["id"])
    frames = [json.dumps(frame) for frame in json.loads(raw)["usage_frames"]]
    texts = {"sample": raw, "list": f"[{','.join(frames)}]"}
    if len(frames) > 1:
        texts["lines"] = "\n".join(frames)
    reading = reading_of(sample)
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        result = read_usage_file(path, sample["provider"], sample["endpoint"], sample["stream"])
        assert result["unknown"] is reading.unknown
        assert result["partial"] is reading.partial
        rows = {part.model: part.usage for part in reading.parts} or {"": Usage()}
        assert result["by_model"] == {
            model: {bucket: getattr(usage, bucket) for bucket in BUCKETS} for model, usage in rows.items()
        }


def test_partial_samples() -> None:
    """The only recorded stream without a final usage frame is a message_start alone."""
    partial = [sample["id"] for sample in SAMPLES if reading_of(sample).partial]
    assert partial == ["llamacpp-anthropic-stream"]


@pytest.mark.skipif(not ORIGINAL.exists(), reason="the shared folder is not beside the repository")
def test_the_copy_is_the_original() -> None:
    assert COPY.read_bytes() == ORIGINAL.read_bytes()
