"""What is asked for, by policy and by what a tool can do."""

from __future__ import annotations

import pytest

from agent.approvals import DENIED, POLICIES, Nobody, approver, reason_to_ask
from agent.faces.face import _ASKS
from agent.prompt import system_prompt
from agent.tools.registry import TOOLS

READ_ONLY = {"read_file", "list_dir", "grep", "glob"}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_table_of_policies(policy: str) -> None:
    """SEC-19: never asks nothing, on-request what is not read-only, untrusted everything."""
    asked = {tool.name for tool in TOOLS if reason_to_ask(policy, tool.capabilities)}
    everything = {tool.name for tool in TOOLS}
    assert asked == {"never": set(), "on-request": everything - READ_ONLY, "untrusted": everything}[policy]


def test_what_is_unknown_is_asked_for() -> None:
    """A capability that nobody knows is no reading."""
    assert reason_to_ask("on-request", frozenset(("fs.read", "teleport")))


def test_every_policy_is_told() -> None:
    """SEC-06: the posture and the system prompt say what holds, each in its own words."""
    assert set(_ASKS) == set(POLICIES)
    assert len({system_prompt("/w", "main", policy) for policy in POLICIES}) == 3
    assert system_prompt("/w", "", "never") == system_prompt("/w", "", "never")


def test_the_words_of_a_refusal() -> None:
    """TOOL-38."""
    assert DENIED == "Command denied by the user. Do not retry it; ask what to do instead."


def test_nobody_is_there_in_a_test() -> None:
    assert isinstance(approver(), Nobody)
