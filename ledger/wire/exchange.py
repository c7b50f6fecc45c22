"""One HTTP exchange with a model: the thin seam, with `client` the only place that touches the HTTP library."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import anyio
import httpx
from httpx_sse import EventSource

from ledger.wire.client import EnvironmentUnusable, has_proxy, new_client
from ledger.wire.complaints import complaint_of
from ledger.wire.failures import Failure, of_exception, of_status, request_id, retry_after_us
from ledger.wire.making import Exchange
from ledger.wire.protocols import Assembler, Delta, Protocol
from ledger.wire.shapes import object_of, word_of
from ledger.wire.utf8 import Utf8, repaired

__all__ = ["LIMITS", "Exchange", "Limits", "Outgoing", "exchange", "new_client"]

_ERROR_BYTES, _ERROR_S = 1 << 20, 10.0
"""How much of the body of an error is read, and how long."""
_GRACE_S = 0.2
"""How long the end of the body is waited for behind the end of the answer, so that the connection can be kept."""
_STREAM = re.compile(r"(?:data|event|id|retry)?:")
_SNIFFED_LETTERS = 64


class Outgoing(NamedTuple):
    """A request as it leaves."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    stream: bool
    model: str = ""
    """Which model is asked: what it thinks goes back to it alone; empty, to any of the protocol."""


class Limits(NamedTuple):
    """How long and how large an exchange may be."""

    connect_s: float = 30.0
    idle_s: float = 120.0
    """Between two pieces of the answer, and before the first."""
    total_s: float = 3600.0
    max_bytes: int = 64 << 20


LIMITS = Limits()


class _TooMany(Exception):
    """More bytes than a response may have."""


class _Listener(Exception):
    """Whoever listens to the answer failed. That is no failure of the exchange."""


async def exchange(
    client: httpx.AsyncClient,
    outgoing: Outgoing,
    protocol: Protocol,
    done: Exchange,
    *,
    on_delta: Callable[[Delta], None] = lambda delta: None,
    limits: Limits = LIMITS,
    clock: Callable[[], int] = time.monotonic_ns,
) -> None:
    """Send a request and read the answer into `done`. Times are by `clock` (nanoseconds).

    Raises nothing but a cancellation and what `on_delta` raises; then `done` has what had arrived, and no outcome.
    """
    began = clock()
    done.keep_secret(outgoing.headers)
    done.host = urlsplit(outgoing.url).netloc.rpartition("@")[2]

    def hear(deltas: list[Delta]) -> None:
        if deltas and done.ttft_us is None:
            done.ttft_us = (clock() - began) // 1000
        try:
            for one in deltas:
                on_delta(one)
        except Exception as error:
            raise _Listener from error

    try:
        with anyio.move_on_after(limits.total_s) as total:
            _check_port(outgoing.url)
            await _ask(client, outgoing, protocol, done, hear, limits)
        if total.cancelled_caught:
            what = f"no end after {limits.total_s:g} s"
            done.break_off(Failure("too_long", True, what, "try again, or give it more time"))
    except _Listener as failed:
        assert failed.__cause__ is not None
        raise failed.__cause__ from None
    except _TooMany:
        what = f"more than {limits.max_bytes:,} bytes"
        done.break_off(Failure("too_many_bytes", False, what, "ask another model, or another server"))
    except EnvironmentUnusable as unusable:
        done.break_off(unusable.failure)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, UnicodeError) as error:
        done.break_off(_through(of_exception(error)))
    finally:
        done.ran_us = (clock() - began) // 1000


def _through(failure: Failure) -> Failure:
    """Return a failure to connect with the proxy in mind, where the environment names one."""
    if not failure.unsent or failure.code == "bad_request" or not has_proxy() or "PROXY" in failure.advice:
        return failure
    return failure._replace(advice=f"{failure.advice}, and HTTPS_PROXY and NO_PROXY")


def _check_port(url: str) -> None:
    """Raise InvalidURL for a port that is none: the library would see it only when it connects, and fail oddly."""
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise httpx.InvalidURL(str(error)) from None


async def _ask(
    client: httpx.AsyncClient,
    outgoing: Outgoing,
    protocol: Protocol,
    done: Exchange,
    hear: Callable[[list[Delta]], None],
    limits: Limits,
) -> None:
    accepts = "text/event-stream" if outgoing.stream else "application/json"
    headers = {**outgoing.headers, "accept": accepts, "accept-encoding": "identity"}
    timeout = httpx.Timeout(limits.idle_s, connect=limits.connect_s)
    async with client.stream("POST", outgoing.url, headers=headers, content=outgoing.body, timeout=timeout) as response:
        done.status, done.request_id = response.status_code, request_id(response.headers)
        if not response.is_success:
            await _failed(response, done)
            return
        done.assembler = protocol.assembler(outgoing.model)
        source = _Source(response, done, limits.max_bytes)
        first = await source.sniff()
        if first.startswith("<"):
            await source.rest()  # so that it is kept
            done.assembler = None
            advice = "check the base URL, and whether a proxy answers in its place"
            done.fail(Failure("not_json", False, "a web page came instead of an answer", advice))
            return
        streamed = _STREAM.match(first) is not None
        if streamed:
            await _stream(source, done, hear)
        else:
            hear(done.assembler.whole(_utf8(await source.rest(), done.assembler)))
        done.settle(streamed=streamed)


async def _stream(source: _Source, done: Exchange, hear: Callable[[list[Delta]], None]) -> None:
    """Read events to the end of the answer, and a little further, to the end of the body."""
    assembler = done.assembler
    assert assembler is not None
    with anyio.CancelScope() as rest:
        try:
            async for event in EventSource(cast(httpx.Response, source)).aiter_sse():
                if assembler.complete:
                    continue
                hear(assembler.feed(event.event, _utf8(event.data, assembler)))
                if assembler.complete:
                    rest.deadline = anyio.current_time() + _GRACE_S
        except (httpx.HTTPError, httpx.StreamError, OSError, _TooMany):
            if not assembler.complete:
                raise  # what breaks behind the end breaks nothing of the answer


def _utf8(text: str, assembler: Assembler) -> str:
    text, broken = repaired(text)
    if broken:
        assembler.spoil("not_utf8")
    return text


class _Source:
    """A response's body as text: counted, kept, and decoded as UTF-8 whatever its headers say.

    It is what an EventSource reads of a response: `headers` and `aiter_text`.
    """

    def __init__(self, response: httpx.Response, done: Exchange, most: int) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._response, self._done, self._left = response, done, most
        self._first = ""
        self._texts = self._read()

    async def _read(self) -> AsyncIterator[str]:
        utf8 = Utf8()
        async for piece in self._response.aiter_bytes():
            self._done.keep(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise _TooMany
            yield utf8.text(piece)
        yield utf8.text(b"", final=True)

    async def sniff(self) -> str:
        """Return how the body begins, without blanks before it, and nothing where it has none.

        It says better than the content type what comes: a stream, JSON, or somebody's page.
        """
        async for text in self._texts:
            self._first = (self._first + text).lstrip()
            if len(self._first) >= _SNIFFED_LETTERS or "\n" in self._first:
                break
        return self._first

    async def rest(self) -> str:
        """Return the whole body."""
        return "".join([self._first, *[text async for text in self._texts]])

    async def aiter_text(self) -> AsyncIterator[str]:
        """Yield the body of a stream; its last event counts without the empty line behind it."""
        yield self._first
        async for text in self._texts:
            if text:
                yield text
        yield "\n\n"


async def _failed(response: httpx.Response, done: Exchange) -> None:
    """Note an answer that is an error: its status decides, whether or not its body can be read."""
    source, body = _Source(response, done, _ERROR_BYTES), ""
    done.retry_after_us = retry_after_us(response.headers, time.time_ns() // 1000)
    with anyio.move_on_after(_ERROR_S):
        try:
            body = repaired(await source.sniff() and await source.rest())[0]
        except (httpx.HTTPError, httpx.StreamError, OSError, _TooMany):
            body = ""
    done.fail(of_status(response.status_code), _said(body) or _moved(response))


def _said(body: str) -> str:
    """Return what the body of an error says, empty where that is a page for a browser."""
    found = object_of(body.strip().removeprefix("[").removesuffix("]"))  # Google's errors stand in a list
    if found is None:
        return "" if body.startswith("<") else body
    complaint = complaint_of(found)
    return complaint.text if complaint else word_of(found.get("message")) or word_of(found.get("detail")) or body


def _moved(response: httpx.Response) -> str:
    return response.headers.get("location", "").partition("?")[0] if 300 <= response.status_code < 400 else ""
