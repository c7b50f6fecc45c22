"""The rehearsed model by plain HTTP: what it answers in both protocols, and what it records (LOOP-01, OBS-03)."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rehearsal_client import ask, body_of, calls_of, rehearsal, said, user, whole_of, with_result

from agent.rehearsal.script import Script
from agent.rehearsal.server import Rehearsal
from ledger.errors import UsageError

BOTH = pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])

TWO_STEPS = """
models = ["rehearsed-1", "rehearsed-2"]
[[step]]
text = "I look."
thinking = "Where is it? Perhaps in tests."
calls = [
    { tool = "run_command", arguments = { command = "pytest -q", timeout_secs = 5 } },
    { tool = "list_dir", arguments = { path = "." } },
]
[[step]]
text = "It says: "
echo = true
"""


@BOTH
class TestAnswers:
    def test_a_conversation_goes_on_from_step_to_step(self, protocol: str) -> None:
        """LOOP-01: the answer is chosen by how many assistant messages stand after the last user message."""
        with rehearsal(TWO_STEPS) as served:
            messages: list[Any] = [user()]
            first = ask(served, protocol, body_of(protocol, messages)).json
            assert said(protocol, first) == "I look."
            assert [call[1:] for call in calls_of(protocol, first)] == [
                ("run_command", {"command": "pytest -q", "timeout_secs": 5}),
                ("list_dir", {"path": "."}),
            ]
            messages += with_result(protocol, first, "3 passed")
            second = ask(served, protocol, body_of(protocol, messages)).json
            assert said(protocol, second) == "It says: 3 passed"
            messages += [*with_result(protocol, second, "")[:1], user("And again.")]
            third = ask(served, protocol, body_of(protocol, messages)).json
            assert said(protocol, third) == "I look."
            ids = [call[0] for answer in (first, third) for call in calls_of(protocol, answer)]
            assert len(set(ids)) == 4
            assert [one.seen.step for one in served.requests] == [1, 2, 1]

    def test_a_stream_amounts_to_the_whole_answer(self, protocol: str) -> None:
        """LOOP-23: a stream and a whole answer are the same, in content, calls and usage."""
        with rehearsal(TWO_STEPS) as served:
            streaming: dict[str, Any] = {"stream": True}
            if protocol == "openai-chat":
                streaming["stream_options"] = {"include_usage": True}
            whole = ask(served, protocol, body_of(protocol, [user()])).json
            got = ask(served, protocol, body_of(protocol, [user()], **streaming))
        assert got.headers["content-type"].startswith("text/event-stream")
        streamed = whole_of(protocol, got.events)
        assert streamed["text"] == said(protocol, whole)
        assert streamed["thinking"] == "Where is it? Perhaps in tests."
        calls = [(call_id, name, json.loads(text)) for call_id, name, text in streamed["calls"]]
        assert calls == calls_of(protocol, whole)
        assert streamed["usage"] == whole["usage"]
        assert streamed["id"] != whole["id"]  # two responses, though they say the same
        finish = whole["stop_reason"] if protocol == "anthropic" else whole["choices"][0]["finish_reason"]
        assert streamed["finish"] == finish == ("tool_use" if protocol == "anthropic" else "tool_calls")

    def test_two_servers_give_a_conversation_the_same_calls_and_other_responses(self, protocol: str) -> None:
        """LOOP-03: a restart gets the same answer; a response is never taken for a copy of another."""
        answers = []
        for _ in range(2):
            with rehearsal(TWO_STEPS) as served:
                answers.append(ask(served, protocol, body_of(protocol, [user()])).json)
        assert calls_of(protocol, answers[0]) == calls_of(protocol, answers[1])
        assert answers[0]["id"] != answers[1]["id"]

    def test_a_model_that_does_not_exist(self, protocol: str) -> None:
        """LOOP-27: 404 with the provider's own object, and the request is recorded."""
        with rehearsal(TWO_STEPS) as served:
            got = ask(served, protocol, body_of(protocol, [user()], model="gpt-9"))
        assert got.status == 404
        error = got.json["error"]
        assert (error.get("code") or error["type"]) in ("model_not_found", "not_found_error")
        assert [(one.seen.status, one.seen.model) for one in served.requests] == [(404, "gpt-9")]

    def test_the_end_of_the_script_is_said(self, protocol: str) -> None:
        """LOOP-27: what the script does not have is no answer, and no reason to try again."""
        with rehearsal('[[step]]\ncalls = [{ tool = "run_command" }]') as served:
            answer = ask(served, protocol, body_of(protocol, [user()])).json
            messages = [user(), *with_result(protocol, answer, "ok")]
            got = ask(served, protocol, body_of(protocol, messages))
        assert got.status == 422
        assert "no step" in got.json["error"]["message"]

    def test_a_repeated_step_answers_for_ever_with_new_ids(self, protocol: str) -> None:
        """LOOP-02: a model that always calls a tool."""
        script = '[[step]]\ncalls = [{ tool = "run_command", arguments = { command = "true" } }]\nrepeat = true'
        with rehearsal(script) as served:
            messages: list[Any] = [user()]
            for _ in range(5):
                answer = ask(served, protocol, body_of(protocol, messages)).json
                messages += with_result(protocol, answer, "ok")
            assert {one.seen.status for one in served.requests} == {200}
            ids = [one for one in str(messages).split("'") if one.startswith(("call_", "toolu_"))]
            assert len(set(ids)) == 5

    def test_steps_of_a_model_and_of_a_turn(self, protocol: str) -> None:
        """LOOP-20: a fallback model can have other steps, and so can a later turn."""
        script = """
        [[step]]
        model = "rehearsed-1"
        text = "of the first"
        [[step]]
        model = "rehearsed-2"
        text = "of the second"
        [[step]]
        turn = 2
        text = "of turn two"
        """
        with rehearsal(script.replace("turn = 2", 'turn = 2\nmodel = "rehearsed-3"')) as served:
            texts = [
                said(protocol, ask(served, protocol, body_of(protocol, [user()], model=model)).json)
                for model in ("rehearsed-1", "rehearsed-2")
            ]
            assert texts == ["of the first", "of the second"]
            later = [user(), {"role": "assistant", "content": "Yes."}, user("More.")]
            assert ask(served, protocol, body_of(protocol, [user()], model="rehearsed-3")).status == 422
            got = ask(served, protocol, body_of(protocol, later, model="rehearsed-3")).json
            assert said(protocol, got) == "of turn two"

    def test_a_wrong_key(self, protocol: str) -> None:
        """LOOP-19: 401, before anything else is looked at."""
        with rehearsal('key = "right"\n[[step]]\ntext = "Yes."') as served:
            assert ask(served, protocol, {}).status == 401
            for headers in ({"authorization": "Bearer right"}, {"x-api-key": "right"}):
                assert ask(served, protocol, body_of(protocol, [user()]), headers=headers).status == 200

    def test_what_is_malformed_is_refused_with_its_reason(self, protocol: str) -> None:
        """LOOP-09: a strict endpoint answers 400, and the record says why."""
        with rehearsal(TWO_STEPS) as served:
            got = ask(served, protocol, body_of(protocol, [{"role": "assistant", "content": "Hm."}]))
            assert got.status == 400 and "user" in got.json["error"]["message"]
            assert ask(served, protocol, b'{"model": ').status == 400
            assert ask(served, protocol, b"null").status == 400
            assert ask(served, protocol, b"\xff").status == 400
            assert all(one.seen.complaints and one.seen.step is None for one in served.requests)

    def test_arguments_that_are_no_json_an_unknown_tool_and_two_calls_with_one_id(self, protocol: str) -> None:
        """TOOL-10: what models get wrong can be said too."""
        script = """
        [[step]]
        calls = [
            { tool = "read_file", raw = '{"path": ', id = "one" },
            { tool = "no_such_tool", id = "one" },
        ]
        """
        with rehearsal(script) as served:
            got = ask(served, protocol, body_of(protocol, [user()], stream=True))
        assert whole_of(protocol, got.events)["calls"] == [
            ["one", "read_file", '{"path": '],
            ["one", "no_such_tool", "{}"],
        ]

    def test_another_finish_reason_and_another_model(self, protocol: str) -> None:
        """LOOP-21: an answer that was cut at its limit, and one that names the model that really answered."""
        with rehearsal('[[step]]\ntext = "Yes."\nfinish = "length"\nanswered_by = "rehearsed-1-2026"') as served:
            got = whole_of(protocol, ask(served, protocol, body_of(protocol, [user()], stream=True)).events)
        assert got["model"] == "rehearsed-1-2026"
        assert got["finish"] == ("max_tokens" if protocol == "anthropic" else "length")

    def test_the_request_id_of_the_header_is_in_the_record(self, protocol: str) -> None:
        """OBS-03: a request can be held against its row."""
        with rehearsal(TWO_STEPS) as served:
            got = ask(served, protocol, body_of(protocol, [user()]))
            header = "request-id" if protocol == "anthropic" else "x-request-id"
            assert served.requests[0].seen.request_id == got.headers[header]


class TestUsage:
    @pytest.mark.parametrize(
        ("written", "chat", "messages"),
        [
            ('"missing"', None, None),
            ('"zero"', (0, 0, 0), (0, 0, 0)),
            ("{ input = 100, output = 7, cache_read = 60, cache_write = 10 }", (100, 7, 60), (30, 7, 60)),
        ],
    )
    @pytest.mark.parametrize("stream", [False, True])
    def test_usage_as_the_script_says(self, written: str, chat: Any, messages: Any, stream: bool) -> None:
        """OBS-05: missing usage is missing, zero is zero, and numbers are the protocol's own reading of them."""
        with rehearsal(f'[[step]]\ntext = "Yes."\nusage = {written}') as served:
            options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
            got = ask(served, "openai-chat", body_of("openai-chat", [user()], **options))
            usage = whole_of("openai-chat", got.events)["usage"] if stream else got.json.get("usage")
            found = usage and (usage["prompt_tokens"], usage["completion_tokens"])
            assert found == (chat and chat[:2])
            assert not usage or usage["prompt_tokens_details"]["cached_tokens"] == chat[2]
            got = ask(served, "anthropic", body_of("anthropic", [user()], stream=stream))
            usage = whole_of("anthropic", got.events)["usage"] if stream else got.json.get("usage")
            names = ("input_tokens", "output_tokens", "cache_read_input_tokens")
            assert (tuple(usage[name] for name in names) if usage else None) == messages

    def test_a_raw_usage_object_is_sent_as_it_is(self) -> None:
        """OBS-22: objects of other servers of the protocol can be rehearsed."""
        with rehearsal("[[step]]\nusage = { raw = { prompt_tokens = 3, num_cached_tokens = 1 } }") as served:
            got = ask(served, "openai-chat", body_of("openai-chat", [user()])).json
        assert got["usage"] == {"prompt_tokens": 3, "num_cached_tokens": 1}

    def test_counted_usage_depends_on_sizes_alone(self) -> None:
        """OBS-07: the same request counts the same, a longer one more; what was known before is cached."""
        script = '[[step]]\ncalls = [{ tool = "a" }]\n[[step]]\ntext = "Done."'
        with rehearsal(script) as served:

            def usage(messages: list[Any]) -> Any:
                return ask(served, "openai-chat", body_of("openai-chat", messages)).json["usage"]

            assert usage([user()]) == usage([user()])
            assert usage([user("x" * 400)])["prompt_tokens"] - usage([user("x" * 8)])["prompt_tokens"] == 98
            first = ask(served, "openai-chat", body_of("openai-chat", [user("x" * 8000)])).json
            later = usage([user("x" * 8000), *with_result("openai-chat", first, "ok")])
            cached = later["prompt_tokens_details"]["cached_tokens"]
            assert 1024 <= cached <= first["usage"]["prompt_tokens"] and cached % 128 == 0

    def test_anthropic_caches_what_is_marked(self) -> None:
        """OBS-13: without a breakpoint nothing is cached; with one, what is new is written and the rest read."""
        script = '[[step]]\ncalls = [{ tool = "a" }]\n[[step]]\ntext = "Done."'
        text = {"type": "text", "text": "x" * 8000, "cache_control": {"type": "ephemeral"}}
        with rehearsal(script) as served:
            plain = ask(served, "anthropic", body_of("anthropic", [user("x" * 8000)])).json
            assert plain["usage"]["cache_creation_input_tokens"] == 0
            messages = [{"role": "user", "content": [text]}]
            first = ask(served, "anthropic", body_of("anthropic", messages)).json
            assert first["usage"]["cache_creation_input_tokens"] > 2000 and first["usage"]["input_tokens"] == 0
            later = ask(served, "anthropic", body_of("anthropic", [*messages, *with_result("anthropic", first, "ok")]))
            assert later.json["usage"]["cache_read_input_tokens"] > 1024
            assert later.json["usage"]["cache_creation_input_tokens"] < 400

    def test_a_stream_without_include_usage_has_none(self) -> None:
        """LOOP-23: usage comes only to who asks for it."""
        with rehearsal('[[step]]\ntext = "Yes."') as served:
            got = ask(served, "openai-chat", body_of("openai-chat", [user()], stream=True))
            assert all("usage" not in chunk for chunk in got.objects)
            asked = body_of("openai-chat", [user()], stream=True, stream_options={"include_usage": True})
            *others, last = ask(served, "openai-chat", asked).objects
            assert all(chunk["usage"] is None for chunk in others)
            assert last["choices"] == [] and last["usage"]["total_tokens"] > 0


class TestRecord:
    def test_every_request_is_a_line_before_its_answer(self, tmp_path: Path) -> None:
        """OBS-03: also those that are refused, and those that get no answer at all; numbers go on after a restart."""
        path = tmp_path / "seen.jsonl"
        script = '[[step]]\ntext = "Yes."\nfaults = [{ status = 503 }, { send = "nothing" }]'
        body = body_of("openai-chat", [user()])
        with rehearsal(script, seen=path) as served:
            assert ask(served, "openai-chat", body).status == 503
            assert ask(served, "openai-chat", body, timeout_s=0.6).status == 0
            assert len(path.read_text().splitlines()) == 2
            assert ask(served, "openai-chat", b"{}").status == 400
            assert ask(served, "/v1/nothing", b"{}").status == 404
        with rehearsal(script, seen=path) as served:
            assert ask(served, "openai-chat", body).status == 503
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        told = [(one["request"], one["status"], one["step"], one["attempt"], one["fault"]) for one in lines]
        assert told == [
            (1, 503, 1, 0, "status_503"),
            (2, None, 1, 1, "nothing"),
            (3, 400, None, None, None),
            (4, 404, None, None, None),
            (5, 503, 1, 0, "status_503"),
        ]
        assert lines[0]["sha256"] == hashlib.sha256(json.dumps(body).encode()).hexdigest()
        assert lines[0]["model"] == "rehearsed-1" and lines[0]["path"] == "/v1/chat/completions"

    def test_faults_are_counted_for_each_conversation(self) -> None:
        """LOOP-17: two sessions get a fault each, and one that goes on gets it once."""
        script = '[[step]]\ntext = "Yes."\nfaults = [{ status = 429, retry_after = 2 }]'
        with rehearsal(script) as served:

            def asked(text: str) -> int:
                return ask(served, "openai-chat", body_of("openai-chat", [user(text)])).status

            assert [asked("one"), asked("two"), asked("one"), asked("two"), asked("one")] == [429, 429, 200, 200, 200]

    def test_a_connection_is_kept_for_the_next_request(self) -> None:
        """LOOP-13: as the real endpoints do, so that a step costs no new connection."""
        import http.client

        with rehearsal('[[step]]\ntext = "Yes."') as served:
            line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=5)
            for stream in (True, False, True):
                content = json.dumps(body_of("openai-chat", [user()], stream=stream))
                line.request("POST", "/v1/chat/completions", content, {"content-type": "application/json"})
                before = line.sock
                assert line.getresponse().read()
                assert line.sock is before
            line.close()

    def test_a_server_that_has_closed_answers_nobody(self) -> None:
        """LOOP-13: a kept connection is closed with it, also one that waits."""
        import http.client

        with rehearsal('[[step]]\ntext = "Yes."') as served:
            line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=5)
            content = json.dumps(body_of("openai-chat", [user()]))
            line.request("POST", "/v1/chat/completions", content, {"content-type": "application/json"})
            assert line.getresponse().read()
        line.auto_open = 0
        with pytest.raises((OSError, http.client.HTTPException)):
            line.request("POST", "/v1/chat/completions", content, {"content-type": "application/json"})
            line.getresponse()
        line.close()
        assert ask(served.port, "openai-chat", body_of("openai-chat", [user()])).status == 0

    @pytest.mark.parametrize(
        "sent",
        [
            b"hello\r\n\r\n",
            b"POST /v1/messages HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /v1/messages HTTP/1.1\r\ncontent-length: 999999999999\r\n\r\n",
        ],
    )
    def test_what_is_no_request(self, sent: bytes) -> None:
        """LOOP-27: answered with 400 and a reason, and nothing is recorded of it."""
        with rehearsal(TWO_STEPS) as served:
            with socket.create_connection(("127.0.0.1", served.port), timeout=5) as line:
                line.sendall(sent)
                assert line.recv(4096).startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert served.requests == []

    def test_a_path_and_a_method_that_are_not_here(self) -> None:
        """LOOP-27: the answer names the paths that are."""
        import http.client

        with rehearsal('[[step]]\ntext = "Yes."') as served:
            assert b"/v1/messages" in ask(served, "/v1/v1/messages", b"{}").raw
            line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=5)
            line.request("GET", "/v1/models")
            assert line.getresponse().status == 405
            line.close()


class TestServer:
    def test_it_starts_at_once(self) -> None:
        """LOOP-13: in under 50 ms within a process that has it loaded; the best of five, as the machine may be busy."""
        script = Script.parse(TWO_STEPS)
        took = []
        for _ in range(5):
            begun = time.perf_counter()
            with Rehearsal(script) as served:
                took.append(time.perf_counter() - begun)
                assert served.base_url_of("openai-chat") == f"{served.base_url}/v1"
        assert min(took) < 0.05

    def test_a_port_that_is_taken(self) -> None:
        """LOOP-27: one line that says what to do."""
        with rehearsal(TWO_STEPS) as served, pytest.raises(UsageError, match=r"cannot listen: .*: give another"):
            rehearsal(TWO_STEPS, port=served.port)
        with pytest.raises(UsageError, match="--port 70000"):
            rehearsal(TWO_STEPS, port=70000)

    def test_a_record_that_cannot_be_written(self, tmp_path: Path) -> None:
        """LOOP-27: the same for the file."""
        with pytest.raises(UsageError, match=r"--seen .*: cannot be written"):
            rehearsal(TWO_STEPS, seen=tmp_path / "missing" / "seen.jsonl")

    def test_as_a_process(self, tmp_path: Path) -> None:
        """OBS-03: it prints where it is, keeps its record through a kill, and Ctrl-C ends it with 0."""
        script, seen = tmp_path / "script.toml", tmp_path / "seen.jsonl"
        script.write_text(TWO_STEPS)
        program = "import sys; from pathlib import Path; from agent.rehearsal.main import main; "
        program += "sys.exit(main(Path(sys.argv[1]), 0, Path(sys.argv[2])))"
        for number, end in enumerate((signal.SIGKILL, signal.SIGINT), 1):
            process = subprocess.Popen(
                [sys.executable, "-c", program, str(script), str(seen)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            )
            assert process.stdout is not None
            urls = dict(process.stdout.readline().split() for _ in range(2))
            assert urls["openai-chat"] == f"{urls['anthropic']}/v1"
            port = int(urls["anthropic"].rpartition(":")[2])
            assert ask(port, "anthropic", body_of("anthropic", [user()])).status == 200
            assert len(seen.read_text().splitlines()) == number
            process.send_signal(end)
            _, errors = process.communicate(timeout=10)
            assert process.returncode == (0 if end == signal.SIGINT else -signal.SIGKILL)
            assert errors == ""
