"""A sub-agent's name is that of its type where that is known, also when what was known of it changes."""

from __future__ import annotations

import msgspec

from ledger.accounts.catchup import catch_up, snapshot
from ledger.events.envelope import NewEvent
from ledger.events.sources import AnyObservation, Call, Context, Delegated, LinesObserved, Response, SourceOpened
from ledger.ids import new_id
from ledger.invariants import check
from ledger.log.log import Log, StreamAppend

USAGE = msgspec.Raw(
    b'{"input_tokens":5,"output_tokens":70,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}'
)
MAIN, AGENT = Context(session="s0"), Context(session="s0", agent="a1", sidechain=True)


def delegation(begin: int, call: str, agent_type: str) -> LinesObserved:
    """A response that calls a sub-agent, and the note that this call started a1; with a type also what a1 did."""
    observations: list[AnyObservation] = [
        Response(c=0, o=begin, at=begin, id=f"m{call}", model="claude-opus-4-5", usage=USAGE, stop="tool_use"),
        Call(c=0, o=begin, at=begin, id=call, tool="Agent", response=f"m{call}", agent_type=agent_type),
        Delegated(c=1, o=begin, at=begin + 1, id=call, agent="a1"),
    ]
    if agent_type:
        own = Response(c=1, o=begin, at=begin + 1, id="own", model="claude-haiku-4-5", usage=USAGE, stop="end_turn")
        observations.append(own)
    contexts = [MAIN, AGENT]
    return LinesObserved(begin=begin, end=begin + 10, lines=2, tail="", contexts=contexts, observations=observations)


def test_another_call_takes_the_name_away(log: Log) -> None:
    """Two calls claim one agent: the smaller id counts whichever came first, and with it its type, or none.

    OBS-20, OBS-53.
    """
    opened = SourceOpened(client="claude-code", path="/p", root="/")
    for version, body in enumerate((opened, delegation(0, "t3", "helper"), delegation(10, "t2", ""))):
        log.append([StreamAppend("source:x", version, [NewEvent(body=body, event_id=new_id())])])
        catch_up(log)
    with snapshot(log) as view:
        sql = "SELECT d.agent FROM gen_spans s JOIN gen_dimensions d USING (dimension_id) WHERE s.agent_id = 'a1'"
        assert view.store.connection.execute(view.store.named(sql)).fetchall() == [("a1",)]
    assert [one.name for one in check(log, full=True) if not one.ok] == []
