"""Where a log lies: the default place, and what `--db` and TALLYBOOK_DB may say."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

from ledger.errors import UsageError

SCHEMES = ("sqlite", "postgresql", "postgres")
DEFAULT_SCHEMA = "tallybook"
_SCHEMA_MAX = 40
"""Room for what the names of roles add to it: PostgreSQL cuts names at 63 bytes."""


class PostgresPlace(NamedTuple):
    """A log in a schema of a PostgreSQL database. As text it is the URL without its password."""

    url: str
    """What libpq takes: postgresql://USER:PASSWORD@HOST:PORT/DATABASE?options."""
    schema: str = DEFAULT_SCHEMA

    def __str__(self) -> str:
        name = shown(self.url)
        if self.schema == DEFAULT_SCHEMA:
            return name
        return f"{name}{'&' if '?' in name else '?'}schema={self.schema}"


Place = Path | PostgresPlace
"""Where a log is: a file, or a schema of a database."""


def data_folder() -> Path:
    """Return the user's data folder for Tallybook, by platformdirs.

    On Linux the answer is the XDG rule itself, which spares every start the import.
    """
    if sys.platform.startswith("linux"):
        base = os.environ.get("XDG_DATA_HOME", "")
        return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share") / "tallybook"
    from platformdirs import user_data_path

    return user_data_path("tallybook", appauthor=False)


def resolve(db: str | None) -> Place:
    """Return the place of the log that `db` (else TALLYBOOK_DB, else the default) names.

    Accepts a path, `sqlite:///relative`, `sqlite:////absolute`, and `postgresql://...` as libpq takes it, with
    `schema=NAME` among its options. Raises UsageError for anything else; a password is never repeated.
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
        return _postgres(text)
    raise UsageError(f"{shown(text)}: unknown kind of log: give a path, sqlite:///PATH or postgresql://...")


def _postgres(text: str) -> PostgresPlace:
    """Return the place that a PostgreSQL URL names; the option `schema` is ours, the others are libpq's."""
    plain = "postgresql://" + text.partition("://")[2]
    authority, rest = _authority(plain)
    # Where a password ends early, libpq would look for a host that is a part of it, and say so.
    if "@" in rest or authority.count("@") > 1 or authority.rpartition("@")[2].count("[") != authority.count("]"):
        raise UsageError(
            "postgresql://...: is no URL: in user and password write @ as %40, / as %2F, ? as %3F, # as %23"
        )
    if "\0" in plain or not plain.isprintable():
        raise UsageError(f"{shown(plain)}: has characters in it that no URL has: write them as %XX")
    base, _, query = plain.partition("?")
    options = query.split("&") if query else []
    schemas = [option.partition("=")[2] for option in options if option.partition("=")[0] == "schema"]
    schema = schemas[-1] if schemas else DEFAULT_SCHEMA
    if not (schema.isascii() and schema.replace("_", "a").isalnum() and schema == schema.lower()
            and not schema[0].isdigit() and not schema.startswith("pg_") and len(schema) <= _SCHEMA_MAX):  # fmt: skip
        raise UsageError(
            f"schema={schema[:60]}: give a name of small letters, digits and _, at most {_SCHEMA_MAX} long"
        )
    rest = "&".join(option for option in options if option.partition("=")[0] != "schema")
    return PostgresPlace(f"{base}?{rest}" if rest else base, schema)


def _file(text: str) -> Path:
    if not text or text == ":memory:" or "\0" in text:
        raise UsageError("the log must be a file: give its path, for example --db ~/ledger.db")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{text}: no such user's home folder: give the whole path") from error


def _authority(url: str) -> tuple[str, str]:
    """Return (user, password and hosts of a URL, what comes after them)."""
    rest = url.partition("://")[2]
    end = min((place for sign in "/?#" if (place := rest.find(sign)) >= 0), default=len(rest))
    return rest[:end], rest[end:]


def shown(url: str) -> str:
    """Return the URL with any password left out, and all options but the host's."""
    scheme = url.partition("://")[0]
    authority, rest = _authority(url)
    if "@" in rest or authority.count("@") > 1:  # a password with @ / ? or #: its end is unknown
        return f"{scheme}://..."
    user, _, hosts = authority.rpartition("@")
    name, has_password, _ = user.partition(":")
    if user:
        name += ":***@" if has_password and len(user) > len(name) + 1 else "@"
    if not user and ":" in hosts and not all(_is_host(host) for host in hosts.split(",")):
        return f"{scheme}://..."
    path, _, query = rest.partition("?")
    kept = [option for option in query.split("&") if option.partition("=")[0] in ("host", "port")]
    return f"{scheme}://{name}{hosts}{path.partition('#')[0]}" + (f"?{'&'.join(kept)}" if kept else "")


def _is_host(text: str) -> bool:
    """Return whether a text may be a host with a port, rather than a user with a password whose @ is missing."""
    return text.startswith("[") or text.count(":") == 0 or text.rpartition(":")[2].isdigit()
