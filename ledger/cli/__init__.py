"""The command line: commands are declared in `commands`, parsed here, and done in the packages."""

from __future__ import annotations

import sys

from ledger import __version__

PROGRAM = "ledger"


def main() -> None:
    """Run the command in sys.argv and exit: 0 done, 1 a check failed, 2 bad use or input, 130 interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command; return its exit code. The usual case is parsed without loading the help system."""
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"tallybook {__version__}\n")
        return 0
    from ledger.cli.parse import parse

    parsed = parse(arguments)
    if parsed is None:
        from ledger.cli.typer_app import run_typer

        return guarded(run_typer, arguments)
    command, values = parsed
    return guarded(command.body(), **values)


def guarded(body: object, *arguments: object, **values: object) -> int:
    """Run a body; a foreseen error becomes one line on standard error and exit code 2."""
    from ledger.errors import LedgerError

    try:
        code = body(*arguments, **values)  # type: ignore[operator]
        sys.stdout.flush()
        return int(code or 0)
    except LedgerError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except Exception as error:
        line = _foreseen(error)
        if line is None:
            raise
        return _fail(line)


def _foreseen(error: Exception) -> str | None:
    """Return the line for an error of the database, a file or a usage file, None for a defect of ours."""
    from ledger.log import sqlite

    if isinstance(error, sqlite.Error):
        return sqlite.explain(error, "the log")
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}: check the path and its permissions"
    return None


def _fail(line: str) -> int:
    from reports.text import safe

    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    sys.stderr.write(f"{PROGRAM}: {safe(' '.join(line.splitlines()))}\n")
    return 2


def _drop_output() -> None:
    """Point standard output nowhere, so that the interpreter's last flush finds no broken pipe."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
