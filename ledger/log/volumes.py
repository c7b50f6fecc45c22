"""A log in several files: `ledger roll` closes what there is into a file of its own, and the log goes on after it.

The newest volume lies where the log always was. It has a table of the heads that streams had when it began
(`carried`), and of some streams also events of before: of the books all, of recent sources the last ones up to that
head. What else is older is read from the volumes before, each of which names the one before it. They are opened when
something is asked that only they know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from ledger.errors import LogUnavailable, VolumeMissing
from ledger.events.envelope import Event
from ledger.log.blobs import Blob
from ledger.log.location import Place
from ledger.log.log import BlobLink, Head, Log

CLOSED = "closed"
"""What a closed volume says of itself (`log_meta`): nothing is appended to it any more."""
_CARRIED = "SELECT stream_id, version, hash, position FROM carried"


class Carried(NamedTuple):
    """The head that a stream had when the volume began."""

    stream_id: str
    version: int
    hash: bytes
    position: int


class Volumes(Log):
    """A log file that may be the newest of several. One that was never rolled is asked nothing more than any log.

    Another process may roll the log at any time, so nothing about volumes is remembered here; what is read first and
    held against the beginning of the volume afterwards is right, since that only ever moves on.
    """

    path: Path

    def __init__(self, place: Place, connection: Any, *, readonly: bool) -> None:
        super().__init__(place, connection, readonly=readonly)
        self._previous: Volumes | None = None

    @property
    def volume(self) -> int:
        """The number of this volume, from 1."""
        return int(self.meta("volume") or 1)

    def base(self) -> int:
        """Return the position of the last event of the volumes before, 0 where there are none."""
        return int(self.meta("base_position") or 0)

    def carried(self) -> dict[str, Carried]:
        """Return the heads that streams had when this volume began."""
        if not self.base():
            return {}
        return {row[0]: Carried(*row) for row in self.connection.execute(_CARRIED)}

    def previous_path(self) -> Path | None:
        """Return where the volume before lies, beside this one; None for the first."""
        name = self.meta("previous")
        return None if name is None else self.path.resolve().parent / name

    def previous(self) -> Volumes:
        """Return the volume before, open for reading. Raises VolumeMissing, LogUnavailable."""
        path = self.previous_path()
        assert path is not None
        if self._previous is None or self._previous.path != path:
            if self._previous is not None:
                self._previous.close()
                self._previous = None
            self._previous = self._open_volume(path)
        return self._previous

    def _open_volume(self, path: Path) -> Volumes:
        if not path.exists():
            raise VolumeMissing(
                f"{path}: is not there, and holds the log's events up to position {self.base():,}: put it back for "
                "this; reports go on without it, from the accounts"
            )
        opened = cast(Volumes, Log.open(path, readonly=True))
        if (opened.log_id, opened.volume) != (self.log_id, self.volume - 1):
            opened.close()
            raise LogUnavailable(f"{path}: is not volume {self.volume - 1} of {self.path}: put that one there")
        return opened

    def volumes(self) -> Iterator[Volumes]:
        """Yield this volume and those before it, as far back as they are there."""
        found: Volumes = self
        while True:
            yield found
            path = found.previous_path()
            if path is None or not path.exists():
                return
            found = found.previous()

    def reach(self) -> tuple[int, dict[str, tuple[int, bytes]], Path | None]:
        """Return (position after which all events can be read, heads there, the first volume that is missing)."""
        *_, oldest = self.volumes()
        heads = {one.stream_id: (one.version, one.hash) for one in oldest.carried().values()}
        return oldest.base(), heads, oldest.previous_path()

    @contextmanager
    def writable_previous(self) -> Iterator[Volumes | None]:
        """Yield the volume before so that texts can be removed from it, None for the first volume."""
        path = self.previous_path()
        if path is None:
            yield None
            return
        self._open_volume(path).close()  # it is the right one
        with Log.open(path) as opened:
            opened.readonly = False  # it is closed for events, not for what a purge removes
            yield cast(Volumes, opened)

    def close(self) -> None:
        """Close this volume, and those before it that were opened."""
        super().close()
        if self._previous is not None:
            self._previous.close()
            self._previous = None

    # reading

    def events_after(self, position: int, limit: int = 500) -> list[Event]:
        """Do what Log.events_after promises."""
        page = super().events_after(position, limit)
        base = self.base()
        if position >= base:
            return page
        found = [event for event in self.previous().events_after(position, limit) if event.position <= base]
        return found if len(found) == limit else found + super().events_after(base, limit - len(found))

    def hash_of(self, position: int) -> bytes | None:
        """Do what Log.hash_of promises."""
        found = super().hash_of(position)
        return self.previous().hash_of(position) if found is None and 0 < position <= self.base() else found

    def event_at(self, position: int) -> Event:
        """Do what Log.event_at promises."""
        try:
            return super().event_at(position)
        except KeyError:
            if position > self.base() or position < 1:
                raise
        return self.previous().event_at(position)

    def find_event(self, event_id: bytes) -> Event | None:
        """Do what Log.find_event promises."""
        found = super().find_event(event_id)
        return self.previous().find_event(event_id) if found is None and self.base() else found

    def stream_events(self, stream_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """Do what Log.stream_events promises."""
        found = super().stream_events(stream_id, after, limit)
        if found and found[0].version == after + 1:
            return found
        carried = self._carried(stream_id)
        if carried is None or carried.version <= after:
            return found
        older = self.previous().stream_events(stream_id, after, min(limit, carried.version - after))
        return (older + [event for event in found if event.version > carried.version])[:limit]

    def stream_head(self, stream_id: str) -> tuple[int, bytes] | None:
        """Do what Log.stream_head promises."""
        found = super().stream_head(stream_id)
        if found is None and (carried := self._carried(stream_id)) is not None:
            return carried.version, carried.hash
        return found

    def _carried(self, stream_id: str) -> Carried | None:
        if not self.base():
            return None
        row = self.connection.execute(f"{_CARRIED} WHERE stream_id = ?", (stream_id,)).fetchone()
        return None if row is None else Carried(*row)

    def head_at(self, stream_id: str, position: int) -> tuple[int, bytes] | None:
        """Do what Log.head_at promises."""
        found = super().head_at(stream_id, position)
        if found is not None or (carried := self._carried(stream_id)) is None:
            return found
        if carried.position <= position:
            return carried.version, carried.hash
        return self.previous().head_at(stream_id, position)

    def heads(self) -> list[Head]:
        """Do what Log.heads promises."""
        heads = super().heads()
        if not (carried := self.carried()):
            return heads
        here = {head.stream_id for head in heads}
        return heads + [Head(*one[:3]) for one in carried.values() if one.stream_id not in here]

    def hash_at(self, stream_id: str, version: int) -> tuple[int, bytes] | None:
        """Do what Log.hash_at promises."""
        found = super().hash_at(stream_id, version)
        if found is not None or (carried := self._carried(stream_id)) is None or version > carried.version:
            return found
        if version == carried.version:
            return carried.position, carried.hash
        return self.previous().hash_at(stream_id, version)

    def blob(self, sha256: bytes) -> bytes | None:
        """Do what Log.blob promises. A text of a volume that is not there is unknown."""
        found = super().blob(sha256)
        if found is not None or not self.base():
            return found
        try:
            return self.previous().blob(sha256)
        except VolumeMissing:
            return None

    def blob_links(self) -> list[BlobLink]:
        """Do what Log.blob_links promises."""
        links, base = super().blob_links(), self.base()
        if not base:
            return links
        return self.previous().blob_links() + [link for link in links if link.position > base]

    def blobs_between(self, after: int, until: int) -> list[tuple[bytes, Blob]]:
        """Do what Log.blobs_between promises."""
        base = self.base()
        found = self.previous().blobs_between(after, min(until, base)) if after < base else []
        return found + super().blobs_between(max(after, base), until)

    def blob_sizes(self, after: int, until: int) -> dict[int, int]:
        """Do what Log.blob_sizes promises."""
        base = self.base()
        found = self.previous().blob_sizes(after, min(until, base)) if after < base else {}
        return found | super().blob_sizes(max(after, base), until)
