"""What `ledger doctor` says of the machine: clocks, time zone, and how long the disk takes to keep something."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from ledger.errors import UsageError
from reports.health import OK, WARN, Check
from reports.periods import Zone

_DRIFT_US = 50_000
"""Wall clock and monotonic clock may differ by this much over the moments of an examination."""
_SYNCS = 15
_SYNC_BYTES = 4096
_FAST_US, _SLOW_US = 20, 20_000
"""No disk and no SSD keeps anything within 20 microseconds; 20 ms a commit is felt."""


class Clocks:
    """Compares the wall clock with the monotonic one between its making and `check`."""

    def __init__(self) -> None:
        self._begun = self._now()

    @staticmethod
    def _now() -> tuple[int, int]:
        return time.time_ns() // 1000, time.monotonic_ns() // 1000

    def check(self) -> Check:
        """Say whether both clocks went on alike meanwhile."""
        wall, monotonic = (now - begun for now, begun in zip(self._now(), self._begun, strict=True))
        if monotonic < 0:
            advice = "the system's monotonic clock goes backwards: times of this machine cannot be relied on"
            return Check("clocks", f"the monotonic clock went back by {-monotonic / 1000:,.0f} ms", WARN, advice)
        off_us = wall - monotonic
        if abs(off_us) > _DRIFT_US:
            ahead = "ahead" if off_us > 0 else "back"
            advice = (
                "something sets this machine's clock in steps: let it be steered (NTP), or new events seem misplaced"
            )
            value = f"the wall clock was set {ahead} by {abs(off_us) / 1000:,.0f} ms during this examination"
            return Check("clocks", value, WARN, advice)
        return Check("clocks", f"wall clock and monotonic clock agree over {monotonic / 1000:,.0f} ms")


def time_zone() -> Check:
    """Say in which time zone days are, where none is asked for."""
    named = os.environ.get("TZ", "").removeprefix(":")
    offset = time.strftime("%z")
    value = f"{named or time.tzname[time.localtime().tm_isdst > 0]} (now UTC{offset[:3]}:{offset[3:]})"
    if named and not named.startswith("/") and not any(sign.isdigit() for sign in named):
        try:
            Zone(named)
        except UsageError:
            advice = "TZ names no known zone, so days are UTC days: set it to a name such as Europe/Berlin"
            return Check("time zone", f"{named}: unknown", WARN, advice)
    return Check("time zone", value, OK)


def sync_time(folder: Path) -> Check:
    """Measure how long it takes until the disk of a folder has kept a page: the median of some. Nothing stays.

    A commit waits for one sync. Where one takes no time at all, it is not done, and a power cut takes commits away.
    """
    try:
        times_us = _syncs_us(folder)
    except OSError as error:
        return Check("disk sync", f"not measured: {error.strerror or error}", OK, "it is measured where one may write")
    median_us = statistics.median(times_us)
    value = f"{_milliseconds(median_us)} (median of {len(times_us)}, slowest {_milliseconds(max(times_us))})"
    if median_us < _FAST_US:
        advice = (
            "too fast to be true: this disk does not wait until data is safe (a RAM disk, or a cache without battery); "
            "a power cut may take the last commits away"
        )
        return Check("disk sync", value, WARN, advice)
    if median_us > _SLOW_US:
        return Check("disk sync", value, WARN, "every commit waits so long: keep the log on a faster, local disk")
    return Check("disk sync", value)


def _syncs_us(folder: Path) -> list[float]:
    descriptor, name = tempfile.mkstemp(prefix=".tallybook-doctor-", dir=folder)
    try:
        page, times_us = os.urandom(_SYNC_BYTES), []
        for number in range(_SYNCS):
            os.lseek(descriptor, number * _SYNC_BYTES, os.SEEK_SET)
            os.write(descriptor, page)
            begun = time.perf_counter_ns()
            os.fsync(descriptor)
            times_us.append((time.perf_counter_ns() - begun) / 1000)
        return times_us
    finally:
        os.close(descriptor)
        Path(name).unlink()


def _milliseconds(microseconds: float) -> str:
    return f"{microseconds / 1000:,.3f} ms" if microseconds < 1000 else f"{microseconds / 1000:,.1f} ms"
