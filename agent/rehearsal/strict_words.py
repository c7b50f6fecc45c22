"""What the checks of both protocols are made of: fields by type, JSON schemas of tools, names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

Signature = Callable[[str], str]
"""Thinking -> what signs it."""

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_UNIONS = ("oneOf", "anyOf", "allOf")


class Complaints:
    """What was found so far."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Note one thing."""
        self.found.append(f"{where}: {what}")

    def known(self, where: str, value: dict[str, Any], names: Iterable[str]) -> None:
        """Every key is one of the names."""
        for name in value:
            if name not in names:
                self.add(f"{where}.{name}" if where else name, "extra inputs are not permitted")

    def text(self, where: str, value: Any, *, empty: bool = True) -> bool:
        """It is a string, not null; tell whether."""
        if not isinstance(value, str):
            self.add(where, f"expected a string, got {kind(value)}")
            return False
        if not empty and not value.strip():
            self.add(where, "must be non-empty and not only whitespace")
            return False
        return True

    def flag(self, where: str, value: dict[str, Any], name: str) -> None:
        """The field is true or false, where it is there."""
        if name in value and not isinstance(value[name], bool):
            self.add(f"{where}.{name}" if where else name, f"expected a boolean, got {kind(value[name])}")

    def number(self, value: dict[str, Any], name: str, least: float, most: float, *, whole: bool = False) -> None:
        """The field is a number within bounds, where it is there; null is no number."""
        if name not in value:
            return
        given = value[name]
        if isinstance(given, bool) or not isinstance(given, int if whole else (int, float)):
            self.add(name, f"expected {'an integer' if whole else 'a number'}, got {kind(given)}")
        elif not least <= given <= most:
            self.add(name, f"{given} is not within {least} and {most}")

    def word(self, where: str, value: Any, words: Iterable[str]) -> None:
        """It is one of the words."""
        if value not in words:
            self.add(where, f"{value!r} is not one of {', '.join(words)}")

    def name(self, where: str, value: Any, longest: int) -> bool:
        """It is the name of a function: letters, digits, `_`, `-`."""
        if not isinstance(value, str) or re.fullmatch(f"[a-zA-Z0-9_-]{{1,{longest}}}", value) is None:
            self.add(where, f"{value!r} does not match ^[a-zA-Z0-9_-]{{1,{longest}}}$")
            return False
        return True


def kind(value: Any) -> str:
    """Return a JSON value's type as JSON calls it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {str: "a string", dict: "an object", list: "an array", int: "an integer", float: "a number"}
    return names.get(type(value), type(value).__name__)


def check_parameters(found: Complaints, where: str, schema: Any) -> None:
    """Check the JSON schema of a tool's arguments.

    OpenAI (guide "Function calling", and its `invalid_function_parameters`): of type object, no union at the top, an
    array says its items. Anthropic: `input_schema.type` is object, no union at the top. JSON Schema 2020-12: the rest.
    """
    if not isinstance(schema, dict):
        found.add(where, f"expected a JSON schema, got {kind(schema)}")
        return
    if schema.get("type") != "object":
        found.add(f"{where}.type", "must be object")
    for union in (*_UNIONS, "enum", "not"):
        if union in schema:
            found.add(where, f"{union} is not supported at the top level")
    definitions = schema.get("$defs", {})
    _check_schema(found, where, schema, definitions if isinstance(definitions, dict) else {})
    for name, inner in (definitions if isinstance(definitions, dict) else {}).items():
        _check_schema(found, f"{where}.$defs.{name}", inner, definitions)


def _check_schema(found: Complaints, where: str, schema: Any, definitions: dict[str, Any]) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        found.add(where, f"expected a JSON schema, got {kind(schema)}")
        return
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    for one in types:
        if one not in _TYPES:
            found.add(f"{where}.type", f"{one!r} is not a JSON schema type")
    if "array" in types and "items" not in schema:
        found.add(where, "array schema missing items")
    if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
        found.add(f"{where}.enum", "must be a non-empty array")
    if "description" in schema:
        found.text(f"{where}.description", schema["description"])
    reference = schema.get("$ref")
    if reference is not None and not (
        isinstance(reference, str) and reference.startswith("#/$defs/") and reference[8:] in definitions
    ):
        found.add(f"{where}.$ref", f"{reference!r} is not among $defs")
    _check_object(found, where, schema)
    for inside, inner in _inner(schema):
        _check_schema(found, f"{where}.{inside}", inner, definitions)


def _check_object(found: Complaints, where: str, schema: dict[str, Any]) -> None:
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        found.add(f"{where}.properties", f"expected an object, got {kind(properties)}")
        return
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        found.add(f"{where}.required", "expected an array of strings")
        return
    if len(set(required)) != len(required):
        found.add(f"{where}.required", "has non-unique elements")
    for name in required:
        if name not in properties:
            found.add(f"{where}.required", f"{name!r} is not among the properties")


def _inner(schema: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the schemas that stand directly in a schema, with where."""
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, inner in properties.items():
            yield f"properties.{name}", inner
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield name, schema[name]
    for union in _UNIONS:
        if isinstance(schema.get(union), list):
            for place, inner in enumerate(schema[union]):
                yield f"{union}.{place}", inner
