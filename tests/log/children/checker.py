"""Open a log as a new process, check it, and try again what was never acknowledged: `checker.py PLACE`.

Reads "STREAM ID NUMBER" lines of attempts whose outcome is unknown. Prints one JSON object: what is broken, and the
ids of each stream in order, before and after trying again (twice).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bodies import body_of

from ledger.events.envelope import NewEvent
from ledger.log.hashing import broken_links
from ledger.log.location import resolve
from ledger.log.log import Log, StreamAppend


def main(place: str) -> None:
    """Check the log and print what was found."""
    unknown = [line.split() for line in sys.stdin]
    with Log.open(resolve(place)) as log:
        broken = [what for _, what in broken_links(log.all_events(), {})]
        before = _ids(log)
        versions = []
        for stream, event_id, number in unknown * 2:
            event = NewEvent(body=body_of(stream, int(number)), event_id=bytes.fromhex(event_id))
            versions += log.append([StreamAppend(stream, int(number) - 1, [event])])
        after = _ids(log)
        broken += [what for _, what in broken_links(log.all_events(), {})]
        positions = [event.position for event in log.all_events()]
    gapless = positions == list(range(1, len(positions) + 1))
    print(json.dumps({"broken": broken, "gapless": gapless, "before": before, "after": after, "versions": versions}))


def _ids(log: Log) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in log.all_events():
        found.setdefault(event.stream_id, []).append(event.event_id.hex())
    return found


main(*sys.argv[1:])
