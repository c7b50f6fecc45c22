"""Append to one stream, one event a commit, and say so: `writer.py PLACE STREAM COUNT [create]`.

Prints "try ID NUMBER" before and "ack ID VERSION" after each append. COUNT 0 means until killed, or until the log
cannot be reached: then the exit code is 3. Another process can try the same again: see bodies.py.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bodies import body_of

from ledger.errors import LogUnavailable
from ledger.events.envelope import NewEvent
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
            event = NewEvent(body=body_of(stream, version + 1), event_id=new_id())
            print("try", event.event_id.hex(), version + 1, flush=True)
            done = log.append([StreamAppend(stream, version, [event])])
            print("ack", event.event_id.hex(), done[0], flush=True)


try:
    main(*sys.argv[1:])
except LogUnavailable:
    sys.exit(3)
