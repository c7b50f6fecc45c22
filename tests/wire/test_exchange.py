"""One exchange over a real connection on the loopback: every bad input once."""

from __future__ import annotations

import gzip
import socket
from typing import Any

import anyio
import msgspec
import pytest
from wire_server import ANTHROPIC, CHAT, KEY, QUICK, SSE, STREAMS, asked, received, response, serving

from ledger.wire.exchange import Exchange, Limits, Outgoing, exchange, new_client
from ledger.wire.protocols import Delta, protocol

NAMES = sorted(STREAMS)
JSON = "application/json"


def run(pieces: list[bytes], ending: str = "close", *, tls: bool = False, **options: Any) -> Exchange:
    """Make one exchange with a server that sends these bytes."""

    async def both() -> Exchange:
        async with serving(pieces, ending, tls=tls) as served:
            return await asked(served.url, **options)

    return anyio.run(both)


def ended(done: Exchange) -> tuple[str, int, str, bool]:
    """Return how it ended; its error is one line that names the server and has more than a code."""
    assert "\n" not in done.error and KEY not in done.error and KEY not in done.raw
    assert bool(done.error) is (done.outcome != "answered") and done.ran_us is not None
    if done.error:
        assert done.error == done.error.strip() and done.error.count(": ") >= 2, done.error
    return done.outcome, done.status, done.reason, done.retryable


@pytest.mark.parametrize("name", NAMES)
def test_an_answer(name: str) -> None:
    """OBS-05: the answer, the provider's request id, the raw response; the request has its key and its body."""

    async def both() -> None:
        async with serving(response(SSE, *STREAMS[name], more="x-request-id: req_1\r\n"), "keep") as served:
            done = await asked(served.url, name)
            assert ended(done)[:3] == ("answered", 200, done.reason) and done.request_id == "req_1"
            assert done.ttft_us is not None and done.ran_us is not None and 0 < done.ttft_us <= done.ran_us
            assert done.raw == b"".join(STREAMS[name]).decode()
            (seen,) = served.seen
            assert (
                KEY.encode() in seen
                and seen.endswith(b'{"model":"m"}')
                and b"accept: text/event-stream" in seen.lower()
            )

    anyio.run(both)


@pytest.mark.parametrize(("framing", "expected"), [("chunked", 1), ("open", 3)])
def test_a_connection_is_kept_where_its_body_ends(framing: str, expected: int) -> None:
    """LOOP-13: the end of the body is waited for, so that the next request needs no new one, but not for long."""

    async def both() -> None:
        speaks = protocol("openai-chat")
        async with serving(response(SSE, *CHAT, framing=framing), "keep") as served, new_client() as client:
            for _ in range(3):
                done = Exchange()
                out = Outgoing(speaks.url(served.url), speaks.headers(KEY), b"{}", True)
                with anyio.fail_after(1):
                    await exchange(client, out, speaks, done, limits=Limits(2, 30, 60))
                assert done.outcome == "answered"
            assert served.connections == expected

    anyio.run(both)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["close", "reset", "stall"])
def test_a_stream_that_breaks_off(name: str, ending: str) -> None:
    """OBS-05: the line closes, is reset, or sends no more: cut, with what had arrived."""
    done = run(response(SSE, *STREAMS[name][:8], framing="open"), ending, name=name)
    assert ended(done) == ("cut", 200, "idle" if ending == "stall" else "closed", True)
    assert done.answer is not None and done.answer.message is not None and done.answer.message.text.startswith("Grüße")


@pytest.mark.parametrize("name", NAMES)
def test_an_endless_stream(name: str) -> None:
    """OBS-05: neither bytes nor time are without end; what had arrived is kept, and the raw response too."""
    frames = [frame for frame in STREAMS[name][:8] if b"ping" not in frame]
    many = run(response(SSE, *frames, framing="open"), "endless", name=name)
    assert ended(many) == ("cut", 200, "too_many_bytes", False)
    assert "200,000 bytes" in many.error and many.answer is not None and many.answer.message is not None
    long = run(response(SSE, *frames, framing="open"), "endless", name=name, limits=Limits(2, 2, 0.2, 1 << 30))
    assert ended(long) == ("cut", 200, "too_long", True) and "0.2 s" in long.error
    assert len(long.raw) <= 4 << 20


def test_a_server_that_says_nothing() -> None:
    """OBS-03: no answer within the time-out is a failure; headers alone are a cut."""
    assert ended(run([], "stall")) == ("failed", 0, "idle", True)
    assert ended(run(response(SSE, framing="open"), "stall")) == ("cut", 200, "idle", True)
    assert ended(run([], "close")) == ("failed", 0, "closed", True)
    assert ended(run([b"SSH-2.0-x\r\n"], "close")) == ("failed", 0, "closed", True)


@pytest.mark.parametrize(
    ("body", "reason", "outcome"),
    [
        (b'{"choices":[{"message":{"content":"A"', "not_json", "cut"),
        (b"", "empty", "cut"),
        (b"  \n", "empty", "cut"),
        (b"upstream went away", "not_json", "cut"),
        (b'{"choices":[{"message":{"content":"\xff"},"finish_reason":"stop"}]}', "not_utf8", "cut"),
        (b"[" * 100_000, "not_json", "cut"),
        (b"<!DOCTYPE html><title>Sign in</title>", "not_json", "failed"),
        (b"{}", "no_finish", "cut"),
    ],
)
def test_a_body_that_is_no_answer(body: bytes, reason: str, outcome: str) -> None:
    """OBS-03, OBS-05: JSON cut in the middle, nothing, text, bytes that are no UTF-8, a web page."""
    for stream in (True, False):
        done = run(response(JSON, body) if body else response(JSON), stream=stream)
        assert ended(done)[:3] == (outcome, 200, reason)
        assert done.raw == body.decode("utf-8", "replace")


def test_a_compressed_body() -> None:
    """OBS-05: it is not asked for; where it comes all the same it is read, and its bytes are counted unpacked."""
    packed = gzip.compress(b"".join(CHAT))
    assert ended(run(response(SSE, packed, more="content-encoding: gzip\r\n")))[0] == "answered"
    bomb = gzip.compress(b": " + b"x" * 5_000_000)
    assert ended(run(response(SSE, bomb, more="content-encoding: gzip\r\n")))[:3] == ("cut", 200, "too_many_bytes")
    assert ended(run(response(SSE, b"no gzip", more="content-encoding: gzip\r\n"))) == (
        "cut",
        200,
        "not_decodable",
        True,
    )


@pytest.mark.parametrize(
    ("status", "reason", "retryable", "step"),
    [
        ("400 Bad Request", "bad_request", False, "check"), ("401 Unauthorized", "unauthorized", False, "the key"),
        ("403 Forbidden", "forbidden", False, "key"), ("404 Not Found", "not_found", False, "base URL"),
        ("408 Request Timeout", "timeout", True, "again"), ("429 Too Many Requests", "rate_limited", True, "wait"),
        ("500 Internal Server Error", "server_error", True, "again"), ("529 Overloaded", "overloaded", True, "again"),
    ],
)  # fmt: skip
def test_statuses(status: str, reason: str, retryable: bool, step: str) -> None:
    """LOOP-14, LOOP-19: the number decides, whatever the text says; also where the body cannot be read."""
    for said in ('{"error":{"message":"HTTP 503, please retry\\n401"}}', '{"detail":"503"}', "<html>503</html>", ""):
        for pieces in (
            response(JSON, said.encode(), status=status),
            response(JSON, said.encode(), status=status, framing="open"),
        ):
            done = run(pieces)
            assert ended(done) == ("failed", int(status[:3]), reason, retryable) and done.answer is None
            assert f"HTTP {status[:3]}" in done.error and step in done.error and "<html>" not in done.error
    assert "please retry 401" in run(response(JSON, b'{"error":{"message":"please retry\\n401"}}', status=status)).error


def test_an_error_in_a_list() -> None:
    """OBS-03: Google's errors by the chat protocol stand in a list."""
    done = run(response(JSON, b'[{"error":{"code":400,"message":"API key not valid"}}]\n', status="400 Bad Request"))
    assert "API key not valid" in done.error


def test_a_redirect_is_not_followed() -> None:
    """SEC-06: a key goes nowhere but where it was meant to; the line says where it was sent on to."""

    async def both() -> None:
        async with serving(response(SSE, *CHAT)) as other:
            more = f"location: {other.url}/v1?token=secret\r\n"
            done = None
            async with serving(response(JSON, status="307 Temporary Redirect", more=more)) as served:
                done = await asked(served.url)
            assert ended(done) == ("failed", 307, "redirect", False) and other.seen == []
            assert other.url in done.error and "token" not in done.error

    anyio.run(both)


@pytest.mark.parametrize(("more", "wait_us"), [
    ("retry-after: 2\r\n", 2_000_000), ("retry-after-ms: 1500\r\n", 1_500_000),
    ("date: Tue, 01 Dec 2026 00:00:00 GMT\r\nretry-after: Tue, 01 Dec 2026 00:00:30 GMT\r\n", 30_000_000),
    ("retry-after: soon\r\n", None), ("", None)])  # fmt: skip
def test_retry_after(more: str, wait_us: int | None) -> None:
    """LOOP-17: seconds, milliseconds and a date are what the provider asks to wait."""
    assert run(response(JSON, status="429 Too Many Requests", more=more)).retry_after_us == wait_us


def unused_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_no_connection() -> None:
    """OBS-03, LOOP-14: refused, no such host, no TLS, a foreign certificate, a broken address: each says what to check.

    Nothing of such a request had left: it is unbilled.
    """
    refused = anyio.run(asked, f"http://127.0.0.1:{unused_port()}")
    assert ended(refused) == ("failed", 0, "refused", True) and "check that the server runs" in refused.error
    both = anyio.run(asked, f"http://localhost:{unused_port()}")
    assert ended(both) == ("failed", 0, "refused", True)
    unknown = anyio.run(asked, "http://no-such-host.invalid")
    assert ended(unknown)[:3] == ("failed", 0, "unknown_host") and "no-such-host.invalid" in unknown.error
    foreign = run(response(SSE, *CHAT), tls=True)
    assert ended(foreign) == ("failed", 0, "tls", False) and "self-signed" in foreign.error.replace(
        "self signed", "self-signed"
    )
    for url in ("ftp://127.0.0.1", "http://127.0.0.1:99999"):
        broken = anyio.run(asked, url)
        assert ended(broken) == ("failed", 0, "bad_request", False)
        assert broken.unbilled
    assert all(one.unbilled and one.answer is None and one.raw == "" for one in (refused, both, unknown, foreign))


@pytest.mark.parametrize(("answers", "reason"), [(True, "tls"), (False, "connect_timeout")])
def test_https_to_a_server_without_it(answers: bool, reason: str) -> None:
    """OBS-03: `https` where the server speaks `http` is told as such; one that waits for more is a time-out."""

    pieces = [b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"] if answers else []

    async def both() -> Exchange:
        async with serving(pieces, "deaf") as served:
            served.tls = True
            return await asked(served.url, limits=Limits(0.3, 0.3, 5))

    done = anyio.run(both)
    assert ended(done)[:3] == ("failed", 0, reason) and done.unbilled
    assert ("http or https?" in done.error) is answers


def test_no_connection_within_the_time() -> None:
    """OBS-03: a server that does not accept is not waited for longer than said."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))

        async def go() -> Exchange:
            return await asked(f"http://127.0.0.1:{port}", limits=Limits(0.3, 0.3, 5))

        done = anyio.run(go)
        for one in waiting:
            one.close()
    assert ended(done) == ("failed", 0, "connect_timeout", True) and done.unbilled


@pytest.mark.parametrize("key", ["with\nnewline-0123456789", "with-ellipsis\u2026-0123456789"])
def test_a_key_that_cannot_be_sent(key: str) -> None:
    """SEC-06: the library's own words would show the key; ours do not."""

    async def both() -> Exchange:
        async with serving(response(SSE, *CHAT)) as served:
            done = await asked(served.url, key=key)
            assert served.seen == []
            return done

    done = anyio.run(both)
    assert ended(done) == ("failed", 0, "bad_request", False) and "0123456789" not in done.error and "key" in done.error


def test_a_key_that_comes_back_is_kept_nowhere() -> None:
    """SEC-06: an endpoint that echoes the key: not in the error, not in the raw response, not in the message."""
    echo = msgspec.json.encode({"error": {"message": f"Bad key {KEY} (Bearer {KEY})"}})
    failed = run(response(JSON, echo, status="401 Unauthorized"))
    assert KEY not in failed.error + failed.raw and "[masked]" in failed.error and "[masked]" in failed.raw
    frames = [
        b'data: {"choices":[{"delta":{"reasoning_content":"%s"}}]}\n\n' % KEY.encode(),
        b'data: {"choices":[{"delta":{"content":"It is %s."},"finish_reason":"stop"}]}\n\n' % KEY.encode(),
        b'data: {"error":"%s"}\n\n' % KEY.encode(),
    ]
    done = run(response(SSE, *frames))
    answer = done.answer
    assert answer is not None and answer.message is not None and answer.message.text == "It is [masked]."
    assert KEY not in repr(answer) + done.raw + done.error
    shaped = run(response(JSON, b'{"error":"sk-ant-REDACTED"}', status="403 Forbidden"))
    assert "abcdefgh" not in shaped.error + shaped.raw


def test_a_raw_response_is_capped() -> None:
    """OBS-05: its beginning is kept; a key at the edge is not kept by half."""
    edge = (4 << 20) - 5
    done = received("openai-chat", [b":" + b"x" * (edge - 1), KEY.encode(), b"\n\n"], limits=Limits(max_bytes=8 << 20))
    assert len(done.raw) <= 4 << 20 and KEY[:5] not in done.raw and done.raw.startswith(":xxx")


def test_what_had_arrived_outlives_a_cancellation() -> None:
    """OBS-05: whoever stops an exchange can read it: text, usage, raw response and how long it took; no outcome."""

    async def both() -> None:
        done = Exchange()
        async with serving(response(SSE, *ANTHROPIC[:8], framing="open"), "stall") as served:
            with anyio.move_on_after(0.5) as stopped:
                await asked(served.url, "anthropic", limits=Limits(2, 30, 60), done=done)
        assert stopped.cancelled_caught and (done.outcome, done.status) == ("", 200)
        answer = done.answer
        assert answer is not None and answer.message is not None and answer.message.text == "Grüße an 🐈."
        assert len(answer.usage) == 1 and "content_block_delta" in done.raw
        assert done.ran_us is not None and done.ttft_us is not None and 0 < done.ttft_us <= done.ran_us

    anyio.run(both)


def test_times_are_by_the_clock_that_is_given() -> None:
    """OBS-09: the first token and the end are measured by a monotonic clock from outside."""
    ticks = iter(range(0, 10**9, 1_000_000))

    async def both() -> Exchange:
        done, speaks = Exchange(), protocol("openai-chat")
        async with serving(response(SSE, *CHAT)) as served, new_client() as client:
            out = Outgoing(speaks.url(served.url), {}, b"{}", True)
            await exchange(client, out, speaks, done, clock=lambda: next(ticks), limits=QUICK)
        return done

    done = anyio.run(both)
    assert (done.ttft_us, done.ran_us) == (1000, 2000)


@pytest.mark.parametrize("error", [BrokenPipeError("the terminal went away"), ValueError("a defect")])
def test_a_listener_that_fails_is_no_broken_connection(error: Exception) -> None:
    """LOOP-14: what whoever listens raises comes out as it is, and is not retried as if the model had failed."""

    def listen(delta: Delta) -> None:
        raise error

    async def both() -> None:
        done, speaks = Exchange(), protocol("openai-chat")
        async with serving(response(SSE, *CHAT)) as served, new_client() as client:
            out = Outgoing(speaks.url(served.url), {}, b"{}", True)
            with pytest.raises(type(error)) as raised:
                await exchange(client, out, speaks, done, on_delta=listen, limits=QUICK)
            assert raised.value is error and done.outcome == "" and done.ran_us is not None

    anyio.run(both)
