"""The coding agent: a loop over the log. Nothing of it exists yet; its events will be in the same log."""
