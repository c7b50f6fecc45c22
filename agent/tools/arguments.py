"""From the struct of a tool's arguments to the schema that a model sees, and from what it wrote back to the struct."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from agent.tools.errors import ToolError

_NAMES = {str: "string", int: "integer", bool: "boolean"}


class Field(NamedTuple):
    """One argument."""

    name: str
    kind: type
    required: bool
    meta: msgspec.Meta

    @property
    def type_name(self) -> str:
        """Its type in the words of JSON Schema."""
        return _NAMES[self.kind]


@cache
def fields(arguments: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the arguments of a struct whose fields are `Annotated[str | int | bool, Meta]`, optional ones `| None`."""
    return tuple(_field(one) for one in msgspec.structs.fields(arguments))


def _field(found: msgspec.structs.FieldInfo) -> Field:
    if get_origin(found.type) is not Annotated:
        raise TypeError(f"argument {found.name} has no description")
    kind, meta = get_args(found.type)[:2]
    if get_origin(kind) is types.UnionType:
        kind = next(one for one in get_args(kind) if one is not types.NoneType)
    return Field(found.name, kind, found.required, meta)


def schema(arguments: type[msgspec.Struct]) -> msgspec.Raw:
    """Return the JSON Schema of a struct. The same struct gives the same bytes."""
    properties: dict[str, dict[str, Any]] = {}
    required = []
    for field in fields(arguments):
        described: dict[str, Any] = {"type": field.type_name, "description": field.meta.description}
        if field.meta.min_length is not None:
            described["minLength"] = field.meta.min_length
        properties[field.name] = described | (field.meta.extra_json_schema or {})
        if field.required:
            required.append(field.name)
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return msgspec.Raw(msgspec.json.encode(whole))


def parse(tool: str, arguments: type[msgspec.Struct], text: str) -> msgspec.Struct:
    """Return the arguments that a model wrote. Raises ToolError that names the field (TOOL-08, TOOL-09, TOOL-10)."""
    known = fields(arguments)
    form = "{" + ", ".join(f'"{one.name}": {one.type_name}' for one in known if one.required) + "}"
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ToolError(f"the arguments are not valid JSON ({error})", f"call {tool} again with {form}") from None
    if not isinstance(found, dict):
        raise ToolError("the arguments are not a JSON object", f"call {tool} again with {form}")
    values = {}
    for field in known:
        value = found.pop(field.name, None)
        if value is None and not field.required:
            continue
        values[field.name] = _checked(tool, field, value, form)
    if found:
        takes = ", ".join(one.name for one in known)
        raise ToolError(f"unknown field {min(found)}", f"{tool} takes {takes}; leave the others out")
    return arguments(**values)


def _checked(tool: str, field: Field, value: object, form: str) -> object:
    if field.kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not field.kind:
        problem = "missing" if field.required else "wrong type in"
        raise ToolError(f"{problem} {field.type_name} field {field.name}", f"call {tool} again with {form}")
    if isinstance(value, str) and len(value) < (field.meta.min_length or 0):
        step = (field.meta.extra or {}).get("empty", f"call {tool} again with {form}, none of them empty")
        raise ToolError(f"empty {field.type_name} field {field.name}", step)
    return value
