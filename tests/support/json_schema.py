"""As much of JSON Schema (draft 2020-12) as the schemas of docs/ use. An unknown keyword is an error, not a pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, Any] = {
    "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None), "object": dict,
    "array": list,
}  # fmt: skip
_SILENT = {"$schema", "$defs", "title", "description"}


def problems(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """Yield what is wrong with a value, each with where it stands."""
    for keyword, said in schema.items():
        if keyword in _SILENT:
            continue
        yield from _RULES[keyword](value, said, root, at)


def _ref(value: Any, said: str, root: Mapping[str, Any], at: str) -> Iterator[str]:
    yield from problems(value, root["$defs"][said.removeprefix("#/$defs/")], root, at)


def _one_of(value: Any, said: list[Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    found = [list(problems(value, one, root, at)) for one in said]
    fitting = sum(not one for one in found)
    if fitting != 1:
        nearest = min(found, key=len) if not fitting else []
        yield f"{at}: {fitting} of {len(said)} fit: {'; '.join(nearest)}"


def _type(value: Any, said: str | list[str], root: Mapping[str, Any], at: str) -> Iterator[str]:
    names = [said] if isinstance(said, str) else said
    fits = [isinstance(value, _TYPES[one]) and (one == "boolean" or not isinstance(value, bool)) for one in names]
    if not any(fits):
        yield f"{at}: {value!r} is no {' or '.join(names)}"


def _properties(value: Any, said: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, schema in said.items():
        if isinstance(value, dict) and name in value:
            yield from problems(value[name], schema, root, f"{at}.{name}")


def _required(value: Any, said: list[str], root: Mapping[str, Any], at: str) -> Iterator[str]:
    yield from (f"{at}: has no {name}" for name in said if isinstance(value, dict) and name not in value)


def _items(value: Any, said: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    for place, one in enumerate(value if isinstance(value, list) else []):
        yield from problems(one, said, root, f"{at}[{place}]")


def _const(value: Any, said: Any, root: Mapping[str, Any], at: str) -> Iterator[str]:
    if value != said:
        yield f"{at}: {value!r} is not {said!r}"


def _enum(value: Any, said: list[Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    if value not in said:
        yield f"{at}: {value!r} is not one of {said}"


def _minimum(value: Any, said: float, root: Mapping[str, Any], at: str) -> Iterator[str]:
    if isinstance(value, int | float) and value < said:
        yield f"{at}: {value} is below {said}"


_RULES = {
    "$ref": _ref, "oneOf": _one_of, "type": _type, "properties": _properties, "required": _required, "items": _items,
    "const": _const, "enum": _enum, "minimum": _minimum,
}  # fmt: skip
