"""Append to one stream, one event a commit, and say so: `writer.py PLACE STREAM COUNT [create]`.

Prints "try ID NUMBER" before and "ack ID VERSION" after each append. COUNT 0 means until killed. The event
of number n is the n-th of the stream and truncates at n bytes, so that another process can try it again.
"""

from __future__ import annotations

import itertools
import sys

from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceTruncated
from ledger.ids import new_id
from ledger.log.location import resolve
from ledger.log.log import Log, StreamAppend


def main(place: str, stream: str, count: str, *create: str) -> None:
    """Write until the count is reached or the process is killed."""
    print("opening", flush=True)
    with Log.open(resolve(place), create=bool(create)) as log:
        begin = log.stream_version(stream)
        numbers = range(begin, begin + int(count)) if int(count) else itertools.count(begin)
        for version in numbers:
            event = NewEvent(body=SourceTruncated(offset=version + 1, size=0), event_id=new_id())
            print("try", event.event_id.hex(), version + 1, flush=True)
            done = log.append([StreamAppend(stream, version, [event])])
            print("ack", event.event_id.hex(), done[0], flush=True)


main(*sys.argv[1:])
