"""A scripted model over real HTTP on the loopback: for tests, for the demo, and to try things without a key."""
