"""Exchanges that end early: stopped by the user, refused once, failed with a long text, ended without `[DONE]`."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import msgspec
import pytest
from wire_server import ANTHROPIC, CHAT, KEY, SSE, STREAMS, Served, asked, response, serving

from ledger.wire.exchange import Exchange, Limits

JSON = "application/json"
NAMES = sorted(STREAMS)
PATIENT = Limits(2, 30, 60)
LONG = " ".join(f"line {number} of what went wrong;" for number in range(200))
assert len(LONG) > 5_000


def one(pieces: list[bytes], name: str = "openai-chat", ending: str = "close") -> tuple[Exchange, Served]:
    """Make one exchange; return it with what the server saw."""

    async def both() -> tuple[Exchange, Served]:
        async with serving(pieces, ending) as served:
            return await asked(served.url, name), served

    return anyio.run(both)


STAGES: dict[str, tuple[list[bytes], Callable[[Exchange, Served], bool]]] = {
    "before the headers": ([], lambda done, served: bool(served.seen)),
    "behind the headers": (response(SSE, framing="open"), lambda done, served: done.status == 200),
    "amid the text": (
        response(SSE, *ANTHROPIC[:8], framing="open"),
        lambda done, served: "text_delta" in done.raw and bool(done.ttft_us),
    ),
    "amid an error": (
        response(JSON, b'{"error":', status="503 Service Unavailable", framing="open"),
        lambda done, served: done.status == 503,
    ),
}  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_a_stop_takes_effect_at_once(stage: str) -> None:
    """LOOP-10, OBS-05: within 200 ms, wherever it stands; what had arrived can be read behind it."""
    pieces, reached = STAGES[stage]

    async def stop() -> tuple[float, Exchange]:
        done = Exchange()
        async with serving(pieces, "stall") as served:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: asked(served.url, "anthropic", limits=PATIENT, done=done))
                with anyio.fail_after(10):
                    while not reached(done, served):
                        await anyio.sleep(0.005)
                began = time.perf_counter()
                tasks.cancel_scope.cancel()
            return time.perf_counter() - began, done

    took, done = min((anyio.run(stop) for _ in range(3)), key=lambda found: found[0])
    assert took < 0.2
    assert done.outcome == "" and done.error == "" and done.ran_us is not None
    if stage == "amid the text":
        answer = done.answer
        assert answer is not None and answer.message is not None and answer.message.text == "Grüße an 🐈."
        assert answer.usage and answer.response_id == "m1"


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        ("401 Unauthorized", False), ("403 Forbidden", False), ("429 Too Many Requests", True),
        ("502 Bad Gateway", True), ("503 Service Unavailable", True), ("529 Overloaded", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"<html><title>nginx</title></html>", b'{"error":{"message":"Key ok, retry: 503"}}'])
def test_one_exchange_is_one_request(status: str, retryable: bool, body: bytes) -> None:
    """LOOP-14, LOOP-19: nothing is sent again here, whatever the answer says; who asked decides by its number."""
    done, served = one(response(JSON, body, status=status, more="retry-after: 0\r\n"))
    assert len(served.seen) == 1
    assert (done.outcome, done.status, done.retryable) == ("failed", int(status[:3]), retryable)
    assert "nginx" not in done.error and done.raw == body.decode()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["status", "whole", "stream"])
def test_a_long_error_is_kept_whole(name: str, where: str) -> None:
    """OBS-14: 5 KB of it are in the raw response, to the last word; the line for people is one line and bounded."""
    error = {"type": "error", "error": {"type": "api_error", "code": 500, "message": f"{LONG} Key {KEY}.\nThe end."}}
    body = msgspec.json.encode(error)
    if where == "stream":
        pieces = response(SSE, *STREAMS[name][:4], b"event: error\ndata: " + body + b"\n\n")
    else:
        pieces = response(JSON, body, status="500 Internal Server Error" if where == "status" else "200 OK")
    done, _ = one(pieces, name)
    assert (done.outcome, done.retryable) == ("cut" if where == "stream" else "failed", True)
    assert LONG in done.raw and "The end." in done.raw and KEY not in done.raw + done.error
    assert done.error.startswith("127.0.0.1:") and "line 3 of" in done.error and "\n" not in done.error
    assert len(done.error) <= 2_000
    if where == "stream":
        assert done.answer is not None and LONG in done.answer.error and KEY not in done.answer.error


@pytest.mark.parametrize(
    ("framing", "outcome", "reason"),
    [("chunked", "cut", "no_done"), ("open", "cut", "closed"), ("none", "cut", "no_done")],
)
def test_done_missing(framing: str, outcome: str, reason: str) -> None:
    """OBS-05: without `[DONE]` it is cut, though a finish reason came; what had arrived is kept."""
    done, _ = one(response(SSE, *CHAT[:-1], framing=framing))
    assert (done.outcome, done.reason) == (outcome, reason)
    assert done.answer is not None and len(done.answer.usage) == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_letter_by_itself(name: str) -> None:
    """OBS-05: a real connection that carries one byte at a time gives the answer of one that carries all at once."""
    content = b"".join(STREAMS[name])
    slowly, _ = one(response(SSE, *(bytes([byte]) for byte in content)), name)
    at_once, _ = one(response(SSE, content), name)
    assert slowly.outcome == "answered" and slowly.answer == at_once.answer and slowly.raw == at_once.raw


def test_comments_alone_are_no_answer() -> None:
    """OBS-05: keep-alive comments do not end, and do not count as the first piece of an answer."""

    async def both() -> Exchange:
        pieces = response(SSE, b": OPENROUTER PROCESSING\n\n", framing="open")
        async with serving(pieces, "endless") as served:
            return await asked(served.url, limits=Limits(2, 2, 0.3, 1 << 30))

    done = anyio.run(both)
    assert (done.outcome, done.reason, done.ttft_us) == ("cut", "too_long", None)
    assert done.answer is not None and done.answer.message is None
