"""Usage as Codex CLI writes it: OpenAI's responses usage in flat fields, per response or as a running total.

Fields: `input_tokens` (includes cached and written), `cached_input_tokens`, `cache_write_input_tokens`,
`output_tokens` (includes reasoning), `reasoning_output_tokens`, `total_tokens`. Source: the rollout files
of Codex CLI 0.120 and later.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.wire.counts import EMPTY, count
from ledger.wire.usage import Count, Part, Usage


class Counts(msgspec.Struct, gc=False):
    """What a usage object or a running total states; None where it states no count."""

    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_output_tokens: Count | None = None
    total_tokens: Count | None = None


_FIELDS = Counts.__struct_fields__
_typed = msgspec.json.Decoder(Counts | None).decode
_any = msgspec.json.Decoder().decode


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """Return the one row of a response's own usage."""
    return (Part(role="message", model="", usage=_usage(_read(usage))),)


def parts_of_json(raw: bytes | msgspec.Raw) -> tuple[Part, ...]:
    """The same from JSON text; no row for what is no object."""
    usage = usage_of_json(raw)
    return () if usage is None else (Part(role="message", model="", usage=usage),)


def usage_of_json(raw: bytes | msgspec.Raw) -> Usage | None:
    """The same without the row around it, None for what is no object."""
    given = _read_json(raw)
    return None if given is None else _usage(given)


def counts(usage: Any) -> dict[str, int | None]:
    """Return the counts that a usage object or a running total states, and nothing else that stands in it."""
    return msgspec.structs.asdict(_read(usage))


def _read(usage: Any) -> Counts:
    given = usage if type(usage) is dict else EMPTY
    return Counts(*(count(given.get(name)) for name in _FIELDS))


def _read_json(raw: bytes | msgspec.Raw) -> Counts | None:
    """Return the counts of an object, None for what is none; the usual one is decoded into its own types."""
    try:
        return _typed(raw)
    except msgspec.MsgspecError:
        given = _any(raw)
        return _read(given) if type(given) is dict else None


def step(total: Any, before: Any, last: Any, *, carried: bool) -> tuple[Part, ...]:
    """Return the one row between two running totals of a session.

    `before` is None for the first total of a file. A total that equals `last`, or fell, was begun anew (a
    resume by older versions): then, and where the first total of a file was `carried` over from another
    session, the client's own `last` is the difference.
    """
    objects = (_read(one) if type(one) is dict else None for one in (total, before, last))
    usage = _step(*objects, carried=carried)
    return () if usage is None else (Part(role="message", model="", usage=usage),)


def step_of_json(total: msgspec.Raw, before: msgspec.Raw, last: msgspec.Raw, *, carried: bool) -> tuple[Part, ...]:
    """The same from JSON text."""
    usage = step_usage_of_json(total, before, last, carried=carried)
    return () if usage is None else (Part(role="message", model="", usage=usage),)


def step_usage_of_json(total: msgspec.Raw, before: msgspec.Raw, last: msgspec.Raw, *, carried: bool) -> Usage | None:
    """The same without the row around it, None for what is no running total."""
    return _step(_read_json(total), _read_json(before), _read_json(last), carried=carried)


def _step(now: Counts | None, before: Counts | None, own: Counts | None, *, carried: bool) -> Usage | None:
    if now is None:
        return None
    if before is None:
        given = own if carried and own is not None else now
    else:
        more = _difference(now, before)
        given = (now if own is None else own) if now == own or more is None else more
    return _usage(given)


def _difference(now: Counts, before: Counts) -> Counts | None:
    """Return what came on top, None where a count fell."""
    values = (
        _more(now.input_tokens, before.input_tokens),
        _more(now.cached_input_tokens, before.cached_input_tokens),
        _more(now.cache_write_input_tokens, before.cache_write_input_tokens),
        _more(now.output_tokens, before.output_tokens),
        _more(now.reasoning_output_tokens, before.reasoning_output_tokens),
        _more(now.total_tokens, before.total_tokens),
    )
    fell = [value for value in values if value is not None and value < 0]
    return None if fell else Counts(*values)


def _more(now: int | None, before: int | None) -> int | None:
    return None if now is None else now - before if before else now


def _usage(given: Counts) -> Usage:
    total_input, read, written = given.input_tokens, given.cached_input_tokens, given.cache_write_input_tokens
    uncached = None if total_input is None else max(0, total_input - (read or 0) - (written or 0))
    return Usage(
        input_uncached=uncached,
        cache_read=read,
        cache_write_5m=written,
        cache_write_1h=None if written is None else 0,
        output=given.output_tokens,
        reasoning=given.reasoning_output_tokens,
        reported_total=given.total_tokens,
        upper_bound=uncached is not None and read is None,
    )
