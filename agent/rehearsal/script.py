"""What a rehearsed model says: a TOML file of steps and faults, which `docs/rehearsal.md` describes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec

from ledger.errors import UsageError

DEMO = Path(__file__).with_name("demo.toml")
"""The rehearsal of `ledger demo`: its workspace has a failing test, and its steps mend it."""


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of a step."""

    tool: str
    arguments: dict[str, Any] | None = None
    raw: str | None = None
    """The text of the arguments, where they shall be no JSON."""
    id: str = ""
    """Empty: drawn from the conversation, so that the same conversation gets the same id."""

    @property
    def text(self) -> str:
        """The arguments as the model writes them."""
        return self.raw if self.raw is not None else msgspec.json.encode(self.arguments or {}).decode()


class Counts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens that an answer reports."""

    input: int = 0
    """Everything that was read: cached, written to the cache, and neither."""
    output: int = 0
    """Everything that was written, reasoning included."""
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    raw: dict[str, Any] | None = None
    """The provider's usage object itself, sent as it is."""


Send = Literal["nothing", "html", "cut_json", "invalid_utf8", "endless", "no_done", "no_finish", "empty"]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one attempt gets instead of the answer.

    It has one of `status`, `cut_after`, `error_frame`, `stall_after`, `send`; `html` may come with a status.
    """

    status: int | None = None
    body: str | None = None
    """What comes with the status; None: the error object of the protocol."""
    retry_after: str | int | float | None = None
    """The Retry-After header: seconds, or a date as text."""
    retry_at_seconds: float | None = None
    """The Retry-After header as the date so many seconds from now."""
    cut_after: int | None = None
    """The line is cut after so many frames; of a whole answer, in the middle of its body."""
    cut: Literal["reset", "close", "end"] = "close"
    """`reset`: TCP reset; `close`: closed without an end of the body; `end`: the body ends as if it were complete."""
    error_frame: str | None = None
    """The text of an error inside a 200."""
    after: int = 1
    """How many frames come before the error."""
    stall_after: int | None = None
    """Nothing more comes after so many frames, and the line stays open."""
    send: Send | None = None
    delay_ms: float = 0
    times: int = 1
    """How many attempts get it."""
    always: bool = False
    """Every attempt from here on gets it."""

    @property
    def kind(self) -> str:
        """Its name in the record of requests."""
        if self.send is not None:
            return self.send
        if self.cut_after is not None:
            return f"cut_{self.cut}"
        if self.error_frame is not None:
            return "error_frame"
        return "stall" if self.stall_after is not None else f"status_{self.status}"


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    faults: tuple[Fault, ...] = ()
    usage: Literal["counted", "missing", "zero"] | Counts = "counted"
    delay_ms: float = 0
    frame_delay_ms: float = 0
    model: str = ""
    """Only for requests for this model."""
    turn: int | None = None
    """Only after this many user messages, counted from 1."""
    repeat: bool = False
    """It answers for ever."""
    echo: bool = False
    """Its text is followed by the text of the last tool result."""
    finish: str = ""
    """The finish reason in words of chat completions, such as `length`; empty: what the answer is."""
    answered_by: str = ""
    """The model that the answer names; empty: the one that was asked for."""

    def fault(self, attempt: int) -> Fault | None:
        """Return what attempt number `attempt`, counted from 0, gets instead of the answer."""
        for fault in self.faults:
            if fault.always or attempt < fault.times:
                return fault
            attempt -= fault.times
        return None


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole rehearsal."""

    step: tuple[Step, ...]
    models: tuple[str, ...] = ()
    """Others do not exist; empty: every name does."""
    key: str = ""
    """The key that requests must have; empty: none is asked for."""
    prompt: str = ""
    """What to ask the agent, for whoever plays it."""
    files: dict[str, str] = {}
    """The workspace that it is about: path -> text."""

    @staticmethod
    def load(path: Path) -> Script:
        """Read a script. Raises UsageError that names the file and the line or the step."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no UTF-8"
            raise UsageError(f"{path}: cannot be read: {reason}: give the TOML file of a rehearsal") from None
        return Script.parse(text, str(path))

    @staticmethod
    def parse(text: str, name: str = "script") -> Script:
        """Read a script's text; `name` is what errors call it. Raises UsageError."""
        try:
            script = msgspec.convert(tomllib.loads(text), Script)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{name}: is no TOML: {error}: see docs/rehearsal.md") from None
        except msgspec.ValidationError as error:
            raise UsageError(f"{name}: {_told(str(error))}: see docs/rehearsal.md") from None
        wrong = next(_problems(script), None)
        if wrong is not None:
            raise UsageError(f"{name}: {wrong}")
        return script

    def at(self, model: str, turn: int, position: int) -> tuple[int, Step] | None:
        """Return the step that answers, with its number in the file from 1; None where the script has ended.

        `turn` is how many user messages there were, `position` how many assistant messages stand after the last of
        them. Of the steps that are for this model and turn, in the order of the file, it is the one at the position.
        """
        fitting = [
            (number, step)
            for number, step in enumerate(self.step, 1)
            if step.model in ("", model) and step.turn in (None, turn)
        ]
        if position < len(fitting):
            return fitting[position]
        return fitting[-1] if fitting and fitting[-1][1].repeat else None

    def unpack(self, folder: Path) -> None:
        """Write the script's files below a folder."""
        for name, text in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def _told(error: str) -> str:
    """Return msgspec's words with people's numbers: `$.step[0].faults[1]` is step 1, fault 2."""
    words, _, path = error.partition(" - at `$.")
    if not path:
        return words
    names = re.sub(r"\[(\d+)\]", lambda found: f" {int(found[1]) + 1}", path.rstrip("`"))
    return f"{names.replace('.', ', ')}: {words}"


def _problems(script: Script) -> Iterator[str]:
    """Yield what is wrong with a script whose types are right."""
    if not script.step:
        yield "step: has none: add a [[step]]"
    for name in script.files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name:
            yield f"files, {name}: leaves the workspace: give a path below it, with /"
    ended: set[tuple[str, int | None]] = set()
    for number, step in enumerate(script.step, 1):
        told = f"step {number}"
        if step.model and script.models and step.model not in script.models:
            yield f"{told}: model {step.model} is not among models: add it there"
        if (step.model, step.turn) in ended:
            yield f"{told}: comes after one with repeat, which answers for ever: let that be the last"
        if step.repeat:
            ended.add((step.model, step.turn))
        if step.delay_ms < 0 or step.frame_delay_ms < 0:
            yield f"{told}: a delay is below 0"
        for place, call in enumerate(step.calls, 1):
            if call.raw is not None and call.arguments is not None:
                yield f"{told}, call {place}: has arguments and raw: give one"
        for place, fault in enumerate(step.faults, 1):
            for wrong in _fault_problems(fault):
                yield f"{told}, fault {place}: {wrong}"


def _fault_problems(fault: Fault) -> Iterator[str]:
    said = [fault.cut_after, fault.error_frame, fault.stall_after, fault.send, fault.status]
    kinds = sum(one is not None for one in said)
    if kinds != 1 and not (kinds == 2 and fault.send == "html" and fault.status is not None):
        yield "give one of status, cut_after, error_frame, stall_after, send"
    if fault.status is not None and not 200 <= fault.status <= 599:
        yield f"status {fault.status}: is none: give 200 to 599"
    if fault.retry_after is not None and fault.retry_at_seconds is not None:
        yield "has retry_after and retry_at_seconds: give one"
    if min(fault.cut_after or 0, fault.stall_after or 0, fault.after, fault.delay_ms) < 0:
        yield "a number is below 0"
    if fault.times < 1:
        yield "times is below 1"
