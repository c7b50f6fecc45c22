"""What a model's server sends, byte by byte: by a real socket on the loopback, or by a transport without one."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import anyio
import httpx

from ledger.wire.exchange import Exchange, Limits, Outgoing, exchange, new_client
from ledger.wire.protocols import Delta, protocol

KEY = "key-of-this-test-0123456789"
SSE = "text/event-stream"
QUICK = Limits(connect_s=2, idle_s=0.3, total_s=5, max_bytes=200_000)
# A key of nobody: it signs a certificate that no machine trusts.
SELF_SIGNED = """
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUbqlCb/FOrC3qdZ0Ma95GZ5JrBYQwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTIwMTA0MzQxOVoYDzIxMjYxMTA3
MDQzNDE5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASy8oj/Ti5r7y7893mVTWCLegcIZIcNXhSeepzGOFXkjPe7LhjM8zXq
Ea0BQIoE14S4GeSPorhPgwKgKSJtuuJfo28wbTAdBgNVHQ4EFgQUnHWIrlnJ9GME
PhMxGkvE2SNeVYswHwYDVR0jBBgwFoAUnHWIrlnJ9GMEPhMxGkvE2SNeVYswDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDSAAwRQIhAImSYUfuGbZ7IEA+biRyH/1vt1ct/77j3eqY4gSwKjonAiBA
CtQttojB2nqM0VbaR1K/cFjIGgGgXlYLh8nTHu5QhQ==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg62MJ5CSQ5o92GySp
obM7nO2C+UXBA8GIaInJpF2G+muhRANCAASy8oj/Ti5r7y7893mVTWCLegcIZIcN
XhSeepzGOFXkjPe7LhjM8zXqEa0BQIoE14S4GeSPorhPgwKgKSJtuuJf
-----END PRIVATE KEY-----
"""

CHAT = [
    b'data: {"id":"c1","model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
    b'data: {"id":"c1","model":"m-1","choices":[{"index":0,"delta":{"reasoning_content":"Hm, "}}]}\n\n',
    b": keep-alive\n\n",
    'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Grüße "}}],"usage":null}\n\n'.encode(),
    'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"an 🐈."}}],"usage":null}\n\n'.encode(),
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function",'
    b'"function":{"name":"grep","arguments":""}}]}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"x\\":"}}]}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" 1}"}}]}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"service_tier":"default"}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}\n\n',
    b"data: [DONE]\n\n",
]
"""A whole answer of chat completions, frame by frame."""
ANTHROPIC = [
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m1","model":"m-1","role":"assistant",'
    b'"content":[],"usage":{"input_tokens":11,"output_tokens":1,"service_tier":"standard"}}}\n\n',
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n',
    b'event: ping\ndata: {"type": "ping"}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"thinking_delta","thinking":"Hm, "}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"signature_delta","signature":"c2ln"}}\n\n',
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
    b'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
    b'"content_block":{"type":"text","text":""}}\n\n',
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
    '"delta":{"type":"text_delta","text":"Grüße an 🐈."}}\n\n'.encode(),
    b'event: content_block_start\ndata: {"type":"content_block_start","index":2,'
    b'"content_block":{"type":"tool_use","id":"a","name":"grep","input":{}}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    b'"delta":{"type":"input_json_delta","partial_json":"{\\"x\\":"}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    b'"delta":{"type":"input_json_delta","partial_json":" 1}"}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},'
    b'"usage":{"output_tokens":7}}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
]
"""A whole answer of Anthropic's messages, frame by frame."""
STREAMS = {"openai-chat": CHAT, "anthropic": ANTHROPIC}


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: Iterable[bytes], breaks: bool) -> None:
        self._pieces, self._breaks = pieces, breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._breaks:
            raise httpx.ReadError("reset")


def received(
    name: str,
    pieces: Iterable[bytes],
    *,
    breaks: bool = False,
    status: int = 200,
    headers: dict[str, str] | None = None,
    stream: bool = True,
    deltas: list[Delta] | None = None,
    limits: Limits = QUICK,
    model: str = "m",
) -> Exchange:
    """Return the exchange of a response of these pieces, without a socket; `breaks`: the connection is cut behind it.

    The end of the body is told by its framing unless the headers say otherwise.
    """
    given = {"content-type": SSE if stream else "application/json", "transfer-encoding": "chunked"}
    given = given if headers is None else headers

    async def run() -> Exchange:
        done, speaks = Exchange(), protocol(name)
        answer = httpx.Response(status, headers=given, stream=_Pieces(pieces, breaks))
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda request: answer)) as client:
            out = Outgoing(speaks.url("http://server"), speaks.headers(KEY), b"{}", stream, model)
            heard = deltas if deltas is not None else []
            await exchange(client, out, speaks, done, on_delta=heard.append, limits=limits)
        return done

    return anyio.run(run)


class Served:
    """A server on the loopback that answers every request with the same bytes."""

    def __init__(self, pieces: Iterable[bytes], ending: str, tls: bool) -> None:
        self._pieces, self._ending, self.tls = list(pieces), ending, tls
        self.port = 0
        self.seen: list[bytes] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http{'s' * self.tls}://127.0.0.1:{self.port}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if self._ending == "deaf":
            await reader.read(1)
            writer.write(b"".join(self._pieces))
            if not self._pieces:
                await asyncio.sleep(30)
            return False
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        self.seen.append(head + await reader.readexactly(length))
        for piece in self._pieces:
            writer.write(piece)
            await writer.drain()
        while self._ending == "endless":
            writer.write(self._pieces[-1])
            await writer.drain()
        if self._ending == "stall":
            await asyncio.sleep(30)
        if self._ending == "reset":
            await asyncio.sleep(0.05)
            writer.transport.abort()
        return self._ending == "keep"


@contextlib.asynccontextmanager
async def serving(pieces: Iterable[bytes], ending: str = "close", *, tls: bool = False) -> AsyncIterator[Served]:
    """Serve raw bytes, then `close`, `reset`, `stall`, `keep` the connection, or repeat the last piece: `endless`.

    `deaf`: answer to the first byte, whatever it is, and where there is nothing to send, never.
    """
    served, context = Served(pieces, ending, tls), None
    if tls:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            Path(file.name).write_text(SELF_SIGNED)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(file.name)
    tasks: set[asyncio.Task[Any]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(served.answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # what was closed is gone one turn of the loop later


def response(
    kind: str, *pieces: bytes, status: str = "200 OK", framing: str = "chunked", more: str = ""
) -> list[bytes]:
    """Return a response as bytes: `chunked` with its last chunk, `open` without it, `none` (until the line closes)."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}"
    if framing == "none":
        return [f"{head}connection: close\r\n\r\n".encode(), *pieces]
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    last = [b"0\r\n\r\n"] if framing == "chunked" else []
    return [f"{head}transfer-encoding: chunked\r\n\r\n".encode(), *chunks, *last]


async def asked(
    url: str,
    name: str = "openai-chat",
    *,
    stream: bool = True,
    limits: Limits = QUICK,
    key: str = KEY,
    done: Exchange | None = None,
) -> Exchange:
    """Make one exchange over a real connection. `done` can be read while it runs."""
    done, speaks = done or Exchange(), protocol(name)
    async with new_client() as client:
        out = Outgoing(speaks.url(url), speaks.headers(key), b'{"model":"m"}', stream, "m")
        await exchange(client, out, speaks, done, limits=limits)
    return done
