"""Every log has an id of its own, by which the streams it writes are named apart from those of other logs.

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
    """Give the log its id."""
    put = 'INSERT INTO log_meta ("key", value) VALUES (?, ?)'
    op.get_bind().exec_driver_sql(put, ("log_id", id_text(new_id())))
