"""What a request is answered, fault or not. Pure: the server only carries it out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from agent.rehearsal import anthropic, chat
from agent.rehearsal.said import Caching, Frame, Naming, Said, say
from agent.rehearsal.script import Fault, Script, Step
from agent.rehearsal.shown import shown
from agent.rehearsal.strict import complaints, header_complaints


class Voice(Protocol):
    """How a provider answers: the modules `chat` and `anthropic`."""

    CALL_PREFIX: str

    def headers(self, naming: Naming) -> dict[str, str]: ...
    def error(self, status: int, message: str, naming: Naming) -> bytes: ...
    def error_frames(self, message: str, naming: Naming) -> list[Frame]: ...
    def caching(self, body: dict[str, Any]) -> Caching: ...
    def whole(self, said: Said, naming: Naming) -> dict[str, Any]: ...
    def frames(self, said: Said, naming: Naming, body: dict[str, Any]) -> list[Frame]: ...
    def endless(self, said: Said, naming: Naming) -> tuple[list[Frame], Frame]: ...


VOICES: dict[str, Voice] = {"openai-chat": chat, "anthropic": anthropic}

Ending = Literal["whole", "reset", "close", "stall", "endless", "nothing"]


class Plan(NamedTuple):
    """What is sent, and how it ends."""

    status: int
    headers: dict[str, str]
    parts: list[bytes]
    """What is sent, piece by piece: one event each where it is a stream."""
    ending: Ending = "whole"
    """`whole`: the body is complete; `nothing`: not even a status is sent; `endless`: the last part again and again."""
    length: int | None = None
    """The Content-Length; None: chunked."""
    delay_ms: float = 0
    frame_delay_ms: float = 0
    model: str = ""
    session: str = ""
    step: int | None = None
    attempt: int | None = None
    fault: str = ""
    stream: bool | None = None
    """Whether the request asks for a stream; None where it is too malformed to say."""
    complaints: tuple[str, ...] = ()


Attempts = Callable[[str, int], int]
"""(session, step) -> how many attempts there were before this one; counts this one."""

_JSON, _EVENTS, _HTML = "application/json", "text/event-stream; charset=utf-8", "text/html; charset=utf-8"
_PAGE = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
_MARK = "\ue000"
"""Stands for bytes that are no UTF-8 until the text is bytes; of the private use area, so no script has it."""


def plan(
    script: Script,
    protocol: str,
    headers: dict[str, str],
    raw: bytes,
    naming: Naming,
    attempts: Attempts,
    now: datetime,
) -> Plan:
    """Return the answer to a request. `headers` have their names in small letters.

    As at the providers, a wrong key comes first, then what is malformed, then a model that does not exist, and only
    then what the script says.
    """
    voice = VOICES[protocol]
    if script.key and not _has_key(headers, script.key):
        return _refused(voice, naming, 401, "")
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        body, found = None, [f"body: is no JSON: {error}"]
    else:
        found = header_complaints(protocol, headers) + complaints(protocol, body, signature=anthropic.signature)
    if body is None or found:
        told = body.get("model") if isinstance(body, dict) else None
        refused = _refused(voice, naming, 400, "; ".join(found) or "body: is null")
        return refused._replace(complaints=tuple(found), model=told if isinstance(told, str) else "")
    request = shown(protocol, body)
    if script.models and request.model not in script.models:
        return _refused(voice, naming, 404, f"The model `{request.model}` does not exist")._replace(model=request.model)
    at = script.at(request.model, request.turn, request.position)
    if at is None:
        told = f"The script has no step for {request.model} at turn {request.turn}, position {request.position}"
        return _refused(voice, naming, 422, told)._replace(model=request.model, session=request.session)
    number, step = at
    attempt = attempts(request.session, number)
    fault = step.fault(attempt)
    said = say(step, request, id_prefix=voice.CALL_PREFIX, caching=voice.caching(body))
    answering = _Answering(voice, naming, body, said, step, request.stream)
    made = answering.whole() if fault is None else answering.faulty(fault, now)
    return made._replace(
        delay_ms=step.delay_ms if fault is None else fault.delay_ms,
        frame_delay_ms=step.frame_delay_ms,
        model=request.model,
        session=request.session,
        step=number,
        attempt=attempt,
        fault="" if fault is None else fault.kind,
        stream=request.stream,
    )


class _Answering(NamedTuple):
    """One answer in the making."""

    voice: Voice
    naming: Naming
    body: dict[str, Any]
    said: Said
    step: Step
    stream: bool

    def whole(self) -> Plan:
        """The answer as it should be."""
        if self.stream:
            return self.events(self.frames(self.said))
        return self.json(msgspec.json.encode(self.voice.whole(self.said, self.naming)))

    def frames(self, said: Said) -> list[Frame]:
        return self.voice.frames(said, self.naming, self.body)

    def events(self, frames: list[Frame]) -> Plan:
        return Plan(200, self.headers(_EVENTS), [one.wire for one in frames])

    def json(self, content: bytes) -> Plan:
        return Plan(200, self.headers(_JSON), [content], length=len(content))

    def headers(self, kind: str) -> dict[str, str]:
        return {"content-type": kind} | self.voice.headers(self.naming)

    def faulty(self, fault: Fault, now: datetime) -> Plan:
        """What comes instead of the answer."""
        if fault.send == "html":
            page = fault.body.encode() if fault.body is not None else _PAGE
            return Plan(fault.status or 200, self.headers(_HTML), [page], length=len(page))
        if fault.status is not None:
            return self.status(fault, fault.status, now)
        if fault.error_frame is not None:
            errors = self.voice.error_frames(fault.error_frame, self.naming)
            if self.stream:
                return self.events(self.frames(self.said)[: fault.after] + errors)
            return self.json(errors[0].data)
        if fault.cut_after is not None:
            return self.cut(fault.cut_after, "whole" if fault.cut == "end" else fault.cut)
        if fault.stall_after is not None:
            return self.cut(fault.stall_after, "stall")
        return self.sending(fault.send or "nothing")

    def status(self, fault: Fault, status: int, now: datetime) -> Plan:
        content = fault.body.encode() if fault.body is not None else self.voice.error(status, "", self.naming)
        headers = self.headers(_JSON)
        if fault.retry_after is not None:
            headers["retry-after"] = str(fault.retry_after)
        if fault.retry_at_seconds is not None:
            from email.utils import format_datetime  # 20 ms that few need

            # The format has whole seconds: the next one, so that nobody is told to come too early.
            then = now.astimezone(UTC) + timedelta(seconds=fault.retry_at_seconds, microseconds=999_999)
            headers["retry-after"] = format_datetime(then, usegmt=True)
        return Plan(status, headers, [content], length=len(content))

    def cut(self, after: int, ending: Ending) -> Plan:
        answer = self.whole()
        if self.stream:
            return answer._replace(parts=answer.parts[:after], ending=ending)
        half = answer.parts[0][: len(answer.parts[0]) // 2]
        return answer._replace(parts=[half], ending=ending, length=len(half) if ending == "whole" else answer.length)

    def sending(self, send: str) -> Plan:
        answer = self.whole()
        if send == "nothing":
            return answer._replace(parts=[], ending="nothing")
        if send == "empty":
            return answer._replace(parts=[], length=None if self.stream else 0)
        if send == "endless":
            return self.endless()
        if send == "invalid_utf8":
            return self.broken_text()
        if not self.stream:
            if send == "no_finish":
                content = self.voice.whole(self.said._replace(finish=""), self.naming)
                return self.json(_without_finish(content))
            return self.cut(0, "whole")
        frames = self.frames(self.said)
        if send == "cut_json":
            middle = len(frames) // 2
            frames[middle] = frames[middle]._replace(data=frames[middle].data[: len(frames[middle].data) // 2])
            return self.events(frames)
        left_out = "done" if send == "no_done" else "finish"
        return self.events([one for one in frames if one.kind != left_out])

    def endless(self) -> Plan:
        if not self.stream:
            return Plan(200, self.headers(_JSON), [b" " * 1024], "endless")
        opening, again = self.voice.endless(self.said, self.naming)
        return self.events([*opening, again])._replace(ending="endless")

    def broken_text(self) -> Plan:
        """The answer with two bytes in its text that no UTF-8 has."""
        broken = self._replace(said=self.said._replace(text=self.said.text + _MARK)).whole()
        parts = [part.replace(_MARK.encode(), b"\xff\xfe") for part in broken.parts]
        return broken._replace(parts=parts, length=None if self.stream else len(parts[0]))


def _without_finish(content: dict[str, Any]) -> bytes:
    """Return a whole answer whose finish reason is null."""
    if "choices" in content:
        content["choices"][0]["finish_reason"] = None
    else:
        content["stop_reason"] = None
    return msgspec.json.encode(content)


def _has_key(headers: dict[str, str], key: str) -> bool:
    """Both ways in which keys are sent are taken of both protocols, as Anthropic does and gateways do."""
    return headers.get("authorization", "") == f"Bearer {key}" or headers.get("x-api-key", "") == key


def _refused(voice: Voice, naming: Naming, status: int, message: str) -> Plan:
    content = voice.error(status, message, naming)
    return Plan(status, {"content-type": _JSON} | voice.headers(naming), [content], length=len(content))
