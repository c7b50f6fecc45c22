"""Fixtures for all tests: a log in a fresh folder, and how often the long tests repeat."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import postgres_server
import pytest
from hypothesis import settings

from ledger.log.location import PostgresPlace
from ledger.log.log import Log
from ledger.log.postgres_log import PostgresLog

# A busy machine is no failure. Where one is found, hypothesis prints how to repeat it.
settings.register_profile("tallybook", deadline=None, print_blob=True)
settings.load_profile("tallybook")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """An empty log in a folder of its own."""
    with Log.create(tmp_path / "ledger.db") as made:
        yield made


@pytest.fixture(scope="session")
def server() -> postgres_server.Server:
    """The PostgreSQL server of this run. Stop it in no test: others use it at the same time."""
    return postgres_server.server_of_this_run()


@pytest.fixture
def other_server() -> Iterator[postgres_server.Server]:
    """A PostgreSQL server for one test alone, with a cluster that knows no role of the other's."""
    with postgres_server.another_server() as made:
        yield made


@pytest.fixture
def schema() -> PostgresPlace:
    """Where an empty log of its own lies on PostgreSQL."""
    return postgres_server.new_place()


@pytest.fixture
def pg_log(schema: PostgresPlace) -> Iterator[PostgresLog]:
    """An empty log on PostgreSQL, open."""
    with Log.open(schema) as opened:
        assert isinstance(opened, PostgresLog)
        yield opened


class Soak:
    """How often a test repeats, and its seed.

    TALLYBOOK_SOAK=1 asks for the full counts (`make soak` sets it), TALLYBOOK_SOAK_SHARE=0.1 for a tenth of
    them, TALLYBOOK_SEED for a seed that failed.
    """

    def __init__(self) -> None:
        self.seed = int(os.environ.get("TALLYBOOK_SEED") or random.SystemRandom().getrandbits(32))
        self.random = random.Random(self.seed)
        print(f"TALLYBOOK_SEED={self.seed} repeats this")  # pytest shows it where the test fails

    def rounds(self, few: int, many: int) -> range:
        """Return what to iterate over: `few` rounds, or `many` (or a share of them) under TALLYBOOK_SOAK."""
        if os.environ.get("TALLYBOOK_SOAK", "") in ("", "0"):
            return range(few)
        return range(max(few, round(many * float(os.environ.get("TALLYBOOK_SOAK_SHARE") or 1))))


@pytest.fixture
def soak() -> Soak:
    """The number of rounds and the seed of a test that is worth repeating."""
    return Soak()


def pytest_configure(config: pytest.Config) -> None:
    """The run, not one of its workers, answers for the PostgreSQL server: it begins when a test first needs it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in a shell's background: children would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        alive = postgres_server.begin_run()
        config.add_cleanup(lambda: postgres_server.end_run(alive))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that repeats, so that `-m soak` finds them."""
    for item in items:
        if "soak" in getattr(item, "fixturenames", ()):
            item.add_marker("soak")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many workers `-n auto` means: more than there are cores, since many tests wait for processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + max(1, cores // 2)
