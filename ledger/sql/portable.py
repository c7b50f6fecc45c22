"""What the two databases write differently, under one name. Imported by `make sql` and tests, never at run time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Integer, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction


class smaller(GenericFunction[int]):
    """The smaller of two numbers."""

    type = Integer()
    inherit_cache = True


class larger(GenericFunction[int]):
    """The larger of two numbers."""

    type = Integer()
    inherit_cache = True


class _Listed(GenericFunction[str]):
    """The texts of a JSON list, one a row."""

    name = "listed"
    type = Text()
    inherit_cache = True


def listed(parameter: str) -> _Listed:
    """Return a table function over the texts of the JSON list that is bound to `parameter`."""
    return _Listed(bindparam(parameter))


def _arguments(element: Any, compiler: Any, **options: Any) -> str:
    return ", ".join(compiler.process(one, **options) for one in element.clauses)


@compiles(smaller, "sqlite")
def _smaller_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"min({_arguments(element, compiler, **options)})"


@compiles(smaller, "postgresql")
def _smaller_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"least({_arguments(element, compiler, **options)})"


@compiles(larger, "sqlite")
def _larger_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"max({_arguments(element, compiler, **options)})"


@compiles(larger, "postgresql")
def _larger_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"greatest({_arguments(element, compiler, **options)})"


@compiles(_Listed, "sqlite")
def _listed_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_each({_arguments(element, compiler, **options)})"


@compiles(_Listed, "postgresql")
def _listed_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_array_elements_text(CAST({_arguments(element, compiler, **options)} AS json))"
