"""What holds of every tool: its schema, its argument errors, the exit limit, and that no exception leaves it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest
from calling import call, context_of, together
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools import arguments as argument_texts
from agent.tools.limits import cut, printable, whole_lines
from agent.tools.registry import TOOLS, run_one, run_tool, shown, tool_named
from agent.tools.tool import Tool, ToolContext, ToolOutput

ROOT = Path(__file__).parents[3]
NAMES = ["read_file", "write_file", "edit_file", "list_dir", "grep", "glob", "run_command"]
PAIRS = [("write_file", "edit_file"), ("grep", "glob"), ("read_file", "grep"), ("list_dir", "glob")]


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


def made(text: str = "", error: Exception | None = None) -> Tool:
    """Return a tool without any limit of its own, that crashes where it is told to."""

    async def handler(arguments: Nothing, context: ToolContext) -> ToolOutput:
        await anyio.sleep(0)
        if error is not None:
            raise error
        return ToolOutput(text)

    return Tool(name="made", description="", capabilities=frozenset(), arguments=Nothing, handler=handler)


def ran(tool: Tool, context: ToolContext) -> ToolOutput:
    return anyio.run(run_one, tool, "{}", context)


def test_seven_tools_in_order() -> None:
    """TOOL-03: the order in which they are shown, found by their names."""
    assert [tool.name for tool in TOOLS] == NAMES
    assert all(tool_named(tool.name) is tool for tool in TOOLS)
    assert tool_named("nothing") is None


def test_schemas_say_what_they_must() -> None:
    """TOOL-05: a description of the tool and of each field, `required`, what comes back, a limit."""
    for tool in TOOLS:
        shown_schema = tool.schema()
        schema = json.loads(bytes(shown_schema.parameters))
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert schema["required"] == [field.name for field in argument_texts.fields(tool.arguments) if field.required]
        assert schema["properties"]
        for field in schema["properties"].values():
            assert field["type"] in ("string", "integer", "boolean") and len(field["description"]) > 20
        assert "eturns" in shown_schema.description
        assert any(word in shown_schema.description.lower() for word in ("at most", "limit", "up to"))
        assert "{" not in shown_schema.description.replace("{a,b}", "")
        assert tool.schema() == shown_schema


def test_descriptions_name_what_is_confusable() -> None:
    """TOOL-06, TOOL-07: pairs name each other; grep, read_file and run_command say what they are."""
    text = {tool.name: tool.schema().description for tool in TOOLS}
    for one, other in PAIRS[:2]:
        assert other in text[one] and one in text[other]
    assert "literal search" in text["grep"]
    assert "number" in text["read_file"] and "offset and limit" in text["read_file"]
    assert "on-interactive" in text["run_command"] and "background" in text["run_command"]


def test_defaults_are_in_the_schema() -> None:
    """TOOL-11: offset 1, limit 2000, timeout_secs 120."""
    found = {tool.name: json.loads(bytes(tool.schema().parameters))["properties"] for tool in TOOLS}
    assert found["read_file"]["offset"]["default"] == 1
    assert found["read_file"]["limit"]["default"] == 2000
    assert found["run_command"]["timeout_secs"]["default"] == 120


def complete(tool: Tool) -> dict[str, object]:
    return {field.name: "x" for field in argument_texts.fields(tool.arguments) if field.required}


REQUIRED = [(tool.name, name) for tool in TOOLS for name in complete(tool)]


@pytest.mark.parametrize(("name", "field"), REQUIRED)
def test_missing_wrong_and_null_name_the_field(tmp_path: Path, name: str, field: str) -> None:
    """TOOL-08: each required field of each tool, before anything is looked at."""
    tool, context = tool_named(name), context_of(tmp_path)
    assert tool is not None
    whole = complete(tool)
    for value in (None, 3, True, ["x"], {}):
        output = call(context, name, **{**whole, field: value})
        assert output.status == "error" and f"missing string field {field}: call {name} again" in output.text
    del whole[field]
    assert f"missing string field {field}: " in call(context, name, **whole).text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "field"),
    [("run_command", "command"), ("grep", "pattern"), ("glob", "pattern"), ("edit_file", "old_string"),
     ("read_file", "path"), ("write_file", "path")],
)  # fmt: skip
def test_empty_texts_are_refused_before_any_work(tmp_path: Path, name: str, field: str) -> None:
    """TOOL-09: the text names the field, although the path does not exist either."""
    tool = tool_named(name)
    assert tool is not None
    output = call(context_of(tmp_path), name, **{**complete(tool), field: ""})
    assert output.status == "error" and f"empty string field {field}: " in output.text


def test_optional_fields(tmp_path: Path) -> None:
    """TOOL-08: null is the default; a wrong type is named; what is not known is not ignored."""
    (tmp_path / "file").write_text("one\ntwo\n")
    context = context_of(tmp_path)
    assert call(context, "read_file", path="file", offset=None, limit=None).status == "ok"
    assert call(context, "read_file", path="file", offset=2.0).text.startswith("     2\ttwo")
    for value in ("2", True, 1.5, []):
        output = call(context, "read_file", path="file", offset=value)
        assert "wrong type in integer field offset" in output.text
    output = call(context, "run_command", command="true", background=True)
    assert "unknown field background: run_command takes command, timeout_secs" in output.text


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"path": "x"', "[]", "3", "null", '"x"', '{"path":"\\ud800"}'])
def test_arguments_that_are_no_object(tmp_path: Path, text: str) -> None:
    """TOOL-10: no silent `{}`."""
    output = anyio.run(run_tool, "list_dir", text, context_of(tmp_path))
    assert output.status == "error"
    assert "not valid JSON" in output.text or "not a JSON object" in output.text


def test_an_unknown_tool_lists_those_that_exist(tmp_path: Path) -> None:
    """TOOL-46: and passes the limit as everything does."""
    output = call(context_of(tmp_path), "raed_file")
    assert output.status == "error" and all(name in output.text for name in NAMES)
    assert len(call(context_of(tmp_path), "x" * 100_000).text) <= 20_000


def test_a_crash_is_a_result_and_the_others_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOOP-05: one tool raises beside two that work."""
    from agent.tools import registry

    monkeypatch.setitem(registry._BY_NAME, "made", made(error=ZeroDivisionError("oh")))
    (tmp_path / "file").write_text("here")
    first, second, third = together(
        context_of(tmp_path), [("read_file", {"path": "file"}), ("made", {}), ("list_dir", {})]
    )
    assert first.text.startswith("     1\there") and third.text == "file  4 bytes"
    assert second.text.startswith("ERROR: made crashed (ZeroDivisionError: oh): ") and second.status == "error"


@pytest.mark.parametrize(
    "error", [RecursionError("r"), MemoryError(), KeyError("k"), OSError(28, "full"), OSError("x")]
)
def test_no_exception_leaves(tmp_path: Path, error: Exception) -> None:
    """LOOP-05: whatever it is, it is a text with a next step."""
    output = ran(made(error=error), context_of(tmp_path))
    assert output.text.startswith("ERROR: ") and ": " in output.text[7:] and output.status == "error"


def test_every_result_passes_the_exit_limit(tmp_path: Path) -> None:
    """TOOL-13, TOOL-16: a tool without a limit of its own, an error of 100 kB, an empty text."""
    context = context_of(tmp_path)
    for output in (ran(made("字" * 100_000), context), ran(made(error=ValueError("e" * 100_000)), context)):
        assert len(output.text) <= 20_000 and output.truncated
        assert "characters left out here: the limit is 20000 characters" in output.text
    assert ran(made(""), context).text == "(no output)"
    assert not ran(made("x" * 20_000), context).truncated


def test_each_limit_set_to_3_is_visible(tmp_path: Path) -> None:
    """TOOL-17: whichever limit is passed, the text says so, and counts what it says."""
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (tmp_path / name).write_text("word one\nword two\nword three\nword four\n")
    cases: list[tuple[str, str, dict[str, object], str]] = [
        ("output_characters", "read_file", {"path": "a.txt"}, "characters left out here: the limit is 3 characters"),
        ("read_bytes", "read_file", {"path": "a.txt"}, "39 bytes, more than the 3 bytes"),
        ("read_lines", "read_file", {"path": "a.txt"}, "[file has 4 lines, you see 1-3; go on with offset=4]"),
        ("line_characters", "read_file", {"path": "a.txt"}, "     1\twor [+5 characters]"),
        (
            "scan_bytes",
            "read_file",
            {"path": "a.txt"},
            "     1\twor [the line goes on]\n[file has more than 1 lines, you see 1-1",
        ),
        ("edit_bytes", "edit_file", {"path": "a.txt", "old_string": "x", "new_string": "y"}, "more than the 3 bytes"),
        ("list_entries", "list_dir", {}, "[. has 4 entries, you see 1-3; go on with offset=4]"),
        ("folder_entries", "list_dir", {}, "[. has more than 3 entries, you see 1-3]"),
        ("grep_hits", "grep", {"pattern": "word"}, "[3 of 16 hits in 4 files are shown"),
        ("grep_file_bytes", "grep", {"pattern": "word"}, "skipped: 4 files over 3 bytes"),
        ("grep_line_characters", "grep", {"pattern": "one"}, "[4 lines are cut to 3 characters]"),
        ("glob_files", "glob", {"pattern": "*"}, "[capped: 3 of 4 files are shown"),
        ("walk_files", "grep", {"pattern": "word"}, "not everything was looked at: there are more than 3 files"),
        ("stream_bytes", "run_command", {"command": "echo 0123456789"}, "left out here"),
        ("command_most_seconds", "run_command", {"command": "true"}, "[timeout_secs 120 is not within 1 to 3: 3 was"),
    ]
    for limit, tool, arguments, expected in cases:
        output = call(context_of(tmp_path, **{limit: 3}), tool, **arguments)
        assert expected in output.text, (limit, output.text)
    counted = call(context_of(tmp_path, grep_hits=1, grep_counted_hits=3), "grep", pattern="word")
    assert "1 of more than 3 hits" in counted.text


@given(st.text(max_size=3_000), st.integers(0, 2_000))
def test_a_cut_counts_what_it_leaves_out(text: str, limit: int) -> None:
    """TOOL-14, TOOL-15, TOOL-17: at any limit, in characters; within a limit that has room for the note."""
    found = cut(text, limit)
    if len(text) <= limit:
        assert found == (text, 0)
        return
    before, note, after = found.text.partition("\n[... ")
    number, _, rest = after.partition(" characters left out here")
    _, _, end = rest.partition(" ...]\n")
    assert note and text.startswith(before) and text.endswith(end)
    assert int(number) == found.left_out == len(text) - len(before) - len(end)
    assert len(found.text) <= (limit if limit > 300 else limit + 150)


@pytest.mark.parametrize("letter", ["ä", "字", "😀"])
def test_a_cut_splits_no_character(letter: str) -> None:
    """TOOL-14: two, three and four bytes, at each offset."""
    for offset in range(5):
        found = cut("x" * offset + letter * 1_000, 500)
        assert "\ufffd" not in found.text.encode().decode() and len(found.text) <= 500


@given(st.text(st.characters()))
def test_a_text_can_always_be_stored(text: str) -> None:
    """LOOP-05: lone surrogates, as of a file name that is not UTF-8, are shown as what they are: unknown."""
    printable(text).encode("utf-8")
    assert printable(text + "\udc80\ud800").encode()


def test_whole_lines() -> None:
    """TOOL-18: lines are kept whole, and one at least."""
    assert whole_lines(["abc", "de", "f"], 7) == ["abc", "de"]
    assert whole_lines(["abc"], 1) == ["abc"]
    assert whole_lines([], 1) == []


def test_questions_show_all_and_differ_where_calls_differ() -> None:
    """SEC-19: what a person reads has no control character of the call, and another long text is another question."""
    command, write = tool_named("run_command"), tool_named("write_file")
    assert command is not None and write is not None
    text = shown(command, json.dumps({"command": "ls\x1b[2K\u202e\nrm x", "timeout_secs": 5}))
    assert text == "run_command\n  command: ls\\x1b[2K\\u202e\n    rm x\n  timeout_secs: 5"
    one, other = (shown(write, json.dumps({"path": "a", "content": "x" * 9_000 + end})) for end in "ab")
    assert one != other and len(one) < 5_000
    assert shown(command, "{\x1b") == "run_command {\\x1b"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["file", ".", "x" * 300, "**"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = [
    "path",
    "content",
    "old_string",
    "new_string",
    "replace_all",
    "offset",
    "limit",
    "pattern",
    "include",
    "other",
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(NAMES[:-1]),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4).map(json.dumps) | st.text(max_size=20),
    st.integers(0, 3_000),
)
def test_whatever_a_model_writes_gets_a_result(
    tmp_path_factory: pytest.TempPathFactory, name: str, arguments: str, limit: int
) -> None:
    """LOOP-05, TOOL-10, TOOL-13: any arguments of any tool: a text within the limit, no exception."""
    context = context_of(tmp_path_factory.mktemp("any"), output_characters=limit)
    (Path(context.workspace.root) / "file").write_text("some\ntext\n")
    with context.workspace:
        output = anyio.run(run_tool, name, arguments, context)
    assert output.text and output.text.encode()
    assert output.status in ("ok", "error", "refused") and "crashed" not in output.text
    assert len(output.text) <= (limit if limit > 300 else limit + 150)


def test_every_error_names_the_next_step() -> None:
    """TOOL-47: each place that raises one gives a problem and a step, none of them empty."""
    seen = 0
    for file in [*(ROOT / "agent" / "tools").glob("*.py"), *(ROOT / "agent" / "paths").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if (wanted := {"ToolError": 2, "PathRefused": 3}.get(node.func.id)) is None:
                continue
            seen += 1
            assert len(node.args) == wanted, f"{file}:{node.lineno}"
            step = node.args[-1]
            text = "".join(one.value for one in ast.walk(step) if isinstance(one, ast.Constant))
            assert isinstance(step, ast.Name | ast.Call) or len(text) > 10, f"{file}:{node.lineno}"
    assert seen > 20


def test_starting_is_budgeted() -> None:
    """TOOL-01: the tools load nothing that only some of their calls need."""
    heavy = ("httpx", "sqlalchemy", "typer", "rich", "anyio", "asyncio", "subprocess", "ctypes", "hashlib", "pydantic")
    code = f"import sys, agent.tools.registry; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
