"""Open a log as a later program would: `migrator.py PLACE SCRIPTS`. Prints the format that it has then."""

from __future__ import annotations

import sys
from pathlib import Path

from ledger.log import log, migrate


def main(place: str, scripts: str) -> None:
    """Open it, which brings it forward."""
    log.FORMAT += 1
    migrate.scripts = lambda: Path(scripts)
    with log.Log.open(Path(place)) as opened:
        print(opened.meta("format"))


main(*sys.argv[1:])
