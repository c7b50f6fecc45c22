"""What `ledger doctor` says of a log in an SQLite file: driver and build, the file, its folder and disk, its lock."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger.errors import LedgerError, LogTooNew
from ledger.log import sqlite
from ledger.log.log import Log
from ledger.log.sqlite_log import APPLICATION_ID
from ledger.log.volumes import CLOSED
from ledger.sql import script
from reports.doctor_log import contents
from reports.doctor_machine import sync_time
from reports.health import BAD, OK, WARN, Check, size_text

_LEAST_FREE_BYTES, _FEW_FREE_BYTES = 20 << 20, 1 << 30
_LARGE_WAL_BYTES = 256 << 20
_LEAST_VERSION = (3, 38)
"""STRICT tables came with 3.37, JSON as a part of every build with 3.38."""
_BESIDE = ("-wal", "-shm", ".lock", ".accounts", ".accounts-wal", ".accounts-shm")
"""What stands beside the file while it is in use, and the accounts."""
_REMOTE = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "beegfs", "fuse.sshfs", "fuse.rclone")
"""File systems over a network: SQLite's write-ahead log needs memory shared within one host."""


def examine(path: Path) -> Iterator[Check]:
    """Yield the checks of the log at a path, or of what stands in its place."""
    yield from _driver()
    yield Check("log", str(path))
    yield _free_space(path)
    yield from _file_system(path)
    if path.absolute().parent.is_dir() and os.access(path.absolute().parent, os.W_OK):
        yield sync_time(path.absolute().parent)
    try:
        there = path.exists()
    except OSError as error:
        advice = f"check the permissions of {path.absolute().parent}, or give another --db"
        yield Check("log file", f"cannot be reached: {error.strerror or error}", BAD, advice)
        return
    if there:
        yield from _log(path)
    else:
        yield Check("log file", "does not exist yet", WARN, "`ledger import` makes it, or `ledger init`")


def _exists(path: Path) -> bool:
    """Return whether a path is there; in a folder that may not be read nothing is."""
    try:
        return path.exists()
    except OSError:
        return False


def _log(path: Path) -> Iterator[Check]:
    yield _size("log file", path)
    yield _size("accounts file", Path(f"{path}.accounts"))
    if not os.access(path, os.R_OK):
        yield Check("access", "may not be read by you", BAD, f"ask the owner of {path}, or give another --db")
        return
    try:
        log = Log.open(path, readonly=True)
    except (LedgerError, sqlite.Error, OSError) as error:
        yield _unopened(path, error)
        return
    with log:
        yield from _permissions(path)
        yield _lock(path)
        yield from contents(log, _of_file)


# the build


def _driver() -> Iterator[Check]:
    driver = sqlite.driver
    name = driver.__name__.partition(".")[0]
    value = f"{name} with SQLite {driver.sqlite_version}"
    if driver.sqlite_version_info < _LEAST_VERSION:
        least = ".".join(map(str, _LEAST_VERSION))
        yield Check("SQLite", value, BAD, f"it is too old for the log: use a Python with SQLite {least} or later")
    elif sqlite.has_wal_fix(driver.sqlite_version_info):
        yield Check("SQLite", f"{value}, has the WAL-reset fix")
    else:
        yield Check(
            "SQLite", f"{value}, lacks the WAL-reset fix", WARN,
            "two programs that write at once can damage the log: use a Python with SQLite 3.51.3 or later, or on "
            "Linux `pip install pysqlite3`",
        )  # fmt: skip
    yield _build()


def _build() -> Check:
    """Say how SQLite was compiled, in what matters here."""
    connection = sqlite.in_memory()
    try:
        options = dict(_option(row[0]) for row in connection.execute("PRAGMA compile_options"))
        try:
            connection.execute("SELECT value FROM json_each('[1]')").fetchall()
            lacks = ""
        except sqlite.Error:
            lacks = "JSON"
    finally:
        connection.close()
    threads = options.get("THREADSAFE", "unknown")
    value = f"threads {threads}, synchronous {options.get('DEFAULT_WAL_SYNCHRONOUS', '2')} by default"
    value += f", up to {int(options.get('MAX_VARIABLE_NUMBER', '32766')):,} parameters"
    if lacks:
        return Check("SQLite build", f"{value}, without {lacks}", BAD, f"reports need {lacks}: use another build")
    if threads == "0":
        return Check("SQLite build", value, WARN, "a build without thread safety: use another one")
    return Check("SQLite build", value)


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


# the file and its disk


def _free_space(path: Path) -> Check:
    folder = _folder(path)
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("free space", f"unknown: {error.strerror or error}", WARN, f"check {folder}")
    verdict = BAD if free < _LEAST_FREE_BYTES else WARN if free < _FEW_FREE_BYTES else OK
    return Check("free space", size_text(free), verdict, "" if verdict == OK else f"free some space at {folder}")


def _folder(path: Path) -> Path:
    """Return the nearest folder above a path that is there."""
    return next(one for one in path.absolute().parents if _exists(one))


def _file_system(path: Path) -> Iterator[Check]:
    kind = _kind_of(_folder(path).resolve())
    if kind:
        yield _verdict_of(kind)


def _verdict_of(kind: str) -> Check:
    if kind in ("tmpfs", "ramfs"):
        return Check("file system", f"{kind}: in memory", WARN, "a restart takes the log away: keep it on a disk")
    if kind.startswith(_REMOTE):
        advice = "SQLite's log needs one host: keep it on a local disk, or use a log on PostgreSQL for many hosts"
        return Check("file system", f"{kind}: over a network", WARN, advice)
    return Check("file system", kind)


def _kind_of(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Return the kind of file system that a folder is on, empty where the system does not say (Linux does)."""
    try:
        rows = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    found, longest = "", -1
    for row in rows:
        if len(row) < 3:
            continue
        place = row[1].encode().decode("unicode_escape") if "\\" in row[1] else row[1]
        if folder.is_relative_to(place) and len(place) >= longest:
            found, longest = row[2], len(place)
    return found


def _size(check: str, path: Path) -> Check:
    sizes = [_bytes(one) for one in (path, Path(f"{path}-wal"))]
    value = ", -wal ".join(size if isinstance(size, str) else size_text(size) for size in sizes)
    if isinstance(sizes[1], int) and sizes[1] > _LARGE_WAL_BYTES:
        advice = "a program that reads all the time keeps the -wal file from being emptied: end it"
        return Check(check, value, WARN, advice)
    return Check(check, value)


def _bytes(path: Path) -> int | str:
    try:
        return path.stat().st_size
    except OSError as error:
        return "none" if isinstance(error, FileNotFoundError) else "unknown"


def _permissions(path: Path) -> Iterator[Check]:
    folder = path.absolute().parent
    if not os.access(path, os.W_OK) or not os.access(folder, os.W_OK):
        yield Check("access", "may be read and not written by you", WARN, "reports work, an import does not")
    accounts = Path(f"{path}.accounts")
    if _exists(accounts) and not os.access(accounts, os.W_OK):
        advice = f"reports fold what is new in memory, each time anew: `chmod u+w {accounts}`, or remove that file"
        yield Check("accounts access", "may be read and not written by you", WARN, advice)
    if os.name != "posix":
        return
    files = [one for one in (path, *(Path(f"{path}{ending}") for ending in _BESIDE)) if _exists(one)]
    loosest = max(files, key=lambda one: stat.S_IMODE(one.stat().st_mode) & 0o077)
    yield _mode("file permissions", loosest, f"close it with `chmod 600 {loosest}`")
    advice = f"close it with `chmod 700 {folder}`"
    if any(not one.name.startswith(path.name) for one in folder.iterdir()):
        advice = "others may list it: keep the log in a folder of its own, made with `mkdir -m 700`"
    yield _mode("folder permissions", folder, advice)
    yield from _others(path)


def _mode(check: str, path: Path, advice: str) -> Check:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Check(check, f"{mode:04o}: open to others", WARN, advice)
    return Check(check, f"{mode:04o}")


def _others(path: Path) -> Iterator[Check]:
    """Name what belongs to another user: one run as root is enough, and everybody else is shut out."""
    owners = {}
    for one in (path, *(Path(f"{path}{ending}") for ending in _BESIDE)):
        try:
            owners[one.name] = one.stat().st_uid
        except OSError:
            continue
    mine = os.geteuid()
    foreign = sorted(name for name, owner in owners.items() if owner != mine)
    if foreign:
        names = ", ".join(f"{name} (user {owners[name]})" for name in foreign)
        advice = f"you are user {mine}: let one user keep the log, or give the files back with `chown {mine} {path}*`"
        yield Check("owner", f"others own {names}", WARN, advice)
    else:
        yield Check("owner", f"you (user {mine})")


def _lock(path: Path) -> Check:
    """Say who writes at this moment, by trying the file lock in which writers queue; it is not waited for."""
    if sys.platform == "win32":
        return Check("lock", "SQLite's own on this system")
    import fcntl

    try:
        descriptor = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Check("lock", "nobody has written here yet")
    except OSError as error:
        return Check("lock", f"cannot be looked at: {error.strerror or error}", WARN, f"check {path}.lock")
    try:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Check("lock", f"process {holder} is writing now", OK, "others wait for up to 30 s")
        except OSError as error:
            advice = "locks do not work there: keep the log on a local disk"
            return Check("lock", f"cannot be tried: {error.strerror or error}", WARN, advice)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return Check("lock", f"free; process {holder} wrote last")
    finally:
        os.close(descriptor)


# the database in it


def _of_file(log: Log) -> Iterator[Check]:
    """Yield the checks of an open file that a server has no like of."""
    yield _guards(log)
    ask: Any = log.connection.execute
    mode = ask("PRAGMA journal_mode").fetchone()[0]
    pages, free, page = (ask(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    value = f"journal {mode}, {size_text(pages * page)} in pages, {size_text(free * page)} of it free"
    if log.meta(CLOSED) is not None:
        yield Check("database", f"{value}; a closed volume, which takes in nothing more")
    elif mode != "wal":
        advice = "readers and writers block each other: `PRAGMA journal_mode=WAL` with SQLite's shell sets it right"
        yield Check("database", value, WARN, advice)
    else:
        yield Check("database", value)


def _guards(log: Log) -> Check:
    """Say whether the triggers stand that refuse to change or remove an event."""
    wanted = {text for text in script("sqlite", "log") if text.startswith("CREATE TRIGGER")}
    found = {text for (text,) in log.connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")}
    missing = sorted(text.split()[2] for text in wanted - found)
    if missing:
        advice = "somebody removed them: run `ledger verify --full`, and restore a copy if that fails"
        return Check("guards", f"missing: {', '.join(missing)}", BAD, advice)
    return Check("guards", f"{len(wanted)} triggers refuse to change what was written")


def _unopened(path: Path, error: Exception) -> Check:
    """Return what is wrong with a file that does not open: none of it can be read, which is bad."""
    advice = str(error).removeprefix(f"{path}: ")
    if isinstance(error, LogTooNew):
        return Check("contents", "was written by a newer tallybook", BAD, advice)
    try:
        with path.open("rb") as file:
            ours = file.read(100)[68:72] == APPLICATION_ID.to_bytes(4, "big")
    except OSError as unreadable:
        return Check("contents", f"cannot be read: {unreadable.strerror or unreadable}", BAD, "give another --db")
    if not ours:
        return Check("contents", "not a ledger", BAD, advice)
    return Check("contents", "a ledger that cannot be opened", BAD, advice)
