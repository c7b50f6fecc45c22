"""Evidence: seals that a log can be held against, and what is left of texts that were purged."""
