"""docs/events.md says what the catalogue says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from ledger.events import document
from ledger.events.document import PATH, fields_of, parts_of
from ledger.events.envelope import Event
from ledger.events.registry import ENTRIES
from ledger.events.sources import Cumulative, Prompt

STRUCTS = [entry.struct for entry in ENTRIES]


def test_the_document_is_current() -> None:
    """`make docs` writes it; it is the same as what stands in the repository."""
    assert PATH.read_text("utf-8") == document.document(), "run `make docs`"


def test_the_module_writes_the_document(tmp_path: Path) -> None:
    """`python -m ledger.events.document` writes to docs/events.md, the same at every run."""
    code = (
        "import runpy, sys; from pathlib import Path; import ledger.events.document as d\n"
        "written = []; Path.write_text = lambda self, text, *_: written.append((self, text))\n"
        "runpy.run_path(d.__file__, run_name='__main__')\n"
        "assert written == [(d.PATH, d.document())], written\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_every_type_and_part_has_a_section() -> None:
    """No event and no object inside one is left out."""
    text = document.document()
    for entry in ENTRIES:
        assert f"\n## `{entry.type}`\n" in text
        assert f"Schema {entry.schema}, in streams of kind `{entry.stream}`." in text
    for part in parts_of(STRUCTS):
        assert f"\n### {part.__name__}\n" in text


def test_every_field_stands_in_its_table_and_says_what_it_means() -> None:
    """One meaning per number, and per anything else: no field of an event is without a text (OBS-07)."""
    for owner in (Event, *STRUCTS, *parts_of(STRUCTS)):
        names = owner._fields if owner is Event else owner.__struct_fields__
        assert [field.name for field in fields_of(owner)] == list(names)
        assert [field.name for field in fields_of(owner) if not field.text] == []


def test_running_totals_are_marked_and_few() -> None:
    """The only running totals are those that a client wrote, in two fields of one observation (OBS-07)."""
    marked = {
        (owner.__name__, field.name)
        for owner in (*STRUCTS, *parts_of(STRUCTS))
        for field in fields_of(owner)
        if field.text.startswith("The running total")
    }
    assert marked == {("Cumulative", "total"), ("Cumulative", "before")}


def test_types_and_defaults_are_those_of_the_structs() -> None:
    """What the source says and what msgspec made of it agree on what is required."""
    for struct in (*STRUCTS, *parts_of(STRUCTS)):
        required = {field.name for field in msgspec.structs.fields(struct) if field.required}
        assert {field.name for field in fields_of(struct) if not field.default} == required


def test_inherited_fields_come_first() -> None:
    """An observation's table begins with what all observations have."""
    assert [field.name for field in fields_of(Prompt)] == ["c", "o", "at", "id"]
    by_name = {field.name: field for field in fields_of(Cumulative)}
    assert by_name["lines"].default == "1"
    assert by_name["at"].text.startswith("When it happened")
