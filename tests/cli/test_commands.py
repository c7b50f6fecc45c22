"""The command line: help that helps, errors of one line, and one meaning of a line whichever parser reads it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import __version__
from ledger.cli import run
from ledger.cli.commands import COMMANDS, GROUPS, LEDGER
from ledger.cli.parse import parse
from ledger.cli.program import Command, Option
from ledger.cli.typer_app import build
from ledger.log.log import Log

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "reports" / "sample")
EVERY_COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.name))
PASSWORD = "s3cr3t"


class Outcome:
    """What a command came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def line(self) -> str:
        """The one line on standard error; that there is one and nothing else is the point."""
        assert self.out == ""
        assert self.err.count("\n") == 1 and self.err.endswith("\n"), self.err
        assert self.err.startswith("ledger: ")
        assert "Traceback" not in self.err
        return self.err[len("ledger: ") : -1]


Ledger = Callable[..., Outcome]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ledger:
    """A function that runs a command line in an empty home, at 80 columns."""
    for name in ("TALLYBOOK_DB", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words: str) -> Outcome:
        code = run(list(words))
        return Outcome(code, *capsys.readouterr())

    return call


# help


@EVERY_COMMAND
def test_help(command: Command, ledger: Ledger) -> None:
    """What it does, an example, every option and argument with its words, within 80 columns, exit 0."""
    shown = ledger(*command.name, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert max(map(len, shown.out.splitlines())) <= 80
    words = " ".join(shown.out.split())
    assert command.help in words
    assert f"Example: {command.example}" in words
    for option in command.options:
        assert all(spelling in words for spelling in option.spellings())
        assert option.help in words
    for argument in command.arguments:
        assert argument.name.upper() in words
        assert argument.help in words


def test_every_command_and_option_is_documented() -> None:
    """Each says in a sentence what it is for; one word means one thing in all commands."""
    helps: dict[str, set[str]] = {}
    for command in COMMANDS:
        assert command.help.endswith(".") and len(command.help) > 15
        assert command.example.startswith(f"ledger {' '.join(command.name)}")
        names = [name for one in (command.options, command.arguments) for name in (each.name for each in one)]
        assert len(names) == len(set(names))
        for one in (*command.options, *command.arguments):
            assert one.help.endswith(".") or one.help.endswith("...")
        for option in command.options:
            helps.setdefault(option.spellings()[0], set()).add(option.help)
    for spelling in ("--db", "--format", "--home"):
        assert len(helps[spelling]) == 1
    assert all(command.name[0] in GROUPS for command in COMMANDS if len(command.name) > 1)


def test_every_command_takes_db_and_what_prints_figures_a_format() -> None:
    """`--db` for all that look at a log, `--format table|json|csv` for all that print figures."""
    without_log = {"demo", "usage read"}
    silent = {"init", "rebuild", "demo", "usage read", "prices set"}
    for command in COMMANDS:
        name, options = " ".join(command.name), {option.name for option in command.options}
        assert ("db" in options) == (name not in without_log)
        assert ("format" in options) == (name not in silent)


@EVERY_COMMAND
def test_the_example_of_the_help_can_be_run_as_it_stands(command: Command) -> None:
    """The words of an example are a command line that the fast parser takes."""
    parsed = parse(command.example.split()[1:], COMMANDS)
    assert parsed is not None
    assert parsed[0] == command


@pytest.mark.parametrize("words", [[], ["--help"], ["prices", "--help"], ["usage", "--help"], ["prices"]], ids=" ".join)
def test_help_of_the_whole(words: list[str], ledger: Ledger) -> None:
    """Each command with its whole sentence, within 80 columns. A group alone is no command: exit 2."""
    shown = ledger(*words)
    assert shown.code == (2 if words == ["prices"] else 0)
    text = shown.out + shown.err
    assert max(map(len, text.splitlines())) <= 80
    group = words[:1] if words and words[0] in GROUPS else []
    told = " ".join(text.split())
    for command in COMMANDS:
        if list(command.name[: len(group)]) == group and len(command.name) == len(group) + 1:
            assert f"{command.name[-1]} {command.help}" in told


def test_the_version(ledger: Ledger) -> None:
    for words in (["--version"], ["-V"]):
        assert ledger(*words).out == f"tallybook {__version__}\n"


# bad input


@EVERY_COMMAND
def test_an_unknown_option(command: Command, ledger: Ledger) -> None:
    """One line that names it and the help to look into; exit 2."""
    needed = ["x" for argument in command.arguments if argument.required]
    refused = ledger(*command.name, *needed, "--nonsense")
    assert refused.code == 2
    assert refused.line == f"no such option: --nonsense: see `ledger {' '.join(command.name)} --help`"


@EVERY_COMMAND
def test_a_missing_argument_or_one_too_many(command: Command, ledger: Ledger) -> None:
    told = f"see `ledger {' '.join(command.name)} --help`"
    needed = ["x" for argument in command.arguments if argument.required]
    if needed:
        refused = ledger(*command.name)
        assert (refused.code, refused.line) == (2, f"missing argument '{command.arguments[0].name.upper()}': {told}")
    if not any(argument.many for argument in command.arguments):
        refused = ledger(*command.name, *needed, "more")
        assert refused.code == 2
        assert "(more)" in refused.line and refused.line.endswith(told)


@EVERY_COMMAND
def test_an_option_without_its_value(command: Command, ledger: Ledger) -> None:
    needed = ["x" for argument in command.arguments if argument.required]
    for option in command.options:
        for spelling in option.spellings() if option.kind != "flag" else ():
            refused = ledger(*command.name, *needed, spelling)
            assert refused.code == 2
            assert spelling in refused.line and "requires an argument" in refused.line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("nonsense", "no such command 'nonsense': see `ledger --help`"),
        ("prices nonsense", "no such command 'nonsense': see `ledger prices --help`"),
        ("--nonsense", "no such option: --nonsense: see `ledger --help`"),
        ("report --by colour", "--by colour: unknown: use one or more of session, "),
        ("report --by ,", "--by: name at least one of session, "),
        ("report --sort name", "--sort name: unknown: use one of cost, tokens, time"),
        ("report --kind money", "--kind money: unknown: use one of model, tool, hook, approval"),
        ("report --tz Mars", "--tz Mars: unknown time zone: use a name such as UTC or Europe/Berlin"),
        ("report --since soon", "--since soon: not a day: use 2026-11-30, 2026-11, today, yesterday or 7d"),
        ("report --until -7d", "--until -7d: not a day: use "),
        ("report --since 2026-12 --until 2026-11", "--until is exclusive and must be later than --since: "),
        ("show x --tz Mars", "there is no ledger here"),
        ("import nonsense", "nonsense: unknown client: use one of claude-code, codex"),
        ("import --home /nowhere", "--home /nowhere: is not a folder: "),
        ("import --home ~nobody-here", "--home ~nobody-here: no such home folder: give the whole path"),
        ("import --billing free", "--billing free: unknown: use api or subscription"),
        ("demo --sample /nowhere", "--sample /nowhere: no sessions there: give a home folder that holds "),
        ("demo --sample ~nobody-here", "--sample ~nobody-here: no sessions there: "),
        ("demo --home /nowhere", "--home /nowhere: is not a folder: "),
        ("tail --lines many", "invalid value for '--lines'"),
        ("tail --lines " + "9" * 5000, "invalid value for '--lines'"),
        ("usage read /nowhere", "/nowhere"),
        ("prices set m", "a price for m needs a rate: add for example --input 1 --output 4"),
        ("prices set m --input cheap", "must be a decimal number, not 'cheap'"),
    ],
)  # fmt: skip
def test_bad_input(words: str, told: str, ledger: Ledger) -> None:
    """One clear line, exit 2, no traceback."""
    refused = ledger(*words.split())
    assert refused.code == 2
    assert told in refused.line


@EVERY_COMMAND
def test_a_format_that_there_is_not(command: Command, ledger: Ledger) -> None:
    """Refused before anything is read or made."""
    if "format" in {option.name for option in command.options}:
        needed = ["x" for argument in command.arguments if argument.required]
        refused = ledger(*command.name, *needed, "--format", "xml")
        assert (refused.code, refused.line) == (2, "--format xml: unknown: use one of table, json, csv")


@EVERY_COMMAND
@pytest.mark.parametrize("place", ["here/missing.db", "sqlite:///here/missing.db", "file.txt", "folder"])
def test_a_log_that_is_none(command: Command, place: str, tmp_path: Path, ledger: Ledger, monkeypatch: Any) -> None:
    """A missing file, a text, a folder: a line that names it, and no traceback, whatever the command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.txt").write_text("this is no database, and long enough not to be taken for an empty one\n" * 9)
    if "db" not in {option.name for option in command.options}:
        return
    given = {
        "show": ["x"],
        "label": ["x"],
        "explain": ["x"],
        "prices show": ["claude-opus-4-5-20251101"],
        "prices set": ["x", "--input", "1"],
        "copy": ["--to", "other.db"],
        "backup": ["other.db"],
    }
    refused = ledger(*command.name, *given.get(" ".join(command.name), []), "--db", place)
    if refused.code == 2:
        assert Path(place).name in refused.line
    else:  # what makes a log, or only looks
        assert refused.code in (0, 1)
        assert "Traceback" not in refused.err
    assert (tmp_path / "file.txt").read_text().startswith("this is no database")


def test_a_control_character_of_the_command_line_stays_harmless(ledger: Ledger) -> None:
    for words in (["report", "--by", "\x1b[31m"], ["\x1b[31m"], ["report", "--\x1b[31m"], ["show", "a\nb"]):
        refused = ledger(*words)
        assert refused.code == 2
        assert "\x1b" not in refused.line


URLS = (
    f"postgresql://ada:{PASSWORD}@db.example/books",
    f"postgresql://db.example/books?user=ada&password={PASSWORD}",
    f"postgresql://ada:{PASSWORD}/with@more@db.example/books",
    f"postgres://ada:{PASSWORD}@db.example:5432/books?sslmode=require",
    f"postgresql+psycopg://ada:{PASSWORD}@db.example/books",
    f"mysql://ada:{PASSWORD}@db.example/books",
    f"sqlite://ada:{PASSWORD}@db.example/books",
    f"postgresql://ada:{PASSWORD}@[not an address/books",
)


@EVERY_COMMAND
def test_a_password_is_never_shown(command: Command, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in an error of ours, not in one about the command line, not by way of the environment."""
    needed = ["x" for argument in command.arguments if argument.required]
    if command.name == ("prices", "set"):
        needed += ["--input", "1"]
    takes_db = "db" in {option.name for option in command.options}
    lines = [[*needed, URLS[0]], [f"--dbb={URLS[0]}"], [*needed, "--nonsense", URLS[1]]]
    if takes_db:
        lines += [[*needed, "--db", url] for url in URLS]
        lines += [[*needed, f"--db={URLS[0]}", "--nonsense"], [f"--db={URLS[1]}", *needed, "--db"]]
    doctor = command.name == ("doctor",)  # says in a check of its own that a server cannot be reached
    for words in lines:
        refused = ledger(*command.name, *words)
        assert refused.code == 2 or (doctor and refused.code == 1)
        assert PASSWORD not in (refused.out + refused.err if doctor else refused.line)
    for url in URLS if takes_db else ():
        monkeypatch.setenv("TALLYBOOK_DB", url)
        refused = ledger(*command.name, *needed)
        assert refused.code == 2 or (doctor and refused.code == 1)
        assert PASSWORD not in (refused.out + refused.err if doctor else refused.line)


# two parsers, one meaning


class Recorded(Exception):
    """A body was called; the values that it was given."""

    def __init__(self, command: Command, values: dict[str, Any]) -> None:
        super().__init__(command.name)
        self.command, self.values = command, values


def by_typer(application: Any, words: list[str]) -> tuple[Command, dict[str, Any]] | None:
    """Return what Typer makes of a command line, None where it refuses it or shows help."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Command, "body", recorder)
        try:
            application(args=words, prog_name="ledger", standalone_mode=False)
        except Recorded as recorded:
            return recorded.command, recorded.values
        except Exception as error:
            assert isinstance(error, typer.Exit) or hasattr(error, "format_message"), error
    return None


def recorder(command: Command) -> Callable[..., int]:
    """Return what stands for a command's body."""

    def record(**values: Any) -> int:
        raise Recorded(command, values)

    return record


@pytest.fixture(scope="module")
def application() -> Any:
    """The Typer application, built once."""
    return typer.main.get_command(build(LEDGER))


PLAIN = st.one_of(
    st.sampled_from(
        ["x", "5e55", "a=b", "a b", "-", "", "7", "2026-11-30", "claude-code", "~/ledger.db", "é", "=", "--"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
)
VALUES = st.one_of(PLAIN, st.sampled_from(["-7d", "-x", "--db", "-n", "--", "--by=day", "-1"]))
NUMBERS = st.one_of(
    st.integers(0, 10**20).map(str),
    st.sampled_from(["007", "-3", "x", "", "1_000", "٣", "1.0", " 5", "+5", "9" * 5000]),
)


@st.composite
def option_words(draw: st.DrawFn, option: Option, *, valid: bool) -> list[str]:
    """Return an option as it may be written."""
    spelling = draw(st.sampled_from(option.spellings()))
    if option.kind == "flag":
        return [spelling]
    if valid:
        value = draw(st.integers(0, 10**9).map(str) if option.kind == "number" else PLAIN)
        if value.startswith("-") and len(value) > 1:
            value = f"x{value}"
    else:
        value = draw(NUMBERS if option.kind == "number" else VALUES)
    if draw(st.booleans()) and (spelling.startswith("--") or not valid):
        return [f"{spelling}={value}"]
    return [spelling, value]


@st.composite
def command_lines(draw: st.DrawFn, *, valid: bool) -> list[str]:
    """Return a command line: options in any order around the arguments; where not `valid`, with anything in it."""
    command = draw(st.sampled_from(COMMANDS))
    pieces: list[list[str]] = []
    if command.options:
        chosen = draw(st.lists(st.sampled_from(command.options), max_size=5))
        pieces += [draw(option_words(option, valid=valid)) for option in chosen]
    for argument in command.arguments:
        count = draw(st.integers(0, 3)) if argument.many else 1 if argument.required else draw(st.integers(0, 1))
        count = count if valid else draw(st.integers(0, 3))
        words = [draw(PLAIN) for _ in range(count)]
        pieces += [[f"x{word}" if word.startswith("-") and len(word) > 1 else word] for word in words]
    if not valid:
        junk = st.one_of(
            VALUES, st.sampled_from(["--help", "--full", "-f", "-fn5", "-n5", "-n=5", "--lines=5", "-V", "--fu"])
        )
        pieces += [[word] for word in draw(st.lists(junk, max_size=2))]
    order = draw(st.permutations(pieces))
    return [*command.name, *(word for piece in order for word in piece)]


@settings(max_examples=300, deadline=None)
@given(words=command_lines(valid=False))
def test_what_the_fast_parser_takes_means_the_same_to_typer(application: Any, words: list[str]) -> None:
    """Whatever is typed: either the fast parser leaves it to Typer, or both give the same command and values."""
    fast = parse(words, COMMANDS)
    if fast is not None:
        assert by_typer(application, words) == fast


@settings(max_examples=300, deadline=None)
@given(words=command_lines(valid=True))
def test_the_fast_parser_takes_every_plain_command_line(application: Any, words: list[str]) -> None:
    """A well-formed line never costs the help system, and means what Typer says."""
    fast = parse(words, COMMANDS)
    assert fast is not None
    assert by_typer(application, words) == fast


@EVERY_COMMAND
def test_both_parsers_have_the_same_defaults(command: Command, application: Any) -> None:
    words = [*command.name, *("x" for argument in command.arguments if argument.required)]
    fast = parse(words, COMMANDS)
    assert fast is not None
    assert by_typer(application, words) == fast


@EVERY_COMMAND
def test_a_body_takes_what_its_command_declares(command: Command) -> None:
    """The function has a parameter for every option and argument, and no other."""
    import inspect

    parameters = inspect.signature(command.body()).parameters
    declared = [one.name for one in (*command.arguments, *command.options)]
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        assert {name for name, one in parameters.items() if one.kind is not inspect.Parameter.VAR_KEYWORD} <= set(
            declared
        )
    else:
        assert set(parameters) == set(declared)


def test_a_line_that_only_typer_takes_runs_too(ledger: Ledger, tmp_path: Path) -> None:
    """`-n5` is a spelling of the help system: the body runs, its errors are one line, its exit code counts."""
    Log.create(tmp_path / "ledger.db").close()
    assert parse(["tail", "-n5", "--db", "x"], COMMANDS) is None
    assert ledger("tail", "-n5", "--db", str(tmp_path / "ledger.db")).code == 0
    refused = ledger("tail", "-n5", "--db", str(tmp_path / "missing.db"))
    assert (refused.code, "there is no ledger here" in refused.line) == (2, True)
    assert ledger("--version", "--version").out == f"tallybook {__version__}\n"


# as a program


class Program:
    """Runs the program as a user does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = str(folder / "ledger.db")
        names = ("TALLYBOOK_DB", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "PYTHONUNBUFFERED", "COLUMNS")
        self.environment = {name: value for name, value in os.environ.items() if name not in names}
        self.environment |= {"HOME": str(folder), "TALLYBOOK_DB": self.database, "TZ": "UTC"}

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command line."""
        call = [sys.executable, "-P", "-m", "ledger", *words]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.environment, **options}
        return subprocess.Popen(call, text=True, stdin=subprocess.DEVNULL, **options)

    def run(self, *words: str, **options: Any) -> Outcome:
        """Run a command line to its end."""
        child = self.start(*words, **options)
        out, err = child.communicate(timeout=60)
        return Outcome(child.returncode, out or "", err or "")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program in an empty home."""
    return Program(tmp_path)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with the sample, to be copied."""
    made = Program(tmp_path_factory.mktemp("sample"))
    assert made.run("import", "--home", SAMPLE).code == 0
    return Path(made.database)


@pytest.fixture
def filled(program: Program, sample: Path) -> Program:
    """The program with the sample imported."""
    shutil.copy(sample, program.database)
    return program


def test_import_as_json(program: Program) -> None:
    """What became of every line, by client and in total, under the promised names; sums are sums."""
    counts = ["files", "lines", "usage_rows", "new", "replays", "malformed", "torn", "lower_bound", "unpriced"]
    answer = json.loads(program.run("import", "--home", SAMPLE, "--format", "json").out)
    assert {"sources", "total"} <= set(answer)
    assert [source["client"] for source in answer["sources"]] == ["claude-code", "codex", "opencode", "gemini"]
    for source in answer["sources"]:
        assert {"client", *counts, "duplicates", "roots"} <= set(source)
        assert all(type(source[name]) is int for name in counts)
        assert all(type(count) is int for count in source["duplicates"].values())
    for name in counts:
        assert sum(source[name] for source in answer["sources"]) == answer["total"][name]
    for rule, count in answer["total"]["duplicates"].items():
        assert sum(source["duplicates"][rule] for source in answer["sources"]) == count
    again = json.loads(program.run("import", "--home", SAMPLE, "--format", "json").out)["total"]
    assert (again["new"], again["lines"], again["files"]) == (0, 0, answer["total"]["files"])


def test_as_a_module(program: Program) -> None:
    """`python -m ledger` is the program, for a PATH that lacks it."""
    assert (program.run("--version").out, program.run("--version").code) == (f"tallybook {__version__}\n", 0)
    assert program.run("report").code == 2


@pytest.mark.parametrize(
    "words",
    [["--version"], ["--help"], ["report", "--help"], ["report"], ["report", "--format", "json"],
     ["report", "--format", "csv"], ["show", "3f2b"], ["verify"], ["tail"], ["prices", "list", "--all"],
     ["import", "--home", SAMPLE], ["demo"], ["tail", "-n5"], ["prices"], ["report", "--by", "x"], ["nonsense"]],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("buffered", [True, False])
def test_whoever_leaves_early_is_not_shouted_at(words: list[str], buffered: bool, filled: Program) -> None:
    """`ledger report | head -1`: no traceback, no message, and an exit code that says so."""
    if not buffered:
        filled.environment["PYTHONUNBUFFERED"] = "1"
    reader, writer = os.pipe()
    os.close(reader)
    left = filled.run(*words, stdout=writer)
    os.close(writer)
    wrong = words in (["report", "--by", "x"], ["nonsense"])
    if not wrong and words != ["prices"]:
        assert (left.code, left.err) == (141, "")
    reader, writer = os.pipe()
    os.close(reader)
    both = filled.run(*words, stdout=writer, stderr=writer)
    os.close(writer)
    assert both.code == (2 if wrong else 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["report"], ["report", "--format", "csv"], ["tail"]], ids=" ".join
)
def test_a_full_disk_is_one_line(words: list[str], filled: Program) -> None:
    with Path("/dev/full").open("w") as full:
        refused = filled.run(*words, stdout=full)
    assert refused.code == 2
    assert refused.line.endswith("No space left on device: free some space and run this again")


@pytest.mark.parametrize("words", [["--version"], ["report"], ["--help"], ["report", "--by", "x"]], ids=" ".join)
def test_closed_outputs(words: list[str], filled: Program) -> None:
    """What cannot be shown is no success: `report >&-` exits 2 and says why; without errors it goes on."""
    code = 2 if "x" in words else 0
    call = [sys.executable, "-P", "-m", "ledger", *words]
    for closing in ("<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closing}', "sh", *call], env=filled.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == (2 if ">&- " in f"{closing} ".replace("2>&-", "") else code)
        assert "Traceback" not in done.stderr
        if closing == ">&-" and not code:
            assert done.stderr.startswith("ledger: standard output is closed: ")
            assert done.stderr.count("\n") == 1


def test_what_is_done_before_a_closed_output_is_kept(program: Program, sample: Path) -> None:
    """An import whose words nobody can see is an import all the same; it ends with exit code 2."""
    call = [sys.executable, "-P", "-m", "ledger", "import", "--home", SAMPLE]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *call], env=program.environment, check=False)
    assert done.returncode == 2
    assert json.loads(program.run("report", "--format", "json").out)["total"]["requests"] == 12


@pytest.mark.parametrize("words", [["tail", "--follow"], ["tail", "-fn1"]], ids=" ".join)
def test_interrupted(words: list[str], filled: Program) -> None:
    """Ctrl-C ends with 130 and no traceback, also where Typer has read the line."""
    child = filled.start(*words)
    assert child.stdout is not None
    assert child.stdout.readline()  # it runs
    time.sleep(0.15)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err.strip() == ""


@pytest.mark.parametrize("format_", ["table", "json", "csv"])
def test_what_the_encoding_lacks_is_replaced(format_: str, filled: Program) -> None:
    """A terminal that knows only ASCII gets question marks and no traceback."""
    home = filled.folder / "other"
    folder = home / ".claude" / "projects" / "x"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text(
        '{"type":"assistant","uuid":"u","sessionId":"5e55","cwd":"/home/проект","timestamp":"2026-11-01T12:00:00Z",'
        '"requestId":"r","message":{"id":"m","model":"claude-opus-4-5-20251101","stop_reason":"end_turn",'
        '"usage":{"input_tokens":1,"output_tokens":1}}}\n',
        "utf-8",
    )
    assert filled.run("import", "--home", str(home)).code == 0
    filled.environment["PYTHONIOENCODING"] = "ascii"
    shown = filled.run("report", "--by", "project", "--format", format_)
    assert (shown.code, shown.err) == (0, "")
    assert ("\\u043f" if format_ == "json" else "/home/??????") in shown.out


def test_an_error_on_a_terminal_wraps_at_words(filled: Program) -> None:
    """Long errors read well at 80 columns: one line in a pipe, several on a terminal, none cut in a word."""
    import pty

    piped = filled.run("report", "--by", "colour")
    assert len(piped.line) > 80
    master, slave = pty.openpty()
    filled.run("report", "--by", "colour", stderr=slave)
    os.close(slave)
    text = os.read(master, 65536).decode().replace("\r\n", "\n")
    os.close(master)
    assert max(map(len, text.splitlines())) <= 80
    assert re.sub(r"\s+", " ", text).strip() == re.sub(r"\s+", " ", piped.err).strip()
