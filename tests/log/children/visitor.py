"""Open a log as another user, read it and try to append: `visitor.py open|create PLACE`. Prints one JSON object.

To root no permission applies, so root becomes nobody first. What nobody may not read, the installed modules
among it, is loaded before.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from ledger.errors import LedgerError
from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceTruncated
from ledger.ids import new_id
from ledger.log.log import Log, StreamAppend

NOBODY = 65534


def main(how: str, place: str) -> None:
    """Say how far one gets."""
    with tempfile.TemporaryDirectory() as folder:
        _visit(Path(folder) / "ledger.db", create=True)
        _visit(Path(folder) / "ledger.db", create=False, readonly=True)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    print(json.dumps(_visit(Path(place), create=how == "create")))


def _visit(place: Path, *, create: bool, readonly: bool = False) -> dict[str, object]:
    said: dict[str, object] = {}
    try:
        with Log.open(place, create=create, readonly=readonly) as log:
            said["readonly"] = log.readonly
            said["events"] = len(log.events_after(0))
            event = NewEvent(body=SourceTruncated(offset=1, size=0), event_id=new_id())
            log.append([StreamAppend("source:visitor", 0, [event])])
    except LedgerError as error:
        said["error"], said["message"] = type(error).__name__, str(error)
    return said


main(*sys.argv[1:])
