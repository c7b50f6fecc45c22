"""Write the statements and fresh-database scripts from SQLAlchemy Core: `python -m ledger.sql.freeze`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Dialect, MetaData
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import BindTyping
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql import ClauseElement

from ledger.accounts import schema as accounts
from ledger.accounts.statements import STATEMENTS as ACCOUNTS
from ledger.log import postgres_adopting_schema, postgres_schema
from ledger.log import schema as log
from ledger.log.statements import STATEMENTS as LOG
from ledger.sql import FOLDER

DIALECTS: dict[str, Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="qmark"),
    "postgresql": postgresql.dialect(paramstyle="qmark"),  # type: ignore[no-untyped-call]
}
DIALECTS["postgresql"].bind_typing = BindTyping.NONE  # the columns say the types well enough


def _text(clause: ClauseElement, dialect: Dialect) -> str:
    text = str(clause.compile(dialect=dialect)).replace("\t", "  ")
    text = text.replace(" OFFSET ?", "")  # the dialect adds a parameter for the offset that no statement has
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _tables(metadata: MetaData, dialect: Dialect) -> Iterable[str]:
    for table in metadata.sorted_tables:
        yield _text(CreateTable(table), dialect)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield _text(CreateIndex(index), dialect)


def frozen(name: str) -> dict[str, str]:
    """Return file name -> content of everything under ledger/sql/NAME, a dialect."""
    dialect = DIALECTS[name]
    named = {**LOG, **ACCOUNTS}
    adopting, postgresql = postgres_adopting_schema, postgres_schema
    extras = log.GUARDS if name == "sqlite" else (*postgresql.ROUTINES, *adopting.ROUTINES, *postgresql.GUARDS)
    scripts = {
        "log.sql": [*_tables(log.LOG, dialect), *extras],
        "projections.sql": list(_tables(accounts.PROJECTIONS, dialect)),
        "checkpoint.sql": list(_tables(accounts.CHECKPOINT, dialect)),
    }
    if name == "sqlite":
        scripts["volumes.sql"] = list(_tables(log.VOLUMES, dialect))
    files = {file: ";;\n\n".join(parts) + ";;\n" for file, parts in scripts.items()}
    texts = (f"-- name: {one}\n{_text(named[one], dialect)};" for one in sorted(named))
    files["statements.sql"] = "\n\n".join(texts) + "\n"
    return files


def write(folder: Path) -> None:
    """Write every frozen file below `folder`/DIALECT."""
    for dialect in DIALECTS:
        (folder / dialect).mkdir(exist_ok=True)
        for name, content in frozen(dialect).items():
            (folder / dialect / name).write_text(content, "ascii")


if __name__ == "__main__":
    write(FOLDER)
