"""What an agent run goes by: models, retries, ceilings. Part of the run's stream, so that decisions can be replayed."""

from __future__ import annotations

import msgspec

from ledger.events.hubs import Limits

MAX_BACKOFF_MS = 30_000


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model at an endpoint. No key: that is looked up when a request leaves, and kept nowhere."""

    provider: str
    model: str
    protocol: str
    """`openai-chat` or `anthropic`."""
    base_url: str
    """What the provider's own SDK takes: with `/v1` for OpenAI, without for Anthropic. Never with a password."""
    key_variable: str = ""
    """The environment variable that has the key; empty for an endpoint that needs none."""


class Configuration(msgspec.Struct, frozen=True, omit_defaults=True):
    """The effective configuration of a run, recorded whenever it is another one than before."""

    target: Target
    fallback: Target | None = None
    max_iterations: int = 40
    max_retries: int = 2
    retry_base_ms: int = 500
    request_timeout_s: int = 120
    thinking: bool = False
    stream: bool = True
    approval: str = "on-request"
    """`never` ask, `on-request`: ask for what is not read-only, `untrusted`: ask for everything."""
    limits: Limits = Limits()


def as_json(configuration: Configuration) -> bytes:
    """Return the JSON object under which a configuration is recorded."""
    return msgspec.json.encode(configuration)


def of_json(raw: bytes | msgspec.Raw) -> Configuration:
    """Return the configuration that such an object is."""
    return msgspec.json.decode(raw, type=Configuration)
