"""The command lines of `agent`, and of `tallybook`, which is `agent` and `ledger` under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.cli import enter

if TYPE_CHECKING:
    from ledger.cli.program import Program


def main() -> None:
    """Run the command of `agent` in sys.argv and exit: 0 done, 1 not done, 2 bad use or input, 130 interrupted."""
    enter("agent", agent)


def tallybook() -> None:
    """Run the command of `tallybook` in sys.argv and exit."""
    enter("tallybook", both)


def agent() -> Program:
    """Return the program `agent`."""
    from agent.cli.commands import AGENT

    return AGENT


def both() -> Program:
    """Return the program `tallybook`."""
    from agent.cli.commands import TALLYBOOK

    return TALLYBOOK
