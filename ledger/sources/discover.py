"""Where the session files of each client lie."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ledger.errors import UsageError


class Found(NamedTuple):
    """A session file, as it stood when it was found."""

    client: str
    root: Path
    path: Path
    size: int
    mtime_ns: int
    device: int
    inode: int


CLIENTS = ("claude-code", "codex")


def roots(client: str, home: Path, *, use_environment: bool) -> list[Path]:
    """Return the folders in which a client's files lie, without repeats.

    `use_environment` also follows CLAUDE_CONFIG_DIR (a comma list) and CODEX_HOME, which belong to the
    user's own home and not to one given with --home.
    """
    found = [
        folder
        for base in _bases(client, home, use_environment)
        for folder in _folders(client, base)
        if _is_there(folder)
    ]
    unique = {folder.resolve(): folder for folder in reversed(found)}
    return sorted(unique.values())


def _bases(client: str, home: Path, use_environment: bool) -> list[Path]:
    if client == "claude-code":
        given = os.environ.get("CLAUDE_CONFIG_DIR", "") if use_environment else ""
        named = [_expanded(part.strip(), "CLAUDE_CONFIG_DIR") for part in given.split(",") if part.strip()]
        return named or [home / ".claude", home / ".config" / "claude"]
    given = os.environ.get("CODEX_HOME", "") if use_environment else ""
    return [_expanded(given, "CODEX_HOME")] if given else [home / ".codex"]


def _expanded(text: str, variable: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{variable}: {text}: no such user's home folder: give the whole path") from error


def _folders(client: str, base: Path) -> list[Path]:
    if client == "claude-code":
        return [base / "projects"]
    return [base / "sessions", base / "archived_sessions"]


def _is_there(folder: Path) -> bool:
    """Return whether there is a folder; True for one that may not be looked at, which reading it will say."""
    try:
        return folder.is_dir()
    except PermissionError:
        return True


def text_of(path: Path | str) -> str:
    """Return a path as text that can be stored and shown: bytes that are no UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def files(client: str, root: Path, problems: list[str]) -> Iterator[Found]:
    """Yield the session files below a folder. What cannot be read is named in `problems`."""
    endings = (".jsonl",) if client == "claude-code" else (".jsonl", ".jsonl.zst")
    root = Path(os.path.abspath(root))
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.name.endswith(endings) and (stat := _stat(entry)):
                        yield Found(
                            client, root, Path(entry.path), stat.st_size, stat.st_mtime_ns, stat.st_dev,
                            stat.st_ino,
                        )  # fmt: skip
        except OSError as error:
            problems.append(f"{text_of(folder)}: {error.strerror or error}: it was left out")


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return what the system says of a file, None for anything else, and for one that is gone meanwhile."""
    try:
        return entry.stat() if entry.is_file() else None
    except FileNotFoundError:
        return None


def checked_clients(names: list[str]) -> tuple[str, ...]:
    """Return the clients to import from: those named, else all. Raises UsageError for an unknown one."""
    for name in names:
        if name not in CLIENTS:
            raise UsageError(f"{name}: unknown client: use one of {', '.join(CLIENTS)}")
    return tuple(dict.fromkeys(names)) or CLIENTS
