"""The append-only log: the only place where a fact lives."""
