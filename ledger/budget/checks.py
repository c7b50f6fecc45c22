"""What must hold of every hub: reservations are of open grants, end at most once, and never broke a ceiling. Pure.

What is found does not depend on how the streams stand between one another: all grants are known before a month is
looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ledger.budget.bound import Bound
from ledger.budget.ceilings import Refusal, money_refusal, of_month, refusal
from ledger.budget.hub import NO_GRANT, HubState
from ledger.budget.reserve import HUB
from ledger.errors import LogTooNew, VolumeMissing
from ledger.events.envelope import Event
from ledger.events.hubs import GrantOpened, Limits, ReservationMade
from ledger.events.registry import decode
from ledger.findings import Finding
from ledger.log.log import Log

MONTH = f"{HUB}month:"
"""How the names of the streams of months begin."""


class Checking:
    """One reading of hub streams: first those of sessions, then those of months, then what is missing between them."""

    def __init__(self) -> None:
        self.limits: dict[tuple[str | None, str], Limits] = {}
        """(session, grant) -> its limits, of the sessions that were read."""
        self._of_month: dict[str, Event] = {}
        """Span -> its reservation, where the month is limited and its stream does not have it yet."""

    def session(self, events: Iterable[Event]) -> Iterator[Finding]:
        """Yield what is wrong in the stream of a session's hub, given from its beginning."""
        hub = HubState()
        for event, body in _bodies(events):
            if isinstance(body, ReservationMade) and body.grant in hub.grants:
                grant = hub.grants[body.grant]
                wanted = Bound(body.tokens, body.cost_nanousd)
                # Time is left out: a commit may come long after it was decided (a lock, a machine that sleeps).
                if refused := refusal(hub, body.grant, wanted, grant.opened_at):
                    yield _broken(event, refused)
                if grant.limits.month_cost_nanousd is not None and event.span:
                    self._of_month[event.span] = event
            if wrong := hub.apply(event, body):
                yield _fault(event, wrong)
            elif isinstance(body, GrantOpened):
                self.limits[event.session_id, body.grant] = body.limits

    def month(self, events: Iterable[Event]) -> Iterator[Finding]:
        """Yield what is wrong in the stream of a month, given from its beginning.

        Its ceiling is that of the grant that reserves; grants of sessions that were not read are passed over.
        """
        hub = HubState()
        for event, body in _bodies(events):
            if isinstance(body, ReservationMade):
                self._of_month.pop(event.span or "", None)
                if limits := self.limits.get((event.session_id, body.grant)):
                    tally = of_month(hub, hub.elsewhere)
                    if refused := money_refusal("month_cost", limits, tally, body.cost_nanousd):
                        yield _broken(event, refused)
            wrong = hub.apply(event, body)
            if wrong and wrong != NO_GRANT:
                yield _fault(event, wrong)

    def missing(self) -> Iterator[Finding]:
        """Yield the reservations that the month should hold too, once all streams were read."""
        for event in self._of_month.values():
            yield _fault(event, "the month is limited, and its stream does not have this reservation")


def faults(log: Log, until: int, since: int = 0) -> Iterator[Finding]:
    """Yield what is wrong with the hubs of a log, in events beyond position `since` and up to `until`.

    Only hubs that have such events are read, each from its beginning. One of which older events lie in a volume that
    is not there is left out.
    """
    checking = Checking()
    changed = [stream for stream in _hubs(log) if not since or log.head_at(stream, since) != log.head_at(stream, until)]
    for stream in sorted(changed, key=lambda name: name.startswith(MONTH)):
        read = checking.month if stream.startswith(MONTH) else checking.session
        try:
            yield from _beyond(since, read(_until(log, stream, until)))
        except VolumeMissing:
            continue
    yield from _beyond(since, checking.missing())


def _hubs(log: Log) -> list[str]:
    return [head.stream_id for head in log.heads() if head.stream_id.startswith(HUB)]


def _until(log: Log, stream: str, until: int) -> Iterator[Event]:
    version = 0
    while page := log.stream_events(stream, version):
        for event in page:
            if event.position > until:
                return
            yield event
        version = page[-1].version


def _beyond(since: int, found: Iterable[Finding]) -> Iterator[Finding]:
    return (fault for fault in found if fault.event is not None and fault.event > since)


def _bodies(events: Iterable[Event]) -> Iterator[tuple[Event, Any]]:
    """Events with their bodies, up to one that this program cannot read: another check names that."""
    for event in events:
        try:
            body = decode(event.type, event.schema, event.data)
        except (LogTooNew, msgspec.MsgspecError):
            return
        yield event, body


def _broken(event: Event, refused: Refusal) -> Finding:
    return _fault(event, f"a reservation breaks a ceiling ({refused.code}): {refused.text}", str(refused.limit))


def _fault(event: Event, what: str, expected: str = "") -> Finding:
    return Finding(
        what, expected, session=event.session_id or "", span=event.span or "", event=event.position,
        stream=event.stream_id, version=event.version,
    )  # fmt: skip
