"""Moving and keeping logs: copied from one database to another, merged, backed up, rolled."""
