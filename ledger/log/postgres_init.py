"""Making a log on PostgreSQL, and bringing it forward: `ledger init`, and nothing else, does this.

One log is one schema with three roles that nobody logs in as, to be granted to people and programs: the owner
owns the events and the functions; a writer may append (through the function only), fold and read; a reader
may read. Where the one who runs it may not make roles, there are none, and the log is that user's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ledger.errors import LogUnavailable
from ledger.ids import id_text, new_id
from ledger.log import postgres
from ledger.log.location import PostgresPlace
from ledger.log.log import FORMAT
from ledger.sql import script, statements

ROLES = ("owner", "writer", "reader")
LOG_TABLES = ("events", "blobs", "event_blobs", "log_meta")
_NAME_MAX_BYTES = 63


class Made(NamedTuple):
    """What `init` did."""

    existed: bool
    roles: dict[str, str]
    """Kind of role -> its name; empty where none could be made."""


def init(place: PostgresPlace) -> Made:
    """Make the log's schema, tables, functions, guards and roles, or bring an existing one to the newest format.

    In one transaction: after a failure all is as it was. Safe to run again, and after a dump was restored where
    the roles were not. Raises LogUnavailable.
    """
    connection = postgres.SchemaConnection(place)
    try:
        _check_server(connection)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('tallybook init', 0))")
            existed = connection.has_table("log_meta")
            if not existed:
                _make(connection, place)
            else:
                _bring_forward(connection, place)
            return Made(existed, _grant(connection, place))
    except connection.Error as error:
        raise LogUnavailable(postgres.explain(error, str(place))) from error
    finally:
        connection.close()


def _check_server(connection: postgres.SchemaConnection) -> None:
    encoding, version = connection.execute(
        "SELECT current_setting('server_encoding'), current_setting('server_version_num')::int"
    ).fetchone()
    if encoding != "UTF8":
        raise LogUnavailable(f"{connection.place}: the database's encoding is {encoding}: make one with UTF8")
    if version < 140000:
        raise LogUnavailable(f"{connection.place}: PostgreSQL {version // 10000} is too old: 14 or newer is needed")


def _make(connection: postgres.SchemaConnection, place: PostgresPlace) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {place.schema}")
    for statement in script("postgresql", "log"):
        connection.execute(statement)
    said = {"format": str(FORMAT), "min_writer": "0.1.0", "hash_recipe": "1", "log_id": id_text(new_id())}
    for item in said.items():
        connection.execute(statements("postgresql")["put_meta"], item)


def _bring_forward(connection: postgres.SchemaConnection, place: PostgresPlace) -> None:
    """Bring an older format forward. The first format on PostgreSQL is 2, so there is nothing before it."""
    found = int(connection.execute(statements("postgresql")["meta"], ("format",)).fetchone()[0])
    if found > FORMAT:
        raise LogUnavailable(f"{place}: was written by a newer tallybook (log format {found}): update tallybook")


def _grant(connection: postgres.SchemaConnection, place: PostgresPlace) -> dict[str, str]:
    """Make the roles where they are missing and give each its rights; return their names."""
    execute = connection.execute
    known = dict(execute("SELECT key, value FROM log_meta WHERE key LIKE 'role_%'"))
    database = execute("SELECT current_database()").fetchone()[0]
    names = {kind: known.get(f"role_{kind}") or _role_name(database, place.schema, kind) for kind in ROLES}
    there = {name for (name,) in execute("SELECT rolname FROM pg_roles")}
    missing = [name for name in names.values() if name not in there]
    if (
        missing
        and not execute("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()[0]
    ):
        return {}
    for name in missing:
        execute(f"CREATE ROLE {_quoted(name)} NOLOGIN")
    quoted = {kind: _quoted(name) for kind, name in names.items()}
    for name in quoted.values():  # to hand things to a role, one must be a member of it
        execute(f"GRANT {name} TO CURRENT_USER")
    for statement in _RIGHTS:
        execute(statement.format(schema=place.schema, **quoted))
    for table, kind in execute("SELECT relname, relkind FROM pg_class WHERE relkind IN ('r', 'v') "
                               "AND relnamespace = ?::regnamespace", (place.schema,)).fetchall():  # fmt: skip
        owner = quoted["owner"] if table in LOG_TABLES else quoted["writer"]  # projections are whoever's folds
        execute(f"ALTER {'VIEW' if kind == 'v' else 'TABLE'} {place.schema}.{_quoted(table)} OWNER TO {owner}")
    for (signature,) in execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = ?::regnamespace", (place.schema,)
    ).fetchall():
        execute(f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC")
        if not signature.rpartition(".")[2].startswith(("lock_log", "hash_field", "event_hash", "refuse")):
            execute(f"GRANT EXECUTE ON FUNCTION {signature} TO {quoted['writer']}")
        execute(f"ALTER FUNCTION {signature} OWNER TO {quoted['owner']}")
    for kind, name in names.items():
        if f"role_{kind}" not in known:
            execute(statements("postgresql")["put_meta"], (f"role_{kind}", name))
    return names


_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {owner}, {writer}, {reader}",
    "GRANT CREATE ON SCHEMA {schema} TO {owner}, {writer}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {writer}, {reader}",
    "ALTER DEFAULT PRIVILEGES FOR ROLE {writer} IN SCHEMA {schema} GRANT SELECT ON TABLES TO {owner}, {reader}",
)


def _role_name(database: str, schema: str, kind: str) -> str:
    """Return a role's name: roles are the server's, so the database is in it."""
    room = _NAME_MAX_BYTES - len(schema) - len(kind) - 2
    return f"{database.encode()[:room].decode('utf-8', 'ignore')}_{schema}_{kind}"


def _quoted(name: Any) -> str:
    return '"' + str(name).replace('"', '""') + '"'
