"""Reads an answer of Anthropic's messages. Format: the API reference, "Streaming messages" and "Errors".

A stream comes to its proper end with `message_stop` behind a stop reason: without the `message_delta` that says the
reason the final usage is missing too. A response that is not streamed has come to its end when its JSON has, with a
content in it. Usage stands in `message_start`, and cumulative in `message_delta`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.wire.complaints import Complaint, complaint_of
from ledger.wire.conversation import Call, Message, Opaque, Part, Text
from ledger.wire.counted import UsageFrames
from ledger.wire.protocols import Answer, Assembler, Delta
from ledger.wire.shapes import dict_of, list_of, name_of, object_of, word_of

NAME = "anthropic"
_PIECES = {
    # The type of a delta -> the type of its block, the field that it adds to, what it is to whoever listens.
    "text_delta": ("text", "text", "text"),
    "input_json_delta": ("tool_use", "partial_json", "call"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("thinking", "signature", ""),
}


class _Block:
    """A content block in the making."""

    def __init__(self, begun: dict[str, Any]) -> None:
        self._begun = begun
        self._pieces: dict[str, list[str]] = {}

    def add(self, field: str, text: str) -> None:
        self._pieces.setdefault(field, []).append(text)

    def part(self, model: str) -> Part | None:
        """Return what has arrived of it, None where that is nothing."""
        kind, text = self._begun.get("type"), self._text("text")
        if kind == "text":
            return Text(text) if text else None
        if kind == "tool_use":
            arguments = "".join(self._pieces.get("partial_json", ()))
            arguments = arguments or msgspec.json.encode(self._begun.get("input") or {}).decode()
            return Call(name_of(self._begun.get("id")) or "call_0", name_of(self._begun.get("name")), arguments)
        if not isinstance(kind, str) or not kind:
            return None
        whole = self._begun | {field: self._text(field) for field in self._pieces if field != "partial_json"}
        if "partial_json" in self._pieces:  # what the server's own tools are called with
            whole["input"] = object_of("".join(self._pieces["partial_json"])) or {}
        return Opaque(NAME, msgspec.Raw(msgspec.json.encode(whole)), model)

    def _text(self, field: str) -> str:
        return word_of(self._begun.get(field)) + "".join(self._pieces.get(field, ()))


class MessagesReading(Assembler):
    """Puts one answer together. `model` is what was asked."""

    def __init__(self, model: str = "") -> None:
        super().__init__()
        self._asked = model
        self._blocks: dict[int, _Block] = {}
        self._finish = self._id = self._model = self._tier = ""
        self._error: Complaint | None = None
        self._usage = UsageFrames()
        self._frames = 0
        self._stopped = self._broken = self._is_whole = False

    @property
    def complete(self) -> bool:
        """Whether `message_stop` or an error came."""
        return self._stopped or self._error is not None

    def feed(self, event: str, data: str) -> list[Delta]:
        """Take in an event."""
        frame = object_of(data)
        if frame is None:
            self._broken = self._broken or bool(data.strip())
            return []
        self._frames += 1
        kind = word_of(frame.get("type")) or event
        if self._is_error(frame, kind):
            return []
        if kind == "content_block_start":
            return self._begun(_index(frame), dict_of(frame.get("content_block")))
        if kind == "content_block_delta":
            return self._said(_index(frame), dict_of(frame.get("delta")))
        if kind == "message_start":
            message = dict_of(frame.get("message"))
            self._head(message)
            self._counted(message, "message.usage", kind)
        elif kind == "message_delta":
            self._finish = name_of(dict_of(frame.get("delta")).get("stop_reason")) or self._finish
            self._counted(frame, "usage", kind)
        elif kind == "message_stop":
            self._stopped = True
        return []

    def whole(self, body: str) -> list[Delta]:
        """Take in a whole response."""
        self._is_whole = True
        found = object_of(body)
        if found is None:
            self._broken = bool(body.strip())
            return []
        self._frames += 1
        if self._is_error(found, word_of(found.get("type"))):
            return []
        self._stopped = isinstance(found.get("content"), list)
        self._head(found)
        self._counted(found, "usage", "")
        self._finish = name_of(found.get("stop_reason"))
        return [
            delta for number, block in enumerate(list_of(found.get("content"))) for delta in self._begun(number, block)
        ]

    def _is_error(self, frame: dict[str, Any], kind: str) -> bool:
        self._error = self._error or complaint_of(frame)
        if self._error is None and kind == "error":
            self._error = Complaint(msgspec.json.encode(frame).decode())
        return self._error is not None

    def _head(self, message: dict[str, Any]) -> None:
        self._id, self._model = name_of(message.get("id")), name_of(message.get("model"))

    def _counted(self, holder: dict[str, Any], at: str, event: str) -> None:
        usage = holder.get("usage")
        self._tier = name_of(dict_of(usage).get("service_tier")) or self._tier
        self._usage.add(at, usage, self._frames, event)

    def _begun(self, index: int, block: dict[str, Any]) -> list[Delta]:
        self._blocks[index] = _Block(block)
        kind = block.get("type")
        if kind == "tool_use":
            arguments = block.get("input")
            return [Delta("call", msgspec.json.encode(arguments).decode() if arguments else "")]
        text = word_of(block.get(kind)) if kind in ("text", "thinking") else ""
        return [Delta(kind, text)] if text and isinstance(kind, str) else []

    def _said(self, index: int, delta: dict[str, Any]) -> list[Delta]:
        kind, field, heard = _PIECES.get(word_of(delta.get("type")), ("", "", ""))
        text = word_of(delta.get(field))
        if not text:
            return []
        self._blocks.setdefault(index, _Block({"type": kind})).add(field, text)
        return [Delta(heard, text)] if heard else []

    def finish(self) -> Answer:
        """Return what has arrived."""
        parts = [part for _, one in sorted(self._blocks.items()) if (part := one.part(self._asked)) is not None]
        message, error = Message("assistant", tuple(parts)) if parts else None, self._error or Complaint("")
        return Answer(
            message, self._finish, self._cut(), error.text, self._usage.all, self._id, self._model, self._tier,
            error.status,
        )  # fmt: skip

    def _cut(self) -> str:
        if self._error is not None:
            return "error_frame"
        if self._broken:
            return "not_json"
        if not self._frames:
            return "empty"
        return self.spoilt or ("" if self._stopped and (self._finish or self._is_whole) else "no_finish")


def _index(frame: dict[str, Any]) -> int:
    index = frame.get("index")
    return index if type(index) is int else 0
