"""One response's usage out of a file, in buckets: the body of `ledger usage` (OBS-10, OBS-11, OBS-22).

Needs the standard library and msgspec only. Nothing is stored.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from ledger.errors import UsageError
from ledger.wire.counts import inner, plus
from ledger.wire.dialects import read
from ledger.wire.usage import Reading

BUCKETS = (
    "input_uncached",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "output",
    "reasoning",
    "reported_total",
)

_EXPECTED = "give a JSON usage object, a JSON list of frames, or one frame a line"
_LONGEST_COUNT_DIGITS = 40
_WRAPPERS = ("message", "response", "x_groq", "delta", "metadata")
"""Where an event of a stream keeps its usage: Anthropic, OpenAI responses, Groq, Cohere, Bedrock."""


class UsageFileError(UsageError, ValueError):
    """The file cannot be read as usage; the message is one line and says what to do next."""


def read_usage_file(path: Path | str, provider: str, endpoint: str, stream: bool) -> dict[str, Any]:
    """The usage of one response, from a file, in the form that `ledger usage --json` prints.

    The file holds a usage object, a JSON list of frames, one frame a line, or an object with `usage_frames`
    (whose own provider and endpoint are taken where the given ones are empty). A frame is `{"at", "usage",
    ...}`; a body or an event as the provider sent it is a frame too. `stream` is only a hint: one object is
    read as one, several frames as a stream.

    Returns `by_model` (tokens of each bucket under each model, "" for the model of the request, null for
    unknown), `unknown`, `partial`, `upper_bound`, and `reported_cost_usd` as a decimal string without
    exponent. Raises UsageFileError.
    """
    name = _shown(Path(path).name)
    document = _parse(_text(Path(path)), name)
    if isinstance(document, dict) and "usage_frames" in document:
        provider = provider or _name(document, "provider")
        endpoint = endpoint or _name(document, "endpoint")
        stream = stream or document.get("stream") is True
        document = _objects(document["usage_frames"], name)
    if isinstance(document, dict):
        # An object alone is the whole account, whatever kind of response it came from.
        return _result(read(provider, endpoint, [_frame(document)], stream=False))
    frames = [_frame(each) for each in document]
    return _result(read(provider, endpoint, frames, stream=stream or len(frames) > 1))


def _text(path: Path) -> str:
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageFileError(f"{_shown(str(path))} does not exist: check the path") from None
    except UnicodeDecodeError:
        raise UsageFileError(f"{_shown(str(path))} is not UTF-8 text: {_EXPECTED}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise UsageFileError(f"{_shown(str(path))} cannot be read ({reason}): give a readable file") from None
    if not text.strip():
        raise UsageFileError(f"{_shown(str(path))} is empty: {_EXPECTED}")
    return text


def _shown(path: str) -> str:
    """The path in one printable line, whatever its name holds."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in path)


def _parse(text: str, name: str) -> dict[str, Any] | list[dict[str, Any]]:
    """The document: one object, or a list of objects, from JSON or from JSON lines."""
    try:
        document = _loads(text)
    except json.JSONDecodeError as error:
        # Not by splitlines(): JSON text may hold other line separators unescaped.
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or error.msg != "Extra data":
            place = f"line {error.lineno}, {error.msg}"
            raise UsageFileError(f"{name} is not JSON ({place}): {_EXPECTED}") from None
        return [_line(name, number, line) for number, line in lines]
    except RecursionError:
        raise UsageFileError(f"{name} is nested too deeply: {_EXPECTED}") from None
    return document if isinstance(document, dict) else _objects(document, name)


def _objects(document: Any, name: str) -> list[dict[str, Any]]:
    if isinstance(document, list) and all(isinstance(each, dict) for each in document):
        return document
    found = "a list with other things than objects" if isinstance(document, list) else "no object"
    raise UsageFileError(f"{name} holds {found}: {_EXPECTED}")


def _line(name: str, number: int, line: str) -> dict[str, Any]:
    try:
        document = _loads(line)
    except (json.JSONDecodeError, RecursionError):
        raise UsageFileError(f"{name}, line {number} is not JSON: {_EXPECTED}") from None
    if not isinstance(document, dict):
        raise UsageFileError(f"{name}, line {number} is not an object: {_EXPECTED}")
    if "usage_frames" in document:
        raise UsageFileError(f"{name} holds several responses: give the file of one")
    return document


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=_integer)


def _integer(text: str) -> int | None:
    # Python refuses to convert thousands of digits; a count of that length is unknown in any case.
    return int(text) if len(text) <= _LONGEST_COUNT_DIGITS else None


def _name(document: dict[str, Any], field: str) -> str:
    value = document.get(field)
    return value if type(value) is str else ""


def _frame(document: dict[str, Any]) -> dict[str, Any]:
    """A frame, out of a frame, a recorded body or event, or a bare usage object."""
    event = document.get("event") or document.get("type")
    # A recorded body says `type: message`, which is no event of a stream.
    frame: dict[str, Any] = {"event": event if type(event) is str and event != "message" else None}
    if "usage" in document:
        return {"at": "usage", **document, **frame}
    if "usageMetadata" in document:
        return {"at": "usageMetadata", "usage": document["usageMetadata"], **frame}
    for name in _WRAPPERS:
        if "usage" in (held := inner(document, name)):
            return {"at": f"{name}.usage", "usage": held["usage"], **frame}
    return {"at": "usage", "usage": document, **frame}


def _result(reading: Reading) -> dict[str, Any]:
    tokens: dict[str, dict[str, int | None]] = {}
    for model in dict.fromkeys(part.model for part in reading.parts):
        usages = [part.usage for part in reading.parts if part.model == model]
        tokens[model] = {bucket: plus(*(getattr(usage, bucket) for usage in usages)) for bucket in BUCKETS}
    cost = reading.reported_cost_usd
    return {
        "by_model": tokens or {"": dict.fromkeys(BUCKETS)},
        "unknown": reading.unknown,
        "partial": reading.partial,
        "upper_bound": any(part.usage.upper_bound for part in reading.parts),
        "reported_cost_usd": None if cost is None else format(cost, "f"),
    }
