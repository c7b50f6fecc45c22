"""Write docs/events.md from the catalogue: `python -m ledger.events.document`.

Docstrings of attributes do not exist at run time, so they are read from the source.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ledger.events.envelope import Event
from ledger.events.registry import ENTRIES, UPCASTERS, Entry

PATH = Path(__file__).parent.parent.parent / "docs" / "events.md"

_HEAD = """\
# Events

Written by `python -m ledger.events.document` from `ledger/events`; a test compares the two.

Every event is an immutable fact, named in the past tense. What all events wear is the envelope; what each
one says is its data, ASCII JSON. What is learnt later is another event: nothing is edited.

How to read the tables:

- A field with a default is left out of the data where it has that value, so a default never changes.
- A number is the amount of this one event or place, in the unit its name or text says, unless its text says
  *running total*: then it contains all that came before it. No number is sometimes the one and sometimes the
  other.
- A number that is not there was not reported: it is unknown, which is not zero.
- *JSON* is kept as it stood in what was read, character escapes apart.
- `sha256` names are lower-case hexadecimal.

How events change: a new field has a default that means "not said", and a reader ignores the fields it does
not know. Anything else (a field that is removed, renamed or means something new, another default, a new kind
of part) is the next schema number, with a function that lifts the data of the one before. Every (type,
schema) is read for ever, and has frozen samples in `tests/events/samples.jsonl`.
"""


class Field(NamedTuple):
    """One row of a table."""

    name: str
    type: str
    default: str
    """Empty where the field is required."""
    text: str
    """The docstring, on one line."""


def document() -> str:
    """Return the content of docs/events.md."""
    parts = parts_of(entry.struct for entry in ENTRIES)
    sections = [
        _HEAD,
        _section("The envelope", Event),
        *(_section(f"`{entry.type}`", entry.struct, _about(entry)) for entry in ENTRIES),
        "## Parts\n\nObjects inside the data of the events above.\n",
        *(_section(part.__name__, part, _tag(part), level=3) for part in parts),
    ]
    return "\n".join(sections)


def parts_of(structs: Iterable[type[msgspec.Struct]]) -> list[type[msgspec.Struct]]:
    """Return every struct that the data of the given ones can contain, in the order they are met."""
    known = list(structs)
    found: list[type[msgspec.Struct]] = []
    for struct in known:
        for inner in _inner(msgspec.inspect.type_info(struct)):
            if inner not in known and inner not in found:
                found.append(inner)
    return found


def fields_of(owner: type) -> list[Field]:
    """Return the fields of a struct or named tuple, inherited ones first, with their docstrings."""
    found: dict[str, Field] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("ledger."):
            found.update((field.name, field) for field in _own_fields(base))
    return list(found.values())


def _own_fields(owner: type) -> Iterator[Field]:
    body = _definition(owner).body
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            default = ast.unparse(statement.value) if statement.value else ""
            yield Field(statement.target.id, ast.unparse(statement.annotation), default, _docstring(after))


def _definition(owner: type) -> ast.ClassDef:
    for statement in _module(inspect.getsourcefile(owner) or "").body:
        if isinstance(statement, ast.ClassDef) and statement.name == owner.__name__:
            return statement
    raise LookupError(owner.__name__)


@cache
def _module(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8"))


def _docstring(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


def _inner(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs inside a type, outer ones first."""
    match kind:
        case msgspec.inspect.StructType():
            yield kind.cls
            for field in kind.fields:
                yield from _inner(field.type)
        case msgspec.inspect.UnionType():
            for member in kind.types:
                yield from _inner(member)
        case msgspec.inspect.ListType():
            yield from _inner(kind.item_type)
        case msgspec.inspect.DictType():
            yield from _inner(kind.value_type)


def _section(title: str, owner: type, about: str = "", *, level: int = 2) -> str:
    lines = [f"{'#' * level} {title}", "", inspect.cleandoc(owner.__doc__ or ""), ""]
    lines += [about, ""] if about else []
    lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in fields_of(owner):
        default = f"`{_shown(field.default)}`" if field.default else "required"
        lines.append(f"| `{field.name}` | {_type(field.type)} | {default} | {field.text} |")
    return "\n".join(lines) + "\n"


def _about(entry: Entry) -> str:
    about = f"Schema {entry.schema}, in streams of kind `{entry.stream}`."
    older = [str(schema) for type_, schema in sorted(UPCASTERS) if type_ == entry.type]
    return f"{about} Older schemas that are read: {', '.join(older)}." if older else about


def _tag(part: type[msgspec.Struct]) -> str:
    config = part.__struct_config__
    return f'Known by `"{config.tag_field}": "{config.tag}"`.' if config.tag is not None else ""


def _type(annotation: str) -> str:
    return _shown(annotation).replace("|", "\\|")


def _shown(source: str) -> str:
    return source.replace("msgspec.Raw(b'null')", "null").replace("msgspec.Raw", "JSON")


def write() -> None:
    """Write docs/events.md."""
    PATH.write_text(document(), "utf-8")


if __name__ == "__main__":
    write()
