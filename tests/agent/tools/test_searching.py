"""grep and glob."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import anyio
import pytest
from calling import call, context_of
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.limits import SKIPPED_FOLDERS
from agent.tools.patterns import PathPattern
from agent.tools.registry import run_tool


def tree(root: Path, *files: str, content: str = "word\n") -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_hits_are_literal_and_sorted(tmp_path: Path) -> None:
    """TOOL-24, TOOL-27: no regular expression; by path and line, the same every time."""
    tree(tmp_path, "b/x", "a.txt", "a/z", "b.txt", content="no\na.b*(\naxb\na.b*( again\r\n")
    context = context_of(tmp_path)
    output = call(context, "grep", pattern="a.b*(")
    assert output.text.split("\n") == [
        f"{path}:{line}" for path in ("a.txt", "a/z", "b.txt", "b/x") for line in ("2:a.b*(", "4:a.b*( again")
    ]
    assert call(context, "grep", pattern="a.b*(") == output
    assert call(context, "grep", pattern="a.b*(", path="a").text == "a/z:2:a.b*(\na/z:4:a.b*( again"
    assert call(context, "grep", pattern="a.b*(", path="a/z").text == "a/z:2:a.b*(\na/z:4:a.b*( again"
    assert call(context, "grep", pattern="nowhere").text == "[no hits in 4 files]"
    assert "line break" in call(context, "grep", pattern="a\nb").text


def test_what_is_kept_of_many_hits_is_the_first(tmp_path: Path) -> None:
    """TOOL-24, TOOL-27, TOOL-17: 200 of 300 hits, those that sort first, with the number of all."""
    tree(tmp_path, *(f"{number:03}" for number in range(300)))
    output = call(context_of(tmp_path), "grep", pattern="word")
    lines = output.text.split("\n")
    assert lines[:-1] == [f"{number:03}:1:word" for number in range(200)] and output.truncated
    assert lines[-1].startswith("[200 of 300 hits in 300 files are shown")


def test_long_lines_show_the_hit(tmp_path: Path) -> None:
    """TOOL-24, TOOL-15: 240 characters around it; what is left out is counted on each side."""
    tree(tmp_path, "start", content="word" + "字" * 1_000)
    tree(tmp_path, "end", content="字" * 1_000 + "word" + "x" * 500)
    output = call(context_of(tmp_path), "grep", pattern="word")
    end, start, note = output.text.split("\n")
    assert end == "end:1:[1000 characters+] word" + "x" * 236 + " [+264 characters]"
    assert start == "start:1:word" + "字" * 236 + " [+764 characters]"
    assert note == "[2 lines are cut to 240 characters]"


def test_what_is_not_searched_is_counted(tmp_path: Path) -> None:
    """TOOL-25, TOOL-17, TOOL-18: the only hit is in a file of 2 MB; binary files; folders of the list by name."""
    (tmp_path / "large").write_text("x" * 2_000_000 + "word\n")
    (tmp_path / "binary").write_bytes(b"word\0")
    tree(tmp_path, "node_modules/x", "deep/node_modules/y", ".git/config")
    output = call(context_of(tmp_path), "grep", pattern="word")
    assert output.text.startswith("[no hits in 2 files]\n[skipped: 3 folders of the skip list (.git, node_modules; ")
    assert "1 files over 1048576 bytes, 1 binary files]" in output.text


def test_the_skip_list(tmp_path: Path) -> None:
    """TOOL-33, TOOL-34: 16 names; extended, switched off, and passed by naming the folder."""
    assert len(SKIPPED_FOLDERS) == 16
    tree(tmp_path, *(f"{name}/file" for name in SKIPPED_FOLDERS), "own/file")
    context = context_of(tmp_path)
    for tool, arguments in (("grep", {"pattern": "word"}), ("glob", {"pattern": "**"})):
        assert call(context, tool, **arguments).text.startswith("own/file")
        assert "skipped: 16 folders" in call(context, tool, **arguments).text
        all_of_them = call(context._replace(skipped_folders=frozenset()), tool, **arguments)
        assert len(all_of_them.text.split("\n")) == 17
        more = call(context._replace(skipped_folders=SKIPPED_FOLDERS | {"own"}), tool, **arguments)
        assert "skipped: 17 folders" in more.text and "own/file" not in more.text
        assert call(context, tool, path="dist", **arguments).text.startswith("dist/file")


def test_include(tmp_path: Path) -> None:
    """TOOL-28: matches the name or the path from the workspace."""
    tree(tmp_path, "main.rs", "src/lib.rs", "src/a/b/x.ts", "src/y.ts", "z.ts")
    context = context_of(tmp_path)

    def found(include: str) -> list[str]:
        return [line.split(":")[0] for line in call(context, "grep", pattern="word", include=include).text.split("\n")]

    assert found("*.rs") == ["main.rs", "src/lib.rs"]
    assert found("src/**/*.ts") == ["src/a/b/x.ts", "src/y.ts"]
    assert found("*.{rs,ts}") == ["main.rs", "src/a/b/x.ts", "src/lib.rs", "src/y.ts", "z.ts"]


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.rs", ["main.rs", ".rs"], ["src/main.rs", "main.rst"]),
        ("**/*.rs", ["main.rs", "a/b/c/main.rs"], ["main.py"]),
        ("src/**", ["src/a", "src/a/b"], ["srcs/a", "a/src"]),
        ("src/**/x/*.c", ["src/x/a.c", "src/1/2/x/a.c", "src/x/x/a.c"], ["src/x/y/a.c", "x/a.c"]),
        ("a?[bc]", ["axb", "a.c"], ["ab", "a/b", "axd"]),
        ("{a,b}/*.{c,h}", ["a/x.c", "b/y.h"], ["c/x.c", "a/x.d"]),
        ("a{b", ["a{b"], ["ab"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    """TOOL-31: `**` takes zero or more segments, `*` stays inside one."""
    compiled = PathPattern(pattern)
    assert [path for path in matching if not compiled.matches(path)] == []
    assert [path for path in others if compiled.matches(path)] == []


@given(
    st.lists(st.sampled_from(["**", "*", "a", "a*"]), min_size=1, max_size=5),
    st.lists(st.sampled_from("ab"), min_size=1),
)
def test_a_folder_is_entered_where_something_below_can_match(pattern: list[str], parts: list[str]) -> None:
    """TOOL-31: pruning loses nothing."""
    compiled = PathPattern("/".join(pattern))
    if compiled.matches("/".join(parts)):
        assert all(compiled.below("/".join(parts[:depth])) for depth in range(len(parts)))


def test_patterns_do_not_explode() -> None:
    """TOOL-31: many stars against a path of thousands of folders take no time, and no recursion."""
    began = time.monotonic()
    assert not PathPattern("/".join(["**", "a"] * 20 + ["b"])).matches("/".join(["a"] * 3_000))
    assert not PathPattern("*a*a*a*a*a*a*b").matches("a" * 250)
    assert PathPattern("{a,b}" * 30).matches("{a,b}" * 30)
    assert time.monotonic() - began < 2


def test_a_deep_tree(tmp_path: Path) -> None:
    """TOOL-31: 900 folders deep, one descriptor at a time."""
    import os

    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(900):
        os.mkdir("d", dir_fd=handle)
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("file.rs", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    assert call(context_of(tmp_path), "glob", pattern="**/*.rs").text == "d/" * 900 + "file.rs"


def test_capped_only_where_something_is_left_out(tmp_path: Path) -> None:
    """TOOL-29, TOOL-30: exactly 500 files are not capped, 501 are, and the first by name are kept."""
    tree(tmp_path, *(f"{number:03}" for number in range(500)), content="")
    output = call(context_of(tmp_path), "glob", pattern="*")
    assert output.text.split("\n") == [f"{number:03}" for number in range(500)] and not output.truncated
    tree(tmp_path, "zzz", content="")
    output = call(context_of(tmp_path), "glob", pattern="*")
    assert output.truncated and output.text.split("\n")[-1].startswith("[capped: 500 of 501 files are shown")


def test_glob_begins_in_its_folder(tmp_path: Path) -> None:
    """TOOL-31: the pattern is from there, paths come back from the workspace; what leaves the folder is told."""
    tree(tmp_path, "src/a.rs", "src/b/c.rs", "d.rs")
    context = context_of(tmp_path)
    assert call(context, "glob", pattern="*.rs", path="src").text == "src/a.rs"
    assert call(context, "glob", pattern="b/*", path="./src/").text == "src/b/c.rs"
    assert call(context, "glob", pattern="*.py").text == "[no file matches among 1 that were looked at]"
    for pattern in ("../*", "/etc/*", "~/*"):
        assert "give the folder in path" in call(context, "glob", pattern=pattern).text


def test_a_search_ends_by_its_limits(tmp_path: Path) -> None:
    """TOOL-26: of files and of time, and says that it did."""
    tree(tmp_path, *(f"{folder}/{number}" for folder in "abc" for number in range(20)))
    output = call(context_of(tmp_path, walk_files=10), "grep", pattern="word")
    assert "not everything was looked at: there are more than 10 files" in output.text and output.truncated
    output = call(context_of(tmp_path, walk_seconds=0.0), "grep", pattern="word")
    assert "not everything was looked at: 0 s had passed" in output.text


@pytest.mark.parametrize("tool", ["grep", "glob"])
def test_a_search_can_be_cancelled_and_holds_nobody_up(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOOL-26: within 200 ms, while other tasks run on; the thread ends by itself."""
    import os

    from agent.tools import trees

    started, ended = threading.Event(), threading.Event()
    real = os.scandir
    tree(tmp_path, "a", "b")

    class Endless:
        """A folder that has no end, as a tree of 500,000 files nearly has none."""

        def __init__(self, handle: int) -> None:
            self._entries = list(real(handle))

        def __enter__(self) -> Endless:
            return self

        def __exit__(self, *error: object) -> None:
            ended.set()

        def __iter__(self) -> Endless:
            return self

        def __next__(self) -> os.DirEntry[str]:
            started.set()
            time.sleep(0.001)
            return self._entries[0]

    monkeypatch.setattr(trees.os, "scandir", Endless)
    context = context_of(tmp_path)

    async def go() -> tuple[float, int]:
        beats = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_tool, tool, '{"pattern": "word"}', context)
            while not started.is_set() or beats < 10:
                await anyio.sleep(0.005)
                beats += 1
            began = time.monotonic()
            tasks.cancel_scope.cancel()
        return time.monotonic() - began, beats

    took, beats = anyio.run(go)
    assert took < 0.2 and beats >= 10
    assert ended.wait(2)
