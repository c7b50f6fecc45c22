"""Write the statements and fresh-database scripts from SQLAlchemy Core: `python -m ledger.sql.freeze`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql import ClauseElement

from ledger.accounts import schema as accounts
from ledger.accounts.statements import STATEMENTS as ACCOUNTS
from ledger.log import schema as log
from ledger.log.statements import STATEMENTS as LOG
from ledger.sql import FOLDER

_DIALECT = sqlite.dialect(paramstyle="qmark")


def _text(clause: ClauseElement) -> str:
    text = str(clause.compile(dialect=_DIALECT)).replace("\t", "  ")
    text = text.replace(" OFFSET ?", "")  # the dialect adds a parameter for the offset that no statement has
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _tables(metadata: MetaData) -> Iterable[str]:
    for table in metadata.sorted_tables:
        yield _text(CreateTable(table))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield _text(CreateIndex(index))


def frozen() -> dict[str, str]:
    """Return file name -> content of everything under ledger/sql/sqlite."""
    named = {**LOG, **ACCOUNTS}
    scripts = {
        "log.sql": [*_tables(log.LOG), *log.GUARDS],
        "projections.sql": list(_tables(accounts.PROJECTIONS)),
    }
    files = {name: ";;\n\n".join(parts) + ";;\n" for name, parts in scripts.items()}
    files["statements.sql"] = "\n\n".join(f"-- name: {name}\n{_text(named[name])};" for name in sorted(named)) + "\n"
    return files


def write(folder: Path) -> None:
    """Write every frozen file below `folder`/sqlite."""
    (folder / "sqlite").mkdir(exist_ok=True)
    for name, content in frozen().items():
        (folder / "sqlite" / name).write_text(content, "ascii")


if __name__ == "__main__":
    write(FOLDER)
