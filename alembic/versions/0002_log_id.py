"""Every log has an id of its own, by which the streams it writes are named apart from those of other logs.

The projections leave for a file of their own, where they are folded anew.

Format: 2
"""

from __future__ import annotations

from alembic import op

from ledger.ids import id_text, new_id

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give the log its id and remove its projections."""
    execute = op.get_bind().exec_driver_sql
    execute('INSERT INTO log_meta ("key", value) VALUES (?, ?)', ("log_id", id_text(new_id())))
    for kind, pattern in (("view", "*"), ("table", "g[0-9]*_*"), ("table", "projections")):
        found = execute("SELECT name FROM sqlite_master WHERE type = ? AND name GLOB ?", (kind, pattern)).fetchall()
        for (name,) in found:
            execute(f'DROP {kind} "{name}"')
