"""The frozen SQL: written by SQLAlchemy Core (`make sql`), run on the bare driver."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@cache
def statements(dialect: str) -> dict[str, str]:
    """Return the named statements of a dialect. Parameters are positional, in the order of the text."""
    found: dict[str, str] = {}
    text = (FOLDER / dialect / "statements.sql").read_text("ascii")
    for section in text.split("-- name: ")[1:]:
        name, _, body = section.partition("\n")
        found[name] = body.strip().rstrip(";")
    return found


def script(dialect: str, name: str) -> list[str]:
    """Return the statements of a script (`log`, `projections`), in order."""
    text = (FOLDER / dialect / f"{name}.sql").read_text("ascii")
    return [part.strip() for part in text.split(";;\n") if part.strip()]
