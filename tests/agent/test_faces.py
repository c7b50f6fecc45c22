"""What faces write: harmless, whatever a model says, and without ever stopping a run themselves."""

from __future__ import annotations

import errno
import io
import json

import pytest

from agent.faces.face import fitting, one_line, why
from agent.faces.json_face import json_line
from agent.faces.output import Output
from agent.faces.text import _gist, _safe_lines, _time
from agent.result import failure


class Broken(io.StringIO):
    """A stream that takes nothing."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error, self.asked = error, 0

    def write(self, text: str) -> int:
        self.asked += 1
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "gone")])
def test_a_stream_that_breaks_is_told_of_once(error: OSError) -> None:
    """Writing never raises: inside of an exchange that would look like a failure of the network."""
    broken, told = Broken(error), []
    output = Output(broken)
    output.on_error = lambda: told.append(1)
    for _ in range(3):
        output.put("x")
    assert (output.error, told, broken.asked) == (error, [1], 1)


def test_an_encoding_that_lacks_a_sign() -> None:
    raw = io.BytesIO()
    output = Output(io.TextIOWrapper(raw, encoding="ascii"))
    output.put("größe · 5\n")
    assert (raw.getvalue(), output.error) == (b"gr??e ? 5\n", None)


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    output = Output(stream)
    assert not output.is_terminal
    output.put("x")
    assert isinstance(output.error, ValueError)


@pytest.mark.parametrize("text", ["plain", "größe 🐈", "\u2028", "a\ud83d", "\ude00 b", "\ud83d\ude00", "\x1b[2J\x00"])
def test_a_line_of_json_is_one_line_of_utf8(text: str) -> None:
    """OBS-40: whatever a model says, half of a surrogate pair too, is JSON that everybody can read."""
    line = json_line({"text": text})
    assert line.count("\n") == 1 and line.endswith("\n")
    found = json.loads(line.encode("utf-8"))["text"]
    assert found == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_nothing_reaches_a_terminal_that_steers_it() -> None:
    """Control characters and signs that turn the direction of text are shown as escapes; lines and tabs stay."""
    assert _safe_lines("a\n\tb\x1b[31m\u202ec\r") == "a\n\tb\\x1b[31m\\u202ec\\x0d"
    assert fitting("a\nb\x07", on_terminal=False) == "a\\x0ab\\x07"


def test_a_long_line_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = fitting("· " + "word " * 60, on_terminal=True)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.splitlines()[1].startswith("  word")
    assert "\n" not in fitting("· " + "word " * 60, on_terminal=False)


@pytest.mark.parametrize(
    ("arguments", "gist"),
    [
        ('{"path": "a.py", "limit": 20}', "a.py 20"),
        ("{}", ""),
        ("{not json", "{not json"),
        ("[1]", "[1]"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_call_in_few_words(arguments: str, gist: str) -> None:
    assert _gist(arguments) == gist


def test_times_and_lines() -> None:
    assert [_time(us) for us in (1_000, 949_999, 950_000, 61_000_000)] == ["1 ms", "949 ms", "0.9 s", "61.0 s"]
    assert one_line(" a\n b " * 50, 10) == "a b a b a…"


def test_a_run_that_could_not_begin_has_the_same_object() -> None:
    """Item 7: without a session nothing was used; of one that cannot be read it is not known, and not 0."""
    fresh = failure("", "no model", "usage", view=None)
    known = failure("0193", "the log is locked", "log", view=None)
    assert list(fresh) == list(known)
    assert set(fresh["usage"].values()) == {0} and fresh["cost_usd"] == 0.0
    assert set(known["usage"].values()) == {None} and known["cost_usd"] is None
    assert why(known) == "error (log): the log is locked"
