"""Which dialect a usage object is written in, and what a whole response's frames come to (OBS-07, OBS-22).

The dialect is chosen by provider and endpoint, then by the end of the endpoint alone, then by the provider
alone; where the object has none of that dialect's fields, or nothing was recognised, by the shape of the
object. One meaning for each number: every reader returns disjoint buckets, whatever the provider's own
fields contain.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import msgspec

from ledger.wire import anthropic, bedrock, cohere, gemini, ollama, openai
from ledger.wire.counts import cost_of
from ledger.wire.merge import merged
from ledger.wire.usage import Part, Reading, Usage


class Dialect(msgspec.Struct, frozen=True):
    """How one family of APIs writes its usage, and its account rule over several frames (OBS-13)."""

    name: str
    parts: Callable[[dict[str, Any]], tuple[Part, ...]]
    fields: frozenset[str]
    """An object of this dialect has at least one of them."""
    merges: bool = False
    """Account rule: frames are merged field by field. False: the last object with counts is the account."""


_OPENAI_FIELDS = frozenset(
    {
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "input_tokens",
        "output_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
        "input_tokens_details",
        "prompt_cache_hit_tokens",
        "cached_input_tokens",
    }
)
OPENAI = Dialect("openai", partial(openai.parts, one_write_class=True), _OPENAI_FIELDS)
COMPATIBLE = Dialect("openai-compatible", openai.parts, _OPENAI_FIELDS)
XAI = Dialect("xai", partial(openai.parts, output_rule=openai.xai_output), _OPENAI_FIELDS)
GEMINI_BY_OPENAI = Dialect("gemini-by-openai", partial(openai.parts, output_rule=openai.rest_of_total), _OPENAI_FIELDS)
ANTHROPIC = Dialect(
    "anthropic",
    anthropic.parts,
    frozenset(
        {
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "cache_creation",
            "iterations",
        }
    ),
    merges=True,
)
GEMINI = Dialect(
    "gemini",
    gemini.parts,
    frozenset({"promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"}),
)
BEDROCK = Dialect(
    "bedrock",
    bedrock.parts,
    frozenset({"inputTokens", "outputTokens", "totalTokens", "inputTokenCount", "outputTokenCount"}),
)
COHERE = Dialect("cohere", cohere.parts, frozenset({"tokens", "billed_units"}))
OLLAMA = Dialect("ollama", ollama.parts, frozenset({"prompt_eval_count", "eval_count"}))

_BY_ENDING = (
    ("/messages", ANTHROPIC),
    (":generatecontent", GEMINI),
    (":streamgeneratecontent", GEMINI),
    ("/converse", BEDROCK),
    ("/converse-stream", BEDROCK),
    ("/v2/chat", COHERE),
    ("/api/chat", OLLAMA),
    ("/api/generate", OLLAMA),
    ("/api/embed", OLLAMA),
)
_OPENAI_ENDINGS = ("/completions", "/responses", "/embeddings")
_BY_PROVIDER = (
    ("anthropic", ANTHROPIC),
    ("bedrock", BEDROCK),
    ("cohere", COHERE),
    ("ollama", OLLAMA),
    ("gemini", GEMINI),
    ("google", GEMINI),
    ("vertex", GEMINI),
)
_XAI_NAMES = ("xai", "x.ai", "x-ai", "grok")

# The rarest fields first: input_tokens and output_tokens alone are Anthropic's old shape, because whoever
# else uses these names gives a total beside them.
_BY_SHAPE = (
    (GEMINI, GEMINI.fields),
    (BEDROCK, BEDROCK.fields),
    (COHERE, COHERE.fields),
    (OLLAMA, OLLAMA.fields),
    (COMPATIBLE, _OPENAI_FIELDS - {"input_tokens", "output_tokens"}),
    (ANTHROPIC, ANTHROPIC.fields),
)


def read(provider: str, endpoint: str, frames: list[dict[str, Any]], *, stream: bool) -> Reading:
    """What the usage frames of one response come to.

    A frame is `{"at", "usage", "event"?, "frame"?}` in stream order; `usage` null, `{}` or anything but an
    object says nothing, and no frame that says something gives an empty reading: unknown, not zero
    (OBS-10).
    """
    given = [frame for frame in frames if type(frame) is dict and _is_account(frame)]
    dialect = next((_dialect(provider, endpoint, frame["usage"]) for frame in reversed(given)), COMPATIBLE)
    if dialect.merges:
        parts = anthropic.parts(merged([frame["usage"] for frame in given]))
        partial = anthropic.is_partial(given, stream=stream) if _known(parts) else False
    else:
        parts, last = _last(provider, endpoint, _twins_joined(given))
        partial = _known(parts) and (_is_before_the_end(last) or last["usage"].get("done") is False)
    return Reading(parts=parts, partial=partial, reported_cost_usd=_last_cost(given))


def usage_of(provider: str, endpoint: str, usage: dict[str, Any]) -> tuple[Part, ...]:
    """The rows that a single usage object causes: the answer's first, then calls made beside it."""
    return _dialect(provider, endpoint, usage).parts(usage)


@lru_cache(maxsize=512)
def dialect_of(provider: str, endpoint: str) -> Dialect | None:
    """The dialect by name alone, None where neither provider nor endpoint is recognised."""
    who, path = provider.lower(), endpoint.lower().split("?")[0].split("#")[0].rstrip("/")
    named = next((dialect for part, dialect in _BY_PROVIDER if part in who), None)
    if path.endswith(_OPENAI_ENDINGS) or "/responses/" in path:
        return _openai_family(who, path, named)
    by_ending = next((dialect for ending, dialect in _BY_ENDING if path.endswith(ending)), None)
    if by_ending is not None or named is not None:
        return by_ending or named
    return _openai_family(who, path, named) if who.startswith(("openai", "azure", *_XAI_NAMES)) else None


def _openai_family(who: str, path: str, named: Dialect | None) -> Dialect:
    if who.startswith(_XAI_NAMES):
        return XAI
    if named is GEMINI or "/v1beta/openai" in path:
        return GEMINI_BY_OPENAI
    return OPENAI if who.startswith(("openai", "azure")) else COMPATIBLE


def _dialect(provider: str, endpoint: str, usage: dict[str, Any]) -> Dialect:
    named = dialect_of(provider, endpoint)
    if named is not None and not named.fields.isdisjoint(usage):
        return named
    shaped = next((dialect for dialect, fields in _BY_SHAPE if not fields.isdisjoint(usage)), None)
    return shaped or named or COMPATIBLE


def _is_account(frame: dict[str, Any]) -> bool:
    """False for frames without usage and for a breakdown by model, which repeats tokens (Groq)."""
    usage, at = frame.get("usage"), frame.get("at")
    return type(usage) is dict and bool(usage) and not (type(at) is str and ("breakdown" in at or "[]" in at))


def _twins_joined(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Objects in one frame say the same (Groq: `x_groq.usage` and `usage`): joined, never added."""
    joined: list[dict[str, Any]] = []
    for frame in frames:
        twin = joined[-1] if joined else None
        if twin is not None and type(frame.get("frame")) is int and twin.get("frame") == frame["frame"]:
            joined[-1] = {**frame, "usage": merged([twin["usage"], frame["usage"]])}
        else:
            joined.append(frame)
    return joined


def _last(provider: str, endpoint: str, frames: list[dict[str, Any]]) -> tuple[tuple[Part, ...], dict[str, Any]]:
    """The last frame with counts; without any, the last that says anything at all."""
    spoken: tuple[tuple[Part, ...], dict[str, Any]] = ((), {})
    for frame in reversed(frames):
        parts = usage_of(provider, endpoint, frame["usage"])
        if _known(parts):
            return parts, frame
        if not spoken[0] and any(part.usage != Usage() for part in parts):
            spoken = parts, frame
    return spoken


def _known(parts: tuple[Part, ...]) -> bool:
    return any(not part.usage.unknown for part in parts)


def _is_before_the_end(frame: dict[str, Any]) -> bool:
    event = frame.get("event")
    return type(event) is str and event.startswith("response.") and event not in openai.TERMINAL_EVENTS


def _last_cost(frames: list[dict[str, Any]]) -> Decimal | None:
    return next((cost for frame in reversed(frames) if (cost := cost_of(frame["usage"])) is not None), None)
