"""What a program of the command line is made of: commands, their options, their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option of a command. `kind` is `text`, `flag`, `number`, or `texts`: it may be given again, in a list."""

    name: str
    help: str
    kind: str = "text"
    default: Any = None
    flags: tuple[str, ...] = ()
    value: str = ""
    """What stands for its value in the help: DAY, FOLDER. By default TEXT, or N for a number."""

    def spellings(self) -> tuple[str, ...]:
        """Return how it is written."""
        return self.flags or ("--" + self.name.rstrip("_").replace("_", "-"),)


class Argument(NamedTuple):
    """A positional argument. `many` takes all that remain."""

    name: str
    help: str
    required: bool = True
    many: bool = False


class Command(NamedTuple):
    """A command: what it is called, what it says of itself, and the function that does it."""

    name: tuple[str, ...]
    help: str
    example: str
    where: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()

    def body(self) -> Callable[..., int]:
        """Import and return the function."""
        module, _, name = self.where.partition(":")
        body: Callable[..., int] = getattr(import_module(module), name)
        return body


class Program(NamedTuple):
    """A console script: its name, what it says of itself, its commands and the groups they stand in."""

    name: str
    about: str
    commands: tuple[Command, ...]
    groups: Mapping[str, str] = {}
    """Name of a group -> its help."""
