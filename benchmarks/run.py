"""Every figure the project promises on speed and memory, as ratios within one run: `make bench`.

The comparison with ccusage needs its native binary: `npm install ccusage@20.0.24` somewhere, and CCUSAGE=the path of
`@ccusage/.../bin/ccusage`. Without it those rows are left out, and said to be.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Command, alternate, ratio, run

ROOT = Path(__file__).parent.parent
LEDGER = str(Path(sys.executable).parent / "ledger")
GENERATOR = ROOT / "tests" / "tools" / "gen_claude_logs.py"


def row(what: str, value: str, aim: str) -> None:
    """Print one figure beside what was promised."""
    print(f"{what:<58} {value:>12}   {aim}")


def imports(scratch: Path) -> None:
    """First import, nothing new, one line appended: against the native ccusage on the same tree."""
    home = scratch / "home"
    words = [sys.executable, GENERATOR, home, "--mb", "200", "--seed", "7"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    ccusage = os.environ.get("CCUSAGE", "")
    database = scratch / "import.db"
    environment = {"HOME": str(home), "TALLYBOOK_DB": str(database), "TZ": "UTC"}

    def absent() -> None:
        for name in scratch.glob("import.db*"):
            name.unlink()

    def one_line() -> None:
        path = sorted((home / ".claude").rglob("*.jsonl"))[0]
        line = next(line for line in path.read_bytes().splitlines() if b'"usage"' in line)
        number = f"{os.urandom(8).hex()}".encode()
        with path.open("ab") as file:
            file.write(line.replace(b"msg_01", b"msg_99" + number) + b"\n")

    ours = [LEDGER, "report", "--import", "--by", "day"]
    if not ccusage:
        print("CCUSAGE is not set: the comparison with the native ccusage is left out")
        _, peak = run(Command(ours, environment, absent))
        row("first import of 200 MB, peak memory", f"{peak:.0f} MiB", "< 80 MiB")
        return
    base = Command([ccusage, "claude", "daily", "--offline", "--json"], {"HOME": str(home)})
    for what, before, aim in (
        ("first report --import of 200 MB / ccusage", absent, "<= 4, aim 2"),
        ("the same with nothing new / ccusage", lambda: None, "<= 0.6"),
        ("the same with one line appended / ccusage", one_line, "<= 0.8"),
    ):
        timings = alternate({"ours": Command(ours, environment, before), "ccusage": base})
        row(what, f"{ratio(timings, 'ours', 'ccusage'):.2f}", aim)
        times = f"{timings['ours'].median:.3f} s against {timings['ccusage'].median:.3f} s"
        print(f"    {times}, peak {max(timings['ours'].peak_mib):.0f} MiB")


def long_inputs(scratch: Path) -> None:
    """Peak memory of one 300 MB file, and of one 50 MB line."""
    source = scratch / "home" / ".claude"
    files = sorted(source.rglob("*.jsonl"), key=lambda path: -path.stat().st_size)
    for what, build in (("one 300 MB file", _one_file), ("one 50 MB line", _one_line)):
        home = scratch / what.replace(" ", "-")
        target = home / ".claude" / "projects" / "p" / "5e551011-0000-4000-a000-00000000000f.jsonl"
        target.parent.mkdir(parents=True)
        build(files, target)
        environment = {"HOME": str(home), "TALLYBOOK_DB": str(home / "ledger.db")}
        _, peak = run(Command([LEDGER, "report", "--import"], environment))
        row(f"{what}, peak memory", f"{peak:.0f} MiB", "< 80 MiB")
        shutil.rmtree(home)


def _one_file(files: list[Path], target: Path) -> None:
    with target.open("wb") as out:
        while out.tell() < 300_000_000:
            for path in files:
                with path.open("rb") as file:
                    shutil.copyfileobj(file, out)
                if out.tell() > 300_000_000:
                    break


def _one_line(files: list[Path], target: Path) -> None:
    """A response whose text is 50 MB. Written in pieces: a child's peak begins with its parent's memory."""
    with files[-1].open("rb") as file:
        usage = next(line for line in file if b'"usage"' in line and b'"text":"' in line)
    begin = usage.index(b'"text":"') + 8
    with target.open("wb") as out:
        out.write(usage[:begin])
        for _ in range(50):
            out.write(b"x" * 1_000_000)
        out.write(usage[begin:])


def starts(scratch: Path) -> None:
    """Start-up against a bare interpreter."""
    home = ROOT / "reports" / "sample"
    environment = {"TALLYBOOK_DB": str(scratch / "small.db")}
    run(Command([LEDGER, "import", "--home", str(home)], environment))
    timings = alternate(
        {
            "pass": Command([sys.executable, "-c", "pass"]),
            "version": Command([LEDGER, "--version"]),
            "report": Command([LEDGER, "report"], environment),
        },
        runs=15,
    )
    row("ledger --version / python -c pass", f"{ratio(timings, 'version', 'pass'):.2f}", "<= 3")
    row("ledger report on a small log / python -c pass", f"{ratio(timings, 'report', 'pass'):.2f}", "<= 8")


def appends(scratch: Path) -> None:
    """Live appends against raw sqlite3 doing the same."""
    for mode in ("single", "batch"):
        rates: dict[str, list[float]] = {"ours": [], "raw": []}
        for _ in range(7):
            for which, found in rates.items():
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    words = [sys.executable, ROOT / "benchmarks" / "appends.py", which, mode, folder]
                    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
                    found.append(float(out))
        share = statistics.median(a / b for a, b in zip(rates["ours"], rates["raw"], strict=True))
        row(f"append, {mode}: ours / raw sqlite3", f"{share:.2f}", ">= 0.5")
        medians = [statistics.median(found) for found in rates.values()]
        print(f"    {medians[0]:,.0f} against {medians[1]:,.0f} events a second")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tallybook-bench-") as name:
        folder = Path(name)
        print(f"{'what':<58} {'measured':>12}   promised")
        starts(folder)
        appends(folder)
        imports(folder)
        long_inputs(folder)
