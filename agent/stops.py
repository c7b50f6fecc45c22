"""Stopping: who asked for it, and the effect that it cancels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Stops:
    """One a run. `ask` cancels what runs; what begins afterwards is cancelled at once."""

    def __init__(self) -> None:
        self.reason = ""
        """`user`, `signal` or `deadline`; empty while nobody asked."""
        self._scopes: set[anyio.CancelScope] = set()

    def ask(self, reason: str) -> None:
        """Stop what runs. The first reason stands."""
        self.reason = self.reason or reason
        for scope in tuple(self._scopes):
            scope.cancel()

    @contextmanager
    def effect(self) -> Iterator[anyio.CancelScope]:
        """Hold an effect that a stop cancels; `scope.cancelled_caught` tells afterwards whether it did."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                if self.reason:
                    scope.cancel()
                yield scope
            finally:
                self._scopes.discard(scope)
