"""Write until the system refuses to let a file grow: `limited.py append|create PLACE`.

Prints one JSON object: the error; for `append` also the version and whether the blob is there after it, and
the version when the limit is lifted.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

from ledger.errors import LedgerError
from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceTruncated
from ledger.ids import new_id
from ledger.log.blobs import make_blob
from ledger.log.log import Log, StreamAppend


def main(how: str, place: str) -> None:
    """Run into the limit."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    said: dict[str, object] = {}
    (_append if how == "append" else _create)(Path(place), said)
    print(json.dumps(said))


def _create(place: Path, said: dict[str, object]) -> None:
    _limit(20_000)
    try:
        Log.create(place)
    except LedgerError as error:
        said["error"], said["message"] = type(error).__name__, str(error)
    _limit(resource.RLIM_INFINITY)


def _append(place: Path, said: dict[str, object]) -> None:
    with Log.open(place) as log:
        event = NewEvent(body=SourceTruncated(offset=1, size=0), event_id=new_id())
        blob = make_blob(os.urandom(4_000_000))
        said["before"] = log.stream_version("source:a")
        _limit(1_000_000)
        try:
            log.append([StreamAppend("source:a", 1, [event])], [(event.event_id, blob)])
        except LedgerError as error:
            said["error"], said["message"] = type(error).__name__, str(error)
        said["after"], said["blob"] = log.stream_version("source:a"), log.blob(blob.sha256) is not None
        _limit(resource.RLIM_INFINITY)
        log.append([StreamAppend("source:a", 1, [event])], [(event.event_id, blob)])
        said["end"] = log.stream_version("source:a")


def _limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


main(*sys.argv[1:])
