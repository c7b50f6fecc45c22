"""What single servers refuse is not sent to them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledger.wire.chat import PROTOCOL
from ledger.wire.conversation import Message, Parameters, Text, ToolSchema, Window
from ledger.wire.takes import takes

WINDOW = Window("", [Message("user", (Text("Hi."),))], [ToolSchema("grep", "Search.", msgspec.Raw(b"{}"))])


def body(provider: str, model: str, **more: Any) -> dict[str, Any]:
    given = takes(provider, model, "openai-chat", 4_000)
    found = msgspec.json.decode(PROTOCOL.body(model, WINDOW, Parameters(**more), takes=given))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "provider", ["openai", "ollama", "deepseek", "groq", "openrouter", "xai", "127.0.0.1", "gemini"]
)
def test_usage_is_asked_for_where_it_streams(provider: str) -> None:
    """LOOP-23: and a whole answer has it anyway."""
    assert body(provider, "m")["stream_options"] == {"include_usage": True}
    assert not {"stream", "stream_options"} & set(body(provider, "m", stream=False))


def test_mistral_counts_unasked() -> None:
    """LOOP-23: Mistral answers 422 to the question, and has usage in its last chunk all the same."""
    found = body("mistral", "mistral-large-latest")
    assert found["stream"] is True and "stream_options" not in found


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("mistral-small-latest", "high"),
        ("mistral-small-2603", "high"),
        ("mistral-medium-3-5", "high"),
        ("mistral-medium-2604", "high"),
        ("mistral-medium-2508", None),
        ("mistral-large-latest", None),
        ("devstral-small-2507", None),
        ("magistral-medium-latest", None),
    ],
)
def test_which_models_of_mistral_take_an_effort(model: str, effort: str | None) -> None:
    """LOOP-24: those with adjustable reasoning; the others refuse the field."""
    assert body("mistral", model, thinking=True).get("reasoning_effort") == effort
    assert "reasoning_effort" not in body("mistral", model)
