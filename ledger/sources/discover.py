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
        folder for base in _bases(client, home, use_environment) for folder in _folders(client, base) if folder.is_dir()
    ]
    unique = {folder.resolve(): folder for folder in reversed(found)}
    return sorted(unique.values())


def _bases(client: str, home: Path, use_environment: bool) -> list[Path]:
    if client == "claude-code":
        given = os.environ.get("CLAUDE_CONFIG_DIR", "") if use_environment else ""
        named = [Path(part.strip()).expanduser() for part in given.split(",") if part.strip()]
        return named or [home / ".claude", home / ".config" / "claude"]
    given = os.environ.get("CODEX_HOME", "") if use_environment else ""
    return [Path(given).expanduser()] if given else [home / ".codex"]


def _folders(client: str, base: Path) -> list[Path]:
    if client == "claude-code":
        return [base / "projects"]
    return [base / "sessions", base / "archived_sessions"]


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
                    elif entry.name.endswith(endings) and entry.is_file():
                        stat = entry.stat()
                        yield Found(
                            client, root, Path(entry.path), stat.st_size, stat.st_mtime_ns, stat.st_dev,
                            stat.st_ino,
                        )  # fmt: skip
        except OSError as error:
            problems.append(f"{folder}: {error.strerror or error}: it was left out")


def checked_clients(names: list[str]) -> tuple[str, ...]:
    """Return the clients to import from: those named, else all. Raises UsageError for an unknown one."""
    for name in names:
        if name not in CLIENTS:
            raise UsageError(f"{name}: unknown client: use one of {', '.join(CLIENTS)}")
    return tuple(dict.fromkeys(names)) or CLIENTS
