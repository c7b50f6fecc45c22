"""Open a log as another user might, read it and try to append: `visitor.py PLACE`. Prints one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ledger.errors import LedgerError
from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceTruncated
from ledger.ids import new_id
from ledger.log.log import Log, StreamAppend


def main(place: str) -> None:
    """Say how far one gets."""
    said: dict[str, object] = {}
    try:
        with Log.open(Path(place)) as log:
            said["readonly"] = log.readonly
            said["events"] = len(log.events_after(0))
            event = NewEvent(body=SourceTruncated(offset=1, size=0), event_id=new_id())
            log.append([StreamAppend("source:visitor", 0, [event])])
    except LedgerError as error:
        said["error"], said["message"] = type(error).__name__, str(error)
    print(json.dumps(said))


main(*sys.argv[1:])
