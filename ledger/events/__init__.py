"""The catalogue: every type of event this program writes, and how old ones are read."""
