"""Parses well-formed command lines without loading the help system. Anything else is left to that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.cli.program import Command, Option


def parse(words: list[str], commands: Sequence[Command]) -> tuple[Command, dict[str, Any]] | None:
    """Return (command, values), None where help is asked for or anything is wrong."""
    for command in commands:
        count = len(command.name)
        if tuple(words[:count]) == command.name:
            values = _values(command, words[count:])
            return None if values is None else (command, values)
    return None


def _values(command: Command, words: list[str]) -> dict[str, Any] | None:
    options = {spelling: option for option in command.options for spelling in option.spellings()}
    values: dict[str, Any] = {option.name: option.default for option in command.options}
    values |= {option.name: [] for option in command.options if option.kind == "texts"}
    plain: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-") or word == "-" or " " in word.partition("=")[0]:  # "- a text with a dash"
            plain.append(word)
            continue
        if word == "--":
            plain += words[position:]
            break
        name, equals, value = word.partition("=")
        option = options.get(name)
        if option is None:
            return None
        if equals and (option.kind == "flag" or not name.startswith("--")):
            return None
        if option.kind == "flag":
            values[option.name] = True
            continue
        if not equals:
            if position == len(words):
                return None
            value = words[position]
            position += 1
            if value.startswith("-") and len(value) > 1:
                return None
        converted = _converted(option, value)
        if converted is None:
            return None
        values[option.name] = [*values[option.name], converted] if option.kind == "texts" else converted
    return _with_arguments(command, values, plain)


def _converted(option: Option, value: str) -> Any:
    if option.kind != "number":
        return value
    return int(value) if value.isdecimal() and value.isascii() and len(value) < 19 else None


def _with_arguments(command: Command, values: dict[str, Any], plain: list[str]) -> dict[str, Any] | None:
    for argument in command.arguments:
        if argument.many:
            values[argument.name], plain = plain, []
            continue
        if plain:
            values[argument.name] = plain.pop(0)
        elif argument.required:
            return None
        else:
            values[argument.name] = None
    return None if plain else values
