"""What fills the log from outside: other agents' session files, read as they stand."""
