"""The command line: commands are declared in `commands`, parsed here, and done in the packages."""

from __future__ import annotations

import gc
import os
import sys

from ledger import __version__

TYPE_CHECKING = False  # as `typing` has it, which `--version` need not load
if TYPE_CHECKING:
    from collections.abc import Callable

    from ledger.cli.program import Program


def main() -> None:
    """Run the command of `ledger` in sys.argv and exit."""
    enter("ledger", _ledger)


def _ledger() -> Program:
    from ledger.cli.commands import LEDGER

    return LEDGER


def enter(name: str, load: Callable[[], Program]) -> None:
    """Run the command in sys.argv and exit: 0 done, 1 a check failed, 2 bad use or input, 130 interrupted.

    `load` imports what the program is: not before it is known that more than its version is asked for.
    """
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:  # closed by whoever started us
        from ledger.cli.closed import stand_in

        stand_in()
    # A command lives for a moment and leaves no cycles behind: collecting them often costs more than it frees.
    gc.set_threshold(100_000, 20, 20)
    _leave(run(sys.argv[1:], name, load))


def _leave(code: int) -> None:
    """End the process now. Taking the interpreter's modules apart first would cost 20 ms and change nothing."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads what is left
        pass
    os._exit(code)


def run(arguments: list[str], name: str = "ledger", load: Callable[[], Program] = _ledger) -> int:
    """Run a command; return its exit code. A foreseen error becomes one line on standard error and exit code 2."""
    from ledger.errors import LedgerError

    try:
        code = _dispatch(arguments, load)
        sys.stdout.flush()
        return code
    except LedgerError as error:
        return _fail(name, str(error), arguments, error.exit_code)
    except KeyboardInterrupt:
        _say("\n")
        return 130
    except BrokenPipeError:
        _drop(sys.stdout.fileno())
        _say("")
        return 141
    except Exception as error:
        line = foreseen(error)
        if line is None:
            raise
        return _fail(name, line, arguments)


def _dispatch(arguments: list[str], load: Callable[[], Program]) -> int:
    """Run a command. The usual case is parsed without loading the help system."""
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"tallybook {__version__}\n")
        return 0
    from ledger.cli.parse import parse

    program = load()
    parsed = parse(arguments, program.commands)
    if parsed is None:
        from ledger.cli.typer_app import run_typer

        return run_typer(arguments, program)
    command, values = parsed
    return int(command.body()(**values) or 0)


def foreseen(error: Exception) -> str | None:
    """Return the line for an error of the database, a file or a damaged event, None for a defect of ours."""
    import errno

    import msgspec

    from ledger.log import sqlite

    if isinstance(error, sqlite.Error) and sqlite.is_damage(error):
        return "the log or its accounts are damaged: run `ledger rebuild` for new accounts, then `ledger verify`"
    if isinstance(error, sqlite.Error):
        return sqlite.explain(error, "the log")
    if type(error).__module__.startswith("psycopg"):
        from ledger.log import postgres

        return postgres.explain(error, "the log")
    if isinstance(error, msgspec.MsgspecError):
        return f"the log holds an event that cannot be read ({error}): run `ledger verify`, which names it"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        full = error.errno == errno.ENOSPC
        advice = "free some space and run this again" if full else "check the path and its permissions"
        return f"{name}{error.strerror or error}: {advice}"
    return None


def _fail(name: str, line: str, arguments: list[str], code: int = 2) -> int:
    from reports.text import safe

    for word in arguments:
        if "://" in word:  # it may hold a password
            from ledger.log.location import shown

            line = line.replace(word, shown(word))

    try:
        sys.stdout.flush()
    except OSError:
        _drop(sys.stdout.fileno())
    text = f"{name}: {safe(' '.join(line.splitlines()))}"
    if sys.stderr.isatty():
        import textwrap

        from reports.text import terminal_columns

        wide = min(80, terminal_columns())
        text = textwrap.fill(text, wide, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    _say(text + "\n")
    return code


def _say(text: str) -> None:
    """Write to standard error, if anyone listens."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr.fileno())


def _drop(descriptor: int) -> None:
    """Point an output nowhere, so that the interpreter's last flush finds no broken pipe and no full disk."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
