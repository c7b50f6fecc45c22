"""What a status or an exception means: a code, a line that says what to do next, and whether it may pass by itself.

Decided by the number and by the type, never by the words of a text (LOOP-14). By the names of the types, so that this
module needs no HTTP library.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from ledger.wire.shapes import name_of

_RETRYABLE = frozenset((408, 409, 425, 429))
"""And every 5xx. 409 is a lock that was not got in time: the providers' own libraries retry it too."""
_CODES = {
    400: "bad_request", 401: "unauthorized", 402: "payment_required", 403: "forbidden", 404: "not_found",
    408: "timeout", 409: "conflict", 413: "too_large", 422: "bad_request", 425: "too_early", 429: "rate_limited",
    503: "unavailable", 529: "overloaded",
}  # fmt: skip
_ADVICE = {
    "bad_request": "the endpoint does not take this request: check --protocol and what the model can do",
    "unauthorized": "check the key in the environment",
    "payment_required": "check the account's credit at the provider",
    "forbidden": "check what the key may do",
    "not_found": "check the model's name and the base URL",
    "too_large": "begin a new session, or read less at a time",
    "redirect": "give the address that it leads to as the base URL",
    "rate_limited": "wait, or ask another model",
}
_LATER = "try again later, or ask another model"
_REQUEST_IDS = (
    "x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "mistral-correlation-id", "x-ds-trace-id",
    "x-generation-id", "x-groq-request-id", "cf-ray",
)  # fmt: skip
_LONGEST_WAIT_US = 24 * 3600 * 1_000_000


class Failure(NamedTuple):
    """What happened."""

    code: str
    retryable: bool
    what: str = ""
    """What happened, in words."""
    advice: str = ""
    """What to do next."""
    unsent: bool = False
    """Nothing of the request had left, so nobody can have done or billed anything for it."""


def of_status(status: int) -> Failure:
    """Return what an HTTP status that is no success means."""
    code = _CODES.get(status) or ("server_error" if status >= 500 else "redirect" if status < 400 else "rejected")
    retryable = status in _RETRYABLE or status >= 500
    return Failure(code, retryable, f"HTTP {status}", _ADVICE.get(code, _LATER if retryable else "see what it says"))


def of_exception(error: BaseException) -> Failure:
    """Return what an exception of the HTTP library means, by its type and by what lies beneath it."""
    chain = list(_beneath(error, set()))
    names = {kind.__name__ for one in chain for kind in type(one).__mro__}
    if names & {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"}:
        return _of_connecting(chain, names)
    if names & {"LocalProtocolError", "UnsupportedProtocol", "InvalidURL", "UnicodeError"}:
        # Its text would show the header that is wrong, and that is the key.
        advice = "check the base URL and the key for stray characters"
        return Failure("bad_request", False, "the request cannot be sent as it is", advice, unsent=True)
    if names & {"ReadTimeout", "WriteTimeout"}:
        return Failure("idle", True, "nothing moved within the time-out", "try again, or give it more time")
    if "DecodingError" in names:
        return Failure("not_decodable", True, "the answer's compression is broken", _LATER)
    detail = name_of(str(error))
    return Failure("closed", True, f"the connection broke off{f' ({detail})' if detail else ''}", _LATER)


def _of_connecting(chain: list[BaseException], names: set[str]) -> Failure:
    # A handshake that was waiting for bytes when its time was up is a time-out, and no error of TLS.
    waiting = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
    secure = next((one for one in chain if isinstance(one, ssl.SSLError) and not isinstance(one, waiting)), None)
    if secure is not None:
        passes = isinstance(secure, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        said = name_of(getattr(secure, "verify_message", None) or secure.reason)
        advice = "check the base URL (http or https?), the server's certificate and this machine's clock"
        return Failure("tls", passes, f"no secure connection{f' ({said})' if said else ''}", advice, unsent=True)
    lookup = next((one for one in chain if isinstance(one, socket.gaierror)), None)
    if lookup is not None:
        again = lookup.errno == socket.EAI_AGAIN
        return Failure("unknown_host", again, "no such host", "check the base URL and the network", unsent=True)
    if "ProxyError" in names:
        return Failure("proxy", True, "the proxy refused", "check HTTPS_PROXY and NO_PROXY", unsent=True)
    if names & {"ConnectTimeout", "PoolTimeout"}:
        advice = "check the base URL and the network"
        return Failure("connect_timeout", True, "no connection within the time-out", advice, unsent=True)
    if any(isinstance(one, OSError) and one.errno == errno.ECONNREFUSED for one in chain):
        advice = "check that the server runs, and the base URL"
        return Failure("refused", True, "the connection was refused", advice, unsent=True)
    return Failure("connect", True, "no connection", "check the base URL and the network", unsent=True)


def _beneath(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """Yield an exception, what it came from, and what is grouped in it (a host with several addresses)."""
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _beneath(one, seen)
        error = error.__cause__ or error.__context__


def request_id(headers: Mapping[str, str]) -> str:
    """Return the provider's id of a request from a response's headers (small letters), empty where there is none."""
    return next((found for name in _REQUEST_IDS if (found := name_of(headers.get(name)))), "")


def retry_after_us(headers: Mapping[str, str], now_us: int) -> int | None:
    """Return what the provider asks to wait (microseconds), None where it does not.

    `retry-after-ms`, or `Retry-After` as seconds or as a date (RFC 9110, section 10.2.3). A date is held against the
    response's own `Date` where it has one, so that this machine's clock does not matter, else against `now_us`.
    """
    for name, unit in (("retry-after-ms", 1_000), ("retry-after", 1_000_000)):
        try:
            wait = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= wait < float("inf"):
            return min(int(wait), _LONGEST_WAIT_US)
    until = _date_us(headers.get("retry-after", ""))
    if until is None:
        return None
    now = _date_us(headers.get("date", ""))
    return min(max(0, until - (now_us if now is None else now)), _LONGEST_WAIT_US)


def _date_us(text: str) -> int | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return int((date - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000
