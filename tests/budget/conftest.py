"""Fixtures of the tests on ceilings: a log of each kind of database, and a session's hub with a grant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from books import DATABASES, Books

from ledger.log.location import Place
from ledger.log.log import Log


@pytest.fixture(params=DATABASES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where an empty log lies, on each kind of database."""
    made = Books(tmp_path).place(str(request.param))
    Log.open(made, create=True).close()
    return made


@pytest.fixture
def book(place: Place) -> Iterator[Log]:
    """That log, open."""
    with Log.open(place) as opened:
        yield opened
