"""Anthropic messages: input excludes the cache, output includes thinking, and no total is given.

Account rule (OBS-13): frames are *merged field by field*, the last value wins, nothing is added.
`message_start` has the input, `message_delta` is cumulative and may lack the input or raise it. A null, or
a value that is no count, never erases a known one. A stream is partial when no `message_delta` brought its
output.

Sources: the Messages API reference and "Refusals and fallback" (billing), the recorded samples, and rules 6
and 7 of the Claude Code import.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.wire.counts import EMPTY, count, inner, part_of, plus, split_writes, word
from ledger.wire.usage import Count, Part, Usage

_ROLES = {"compaction": "compaction", "advisor_message": "advisor", "fallback_message": "fallback"}
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """The rows that one usage object causes, the row of the top level first; empty for an empty object.

    Compaction, advisor and fallback calls in `iterations[]` are rows of their own, under their own model; see
    `_beside`. This is the hot path of an import: without iterations it builds one Usage and one Part.
    """
    if not usage:
        return ()
    iterations = usage.get("iterations")
    if not iterations or type(iterations) is not list:
        return (Part(role="message", model="", usage=_usage(usage, EMPTY)),)
    return _with_iterations(usage, [entry for entry in iterations if type(entry) is dict])


class _Split(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class _Details(msgspec.Struct, gc=False):
    thinking_tokens: Count | None = None


class _Tools(msgspec.Struct, gc=False):
    web_search_requests: Count | None = None


class _Typed(msgspec.Struct, gc=False):
    """A usage object whose fields have the types that the API gives them."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: _Split | None = None
    output_tokens_details: _Details | None = None
    server_tool_use: _Tools | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: list[msgspec.Raw] | None = None


_typed = msgspec.json.Decoder(_Typed).decode
_any = msgspec.json.Decoder().decode


def parts_of_json(raw: bytes | msgspec.Raw) -> tuple[Part, ...]:
    """The same as `parts`, from JSON text: the usual object is decoded into its own types, three times as fast."""
    found = usage_of_json(raw)
    if found is not None:
        return (Part(role="message", model="", usage=found),)
    usage = _any(raw)
    return parts(usage) if type(usage) is dict else ()


def usage_of_json(raw: bytes | msgspec.Raw) -> Usage | None:
    """The counts of an object that is plainly one row of its own; None where only `parts` can tell."""
    try:
        given = _typed(raw)
    except msgspec.MsgspecError:
        return None
    if given.iterations or (given.input_tokens is None and given.output_tokens is None):
        return None
    written, split = given.cache_creation_input_tokens, given.cache_creation
    five = split.ephemeral_5m_input_tokens if split else None
    hour = split.ephemeral_1h_input_tokens if split else None
    unsplit = False
    if five is None or hour is None or five + hour != written:
        five, hour, unsplit = split_writes(written, five, hour)
    output, details, tools = given.output_tokens, given.output_tokens_details, given.server_tool_use
    tier, speed, region = given.service_tier, given.speed, given.inference_geo
    return Usage(
        input_uncached=given.input_tokens,
        cache_read=given.cache_read_input_tokens,
        cache_write_5m=five,
        cache_write_1h=hour,
        output=output,
        reasoning=part_of(details.thinking_tokens, output) if details else None,
        web_searches=tools.web_search_requests if tools else None,
        service_tier=word(tier) if tier else None,
        speed=word(speed) if speed else None,
        region=word(region) if region else None,
        unsplit_cache_write=unsplit,
    )


class _Counts(msgspec.Struct):
    """The counts that make one usage object fuller than another."""

    output_tokens: int = 0
    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


_counts = msgspec.json.Decoder(_Counts).decode
_MASK31 = (1 << 31) - 1


def fullness(raw: bytes | msgspec.Raw) -> int:
    """Return what makes one usage object fuller than another: output tokens, then all tokens, 31 bits each.

    Of several lines of one response the one with the largest output is kept; they are never added.
    """
    try:
        counts = _counts(raw)
        output = max(0, counts.output_tokens)
        total = counts.input_tokens + counts.cache_read_input_tokens + counts.cache_creation_input_tokens
    except (msgspec.MsgspecError, OverflowError):  # a count that is null or no number
        usage = msgspec.json.decode(raw)
        found = parts(usage)[0].usage if type(usage) is dict and usage else Usage()
        output, total = found.output or 0, (found.bucket_total or 0) - (found.output or 0)
    return min(output, _MASK31) << 31 | min(max(0, total + output), _MASK31)


def is_partial(frames: list[dict[str, Any]], *, stream: bool) -> bool:
    """True where the stream's final usage is missing: the output is then a lower bound (OBS-05).

    A frame is known by its `event`, or by `at` ("message.usage" is message_start). Frames that say neither
    are taken in order, so a stream with a single one of them that has an input is a message_start.
    """
    started, unnamed = False, []
    for frame in frames:
        usage, event = frame["usage"], frame.get("event")
        if event == "message_delta" and count(usage.get("output_tokens")) is not None:
            return False
        if event == "message_start" or (event is None and frame.get("at") == "message.usage"):
            started = True
        elif event is None:
            unnamed.append(usage)
    if started or not stream:
        return started and not unnamed
    return len(unnamed) == 1 and "input_tokens" in unnamed[0]


def _usage(usage: dict[str, Any], request: dict[str, Any]) -> Usage:
    """One object's counts; what it does not say of tier, speed and region is taken from `request`."""
    get = usage.get
    output = count(get("output_tokens"))
    written, split = count(get("cache_creation_input_tokens")), get("cache_creation")
    if type(split) is dict:
        five = count(split.get("ephemeral_5m_input_tokens"))
        hour = count(split.get("ephemeral_1h_input_tokens"))
    else:
        five = hour = None
    five, hour, unsplit = split_writes(written, five, hour)
    details, tools = get("output_tokens_details"), get("server_tool_use")
    return Usage(
        input_uncached=count(get("input_tokens")),
        cache_read=count(get("cache_read_input_tokens")),
        cache_write_5m=five,
        cache_write_1h=hour,
        output=output,
        reasoning=part_of(count(details.get("thinking_tokens")), output) if type(details) is dict else None,
        web_searches=count(tools.get("web_search_requests")) if type(tools) is dict else None,
        service_tier=word(get("service_tier") or request.get("service_tier")),
        speed=word(get("speed") or request.get("speed")),
        region=word(get("inference_geo") or request.get("inference_geo")),
        unsplit_cache_write=unsplit,
    )


def _with_iterations(usage: dict[str, Any], iterations: list[dict[str, Any]]) -> tuple[Part, ...]:
    own = Part(role="message", model="", usage=_usage(usage, EMPTY))
    messages = [entry for entry in iterations if entry.get("type") == "message"]
    served = [entry for entry in iterations if entry.get("type") == "fallback_message"]
    if served and _is_copy(usage, served) and not _equals(usage, messages):
        # The top level is the answering fallback itself, and leaves the declined attempts out.
        own = Part(role="fallback", model=word(served[-1].get("model")) or "", usage=own.usage)
        if not _equals(usage, served):
            own = Part(role="fallback", model=own.model, usage=_usage(_served_counts(usage, served), EMPTY))
        beside = [entry for entry in iterations if entry.get("type") != "fallback_message"]
    elif own.usage.unknown and messages:
        return tuple(_beside(entry, usage) for entry in iterations)
    else:
        beside = _outside(usage, messages, [entry for entry in iterations if entry.get("type") != "message"])
        if any(word(entry.get("model")) for entry in beside):
            # One thinking count for several models is not said for each: unknown, as in the samples.
            own = Part(role="message", model="", usage=msgspec.structs.replace(own.usage, reasoning=None))
    return (own, *(_beside(entry, usage) for entry in beside))


def _outside(
    usage: dict[str, Any], messages: list[dict[str, Any]], others: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Those of `others` that the top level leaves out.

    An entry that names neither a known type nor a model is inside exactly where the sum says so.
    """
    unclear = [entry for entry in others if not _is_own_call(entry)]
    inside = bool(unclear) and not _equals(usage, messages) and _equals(usage, [*messages, *unclear])
    return [entry for entry in others if _is_own_call(entry)] if inside else others


def _beside(entry: dict[str, Any], request: dict[str, Any]) -> Part:
    """The row of one entry of `iterations[]` that the top level does not contain.

    `compaction`, `advisor_message` and `fallback_message` are calls of their own. A `message` entry is
    inside the top level and gets no row, except where the top level is a fallback's answer, or gives no
    count: then it is an attempt that declined. An entry of another type is a call that this program does
    not know yet: it gets a row with the role `other` under the model it names, so that no tokens vanish.

    Tier and region are the request's. Speed is too, but only for the request's own model.
    """
    model, kind = word(entry.get("model")) or "", entry.get("type")
    known = {name: request.get(name) for name in ("service_tier", "inference_geo")}
    if not model:
        known["speed"] = request.get("speed")
    role = "message" if kind == "message" else _ROLES.get(kind, "other") if type(kind) is str else "other"
    return Part(role=role, model=model, usage=_usage(entry, known))


def _is_own_call(entry: dict[str, Any]) -> bool:
    """True where the entry says that it is a call beside the answer: by its type, or by its own model."""
    kind = entry.get("type")
    return (type(kind) is str and kind in _ROLES) or word(entry.get("model")) is not None


def _sums(entries: list[dict[str, Any]]) -> list[int | None]:
    return [plus(*(count(entry.get(name)) for entry in entries)) for name in _COUNTS]


def _equals(usage: dict[str, Any], entries: list[dict[str, Any]]) -> bool:
    """True where the entries sum to the top level in every count that both state."""
    pairs = list(zip(_sums([usage]), _sums(entries), strict=True))
    stated = [(own, theirs) for own, theirs in pairs if own is not None and theirs is not None]
    return bool(entries and stated) and all(own == theirs for own, theirs in stated)


def _is_copy(usage: dict[str, Any], served: list[dict[str, Any]]) -> bool:
    """True where the top level repeats the answering fallback's entry.

    The reference says so of every fallback ("the top-level counts describe only the attempt that produced the
    returned message"), rule 7 of the import says that fallback entries come on top: the numbers decide. Equal
    outputs are enough, because in a stream the input may still be that of the attempt that declined.
    """
    output = count(usage.get("output_tokens"))
    return _equals(usage, served) or bool(output and output == _sums(served)[1])


def _served_counts(usage: dict[str, Any], served: list[dict[str, Any]]) -> dict[str, Any]:
    stated = {name: sums for name, sums in zip(_COUNTS, _sums(served), strict=True) if sums is not None}
    return {**usage, **stated, "cache_creation": inner(served[-1], "cache_creation")}
