"""read_file, write_file, edit_file and list_dir."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from calling import call, context_of, names, together
from hypothesis import given, settings
from hypothesis import strategies as st

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def lines_of(text: str) -> list[str]:
    """Return the lines that a result of read_file shows, without numbers and notes."""
    return [line.split("\t", 1)[1] for line in text.split("\n") if line[:6].strip().isdecimal()]


def test_lines_with_numbers(tmp_path: Path) -> None:
    """TOOL-11, TOOL-23: numbers are as wide in every window, so that windows join."""
    (tmp_path / "file").write_text("".join(f"line {number}\n" for number in range(1, 31)))
    context = context_of(tmp_path)
    whole = call(context, "read_file", path="file")
    assert whole.text.split("\n")[8:10] == ["     9\tline 9", "    10\tline 10"] and not whole.truncated
    parts = [call(context, "read_file", path="file", offset=at, limit=10).text.split("\n")[:10] for at in (1, 11, 21)]
    assert "\n".join(line for part in parts for line in part) == whole.text
    assert call(context, "read_file", path="file", offset=11, limit=10).text.endswith(
        "[file has 30 lines, you see 11-20; go on with offset=21]"
    )
    assert call(context, "read_file", path="file", offset=31).text == (
        "ERROR: file has 30 lines, none at offset 31: use a smaller offset"
    )


def test_a_window_says_what_it_delivers(tmp_path: Path) -> None:
    """TOOL-20: of 35,000 lines, asked for more than fit; going on as told reads all of them."""
    (tmp_path / "file").write_text("".join(f"line number {number} of many\n" for number in range(1, 35_001)))
    context, offset, seen = context_of(tmp_path), 1, []
    output = call(context, "read_file", path="file", offset=34_000, limit=2_000)
    assert "file has 35000 lines, you see 34000-" in output.text and "more would pass the limit" in output.text
    offset = 34_000
    while offset:
        output = call(context, "read_file", path="file", offset=offset, limit=2_000)
        assert len(output.text) <= 20_000
        seen += lines_of(output.text)
        offset = int(output.text.partition("go on with offset=")[2].partition("]")[0] or 0)
    assert seen == [f"line number {number} of many" for number in range(34_000, 35_001)]


def test_a_large_file(tmp_path: Path) -> None:
    """TOOL-19: 10 MB is refused as a whole, with the hint, and read by a window."""
    (tmp_path / "log").write_text("".join(f"{number:099}\n" for number in range(1, 100_001)))
    context = context_of(tmp_path)
    output = call(context, "read_file", path="log")
    assert output.status == "error" and "10000000 bytes" in output.text and "offset and limit" in output.text
    output = call(context, "read_file", path="log", offset=99_998, limit=2)
    assert [int(line) for line in lines_of(output.text)] == [99_998, 99_999]
    assert "file has 100000 lines, you see 99998-99999; go on with offset=100000" in output.text


def test_binary_and_broken_files(tmp_path: Path) -> None:
    """TOOL-21, TOOL-22: a PNG is not returned; a text in another encoding is, with a note."""
    (tmp_path / "image.png").write_bytes(PNG)
    (tmp_path / "gbk").write_bytes("中文 text\n".encode("gbk"))
    (tmp_path / "late").write_bytes(b"x" * 8_192 + b"\0\n")
    context = context_of(tmp_path)
    output = call(context, "read_file", path="image.png")
    assert output.status == "error" and "binary file" in output.text and "PNG" not in output.text
    output = call(context, "read_file", path="gbk")
    assert "\ufffd" in output.text and " text" in output.text and "[not all of it is UTF-8" in output.text
    assert call(context, "read_file", path="late").status == "ok"


def test_what_ends_of_files_look_like(tmp_path: Path) -> None:
    """TOOL-17: empty, without a last line break, with CRLF: the text says so."""
    (tmp_path / "empty").write_text("")
    (tmp_path / "open").write_text("a\nb")
    (tmp_path / "crlf").write_bytes(b"a\r\nb\r\n")
    context = context_of(tmp_path)
    assert call(context, "read_file", path="empty").text == "[empty is empty]"
    assert call(context, "read_file", path="open").text.endswith("     2\tb\n[the last line has no line break]")
    assert "CRLF" in call(context, "read_file", path="crlf").text


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("ab字\n\r😀"), max_size=60), st.integers(1, 5), st.integers(1, 5), st.integers(1, 9))
def test_windows_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, at: int, count: int, chunk: int
) -> None:
    """TOOL-14, TOOL-20, TOOL-23: any window in pieces of any size, lines cut at 4 characters and counted."""
    from agent.tools.limits import Limits
    from agent.tools.read_file import _Window

    window = _Window(at, count, Limits(line_characters=4))
    content = text.encode()
    for start in range(0, len(content), chunk):
        window.feed(content[start : start + chunk])
    window.finish(True)
    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    expected = [
        f"{number:>6}\t{line if len(line) <= 4 else f'{line[:4]} [+{len(line) - 4} characters]'}"
        for number, line in enumerate(lines, 1)
        if at <= number < at + count
    ]
    assert (window.lines, window.total) == (expected, len(lines))


def test_writing(tmp_path: Path) -> None:
    """TOOL-05: made with its folders, replaced, nothing else left; characters and bytes are told apart."""
    context = context_of(tmp_path)
    assert call(context, "write_file", path="a/b/file", content="字\r\n").text == "a/b/file made: 3 characters, 5 bytes"
    assert (tmp_path / "a/b/file").read_bytes() == "字\r\n".encode()
    output = call(context, "write_file", path="a/b/file", content="")
    assert output.text == "a/b/file replaced (it had 5 bytes): 0 characters, 0 bytes"
    assert names(tmp_path / "a" / "b") == ["file"] and (tmp_path / "a/b/file").read_bytes() == b""
    assert "Is a directory" in call(context, "write_file", path="a", content="x").text


def test_edits_are_exact(tmp_path: Path) -> None:
    """TOOL-44: CRLF, bytes that are no UTF-8, a missing last line break and the mode survive."""
    file = tmp_path / "file"
    file.write_bytes(b"one\r\ntwo \xff\r\nthree")
    file.chmod(0o640)
    context = context_of(tmp_path)
    output = call(context, "edit_file", path="file", old_string="two", new_string="zwei字")
    assert output.text == "file: 1 place exchanged (line 2)"
    assert file.read_bytes() == "one\r\nzwei字 ".encode() + b"\xff\r\nthree"
    assert file.stat().st_mode & 0o777 == 0o640
    assert call(context, "edit_file", path="file", old_string="three", new_string="").status == "ok"
    assert file.read_bytes().endswith(b"\xff\r\n")


def test_edits_that_cannot_be_made(tmp_path: Path) -> None:
    """TOOL-44, TOOL-09, TOOL-47: none, several, the same, empty, CRLF, no file: nothing changes."""
    file = tmp_path / "file"
    file.write_bytes(b"a b\r\na\r\n  indented\r\n")
    before, context = file.read_bytes(), context_of(tmp_path)
    for old, new, expected in (
        ("missing", "x", "does not stand in file: read the file first"),
        (
            "a",
            "x",
            "stands 2 times in file (lines 1, 2): give more of the text around the one that you mean, or set replace",
        ),
        ("a", "a", "are the same"),
        ("", "x", "use write_file"),
        ("a b\na", "x", "write \\r\\n"),
        ("indented  ", "x", "other white space"),
    ):
        output = call(context, "edit_file", path="file", old_string=old, new_string=new)
        assert output.status == "error" and expected in output.text, output.text
    assert file.read_bytes() == before
    output = call(context, "edit_file", path="new", old_string="x", new_string="y")
    assert "No such file" in output.text and names(tmp_path) == ["file"]
    output = call(context, "edit_file", path="file", old_string="a", new_string="x", replace_all=True)
    assert output.text == "file: 2 places exchanged (lines 1, 2)"
    assert file.read_bytes() == b"x b\r\nx\r\n  indented\r\n"


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=40),
    st.text(st.sampled_from("ab字\n\r "), min_size=1, max_size=3),
    st.text(max_size=4),
    st.data(),
)
def test_any_edit_is_that_of_bytes(
    tmp_path_factory: pytest.TempPathFactory, around: bytes, old: str, new: str, data: st.DataObject
) -> None:
    """TOOL-44: whatever the bytes around are, they stay."""
    folder = tmp_path_factory.mktemp("edit")
    at = data.draw(st.integers(0, len(around)))
    content = around[:at] + old.encode() + around[at:]
    (folder / "file").write_bytes(content)
    output = call(context_of(folder), "edit_file", path="file", old_string=old, new_string=new, replace_all=True)
    expected = content if old == new else content.replace(old.encode(), new.encode())
    assert (folder / "file").read_bytes() == expected
    assert output.status == ("error" if old == new else "ok")


def test_edits_at_once_both_land(tmp_path: Path) -> None:
    """CONC-13: many edits of one file by several names, in one batch: none is lost."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "file").write_text("".join(f"<{number}>\n" for number in range(40)))
    calls: list[tuple[str, dict[str, object]]] = [
        ("edit_file", {"path": f"{('real', 'link', './real')[number % 3]}/file",
                       "old_string": f"<{number}>", "new_string": f"[{number}]"})
        for number in random.sample(range(40), 40)
    ]  # fmt: skip
    outputs = together(context_of(tmp_path), calls)
    assert all(output.status == "ok" for output in outputs)
    assert (tmp_path / "real" / "file").read_text() == "".join(f"[{number}]\n" for number in range(40))


def test_a_folder(tmp_path: Path) -> None:
    """TOOL-32, TOOL-33: folders first, both sorted, sizes in bytes, links with targets; nothing is skipped."""
    (tmp_path / "z").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "b").write_bytes(b"x" * 1_234_567)
    (tmp_path / "a").write_text("")
    (tmp_path / "c").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "d")
    output = call(context_of(tmp_path), "list_dir")
    assert output.text.split("\n") == [
        ".git/", "z/", "a  0 bytes", "b  1234567 bytes", "c -> /nowhere", "d  [no ordinary file]",
    ]  # fmt: skip
    assert call(context_of(tmp_path), "list_dir", path="z").text == "[z is an empty folder]"
    assert "Not a directory" in call(context_of(tmp_path), "list_dir", path="a").text


def test_a_folder_of_5000_files(tmp_path: Path) -> None:
    """TOOL-32: 300 at a time with the total; going on as told shows each once."""
    for number in range(5_000):
        os.close(os.open(tmp_path / f"{number:04}", os.O_CREAT | os.O_WRONLY))
    context, offset, seen = context_of(tmp_path), 1, []
    while offset:
        output = call(context, "list_dir", offset=offset)
        assert "has 5000 entries" in output.text
        shown = [line.split()[0] for line in output.text.split("\n")[:-1]]
        assert len(shown) <= 300
        seen += shown
        offset = int(output.text.partition("go on with offset=")[2].partition("]")[0] or 0)
    assert seen == [f"{number:04}" for number in range(5_000)]


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    """TOOL-22: a name of other bytes is shown with replacements, and nothing crashes."""
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))).write_text("word\n")
    context = context_of(tmp_path)
    assert call(context, "list_dir").text == "bad\ufffd  5 bytes"
    assert call(context, "glob", pattern="*").text == "bad\ufffd"
    assert call(context, "grep", pattern="word").text == "bad\ufffd:1:word"
