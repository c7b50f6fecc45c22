"""What `ledger doctor` says of a log on PostgreSQL: the server, what it keeps safe, roles, room for connections.

Settings and views are those of the PostgreSQL manual, chapters "Server Configuration" and "Monitoring Database
Activity". Everything is read with the rights of the one who asks; what these do not show is said to be unknown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from ledger.errors import LedgerError, LogTooNew
from ledger.log.location import PostgresPlace
from ledger.log.log import Log
from ledger.sql import script
from reports.doctor_log import contents
from reports.health import BAD, OK, WARN, Check, size_text
from reports.text import counted

_LEAST_VERSION = 140000
_FEW_CONNECTIONS = 5
_CLOCK_SLACK_US = 2_000_000
_ROUND_TRIPS = 15
_SLOW_US = 50_000
_SETTINGS = ("server_version", "server_version_num", "server_encoding", "fsync", "full_page_writes",
             "synchronous_commit", "max_connections", "superuser_reserved_connections")  # fmt: skip
_RIGHTS = """SELECT session_user::text, current_user::text, r.rolsuper, pg_has_role(session_user, p.proowner, 'MEMBER'),
  has_function_privilege(p.oid, 'EXECUTE'), has_schema_privilege(p.pronamespace, 'CREATE')
FROM pg_roles r, pg_proc p WHERE r.rolname = session_user AND p.proname = 'append_events'
AND p.pronamespace = current_schema()::text::regnamespace"""
_GUARDS = """SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND c.relnamespace = current_schema()::text::regnamespace"""
_SIZES = """SELECT c.relname IN ('events', 'blobs', 'event_blobs', 'log_meta'), sum(pg_total_relation_size(c.oid))
FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::text::regnamespace GROUP BY 1"""
_HOLDER = """SELECT a.application_name, a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objid = 'events'::regclass::oid"""


def examine(place: PostgresPlace) -> Iterator[Check]:
    """Yield the checks of the log in a schema, or of what stands in its place."""
    yield Check("log", str(place))
    try:
        log = Log.open(place, readonly=True)
    except LogTooNew as error:
        yield Check("contents", "was written by a newer tallybook", BAD, _without(error, place))
        return
    except LedgerError as error:
        yield Check("contents", "cannot be opened", BAD, _without(error, place))
        return
    with log:
        yield _driver(log)
        yield from contents(log, _of_server)


def _without(error: Exception, place: PostgresPlace) -> str:
    return str(error).removeprefix(f"{place}: ")


def _driver(log: Log) -> Check:
    import psycopg

    info = log.connection.driver.info
    libpq = psycopg.pq.version()
    how = f"{info.host or 'a socket'}{f' port {info.port}' if info.host and not info.host.startswith('/') else ''}"
    return Check("driver", f"psycopg {psycopg.__version__} with libpq {libpq // 10000}.{libpq % 10000}, over {how}")


def _of_server(log: Log) -> Iterator[Check]:
    """Yield the checks that a file has no like of."""
    ask: Any = log.connection.execute
    said = {name: ask("SELECT current_setting(?)", (name,)).fetchone()[0] for name in _SETTINGS}
    yield _server(said)
    yield _durability(said)
    yield from _standby(ask)
    yield _role(ask)
    yield _connections(ask, said)
    yield _encryption(ask, log)
    yield _guards(ask)
    yield _lock(ask)
    sizes = dict(ask(_SIZES).fetchall())
    yield Check("tables", f"log {size_text(int(sizes.get(True, 0)))}, accounts {size_text(int(sizes.get(False, 0)))}")
    yield _round_trip(ask)
    yield _server_clock(ask)


def _server(said: dict[str, str]) -> Check:
    value = f"PostgreSQL {said['server_version']}, encoding {said['server_encoding']}"
    if said["server_encoding"] != "UTF8":
        return Check("server", value, BAD, "make a database with the encoding UTF8 and copy the log there")
    if int(said["server_version_num"]) < _LEAST_VERSION:
        return Check(
            "server", value, BAD, f"PostgreSQL {_LEAST_VERSION // 10000} or later is needed: upgrade the server"
        )
    return Check("server", value)


def _durability(said: dict[str, str]) -> Check:
    names = ("fsync", "full_page_writes", "synchronous_commit")
    value = ", ".join(f"{name} {said[name]}" for name in names)
    if said["fsync"] == "off":
        return Check("durability", value, BAD, "a power cut can destroy the database: set fsync = on")
    if said["full_page_writes"] == "off":
        advice = "a power cut can tear pages: set full_page_writes = on"
        return Check("durability", value, WARN, advice)
    if said["synchronous_commit"] == "off":
        advice = "a crash of the server takes the last commits away: set synchronous_commit = on for this database"
        return Check("durability", value, WARN, advice)
    return Check("durability", value)


def _standby(ask: Any) -> Iterator[Check]:
    if ask("SELECT pg_is_in_recovery()").fetchone()[0]:
        lag = ask("SELECT extract(epoch FROM now() - pg_last_xact_replay_timestamp())::float8").fetchone()[0]
        behind = "unknown" if lag is None else f"{lag:,.0f} s"
        advice = "reports work here, an import does not: give the primary server to write"
        yield Check("replication", f"this is a standby; its last change is {behind} old", WARN, advice)
        return
    count = ask("SELECT count(*) FROM pg_stat_replication").fetchone()[0]
    yield Check("replication", f"this is the primary; {counted(count, 'standby server')} connected")


def _role(ask: Any) -> Check:
    """Say who one is to the server, and what that may do; who may act as the owner may change what was written."""
    row = ask(_RIGHTS).fetchone()
    if row is None:
        return Check("role", "rights unknown", WARN, "the log's functions are missing: its owner runs `ledger init`")
    user, acting, superuser, may_own, may_append, may_fold = row
    value = f"{user}{f', as {acting}' if acting != user else ''}"
    value += f": may {'append' if may_append else 'not append'} and {'fold' if may_fold else 'not fold'}"
    if superuser or may_own:
        what = "a superuser" if superuser else "may act as the log's owner"
        advice = "who may do all can change what was written: let programs log in with the writer's role alone"
        return Check("role", f"{value}; {what}", WARN, advice)
    return Check("role", value)


def _connections(ask: Any, said: dict[str, str]) -> Check:
    used = ask("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchone()[0]
    most = int(said["max_connections"]) - int(said["superuser_reserved_connections"])
    value = f"{used:,} of {most:,} in use"
    if most - used < _FEW_CONNECTIONS:
        return Check("connections", value, WARN, "programs will be refused: raise max_connections, or end some")
    return Check("connections", value)


def _encryption(ask: Any, log: Log) -> Check:
    row = ask("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
    host = log.connection.driver.info.host or ""
    local = not host or host.startswith("/") or host in ("localhost", "127.0.0.1", "::1")
    if row and row[0]:
        return Check("encryption", str(row[1]))
    if local:
        return Check("encryption", "none, and none is needed on one host")
    return Check("encryption", "none", WARN, "what is sent can be read on the way: add sslmode=verify-full to the URL")


def _guards(ask: Any) -> Check:
    """Say whether the triggers stand that refuse to change or remove an event."""
    wanted = {_name(text) for text in script("postgresql", "log") if " TRIGGER " in text.partition("\n")[0]}
    found = {name for (name,) in ask(_GUARDS)}
    missing = sorted(wanted - found)
    if missing:
        advice = "somebody removed or disabled them: run `ledger verify --full`, then the owner runs `ledger init`"
        return Check("guards", f"missing: {', '.join(missing)}", BAD, advice)
    return Check("guards", f"{len(wanted)} triggers refuse to change what was written")


def _name(text: str) -> str:
    return text.partition(" TRIGGER ")[2].split()[0]


def _lock(ask: Any) -> Check:
    row = ask(_HOLDER).fetchone()
    if row is None:
        return Check("lock", "free")
    return Check(
        "lock", f"{row[0] or 'a program'} (server process {row[1]}) is writing now", OK, "others wait for up to 30 s"
    )


def _round_trip(ask: Any) -> Check:
    times_us = []
    for _ in range(_ROUND_TRIPS):
        begun = time.perf_counter_ns()
        ask("SELECT 1").fetchone()
        times_us.append((time.perf_counter_ns() - begun) / 1000)
    median_us = statistics.median(times_us)
    value = f"{median_us / 1000:,.3f} ms (median of {len(times_us)})"
    if median_us > _SLOW_US:
        return Check("round trip", value, WARN, "every event waits so long: run the programs nearer to the server")
    return Check("round trip", value)


def _server_clock(ask: Any) -> Check:
    before = time.time_ns() // 1000
    there = int(ask("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()[0])
    here = (before + time.time_ns() // 1000) // 2
    off_us = there - here
    value = f"{abs(off_us) / 1000:,.0f} ms {'ahead of' if off_us >= 0 else 'behind'} this machine's"
    if abs(off_us) > _CLOCK_SLACK_US:
        return Check("server clock", value, WARN, "set both clocks right (NTP): days and order depend on them")
    return Check("server clock", value)
