"""The same commands as a Typer application: help, completion and error messages. Loaded only when needed."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from ledger import __version__
from ledger.cli.program import Argument, Command, Option, Program
from ledger.errors import UsageError

_TYPES: dict[str, Any] = {"text": str, "flag": bool, "number": int, "texts": list[str]}


def run_typer(arguments: list[str], program: Program) -> int:
    """Run a command line by Typer; return the exit code."""
    application = build(program)
    try:
        code = application(args=arguments or ["--help"], prog_name=program.name, standalone_mode=False)
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except SystemExit as leaving:  # its way to say that whoever read our output has left
        raise BrokenPipeError from leaving
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # a group alone: it shows its commands
            shown: Any = error
            shown.show()
            return 2
        text = str(message()).rstrip(".")
        raise UsageError(f"{text[:1].lower()}{text[1:]}: see `{_meant(arguments, program)} --help`") from error
    return int(code or 0)


def _meant(arguments: list[str], program: Program) -> str:
    """Return the command that a wrong command line begins with."""
    for command in program.commands:
        if tuple(arguments[: len(command.name)]) == command.name:
            return " ".join((program.name, *command.name))
    return f"{program.name} {arguments[0]}" if arguments[:1] and arguments[0] in program.groups else program.name


def build(program: Program) -> typer.Typer:
    """Return the application."""
    application = typer.Typer(
        help=program.about,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    application.callback()(_root)
    groups = {}
    for name, text in program.groups.items():
        groups[name] = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
        application.add_typer(groups[name], name=name)
    for command in program.commands:
        parent = groups[command.name[0]] if len(command.name) > 1 else application
        text = f"{command.help}\n\nExample: {command.example}"
        parent.command(command.name[-1], help=text, short_help=command.help)(_function(command))
    return application


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tallybook {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Print the version and leave.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Hold the option that stands before any command."""


def _function(command: Command) -> Any:
    """Return a function with the signature that Typer reads, made from the declaration."""

    def call(**values: Any) -> int:
        return command.body()(**values)

    parameters = [_argument(argument) for argument in command.arguments]
    parameters += [_option(option) for option in command.options]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__name__ = "_".join(command.name)
    return call


def _option(option: Option) -> inspect.Parameter:
    kind = _TYPES[option.kind]
    annotated: Any = Annotated[
        kind if option.default is not None else kind | None,
        typer.Option(
            *option.spellings(), help=option.help, show_default=bool(option.default), metavar=_shown_value(option)
        ),
    ]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotated)


def _shown_value(option: Option) -> str | None:
    """Return what stands for an option's value in the help; None for a flag, which has none."""
    if option.kind == "flag":
        return None
    return option.value or ("N" if option.kind == "number" else "TEXT")


def _argument(argument: Argument) -> inspect.Parameter:
    kind: Any = list[str] if argument.many else str
    default: Any = inspect.Parameter.empty
    if not argument.required:
        default = [] if argument.many else None
        kind = kind | None
    annotated: Any = Annotated[
        kind, typer.Argument(help=argument.help, show_default=False, metavar=argument.name.upper())
    ]
    return inspect.Parameter(argument.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated)
