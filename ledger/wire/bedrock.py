"""Bedrock converse `TokenUsage`: input excludes the cache; total = input + output + cache read + cache write.

The cache fields come under two names (`cacheReadInputTokens`, `cacheReadInputTokenCount`), often both in
one object with one meaning: the first that holds a count is taken, they are never added (OBS-22).
`cacheDetails[]` splits the writes by duration. Account rule (OBS-13): a stream has one object, in its
metadata frame; the *last* is the account, and a stream without one is unknown.
"""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import count, first_count, plus, split_writes
from ledger.wire.usage import Part, Usage


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """The row of one usage object of Converse, ConverseStream or the invocation metrics."""
    written = first_count(usage, "cacheWriteInputTokens", "cacheWriteInputTokenCount")
    details = usage.get("cacheDetails")
    entries = [entry for entry in details if type(entry) is dict] if type(details) is list else []
    five, hour, unsplit = split_writes(written, _of_duration(entries, "5m"), _of_duration(entries, "1h"))
    counts = Usage(
        input_uncached=first_count(usage, "inputTokens", "inputTokenCount"),
        cache_read=first_count(usage, "cacheReadInputTokens", "cacheReadInputTokenCount"),
        cache_write_5m=five,
        cache_write_1h=hour,
        output=first_count(usage, "outputTokens", "outputTokenCount"),
        reported_total=count(usage.get("totalTokens")),
        unsplit_cache_write=unsplit,
    )
    return (Part(role="message", model="", usage=counts),)


def _of_duration(entries: list[dict[str, Any]], duration: str) -> int | None:
    return plus(*(count(entry.get("inputTokens")) for entry in entries if entry.get("ttl") == duration))
