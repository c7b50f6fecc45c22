"""Identifiers: new ones, named ones, and the keys of rows."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.ids import NAMESPACE, id_bytes, id_text, named_id, new_id, row_key

text = st.text(st.characters(exclude_categories=["Cs"]))


def test_a_new_id_is_a_uuid_of_version_7() -> None:
    """Version and variant bits are those of RFC 9562."""
    for _ in range(200):
        found = uuid.UUID(bytes=new_id())
        assert (found.version, found.variant) == (7, uuid.RFC_4122)


def test_a_new_id_begins_with_the_time() -> None:
    """Its first 48 bits are the milliseconds of now, so that ids sort by when they were made, to the millisecond."""
    before = time.time_ns() // 1_000_000
    ids = [new_id() for _ in range(1000)]
    after = time.time_ns() // 1_000_000
    times = [int.from_bytes(one[:6], "big") for one in ids]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= after


def test_new_ids_are_distinct() -> None:
    """No two alike, also within a millisecond."""
    assert len({new_id() for _ in range(20_000)}) == 20_000


def test_new_ids_are_distinct_after_a_fork() -> None:
    """Parent and children draw from the system, not from a state that they share."""
    code = (
        "import os\nfrom ledger.ids import new_id\nnew_id()\n"
        "children = [os.fork() for _ in range(2)]\n"
        "ids = b''.join(b'%s\\n' % new_id().hex().encode() for _ in range(100))\n"
        "assert os.write(1, ids) == len(ids) < 4096  # in one piece, so that the lines of four do not mix\n"
        "[os.waitpid(child, 0) for child in children if child]\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    ids = done.stdout.split()
    assert len(ids) == 4 * 100
    assert len(set(ids)) == len(ids)


@given(st.lists(text, min_size=1, max_size=4))
def test_a_named_id_is_a_uuid_of_version_5(parts: list[str]) -> None:
    """The same as the standard library's for the same namespace and name."""
    expected = uuid.uuid5(uuid.UUID(bytes=NAMESPACE), "\x1f".join(parts))
    assert named_id(*parts) == expected.bytes


def test_named_ids_never_change() -> None:
    """They stand in logs: these were computed when the format was made, and another value would double every fact."""
    assert NAMESPACE.hex() == "6f1f2a52f0a94f3c9b0f6f1d2c7e8a41"
    assert id_text(named_id("source", "codex", "/home/dev/é.jsonl")) == "aef5ba64-8f49-5fd3-ad73-e7e80cb9e368"
    assert id_text(named_id("")) == "53eff955-3106-5afc-a822-0b030d3ee2ee"


def test_named_ids_tell_their_parts_apart() -> None:
    """Where a part ends matters; half a character, as a file name can have, is a name too."""
    assert len({named_id("ab", "c"), named_id("a", "bc"), named_id("abc"), named_id("abc", "")}) == 4
    assert named_id("\udcff") != named_id("\udcfe")


@given(st.binary(min_size=16, max_size=16))
def test_the_text_of_an_id_is_the_usual_one(raw: bytes) -> None:
    """8-4-4-4-12, and back."""
    assert id_text(raw) == str(uuid.UUID(bytes=raw))
    assert id_bytes(id_text(raw)) == raw
    assert id_bytes(raw.hex()) == raw


@pytest.mark.parametrize("wrong", ["", "00", "x" * 32, "0" * 31, "0" * 34, "00000000-0000-0000-0000-00000000000g"])
def test_what_is_no_id_is_refused(wrong: str) -> None:
    """Too short, too long, not hexadecimal."""
    with pytest.raises(ValueError):
        id_bytes(wrong)


def test_row_keys_never_change() -> None:
    """Two programs of different versions must give a row the same key; it fits a signed 64-bit column."""
    assert row_key("session", "codex", "s-1") == 3909678274284585604
    assert row_key("") == 8238016292129134938
    assert row_key("ab", "c") != row_key("a", "bc")


@given(st.lists(st.text(), max_size=4))
def test_a_row_key_is_stable_and_fits(parts: list[str]) -> None:
    """Positive, below 2^63, the same every time."""
    assert 0 <= row_key(*parts) < 2**63
    assert row_key(*parts) == row_key(*parts)
