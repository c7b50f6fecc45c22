"""Every fault that a rehearsal has, in both protocols, streamed and whole (LOOP-14, LOOP-17, OBS-05)."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from rehearsal_client import Got, ask, body_of, rehearsal, said, user, whole_of

PROTOCOLS = ("openai-chat", "anthropic")
BOTH = pytest.mark.parametrize("protocol", PROTOCOLS)
ALL = pytest.mark.parametrize(
    ("protocol", "stream"), [(name, stream) for name in PROTOCOLS for stream in (True, False)]
)
STREAMED = {"stream": True}


def faulty(protocol: str, fault: str, stream: bool, timeout_s: float = 5) -> tuple[Got, Got]:
    """Return what the first attempt gets, and what the second does: the answer, as it always is."""
    with rehearsal(f'[[step]]\ntext = "A text of several words."\nfaults = [{fault}]') as served:
        body = body_of(protocol, [user()], stream=stream)
        first = ask(served, protocol, body, timeout_s)
        second = ask(served, protocol, body)
    text = whole_of(protocol, second.events)["text"] if stream else said(protocol, second.json)
    assert (second.status, second.broken, text) == (200, "", "A text of several words.")
    return first, second


class TestStatus:
    @BOTH
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 429, 500, 502, 503, 504, 529])
    def test_a_status_with_the_error_object_of_the_protocol(self, protocol: str, status: int) -> None:
        """LOOP-14: what is retried is told from the status; the body is the provider's."""
        got, _ = faulty(protocol, f"{{ status = {status} }}", True)
        assert got.status == status and not got.broken
        assert got.json["error"]["message"] and got.json["error"]["type"]
        assert (got.json.get("type") == "error") == (protocol == "anthropic")

    def test_the_types_that_clients_tell_apart(self) -> None:
        """LOOP-14: as the providers name them."""
        kinds = [
            faulty("anthropic", f"{{ status = {status} }}", False)[0].json["error"]["type"]
            for status in (401, 429, 529)
        ]
        assert kinds == ["authentication_error", "rate_limit_error", "overloaded_error"]
        error = faulty("openai-chat", "{ status = 401 }", False)[0].json["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")

    @BOTH
    def test_retry_after_in_seconds_and_as_a_date(self, protocol: str) -> None:
        """LOOP-17: both forms of RFC 9110, the date never earlier than what was asked for."""
        got, _ = faulty(protocol, '{ status = 429, retry_after = "2" }', True)
        assert got.headers["retry-after"] == "2"
        got, _ = faulty(protocol, "{ status = 429, retry_after = 1.5 }", True)
        assert got.headers["retry-after"] == "1.5"
        before = datetime.now(UTC)
        got, _ = faulty(protocol, "{ status = 503, retry_at_seconds = 2 }", True)
        ahead = (parsedate_to_datetime(got.headers["retry-after"]) - before).total_seconds()
        assert 2 <= ahead < 3.5

    @BOTH
    def test_a_body_of_its_own(self, protocol: str) -> None:
        """LOOP-14: the words of an error can be anything."""
        got, _ = faulty(protocol, "{ status = 401, body = 'no such key' }", True)
        assert (got.status, got.raw) == (401, b"no such key")

    @BOTH
    def test_faults_are_used_up_one_an_attempt(self, protocol: str) -> None:
        """LOOP-20: several in a row, one of them several times, and one that stays."""
        script = "[[step]]\nfaults = [{ status = 503, times = 2 }, { status = 429 }, { status = 500, always = true }]"
        with rehearsal(script) as served:
            body = body_of(protocol, [user()])
            statuses = [ask(served, protocol, body).status for _ in range(6)]
        assert statuses == [503, 503, 429, 500, 500, 500]


class TestCut:
    @BOTH
    @pytest.mark.parametrize("cut", ["close", "reset", "end"])
    @pytest.mark.parametrize("after", [0, 1, 3])
    def test_a_stream_that_is_cut_after_some_frames(self, protocol: str, cut: str, after: int) -> None:
        """OBS-05: exactly those frames come; then the line is reset, or closed, or the body ends as if complete."""
        got, second = faulty(protocol, f'{{ cut_after = {after}, cut = "{cut}" }}', True)
        assert got.status == 200
        names = [name for name, _ in got.events]
        assert len(names) == after and names == [name for name, _ in second.events][:after]
        expected = {"close": "IncompleteRead", "reset": "ConnectionResetError", "end": ""}[cut]
        assert got.broken == expected

    @BOTH
    def test_a_whole_answer_that_is_cut(self, protocol: str) -> None:
        """OBS-05: half of the body; with `end` its length says that this is all."""
        got, second = faulty(protocol, "{ cut_after = 1 }", False)
        assert got.broken == "IncompleteRead" and 0 < len(got.raw) < len(second.raw)
        got, _ = faulty(protocol, '{ cut_after = 1, cut = "reset" }', False)
        assert got.broken in ("IncompleteRead", "ConnectionResetError")
        got, _ = faulty(protocol, '{ cut_after = 1, cut = "end" }', False)
        assert not got.broken
        with pytest.raises(json.JSONDecodeError):
            _ = got.json

    @ALL
    def test_an_error_inside_a_200(self, protocol: str, stream: bool) -> None:
        """OBS-05: an error frame after some frames, and nothing behind it."""
        got, _ = faulty(protocol, '{ error_frame = "Overloaded, sorry", after = 2 }', stream)
        assert (got.status, got.broken) == (200, "")
        error = got.objects[-1] if stream else got.json
        assert error["error"]["message"] == "Overloaded, sorry"
        if stream:
            assert len(got.events) == 3
            assert got.events[-1][0] == ("error" if protocol == "anthropic" else "")

    @ALL
    def test_a_line_that_stalls(self, protocol: str, stream: bool) -> None:
        """OBS-05: some frames, then nothing, and the line stays open."""
        got, _ = faulty(protocol, "{ stall_after = 2 }", stream, timeout_s=0.6)
        assert (got.status, got.broken) == (200, "TimeoutError")
        assert not stream or len(got.events) == 2


class TestSending:
    @ALL
    def test_nothing(self, protocol: str, stream: bool) -> None:
        """LOOP-13: the connection is taken and not even a status comes."""
        got, _ = faulty(protocol, '{ send = "nothing" }', stream, timeout_s=0.6)
        assert (got.status, got.broken) == (0, "TimeoutError")

    @ALL
    def test_html(self, protocol: str, stream: bool) -> None:
        """LOOP-14: what proxies send, with 200 or with another status."""
        got, _ = faulty(protocol, '{ send = "html" }', stream)
        assert got.status == 200 and got.raw.startswith(b"<!DOCTYPE html>")
        assert got.headers["content-type"].startswith("text/html")
        got, _ = faulty(protocol, '{ send = "html", status = 502, body = "<p>no</p>" }', stream)
        assert (got.status, got.raw) == (502, b"<p>no</p>")

    @ALL
    def test_json_that_is_cut(self, protocol: str, stream: bool) -> None:
        """OBS-05: complete for HTTP, and no JSON."""
        got, _ = faulty(protocol, '{ send = "cut_json" }', stream)
        assert (got.status, got.broken) == (200, "")
        with pytest.raises(json.JSONDecodeError):
            _ = got.objects if stream else got.json

    @ALL
    def test_bytes_that_are_no_utf8(self, protocol: str, stream: bool) -> None:
        """OBS-05: in the middle of the text."""
        got, _ = faulty(protocol, '{ send = "invalid_utf8" }', stream)
        assert (got.status, got.broken) == (200, "")
        with pytest.raises(UnicodeDecodeError):
            got.raw.decode()
        replaced = got._replace(raw=got.raw.decode(errors="replace").encode())
        text = whole_of(protocol, replaced.events)["text"] if stream else said(protocol, replaced.json)
        assert text.startswith("A text of several words.") and "�" in text

    @ALL
    def test_an_endless_answer(self, protocol: str, stream: bool) -> None:
        """OBS-05: it goes on until the client has enough."""
        got, _ = faulty(protocol, '{ send = "endless" }', stream)
        assert (got.status, got.broken) == (200, "endless")
        if stream:
            assert whole_of(protocol, got.events)["text"].count("and so on") > 100

    @ALL
    def test_an_empty_answer(self, protocol: str, stream: bool) -> None:
        """OBS-05: a 200 with nothing in it."""
        got, _ = faulty(protocol, '{ send = "empty" }', stream)
        assert (got.status, got.raw, got.broken) == (200, b"", "")

    @BOTH
    def test_a_stream_without_its_last_event(self, protocol: str) -> None:
        """OBS-05: no [DONE], no message_stop; all else is there."""
        got, second = faulty(protocol, '{ send = "no_done" }', True)
        assert [name for name, _ in got.events] == [name for name, _ in second.events][:-1]
        assert second.events[-1] in [("", "[DONE]"), ("message_stop", '{"type":"message_stop"}')]

    @ALL
    def test_an_answer_without_a_finish_reason(self, protocol: str, stream: bool) -> None:
        """OBS-05: the end is there, and why it ended is not."""
        got, second = faulty(protocol, '{ send = "no_finish" }', stream)
        if stream:
            assert whole_of(protocol, got.events)["finish"] is None
            assert got.events[-1] == second.events[-1]
        else:
            finish = got.json["stop_reason"] if protocol == "anthropic" else got.json["choices"][0]["finish_reason"]
            assert finish is None


class TestDelays:
    def test_before_the_answer_and_between_its_frames(self) -> None:
        """OBS-09: both take the time that they say."""
        with rehearsal('[[step]]\ntext = "One two three."\ndelay_ms = 80\nframe_delay_ms = 20') as served:
            begun = time.monotonic()
            got = ask(served, "openai-chat", body_of("openai-chat", [user()], stream=True))
            took = time.monotonic() - begun
        assert took >= 0.08 + 0.02 * len(got.events)

    def test_before_a_fault(self) -> None:
        """OBS-09: a slow refusal."""
        begun = time.monotonic()
        faulty("openai-chat", "{ status = 503, delay_ms = 100 }", False)
        assert time.monotonic() - begun >= 0.1

    @pytest.mark.parametrize("fault", ['{ send = "nothing" }', "{ stall_after = 1 }", '{ send = "endless" }'])
    def test_a_held_line_does_not_hold_the_server(self, fault: str) -> None:
        """LOOP-13: it closes at once while a client still waits."""
        with rehearsal(f"[[step]]\ndelay_ms = 1\nfaults = [{fault}]") as served:
            ask(served, "openai-chat", body_of("openai-chat", [user()], stream=True), timeout_s=0.6)
            begun = time.monotonic()
        assert time.monotonic() - begun < 1


def test_many_at_once() -> None:
    """LOOP-16: sixteen clients are answered beside each other, each request a record of its own."""
    from concurrent.futures import ThreadPoolExecutor

    with rehearsal('[[step]]\ntext = "Yes."\ndelay_ms = 100') as served:

        def one(number: int) -> Any:
            return ask(served, PROTOCOLS[number % 2], body_of(PROTOCOLS[number % 2], [user(str(number))])).status

        begun = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            assert set(pool.map(one, range(16))) == {200}
        assert time.monotonic() - begun < 1.2
        assert sorted(request.seen.request for request in served.requests) == list(range(1, 17))
        assert len({request.seen.request_id for request in served.requests}) == 16
