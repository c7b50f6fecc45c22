"""The folder to work in, and what git says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.workspaces import place_of
from ledger.errors import UsageError


def test_a_folder_outside_of_a_repository(tmp_path: Path) -> None:
    assert place_of(str(tmp_path)) == (str(tmp_path.resolve()), "", "")


def test_the_branch_of_a_repository(tmp_path: Path) -> None:
    """From a folder below its root; a detached HEAD is no branch; git is not run."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    head = tmp_path / ".git" / "HEAD"
    head.write_text("ref: refs/heads/feature/x\n")
    assert place_of(str(tmp_path / "src")) == (str(tmp_path / "src"), str(tmp_path), "feature/x")
    head.write_text("0123456789abcdef\n")
    assert place_of(str(tmp_path)).branch == ""
    head.unlink()
    assert place_of(str(tmp_path)).branch == ""


def test_a_worktree(tmp_path: Path) -> None:
    """Its .git is a file that names the folder, by an absolute or a relative path."""
    (tmp_path / "main" / "worktrees" / "w").mkdir(parents=True)
    (tmp_path / "main" / "worktrees" / "w" / "HEAD").write_text("ref: refs/heads/other\n")
    (tmp_path / "tree").mkdir()
    for named in (tmp_path / "main" / "worktrees" / "w", "../main/worktrees/w"):
        (tmp_path / "tree" / ".git").write_text(f"gitdir: {named}\n")
        assert place_of(str(tmp_path / "tree")).branch == "other"


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("nowhere", "is not a folder"),
        ("file", "is not a folder"),
        ("/", "is the whole disk"),
        ("~nobody-here", "~nobody"),
    ],
)
def test_what_is_no_workspace(word: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=says):
        place_of(word)


def test_a_working_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match=r"--workspace \.: .*: give a folder that is there"):
        place_of(None)
