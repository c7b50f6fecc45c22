"""`ledger copy` of events of about 570 bytes, from database to database: `python benchmarks/copying.py FOLDER URL`.

URL names a PostgreSQL database in which schemas may be made; without it only files are measured. Prints events a
second for each direction, of a log of 100,000 events in 100 streams; the target is empty.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from measure import own_peak_mib

from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened
from ledger.ids import new_id
from ledger.keeping.copying import copy
from ledger.log.location import Place, PostgresPlace, resolve
from ledger.log.log import Log, StreamAppend

EVENTS, STREAMS, BATCH = 100_000, 100, 1_000
TEXT = "x" * 120


def fill(log: Log) -> None:
    """Append the events, the streams in turn."""
    versions = [0] * STREAMS
    for begin in range(0, EVENTS, BATCH):
        stream = begin // BATCH % STREAMS
        bodies = [
            SourceOpened("benchmark", f"/home/user/{TEXT}/{number}", TEXT) for number in range(begin, begin + BATCH)
        ]
        events = [NewEvent(body=body, event_id=new_id()) for body in bodies]
        log.append([StreamAppend(f"source:{stream}", versions[stream], events)])
        versions[stream] += BATCH


def rate(source: Log, target: Log) -> float:
    """Copy, and copy again; return events a second of the first."""
    begun, worked = time.perf_counter(), time.process_time()
    assert copy(source, target).events == EVENTS
    seconds = time.perf_counter() - begun
    print(f"  {1e6 * (time.process_time() - worked) / EVENTS:.0f} us of this process an event", end="; ")
    begun = time.perf_counter()
    assert copy(source, target).events == 0
    print(f"nothing new: {time.perf_counter() - begun:.2f} s", end="; ")
    return EVENTS / seconds


def main(folder: str, url: str = "") -> None:
    """Measure every direction that the arguments allow."""
    places: dict[str, Place] = {"sqlite": Path(folder) / "source.db"}
    with Log.open(places["sqlite"], create=True) as log:
        fill(log)
    if url:
        from ledger.log.postgres_init import init

        place = resolve(f"{url}{'&' if '?' in url else '?'}schema=copying_{time.time_ns()}")
        assert isinstance(place, PostgresPlace)
        init(place)
        places["postgresql"] = place
        with Log.open(places["sqlite"]) as source, Log.open(place) as target:
            print(f"sqlite -> postgresql: {rate(source, target):,.0f} events/s")
    for name, place in places.items():
        with Log.open(place, readonly=True) as source, Log.open(Path(folder) / f"{name}.db", create=True) as target:
            print(f"{name} -> sqlite: {rate(source, target):,.0f} events/s")
    print(f"peak memory {own_peak_mib():.0f} MiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
