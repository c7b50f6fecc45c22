"""What must hold of a log that was rolled: its volumes fit one another, and are there."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.evidence.seals import check_volume
from ledger.findings import Finding
from ledger.invariants.finding import Scene
from ledger.invariants.of_log import fault_finding
from ledger.log.volumes import Volumes


def volumes(scene: Scene) -> Iterable[Finding]:
    """A log that was rolled goes on exactly where each closed volume ends, and names the seal over it."""
    if not isinstance(scene.log, Volumes):
        return
    for volume in scene.log.volumes():
        path = volume.previous_path()
        if path is not None and path.exists():
            yield from map(fault_finding, check_volume(volume, volume.previous()))


def archives(scene: Scene) -> Iterable[Finding]:
    """Every closed volume of the log is where it belongs, beside the log."""
    after, _, missing = scene.log.reach()
    if missing is not None:
        yield Finding(f"{missing}: is not there, so what is up to position {after} was not checked")
