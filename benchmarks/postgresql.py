"""Eight writers on PostgreSQL, one event a commit, and a tailing reader: commits a second, against what else there is.

    python benchmarks/postgresql.py [--seconds 5] [--writers 8]

A cluster is made for the run, on the disk of /tmp, with the server's own defaults (every commit waits for the disk).
Prints one JSON object: what `writers.py` measures of the log; what pgbench gets in the same cluster for bare inserts of
such rows: without any order, and one after the other, each holding a lock until its commit is on the disk, which is the
plain way to keep positions in the order of commits; what one such insert takes alone; and how many of the log's commits
go into that time.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
# What starts a server belongs to the tests: it is found beside them, so imports come after their path.
sys.path.insert(0, str(ROOT / "tests" / "support"))

from postgres_server import Server, begin_run, end_run, server_of_this_run  # noqa: E402

from ledger.log.location import PostgresPlace, resolve  # noqa: E402
from ledger.log.postgres_init import init  # noqa: E402

BARE = "INSERT INTO bare (a, b) VALUES (repeat('x', 300), gen_random_uuid());"
SCRIPTS = {
    "bare_inserts_without_order": BARE,
    "bare_inserts_one_by_one": f"BEGIN;\nSELECT pg_advisory_xact_lock(1);\n{BARE}\nCOMMIT;",
}


def measured(place: str, writers: int, seconds: float) -> dict[str, Any]:
    """Return what writers.py says of a log."""
    words = [sys.executable, str(ROOT / "benchmarks" / "writers.py"), place, "--think-ms", "0",
             "--writers", str(writers), "--seconds", str(seconds)]  # fmt: skip
    return dict(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout))


def benched(server: Server, script: str, writers: int, seconds: float) -> int:
    """Return how many transactions of a script pgbench gets through in a second."""
    file = server.folder / "script.sql"
    file.write_text(script)
    said = server.run("pgbench", "-n", "-h", server.data, "-U", "postgres", "-c", writers, "-j", 2, "-T", int(seconds),
                      "-f", file, "postgres")  # fmt: skip
    found = re.search(r"tps = ([0-9.]+)", said)
    assert found, said
    return round(float(found[1]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    asked = parser.parse_args()
    run = begin_run()
    try:
        server = Server(server_of_this_run().folder, "bench")
        server.make({"max_connections": "200"})
        server.start()
        place = resolve(server.url())
        assert isinstance(place, PostgresPlace)
        init(place)
        answer = measured(server.url(), asked.writers, asked.seconds)
        with server.connect() as admin:
            admin.execute("CREATE TABLE bare (n bigserial PRIMARY KEY, a text, b uuid UNIQUE)")
        for name, script in SCRIPTS.items():
            answer[name] = benched(server, script, asked.writers, asked.seconds)
        alone = benched(server, BARE, 1, asked.seconds)
        answer["bare_insert_alone_ms"] = round(1000 / alone, 3)  # a sync of the write-ahead log, and little else
        answer["commits_a_sync"] = round(answer["commits_per_second"] / alone, 1)
        print(json.dumps(answer, indent=1))
    finally:
        end_run(run)


if __name__ == "__main__":
    main()
