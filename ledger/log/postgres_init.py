"""Making a log on PostgreSQL, and bringing it forward: `ledger init`, and nothing else, does this.

One log is one schema with three roles that nobody logs in as, to be granted to people and programs: the owner
owns the events and the functions; a writer may append (through the function only), fold and read; a reader
may read. Where the one who runs it may not make roles, there are none, and the log is that user's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ledger.errors import LogTooNew, LogUnavailable
from ledger.ids import id_text, new_id
from ledger.log import postgres
from ledger.log.location import PostgresPlace
from ledger.log.log import FORMAT
from ledger.sql import script

ROLES = ("owner", "writer", "reader")
FOR_WRITERS = ("append_events", "append_durably", "adopt_events", "adopt_blobs", "delete_blobs", "rewrite_blobs")
"""Routines that a writer may call; the others are called by these."""
_NAME_MAX_BYTES = 63
_MADE = re.compile(r"CREATE(?: OR REPLACE)? (TABLE|INDEX|FUNCTION|PROCEDURE|TRIGGER) (?:log_schema\.)?(\w+)")


class Made(NamedTuple):
    """What `init` did."""

    existed: bool
    roles: dict[str, str]
    """Kind of role -> its name; empty where there are none."""


def init(place: PostgresPlace) -> Made:
    """Make the log's schema, tables, routines, guards and roles, or bring an existing one to the newest format.

    In one transaction: after a failure all is as it was. Safe to run again, and after a dump was restored where
    the roles were not. Raises LogUnavailable.
    """
    connection = postgres.SchemaConnection(place)
    execute = connection.execute
    try:
        with connection.transaction():
            # Writers may make things in the schema: nothing of theirs may be taken for the system's by who runs this.
            execute(_SYSTEM_ALONE)
            _check_server(connection)
            execute("SELECT pg_advisory_xact_lock(hashtextextended('tallybook init'::text, 0::bigint))")
            existed = connection.has_table("log_meta")
            if not existed:
                _make(connection, place)
            return Made(existed, _manage(connection, place))
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
    """Make all of it in a schema that is missing or empty: what is in it would be given to the log's roles."""
    execute, schema = connection.execute, _quoted(place.schema)
    if execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (place.schema,)).fetchone() is None:
        execute(f"CREATE SCHEMA {schema}")
    elif execute(_ANYTHING, (schema, schema)).fetchone():
        raise LogUnavailable(f"{place}: the schema has other things in it: give one of its own, ?schema=NAME")
    execute(f"SET LOCAL search_path = {schema}, pg_temp")
    for kind, _, statement in _statements():
        if kind in ("TABLE", "INDEX"):
            execute(statement)
    execute(_SYSTEM_ALONE)
    _make_routines(connection, schema)
    said = {"format": str(FORMAT), "min_writer": "0.1.0", "hash_recipe": "1", "log_id": id_text(new_id())}
    for item in said.items():
        execute(f"INSERT INTO {schema}.log_meta VALUES (?, ?)", item)


def _make_routines(connection: postgres.SchemaConnection, schema: str) -> None:
    """Make or replace the routines and guards of a log."""
    for kind, _, statement in _statements():
        if kind not in ("TABLE", "INDEX"):
            connection.execute(statement.replace("log_schema.", f"{schema}."))


def _statements() -> Iterator[tuple[str, str, str]]:
    """Yield (kind, name, statement) of what makes a fresh log."""
    for statement in script("postgresql", "log"):
        found = _MADE.match(statement)
        assert found, statement
        yield found[1], found[2], statement


def _manage(connection: postgres.SchemaConnection, place: PostgresPlace) -> dict[str, str]:
    """Renew routines, guards, roles and rights, as far as this user may; return the names of the roles."""
    execute, schema = connection.execute, _quoted(place.schema)
    said = dict(execute(f"SELECT key, value FROM {schema}.log_meta"))
    if int(said["format"]) > FORMAT:
        raise LogTooNew(f"{place}: was written by a newer tallybook (log format {said['format']}): update tallybook")
    database = execute("SELECT current_database()").fetchone()[0]
    names = {kind: said.get(f"role_{kind}") or _role_name(database, place.schema, kind) for kind in ROLES}
    there = {name for (name,) in execute("SELECT rolname FROM pg_roles")}
    missing = [name for name in names.values() if name not in there]
    owns, manages, makes_roles = execute(_MAY, (f"{schema}.events",)).fetchone()
    if owns:
        _make_routines(connection, schema)
    if missing and not makes_roles:
        return {}
    if not (owns and manages):
        return names
    for name in missing:
        execute(f"CREATE ROLE {_quoted(name)} NOLOGIN")
    for name in names.values():  # to hand things to a role, one must be a member of it
        if not execute("SELECT pg_has_role(?::name, 'USAGE')", (name,)).fetchone()[0]:
            execute(f"GRANT {_quoted(name)} TO CURRENT_USER")
    if not execute("SELECT pg_has_role(?::name, ?::name, 'MEMBER')", (names["owner"], names["writer"])).fetchone()[0]:
        execute(f"GRANT {_quoted(names['writer'])} TO {_quoted(names['owner'])}")
    _grant(connection, place, {kind: _quoted(name) for kind, name in names.items()})
    for kind, name in names.items():
        if f"role_{kind}" not in said:
            execute(f"INSERT INTO {schema}.log_meta VALUES (?, ?)", (f"role_{kind}", name))
    return names


def _grant(connection: postgres.SchemaConnection, place: PostgresPlace, roles: dict[str, str]) -> None:
    """Give every role its rights, and everything in the schema to the role that owns it."""
    execute, schema = connection.execute, _quoted(place.schema)
    for statement in _RIGHTS:
        execute(statement.format(schema=schema, **roles))
    made = list(_statements())
    routines = execute(_OWN_ROUTINES, (schema, [name for _, name, _ in made], f"{schema}.events")).fetchall()
    tables = {name for kind, name, _ in made if kind == "TABLE"}
    for name, kind in execute(
        "SELECT relname, relkind FROM pg_class WHERE relkind IN ('r', 'v') AND relnamespace = ?::regnamespace",
        (schema,),
    ).fetchall():
        owner = roles["owner" if name in tables else "writer"]  # projections are whoever's folds
        execute(f"ALTER {'VIEW' if kind == 'v' else 'TABLE'} {schema}.{_quoted(name)} OWNER TO {owner}")
    for name, signature in routines:
        execute(f"REVOKE ALL ON ROUTINE {signature} FROM PUBLIC")
        if name in FOR_WRITERS:
            execute(f"GRANT EXECUTE ON ROUTINE {signature} TO {roles['writer']}")
        execute(f"ALTER ROUTINE {signature} OWNER TO {roles['owner']}")


_SYSTEM_ALONE = "SET LOCAL search_path = pg_catalog, pg_temp"
# Whether this user owns the log's tables, its schema too, and may make roles.
_MAY = """SELECT pg_has_role(c.relowner, 'USAGE'), pg_has_role(n.nspowner, 'USAGE'), r.rolcreaterole OR r.rolsuper
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles r
WHERE c.oid = ?::regclass AND r.rolname = current_user"""
_ANYTHING = """SELECT 1 FROM pg_class WHERE relnamespace = ?::regnamespace
UNION ALL SELECT 1 FROM pg_proc WHERE pronamespace = ?::regnamespace"""
# Of a name there may be more, made by writers: those are theirs.
_OWN_ROUTINES = """SELECT proname, oid::regprocedure::text FROM pg_proc WHERE pronamespace = ?::regnamespace
AND proname = ANY (?)
AND proowner IN (current_user::regrole, (SELECT relowner FROM pg_class WHERE oid = ?::regclass))"""
_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {owner}, {writer}, {reader}",
    "GRANT CREATE ON SCHEMA {schema} TO {owner}, {writer}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {writer}, {reader}",
    "ALTER DEFAULT PRIVILEGES FOR ROLE {writer} IN SCHEMA {schema} GRANT SELECT ON TABLES TO {owner}, {reader}",
)


def _role_name(database: str, schema: str, kind: str) -> str:
    """Return a role's name: roles are the server's, so the database is in it, and its digest where it is long."""
    end = f"_{schema}_{kind}"
    room = _NAME_MAX_BYTES - len(end)
    if len(database.encode()) > room:
        digest = hashlib.sha256(database.encode()).hexdigest()[:8]
        database = database.encode()[: room - 9].decode("utf-8", "ignore") + "_" + digest
    return database + end


def _quoted(name: Any) -> str:
    return '"' + str(name).replace('"', '""') + '"'
