"""The accounts: rows folded from the log, with a checkpoint, rebuildable at any time."""
