"""The agent against a rehearsal that answers at once: what a step of our loop costs, the first request, memory.

    python benchmarks/steps.py [--steps 200]

A step is one request and one tool call, every event durable. What the loop costs is the time between two requests'
leaving less the exchange itself, as the events of the log say. Prints JSON; the sync of the disk stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from writers import fsyncs_ms

from ledger.events.registry import decode
from ledger.log.log import Log

RESULT_BYTES = 19_000


def script(folder: Path, steps: int, size: int) -> Path:
    """Write a rehearsal of so many steps, each reading a file of a size, and the file."""
    (folder / "read.txt").write_text("".join(f"line {number:06}\n" for number in range(size // 12)))
    call = 'calls = [{ tool = "read_file", arguments = { path = "read.txt" } }]'
    path = folder / "script.toml"
    path.write_text("".join(f"[[step]]\n{call}\n" for _ in range(steps)) + '[[step]]\ntext = "Done."\n')
    return path


def run(folder: Path, steps: int, size: int) -> tuple[Path, float, int, float]:
    """Run a session; return (its log, seconds to the first request, peak memory in bytes, seconds in all)."""
    base = folder / f"run-{steps}-{size}"
    base.mkdir()
    seen, log = base / "seen.jsonl", base / "ledger.db"
    serve = [sys.executable, "-P", "-m", "agent", "rehearse", str(script(base, steps, size)), "--seen", str(seen)]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().split()[1]
    words = [
        sys.executable, "-P", "-m", "agent", "run", "go", "--model", "rehearsed", "--base-url", url, "--protocol",
        "openai-chat", "--workspace", str(base), "--db", str(log), "--max-iterations", str(steps + 2), "-y",
    ]  # fmt: skip
    began = time.time()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.time() - began
    server.terminate()
    assert status == 0, f"the run failed: {status}"
    first = json.loads(seen.read_text().splitlines()[0])["at_us"] / 1e6 - began
    return log, first, usage.ru_maxrss * 1024, took


def steps_of(path: Path) -> list[float]:
    """Return what the loop cost in each step, milliseconds: from an answer to the next request's leaving."""
    sent: list[int] = []
    ran: list[int] = []
    with Log.open(path) as log:
        for event in log.all_events():
            if event.type == "request.sent":
                sent.append(event.at)
            elif event.type == "request.answered":
                ran.append(decode(event.type, event.schema, event.data).ran_us)
    return [(after - before - took) / 1000 for before, after, took in zip(sent, sent[1:], ran, strict=False)]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=200)
    asked = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        short, *_ = run(folder, 10, 200)
        long, first, _, took = run(folder, asked.steps, 200)
        costs, few = steps_of(long), steps_of(short)
        figures["step_ms_median"] = round(statistics.median(costs), 2)
        figures["step_ms_median_of_10"] = round(statistics.median(few), 2)
        figures["step_ms_first_tenth"] = round(statistics.median(costs[: max(1, len(costs) // 10)]), 2)
        figures["step_ms_last_tenth"] = round(statistics.median(costs[-max(1, len(costs) // 10) :]), 2)
        sizes = {path: sum(one.stat().st_size for one in path.parent.glob("ledger.db*")) for path in (short, long)}
        figures["disk_bytes_a_step"] = (sizes[long] - sizes[short]) // (asked.steps - 10)
        firsts = [first, *(run(_made(folder, name), 1, 200)[1] for name in "abcde")]
        figures["first_request_s"] = round(statistics.median(firsts), 3)
        figures["session_s"] = round(took, 2)
        _, _, memory, _ = run(folder, asked.steps, RESULT_BYTES)
        figures["memory_mib_20kB_results"] = memory >> 20
        figures["fsync_p50_ms"] = round(statistics.median(fsyncs_ms(folder)), 3)
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    return 0


def _made(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


if __name__ == "__main__":
    raise SystemExit(main())
