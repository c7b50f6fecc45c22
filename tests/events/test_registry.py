"""How events are written and read: ASCII, typed, lifted from older schemas, stopped at newer ones."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidEvent, LogTooNew
from ledger.events import book, registry
from ledger.events.book import QuoteRecorded, QuoteSuperseded, SpanPriced
from ledger.events.registry import CATALOGUE, ENTRIES, ascii_json, decode, encode, entry_of
from ledger.events.sources import Context, LinesObserved, Prompt, SourceOpened

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.sampled_from([None, 1]))
def test_escaping_changes_no_value(value: Any, indent: int | None) -> None:
    """Whatever the JSON, its ASCII form is ASCII and means the same."""
    raw = json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "surrogatepass")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:  # half a character is no JSON text
        return
    escaped = ascii_json(raw)
    assert escaped.isascii()
    assert json.loads(escaped) == json.loads(raw)


@pytest.mark.parametrize(
    ("written", "read"), [("a\0b\0", "a\ufffdb\ufffd"), ("\\u0000", "\\u0000"), ("\\\0", "\\\ufffd")]
)
def test_a_nul_is_read_as_the_replacement_character(written: str, read: str) -> None:
    """It is kept in the log; accounts on every database are made of the same texts. Only a NUL, not its name."""
    data = encode(SourceOpened(written, "/p", "/"))
    assert json.loads(data)["client"] == written
    assert decode("source.opened", 1, data).client == read


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_every_character_comes_back(text: str) -> None:
    """A text in an event is read as it was written, by this program and by any JSON reader."""
    data = encode(SourceOpened(client=text, path="/", root=""))
    assert data.isascii()
    assert decode("source.opened", 1, data).client == text
    assert json.loads(data)["client"] == text


@pytest.mark.parametrize(
    ("character", "escaped"),
    [
        ("\x7f", "\x7f"), ("\x80", "\\u0080"), ("é", "\\u00e9"), ("\u2028", "\\u2028"), ("\uffff", "\\uffff"),
        ("\U00010000", "\\ud800\\udc00"), ("😀", "\\ud83d\\ude00"), ("\U0010ffff", "\\udbff\\udfff"),
    ],
)  # fmt: skip
def test_escapes_are_those_of_json(character: str, escaped: str) -> None:
    """Characters beyond the sixteen-bit plane are two escapes (RFC 8259, section 7)."""
    assert ascii_json(f'"{character}"'.encode()) == f'"{escaped}"'


def test_what_is_already_ascii_is_not_touched() -> None:
    """Byte for byte, spaces and escapes included: a raw value is kept as it stood."""
    raw = b'{ "a" : "caf\\u00e9\\n" ,\t"b":1.0e5}'
    assert ascii_json(raw) == raw.decode()
    assert ascii_json('{ "ä" : 1.50 }'.encode()) == '{ "\\u00e4" : 1.50 }'


def test_bytes_that_are_no_text_are_still_json() -> None:
    """A damaged character inside a raw value is replaced by the sign for it."""
    assert json.loads(ascii_json(b'"a\xffb"')) == "a\ufffdb"


def test_raw_values_are_kept_with_their_digits() -> None:
    """A price or a count keeps its digits: it is never read as a float on the way."""
    raw = msgspec.Raw(b'{"price": 0.10, "tokens": 12345678901234567890, "name": "\xc3\xa9"}')
    data = encode(QuoteRecorded(sha256="00", quote=raw))
    assert '"quote":{"price": 0.10, "tokens": 12345678901234567890, "name": "\\u00e9"}' in data
    assert json.loads(bytes(decode("quote.recorded", 1, data).quote))["name"] == "é"


def test_the_catalogue_is_in_order() -> None:
    """One entry a type and a struct; names are subject.verb; streams are of a stated kind."""
    assert len(CATALOGUE) == len(ENTRIES) == len({entry.struct for entry in ENTRIES})
    for entry in ENTRIES:
        subject, verb = entry.type.split(".")
        assert subject.isidentifier()
        assert verb.endswith("ed") or verb in {"set", "made", "sent", "cut", "lost", "taken", "held"}
        assert entry.schema >= 1
        assert entry.stream in {"run", "gateway", "source", "hub", "book"}
        assert entry.struct.__struct_config__.frozen


def test_a_struct_of_no_event_is_refused() -> None:
    """A part of an event, or anything else, is not an event."""
    assert entry_of(SpanPriced(spans=[], quote="", reason="")).type == "span.priced"
    for other in (Prompt(c=0, o=0, at=0, id=""), Context(session="")):
        with pytest.raises(InvalidEvent, match="is not an event of the catalogue"):
            entry_of(other)


@pytest.mark.parametrize(("type_", "schema"), [("comet.sighted", 1), ("span.priced", 2), ("", 1)])
def test_what_is_newer_is_named(type_: str, schema: int) -> None:
    """An unknown type or a higher schema stops the reader, which says which it is."""
    with pytest.raises(LogTooNew, match=f"\\({type_}, schema {schema}\\): update tallybook") as raised:
        decode(type_, schema, "{}")
    assert "\n" not in str(raised.value)


# older schemas


class Renamed(msgspec.Struct, frozen=True, omit_defaults=True):
    """quote.superseded as a later program might have it."""

    before: str
    after: str
    why: str
    by: str = ""


class Recorded(msgspec.Struct, frozen=True):
    """quote.recorded as a later program might have it."""

    digest: str
    quote: msgspec.Raw


def later(monkeypatch: pytest.MonkeyPatch, type_: str, schema: int, struct: type[msgspec.Struct]) -> None:
    """Let the catalogue have a type at a later schema."""
    entry = CATALOGUE[type_]._replace(schema=schema, struct=struct)
    monkeypatch.setitem(registry.CATALOGUE, type_, entry)
    monkeypatch.setitem(registry._decoders, type_, msgspec.json.Decoder(struct))


def test_old_data_is_lifted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schema 1 goes through 2 to 3, schema 2 to 3, schema 3 as it is, schema 4 is refused (OBS-54)."""
    steps: list[int] = []

    def to_2(data: dict[str, Any]) -> dict[str, Any]:
        steps.append(1)
        return {"before": data["old"], "after": data["new"], "reason": data["reason"]}

    def to_3(data: dict[str, Any]) -> dict[str, Any]:
        steps.append(2)
        data["why"] = data.pop("reason")
        return data

    later(monkeypatch, "quote.superseded", 3, Renamed)
    monkeypatch.setitem(registry.UPCASTERS, ("quote.superseded", 1), to_2)
    monkeypatch.setitem(registry.UPCASTERS, ("quote.superseded", 2), to_3)
    expected = Renamed(before="a", after="b", why="é")
    assert decode("quote.superseded", 1, encode(QuoteSuperseded(old="a", new="b", reason="é"))) == expected
    assert steps == [1, 2]
    assert decode("quote.superseded", 2, '{"before":"a","after":"b","reason":"\\u00e9"}') == expected
    assert steps == [1, 2, 2]
    assert decode("quote.superseded", 3, '{"before":"a","after":"b","why":"\\u00e9"}') == expected
    assert steps == [1, 2, 2]
    with pytest.raises(LogTooNew):
        decode("quote.superseded", 4, "{}")


def test_raw_values_survive_being_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that keeps JSON as it stood can get a new schema too."""
    later(monkeypatch, "quote.recorded", 2, Recorded)
    monkeypatch.setitem(
        registry.UPCASTERS, ("quote.recorded", 1), lambda data: {"digest": data["sha256"], "quote": data["quote"]}
    )
    lifted = decode("quote.recorded", 1, encode(book.QuoteRecorded(sha256="ab", quote=msgspec.Raw(b'{"in":"3"}'))))
    assert lifted.digest == "ab"
    assert json.loads(bytes(lifted.quote)) == {"in": "3"}


def test_observations_keep_their_kind() -> None:
    """Kinds of observation are told apart by their tag, and a kind that is not known is an error, not a guess."""
    body = LinesObserved(begin=0, end=1, lines=1, tail="", observations=[Prompt(c=0, o=0, at=0, id="p")])
    again = decode("lines.observed", 1, encode(body))
    assert again == body
    assert type(again.observations[0]) is Prompt
    with pytest.raises(msgspec.ValidationError):
        decode("lines.observed", 1, encode(body).replace('"prompt"', '"guess"'))
