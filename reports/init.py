"""`ledger init`: makes an empty log, or brings an older one forward, and says what it did."""

from __future__ import annotations

from pathlib import Path

from ledger.log.location import Place
from ledger.log.log import Log
from reports.output import put


def init(place: Place) -> int:
    """Make a log at a place, or say that there is one. Raises LogUnavailable."""
    if isinstance(place, Path):
        existed = place.exists() and place.stat().st_size > 0
        Log.open(place, create=True).close()
        put(f"{place}: {'is a ledger already' if existed else 'an empty ledger was made'}")
        return 0
    from ledger.log.postgres_init import init as make

    made = make(place)
    put(f"{place}: {'is a ledger already' if made.existed else 'an empty ledger was made'}")
    if made.roles:
        for kind, name in made.roles.items():
            put(f"  {kind:<7} {name}")
        put('Give a person or program its role: GRANT "' + made.roles["writer"] + '" TO somebody')
    else:
        put("  no roles: your user may not make them, so the ledger is yours alone; run this again as one who may")
    return 0
