"""The log in a schema of a PostgreSQL database: many hosts, one server."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import msgspec

from ledger import __version__
from ledger.errors import EventIdReused, InvalidEvent, LogReadOnly, LogTooNew, LogUnavailable, VersionConflict
from ledger.events.envelope import Event
from ledger.log import postgres
from ledger.log.blobs import Blob
from ledger.log.location import PostgresPlace
from ledger.log.log import Adopted, Log, StreamAppend, may_write, version_tuple
from ledger.log.prepare import Batch, prepare

_APPEND = "CALL append_durably(?, ?, ?::json, ?, ?::json, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
_APPEND_WITH_BLOBS = """CALL append_durably(?, ?, ?::json, ?, ?::json, ?::bytea[], ?::bigint[], ?::text[], ?::bytea[],
  ?::bytea[], ?::bytea[], NULL)"""
_RIGHTS = """SELECT has_function_privilege(p.oid, 'EXECUTE') AND s.writable,
  has_schema_privilege(p.pronamespace, 'CREATE') AND s.writable
FROM pg_proc p, (SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable) s
WHERE p.proname = 'append_events' AND p.pronamespace = ?::regnamespace"""
_HOLDER = """SELECT a.application_name, a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objid = 'events'::regclass::oid
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_READER = """SELECT quote_ident(r.rolname), quote_ident(session_user::text)
FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid, aclexplode(c.relacl) a
JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = ? AND c.relname = 'log_meta' AND a.privilege_type = 'SELECT' AND r.rolname LIKE '%reader'"""
_MAY_ACT_AS = """SELECT pg_has_role(oid, CASE WHEN current_setting('server_version_num')::int >= 160000
  THEN 'SET' ELSE 'MEMBER' END) FROM pg_roles WHERE rolname = ?"""


PROGRAM = ".".join(str(part) for part in version_tuple(__version__))
"""This program's version, as the server's routines compare it."""


class PostgresLog(Log):
    """One schema. Positions are drawn under the log's lock, so they are in the order of commits, without gaps."""

    kind: ClassVar[str] = "postgresql"
    place: PostgresPlace

    def __init__(self, place: PostgresPlace, connection: postgres.SchemaConnection, *, readonly: bool) -> None:
        super().__init__(place, connection, readonly=readonly)
        self._may_fold = not readonly
        self._log_id = ""

    @classmethod
    def open_schema(cls, place: PostgresPlace, *, readonly: bool = False) -> PostgresLog:
        """Do what Log.open promises of a schema. It is made and brought forward by `ledger init` only."""
        connection = postgres.SchemaConnection(place, readonly=readonly)
        log = cls(place, connection, readonly=readonly)
        try:
            log._check()
        except postgres.SchemaConnection.Error as error:
            log.close()
            raise LogUnavailable(log.explain(error)) from error
        except BaseException:
            log.close()
            raise
        return log

    def _check(self) -> None:
        if not self.connection.has_table("log_meta"):
            raise LogUnavailable(
                f"{self.place}: there is no ledger here: run `ledger init --db` with this URL as the database's owner"
            )
        try:
            said = dict(self.connection.execute("SELECT key, value FROM log_meta"))
        except self.connection.Error as error:
            if error.sqlstate not in ("42P01", "42501"):  # without rights on the schema its tables are not even seen
                raise
            raise LogUnavailable(f"{self.place}: {self._unread()}") from error
        if self.is_older(said.get("format", "0")):
            raise LogUnavailable(
                f"{self.place}: has an older log format ({said.get('format')}): its owner runs `ledger init`"
            )
        self._log_id = said.get("log_id", "")
        acts = self._act_as(said.get("role_writer", ""))
        if self.readonly:
            return
        may_append, may_make = self.connection.execute(_RIGHTS, (f'"{self.place.schema}"',)).fetchone()
        self._may_fold = may_make and acts
        self.readonly = not may_append or not may_write(said.get("min_writer", "0"))

    def _unread(self) -> str:
        """Return what a role without rights is told, with the grant that it needs where it can be seen."""
        row = self.connection.execute(_READER, (self.place.schema,)).fetchone()
        what = "this role may not read the log: "
        if row is None:
            return f"{what}ask the log's owner for the role of its readers"
        return f"{what}ask the log's owner to run: GRANT {row[0]} TO {row[1]}"

    def _act_as(self, writer: str) -> bool:
        """Take the writer's role on; return whether what is made from now on may be replaced by everyone who folds.

        Where there are no roles, the log is one user's alone.
        """
        row = self.connection.execute(_MAY_ACT_AS, (writer,)).fetchone()
        if row is not None and row[0]:
            self.connection.execute('SET ROLE "' + writer.replace('"', '""') + '"')
        return row is None or bool(row[0])

    @property
    def log_id(self) -> str:
        """The id that the log was given when it was made."""
        return self._log_id

    # appending

    def append(self, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]] = ()) -> list[int]:
        """Do what Log.append promises, by the server's own procedure in one round trip."""
        self.check_writable()
        batch = prepare(appends)
        text = _APPEND_WITH_BLOBS if blobs else _APPEND
        try:
            parameters = [PROGRAM, self.writer, *_as_json(batch), *(_columns(blobs) if blobs else ())]
            return list(self.connection.execute(text, parameters).fetchone()[0])
        except self.connection.Error as error:
            raise self.refused(error) from error
        except UnicodeError as error:
            raise InvalidEvent(f"a stream, session, turn or span has a name that is no text: {error}") from error

    def check_writable(self) -> None:
        """Raise LogReadOnly where this log was opened for reading, or its role may only read."""
        if self.readonly:
            raise LogReadOnly(f"{self.place}: may not be written by your role: ask its owner for the writer's role")

    def delete_blobs(self, sha256s: Sequence[bytes], linked_until: int) -> bool:
        """Do what Log.delete_blobs promises. The server's write-ahead log and backups are its administrator's."""
        from ledger.log.postgres_purging import delete_blobs

        return delete_blobs(self, sha256s, linked_until)

    def adopt(
        self,
        events: Sequence[Event],
        blobs: Sequence[tuple[bytes, Blob]] = (),
        barred: Callable[[], Collection[bytes]] = frozenset,
    ) -> Adopted:
        """Do what Log.adopt promises."""
        from ledger.log.postgres_adopting import adopt

        return adopt(self, events, blobs, barred)

    def refused(self, error: Any) -> Exception:
        """Return what an error of the server's functions means."""
        state, message = error.sqlstate or "", error.diag.message_primary or ""
        if state == "TB001":
            expected, found = (error.diag.message_detail or "0 0").split()
            return VersionConflict(message, int(expected), int(found))
        if state == "TB002":
            return EventIdReused(message)
        if state == "TB003":
            return LogTooNew(f"{self.place}: {message}: update tallybook")
        if "NUL" in str(error) or state == "22P05":
            return InvalidEvent("a stream, session, turn or span has a name with a NUL in it: leave that out")
        if state == "55P03":
            wait = f"for more than {postgres.LOCK_TIMEOUT_S} s: wait for it or stop it, then run this again"
            return LogUnavailable(f"the log is being written by {self._holder()} {wait}")
        if state == "42883":
            return LogUnavailable(f"{self.place}: was made by an older tallybook: its owner runs `ledger init`")
        return LogUnavailable(self.explain(error))

    def _holder(self) -> str:
        """Return the program, host and process of whoever holds the log's lock."""
        row = None
        with suppress(self.connection.Error):
            row = self.connection.execute(_HOLDER).fetchone()
        return f"{row[0] or 'a program'} (server process {row[1]})" if row else "another program"

    def settle(self) -> None:
        """Do what Log.settle promises: what is visible is committed, and on the server's disk a moment later."""
        ask = self.connection.execute
        if ask("SELECT pg_is_in_recovery()").fetchone()[0]:
            return  # a standby shows what it was sent from the disk of another
        visible = ask("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]
        while not ask("SELECT pg_current_wal_flush_lsn() >= ?::pg_lsn", (visible,)).fetchone()[0]:
            time.sleep(0.005)

    # accounts

    @property
    def accounts_writable(self) -> bool:
        """Whether the role may make and write projection tables."""
        return self._may_fold

    @contextmanager
    def accounts_transaction(self) -> Iterator[None]:
        """Do what Log.accounts_transaction promises: only others who fold wait, no writer of the log does."""
        with self.connection.transaction():
            self.connection.execute("SET LOCAL synchronous_commit = off")
            self.connection.execute("SELECT pg_advisory_xact_lock('log_meta'::regclass::oid::bigint)")
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Do what Log.reading promises."""
        with self.connection.transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    def explain(self, error: Exception) -> str:
        """Return one line that says what is wrong and what to do next."""
        return postgres.explain(error, str(self.place))

    # reading

    def events_after(self, position: int, limit: int = 500) -> list[Event]:
        """Do what Log.events_after promises. What a program acknowledged is committed, so it is seen."""
        rows = self.connection.execute(self.sql["events_after"], (position, limit)).fetchall()
        return [Event(*row) for row in rows]


def _as_json(batch: Batch) -> tuple[str, str, str]:
    """Return (parts, ids, events) of an append as `append_events` takes them. Raises UnicodeError."""
    parts = [{"stream": one.stream_id, "expected": one.expected_version, "count": len(of)} for one, of in batch]
    events = []
    for _, of_stream in batch:
        for event in of_stream:
            new = event.new
            events.append({
                "id": new.event_id.hex(), "session": new.session_id, "type": event.type, "schema": event.schema,
                "cause": None if new.cause is None else new.cause.hex(), "turn": new.turn, "span": new.span,
                "data": event.data,
            })  # fmt: skip
    ids = ",".join(event.new.event_id.hex() for _, of_stream in batch for event in of_stream)
    encode = msgspec.json.encode
    return encode(parts).decode(), ids, encode(events).decode()


def _columns(blobs: Sequence[tuple[bytes, Blob]]) -> list[list[Any]]:
    """Return blobs by column, each once, and which events they belong to."""
    unique = {blob.sha256: blob for _, blob in blobs}.values()
    columns = [list(column) for column in zip(*unique, strict=True)]
    return [*columns, [event_id for event_id, _ in blobs], [blob.sha256 for _, blob in blobs]]
