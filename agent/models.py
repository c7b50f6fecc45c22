"""Where models are: `provider/model`, or a name with a base URL and a protocol, becomes a target."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from agent.configuration import Target
from ledger.errors import UsageError

PROTOCOLS = ("openai-chat", "anthropic")
_CHAT, _ANTHROPIC = PROTOCOLS
_KEY_OF_PROTOCOL = {_CHAT: "OPENAI_API_KEY", _ANTHROPIC: "ANTHROPIC_API_KEY"}


class Provider(NamedTuple):
    """An endpoint that is known by name."""

    protocol: str
    base_url: str
    """As the provider's own SDK takes it."""
    key_variable: str
    """The environment variable that its documents name; empty where none is needed."""
    url_variable: str = ""
    """The environment variable that its SDK takes another base URL from."""


PROVIDERS = {
    "anthropic": Provider(_ANTHROPIC, "https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": Provider(_CHAT, "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openrouter": Provider(_CHAT, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "deepseek": Provider(_CHAT, "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "groq": Provider(_CHAT, "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Provider(_CHAT, "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "xai": Provider(_CHAT, "https://api.x.ai/v1", "XAI_API_KEY"),
    "google": Provider(_CHAT, "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "ollama": Provider(_CHAT, "http://127.0.0.1:11434/v1", ""),
    "llama.cpp": Provider(_CHAT, "http://127.0.0.1:8080/v1", ""),
    "vllm": Provider(_CHAT, "http://127.0.0.1:8000/v1", ""),
}


def target(model: str, base_url: str | None, protocol: str | None, option: str = "--model") -> Target:
    """Return the target that a model's name, a base URL and a protocol stand for.

    `provider/model` names a known endpoint; with a base URL the name is taken as it is, and the endpoint's host is the
    provider unless the name begins with a known one. `option` is what an error calls it. Raises UsageError.
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise UsageError(f"--protocol {protocol}: unknown: use one of {', '.join(PROTOCOLS)}")
    named, slash, rest = model.partition("/")
    known = PROVIDERS.get(named) if slash and rest else None
    if base_url is not None:
        return _at(model if known is None else rest, named if known else "", base_url, protocol)
    if known is None:
        raise UsageError(
            f"{option} {model}: give provider/model ({', '.join(sorted(PROVIDERS))}), or --base-url and --protocol"
        )
    url = os.environ.get(known.url_variable, "") if known.url_variable else ""
    return Target(named, rest, protocol or known.protocol, _checked(url or known.base_url), known.key_variable)


def _at(model: str, provider: str, base_url: str, protocol: str | None) -> Target:
    if not model:
        raise UsageError("--model: give the name of a model")
    protocol = protocol or (PROVIDERS[provider].protocol if provider else None)
    if protocol is None:
        raise UsageError(f"--base-url: give --protocol too: one of {', '.join(PROTOCOLS)}")
    url = _checked(base_url)
    variable = PROVIDERS[provider].key_variable if provider else _KEY_OF_PROTOCOL[protocol]
    return Target(provider or _host(url), model, protocol, url, variable)


def _checked(url: str) -> str:
    """Return a base URL without a slash at its end. Raises UsageError for what is none, or holds a password."""
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine, parts = False, urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise UsageError(f"--base-url {url.split('@')[-1]}: is no http(s) address: give https://HOST[:PORT][/PATH]")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError("--base-url: give it without user, password and query: keys come from the environment")
    return url.rstrip("/")


def _host(url: str) -> str:
    """Return a name for an endpoint that nobody named: its host, which prices of other providers never meet."""
    return urlsplit(url).hostname or "unknown"


def key_of(target: Target) -> str:
    """Return the key for a target from the environment, empty where it needs none.

    A base URL on this machine needs none. Raises UsageError that names the variable, and never shows the key.
    """
    if not target.key_variable:
        return ""
    key = os.environ.get(target.key_variable, "").strip()
    if not key and not _is_local(target.base_url):
        raise UsageError(f"{target.provider}/{target.model}: no key: set {target.key_variable}")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{target.key_variable}: the key has characters that no header can hold: copy it again")
    return key


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None
