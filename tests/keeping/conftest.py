"""Fixtures of the tests on moving and keeping logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from books import DATABASES, Books, Child


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    """A maker of logs."""
    made = Books(tmp_path)
    with made.stack:
        yield made


@pytest.fixture(params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database."""
    return str(request.param)


@pytest.fixture
def child() -> Iterator[Child]:
    """Child processes that end with the test."""
    children = Child()
    yield children
    children.end()
