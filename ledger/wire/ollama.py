"""Ollama's own API: no usage object, the counts stand at the top level of the answer, times are nanoseconds.

Nothing says what of the prompt came from its cache, so the input is an upper bound (OBS-22). Account rule
(OBS-13): the *last* line of the stream has the counts, and says `done`; where a line has counts and says
that it is not done, the reading is partial.
"""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import count
from ledger.wire.usage import Part, Usage


def parts(usage: dict[str, Any]) -> tuple[Part, ...]:
    """The row of one answer of `/api/generate`, `/api/chat` or `/api/embed`."""
    given = count(usage.get("prompt_eval_count"))
    counts = Usage(input_uncached=given, output=count(usage.get("eval_count")), upper_bound=given is not None)
    return (Part(role="message", model="", usage=counts),)
