"""Reads an answer of chat completions.

A stream comes to its proper end with a finish reason and then `[DONE]`: usage stands between the two, so without
`[DONE]` (`no_done`) nobody knows whether any was to come, and `[DONE]` without a finish reason is no end (`no_finish`).
A response that is not streamed has come to its end when its JSON has, with a message in it.

Servers differ. What a model thinks is `reasoning_content` or `reasoning`, sometimes both with the same text, or a part
of a content that is a list (Mistral); OpenRouter wants its `reasoning_details` back. Usage stands in a last chunk
without choices, in `choices[0]`, or in `x_groq`. Calls: see `_Calls`. An error may stand in any chunk, or be the finish
reason (OpenRouter, "Errors during streaming"). Gemini signs its thoughts in the `extra_content` of a call, and refuses
the conversation where that does not come back with the call ("Thought signatures").
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.wire.complaints import Complaint, complaint_of
from ledger.wire.conversation import Call, Message, Opaque, Part, Text
from ledger.wire.counted import UsageFrames
from ledger.wire.protocols import Answer, Assembler, Delta
from ledger.wire.shapes import dict_of, list_of, name_of, object_of, word_of

NAME = "openai-chat"
_DONE = "[DONE]"
_THOUGHTS = ("reasoning_content", "reasoning")
BACK = ("extra_content",)
"""The fields of a call that its server wants back as they were."""


class _Call:
    """A call in the making."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self.pieces: list[str] = []
        self.extra: dict[str, Any] = {}

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class _Calls:
    """Tool calls out of their pieces.

    Usually a piece has an index, and the first of a call its id and name. But there are servers that leave the index
    out, or count every call as 0; that leave the id out, or make a new one for every piece; that send a call whole,
    its arguments as text or as an object. A piece without a name always continues a call. One with a name begins
    another call where the call that it would continue is whole, or has another name and another id.
    """

    def __init__(self) -> None:
        self.all: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def take(self, part: dict[str, Any], *, whole: bool) -> Delta:
        """Take in a piece, or a whole call."""
        function = dict_of(part.get("function"))
        index, call_id, name = part.get("index"), name_of(part.get("id")), name_of(function.get("name"))
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        call = None if whole else self._continued(index, call_id, name)
        if call is None and not (call_id or name or arguments):
            return Delta("call", "")
        if call is None or (name and call.name and _is_another(call, call_id, name, arguments)):
            call = _Call()
            self.all.append(call)
        if type(index) is int:
            self._at[index] = call
        call.id, call.name = call.id or call_id, call.name or name
        call.pieces.append(arguments)
        call.extra |= {name: part[name] for name in BACK if dict_of(part.get(name))}
        return Delta("call", arguments)

    def _continued(self, index: object, call_id: str, name: str) -> _Call | None:
        if type(index) is int:
            return self._at.get(index)
        last = self.all[-1] if self.all else None
        if not call_id:
            return last
        return next((call for call in reversed(self.all) if call.id == call_id), None if name else last)


def _is_another(call: _Call, call_id: str, name: str, arguments: str) -> bool:
    other_id = bool(call_id and call.id and call_id != call.id)
    if other_id and name != call.name:
        return True
    return bool(other_id or arguments) and object_of(call.arguments) is not None


class ChatReading(Assembler):
    """Puts one answer together. `model` is what was asked."""

    def __init__(self, model: str = "") -> None:
        super().__init__()
        self._asked = model
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._thoughts_name = _THOUGHTS[0]
        self._details: dict[int, dict[str, Any]] = {}
        self._calls = _Calls()
        self._finish = self._id = self._model = self._tier = ""
        self._error: Complaint | None = None
        self._usage = UsageFrames()
        self._frames = 0
        self._done = self._broken = self._is_whole = False

    @property
    def complete(self) -> bool:
        """Whether `[DONE]` or an error came."""
        return self._done or self._error is not None

    def feed(self, event: str, data: str) -> list[Delta]:
        """Take in a chunk."""
        if data.strip() == _DONE:
            self._done = True
            return []
        chunk = object_of(data)
        if chunk is None:
            self._broken = self._broken or bool(data.strip())
            return []
        return self._take(chunk, "delta", is_error=event == "error")

    def whole(self, body: str) -> list[Delta]:
        """Take in a whole response."""
        self._is_whole = True
        found = object_of(body)
        if found is None:
            self._broken = bool(body.strip())
            return []
        self._done = True
        return self._take(found, "message")

    def _take(self, chunk: dict[str, Any], holder: str, *, is_error: bool = False) -> list[Delta]:
        self._frames += 1
        choices = list_of(chunk.get("choices"))[:1]
        self._head(chunk, choices[0] if choices else {})
        deltas: list[Delta] = []
        for choice in choices:
            deltas += self._said(dict_of(choice.get(holder)))
            self._finish = name_of(choice.get("finish_reason")) or self._finish
            self._error = self._error or complaint_of(choice)
        self._error = self._error or complaint_of(chunk)
        if self._error is None and is_error:
            self._error = Complaint(word_of(chunk.get("message")) or msgspec.json.encode(chunk).decode())
        return deltas

    def _head(self, chunk: dict[str, Any], choice: dict[str, Any]) -> None:
        self._id = name_of(chunk.get("id")) or self._id
        self._model = name_of(chunk.get("model")) or self._model
        self._tier = name_of(chunk.get("service_tier")) or self._tier
        for at, holder in (
            ("usage", chunk), ("choices.usage", choice), ("x_groq.usage", dict_of(chunk.get("x_groq"))),
        ):  # fmt: skip
            self._usage.add(at, holder.get("usage"), self._frames)

    def _said(self, delta: dict[str, Any]) -> list[Delta]:
        text, thought = _content(delta.get("content"))
        deltas = []
        for name in _THOUGHTS:
            said = delta.get(name)
            if isinstance(said, str) and said:
                self._thoughts_name, thought = name, said
                break
        if thought:
            self._thoughts.append(thought)
            deltas.append(Delta("thinking", thought))
        for detail in list_of(delta.get("reasoning_details")):
            self._detailed(detail)
        text = text or word_of(delta.get("refusal"))
        if text:
            self._texts.append(text)
            deltas.append(Delta("text", text))
        calls = list_of(delta.get("tool_calls"))
        return deltas + [self._calls.take(part, whole=self._is_whole) for part in calls]

    def _detailed(self, detail: dict[str, Any]) -> None:
        """Take in a piece of OpenRouter's `reasoning_details`: texts of one index are joined, the rest is the last."""
        index = detail.get("index")
        kept = self._details.setdefault(index if type(index) is int else len(self._details), {})
        for name, value in detail.items():
            joins = name in ("text", "summary", "data") and isinstance(value, str)
            kept[name] = word_of(kept.get(name)) + value if joins else value

    def finish(self) -> Answer:
        """Return what has arrived."""
        error = self._error or Complaint("")
        return Answer(
            self._message(), self._finish, self._cut(), error.text, self._usage.all, self._id, self._model, self._tier,
            error.status,
        )  # fmt: skip

    def _cut(self) -> str:
        if self._error is not None or self._finish == "error":
            return "error_frame"
        if self._broken:
            return "not_json"
        if self._is_whole and self._frames:
            return self.spoilt or ("" if self._finish or self._said_something else "no_finish")
        if not self._frames and not self._done:
            return "empty"
        if not self._finish:
            return self.spoilt or "no_finish"
        return self.spoilt or ("" if self._done else "no_done")

    @property
    def _said_something(self) -> bool:
        return bool(self._texts or self._calls.all)

    def _message(self) -> Message | None:
        parts: list[Part] = []
        thoughts = "".join(self._thoughts)
        if self._details:
            parts.append(self._opaque({"reasoning_details": [one for _, one in sorted(self._details.items())]}))
        elif thoughts:
            parts.append(self._opaque({self._thoughts_name: thoughts}))
        if any(call.extra for call in self._calls.all):
            parts.append(self._opaque({"tool_calls": [call.extra for call in self._calls.all]}))
        if self._texts:
            parts.append(Text("".join(self._texts)))
        for number, call in enumerate(self._calls.all):
            parts.append(Call(call.id or f"call_{number}", call.name, call.arguments or "{}"))
        return Message("assistant", tuple(parts)) if parts else None

    def _opaque(self, fields: dict[str, Any]) -> Opaque:
        return Opaque(NAME, msgspec.Raw(msgspec.json.encode(fields)), self._asked)


def _content(content: object) -> tuple[str, str]:
    """Return text and thought of a content: a text, or a list of parts."""
    if not isinstance(content, list):
        return word_of(content), ""
    texts = [word_of(part.get("text")) for part in list_of(content)]
    thoughts = [_content(part.get("thinking"))[0] for part in list_of(content) if part.get("type") == "thinking"]
    return "".join(texts), "".join(thoughts)
