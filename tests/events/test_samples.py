"""Frozen samples of every (type, schema): what was once written is read for ever, and means the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.events.document import parts_of
from ledger.events.registry import CATALOGUE, ENTRIES, UPCASTERS, decode, encode

SAMPLES = Path(__file__).parent / "samples.jsonl"
"""One line a sample: `data` is what was stored, `reads` every field as it must be read, defaults spelled out.

Lines are added and never changed. `full` samples have no field at its default, `bare` ones all of them. A field
that is added to a type comes with a new line of each; the old lines hold as they are.
"""


@cache
def samples() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in SAMPLES.read_text("ascii").splitlines())


def name(sample: dict[str, Any]) -> str:
    return f"{sample['type']}-{sample['schema']}-{sample['sample']}"


def assert_reads(value: Any, reads: Any) -> None:
    """Check a decoded value against a sample. A field that the sample does not know must be at its default."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        known = dict(reads)
        if config.tag is not None:
            assert known.pop(config.tag_field) == config.tag
        assert set(known) <= set(value.__struct_fields__)
        for field in msgspec.structs.fields(value):
            found = getattr(value, field.name)
            if field.name in known:
                assert_reads(found, known[field.name])
            else:
                assert found == default_of(field), f"{type(value).__name__}.{field.name}"
    elif isinstance(value, msgspec.Raw):
        assert json.loads(bytes(value)) == reads
    elif isinstance(value, list):
        assert len(value) == len(reads)
        for one, expected in zip(value, reads, strict=True):
            assert_reads(one, expected)
    elif isinstance(value, dict):
        assert set(value) == set(reads)
        for key, one in value.items():
            assert_reads(one, reads[key])
    else:
        assert (value, type(value)) == (reads, type(reads))


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def read_sample(sample: dict[str, Any], data: str | None = None) -> None:
    """Decode a sample, or other data in its place, and check it."""
    assert_reads(decode(sample["type"], sample["schema"], data or sample["data"]), sample["reads"])


@pytest.mark.parametrize("kind", ["full", "bare"])
def test_every_type_and_schema_has_a_sample(kind: str) -> None:
    """A new type, or a new schema of an old one, comes with its samples; none is ever taken away."""
    have = {(sample["type"], sample["schema"]) for sample in samples() if sample["sample"] == kind}
    assert have == {(entry.type, schema) for entry in ENTRIES for schema in range(1, entry.schema + 1)}


def test_every_older_schema_has_its_upcaster() -> None:
    """The chain has no gap, and no link beyond today's schema."""
    assert set(UPCASTERS) == {(entry.type, schema) for entry in ENTRIES for schema in range(1, entry.schema)}


@pytest.mark.parametrize("sample", samples(), ids=name)
def test_a_sample_reads_as_it_always_did(sample: dict[str, Any]) -> None:
    """Every field has the value that was meant, those left out included: a default never changes (OBS-54)."""
    read_sample(sample)


@pytest.mark.parametrize("sample", samples(), ids=name)
def test_a_sample_is_written_with_the_same_bytes(sample: dict[str, Any]) -> None:
    """Encoding what was decoded gives the stored text, so hashes can be made again; it is ASCII."""
    if sample["schema"] == CATALOGUE[sample["type"]].schema:
        assert encode(decode(sample["type"], sample["schema"], sample["data"])) == sample["data"]
    assert sample["data"].isascii()


def test_the_samples_cover_every_field() -> None:
    """Every field of every part stands in a full sample at a value that is not its default, and every default is
    spelled out in a bare one: a changed default, or a field whose reading is never checked, fails here (OBS-54)."""
    not_default: set[tuple[str, str]] = set()
    spelled_out: set[tuple[str, str]] = set()
    for sample in samples():
        if sample["schema"] != CATALOGUE[sample["type"]].schema:
            continue
        for part, reads in pairs(decode(sample["type"], sample["schema"], sample["data"]), sample["reads"]):
            for field in msgspec.structs.fields(part):
                if field.name not in reads:
                    continue
                place = (type(part).__name__, field.name)
                if getattr(part, field.name) != default_of(field):
                    not_default.add(place)
                elif sample["sample"] == "bare":
                    spelled_out.add(place)
    structs = [entry.struct for entry in ENTRIES]
    fields = [(one.__name__, field) for one in (*structs, *parts_of(structs)) for field in msgspec.structs.fields(one)]
    assert {(owner, field.name) for owner, field in fields} - not_default == set()
    assert {(owner, field.name) for owner, field in fields if not field.required} - spelled_out == set()


def pairs(value: Any, reads: Any) -> list[tuple[msgspec.Struct, dict[str, Any]]]:
    """Return every struct inside a decoded body with what the sample says of it."""
    if isinstance(value, msgspec.Struct):
        inner = [pairs(getattr(value, key), reads[key]) for key in value.__struct_fields__ if key in reads]
        return [(value, reads), *(one for many in inner for one in many)]
    if isinstance(value, list):
        return [one for each, said in zip(value, reads, strict=True) for one in pairs(each, said)]
    return []


def with_unknown_fields(value: Any, where: str = "") -> Any:
    """Return data as a later program might write it: a new field in every object, raw ones apart."""
    if isinstance(value, list):
        return [with_unknown_fields(one, where) for one in value]
    if not isinstance(value, dict) or where in RAW:
        return value
    news: dict[str, Any] = {"added_later": {"nested": [1, None, "x"]}, "zz": 7}
    return news | {key: with_unknown_fields(one, key) for key, one in value.items()}


RAW = ("usage", "earlier", "total", "before", "last", "quote", "carry", "values", "parameters")


@pytest.mark.parametrize("sample", samples(), ids=name)
def test_an_old_reader_ignores_what_was_added_later(sample: dict[str, Any]) -> None:
    """Fields that this program does not know change nothing of what it reads, at any depth (OBS-54)."""
    data = json.dumps(with_unknown_fields(json.loads(sample["data"])))
    assert "added_later" in data
    read_sample(sample, data)


@pytest.mark.parametrize("sample", samples(), ids=name)
def test_fields_in_another_order_read_the_same(sample: dict[str, Any]) -> None:
    """Only names count: another program may write them in any order."""
    data = json.dumps(json.loads(sample["data"]), sort_keys=True)
    read_sample(sample, data)
