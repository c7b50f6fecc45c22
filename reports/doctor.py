"""`ledger doctor`: what the log stands on, a line a check, and what to do where something is amiss."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from ledger import __version__
from ledger.errors import LedgerError, LogTooNew
from ledger.log import sqlite
from ledger.log.log import Log
from ledger.log.sqlite_log import APPLICATION_ID
from reports.doctor_log import contents, session_files
from reports.health import BAD, OK, WARN, Check, print_checks, size_text, worst

_LEAST_FREE_BYTES, _FEW_FREE_BYTES = 20 << 20, 1 << 30


def doctor(path: Path, home: Path, use_environment: bool, format_: str) -> int:
    """Print every check; return 1 if any verdict is bad. No event is written, and no log is made."""
    checks = list(_examine(path, home, use_environment))
    print_checks(checks, format_)
    return 1 if worst(checks) == BAD else 0


def _examine(path: Path, home: Path, use_environment: bool) -> Iterator[Check]:
    yield Check("program", f"tallybook {__version__}")
    yield Check("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield _driver()
    yield Check("log", str(path))
    yield _free_space(path)
    if _exists(path):
        yield from _log(path)
    else:
        yield Check("log file", "does not exist yet", WARN, "`ledger import` makes it, or `ledger init`")
    yield from session_files(home, use_environment)


def _exists(path: Path) -> bool:
    """Return whether a path is there; in a folder that may not be read nothing is."""
    try:
        return path.exists()
    except OSError:
        return False


def _log(path: Path) -> Iterator[Check]:
    yield _size(path)
    if not os.access(path, os.R_OK):
        yield Check("access", "may not be read by you", WARN, f"ask the owner of {path}, or give another --db")
        return
    try:
        log = Log.open(path, readonly=True)
    except (LedgerError, sqlite.Error, OSError) as error:
        yield _unopened(path, error)
        return
    with log:
        yield from _permissions(path)
        yield from contents(log)


def _driver() -> Check:
    fixed = sqlite.has_wal_fix(sqlite.driver.sqlite_version_info)
    value = f"{sqlite.driver.__name__.partition('.')[0]} with SQLite {sqlite.driver.sqlite_version}"
    if fixed:
        return Check("SQLite", f"{value}, has the WAL-reset fix")
    return Check(
        "SQLite", f"{value}, lacks the WAL-reset fix", WARN,
        "two programs that write at once can damage the log: use a Python with SQLite 3.51.3 or later, or on "
        "Linux `pip install pysqlite3`",
    )  # fmt: skip


def _free_space(path: Path) -> Check:
    folder = next(one for one in path.absolute().parents if _exists(one))
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("free space", f"unknown: {error.strerror or error}", WARN, f"check {folder}")
    verdict = BAD if free < _LEAST_FREE_BYTES else WARN if free < _FEW_FREE_BYTES else OK
    return Check("free space", size_text(free), verdict, "" if verdict == OK else f"free some space at {folder}")


def _size(path: Path) -> Check:
    sizes = []
    for one in (path, Path(f"{path}-wal")):
        try:
            sizes.append(size_text(one.stat().st_size))
        except OSError as error:
            sizes.append("none" if isinstance(error, FileNotFoundError) else "unknown")
    return Check("log file", f"{sizes[0]}, -wal {sizes[1]}")


def _permissions(path: Path) -> Iterator[Check]:
    folder = path.absolute().parent
    if not os.access(path, os.W_OK) or not os.access(folder, os.W_OK):
        yield Check("access", "may be read and not written by you", WARN, "reports work, an import does not")
    if os.name != "posix":
        return
    yield _mode("file permissions", path, f"close it with `chmod 600 {path}`")
    advice = f"close it with `chmod 700 {folder}`"
    if any(not one.name.startswith(path.name) for one in folder.iterdir()):
        advice = "others may list it: keep the log in a folder of its own, made with `mkdir -m 700`"
    yield _mode("folder permissions", folder, advice)


def _mode(check: str, path: Path, advice: str) -> Check:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Check(check, f"{mode:04o}: open to others", WARN, advice)
    return Check(check, f"{mode:04o}")


def _unopened(path: Path, error: Exception) -> Check:
    """Return what is wrong with a file that does not open: damage is bad, somebody else's file is not."""
    advice = str(error).removeprefix(f"{path}: ")
    if isinstance(error, LogTooNew):
        return Check("contents", "was written by a newer tallybook", WARN, advice)
    try:
        with path.open("rb") as file:
            ours = file.read(100)[68:72] == APPLICATION_ID.to_bytes(4, "big")
    except OSError as unreadable:
        return Check("contents", f"cannot be read: {unreadable.strerror or unreadable}", WARN, "give another --db")
    if not ours:
        return Check("contents", "not a ledger", WARN, advice)
    return Check("contents", "a ledger that cannot be opened", BAD if "damaged" in advice else WARN, advice)
