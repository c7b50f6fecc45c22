"""Append to a stream of a log, one event a commit, until killed: `writer.py PLACE [STREAM]`.

Prints the position of each event when it is acknowledged.
"""

from __future__ import annotations

import sys

from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened, SourceTruncated
from ledger.ids import new_id
from ledger.log.location import resolve
from ledger.log.log import Log, StreamAppend


def main(place: str, stream: str = "source:writer") -> None:
    """Write until killed."""
    with Log.open(resolve(place)) as log:
        version = log.stream_version(stream)
        while True:
            body = SourceTruncated(version, version) if version else SourceOpened("x", f"/{stream}", "/")
            event = NewEvent(body=body, event_id=new_id())
            [version] = log.append([StreamAppend(stream, version, [event])])
            hit = log.hash_at(stream, version)
            assert hit is not None
            print(hit[0], flush=True)


main(*sys.argv[1:])
