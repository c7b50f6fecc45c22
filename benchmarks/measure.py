"""Times whole processes in turn, and states ratios: absolute times of one machine say little of another."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class Command(NamedTuple):
    """A process to time: its words, its environment's additions, and what to do before each run."""

    words: Sequence[str]
    environment: Mapping[str, str] = MappingProxyType({})
    before: Callable[[], None] = lambda: None


class Timing(NamedTuple):
    """Wall seconds and peak memory (MiB, the largest single process) of each run."""

    seconds: list[float]
    peak_mib: list[float]

    @property
    def median(self) -> float:
        """Median wall seconds."""
        return statistics.median(self.seconds)


def run(command: Command) -> tuple[float, float]:
    """Run once; return wall seconds and peak MiB. Raises CalledProcessError where it fails."""
    command.before()
    begun = time.perf_counter()
    process = subprocess.Popen(
        command.words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | dict(command.environment),
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command.words)
    return seconds, usage.ru_maxrss / 1024


def alternate(commands: dict[str, Command], runs: int = 7) -> dict[str, Timing]:
    """Run the commands in turn, A B A B ..., after one uncounted round; return their timings."""
    timings = {name: Timing([], []) for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            seconds, peak = run(command)
            if number:
                timings[name].seconds.append(seconds)
                timings[name].peak_mib.append(peak)
    return timings


def ratio(timings: dict[str, Timing], name: str, base: str) -> float:
    """Return the median of the pairwise ratios name/base."""
    return statistics.median(a / b for a, b in zip(timings[name].seconds, timings[base].seconds, strict=True))


def own_peak_mib() -> float:
    """Return this process's peak memory, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
