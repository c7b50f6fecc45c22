"""The hash of an event, checked against a second implementation and the vectors of docs/hash.md."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.events.envelope import Event, NewEvent
from ledger.ids import new_id
from ledger.log.hashing import RECIPE, broken_links, event_hash
from ledger.log.log import Log, StreamAppend

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "hash.md"

FULL: dict[str, Any] = {
    "event_id": bytes(range(16)),
    "session_id": "session",
    "stream_id": "run:ä",
    "version": 12,
    "type_": "request.sent",
    "schema": 3,
    "at": 1_700_000_000_000_001,
    "writer": "tallybook/0.1.0 host 7",
    "cause": bytes(16),
    "turn": "t",
    "span": "s",
    "data": '{"a":1}',
    "prev_hash": bytes(32),
}


def by_the_recipe(
    event_id: bytes, session_id: str | None, stream_id: str, version: int, type_: str, schema: int, at: int,
    writer: str, cause: bytes | None, turn: str | None, span: str | None, data: str, prev_hash: bytes | None,
) -> bytes:  # fmt: skip
    """Hash as docs/hash.md says, written apart from the program."""
    digest = hashlib.sha256()
    data_digest = hashlib.sha256(data.encode("ascii")).digest()
    for value in (
        "1", event_id, session_id, stream_id, str(version), type_, str(schema), str(at), writer, cause, turn, span,
        data_digest, prev_hash,
    ):  # fmt: skip
        if value is None:
            digest.update(struct.pack(">I", 0xFFFFFFFF))
            continue
        raw = value.encode("utf-8") if isinstance(value, str) else value
        digest.update(struct.pack(">I", len(raw)) + raw)
    return digest.digest()


def vectors() -> list[dict[str, Any]]:
    """Return the vectors that stand in the document."""
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)]


def arguments(vector: dict[str, Any]) -> dict[str, Any]:
    """Return a vector's fields as event_hash takes them: ids and hashes are bytes."""
    fields = dict(vector["event"])
    fields["type_"] = fields.pop("type")
    for name in ("event_id", "cause", "prev_hash"):
        fields[name] = None if fields[name] is None else bytes.fromhex(fields[name])
    return fields


def test_the_program_agrees_with_the_recipe() -> None:
    """A full event, and one with every null."""
    assert event_hash(**FULL) == by_the_recipe(**FULL)
    bare = FULL | dict.fromkeys(("session_id", "cause", "turn", "span", "prev_hash"))
    assert event_hash(**bare) == by_the_recipe(**bare)
    assert len(event_hash(**bare)) == 32


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    text, text, text, st.none() | text, st.none() | text, st.none() | text, st.none() | st.binary(max_size=40),
    st.integers(0, 2**63), st.text(st.characters(max_codepoint=127), max_size=50),
)  # fmt: skip
def test_the_program_agrees_with_the_recipe_on_anything(
    stream: str, type_: str, writer: str, session: str | None, turn: str | None, span: str | None,
    link: bytes | None, number: int, data: str,
) -> None:  # fmt: skip
    """Any contents, by both implementations."""
    fields = FULL | {
        "stream_id": stream, "type_": type_, "writer": writer, "session_id": session, "turn": turn, "span": span,
        "prev_hash": link, "cause": link, "version": number, "at": number, "data": data,
    }  # fmt: skip
    assert event_hash(**fields) == by_the_recipe(**fields)


def test_the_document_states_the_recipe_and_its_vectors_hold() -> None:
    """docs/hash.md has the number of the recipe and vectors that both implementations reach."""
    found = vectors()
    assert len(found) >= 3
    assert f"Recipe {RECIPE}" in DOCUMENT.read_text("utf-8")
    for vector in found:
        fields = arguments(vector)
        assert event_hash(**fields).hex() == vector["hash"], vector["name"]
        assert by_the_recipe(**fields).hex() == vector["hash"], vector["name"]


def test_the_worked_bytes_of_the_document_are_what_is_hashed() -> None:
    """The first vector is written out byte by byte; the sha256 of these bytes is its hash."""
    block = re.search(r"```hex\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert block is not None
    raw = bytes.fromhex("".join(line.partition("#")[0] for line in block[1].splitlines()))
    assert hashlib.sha256(raw).hexdigest() == vectors()[0]["hash"]


def test_the_vectors_of_the_document_make_a_chain() -> None:
    """The second vector names the hash of the first, and the third differs from the second by one null."""
    first, second, third = vectors()[:3]
    assert second["event"]["prev_hash"] == first["hash"]
    differing = [name for name in second["event"] if second["event"][name] != third["event"][name]]
    assert [(second["event"][name], third["event"][name]) for name in differing] == [("", None)]
    assert second["hash"] != third["hash"]


@pytest.mark.parametrize("name", ["session_id", "turn", "span", "cause", "prev_hash"])
def test_null_differs_from_empty(name: str) -> None:
    """A field that is absent and one that is there and empty are two facts."""
    empty: Any = b"" if name in ("cause", "prev_hash") else ""
    assert event_hash(**FULL | {name: None}) != event_hash(**FULL | {name: empty})


@pytest.mark.parametrize("name", list(FULL))
def test_every_field_changes_the_hash(name: str) -> None:
    """There is no field that could be changed unseen."""
    value = FULL[name]
    other = value + 1 if isinstance(value, int) else value[:-1] + ("~" if isinstance(value, str) else b"~")
    assert other != value
    assert event_hash(**FULL | {name: other}) != event_hash(**FULL)


def test_bytes_do_not_move_between_fields() -> None:
    """Lengths are part of what is hashed: turn "ab", span "c" is not turn "a", span "bc"."""
    assert event_hash(**FULL | {"turn": "ab", "span": "c"}) != event_hash(**FULL | {"turn": "a", "span": "bc"})


# chains


@pytest.fixture
def chain(log: Log, event: Callable[..., NewEvent]) -> list[Event]:
    """Six events of one stream, with six of another between them."""
    for number in range(6):
        log.append(
            [
                StreamAppend("a", number, [event(number, session_id="s", cause=new_id(), turn="t", span="p")]),
                StreamAppend("b", number, [event(number)]),
            ]
        )
    return log.events_after(0)


def findings(events: list[Event]) -> list[tuple[str, int, str]]:
    return [(one.stream_id, one.version, what) for one, what in broken_links(events, {})]


def test_an_unbroken_chain_has_no_findings(chain: list[Event]) -> None:
    """Whole, in slices that bring the heads forward, and with the streams interleaved otherwise."""
    assert findings(chain) == []
    heads: dict[str, tuple[int, bytes]] = {}
    for begin in range(0, len(chain), 5):
        assert list(broken_links(chain[begin : begin + 5], heads)) == []
    assert heads == {stream: (6, chain[-2 + "ab".index(stream)].hash) for stream in "ab"}
    assert findings(sorted(chain, key=lambda one: one.stream_id)) == []


CHANGED: dict[str, Any] = {
    "event_id": bytes(16), "session_id": None, "type": "x.y", "schema": 2, "at": 5, "writer": "w", "cause": None,
    "turn": None, "span": "", "data": '{"offset":2,"size":5}',
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_field_is_named(chain: list[Event], name: str) -> None:
    """One changed value in the middle of a stream: that event is named, and only that."""
    changed = [one._replace(**{name: CHANGED[name]}) if one.position == 5 else one for one in chain]
    assert changed != chain
    assert findings(changed) == [("a", 3, "hash does not fit the contents")]


def test_any_changed_byte_of_the_data_is_named(chain: list[Event]) -> None:
    """Each byte of the data in turn, to another ASCII byte or to none at all."""
    data = chain[4].data
    for place in range(len(data)):
        for instead in (chr(ord(data[place]) ^ 1), "é", "\ud800", ""):
            damaged = data[:place] + instead + data[place + 1 :]
            changed = [*chain[:4], chain[4]._replace(data=damaged), *chain[5:]]
            assert findings(changed) == [("a", 3, "hash does not fit the contents")]


def test_a_missing_middle_is_named(chain: list[Event]) -> None:
    """The event after the gap does not follow."""
    assert findings([one for one in chain if one.position != 5]) == [("a", 4, "version 4 follows 2")]
    assert findings(chain[1:]) == [("a", 2, "version 2 follows 0")]


def test_a_missing_middle_that_was_renumbered_is_named(chain: list[Event]) -> None:
    """Closing the gap by counting anew breaks the link at the gap and every later hash."""
    rest = [one for one in chain if one.position != 5]
    closed = [
        one._replace(version=one.version - 1) if one.stream_id == "a" and one.version > 3 else one for one in rest
    ]
    assert findings(closed) == [
        ("a", 3, "prev_hash is not the hash of the version before"),
        ("a", 4, "hash does not fit the contents"),
        ("a", 5, "hash does not fit the contents"),
    ]


def test_a_swapped_pair_is_named(chain: list[Event]) -> None:
    """Two events in the other order, as they are or with their versions exchanged."""
    stream = [one for one in chain if one.stream_id == "a"]
    swapped = [*stream[:2], stream[3], stream[2], *stream[4:]]
    assert findings(swapped)[:2] == [("a", 4, "version 4 follows 2"), ("a", 3, "version 3 follows 4")]
    third, fourth = stream[3]._replace(version=3), stream[2]._replace(version=4)
    renumbered = [*stream[:2], third, fourth, *stream[4:]]
    assert [place[:2] for place in findings(renumbered)] == [("a", 3), ("a", 4), ("a", 5)]


def test_a_forged_event_breaks_the_link_after_it(chain: list[Event]) -> None:
    """Whoever changes an event and its hash must change all hashes after it: the next link is named."""
    fields = dict(zip(FULL, chain[4]._replace(data="{}")[1:14], strict=True))
    forged = chain[4]._replace(data="{}", hash=event_hash(**fields))
    assert findings([*chain[:4], forged, *chain[5:]]) == [("a", 4, "prev_hash is not the hash of the version before")]


def test_a_byte_changed_in_the_file_is_found(log: Log, event: Callable[..., NewEvent]) -> None:
    """Past the triggers, in the file itself: reading it again names the event."""
    log.append([StreamAppend("a", 0, [event(number) for number in (111111, 222222, 333333)])])
    path = log.path
    log.close()
    raw = path.read_bytes()
    assert raw.count(b'"offset":222222') == 1
    path.write_bytes(raw.replace(b'"offset":222222', b'"offset":222223'))
    with Log.open(path) as again:
        assert findings(list(again.all_events())) == [("a", 2, "hash does not fit the contents")]
