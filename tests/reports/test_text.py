"""Text on a terminal: nothing of a log steers it, columns stand under each other, figures are never cut."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.cli import run
from reports.text import Column, safe, shortened, shortened_path, table, terminal_columns, width

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "reports" / "sample"
CASES = ROOT / "tests" / "cases"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
"""What our own output may hold on a terminal: colours, and nothing that moves or asks."""


# control characters


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, *range(0x80, 0xA0)])
def test_control_characters_are_shown(code: int) -> None:
    """C0, DEL and C1, each as the escape that a programmer reads."""
    assert safe(chr(code)) == f"\\x{code:02x}"
    assert safe(f"a{chr(code)}é") == f"a\\x{code:02x}é"


@pytest.mark.parametrize(
    "code",
    [code for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in
     ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")] + [0x200E, 0x200F, 0x061C],
)  # fmt: skip
def test_signs_that_turn_the_direction_are_shown(code: int) -> None:
    """A name can pass for another: every bidirectional control becomes its code point."""
    assert safe(f"a{chr(code)}b") == f"a\\u{code:04x}b"


@pytest.mark.parametrize(
    "code",
    [0xAD, 0x115F, 0x1160, 0x180E, *range(0x200B, 0x200E), 0x2028, 0x2029, *range(0x2060, 0x2070), 0x3164, 0xFEFF,
     0xFFA0, 0xFFF9, 0xFFFA, 0xFFFB, 0xE0001, *range(0xE0020, 0xE0080)],
)  # fmt: skip
def test_signs_that_hide_are_shown(code: int) -> None:
    """What takes no room, breaks a line or looks like a space becomes its code point."""
    assert safe(f"a{chr(code)}b") == (f"a\\u{code:04x}b" if code < 0x10000 else f"a\\U{code:08x}b")


def test_half_a_character_is_replaced() -> None:
    """A log may hold a lone surrogate, which no terminal's encoding has."""
    assert safe("a\ud800b\udfff") == "a\ufffdb\ufffd"


@pytest.mark.parametrize("text", ["", "plain", "Grüße", "проект", "日本語 コスト", "e\u0301", "🙂", "مشروع", "a\\x1b"])
def test_what_people_write_stays(text: str) -> None:
    assert safe(text) == text


@settings(max_examples=300)
@given(st.text())
def test_any_text_is_harmless_afterwards(text: str) -> None:
    """One line, encodable, without a control character; and once is enough."""
    shown = safe(text)
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in shown)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")
    assert safe(shown) == shown


# widths


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("日本語", 6),
        ("ﾊﾝｶｸ", 4),
        ("ＡＢ", 4),
        ("한글", 4),
        ("\u1112\u1161\u11ab", 2),  # the same syllable in three parts
        ("नमस्ते", 4),
        ("…", 1),
        ("─", 1),
        ("🙂", 2),
        ("❤\ufe0f", 1),
    ],
)
def test_how_wide_a_text_is(text: str, columns: int) -> None:
    """Wide signs take two columns, combining ones none."""
    assert width(text) == columns


@settings(max_examples=300)
@given(st.text(st.characters(codec="utf-8")), st.integers(1, 30))
def test_shortening_fits_and_says_so(text: str, room: int) -> None:
    """What is cut has an ellipsis at the cut; what fits is left alone."""
    for cut, kept in ((shortened, str.startswith), (shortened_path, str.endswith)):
        short = cut(text, room)
        assert width(short) <= room
        if width(text) <= room:
            assert short == text
        else:
            assert "…" in (short[-1:] if cut is shortened else short[:1])
            assert kept(text, short.strip("…") if "…" not in text else "")
            # a wide sign that does not fit leaves one column free, not more
            assert width(short) >= room - 1


def test_a_long_path_is_shortened_in_no_time() -> None:
    """Names from a log may be as long as they like."""
    assert shortened_path("/日本" * 200_000, 9) == "…本/日本"
    assert shortened("/日本" * 200_000, 9) == "/日本/日…"


# tables


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A function that sets how wide the terminal is."""
    return lambda wide: monkeypatch.setenv("COLUMNS", str(wide))


FIGURES = st.from_regex(r"(>= |<= )?[0-9]{1,3}(,[0-9]{3}){0,2}(\.[0-9]{2})?|unknown|-", fullmatch=True)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), room=st.sampled_from([40, 60, 80, 120]))
def test_a_table_fits_and_cuts_no_figure(data: st.DataObject, room: int) -> None:
    """Columns of the highest rank go first, then texts are cut down to eight columns; figures stand whole."""
    ranks = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=8))
    shape = [Column("name", path=data.draw(st.booleans()))]
    shape += [Column(f"f{place}", right=True, rank=rank) for place, rank in enumerate(ranks)]
    count = data.draw(st.integers(0, 4))
    texts = st.text(st.characters(codec="utf-8"), max_size=90)
    rows = [[data.draw(texts), *(data.draw(FIGURES) for _ in ranks)] for _ in range(count)]
    total = ["total", *(data.draw(FIGURES) for _ in ranks)] if data.draw(st.booleans()) else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(room))
        lines = table(shape, rows, total).split("\n")
    assert len(lines) == 1 + count + (2 if total else 0)

    every = [row[1:] for row in [*rows, *([total] if total else [])]]
    widths = [max(len(title) for title in (column.title, *cells)) for column, *cells in
              zip(shape[1:], *every, strict=True)]  # fmt: skip
    kept = [place for place, column in enumerate(shape[1:]) if column.title in lines[0].split()]
    least = min(8, max(width(safe(row[0])) for row in [["name"], *rows, *([total] if total else [])]))
    needed = least + sum(2 + widths[place] for place in kept)
    assert all(width(line) <= max(room, needed) for line in lines)
    if needed > room:
        assert not any(shape[1 + place].rank for place in kept), "a column that may go is in the way"
    left_out = {ranks[place] for place in range(len(ranks)) if place not in kept}
    assert all(ranks[place] <= min(left_out) for place in kept) if left_out else True
    for line, cells in zip([line for line in lines[1:] if not line.startswith("─")], every, strict=True):
        assert line.endswith("  ".join(f"{cells[place]:>{widths[place]}}" for place in kept))


def test_columns_stand_under_each_other(columns: Callable[[int], None]) -> None:
    """Also where names are Japanese or have accents of their own."""
    columns(80)
    rows = [["日本語", "1"], ["e\u0301te\u0301", "22"], ["plain", "333"], ["a\x1b[31mb", "4"]]
    lines = table([Column("name"), Column("n", right=True)], rows).splitlines()
    assert {width(line) for line in lines} == {width("a\\x1b[31mb") + 2 + 3}
    assert "\x1b" not in "".join(lines)


def test_a_table_without_rows(columns: Callable[[int], None]) -> None:
    columns(80)
    assert table([Column("name"), Column("n", right=True)], []) == "name  n"


@pytest.mark.parametrize(("told", "wide"), [("80", 80), ("10", 40), ("0", 40), ("", 10_000), ("²", 10_000),
                                            ("-3", 10_000), ("9" * 5000, 10_000)])  # fmt: skip
def test_columns_may_be_nonsense(monkeypatch: pytest.MonkeyPatch, told: str, wide: int) -> None:
    """COLUMNS is what the environment says; into a pipe nothing is left out without it."""
    monkeypatch.setenv("COLUMNS", told)
    assert terminal_columns() == wide


# whole programs


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log with the sample and a tree with sub-agents, to look at."""
    path = str(tmp_path_factory.mktemp("text") / "ledger.db")
    for home in (SAMPLE, CASES / "real-claude-code" / "sub-agents", CASES / "real-codex" / "sub-agents"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", open(os.devnull, "w"))  # noqa: SIM115, PTH123
            assert run(["import", "--home", str(home), "--db", path]) == 0
            sys.stdout.close()
    return path


SHOWN = [
    ["report"],
    ["report", "--by", "day,client"],
    ["report", "--by", "model"],
    ["show", "3f2b"],
    ["verify"],
    ["import", "--home", str(SAMPLE)],
]


@pytest.mark.parametrize("command", SHOWN, ids=" ".join)
@pytest.mark.parametrize("wide", [80, 60])
def test_what_commands_print_fits(
    command: list[str], wide: int, database: str, columns: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables of real logs at the width of a terminal; notes below a table are sentences and wrap by themselves."""
    columns(wide)
    assert run([*command, "--db", database]) == 0
    lines = capsys.readouterr().out.splitlines()
    tabular = [
        line for line in lines if not re.search(r"request.? |checks hold|session ", line) or "  " in line.strip()
    ]
    assert len(tabular) >= 3
    assert max(width(line) for line in tabular) <= wide


@pytest.mark.parametrize("command", [["report"], ["import", "--home", str(SAMPLE)], ["show", "3f2b"]], ids=" ".join)
def test_forty_columns_are_enough_for_the_figures(
    command: list[str], database: str, columns: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A phone's width: names are cut, the sums stand."""
    columns(10_000)
    assert run([*command, "--db", database]) == 0
    whole = capsys.readouterr().out
    columns(40)
    assert run([*command, "--db", database]) == 0
    narrow = capsys.readouterr().out
    rule = next(line for line in narrow.splitlines() if line.startswith("─"))
    assert len(rule) <= 40 + 6  # eight columns of name and the sums of this log
    last = narrow.splitlines()[narrow.splitlines().index(rule) + 1]
    total = next(line for line in whole.splitlines() if line.startswith("total"))
    for figure in re.findall(r"(?:>= )?[0-9][0-9,.]*", last):
        assert figure in total


class Terminal:
    """Runs a command on a terminal of its own, or in a pipe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str, wide: int = 100, on_terminal: bool = True, **environment: str) -> str:
        """Return everything that the command wrote, standard output and error together."""
        names = ("NO_COLOR", "COLUMNS", "TERM", "TALLYBOOK_DB", "FORCE_COLOR")
        env = {name: value for name, value in os.environ.items() if name not in names}
        env |= {"TERM": "xterm-256color", "HOME": str(self.folder), "TZ": "UTC", **environment}
        call = [sys.executable, "-P", "-m", "ledger", *command]
        if not on_terminal:
            return subprocess.run(call, env=env, capture_output=True, text=True, timeout=60, check=False).stdout
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, wide, 0, 0))
        child = subprocess.Popen(call, env=env, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        pieces = []
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other side is closed: Linux says so by an error
                break
            if not piece:
                break
            pieces.append(piece)
        os.close(master)
        assert child.wait(timeout=60) in (0, 1, 2)
        return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """A terminal in an empty home."""
    return Terminal(tmp_path)


@pytest.mark.parametrize("command", [["report"], ["show", "3f2b"], ["verify"]], ids=" ".join)
def test_colours_on_a_terminal_and_nowhere_else(command: list[str], database: str, terminal: Terminal) -> None:
    """Bold headings on a terminal; none with NO_COLOR, on a dumb terminal, or in a pipe."""
    coloured = terminal.run(*command, "--db", database)
    assert "\x1b[1m" in coloured
    assert "\x1b" not in ESCAPE.sub("", coloured)
    assert coloured.count("\x1b[0m") == len(ESCAPE.findall(coloured)) / 2
    plain = ESCAPE.sub("", coloured)
    assert terminal.run(*command, "--db", database, NO_COLOR="1") == plain
    assert terminal.run(*command, "--db", database, TERM="dumb") == plain
    assert "\x1b[1m" in terminal.run(*command, "--db", database, NO_COLOR="")  # no-color.org: only where not empty
    piped = terminal.run(*command, "--db", database, on_terminal=False)
    assert "\x1b" not in piped


def test_the_terminal_s_own_width_counts(database: str, terminal: Terminal) -> None:
    for wide in (50, 90):
        lines = ESCAPE.sub("", terminal.run("report", "--by", "model", "--db", database, wide=wide)).splitlines()
        rule = next(line for line in lines if line.startswith("─"))
        assert wide - 20 <= len(rule) <= wide
        assert max(map(width, lines[: lines.index(rule) + 2])) <= wide


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {}], ids=str)
def test_help_and_errors_have_no_colour(environment: dict[str, str], terminal: Terminal) -> None:
    for command in (["--help"], ["report", "--help"], ["report", "--nonsense"], ["report", "--by", "x"]):
        assert "\x1b" not in terminal.run(*command, **environment)


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj\r\nx"


def hostile_home(folder: Path) -> Path:
    """Write a session of which every name tries to steer the terminal."""
    session = f"5e55{HOSTILE}"
    usage = {"input_tokens": 1, "output_tokens": 1}
    call = {
        "type": "tool_use",
        "id": f"toolu{HOSTILE}",
        "name": "Agent",
        "input": {"subagent_type": f"Explore{HOSTILE}"},
    }
    common = {"sessionId": session, "cwd": f"/home/{HOSTILE}", "gitBranch": HOSTILE, "version": HOSTILE}
    lines = [
        {"type": "user", "uuid": f"u{HOSTILE}", "message": {"role": "user", "content": HOSTILE}},
        {"type": "assistant", "uuid": "a1", "requestId": f"req{HOSTILE}", "message": {
            "id": f"msg{HOSTILE}", "model": f"model{HOSTILE}", "usage": usage, "stop_reason": HOSTILE,
            "content": [call]}},
        {"type": "assistant", "uuid": "a2", "isApiErrorMessage": True, "apiErrorStatus": 500, "message": {
            "id": f"err{HOSTILE}", "model": "<synthetic>", "usage": usage, "content": HOSTILE}},
        {"type": "user", "uuid": "u2", "toolUseResult": {"agentId": f"a{HOSTILE}", "status": HOSTILE}, "message": {
            "role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu{HOSTILE}"}]}},
        {"type": "assistant", "uuid": "a3", "agentId": f"a{HOSTILE}", "isSidechain": True, "message": {
            "id": f"sub{HOSTILE}", "model": f"model{HOSTILE}", "usage": usage, "content": []}},
    ]  # fmt: skip
    root = folder / ".claude" / "projects" / "x\x1b[31m"
    root.mkdir(parents=True)
    text = "".join(json.dumps({"timestamp": "2026-11-01T12:00:00Z", **common, **line}) + "\n" for line in lines)
    (root / "hostile\x1b[2J.jsonl").write_text(text + '{"torn\x1b[31m": ')
    return folder


@pytest.mark.parametrize("format_", ["table", "json", "csv"])
def test_a_hostile_log_steers_no_terminal(format_: str, tmp_path: Path, terminal: Terminal) -> None:
    """Names of a log, and the names of its files, reach the terminal as text, whatever the command and the format."""
    home = str(hostile_home(tmp_path / "home"))
    database = str(tmp_path / "ledger.db")
    dimensions = "session,project,branch,client,who,agent,provider,model,kind,tool,status"
    commands = [
        ["import", "--home", home],
        ["report", "--by", dimensions],
        ["show", "5e55"],
        ["verify", "--full"],
        ["tail"],
        ["doctor", "--home", home],
        ["prices", "list"],
        ["show", "nobody\x1b[31m"],
        ["report", "--session", "\x1b[31m"],
    ]
    seen = ""
    for command in commands:
        text = ESCAPE.sub("", terminal.run(*command, "--db", database, "--format", format_, wide=10_000))
        assert {char for char in text if safe(char) != char} <= {"\n"}, command
        seen += text
    if format_ == "table":
        assert "\\x1b]0;owned" in seen
        assert "\x1b" not in ESCAPE.sub("", terminal.run("demo", "--sample", home, "--home", str(tmp_path)))
