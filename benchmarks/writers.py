"""Many processes append with time to think between, while a reader folds what it is behind: how long an append takes.

    python benchmarks/writers.py PLACE --writers 32 --think-ms 20 --seconds 10 [--behind 300000]

PLACE is a path, where a log is made and filled with `--behind` small events first (one that is there is taken as it
is, with whatever its accounts are behind), or the URL of an empty log on PostgreSQL. Prints one JSON object: latencies
of single appends in milliseconds, commits a second, the fsync of the same disk in the same run, and whether a tailing
reader saw every event once and in order.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ledger.events.envelope import NewEvent
from ledger.events.sources import SourceOpened, SourceTruncated
from ledger.ids import new_id
from ledger.log.location import resolve
from ledger.log.log import Log, StreamAppend


def write(place: str, number: int, think_s: float, begin_at: float, end_at: float, results: Any) -> None:
    """Append one event after the other to a stream of one's own; send the latencies, milliseconds."""
    taken = []
    with Log.open(resolve(place)) as log:
        stream, version = f"source:writer-{number}-{begin_at}", 1
        opened = SourceOpened(client="claude-code", path=f"/home/dev/{number}.jsonl", root="/home/dev")
        first = NewEvent(body=opened, event_id=new_id())
        log.append([StreamAppend(stream, 0, [first])])  # loads what appending needs: not counted
        time.sleep(max(0, begin_at - time.time()) + think_s * (number % 16) / 16)
        while time.time() < end_at:
            event = NewEvent(body=SourceTruncated(offset=version, size=number), event_id=new_id())
            begun = time.perf_counter()
            log.append([StreamAppend(stream, version, [event])])
            taken.append((time.perf_counter() - begun) * 1000)
            version += 1
            if think_s:
                time.sleep(think_s)
    results.put(taken)


def follow(place: str, after: int, stop: Any, results: Any) -> None:
    """Read what is beyond a position again and again; send how many events came, and whether positions had gaps."""
    seen, gaps = 0, 0
    with Log.open(resolve(place), readonly=True) as log:
        while True:
            ending = stop.is_set()
            for event in log.all_events(after):
                gaps += event.position != after + 1
                after, seen = event.position, seen + (event.version > 1)
            if ending:
                results.put((seen, gaps))
                return
            time.sleep(0.005)


def fsyncs_ms(folder: Path, rounds: int = 1000) -> list[float]:
    """Return how long writes of 4 KiB and their syncs take, milliseconds, in order of length."""
    taken = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(rounds):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), bytes(4096), 0)
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return sorted(taken)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("place")
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--think-ms", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--behind", type=int, default=0)
    asked = parser.parse_args()
    if asked.behind and not Path(asked.place).exists():
        filler = Path(__file__).parent / "spans.py"
        subprocess.run([sys.executable, filler, asked.place, "--spans", str(asked.behind), "--small"], check=True)
    with Log.open(resolve(asked.place), create=True) as log:
        head = log.head_position()
    context = multiprocessing.get_context("spawn")
    results, followed, stop = context.Queue(), context.Queue(), context.Event()
    begin_at = time.time() + 1.5 + asked.writers * 0.08
    end_at = begin_at + asked.seconds
    writers = [
        context.Process(target=write, args=(asked.place, number, asked.think_ms / 1000, begin_at, end_at, results))
        for number in range(asked.writers)
    ]
    tailing = context.Process(target=follow, args=(asked.place, head, stop, followed))
    for one in (*writers, tailing):
        one.start()
    reader = None
    if asked.behind:
        time.sleep(max(0, begin_at - time.time()))
        words = [sys.executable, "-m", "ledger", "report", "--by", "month", "--db", asked.place, "--format", "json"]
        reader = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    taken = sorted(one for _ in writers for one in results.get())
    for one in writers:
        one.join()
    caught_up = reader is None or reader.poll() is not None
    stop.set()
    seen, gaps = followed.get()
    if reader is not None and reader.wait():
        raise SystemExit(f"the reader failed with {reader.returncode}: nothing was caught up, so nothing was measured")
    place = resolve(asked.place)
    synced = fsyncs_ms(place.parent if isinstance(place, Path) else Path(tempfile.gettempdir()))
    answer = {
        "appends": len(taken),
        "commits_per_second": round(len(taken) / asked.seconds),
        **{f"p{share}_ms": round(taken[int(len(taken) * share / 100)], 3) for share in (50, 90, 99)},
        "p99.9_ms": round(taken[int(len(taken) * 0.999)], 3),
        "max_ms": round(taken[-1], 3),
        "fsync_p50_ms": round(synced[len(synced) // 2], 3),
        "fsync_p99_ms": round(synced[len(synced) * 99 // 100], 3),
        "tailing_reader_saw": seen,
        "gaps": gaps,
        "reader_caught_up_meanwhile": caught_up,
    }
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
