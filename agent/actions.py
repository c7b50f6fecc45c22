"""What a run may do next. An action says all that its effect needs to know of the state."""

from __future__ import annotations

from typing import NamedTuple

from agent.configuration import Target
from ledger.events.runs import CallReference


class CallModel(NamedTuple):
    """Send a request."""

    target: Target
    call: int
    attempt: int
    kind: str
    """`first`, `retry`, `fallback`."""
    not_before: int = 0
    """When it may leave by the wall clock, microseconds UTC."""
    delay_us: int = 0
    """The wait that was decided: no clock that was set back makes it longer."""


class ScheduleRetry(NamedTuple):
    """Decide how long to wait before another attempt, and record it."""

    span: str
    """The attempt that did not succeed."""
    reason: str
    backoff_us: int
    """Before jitter."""
    retry_after_us: int | None
    """What the provider asked for; it is obeyed where it is longer."""
    target: Target
    """The model that was asked."""


class TakeFallback(NamedTuple):
    """Ask another model from now on."""

    before: str
    after: str
    reason: str


class RunTools(NamedTuple):
    """Run the calls of a batch that did not run yet, in order."""

    calls: tuple[CallReference, ...]


class AddResults(NamedTuple):
    """Put the results of a batch into the conversation, in the order of the calls."""

    calls: tuple[CallReference, ...]


class EndTurn(NamedTuple):
    """Nothing is left to do in this turn."""

    outcome: str
    reason: str = ""


class Rest(NamedTuple):
    """There is no open turn."""


Action = CallModel | ScheduleRetry | TakeFallback | RunTools | AddResults | EndTurn | Rest
