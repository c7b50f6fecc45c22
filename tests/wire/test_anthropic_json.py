"""Reading a usage object from JSON text gives what reading the decoded object gives, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ledger.wire.anthropic import fullness, parts, parts_of_json

COUNTS = st.one_of(
    st.none(),
    st.integers(-5, 2**64),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(["12", "", "x"]),
)
WORDS = st.one_of(st.none(), st.sampled_from(["standard", "batch", "us", "fast", ""]), st.integers(0, 3))
SPLITS = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens", "other"]), COUNTS),
    st.just([]),
)
USAGES = st.fixed_dictionaries(
    {},
    optional={
        "input_tokens": COUNTS,
        "output_tokens": COUNTS,
        "cache_read_input_tokens": COUNTS,
        "cache_creation_input_tokens": COUNTS,
        "cache_creation": SPLITS,
        "output_tokens_details": st.one_of(st.none(), st.fixed_dictionaries({"thinking_tokens": COUNTS})),
        "server_tool_use": st.one_of(st.none(), st.fixed_dictionaries({"web_search_requests": COUNTS})),
        "service_tier": WORDS,
        "speed": WORDS,
        "inference_geo": WORDS,
        "iterations": st.sampled_from(
            [None, [], [{"type": "message", "output_tokens": 3}], [{"type": "compaction", "output_tokens": 9}]]
        ),
        "unknown": st.just({"deep": [1]}),
    },
)


@given(usage=USAGES)
@example(usage={"input_tokens": 5, "output_tokens": 7, "cache_creation_input_tokens": 3, "cache_creation": {}})
@example(usage={"input_tokens": 1.0, "output_tokens": 2})
def test_text_and_object_read_the_same(usage: dict[str, Any]) -> None:
    """The fast reading of an import differs from the general one in nothing but its speed (OBS-10, OBS-11)."""
    assert parts_of_json(json.dumps(usage).encode()) == parts(usage)


@given(usage=USAGES)
def test_fullness_never_fails(usage: dict[str, Any]) -> None:
    """Any usage object can be compared with another, and more output is fuller."""
    raw = json.dumps(usage).encode()
    assert fullness(raw) >= 0
    more = json.dumps({**usage, "output_tokens": 2**30}).encode()
    less = json.dumps({**usage, "output_tokens": 1}).encode()
    assert fullness(more) > fullness(less)


def test_what_is_no_object_has_no_rows() -> None:
    """A list or a number where a usage object belongs stands for nothing."""
    assert parts_of_json(b"[1]") == parts_of_json(b"7") == parts_of_json(b"{}") == ()
