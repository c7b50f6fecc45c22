"""Which folder a run works in, and what git says of it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ledger.errors import UsageError


class Place(NamedTuple):
    """A workspace."""

    folder: str
    root: str
    """The repository's root, empty outside of one."""
    branch: str


def place_of(workspace: str | None) -> Place:
    """Return the workspace to work in. Raises UsageError for what is none."""
    try:
        folder = (Path(workspace).expanduser() if workspace is not None else Path.cwd()).resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"--workspace {workspace or '.'}: {error}: give a folder that is there") from error
    if not folder.is_dir():
        raise UsageError(f"--workspace {folder}: is not a folder: make it first, or give another")
    if folder == Path(folder.anchor):
        raise UsageError(f"--workspace {folder}: is the whole disk: give the folder of your project")
    root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
    return Place(str(folder), str(root) if root else "", _branch(root) if root else "")


def _branch(root: Path) -> str:
    """Return the branch that HEAD names, read without running git, whose configuration may run programs."""
    git = root / ".git"
    try:
        if git.is_file():  # a worktree or a submodule: the file says where its folder is
            named = git.read_text("utf-8", "replace").partition("gitdir:")[2].strip()
            git = (root / named).resolve()
        head = (git / "HEAD").read_text("utf-8", "replace").strip()
    except OSError:
        return ""
    prefix = "ref: refs/heads/"
    return head.removeprefix(prefix)[:200] if head.startswith(prefix) else ""
