"""Where the log is: paths, URLs, the environment, the default; and what is shown of a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.errors import UsageError
from ledger.log.location import PostgresPlace, data_folder, resolve, shown

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLYBOOK_DB", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("ledger.db", "ledger.db"),
        ("./a b/é.db", "a b/é.db"),
        ("/var/lib/ledger.db", "/var/lib/ledger.db"),
        ("~/ledger.db", "/home/someone/ledger.db"),
        ("sqlite:///ledger.db", "ledger.db"),
        ("sqlite:///folder/ledger.db", "folder/ledger.db"),
        ("sqlite:////var/lib/ledger.db", "/var/lib/ledger.db"),
        ("sqlite+pysqlite:////var/lib/ledger.db", "/var/lib/ledger.db"),
        ("sqlite:///~/ledger.db", "/home/someone/ledger.db"),
        ("odd?name#here.db", "odd?name#here.db"),
    ],
)
def test_a_path_or_url_names_a_file(text: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for `--db` and for TALLYBOOK_DB."""
    assert resolve(text) == Path(path)
    monkeypatch.setenv("TALLYBOOK_DB", text)
    assert resolve(None) == Path(path)
    assert resolve("") == Path(path)


def test_the_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--db` is nearer than TALLYBOOK_DB, which is nearer than the default."""
    monkeypatch.setenv("TALLYBOOK_DB", "/there.db")
    assert resolve("/here.db") == Path("/here.db")
    assert resolve(None) == Path("/there.db")
    monkeypatch.setenv("TALLYBOOK_DB", "")
    assert resolve(None) == data_folder() / "ledger.db"


def test_the_default_is_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the XDG rule: the variable where it is absolute, else ~/.local/share."""
    import sys

    if not sys.platform.startswith("linux"):
        pytest.skip("elsewhere platformdirs decides")
    assert resolve(None) == Path("/home/someone/.local/share/tallybook/ledger.db")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert resolve(None) == Path("/data/tallybook/ledger.db")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert resolve(None) == Path("/home/someone/.local/share/tallybook/ledger.db")


def test_the_default_agrees_with_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule is written out only to save its import."""
    from platformdirs import user_data_path

    for value in (None, "/data"):
        if value:
            monkeypatch.setenv("XDG_DATA_HOME", value)
        assert data_folder() == user_data_path("tallybook", appauthor=False)


@pytest.mark.parametrize(
    "text",
    [
        "sqlite://", "sqlite:///", "sqlite:///:memory:", ":memory:", "sqlite://ledger.db", "sqlite://host/ledger.db",
        "sqlite:///ledger.db?mode=ro", "a\0b", "~no-such-user-here/ledger.db", "http://host/ledger.db", "://x",
    ],
)  # fmt: skip
def test_what_names_no_file_is_refused(text: str) -> None:
    """A memory, a host, options, an unknown scheme: never a file of another name."""
    with pytest.raises(UsageError) as raised:
        resolve(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://dev:{SECRET}/{SECRET}@db.example/books",
        f"postgresql://dev:12/{SECRET}@db.example/books",
        f"postgresql://dev:12?{SECRET}@db.example/books",
        f"postgresql://dev:12#{SECRET}@db.example/books",
        f"postgresql://dev:x@{SECRET}@db.example/books",
        f"postgresql://dev:x@y/{SECRET}@db.example/books",
        f"postgresql://dev:{SECRET}@[::1/books",
        f"mysql://dev:{SECRET}@db.example/books",
        f"sqlite://dev:{SECRET}@host/ledger.db",
    ],
)
def test_a_refused_url_never_shows_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the password has characters in it that end it early."""
    monkeypatch.setenv("TALLYBOOK_DB", url)
    for db in (url, None):
        with pytest.raises(UsageError) as raised:
            resolve(db)
        assert SECRET not in str(raised.value)
        assert "dev:12" not in str(raised.value)
        assert "\n" not in str(raised.value)
    assert SECRET not in shown(url)


@pytest.mark.parametrize(
    ("url", "libpq", "schema", "text"),
    [
        ("postgresql://dev:{}@db.example:5432/books", "postgresql://dev:{}@db.example:5432/books", "tallybook",
         "postgresql://dev:***@db.example:5432/books"),
        ("postgresql+psycopg://dev:{}@db.example/books", "postgresql://dev:{}@db.example/books", "tallybook",
         "postgresql://dev:***@db.example/books"),
        ("postgres://:{}@db.example/books", "postgresql://:{}@db.example/books", "tallybook",
         "postgresql://:***@db.example/books"),
        ("postgresql://dev@db.example/books?password={}&schema=team_a", "postgresql://dev@db.example/books?password={}",
         "team_a", "postgresql://dev@db.example/books?schema=team_a"),
        ("postgresql://dev:{}@/books?host=/run/pg&schema=a", "postgresql://dev:{}@/books?host=/run/pg", "a",
         "postgresql://dev:***@/books?host=/run/pg&schema=a"),
        ("postgresql://dev:{}@one.example:5432,two.example:5433/books",
         "postgresql://dev:{}@one.example:5432,two.example:5433/books", "tallybook",
         "postgresql://dev:***@one.example:5432,two.example:5433/books"),
        ("postgresql://dev:{}@[::1]:5432/books", "postgresql://dev:{}@[::1]:5432/books", "tallybook",
         "postgresql://dev:***@[::1]:5432/books"),
    ],
)  # fmt: skip
def test_a_postgresql_url_names_a_schema_of_a_database(url: str, libpq: str, schema: str, text: str) -> None:
    """What libpq is given, which schema the log lies in, and what is shown: never the password."""
    found = resolve(url.format(SECRET))
    assert found == PostgresPlace(libpq.format(SECRET), schema)
    assert str(found) == text


@pytest.mark.parametrize("schema", ["", "Team", "1st", "pg_own", "a-b", "a b", "x" * 41, "a;drop", 'a"b', "é"])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    """What would have to be quoted, or is the system's, is refused in one line."""
    with pytest.raises(UsageError, match="schema=") as raised:
        resolve(f"postgresql://dev:{SECRET}@db.example/books?schema={schema}")
    assert "\n" not in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql://dev:pw@db.example:5432/books", "postgresql://dev:***@db.example:5432/books"),
        ("postgresql://dev@db.example/books", "postgresql://dev@db.example/books"),
        ("postgresql://db.example/books?sslmode=require", "postgresql://db.example/books"),
        ("postgresql://dev:1/2@db.example/books", "postgresql://..."),
        ("postgresql:///books", "postgresql:///books"),
        ("sqlite:////var/ledger.db", "sqlite:////var/ledger.db"),
    ],
)
def test_what_is_shown_of_a_url(url: str, text: str) -> None:
    """Enough to know it again, and nothing secret."""
    assert shown(url) == text
