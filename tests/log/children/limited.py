"""Append until the system refuses to let a file grow, then with the limit lifted: `limited.py PLACE`.

Prints one JSON object: the error, and the versions and blobs before, after it and at the end.
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


def main(place: str) -> None:
    """Run into the limit and out of it."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Log.open(Path(place)) as log:
        event = NewEvent(body=SourceTruncated(offset=1, size=0), event_id=new_id())
        blob = make_blob(os.urandom(4_000_000))
        said: dict[str, object] = {"before": log.stream_version("source:a")}
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
        try:
            log.append([StreamAppend("source:a", 1, [event])], [(event.event_id, blob)])
        except LedgerError as error:
            said["error"], said["message"] = type(error).__name__, str(error)
        said["after"], said["blob"] = log.stream_version("source:a"), log.blob(blob.sha256) is not None
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        log.append([StreamAppend("source:a", 1, [event])], [(event.event_id, blob)])
        said["end"] = log.stream_version("source:a")
    print(json.dumps(said))


main(*sys.argv[1:])
