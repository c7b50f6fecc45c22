"""Where projection rows lie: one generation of tables, read and written by the frozen statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from ledger.accounts.rows import Dimensions, SightingRow, SpanRow
from ledger.ids import row_key
from ledger.sql import script, statements

VERSION = 4
"""The version of the projection tables and of the fold's rules: another one means another generation."""

_PAGE_ROWS = 5000

TABLES = (
    "dimensions", "sessions", "turns", "jobs", "agents", "spans", "sightings",
    "quotes", "replacements", "span_quotes", "sources", "labels", "runs", "run_turns", "tool_calls", "purged", "totals",
)  # fmt: skip


class Store:
    """The rows of one generation. `temporary` tables live beside the connection and vanish with it."""

    def __init__(self, connection: Any, generation: int, *, temporary: bool = False) -> None:
        self.connection, self.generation, self.temporary = connection, generation, temporary
        schema = "temp." if temporary else ""
        self.prefix = f"{schema}g{generation}_"
        self._sql: dict[str, str] = {}

    def sql(self, name: str) -> str:
        """Return a frozen statement, on this generation's tables."""
        text = self._sql.get(name)
        if text is None:
            text = self._sql[name] = self.named(statements(self.connection.dialect)[name])
        return text

    def named(self, text: str) -> str:
        """Return SQL with the tables of this generation in place of `gen_*`."""
        # `gen_spans.span_id` may name its table without the schema; only FROM, INTO and UPDATE need it.
        plain = text.replace("gen_", f"g{self.generation}_")
        if not self.temporary:
            return plain
        for verb in ("FROM ", "INTO ", "UPDATE ", "JOIN "):
            plain = plain.replace(f"{verb}g{self.generation}_", f"{verb}temp.g{self.generation}_")
        return plain

    def query(self, text: str, *parameters: Any) -> Any:
        """Run SQL in which `gen_` names this generation's tables and `?` a parameter; return a cursor to iterate."""
        return self.connection.execute(self.named(text), parameters)

    def stream(self, text: str, *parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of such SQL without holding them all; within a read transaction."""
        if self.connection.dialect == "sqlite":
            # By way of `map`: `yield from` a cursor would close it, also when its database is closed by then.
            yield from map(tuple, self.query(text, *parameters))
        else:
            yield from self.connection.stream(self.named(text), parameters)

    def one(self, name: str, *parameters: Any) -> Any:
        """Return the first row of a statement, or None."""
        return self.connection.execute(self.sql(name), parameters).fetchone()

    def all(self, name: str, *parameters: Any) -> list[Any]:
        """Return all rows of a statement."""
        return list(self.connection.execute(self.sql(name), parameters))

    def run(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row of parameters."""
        if rows:
            self.connection.executemany(self.sql(name), rows)

    # spans

    def spans(self, name: str, *parameters: Any) -> list[SpanRow]:
        """Return the rows of a statement that selects whole spans."""
        return [SpanRow(*row) for row in self.connection.execute(self.sql(name), parameters)]

    def groups_spans(self, groups: Iterable[str]) -> dict[str, list[SpanRow]]:
        """Return the rows that the sightings of each response have led to, by group; none for a new one."""
        found: dict[str, list[SpanRow]] = {}
        wanted = msgspec.json.encode(list(groups)).decode()
        for group_id, *row in self.connection.execute(self.sql("spans_of_groups"), (wanted,)):
            found.setdefault(group_id, []).append(SpanRow(*row))
        return found

    def sightings(self, group_id: str) -> list[SightingRow]:
        """Return the sightings of one response that are kept one by one."""
        return [SightingRow(*row) for row in self.connection.execute(self.sql("sightings"), (group_id,))]

    def dimension(self, dimension_id: int) -> Dimensions:
        """Return the values behind a dimension's key."""
        return Dimensions(*self.one("dimension", dimension_id)[1:])

    # the life of a generation

    def create(self, *, indexed: bool = True) -> None:
        """Make the tables of this generation, empty; without `indexed` the spans get their indexes with `index`."""
        for statement in script(self.connection.dialect, "projections"):
            if indexed or not _is_late(statement):
                self._define(statement)

    def index(self) -> Iterator[None]:
        """Make the indexes of the spans, one a step: each is one sort, and an insert into none is cheap."""
        for statement in script(self.connection.dialect, "projections"):
            if _is_late(statement):
                self._define(statement)
                yield

    def _define(self, statement: str) -> None:
        text = statement.replace("gen_", f"g{self.generation}_")
        if self.temporary:
            text = text.replace("CREATE TABLE ", "CREATE TEMP TABLE ").replace(" INDEX ", " INDEX temp.", 1)
        self.connection.execute(text)

    def hold(self) -> bool:
        """Keep the tables of this generation for the open read transaction; return whether they are there.

        A reader of SQLite holds its snapshot anyway. On PostgreSQL a table can go away behind a snapshot's back.
        """
        if self.connection.dialect == "sqlite":
            return True
        execute = self.connection.execute
        names = ", ".join(f"{self.prefix}{table}" for table in TABLES)
        execute("SAVEPOINT held")
        try:
            execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE")
        except self.connection.Error as error:
            if not self.connection.is_missing_table(error):
                raise
            execute("ROLLBACK TO SAVEPOINT held")
            return False
        return True

    def copy_from(self, other: Store) -> bool:
        """Fill the empty tables with the rows of another generation; return whether that one was still there."""
        if not other.hold():
            return False
        for table in TABLES:
            source = f"SELECT * FROM {other.prefix}{table}"
            if other.connection is self.connection:
                self.connection.execute(f"INSERT INTO {self.prefix}{table} {source}")
                continue
            rows = other.connection.stream(source)
            while page := list(islice(rows, _PAGE_ROWS)):
                signs = ", ".join("?" * len(page[0]))
                self.connection.executemany(f"INSERT INTO {self.prefix}{table} VALUES ({signs})", page)
        return True

    def drop(self) -> None:
        """Remove the tables of this generation."""
        for table in TABLES:
            self.connection.execute(f"DROP TABLE IF EXISTS {self.prefix}{table}")


def _is_late(statement: str) -> bool:
    """Return whether a statement makes an index that a rebuild makes when the rows are there."""
    return statement.startswith("CREATE") and " INDEX " in statement and " ON gen_spans " in statement


def dimension_key(values: Dimensions) -> int:
    """Return the key of a combination of dimension values."""
    return row_key("dimension", *values)


@lru_cache(maxsize=1024)
def session_key(client: str, session_id: str) -> int:
    """Return the key of a client's session."""
    return row_key("session", client, session_id)


@lru_cache(maxsize=256)
def quote_key(sha256: str) -> int:
    """Return the key of a quote."""
    return row_key("quote", sha256)


class Checkpoint:
    """Which generation is live, which version its rows have, and up to which position they are folded."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def live(self) -> tuple[int, int, int] | None:
        """Return (generation, version, position) of the live one, None where nothing was folded yet."""
        if not self._exists():
            return None
        row = self.connection.execute("SELECT generation, version, position FROM projections WHERE live = 1").fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def _exists(self) -> bool:
        return bool(self.connection.has_table("projections"))

    def generations(self) -> Iterable[int]:
        """Return the numbers of all generations that have tables."""
        return [row[0] for row in self.connection.execute("SELECT generation FROM projections")]

    def begin(self, *, live: bool) -> Store:
        """Make the tables of a new generation, indexed if it is `live`; the caller holds a write transaction."""
        if not self._exists():
            for statement in script(self.connection.dialect, "checkpoint"):
                self.connection.execute(statement)
        last = self.connection.execute("SELECT coalesce(max(generation), 0) FROM projections").fetchone()[0]
        store = Store(self.connection, last + 1)
        store.create(indexed=live)
        self.connection.execute(
            "INSERT INTO projections (generation, version, position, live) VALUES (?, ?, 0, 0)",
            (store.generation, VERSION),
        )
        if live:
            self.switch(store)
        return store

    def switch(self, store: Store) -> None:
        """Make a generation the live one and remove the others; the caller holds a write transaction."""
        from ledger.accounts.views import VIEWS

        execute = self.connection.execute
        for name in VIEWS:
            execute(f"DROP VIEW IF EXISTS {name}")
        for other in self.generations():
            if other != store.generation:
                Store(self.connection, other).drop()
        execute("DELETE FROM projections WHERE generation <> ?", (store.generation,))
        execute("UPDATE projections SET live = 1 WHERE generation = ?", (store.generation,))
        for name, query in VIEWS.items():
            execute(f"CREATE VIEW {name} AS {store.named(query)}")

    def head(self) -> bytes | None:
        """Return the hash of the event up to which the live one is folded, None for none."""
        row = self.connection.execute("SELECT head FROM projections WHERE live = 1").fetchone()
        return None if row is None or row[0] is None else bytes(row[0])

    def witness(self, position: int, head: bytes) -> None:
        """Keep that an event was folded which the log has no more; the caller holds a write transaction."""
        self.connection.execute("DELETE FROM witnesses WHERE position = ?", (position,))
        self.connection.execute("INSERT INTO witnesses (position, head) VALUES (?, ?)", (position, head))

    def seen(self) -> list[tuple[int, bytes]]:
        """Return (position, hash) of the last event that is folded, and of those that were gone later."""
        if not self.connection.has_table("witnesses"):
            return []
        rows = self.connection.execute(
            "SELECT position, head FROM projections WHERE head IS NOT NULL AND live = 1 "
            "UNION SELECT position, head FROM witnesses ORDER BY 1"
        )
        return [(int(position), bytes(head)) for position, head in rows]

    def verified(self) -> list[tuple[int, bytes]]:
        """Return (position, hash) up to which the log was verified, the newest first."""
        if not self.connection.has_table("verified"):
            return []
        rows = self.connection.execute("SELECT position, head FROM verified ORDER BY position DESC")
        return [(int(position), bytes(head)) for position, head in rows]

    def verify(self, position: int, head: bytes) -> None:
        """Keep up to which event the log was verified; the caller holds a write transaction."""
        if not self.connection.has_table("verified"):
            return
        self.connection.execute("DELETE FROM verified")
        self.connection.execute("INSERT INTO verified (position, head) VALUES (?, ?)", (position, head))

    def forget_witnesses(self) -> None:
        """Take the log as it is now; the caller holds a write transaction."""
        if self.connection.has_table("witnesses"):
            self.connection.execute("DELETE FROM witnesses")

    def position(self, generation: int) -> int:
        """Return up to where a generation is folded."""
        row = self.connection.execute("SELECT position FROM projections WHERE generation = ?", (generation,)).fetchone()
        return -1 if row is None else int(row[0])

    def move(self, generation: int, position: int, head: bytes | None) -> None:
        """Record up to where a generation is folded, and the hash of the event there."""
        self.connection.execute(
            "UPDATE projections SET position = ?, head = ? WHERE generation = ?", (position, head, generation)
        )
