"""The errors that users can meet, in one tree. Each message is one line and says what to do next."""

from __future__ import annotations


class LedgerError(Exception):
    """Anything that a command reports in one line."""

    exit_code = 2
    """Of the command that reports it."""


class UsageError(LedgerError):
    """The command line, a date, a zone or a name cannot be used as given."""


class LogUnavailable(LedgerError):
    """The log cannot be opened: missing, foreign, locked, damaged or not permitted."""


class VolumeMissing(LogUnavailable):
    """Older events of a log that was rolled lie in a file that is not there."""


class LogTooNew(LedgerError):
    """The log was written by a newer program, or holds an event that this program does not know."""


class EventMissing(LedgerError, KeyError):
    """The accounts name an event that the log does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class LogReadOnly(LedgerError):
    """The log can be read and not written."""


class VersionConflict(LedgerError):
    """A stream moved on since its head was read: fold the news and decide again."""

    def __init__(self, stream_id: str, expected: int, found: int) -> None:
        super().__init__(f"stream {stream_id} is at version {found}, not {expected}: read it again and retry")
        self.stream_id, self.expected, self.found = stream_id, expected, found


class EventIdReused(LedgerError):
    """An event id is known with another stream, type, cause or data."""


class InvalidEvent(LedgerError):
    """An event does not fit its type: nothing of the append was written."""


class Diverged(LedgerError):
    """Two logs have the same stream with different contents: they are no copies of one another any more."""

    def __init__(self, stream_id: str, version: int) -> None:
        super().__init__(
            f"stream {stream_id}: the two logs differ from version {version} on: one is a copy that was written on, "
            "so they cannot be one log; copy it to a place of its own, or give another --to"
        )
        self.stream_id, self.version = stream_id, version
