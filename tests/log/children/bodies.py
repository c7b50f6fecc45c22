"""What the writers of the tests write: by stream and number, so that another process can try the same again."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.events.sources import Context, LinesObserved, Response, SourceOpened


def body_of(stream: str, number: int) -> Any:
    """Return the n-th event of a stream: a file that is opened, and then a response a line; some are everybody's."""
    if number == 1:
        return SourceOpened("claude-code", f"/{stream}", "/")
    name = f"msg_{number}" if number % 3 == 0 else f"msg_{stream}_{number}"
    usage = msgspec.Raw(b'{"input_tokens":%d,"output_tokens":7}' % number)
    response = Response(c=0, o=number - 2, at=1_773_186_600_000_000 + number, id=name, model="m", usage=usage)
    context = Context(session=f"session of {stream}")
    return LinesObserved(
        begin=number - 2, end=number - 1, lines=1, tail="", contexts=[context], quotes=[], observations=[response]
    )
