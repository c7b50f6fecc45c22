"""Bring a log of an older format forward. Imported only when there is one: it loads SQLAlchemy and Alembic.

The scripts are in `alembic/versions`; a revision's id is the number of the format it leads to, in four
digits. A log has no table of Alembic's own: its revision is `log_meta.format`. Migrations only add; one that
changes, removes or adds an event is rolled back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger.errors import LogUnavailable
from ledger.log import sqlite
from ledger.log.lock import CommitLock

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.runtime.migration import MigrationContext, MigrationInfo
    from sqlalchemy import Connection

_ASIDE = "alembic"
"""A database in memory, attached for Alembic's version table."""


def scripts() -> Path:
    """Return the folder of the scripts: `_migrations` in a wheel, `alembic` beside an editable install."""
    package = Path(__file__).parent.parent
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "alembic"


def upgrade(path: Path) -> None:
    """Bring the log at `path` to the newest format, in one transaction and under the writers' lock.

    An empty file becomes an empty log. Whoever comes second finds nothing left to do. Raises LogUnavailable;
    then the log is as it was.
    """
    from alembic import command
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        command.upgrade(_configuration(path), "head")
    except (CommandError, SQLAlchemyError, sqlite.Error) as error:
        reason = str(error).partition("\n")[0]
        raise LogUnavailable(
            f"{path}: could not be brought to the log format of this program and is as it was ({reason}): "
            "run `ledger doctor` for details"
        ) from error


def run(context: EnvironmentContext, path: Path) -> None:
    """Run what the Alembic command at hand asks for on one log; `env.py` calls it."""
    from alembic.util import CommandError
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import StaticPool

    bare = sqlite.connect(path)
    engine = create_engine("sqlite://", module=sqlite.driver, creator=lambda: bare, poolclass=StaticPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with CommitLock(Path(f"{path}.lock")):
            if bare.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
                bare.execute("PRAGMA journal_mode=WAL")
            bare.execute(f"ATTACH ':memory:' AS {_ASIDE}")
            with engine.begin() as connection:
                columns = _names(connection, "SELECT name FROM pragma_table_info('events')")
                events, guards = _evidence(connection, columns)
                _tell_alembic(connection)
                context.configure(
                    connection=connection,
                    version_table_schema=_ASIDE,
                    transactional_ddl=True,
                    on_version_apply=_stamp,
                )
                with context.begin_transaction():
                    context.run_migrations()
                events_after, guards_after = _evidence(connection, columns)
                if events_after != events or not guards <= guards_after:
                    raise CommandError("a migration changed events or what guards them")
    finally:
        engine.dispose()
        bare.close()


def _configuration(path: Path) -> Config:
    from alembic.config import Config

    configuration = Config(attributes={"path": path})
    configuration.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    return configuration


def _tell_alembic(connection: Connection) -> None:
    """Write the log's format where Alembic looks for its revision; an empty file has none."""
    from alembic.util import CommandError

    connection.exec_driver_sql(f"CREATE TABLE {_ASIDE}.alembic_version (version_num VARCHAR(32) NOT NULL)")
    tables = _names(connection, "SELECT name FROM main.sqlite_master")
    if not tables:
        return
    if "log_meta" not in tables:
        raise CommandError("it is a database of something else")
    for found in _names(connection, "SELECT value FROM log_meta WHERE \"key\" = 'format'"):
        revision = f"{int(found):04d}"
        connection.exec_driver_sql(f"INSERT INTO {_ASIDE}.alembic_version VALUES (?)", (revision,))


def _stamp(ctx: MigrationContext, step: MigrationInfo, heads: Collection[Any], run_args: Any) -> None:
    """Write the format just reached into the log, in the same transaction."""
    assert ctx.connection is not None and step.up_revision_id is not None
    format_ = str(int(step.up_revision_id))
    ctx.connection.exec_driver_sql("UPDATE log_meta SET value = ? WHERE \"key\" = 'format'", (format_,))


def _evidence(connection: Connection, columns: list[str]) -> tuple[bytes, set[str]]:
    """Return a digest of all events, over the columns they had before, and the names of the triggers."""
    digest = hashlib.sha256()
    if columns:
        listed = ", ".join(f'"{column}"' for column in columns)
        for row in connection.exec_driver_sql(f"SELECT {listed} FROM events ORDER BY position"):
            digest.update(repr(tuple(row)).encode("utf-8", "surrogatepass"))
    return digest.digest(), set(_names(connection, "SELECT name FROM sqlite_master WHERE type = 'trigger'"))


def _names(connection: Connection, question: str) -> list[str]:
    return [str(row[0]) for row in connection.exec_driver_sql(question)]
