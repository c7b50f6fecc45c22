"""${message}.

Format: ${int(up_revision)}
"""

from __future__ import annotations

from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add to the log's tables. Events are never rewritten."""
    ${upgrades if upgrades else "pass"}
