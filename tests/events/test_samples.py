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

Lines are added and never changed. `full` samples have no field at its default, `bare` ones all of them.
"""


@cache
def samples() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in SAMPLES.read_text("ascii").splitlines())


def name(sample: dict[str, Any]) -> str:
    return f"{sample['type']}-{sample['schema']}-{sample['sample']}"


def spelled(value: Any) -> Any:
    """Return a decoded body as plain values, with every field whether or not it is at its default."""
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    if isinstance(value, msgspec.Struct):
        fields = {field: spelled(getattr(value, field)) for field in value.__struct_fields__}
        config = value.__struct_config__
        return fields if config.tag is None else fields | {config.tag_field: config.tag}
    if isinstance(value, list):
        return [spelled(one) for one in value]
    if isinstance(value, dict):
        return {key: spelled(one) for key, one in value.items()}
    return value


def structs_in(value: Any) -> list[msgspec.Struct]:
    """Return every struct inside a decoded body, itself included."""
    if isinstance(value, msgspec.Struct):
        inner = [getattr(value, field) for field in value.__struct_fields__]
        return [value, *(one for each in inner for one in structs_in(each))]
    if isinstance(value, list):
        return [one for each in value for one in structs_in(each)]
    return []


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
    assert spelled(decode(sample["type"], sample["schema"], sample["data"])) == sample["reads"]


@pytest.mark.parametrize("sample", samples(), ids=name)
def test_a_sample_is_written_with_the_same_bytes(sample: dict[str, Any]) -> None:
    """Encoding what was decoded gives the stored text, so hashes can be made again; it is ASCII."""
    if sample["schema"] == CATALOGUE[sample["type"]].schema:
        assert encode(decode(sample["type"], sample["schema"], sample["data"])) == sample["data"]
    assert sample["data"].isascii()


def test_the_full_samples_are_full() -> None:
    """Together they hold every part, and every field of everything at a value that is not its default."""
    bodies = [
        decode(sample["type"], sample["schema"], sample["data"])
        for sample in samples()
        if sample["sample"] == "full" and sample["schema"] == CATALOGUE[sample["type"]].schema
    ]
    found = [one for body in bodies for one in structs_in(body)]
    assert {type(one) for one in found} >= {*(entry.struct for entry in ENTRIES)}
    assert {type(one) for one in found} >= {*parts_of(entry.struct for entry in ENTRIES)}
    for one in found:
        for field in msgspec.structs.fields(one):
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            assert getattr(one, field.name) != default, f"{type(one).__name__}.{field.name}"


def with_unknown_fields(value: Any, where: str = "") -> Any:
    """Return data as a later program might write it: a new field in every object, raw ones apart."""
    if isinstance(value, list):
        return [with_unknown_fields(one, where) for one in value]
    if not isinstance(value, dict) or where in RAW:
        return value
    news: dict[str, Any] = {"added_later": {"nested": [1, None, "x"]}, "zz": 7}
    return news | {key: with_unknown_fields(one, key) for key, one in value.items()}


RAW = ("usage", "total", "before", "last", "quote", "carry")


@pytest.mark.parametrize("sample", samples(), ids=name)
def test_an_old_reader_ignores_what_was_added_later(sample: dict[str, Any]) -> None:
    """Fields that this program does not know change nothing of what it reads, at any depth (OBS-54)."""
    data = json.dumps(with_unknown_fields(json.loads(sample["data"])))
    assert "added_later" in data
    assert spelled(decode(sample["type"], sample["schema"], data)) == sample["reads"]


@pytest.mark.parametrize("sample", samples(), ids=name)
def test_fields_in_another_order_read_the_same(sample: dict[str, Any]) -> None:
    """Only names count: another program may write them in any order."""
    data = json.dumps(json.loads(sample["data"]), sort_keys=True)
    assert spelled(decode(sample["type"], sample["schema"], data)) == sample["reads"]
