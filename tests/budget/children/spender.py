"""One of several processes that want the last of a limit: `spender.py PLACE SESSION NAME GRANT COST TIMES`.

Folds the hub, says "ready", waits for a line, then sends requests and prints how many left and what refused the rest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from spending import Run

from ledger.budget.bound import Bound
from ledger.log.location import resolve
from ledger.log.log import Log


def main(place: str, session: str, name: str, grant: str, cost: str, times: str) -> None:
    """Send the requests, none of which ends."""
    with Log.open(resolve(place)) as log:
        run = Run(log, session, name)
        seen = run.hub.state.total
        print(json.dumps({"spent": seen.spent_nanousd, "reserved": seen.reserved_nanousd}), flush=True)
        sys.stdin.readline()
        codes = []
        for number in range(int(times)):
            refused = run.send(grant, f"{name}-{number}", Bound(10, int(cost)))
            codes.append(None if refused is None else refused.code)
        print(json.dumps(codes), flush=True)


main(*sys.argv[1:])
