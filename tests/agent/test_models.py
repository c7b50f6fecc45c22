"""Where models are: names, base URLs and keys (item 2 of the agent)."""

from __future__ import annotations

import pytest

from agent.configuration import Target
from agent.models import PROTOCOLS, PROVIDERS, key_of, target
from ledger.errors import UsageError
from ledger.wire import protocols

LOCAL = "http://127.0.0.1:8000/v1"


def test_the_protocols_are_those_of_the_wire() -> None:
    assert set(PROTOCOLS) == set(protocols.PROTOCOLS)
    assert all(one.protocol in PROTOCOLS for one in PROVIDERS.values())


@pytest.mark.parametrize(
    ("model", "base_url", "protocol", "provider", "name", "speaks", "url"),
    [
        ("openai/gpt-5.1", None, None, "openai", "gpt-5.1", "openai-chat", "https://api.openai.com/v1"),
        ("anthropic/claude-x", None, None, "anthropic", "claude-x", "anthropic", "https://api.anthropic.com"),
        ("openrouter/z-ai/glm-4.6", None, None, "openrouter", "z-ai/glm-4.6", "openai-chat",
         "https://openrouter.ai/api/v1"),
        ("ollama/qwen3:8b", None, None, "ollama", "qwen3:8b", "openai-chat", "http://127.0.0.1:11434/v1"),
        ("any-name", LOCAL + "/", "openai-chat", "127.0.0.1", "any-name", "openai-chat", LOCAL),
        ("org/any-name", "https://gateway.example", "anthropic", "gateway.example", "org/any-name", "anthropic",
         "https://gateway.example"),
        ("anthropic/claude-x", "https://gateway.example", None, "anthropic", "claude-x", "anthropic",
         "https://gateway.example"),
        ("anthropic/claude-x", LOCAL, "openai-chat", "anthropic", "claude-x", "openai-chat", LOCAL),
    ],
)  # fmt: skip
def test_names(
    model: str, base_url: str | None, protocol: str | None, provider: str, name: str, speaks: str, url: str
) -> None:
    """provider/model, or any name with a base URL and a protocol; the host is the provider of who has no name."""
    found = target(model, base_url, protocol)
    assert (found.provider, found.model, found.protocol, found.base_url) == (provider, name, speaks, url)


@pytest.mark.parametrize(
    ("model", "base_url", "protocol", "says"),
    [
        ("gpt-5.1", None, None, "give provider/model"),
        ("nobody/gpt", None, None, "give provider/model"),
        ("openai/", None, None, "give provider/model"),
        ("", LOCAL, "anthropic", "give the name of a model"),
        ("m", LOCAL, None, "give --protocol too"),
        ("m", LOCAL, "gopher", "--protocol gopher: unknown"),
        ("m", "127.0.0.1:8000", "anthropic", "is no http"),
        ("m", "https://", "anthropic", "is no http"),
        ("m", "https://h:0x10", "anthropic", "is no http"),
        ("m", "https://user@h/", "anthropic", "without user, password and query"),
        ("m", "https://h/?key=secret", "anthropic", "without user, password and query"),
    ],
)
def test_names_that_are_none(model: str, base_url: str | None, protocol: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        target(model, base_url, protocol)
    assert "secret" not in str(raised.value)


def test_a_base_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of the providers' own SDKs hold, and are checked as options are."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example/")
    assert target("anthropic/claude-x", None, None).base_url == "https://gateway.example"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "gateway")
    with pytest.raises(UsageError, match="is no http"):
        target("anthropic/claude-x", None, None)


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the usual variable; none is needed on this machine; one that no header can hold is named, not shown."""
    remote = target("openai/gpt-5.1", None, None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="no key: set OPENAI_API_KEY"):
        key_of(remote)
    for local in (LOCAL, "http://localhost/v1", "http://[::1]:80/v1"):
        assert key_of(target("m", local, "openai-chat")) == ""
    with pytest.raises(UsageError, match="no key"):  # a name that only begins like this machine's
        key_of(Target("x", "m", "openai-chat", "http://127.evil.example/v1", "OPENAI_API_KEY"))
    monkeypatch.setenv("OPENAI_API_KEY", " the-key\n")
    assert key_of(remote) == "the-key"
    for wrong in ("the-kéy", "the\nkey"):
        monkeypatch.setenv("OPENAI_API_KEY", wrong)
        with pytest.raises(UsageError, match="OPENAI_API_KEY: the key has characters") as raised:
            key_of(remote)
        assert wrong not in str(raised.value)
