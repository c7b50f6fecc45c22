"""The server: sockets and threads. What is answered is decided in `plan`.

It speaks as much of HTTP/1.1 as clients of these APIs do (requests with a Content-Length, kept connections, chunked
answers). The standard library's `http.server` would do; its import alone takes as long as this may take to start.
"""

from __future__ import annotations

import hashlib
import os
import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from agent.rehearsal.plan import Plan, plan
from agent.rehearsal.said import Naming
from agent.rehearsal.script import Script
from agent.rehearsal.seen import Request, Seen, SeenFile
from ledger.errors import UsageError

PATHS = {
    "/v1/chat/completions": "openai-chat",
    "/chat/completions": "openai-chat",  # as llama.cpp: the base URL with or without /v1
    "/v1/messages": "anthropic",
}
_MOST_BYTES, _LONGEST_LINE, _MOST_HEADERS = 256 * 2**20, 64 * 1024, 200
_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}
_GLANCE_S, _BEFORE_RESET_S, _FAREWELL_S = 0.02, 0.05, 1.0


class Rehearsal:
    """A scripted model that listens on the loopback while the context is entered."""

    def __init__(
        self, script: Script, port: int = 0, seen: Path | None = None, *, keep: bool = True, seed: str = ""
    ) -> None:
        """Take the port (0: a free one). Raises UsageError where it is taken or the file cannot be written.

        `seen`: where every request is written as a JSON line before its answer is sent. `keep`: `requests` has what
        was sent. `seed`: the ids of responses are drawn from it; empty: no other server has the same.
        """
        self.script = script
        self.requests: list[Request] = []
        """Every request so far, in order, those that were refused included."""
        self.closing = threading.Event()
        self._keep = keep
        self._seed = seed or os.urandom(8).hex()
        self._lock = threading.Lock()
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._lines: set[socket.socket] = set()
        self._file = SeenFile(seen)
        try:
            self._server = _Server(("127.0.0.1", port), self)
        except (OSError, OverflowError) as error:
            self._file.close()
            reason = error.strerror if isinstance(error, OSError) else "is no port"
            raise UsageError(f"--port {port}: cannot listen: {reason}: give another, or 0 for a free one") from None
        self._thread = threading.Thread(target=self.serve, name="rehearsal", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """The base URL, without `/v1`: as Anthropic's SDK takes it; chat completions are found below it too."""
        return f"http://127.0.0.1:{self.port}"

    def base_url_of(self, protocol: str) -> str:
        """Return the base URL as the SDK of a protocol takes it: with `/v1` for chat completions."""
        return self.base_url + ("/v1" if protocol == "openai-chat" else "")

    def serve(self) -> None:
        """Serve until `close`."""
        self._server.serve_forever(poll_interval=_GLANCE_S)

    def close(self) -> None:
        """Stop listening, and close every connection: who asks again finds nobody."""
        self.closing.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        with self._lock:
            self._file.close()
            for line in self._lines:
                try:
                    line.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # its client was faster
        until = time.monotonic() + _FAREWELL_S
        while self._lines and time.monotonic() < until:
            time.sleep(0.001)

    def opened(self, line: socket.socket) -> None:
        """Note a connection that is served."""
        with self._lock:
            self._lines.add(line)

    def ended(self, line: socket.socket) -> None:
        """Forget a connection that is served no more."""
        with self._lock:
            self._lines.discard(line)

    def __enter__(self) -> Rehearsal:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def answer(self, path: str, headers: dict[str, str], raw: bytes) -> Plan | None:
        """Decide on an answer and record the request; None for a path that does not exist.

        The record is with the operating system when this returns. One request is decided at a time.
        """
        protocol = PATHS.get(path.partition("?")[0])
        with self._lock:
            now = datetime.now(UTC)
            number = self._file.count + 1
            naming = self._naming(number, now)
            made = plan(self.script, protocol, headers, raw, naming, self._attempt, now) if protocol else None
            seen = _record(number, now, path, protocol, raw, naming, made)
            self._file.add(seen)
            self.requests.append(Request(seen, headers if self._keep else {}, raw if self._keep else b""))
        return made

    def _attempt(self, session: str, step: int) -> int:
        before = self._attempts[session, step]
        self._attempts[session, step] += 1
        return before

    def _naming(self, number: int, now: datetime) -> Naming:
        drawn = hashlib.sha256(f"{self._seed} {number}".encode()).hexdigest()
        return Naming(f"req_{drawn[:24]}", drawn[24:48], int(now.timestamp()))


def _record(
    number: int, now: datetime, path: str, protocol: str | None, raw: bytes, naming: Naming, made: Plan | None
) -> Seen:
    return Seen(
        request=number,
        at_us=int(now.timestamp() * 1_000_000),
        path=path,
        protocol=protocol,
        model=made.model or None if made else None,
        sha256=hashlib.sha256(raw).hexdigest(),
        size_bytes=len(raw),
        status=404 if made is None else None if made.ending == "nothing" else made.status,
        request_id=naming.request_id,
        session=made.session or None if made else None,
        step=made.step if made else None,
        attempt=made.attempt if made else None,
        fault=made.fault or None if made else None,
        stream=made.stream if made else None,
        complaints=made.complaints if made else (),
    )


class _Server(socketserver.ThreadingTCPServer):
    """A thread a connection; none of them outlives the process."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        super().__init__(address, _Connection)


class _Incoming(NamedTuple):
    """A request as it was read."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class _Malformed(Exception):
    """What came is no request that is understood here; the text is the reason."""


class _Connection(socketserver.StreamRequestHandler):
    """One connection: requests one after another, until it is cut or its client has gone."""

    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        """Answer until one of the sides has enough."""
        rehearsal = self.server.rehearsal
        rehearsal.opened(self.connection)
        try:
            while not rehearsal.closing.is_set() and self._one():
                pass
        except (ConnectionError, TimeoutError):
            pass  # whoever asked has gone: that is what some tests are about
        finally:
            rehearsal.ended(self.connection)

    def _one(self) -> bool:
        """Answer one request; tell whether the connection goes on."""
        try:
            asked = self._read()
        except _Malformed as error:
            self._plain(400, str(error))
            return False
        if asked is None:
            return False
        if asked.method != "POST":
            self._plain(405, "only POST is answered here")
            return False
        rehearsal = self.server.rehearsal
        made = rehearsal.answer(asked.path, asked.headers, asked.body)
        if made is None:
            self._plain(404, f"{asked.path} is not here: there are {', '.join(PATHS)}")
            return False
        return self._send(made) and asked.headers.get("connection", "").lower() != "close"

    def _read(self) -> _Incoming | None:
        """Read a request; None where the client has closed. Raises _Malformed."""
        opening = self.rfile.readline(_LONGEST_LINE)
        if not opening:
            return None
        words = opening.decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise _Malformed("no HTTP/1.1 request")
        headers: dict[str, str] = {}
        for _ in range(_MOST_HEADERS):
            line = self.rfile.readline(_LONGEST_LINE).decode("latin-1").rstrip("\r\n")
            if not line:
                break
            name, _colon, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isascii() or not length.isdigit():
            raise _Malformed("a body must have a Content-Length")
        if int(length) > _MOST_BYTES:
            raise _Malformed(f"the body is larger than {_MOST_BYTES} bytes")
        if headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return None
        return _Incoming(words[0], words[1], headers, body)

    def _plain(self, status: int, text: str) -> None:
        content = f"{text}\n".encode()
        headers = {
            "content-type": "text/plain; charset=utf-8",
            "content-length": str(len(content)),
            "connection": "close",
        }
        self.wfile.write(_head(status, headers) + content)

    def _send(self, made: Plan) -> bool:
        """Carry out a plan; tell whether the connection can be used again."""
        if made.delay_ms and self.server.rehearsal.closing.wait(made.delay_ms / 1000):
            return False
        if made.ending == "nothing":
            self._hold()
            return False
        framing = {"transfer-encoding": "chunked"} if made.length is None else {"content-length": str(made.length)}
        head = _head(made.status, {"date": _date(), "server": "rehearsal"} | made.headers | framing)
        pieces = [_chunk(part) if made.length is None else part for part in made.parts]
        if made.frame_delay_ms and made.length is None:
            self.wfile.write(head)
            for piece in pieces:
                if self.server.rehearsal.closing.wait(made.frame_delay_ms / 1000):
                    return False
                self.wfile.write(piece)
        else:
            self.wfile.write(head + b"".join(pieces))
        return self._end(made, pieces)

    def _end(self, made: Plan, pieces: list[bytes]) -> bool:
        match made.ending:
            case "whole":
                if made.length is None:
                    self.wfile.write(b"0\r\n\r\n")
                return True
            case "endless":
                while not self.server.rehearsal.closing.wait(made.frame_delay_ms / 1000):
                    self.wfile.write(pieces[-1])
            case "stall":
                self._hold()
            case "reset":
                # A reset may take from the client what it has not read yet: it gets the time to.
                time.sleep(_BEFORE_RESET_S)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # Closed here, and both handles of it: the base class would send an orderly end first.
                self.rfile.close()
                self.connection.close()
        return False

    def _hold(self) -> None:
        """Keep the connection open and silent until the client has gone."""
        self.connection.settimeout(_GLANCE_S)
        while not self.server.rehearsal.closing.is_set():
            try:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    return
                time.sleep(_GLANCE_S)
            except TimeoutError:
                continue

    def finish(self) -> None:
        """Close the streams; a client that has gone is no error."""
        try:
            super().finish()
        except OSError:
            pass


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}", *(f"{name}: {headers[name]}" for name in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


def _date() -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
