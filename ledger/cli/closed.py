"""Standard streams that whoever started the program had closed: output is then refused, and not lost in silence."""

from __future__ import annotations

import io
import os
import sys

from ledger.errors import LedgerError


class _Closed(io.TextIOBase):
    """A standard output that is not there: the first word written to it ends the command."""

    def write(self, text: str) -> int:
        """Raise LedgerError, unless there is nothing to write."""
        if text:
            raise LedgerError(
                "standard output is closed: nothing can be shown there: send it to a file, or to /dev/null"
            )
        return 0


def stand_in() -> None:
    """Put something in the place of each standard stream that is closed.

    Errors that nobody can see are dropped; output is refused. The numbers 0 to 2 are taken by the null device:
    else the next file that is opened, the log's perhaps, would be what other libraries take for a standard stream.
    """
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123 - for as long as we live
    sys.stdout = sys.stdout or _Closed()
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
