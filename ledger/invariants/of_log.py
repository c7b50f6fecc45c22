"""What must hold of the log alone. Its events are read once, for all of these checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from ledger.accounts.store import Checkpoint
from ledger.budget.checks import faults
from ledger.errors import LogTooNew, VolumeMissing
from ledger.events import sources
from ledger.events.envelope import Event
from ledger.events.registry import decode
from ledger.evidence.purge import purged_names
from ledger.evidence.seals import Fault, check_seals
from ledger.findings import Finding
from ledger.invariants.finding import Progress, Scene
from ledger.invariants.of_runs import Runs
from ledger.log.blobs import is_content_of
from ledger.log.hashing import broken_links
from ledger.log.log import Log
from ledger.log.volumes import Volumes

_KEPT_MAX = 10_000
"""How many findings of one kind are kept while the events are read."""


class Reading:
    """One reading of the events in (since, until], and what was found in it."""

    def __init__(self, log: Log, since: int, until: int, progress: Progress | None = None) -> None:
        self.log, self.since, self.until, self.progress = log, since, until, progress
        self.chains: list[Finding] = []
        self.gaps: list[Finding] = []
        self.catalogue: list[Finding] = []
        self.stretches: list[Finding] = []
        self.runs: list[Finding] = []
        self._runs = Runs(lambda finding: self._keep(self.runs, finding), self._earlier)
        self.ends: dict[str, int] = {}
        """Stream of a source -> how far its file was read, by the events that were read here."""
        for event, wrong in broken_links(self._passing(), _Heads(log, since)):
            self._keep(
                self.chains, Finding(f"{event.stream_id} version {event.version}: {wrong}", event=event.position)
            )

    def _keep(self, found: list[Finding], finding: Finding) -> None:
        if len(found) < _KEPT_MAX:
            found.append(finding)

    def _passing(self) -> Iterator[Event]:
        before = self.since
        for event in self.log.all_events(self.since):
            if event.position > self.until:
                return
            if event.position != before + 1:
                what = "events are missing before this one"
                self._keep(self.gaps, Finding(what, str(before + 1), str(event.position), event=event.position))
            before = event.position
            self._decode(event)
            if self.progress and not before % 1000:
                self.progress(before - self.since, self.until - self.since)
            yield event

    def _decode(self, event: Event) -> None:
        try:
            body = decode(event.type, event.schema, event.data)
        except (LogTooNew, msgspec.MsgspecError) as error:
            self._keep(self.catalogue, Finding(f"{event.type}: {error}", event=event.position))
            return
        self._runs.take(event, body)
        if isinstance(body, sources.LinesObserved):
            expected = self.ends.get(event.stream_id)
            if expected is None:
                expected = self._end_before(event)
            if expected is not None and body.begin != expected:
                what = "a stretch does not begin where the last one ended"
                self._keep(self.stretches, Finding(what, str(expected), str(body.begin), event=event.position))
            self.ends[event.stream_id] = body.end
        elif isinstance(body, sources.SourceTruncated):
            self.ends[event.stream_id] = 0

    def _earlier(self, event: Event) -> Iterator[tuple[Event, Any]]:
        """Yield the events of a stream before this one, where a reading begins in the middle of the log."""
        version = 0
        while self.since and version < event.version - 1:
            try:
                page = self.log.stream_events(event.stream_id, version)
            except VolumeMissing:
                return
            for one in page:
                if one.version < event.version:
                    yield one, decode(one.type, one.schema, one.data)
            version = page[-1].version if page else event.version

    def _end_before(self, event: Event) -> int | None:
        """Return how far a source was read before an event, where earlier events are not read here.

        None where they lie in a file that is not there.
        """
        version = event.version - 1
        while self.since and version > 0:
            try:
                found = self.log.stream_events(event.stream_id, version - 1, 1)
            except VolumeMissing:
                return None
            if not found:
                break
            body: Any = decode(found[0].type, found[0].schema, found[0].data)
            if isinstance(body, sources.LinesObserved):
                return body.end
            if isinstance(body, sources.SourceTruncated):
                break
            version -= 1
        return 0


class _Heads(dict[str, tuple[int, bytes]]):
    """Heads of streams by the events that were read; where a reading begins in the middle, by the one before."""

    def __init__(self, log: Log, since: int) -> None:
        super().__init__()
        self.log, self.since = log, since
        self.asked: set[str] = set()

    def get(self, stream_id: str, default: Any = None) -> Any:
        """Return (version, hash) of the newest event of a stream that is not beyond the reading's place."""
        found = super().get(stream_id)
        if found is None and self.since and stream_id not in self.asked:
            self.asked.add(stream_id)
            found = self.log.head_at(stream_id, self.since)
        return default if found is None else found


def reading(scene: Scene) -> Reading:
    """Return the reading of the scene's events, made once."""
    found = scene.kept.get("reading")
    if found is None:
        since = max(scene.since, scene.log.reach()[0])  # what lies in a file that is not there cannot be read
        found = scene.kept["reading"] = Reading(scene.log, since, scene.until, scene.kept.get("progress"))
    assert isinstance(found, Reading)
    return found


def chains(scene: Scene) -> Iterable[Finding]:
    """Versions are 1, 2, 3 ... in every stream, each event names the hash before it, and its own hash fits."""
    yield from reading(scene).chains
    yield from reading(scene).gaps
    after, _, _ = scene.log.reach()
    for position, head in Checkpoint(scene.log.accounts).seen():
        if position > after and scene.log.hash_of(position) != head:
            what = "the accounts once saw another event here: the log was cut, or another one was put in its place"
            yield Finding(what, head.hex(), event=position)


def catalogue(scene: Scene) -> Iterable[Finding]:
    """Every event is of a type and schema that the catalogue knows, and fits it."""
    yield from reading(scene).catalogue


def runs(scene: Scene) -> Iterable[Finding]:
    """Every span of a run ends once and before its turn does; every call has one result, in the order of the calls."""
    return reading(scene).runs


def grants(scene: Scene) -> Iterable[Finding]:
    """Every reservation is of an open grant, is settled at most once, and was within every ceiling when it was made."""
    return faults(scene.log, scene.until, scene.since)


def blobs(scene: Scene) -> Iterable[Finding]:
    """Every blob is what its name says, and none that an event links is missing, except where it was purged."""
    purged = purged_names(scene.log)
    sql = (
        "SELECT l.sha256, min(e.position), b.sha256 IS NULL FROM event_blobs l JOIN events e USING (event_id) "
        "LEFT JOIN blobs b ON b.sha256 = l.sha256 WHERE e.position > ? GROUP BY l.sha256, b.sha256"
    )
    for volume in scene.log.volumes() if isinstance(scene.log, Volumes) else (scene.log,):
        for digest, position, missing in volume.connection.execute(sql, (scene.since,)):
            if missing and bytes(digest) in purged:
                continue
            if missing or not is_content_of(digest, partial(volume.blob, digest)):
                state = "missing" if missing else "changed"
                yield Finding(f"blob {digest.hex()} is {state}", event=position)


def seals(scene: Scene) -> Iterable[Finding]:
    """Every seal of the log is the next one of its book, and what it covers is there as it was sealed."""
    return map(fault_finding, check_seals(scene.log))


def fault_finding(fault: Fault) -> Finding:
    """Return what a seal shows to be wrong as a finding."""
    return Finding(fault.what, fault.expected, fault.found, event=fault.position, stream=fault.stream,
                   version=fault.version)  # fmt: skip


def stretches(scene: Scene) -> Iterable[Finding]:
    """What was read of a file is read without a gap."""
    yield from reading(scene).stretches
