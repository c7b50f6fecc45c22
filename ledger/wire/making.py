"""An exchange in the making: whatever has arrived can be read at any moment, also after a cancellation. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from ledger.redaction import masked
from ledger.wire.conversation import Message, message_bytes, message_of
from ledger.wire.failures import Failure, of_status
from ledger.wire.protocols import Answer, Assembler
from ledger.wire.shapes import line_of

RAW_BYTES = 4 << 20
"""How much of a raw response is kept: its beginning."""
_MARGIN_BYTES = 1_024
"""Kept beyond that until all is masked, so that a key at the edge is not left there by half."""
_ERROR_LETTERS = 1_000
_SECRET_HEADERS = ("authorization", "x-api-key", "api-key")
_LEAST_LETTERS = 8
"""A shorter key is none (`ollama`, `none`), and may be a word that stands anywhere."""
_CUTS = {
    "empty": "the answer is empty",
    "not_json": "the answer is no JSON, or broke off in it",
    "not_utf8": "the answer has bytes that are no UTF-8",
    "no_finish": "the answer broke off before its end",
    "no_done": "the answer broke off before [DONE]",
    "error_frame": "the model's server failed amid the answer",
}
_AGAIN = "try again, or ask another model"


class Exchange:
    """One request and its answer, as far as they are."""

    def __init__(self) -> None:
        self.outcome = ""
        """`answered`, `failed`, `cut`; empty while it runs, and where it was cancelled."""
        self.status = 0
        """HTTP status, 0 where no answer began."""
        self.reason = ""
        """The finish reason of an answer, else a code."""
        self.error = ""
        """One line, masked: who, what happened, what to do next. Empty for an answer."""
        self.request_id = ""
        self.retry_after_us: int | None = None
        self.retryable = False
        self.unbilled = False
        """Nothing of the request left this machine, so there is nothing to bill."""
        self.ttft_us: int | None = None
        """From the request's leaving to the first piece of content."""
        self.ran_us: int | None = None
        self.assembler: Assembler | None = None
        self.host = ""
        self._raw = bytearray()
        self._secrets: tuple[str, ...] = ()

    def keep_secret(self, headers: Mapping[str, str]) -> None:
        """Note the key of a request, so that no text that is kept has it."""
        values = [value.split(" ")[-1] for name, value in headers.items() if name.lower() in _SECRET_HEADERS]
        keys = [value for value in values if len(value) >= _LEAST_LETTERS]
        self._secrets = tuple(dict.fromkeys(form for key in keys for form in (key, quote(key, safe=""))))

    def clean(self, text: str) -> str:
        """Return a text without the request's key and without all that looks like one."""
        for secret in self._secrets:
            text = text.replace(secret, "[masked]")
        return masked(text)

    @property
    def answer(self) -> Answer | None:
        """What has arrived of an answer, None where none began. It does not have the request's key."""
        if self.assembler is None:
            return None
        found = self.assembler.finish()
        return found._replace(message=self._without_key(found.message), error=self.clean(found.error))

    def _without_key(self, message: Message | None) -> Message | None:
        content = message_bytes(message) if message is not None and self._secrets else b""
        for secret in self._secrets:
            content = content.replace(msgspec.json.encode(secret)[1:-1], b"[masked]")
        return message_of(content) if content else message

    @property
    def raw(self) -> str:
        """The response as it arrived, its beginning where it is long; masked."""
        text = self.clean(self._raw.decode("utf-8", "replace"))
        return text if len(self._raw) <= RAW_BYTES else text[:RAW_BYTES]

    def keep(self, piece: bytes) -> None:
        """Keep a piece of the raw response."""
        room = RAW_BYTES + _MARGIN_BYTES - len(self._raw)
        if room > 0:
            self._raw += piece[:room]

    def fail(self, failure: Failure, said: str = "") -> None:
        """Note that there is no answer, or one that is an error; `said` is what the provider says of it."""
        self._end("failed", failure, said)

    def break_off(self, failure: Failure) -> None:
        """Note that it broke off: with an answer begun it is cut, else it failed."""
        self._end("cut" if self.assembler is not None else "failed", failure, "")

    def settle(self, *, streamed: bool) -> None:
        """Note how a response ended of which nothing more is awaited."""
        answer = self.answer
        assert answer is not None
        if not answer.cut:
            self.outcome, self.reason = "answered", answer.finish
        elif answer.cut == "error_frame" and not streamed:
            # No answer began: the error came with a status that is none.
            status = of_status(answer.error_status) if answer.error_status else None
            failure = status or Failure(answer.cut, True, "an error instead of an answer", _AGAIN)
            self.fail(failure._replace(what="an error instead of an answer"), answer.error)
        else:
            status = of_status(answer.error_status) if answer.error_status else Failure("", True, "", _AGAIN)
            self._end("cut", Failure(answer.cut, status.retryable, _CUTS[answer.cut], status.advice), answer.error)

    def _end(self, outcome: str, failure: Failure, said: str) -> None:
        self.outcome, self.reason, self.retryable = outcome, failure.code, failure.retryable
        self.unbilled = failure.unsent
        said = line_of(self.clean(said), _ERROR_LETTERS).rstrip(".: ")
        line = ": ".join(part for part in (self.host, failure.what, said, failure.advice) if part)
        self.error = self.clean(line_of(line, 2 * _ERROR_LETTERS))
