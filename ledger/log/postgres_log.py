"""The log in a schema of a PostgreSQL database: many hosts, one server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ledger import __version__
from ledger.errors import EventIdReused, InvalidEvent, LogReadOnly, LogTooNew, LogUnavailable, VersionConflict
from ledger.events.envelope import Event
from ledger.log import postgres
from ledger.log.blobs import Blob
from ledger.log.location import PostgresPlace
from ledger.log.log import Adopted, Log, StreamAppend, may_write
from ledger.log.prepare import Batch, prepare

_APPEND = """SELECT append_events(?, ?, ?::text[], ?::bigint[], ?::bigint[], ?::bytea[], ?::text[], ?::text[],
  ?::bigint[], ?::bytea[], ?::text[], ?::text[], ?::text[])"""
_KEEP_BLOBS = "SELECT keep_blobs(?::bytea[], ?::bigint[], ?::text[], ?::bytea[], ?::bytea[], ?::bytea[])"
_RIGHTS = """SELECT has_function_privilege(p.oid, 'EXECUTE') AND NOT pg_is_in_recovery(),
  has_schema_privilege(current_schema()::text, 'CREATE') AND NOT pg_is_in_recovery()
FROM pg_proc p WHERE p.proname = 'append_events' AND p.pronamespace = current_schema()::text::regnamespace"""
_MAY_ACT_AS = "SELECT 1 FROM pg_roles WHERE rolname = ? AND pg_has_role(oid, 'MEMBER')"


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
        said = dict(self.connection.execute("SELECT key, value FROM log_meta"))
        if self.is_older(said.get("format", "0")):
            raise LogUnavailable(
                f"{self.place}: has an older log format ({said.get('format')}): its owner runs `ledger init`"
            )
        self._log_id = said.get("log_id", "")
        if self.readonly:
            return
        writer = said.get("role_writer", "")
        if writer and self.connection.execute(_MAY_ACT_AS, (writer,)).fetchone():
            # Whoever folds acts as the one role, so that everyone who may fold may replace anyone's projections.
            self.connection.execute(f'SET ROLE "{writer}"')
        may_append, self._may_fold = self.connection.execute(_RIGHTS).fetchone()
        self.readonly = not may_append or not may_write(said.get("min_writer", "0"))

    @property
    def log_id(self) -> str:
        """The id that the log was given when it was made."""
        return self._log_id

    # appending

    def append(self, appends: Sequence[StreamAppend], blobs: Sequence[tuple[bytes, Blob]] = ()) -> list[int]:
        """Do what Log.append promises, by the server's own function in one round trip (three with blobs)."""
        if self.readonly:
            raise LogReadOnly(f"{self.place}: may not be written by your role: ask its owner for the writer's role")
        batch = prepare(appends)
        parameters = self._parameters(batch)
        connection = self.connection
        try:
            if not blobs:
                return list(connection.execute(_APPEND, parameters).fetchone()[0])
            with connection.transaction():
                versions = list(connection.execute(_APPEND, parameters).fetchone()[0])
                unique = list({blob.sha256: blob for _, blob in blobs}.values())
                columns = [list(column) for column in zip(*unique, strict=True)]
                links = [list(column) for column in zip(*((key, blob.sha256) for key, blob in blobs), strict=True)]
                connection.execute(_KEEP_BLOBS, [*columns, *links])
            return versions
        except connection.Error as error:
            raise self.refused(error) from error
        except UnicodeError as error:
            raise InvalidEvent(f"a stream, session, turn or span has a name that is no text: {error}") from error

    def adopt(
        self,
        events: Sequence[Event],
        blobs: Sequence[tuple[bytes, Blob]] = (),
        barred: Callable[[], Collection[bytes]] = frozenset,
    ) -> Adopted:
        """Do what Log.adopt promises."""
        from ledger.log.postgres_adopting import adopt

        return adopt(self, events, blobs, barred)

    def _parameters(self, batch: Batch) -> list[Any]:
        events = [event for _, of_stream in batch for event in of_stream]
        news = [event.new for event in events]
        return [
            __version__, self.writer,
            [one.stream_id for one, _ in batch], [one.expected_version for one, _ in batch],
            [len(of_stream) for _, of_stream in batch],
            [new.event_id for new in news], [new.session_id for new in news],
            [event.type for event in events], [event.schema for event in events], [new.cause for new in news],
            [new.turn for new in news], [new.span for new in news], [event.data for event in events],
        ]  # fmt: skip

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
        if "NUL" in str(error):
            return InvalidEvent("a stream, session, turn or span has a name with a NUL in it: leave that out")
        if state == "55P03":
            wait = f"for more than {postgres.LOCK_TIMEOUT_S} s: wait for it or stop it, then run this again"
            return LogUnavailable(f"the log is being written by {self._holder()} {wait}")
        return LogUnavailable(self.explain(error))

    def _holder(self) -> str:
        """Return the program, host and process of whoever holds the log's lock."""
        row = self.connection.execute(
            "SELECT a.application_name, a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE l.locktype = 'advisory' AND l.granted AND l.objid = 'events'::regclass::oid"
        ).fetchone()
        return f"{row[0] or 'a program'} (server process {row[1]})" if row else "another program"

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
