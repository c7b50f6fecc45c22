"""Ask for the accounts again and again, or rebuild or just fold them: `reporter.py PLACE read|rebuild|fold COUNT`.

Prints each answer; who folds prints nothing. A log is opened anew each time.
"""

from __future__ import annotations

import sys

from ledger.accounts.catchup import catch_up, rebuild, snapshot
from ledger.errors import LogUnavailable
from ledger.log.location import resolve
from ledger.log.log import Log
from ledger.log.postgres import SchemaConnection


def main(place: str, how: str, count: str) -> None:
    """Do it."""
    for _ in range(int(count)):
        with Log.open(resolve(place)) as log:
            if how == "fold":
                catch_up(log)
                continue
            if how == "rebuild":
                print(rebuild(log), flush=True)
                continue
            with snapshot(log) as view:
                row = view.store.query("SELECT count(*), sum(output), sum(cost_nanousd) FROM gen_spans").fetchone()
                print(*row, flush=True)


try:
    main(*sys.argv[1:])
except (LogUnavailable, SchemaConnection.Error):  # the server went away
    sys.exit(3)
