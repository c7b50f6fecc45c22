"""Where a log lies: the default place, and what `--db` and TALLYBOOK_DB may say."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ledger.errors import UsageError

SCHEMES = ("sqlite", "postgresql", "postgres")


def data_folder() -> Path:
    """Return the user's data folder for Tallybook, by platformdirs.

    On Linux the answer is the XDG rule itself, which spares every start the import.
    """
    if sys.platform.startswith("linux"):
        base = os.environ.get("XDG_DATA_HOME", "")
        return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share") / "tallybook"
    from platformdirs import user_data_path

    return user_data_path("tallybook", appauthor=False)


def resolve(db: str | None) -> Path:
    """Return the file of the log that `db` (else TALLYBOOK_DB, else the default) names.

    Accepts a path, `sqlite:///relative`, `sqlite:////absolute`. Raises UsageError for anything else; a
    password in the URL is never repeated.
    """
    text = db or os.environ.get("TALLYBOOK_DB") or ""
    if not text:
        return data_folder() / "ledger.db"
    scheme, separator, _ = text.partition("://")
    if not separator:
        word = text.partition(":")[0].partition("+")[0]
        if word in SCHEMES and text.partition(":")[1]:
            raise UsageError(f"{word}:...: a URL has two slashes: give a path or sqlite:///PATH")
        return _file(text)
    if scheme.partition("+")[0] == "sqlite":
        host, _, path = text[len(scheme) + 3 :].partition("/")
        if host or "?" in path:
            raise UsageError(f"{shown(text)}: give the file as sqlite:///PATH, with three slashes and no options")
        return _file(path)
    if scheme.partition("+")[0] in SCHEMES:
        raise UsageError(f"{shown(text)}: PostgreSQL logs are not supported yet: give the path of an SQLite file")
    raise UsageError(f"{shown(text)}: unknown kind of log: give a path or sqlite:///PATH")


def _file(text: str) -> Path:
    if not text or text == ":memory:" or "\0" in text:
        raise UsageError("the log must be a file: give its path, for example --db ~/ledger.db")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{text}: no such user's home folder: give the whole path") from error


def shown(url: str) -> str:
    """Return the URL with any password left out."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return url.partition("://")[0] + "://..."
    if "@" in url.partition("://")[2][len(parts.netloc) :]:  # a password with / ? or #: its end is unknown
        return f"{parts.scheme}://..."
    user = f"{parts.username}:***@" if parts.password else (f"{parts.username}@" if parts.username else "")
    return f"{parts.scheme}://{user}{host}{port}{parts.path}"
