"""What statuses, exceptions and headers mean."""

from __future__ import annotations

import errno
import socket

import httpx
import pytest

from ledger.wire.complaints import complaint_of
from ledger.wire.failures import of_exception, of_status, request_id, retry_after_us

NOW_US = 1_796_083_200_000_000
"""2026-12-01 00:00:00 UTC."""


def test_what_is_retried() -> None:
    """LOOP-14, LOOP-19: 408, 409, 425, 429 and every 5xx; nothing else, and 401 never."""
    retried = {status for status in range(300, 600) if of_status(status).retryable}
    assert retried == {408, 409, 425, 429, *range(500, 600)}
    assert all(of_status(status).code and of_status(status).advice for status in range(300, 600))
    assert of_status(418).code == "rejected" and "refused" not in {of_status(status).code for status in range(300, 600)}


def because(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


REFUSED = OSError(errno.ECONNREFUSED, "x")
EXCEPTIONS: list[tuple[Exception, str, bool]] = [
    (httpx.ConnectTimeout("x"), "connect_timeout", True),
    (httpx.PoolTimeout("x"), "connect_timeout", True),
    (httpx.ReadTimeout("x"), "idle", True),
    (httpx.WriteTimeout("x"), "idle", True),
    (httpx.ReadError("401 Unauthorized"), "closed", True),
    (httpx.RemoteProtocolError("invalid api key"), "closed", True),
    (because(httpx.ConnectError("x"), because(OSError("all"), ExceptionGroup("", [REFUSED] * 2))), "refused", True),
    (because(httpx.ConnectError("x"), socket.gaierror(socket.EAI_NONAME, "x")), "unknown_host", False),
    (because(httpx.ConnectError("x"), socket.gaierror(socket.EAI_AGAIN, "x")), "unknown_host", True),
    (httpx.ConnectError("timeout, retry"), "connect", True),
    (httpx.ProxyError("403"), "proxy", True),
    (httpx.DecodingError("x"), "not_decodable", True),
    (httpx.UnsupportedProtocol("x"), "bad_request", False),
    (httpx.LocalProtocolError("Illegal header value b'Bearer secret'"), "bad_request", False),
    (httpx.InvalidURL("x"), "bad_request", False),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "retryable"), EXCEPTIONS)
def test_exceptions(error: Exception, code: str, retryable: bool) -> None:
    """LOOP-14: by type, by what lies beneath it and in a group of addresses; never by words."""
    failure = of_exception(error)
    assert (failure.code, failure.retryable) == (code, retryable) and failure.what and failure.advice
    assert "secret" not in failure.what + failure.advice
    assert failure.unsent is (code not in ("idle", "closed", "not_decodable"))


def test_a_chain_that_bites_its_tail() -> None:
    """LOOP-14: exceptions that name one another are looked at once."""
    one, other = httpx.ReadError("a"), OSError("b")
    one.__cause__, other.__cause__ = other, one
    assert of_exception(one).code == "closed"


@pytest.mark.parametrize(
    ("headers", "wait_us"),
    [
        ({"retry-after": "2"}, 2_000_000),
        ({"retry-after": "0.5"}, 500_000),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1_500_000),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9_000_000),
        ({"retry-after": "Tue, 01 Dec 2026 00:00:05 GMT"}, 5_000_000),
        ({"retry-after": "Tue, 01 Dec 2026 00:00:05 -0000"}, 5_000_000),
        ({"retry-after": "Tue, 01 Dec 2026 00:00:05 GMT", "date": "Mon, 30 Nov 2026 23:59:00 GMT"}, 65_000_000),
        ({"retry-after": "Mon, 30 Nov 2026 00:00:00 GMT"}, 0),
        ({"retry-after": "9e99"}, 24 * 3600 * 1_000_000),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Tue, 99 Dec 2026 00:00:05 GMT"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], wait_us: int | None) -> None:
    """LOOP-17: milliseconds, seconds, a date by the server's own clock; at most a day; nonsense is nothing."""
    assert retry_after_us(headers, NOW_US) == wait_us


def test_request_ids() -> None:
    """OBS-15: under the providers' names, the provider's own before the one of what stands before it."""
    for name in ("x-request-id", "request-id", "apim-request-id", "mistral-correlation-id", "cf-ray"):
        assert request_id({name: "req_1"}) == "req_1"
    assert request_id({"cf-ray": "ray", "x-request-id": "req"}) == "req"
    assert request_id({"x-request-id": "a\tb" + "x" * 999}).startswith("a b") and request_id({}) == ""
    assert len(request_id({"x-request-id": "x" * 999})) == 200


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "overloaded_error", "message": "x"}, ("x", 529)), ({"code": "502", "message": "x"}, ("x", 502)),
        ({"code": 401, "type": "server_error", "message": "x"}, ("x", 401)), ({"code": True, "message": "x"}, ("x", 0)),
        ({"code": "x", "message": "401"}, ("401", 0)), ({"code": 99999, "message": "x"}, ("x", 0)),
        ("words", ("words", 0)), (["list"], ('["list"]', 0)), (None, None), ({}, None), ("", None),
    ],
)  # fmt: skip
def test_complaints(error: object, expected: tuple[str, int] | None) -> None:
    """LOOP-14: an error without a status of its own is known by its code or type."""
    found = complaint_of({"error": error})
    assert (None if found is None else tuple(found)) == expected
