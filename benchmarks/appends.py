"""Live appends through the public interface against raw sqlite3 doing the same statements and hashes.

`python benchmarks/appends.py ours|raw single|batch FOLDER` appends for a while and prints events a second.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

SINGLE, BATCHES, BATCH = 2_000, 20, 1_000
TEXT = "x" * 120


def body(number: int) -> dict[str, str]:
    """Return the data of one event of about 570 bytes with its envelope."""
    return {"client": "benchmark", "path": f"/home/user/{TEXT}/{number}", "root": TEXT}


def ours(folder: Path, single: bool) -> float:
    """Append by ledger.log; return events a second."""
    from ledger.events.envelope import NewEvent
    from ledger.events.sources import SourceOpened
    from ledger.ids import new_id
    from ledger.log.log import Log, StreamAppend

    log = Log.create(folder / "ours.db")
    count, size = (SINGLE, 1) if single else (BATCHES, BATCH)
    bodies = [SourceOpened(one["client"], one["path"], one["root"]) for one in map(body, range(count * size))]
    events = [NewEvent(body=one, event_id=new_id()) for one in bodies]
    begun = time.perf_counter()
    for number in range(count):
        log.append([StreamAppend("source:bench", number * size, events[number * size : (number + 1) * size])])
    return count * size / (time.perf_counter() - begun)


def raw(folder: Path, single: bool) -> float:
    """Append by the bare driver: the same tables, triggers, look-ups and hashes, no checks in Python."""
    from ledger.log.log import Log
    from ledger.log.sqlite import connect

    Log.create(folder / "raw.db").close()
    connection = connect(folder / "raw.db")
    columns = "event_id, stream_id, version, type, schema, at, writer, data, prev_hash, hash"
    insert = f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    known = "SELECT version FROM events WHERE event_id = ?"
    head = "SELECT version, hash FROM events WHERE stream_id = ? ORDER BY version DESC LIMIT 1"
    count, size = (SINGLE, 1) if single else (BATCHES, BATCH)
    bodies = [json.dumps(body(number), separators=(",", ":")) for number in range(count * size)]
    ids = [os.urandom(16) for _ in bodies]
    begun = time.perf_counter()
    for number in range(count):
        connection.execute("BEGIN IMMEDIATE")
        version, link = connection.execute(head, ("source:bench",)).fetchone() or (0, None)
        rows = []
        for place in range(number * size, (number + 1) * size):
            connection.execute(known, (ids[place],)).fetchone()
            version += 1
            at = time.time_ns() // 1000
            data = bodies[place]
            envelope = f"{ids[place].hex()}|source:bench|{version}|source.opened|1|{at}|raw|{link!r}".encode()
            digest = hashlib.sha256(envelope + hashlib.sha256(data.encode()).digest()).digest()
            rows.append((ids[place], "source:bench", version, "source.opened", 1, at, "raw", data, link, digest))
            link = digest
        connection.executemany(insert, rows)
        connection.execute("COMMIT")
    return count * size / (time.perf_counter() - begun)


if __name__ == "__main__":
    which, mode, target = sys.argv[1:4]
    rate = (ours if which == "ours" else raw)(Path(target), mode == "single")
    print(f"{rate:.0f}")
