"""Where the session files of each client lie."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ledger.errors import UsageError


class Found(NamedTuple):
    """A session file, as it stood when it was found; a database, or a folder of files with one message each."""

    client: str
    root: Path
    path: Path
    size: int
    mtime_ns: int
    device: int
    inode: int
    rewritten: bool = False
    """Its client changes what it wrote before: what is new in it is found by its records, not by its bytes."""


CLIENTS = ("claude-code", "codex", "opencode", "gemini")
NAMES = {"claude-code": "Claude Code", "codex": "Codex CLI", "opencode": "opencode", "gemini": "Gemini CLI"}
"""The clients, as their makers write them."""

Stat = os.stat_result


def roots(client: str, home: Path, *, use_environment: bool) -> list[Path]:
    """Return the folders in which a client's files lie, without repeats.

    `use_environment` also follows CLAUDE_CONFIG_DIR, OPENCODE_DATA_DIR, GEMINI_DATA_DIR (comma lists), CODEX_HOME,
    XDG_DATA_HOME and GEMINI_CLI_HOME, which belong to the user's own home and not to one given with --home.
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
    def named(variable: str) -> list[Path]:
        given = os.environ.get(variable, "") if use_environment else ""
        parts = [given] if variable == "CODEX_HOME" else given.split(",")
        return [_expanded(part.strip(), variable) for part in parts if part.strip()]

    if client == "claude-code":
        return named("CLAUDE_CONFIG_DIR") or [home / ".claude", home / ".config" / "claude"]
    if client == "codex":
        return named("CODEX_HOME") or [home / ".codex"]
    if client == "opencode":
        data = (named("XDG_DATA_HOME") or [home / ".local" / "share"])[0]
        return named("OPENCODE_DATA_DIR") or [data / "opencode"]
    return named("GEMINI_DATA_DIR") or [(named("GEMINI_CLI_HOME") or [home])[0] / ".gemini"]


def _expanded(text: str, variable: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{variable}: {text}: no such user's home folder: give the whole path") from error


def _folders(client: str, base: Path) -> list[Path]:
    if client == "claude-code":
        return [base / "projects"]
    if client == "codex":
        return [base / "sessions", base / "archived_sessions"]
    if client == "opencode":
        return [base]
    return [base / "tmp"] if _is_there(base / "tmp") or base.name == ".gemini" else [base]


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
    root = Path(os.path.abspath(root))
    if client == "opencode":
        yield from _opencode(root, problems)
        return
    pending = [(str(root), 0)]
    while pending:
        folder, depth = pending.pop()
        for entry in _entries(folder, problems):
            if entry.is_dir(follow_symlinks=False):
                if client != "gemini" or depth != 1 or entry.name == "chats":
                    pending.append((entry.path, depth + 1))
            elif entry.name.endswith(_ENDINGS[client]) and (depth > 1 or client != "gemini") and (stat := _stat(entry)):
                yield _found(client, root, Path(entry.path), stat, rewritten=entry.name.endswith(".json"))


_ENDINGS = {"claude-code": (".jsonl",), "codex": (".jsonl", ".jsonl.zst"), "gemini": (".json", ".jsonl")}


def _found(client: str, root: Path, path: Path, stat: Stat, *, rewritten: bool) -> Found:
    return Found(client, root, path, stat.st_size, stat.st_mtime_ns, stat.st_dev, stat.st_ino, rewritten)


def _entries(folder: str, problems: list[str], *, needed: bool = True) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        if needed or not isinstance(error, FileNotFoundError | NotADirectoryError):
            problems.append(f"{text_of(folder)}: {error.strerror or error}: it was left out")


def _opencode(root: Path, problems: list[str]) -> Iterator[Found]:
    """Yield the databases, and of older versions the folders that hold a session's messages."""
    for entry in _entries(str(root), problems):
        if entry.name.startswith("opencode") and entry.name.endswith(".db") and (stat := _stat(entry)):
            yield database(root, Path(entry.path), stat)
    sessions = _session_files(root, problems)
    for entry in _entries(str(root / "storage" / "message"), problems, needed=False):
        if entry.is_dir(follow_symlinks=False):
            try:
                yield _folder_of_messages(root, Path(entry.path), sessions.get(f"{entry.name}.json"))
            except OSError as error:
                problems.append(f"{text_of(entry.path)}: {error.strerror or error}: it was left out")


def database(root: Path, path: Path, stat: Stat) -> Found:
    """Return a database, with the size and the time of what waits in its -wal file."""
    try:
        wal: Stat | None = os.stat(f"{path}-wal")
    except OSError:
        wal = None
    found = _found("opencode", root, path, stat, rewritten=True)
    if wal is None:
        return found
    return found._replace(size=stat.st_size + wal.st_size, mtime_ns=max(stat.st_mtime_ns, wal.st_mtime_ns))


def _session_files(root: Path, problems: list[str]) -> dict[str, Stat]:
    """Return what the system says of the files that tell whose sub-agent a session is and when it began, by name."""
    found = {}
    for project in _entries(str(root / "storage" / "session"), problems, needed=False):
        if project.is_dir(follow_symlinks=False):
            for entry in _entries(project.path, problems, needed=False):
                if entry.name.endswith(".json") and (stat := _stat(entry)):
                    found[entry.name] = stat
    return found


def _folder_of_messages(root: Path, path: Path, session: Stat | None) -> Found:
    """Return a folder with one JSON file a message, with the size and the time of its session's own file.

    Raises OSError where it cannot be read.
    """
    stat = path.stat()
    size, mtime_ns = 0, stat.st_mtime_ns
    if session is not None:
        size, mtime_ns = session.st_size, max(mtime_ns, session.st_mtime_ns)
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and (one := _stat(entry)):
                size, mtime_ns = size + one.st_size, max(mtime_ns, one.st_mtime_ns)
    return _found("opencode", root, path, stat, rewritten=True)._replace(size=size, mtime_ns=mtime_ns)


def _stat(entry: os.DirEntry[str]) -> Stat | None:
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
