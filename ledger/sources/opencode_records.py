"""Where opencode keeps its messages, and which of them are new: the database, and the folders of older versions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ledger.sources import foreign
from ledger.sources.discover import Found, text_of
from ledger.sources.opencode import Message, Observer, SessionFacts
from ledger.sources.reading import Draft, Projects, as_object, chained, is_settled, read_before, remember, word
from ledger.wire.counts import count

_OVERLAP_MS = 60_000
"""Rows this much older than the newest are looked at again: another process may have committed them late."""
_ALWAYS = 1 << 62
_RECENT_MAX, _OPEN_MAX = 4_096, 1_024
_FILE_BYTES = 64 << 20


def reader(found: Found, carry: dict[str, Any], projects: Projects) -> _Records:
    """Return what reads a source: a database, or a folder of messages."""
    return (_Database if found.path.suffix == ".db" else _Folder)(found, carry, projects)


class _Records:
    def __init__(self, found: Found, carry: dict[str, Any], projects: Projects) -> None:
        self.found = found
        self.carry = dict(carry)
        self.observer = Observer(projects)

    def records(self) -> Iterator[Message]:
        """Yield the messages that are new or changed."""
        raise NotImplementedError

    def observe(self, record: Message, draft: Draft) -> None:
        """Put into a draft what a message says."""
        self.observer.observe(record, draft)

    def check(self) -> None:
        """Raise OSError where what was read may be torn."""


class _Database(_Records):
    """Reads rows: those that were added, those changed since the newest change that was read, and those still open.

    `carry`: `rowid` of the last row, `mark` (the newest `time_updated`, ms), digests of the rows of the last minute
    before it (`recent`), and of messages that had not ended (`open`).
    """

    _unchanged: Callable[[], bool]

    def records(self) -> Iterator[Message]:
        """Yield the messages in the order in which they were added."""
        with foreign.reading(self.found.path) as (connection, self._unchanged):
            self._sessions: dict[str, SessionFacts] = {}
            self._execute = connection.execute
            self._columns = {table: self._columns_of(table) for table in ("message", "part", "session")}
            if not {"id", "session_id", "data"} <= self._columns["message"]:
                raise OSError("has no table of messages that this program knows: it may be of a newer opencode")
            yield from self._rows()

    def check(self) -> None:
        """Raise OSError where the database was written while it was read without locks."""
        if not self._unchanged():
            raise OSError("was written while it was read: run the import again")

    def _columns_of(self, table: str) -> set[str]:
        return {str(row[1]) for row in self._execute(f"PRAGMA table_info({table})")}

    def _rows(self) -> Iterator[Message]:
        carry, has_time = self.carry, "time_updated" in self._columns["message"]
        mark = _number(carry.get("mark"))
        recent, still_open = dict(carry.get("recent", {})), dict(carry.get("open", {}))
        since = [mark - _OVERLAP_MS] if mark is not None and has_time else []
        created, updated = ("time_created", "time_updated") if has_time else ("NULL", "NULL")
        wanted = ["rowid > ?", *("time_updated >= ?" for _ in since), f"id IN ({', '.join('?' * len(still_open))})"]
        rows = self._execute(
            f"SELECT rowid, id, session_id, {created}, {updated}, data FROM message "
            f"WHERE {' OR '.join(wanted)} ORDER BY rowid",
            (_number(carry.get("rowid")) or 0, *since, *still_open),
        )
        newest, seen = mark or 0, {}
        for rowid, raw_id, session, created_ms, updated_ms, data in rows:
            identity = word(raw_id) or f"row{rowid}"
            digest = _digest(data)
            at = _number(updated_ms)
            newest = max(newest, at or 0)
            changed = _ALWAYS if at is None else at  # what is no number may be found again by every query
            seen[identity] = (changed, digest)
            if len(seen) > _RECENT_MAX:
                seen = _newer(seen, newest)
            known = recent.get(identity) == digest or still_open.get(identity) == digest
            if not known:
                message = self._message(identity, word(session), created_ms, data)
                _note_open(still_open, message, digest)
            carry["rowid"] = max(rowid, _number(carry.get("rowid")) or 0)
            if not known:
                carry["open"] = still_open
                yield message
        carry["mark"] = newest
        carry["recent"] = {name: digest for name, (_, digest) in _newer(seen, newest).items()}

    def _message(self, identity: str, session: str, created_ms: object, data: object) -> Message:
        found = as_object(data.encode("utf-8", "replace")) if isinstance(data, str) else None
        parts = self._parts(identity) if found is not None and found.get("role") == "assistant" else []
        return Message(identity, self._session(session), found, parts, _number(created_ms))

    def _parts(self, message: str) -> list[dict[str, Any]]:
        columns = self._columns["part"]
        if not {"message_id", "data"} <= columns:
            return []
        order = " ORDER BY id" if "id" in columns else ""
        rows = self._execute(f"SELECT data FROM part WHERE message_id = ?{order}", (message,))
        texts = [row[0].encode("utf-8", "replace") for row in rows if isinstance(row[0], str)]
        return [part for text in texts if (part := as_object(text)) is not None]

    def _session(self, session: str) -> SessionFacts:
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = self._session_row(session)
        return known

    def _session_row(self, session: str) -> SessionFacts:
        names = ("parent_id", "directory", "version", "time_created")
        columns = self._columns["session"]
        if "id" not in columns:
            return SessionFacts(session)
        picked = ", ".join(name if name in columns else "NULL" for name in names)
        row = self._execute(f"SELECT {picked} FROM session WHERE id = ?", (session,)).fetchone()
        if row is None:
            return SessionFacts(session)
        return SessionFacts(session, word(row[0]), word(row[1]), word(row[2]), _number(row[3]))


class _Folder(_Records):
    """Reads the files of one session: `storage/message/SESSION/MESSAGE.json`, with its parts and its session beside.

    `carry` says how many files were read, and digests of the last of them.
    """

    def records(self) -> Iterator[Message]:
        """Yield the messages in the order of their ids, from the first that is new or changed."""
        folder = self.found.path
        names = _json_files(folder)
        session = self._session()
        if session is None:
            return  # its file is being written, and which messages are copies is not known without it
        told = [_digest_of_file(folder / name) for name in names]
        if told:  # what a session is decides what its messages are: if it is another one, all are read again
            told[0] += repr(session).encode("utf-8", "surrogateescape")
        read, chains = read_before(self.carry, told), [""]
        for number, name in enumerate(names):
            chains.append(chained(chains[-1], told[number]))
            if number >= read:
                remember(self.carry, chains[1:])
                yield self._message(folder / name, session)

    def _message(self, path: Path, session: SessionFacts) -> Message:
        data = _object_of(path)
        identity = (word(data.get("id")) if data else "") or text_of(path.stem)
        parts = self._parts(identity) if data is not None and data.get("role") == "assistant" else []
        return Message(identity, session, data, parts)

    def _parts(self, message: str) -> list[dict[str, Any]]:
        folder = self.found.root / "storage" / "part" / message
        try:
            names = _json_files(folder)
        except OSError:
            return []
        return [part for name in names if (part := _object_of(folder / name)) is not None]

    def _session(self) -> SessionFacts | None:
        """Return what is known of the session, None where its file is half-written."""
        session = text_of(self.found.path.name)
        for path in sorted((self.found.root / "storage" / "session").glob(f"*/{session}.json")):
            said = _object_of(path)
            if said is not None:
                times = said.get("time")
                created = _number(times.get("created")) if isinstance(times, dict) else None
                parent, directory, version = (word(said.get(name)) for name in ("parentID", "directory", "version"))
                return SessionFacts(session, parent, directory, version, created)
            if not is_settled(path.stat().st_mtime_ns):
                return None
        return SessionFacts(session)


def _note_open(still_open: dict[str, str], message: Message, digest: str) -> None:
    """Keep which messages have not ended: their rows change, at a time that may be long after."""
    data = message.data or {}
    times = data.get("time")
    ended = isinstance(times, dict) and times.get("completed") is not None
    if data.get("role") == "assistant" and not ended and not data.get("error"):
        still_open[message.id] = digest
        while len(still_open) > _OPEN_MAX:
            del still_open[next(iter(still_open))]
    else:
        still_open.pop(message.id, None)


def _newer(seen: dict[str, tuple[int, str]], newest: int) -> dict[str, tuple[int, str]]:
    return {name: one for name, one in seen.items() if one[0] >= newest - _OVERLAP_MS}


def _digest(data: object) -> str:
    given = data.encode("utf-8", "replace") if isinstance(data, str) else repr(data).encode()
    return hashlib.blake2b(given, digest_size=5).hexdigest()


def _json_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".json"))


def _digest_of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return path.name.encode("utf-8", "surrogateescape") + hashlib.file_digest(file, "sha256").digest()
    except FileNotFoundError:  # deleted meanwhile
        return b""


def _object_of(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _FILE_BYTES:
            return None
        return as_object(path.read_bytes())
    except FileNotFoundError:
        return None


def _number(value: object) -> int | None:
    return count(value)
