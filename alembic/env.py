"""What Alembic runs for every command: it opens one log, whose revision is the number of its format."""

from __future__ import annotations

from pathlib import Path

from alembic import context
from alembic.util import CommandError

from ledger.log.migrate import run


def _path() -> Path:
    """Return the log that `upgrade()` or `alembic -x db=PATH` names."""
    path = context.config.attributes.get("path") or context.get_x_argument(as_dictionary=True).get("db")
    if not path:
        raise CommandError("name the log: alembic -x db=PATH ...")
    return Path(path)


if context.is_offline_mode():
    raise CommandError("a log is brought forward in place: there is no SQL script of it")
run(context, _path())
