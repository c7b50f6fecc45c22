"""Tallybook's ledger: an append-only log of what agents did, and the accounts folded from it."""

__version__ = "0.1.0"
