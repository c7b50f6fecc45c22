"""What a wire protocol does: write a request, and read the answer as it arrives. No I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from ledger.errors import UsageError
from ledger.wire.conversation import Message, Parameters, Window
from ledger.wire.takes import Takes

_MODULES = {"openai-chat": "chat", "anthropic": "messages"}
PROTOCOLS = tuple(_MODULES)


class Delta(NamedTuple):
    """A piece of an answer."""

    kind: str
    """`text`, `thinking`, `call`."""
    text: str


class Answer(NamedTuple):
    """What arrived, whether or not it came to its proper end."""

    message: Message | None
    """None where nothing of a message had arrived."""
    finish: str
    """The provider's word for why it ended, empty where it did not say."""
    cut: str
    """Empty at its proper end, else a code: `no_finish`, `no_done`, `error_frame`, `not_json`, `not_utf8`, `empty`."""
    error: str = ""
    """The text of an error that stood in the answer."""
    usage: tuple[dict[str, Any], ...] = ()
    """Frames as ledger.wire.dialects.read takes them."""
    response_id: str = ""
    model: str = ""
    tier: str = ""
    error_status: int = 0
    """The HTTP status that such an error stands for, 0 where it does not say."""


class Assembler(ABC):
    """Puts one answer together. Feed it what arrives, in order; `finish` can be asked at any moment.

    What a proper end is differs by protocol and stands at the top of each one's module.
    """

    def __init__(self) -> None:
        self.spoilt = ""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether nothing more is awaited: the stream said that it ends, or that it failed."""

    @abstractmethod
    def feed(self, event: str, data: str) -> list[Delta]:
        """Take in a server-sent event; return what it adds."""

    @abstractmethod
    def whole(self, body: str) -> list[Delta]:
        """Take in a response that is not streamed."""

    def spoil(self, code: str) -> None:
        """Note that what arrived cannot be what was sent: the answer is cut, whatever its end says."""
        self.spoilt = self.spoilt or code

    @abstractmethod
    def finish(self) -> Answer:
        """Return what has arrived."""


class Protocol(ABC):
    """How one family of APIs is spoken."""

    name: ClassVar[str]

    @abstractmethod
    def url(self, base_url: str) -> str:
        """Return where a request goes; the base URL is what the provider's own SDK takes."""

    @abstractmethod
    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request; an empty key is left out."""

    @abstractmethod
    def body(self, model: str, window: Window, parameters: Parameters, *, takes: Takes) -> bytes:
        """Return the bytes of a request: the same for the same arguments, so that they can be made again."""

    @abstractmethod
    def assembler(self, model: str = "") -> Assembler:
        """Return what reads the answer to one request. `model` is what was asked: thinking goes back to it alone."""


@cache
def protocol(name: str) -> Protocol:
    """Return a protocol by its name. Raises UsageError for an unknown one."""
    module = _MODULES.get(name)
    if module is None:
        raise UsageError(f"{name}: unknown protocol: use one of {', '.join(PROTOCOLS)}")
    found: Protocol = import_module(f"ledger.wire.{module}").PROTOCOL
    return found
