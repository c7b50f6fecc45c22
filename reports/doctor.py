"""`ledger doctor`: what the log stands on, a line a check, and what to do where something is amiss.

What holds of every log is here and in doctor_log; what only files or only servers have, in doctor_sqlite and
doctor_postgres. Each of those has `examine(place)`, which yields the checks of a log of its kind.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

from ledger import __version__
from ledger.log.location import Place
from reports.doctor_machine import Clocks, time_zone
from reports.doctor_sources import session_files
from reports.health import BAD, Check, print_checks, worst


def doctor(place: Place, home: Path, use_environment: bool, format_: str) -> int:
    """Print every check; return 1 if any verdict is bad. No event is written, and no log is made."""
    checks = list(_examine(place, home, use_environment))
    print_checks(checks, format_)
    return 1 if worst(checks) == BAD else 0


def _examine(place: Place, home: Path, use_environment: bool) -> Iterator[Check]:
    clocks = Clocks()
    yield Check("program", f"tallybook {__version__}")
    yield Check("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield time_zone()
    if isinstance(place, Path):
        from reports.doctor_sqlite import examine as examine_file

        yield from examine_file(place)
    else:
        from reports.doctor_postgres import examine as examine_schema

        yield from examine_schema(place)
    yield from session_files(place, home, use_environment)
    yield clocks.check()
