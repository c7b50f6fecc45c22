"""What all protocols share: how they are found, what they load, what a long conversation costs, what models take."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from ledger.errors import UsageError
from ledger.prices.book import Book
from ledger.wire.chat import Chat
from ledger.wire.conversation import Call, Message, Opaque, Parameters, Result, Text, Window, message_bytes, message_of
from ledger.wire.messages import Messages
from ledger.wire.protocols import PROTOCOLS, protocol
from ledger.wire.takes import ANTHROPIC_OUTPUT, OUTPUT_MOST, Takes, takes


def test_an_unknown_protocol() -> None:
    """LOOP-13: it is told which there are."""
    with pytest.raises(UsageError, match="telepathy: unknown protocol: use one of openai-chat, anthropic"):
        protocol("telepathy")


def test_no_http_library_is_loaded() -> None:
    """LOOP-13: protocols are pure, and starting is budgeted: httpx is loaded by the exchange alone."""
    code = (
        "import sys; from ledger.wire.protocols import protocol, PROTOCOLS; [protocol(name) for name in PROTOCOLS];"
        "import ledger.wire.failures, ledger.wire.making;"
        "print([name for name in ('httpx', 'httpx_sse', 'anyio', 'asyncio', 'pydantic') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def conversation(steps: int) -> list[Message]:
    messages = [Message("user", (Text("Do it."),))]
    for number in range(steps):
        messages.append(Message("assistant", (Text("Next."), Call(f"c{number}", "grep", '{"x":1}'))))
        messages.append(Message("tool", (Result(f"c{number}", "grep", "line\n" * 4_000),)))
    return messages


@pytest.mark.parametrize(("name", "make"), [("openai-chat", Chat), ("anthropic", Messages)])
def test_a_long_conversation_costs_what_is_new(
    name: str, make: type[Chat | Messages], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOOP-13: each message is written as JSON once, however often it is sent; another model may need it anew."""
    written: list[int] = []
    speaks, messages = make(), conversation(100)
    fragments: Any = speaks._fragments
    write = fragments._write
    monkeypatch.setattr(fragments, "_write", lambda message, style: (written.append(1), write(message, style))[1])
    for length in range(1, len(messages) + 1, 2):
        speaks.body("m", Window("s", messages[:length], []), Parameters(), takes=Takes(9))
        assert len(written) == length
    speaks.body("other", Window("s", messages, []), Parameters(), takes=Takes(9))
    assert len(written) == 2 * len(messages) and name == speaks.name


@pytest.mark.parametrize("name", PROTOCOLS)
def test_equal_messages_give_equal_bytes(name: str) -> None:
    """OBS-49: a message that was read from the log gives the same bytes as the one that was written."""
    messages = conversation(3)
    again = [message_of(message_bytes(one)) for one in messages]
    bodies = {protocol(name).body("m", Window("s", one, []), Parameters(), takes=Takes(9)) for one in (messages, again)}
    assert len(bodies) == 1


def test_an_opaque_part_of_before_is_read() -> None:
    """OBS-49: messages that were stored before parts knew their model are read, and written as they were."""
    stored = b'{"role":"assistant","parts":[{"kind":"opaque","protocol":"anthropic","data":{"type":"thinking"}}]}'
    message = message_of(stored)
    assert (
        message.parts == (Opaque("anthropic", msgspec.Raw(b'{"type":"thinking"}')),)
        and message_bytes(message) == stored
    )


def test_limits_come_from_the_price_data() -> None:
    """LOOP-13: what a model can give, within what anybody asks for and what its window leaves; unknown is not sent."""
    book = Book.bundled()
    for provider, model, name, expected in [
        ("openai", "gpt-4o", "openai-chat", 16_384), ("openai", "gpt-5", "openai-chat", OUTPUT_MOST),
        ("deepseek", "deepseek-chat", "openai-chat", 8_192), ("ollama", "qwen3", "openai-chat", None),
        ("anthropic", "claude-sonnet-4-5", "anthropic", OUTPUT_MOST),
        ("anthropic", "claude-3-haiku", "anthropic", 4_096),
        ("me", "my-model", "anthropic", ANTHROPIC_OUTPUT),
    ]:  # fmt: skip
        window, most = book.limits(provider, model)
        assert takes(provider, model, name, most, window).max_output_tokens == expected, model
    assert takes("x", "small", "openai-chat", 8_192, 8_192).max_output_tokens == 4_096


@pytest.mark.parametrize(
    ("model", "thinking", "temperature", "effort"),
    [
        ("claude-3-haiku-20240307", "budget", True, False), ("claude-3-5-sonnet-latest", "budget", True, False),
        ("claude-3-7-sonnet-latest", "budget", True, True), ("claude-opus-4-20250514", "budget", True, True),
        ("claude-sonnet-4-5-20250929", "budget", True, True), ("claude-haiku-4-5", "budget", True, True),
        ("claude-opus-4-6", "adaptive", True, True), ("claude-opus-4-7", "adaptive", False, True),
        ("claude-opus-4-8", "adaptive", False, True), ("claude-opus-5", "adaptive", False, True),
        ("claude-haiku-5-5", "adaptive", False, True), ("claude-fable-5", "adaptive", False, True),
        ("glm-5", "budget", True, True),
    ],
)  # fmt: skip
def test_what_models_of_anthropic_take(model: str, thinking: str, temperature: bool, effort: bool) -> None:
    """LOOP-13: a budget up to 4.5, adaptive since 4.6, no temperature since 4.7; others of the protocol as before."""
    found = takes("anthropic", model, "anthropic", None)
    assert (found.thinking, found.temperature, found.effort) == (thinking, temperature, effort)


@pytest.mark.parametrize(
    ("provider", "model", "limit", "temperature", "effort", "beside_tools", "thoughts"),
    [
        ("openai", "gpt-4o-mini", "max_completion_tokens", True, False, "high", False),
        ("openai", "gpt-5-chat-latest", "max_completion_tokens", True, False, "high", False),
        ("openai", "gpt-5-mini", "max_completion_tokens", False, True, "high", False),
        ("openai", "o4-mini", "max_completion_tokens", False, True, "high", False),
        ("openai", "gpt-5.5", "max_completion_tokens", False, True, "", False),
        ("openai", "gpt-5.6-luna", "max_completion_tokens", False, True, "none", False),
        ("openrouter", "openai/gpt-5", "max_tokens", False, True, "high", True),
        ("groq", "openai/gpt-oss-120b", "max_tokens", True, True, "high", False),
        ("groq", "qwen/qwen3-32b", "max_tokens", True, False, "high", False),
        ("deepseek", "deepseek-reasoner", "max_tokens", True, False, "high", True),
        ("127.0.0.1", "whatever", "max_tokens", True, True, "high", True),
    ],
)
def test_what_models_by_chat_take(
    provider: str, model: str, limit: str, temperature: bool, effort: bool, beside_tools: str, thoughts: bool
) -> None:
    """LOOP-13: each model's own; one that nobody knows gets the usual."""
    found = takes(provider, model, "openai-chat", None)
    assert (found.limit_name, found.temperature, found.effort) == (limit, temperature, effort)
    assert (found.effort_beside_tools, found.thoughts) == (beside_tools, thoughts)
