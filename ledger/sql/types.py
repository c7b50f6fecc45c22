"""Column types that both databases keep alike. Imported by `make sql` and tests, never at run time."""

from __future__ import annotations

from sqlalchemy import BLOB, BigInteger, Integer, LargeBinary, Text
from sqlalchemy.dialects import postgresql

INTEGER = Integer().with_variant(BigInteger(), "postgresql")
"""64 bits, signed."""
BYTES = LargeBinary().with_variant(BLOB(), "sqlite")
TEXT = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""Compared and ordered by its bytes (UTF-8), as SQLite does."""
