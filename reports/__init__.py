"""Questions asked of the accounts, and how the answers are shown."""
