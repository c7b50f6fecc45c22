"""OpenAI chat, responses and embeddings, and the many servers that write the same object.

The cached part, and the written part, are inside the prompt; the total is prompt + completion, or input +
output (OBS-22). Reasoning is inside the completion, except where the reported total says that it stands
outside.

| who | what is different |
|---|---|
| xAI | total = prompt + completion + reasoning, by some models prompt + completion: the total decides |
| Gemini by this route | hidden thoughts: what the total has beyond prompt + completion is output |
| DeepSeek | `prompt_cache_hit_tokens` + `prompt_cache_miss_tokens` = prompt |
| Mistral | `num_cached_tokens` at the top level |
| Hugging Face router, Moonshot, Together | `cached_tokens` at the top level; details may be null |
| Codex | top level: `cached_input_tokens`, `cache_write_input_tokens`, `reasoning_output_tokens` |
| Groq, Ollama, llama.cpp, Cerebras, Z.ai | nothing; times stand beside the tokens |

Account rule (OBS-13): the *last* object with counts is the account; a chat stream has one (null before, and
only with `stream_options.include_usage`), xAI a cumulative one in every frame. A chat stream without usage
is unknown, not partial, because nothing in it says whether usage was asked for. A responses stream is
partial when its usage did not come with a terminal event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.wire.counts import MAX_COUNT, count, first_count, inner, part_of, word
from ledger.wire.usage import Part, Usage

OutputRule = Callable[[int | None, int | None, int | None, int | None], int | None]
"""(prompt, completion, reasoning, total) -> output."""

TERMINAL_EVENTS = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"}
)


def parts(
    usage: dict[str, Any], output_rule: OutputRule | None = None, *, one_write_class: bool = False
) -> tuple[Part, ...]:
    """The row of one usage object; `one_write_class` where all cache writes have one price."""
    total = count(usage.get("total_tokens"))
    prompt = _prompt(usage)
    completion = first_count(usage, "completion_tokens", "output_tokens")
    reasoning = _reasoning(usage)
    output = _fits((output_rule or stated_output)(prompt, completion, reasoning, total))
    cached, written = _cached(usage, prompt), _written(usage)
    counts = Usage(
        input_uncached=None if prompt is None else max(prompt - (cached or 0) - (written or 0), 0),
        cache_read=cached,
        cache_write_5m=written,
        cache_write_1h=None if written is None else 0,
        output=output,
        reasoning=part_of(reasoning, output),
        reported_total=total,
        web_searches=count(inner(usage, "server_tool_use").get("web_search_requests")),
        service_tier=word(usage.get("service_tier")),
        upper_bound=prompt is not None and cached is None,
        unsplit_cache_write=bool(written) and not one_write_class,
    )
    return (Part(role="message", model="", usage=counts),)


def stated_output(prompt: int | None, completion: int | None, reasoning: int | None, total: int | None) -> int | None:
    """The completion, with reasoning added only where the total holds it a second time."""
    if prompt is None or completion is None or not reasoning:
        return completion
    return completion + reasoning if total == prompt + completion + reasoning else completion


def xai_output(prompt: int | None, completion: int | None, reasoning: int | None, total: int | None) -> int | None:
    """Completion + reasoning, unless the total is prompt + completion: then reasoning was inside."""
    if completion is None:
        return _rest(prompt, total)
    inside = prompt is not None and total == prompt + completion
    return completion if inside else completion + (reasoning or 0)


def rest_of_total(prompt: int | None, completion: int | None, reasoning: int | None, total: int | None) -> int | None:
    """What the total has beyond the prompt, where that is more than the completion: hidden thoughts."""
    rest = _rest(prompt, total)
    return rest if rest is not None and rest > (completion or 0) else completion


def _rest(prompt: int | None, total: int | None) -> int | None:
    return total - prompt if prompt is not None and total is not None and total > prompt else None


def _fits(value: int | None) -> int | None:
    return None if value is None or value > MAX_COUNT else value


def _prompt(usage: dict[str, Any]) -> int | None:
    stated = first_count(usage, "prompt_tokens", "input_tokens")
    if stated is not None:
        return stated
    hit, miss = count(usage.get("prompt_cache_hit_tokens")), count(usage.get("prompt_cache_miss_tokens"))
    return None if hit is None or miss is None else _fits(hit + miss)


def _cached(usage: dict[str, Any], prompt: int | None) -> int | None:
    for details in ("prompt_tokens_details", "input_tokens_details"):
        found = count(inner(usage, details).get("cached_tokens"))
        if found is not None:
            return found
    found = first_count(usage, "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cached_input_tokens")
    miss = count(usage.get("prompt_cache_miss_tokens"))
    if found is None and miss is not None and prompt is not None and miss <= prompt:
        return prompt - miss
    return found


def _written(usage: dict[str, Any]) -> int | None:
    for details in ("prompt_tokens_details", "input_tokens_details"):
        found = count(inner(usage, details).get("cache_write_tokens"))
        if found is not None:
            return found
    return count(usage.get("cache_write_input_tokens"))


def _reasoning(usage: dict[str, Any]) -> int | None:
    for details in ("completion_tokens_details", "output_tokens_details"):
        found = count(inner(usage, details).get("reasoning_tokens"))
        if found is not None:
            return found
    return first_count(usage, "reasoning_tokens", "reasoning_output_tokens")
