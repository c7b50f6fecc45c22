"""The one module that opens PostgreSQL: the driver, its settings, and what its errors mean."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ledger import __version__
from ledger.errors import LogUnavailable
from ledger.log.location import PostgresPlace

try:
    import psycopg
    from psycopg.adapt import Loader
except ImportError as error:  # an extra: most people keep their log in a file
    raise LogUnavailable(
        "logs on PostgreSQL need the driver psycopg: pip install 'tallybook[postgresql]', then run this again"
    ) from error

LOCK_TIMEOUT_S = 30
CONNECT_TIMEOUT_S = 10


class _WholeNumber(Loader):
    """A sum of integers is a numeric on PostgreSQL: it is an int here, as on SQLite."""

    def load(self, data: Any) -> int:
        return int(bytes(data))


class SchemaConnection:
    """A connection whose search path is the log's schema, with the few methods that both databases share.

    In autocommit mode: transactions are begun and ended in so many words.
    """

    dialect = "postgresql"
    Error = psycopg.Error
    OperationalError = psycopg.OperationalError
    IntegrityError = psycopg.IntegrityError
    LockNotAvailable = psycopg.errors.LockNotAvailable

    def __init__(self, place: PostgresPlace, *, readonly: bool = False) -> None:
        self.place, self._cursors = place, 0
        options = f'-c search_path="{place.schema}",pg_temp -c lock_timeout={LOCK_TIMEOUT_S}s -c TimeZone=UTC'
        if readonly:
            options += " -c default_transaction_read_only=on"
        host = os.uname().nodename if hasattr(os, "uname") else "unknown"
        name = f"tallybook/{__version__} {host} {os.getpid()}"
        try:
            given: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(place.url)
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise LogUnavailable(f"{place}: is no URL that PostgreSQL understands: check its options") from error
        given["options"] = f"{given.get('options', '')} {options}"
        try:
            self.driver = psycopg.connect(**{
                "connect_timeout": CONNECT_TIMEOUT_S, "application_name": name, **given,
                "autocommit": True, "client_encoding": "utf8",
            })  # fmt: skip
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise LogUnavailable(explain(error, str(place), given.get("password"))) from error
        self.driver.adapters.register_loader("numeric", _WholeNumber)

    def execute(self, text: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement in which `?` stands for a parameter; return a cursor to iterate."""
        cursor = self.driver.cursor()
        run: Any = cursor.execute
        try:
            return run(_converted(text), parameters) if parameters else run(text)
        except psycopg.DataError as error:
            if "NUL" not in str(error):
                raise
            return run(_converted(text), _without_nul(parameters))

    def executemany(self, text: str, rows: Sequence[Sequence[Any]]) -> Any:
        """Run a statement once for each row of parameters, in one batch."""
        cursor = self.driver.cursor()
        run: Any = cursor.executemany
        try:
            return run(_converted(text), rows)
        except psycopg.DataError as error:
            if "NUL" not in str(error):
                raise
            return run(_converted(text), [_without_nul(row) for row in rows])

    def stream(self, text: str, parameters: Sequence[Any] = (), size: int = 5000) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a question with the server's cursor, so that few are held here at once.

        Within a transaction only.
        """
        self._cursors += 1
        cursor = self.driver.cursor(f"tallybook{self._cursors}", scrollable=False)
        cursor.itersize = size
        run: Any = cursor.execute
        with cursor:
            yield from run(_converted(text), parameters) if parameters else run(text)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, whole or broken."""
        return self.driver.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not self.driver.closed

    @contextmanager
    def transaction(self, mode: str = "") -> Iterator[None]:
        """Hold a transaction; roll back on any error."""
        self.execute(f"BEGIN {mode}")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self.in_transaction:
                self.execute("ROLLBACK")
            raise

    def has_table(self, name: str) -> bool:
        """Return whether the schema has a table of that name."""
        found = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = ? AND tablename = ?"
        return self.execute(found, (self.place.schema, name)).fetchone() is not None

    @staticmethod
    def is_missing_table(error: Exception) -> bool:
        """Return whether an error says that a table is not there (any more)."""
        return isinstance(error, psycopg.errors.UndefinedTable)

    def close(self) -> None:
        """Close the connection."""
        self.driver.close()


@lru_cache(maxsize=512)
def _converted(text: str) -> str:
    """Return a statement with the driver's own sign for a parameter."""
    return text.replace("%", "%%").replace("?", "%s")


def _without_nul(values: Sequence[Any]) -> list[Any]:
    """Return values as PostgreSQL can keep them: its texts have no NUL, so one becomes the replacement character."""
    return [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]


_WHO = ("password", "authentication failed", "no pg_hba.conf entry")
"""What a server says that lets nobody in: an error while connecting has no state."""
_NO_ROLE = re.compile(r'role "[^"]*" (does not exist|is not permitted)')


def explain(error: Exception, place: str, secret: str | None = None) -> str:
    """Return one line that says what is wrong with the database and what to do next; never the password `secret`."""
    state = getattr(error, "sqlstate", None) or ""
    text = " ".join(str(error).split())
    said = _reason(text, secret)
    if state.startswith("28") or any(words in text for words in _WHO) or _NO_ROLE.search(text):
        return f"{place}: the server refuses this user or password: check the URL, PGPASSWORD or ~/.pgpass"
    if state == "3D000" or ("database" in text and "does not exist" in text):
        return f"{place}: there is no such database on the server: create it, then run `ledger init`"
    if state == "55P03":
        return f"{place}: another program holds the log locked for more than {LOCK_TIMEOUT_S} s: run this again"
    if state in ("53100", "53200"):
        return f"{place}: the server is out of disk or memory: free some; nothing was half-written"
    if state == "42501":
        return f"{place}: your role may not do this ({said}): ask the log's owner for the role it needs"
    if state == "25006":
        return f"{place}: may only be read here (a read-only role, or a standby server): give the writable one"
    if state.startswith(("57P", "08")) or isinstance(error, psycopg.OperationalError):
        return f"{place}: the server cannot be reached or broke off ({said}): check that it runs, then retry"
    return f"{place}: {said}: run `ledger doctor` for details"


def _reason(text: str, secret: str | None) -> str:
    """Return what the server said, at a length that one can read, without any URL or the secret."""
    if secret:
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return " ".join(word if "://" not in word else "..." for word in text.split())[:200]
