"""Usage as Codex CLI writes it: OpenAI's responses usage in flat fields, per response or as a running total.

Fields: `input_tokens` (includes cached and written), `cached_input_tokens`, `cache_write_input_tokens`,
`output_tokens` (includes reasoning), `reasoning_output_tokens`, `total_tokens`. Source: the rollout files
of Codex CLI 0.120 and later.
"""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import EMPTY, count
from ledger.wire.usage import Part, Usage

_FIELDS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """Return the one row of a response's own usage."""
    return (Part(role="message", model="", usage=_usage(counts(usage))),)


def counts(usage: Any) -> dict[str, int | None]:
    """Return the counts that a usage object or a running total states, and nothing else that stands in it."""
    given = usage if type(usage) is dict else EMPTY
    return {name: count(given.get(name)) for name in _FIELDS}


def step(total: Any, before: Any, last: Any, *, carried: bool) -> tuple[Part, ...]:
    """Return the one row between two running totals of a session.

    `before` is None for the first total of a file. A total that equals `last`, or fell, was begun anew (a
    resume by older versions): then, and where the first total of a file was `carried` over from another
    session, the client's own `last` is the difference.
    """
    if type(total) is not dict:
        return ()
    now, own = counts(total), counts(last) if type(last) is dict else None
    if type(before) is not dict:
        given = own if carried and own is not None else now
    else:
        given = _difference(now, counts(before))
        if now == own or any(value is not None and value < 0 for value in given.values()):
            given = now if own is None else own
    return (Part(role="message", model="", usage=_usage(given)),)


def _difference(now: dict[str, int | None], before: dict[str, int | None]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name, value in now.items():
        earlier = before[name]
        found[name] = None if value is None else value - (earlier or 0)
    return found


def _usage(given: dict[str, int | None]) -> Usage:
    total_input, read = given["input_tokens"], given["cached_input_tokens"]
    written, output = given["cache_write_input_tokens"], given["output_tokens"]
    uncached = None if total_input is None else max(0, total_input - (read or 0) - (written or 0))
    return Usage(
        input_uncached=uncached,
        cache_read=read,
        cache_write_5m=written,
        cache_write_1h=None if written is None else 0,
        output=output,
        reasoning=given["reasoning_output_tokens"],
        reported_total=given["total_tokens"],
        upper_bound=uncached is not None and read is None,
    )
