"""Every file tool stands behind the same gate: an attack is refused by each of them, and has no effect."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from calling import call, context_of, names

from agent.tools.tool import ToolContext

SECRET = "the secret outside"
CALLS: dict[str, dict[str, object]] = {
    "read_file": {},
    "write_file": {"content": "changed"},
    "edit_file": {"old_string": "secret", "new_string": "changed"},
    "list_dir": {},
    "grep": {"pattern": "secret"},
    "glob": {"pattern": "**"},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace `home/work` in a home with secrets."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text(SECRET)
    (home / ".bashrc").write_text(SECRET)
    inside = home / "work"
    inside.mkdir()
    (inside / "to-file").symlink_to("../.bashrc")
    (inside / "to-folder").symlink_to(home / ".ssh")
    monkeypatch.setenv("HOME", str(home))
    return inside


@pytest.fixture
def context(place: Path) -> ToolContext:
    return context_of(place)


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/id_rsa", "~/.bashrc", "../.bashrc", "../../../../etc/passwd", "/etc/passwd", "/", "..", "~",
        "/proc/self/root/etc/passwd", "to-file", "to-folder/id_rsa", "to-folder", "to-folder/new", "bad\0name",
    ],
)  # fmt: skip
def test_attacks_are_refused_by_each_tool(context: ToolContext, place: Path, tool: str, path: str) -> None:
    """SEC-30, SEC-31, SEC-32, SEC-33, SEC-48, SEC-49, SEC-50: its rule is named, nothing is shown or changed."""
    output = call(context, tool, path=path, **CALLS[tool])
    assert output.status == "refused" and output.rule
    assert output.text.startswith("ERROR: ") and SECRET not in output.text and "root:" not in output.text
    assert (place.parent / ".bashrc").read_text() == (place.parent / ".ssh" / "id_rsa").read_text() == SECRET
    assert names(place.parent / ".ssh") == ["id_rsa"]
    assert names(place) == ["to-file", "to-folder"]


def test_the_twins_without_the_gate(place: Path) -> None:
    """SEC-48, SEC-49, SEC-50: opened without the gate, each of these paths does lead out."""
    os.chdir(place)
    for path in ("~/.ssh/id_rsa", "../.bashrc", "to-file", "to-folder/id_rsa"):
        assert Path(path).expanduser().read_text() == SECRET
    assert "root:" in Path("../" * 20 + "etc/passwd").read_text()
    Path("~/.bashrc").expanduser().write_text("changed")
    assert (place.parent / ".bashrc").read_text() == "changed"


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file", "grep"])
def test_a_fifo_does_not_block(context: ToolContext, place: Path, tool: str) -> None:
    """SEC-32: refused at once."""
    os.mkfifo(place / "fifo")
    output = call(context, tool, path="fifo", **CALLS[tool])
    assert (output.status, output.rule) == ("refused", "special_file")


def test_searches_do_not_follow_links_and_pass_fifos(context: ToolContext, place: Path) -> None:
    """SEC-32: what a tree holds beside files is counted."""
    os.mkfifo(place / "fifo")
    (place / "own").write_text("no secret here\n")
    output = call(context, "grep", pattern="secret")
    assert output.text.splitlines() == ["own:1:no secret here", "[skipped: 2 links, 1 devices, FIFOs or sockets]"]
    assert call(context, "glob", pattern="**").text.splitlines()[:3] == ["own", "to-file", "to-folder"]


def test_no_tool_opens_by_a_name() -> None:
    """SEC-30, SEC-35: files are opened by the workspace alone; what has a name elsewhere is reached by no argument."""
    opening = {"open", "Path", "os.open", "os.mkdir", "os.unlink", "os.rename", "os.replace", "io.open", "shutil"}
    found = set()
    for file in (Path(__file__).parents[3] / "agent" / "tools").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in opening:
                found.add((file.name, ast.unparse(node)))
    assert found == {("tool.py", "Path(folder)")}, "only the context is made from a folder, the workspace itself"


def test_a_workspace_that_vanishes(context: ToolContext, place: Path) -> None:
    """TOOL-47: each tool says so, commands too, and what can be done."""
    place.rename(place.parent / "moved")
    for tool, arguments in {**CALLS, "run_command": {"command": "pwd"}}.items():
        given = arguments if tool == "run_command" else {"path": "own", **arguments}
        output = call(context, tool, **given)
        assert output.status == "error"
        assert "was removed or replaced" in output.text and "tell the user" in output.text
