"""The record of the requests that a rehearsal saw: one JSON line each, written before its answer is sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from ledger.errors import UsageError


class Seen(msgspec.Struct, frozen=True):
    """One request. Fields that stay None are not known of it."""

    request: int
    """Its number, counted from 1 over everything in the file."""
    at_us: int
    path: str
    protocol: str | None
    model: str | None
    sha256: str
    """Of its body."""
    size_bytes: int
    status: int | None
    """What is answered; None where not even a status is sent."""
    request_id: str
    """What the header of the answer calls it."""
    session: str | None = None
    """The conversation up to its last user message."""
    step: int | None = None
    attempt: int | None = None
    """How many requests for this step of this session came before it."""
    fault: str | None = None
    stream: bool | None = None
    complaints: tuple[str, ...] = ()
    """Why it was refused as malformed."""


class Request(msgspec.Struct, frozen=True):
    """A request as a test looks at it: its record, and what was sent."""

    seen: Seen
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """Its body, decoded. Raises msgspec.DecodeError for what is no JSON."""
        return msgspec.json.decode(self.raw)


class SeenFile:
    """Appends records to a file; without a path it only counts. Not for several threads at once: hold a lock."""

    def __init__(self, path: Path | None) -> None:
        """Open the file. Raises UsageError where it cannot be written."""
        self.count = 0
        self._descriptor: int | None = None
        if path is None:
            return
        try:
            if path.exists():
                with path.open("rb") as lines:
                    self.count = sum(1 for _ in lines)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"--seen {path}: cannot be written: {error.strerror}: give another file") from None

    def add(self, seen: Seen) -> None:
        """Append a record: when this returns, the operating system has it."""
        self.count += 1
        if self._descriptor is not None:
            line = msgspec.json.encode(seen) + b"\n"
            while line:  # a short write is rare, and half a line is none
                line = line[os.write(self._descriptor, line) :]

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
