"""Addresses: what `report` writes is what `explain` reads, whatever stands in names and values."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import UsageError
from reports.address import escaped, is_row, parse_row, plain, row_address, total_address
from reports.query import make_question

NAMES = ("model", "agent", "month", "session", "project", "label.client")


@given(st.text())
def test_a_value_comes_back(text: str) -> None:
    """OBS-55: commas, equals signs, blanks, percent signs, control characters, lone surrogates."""
    assert plain(escaped(text)) == text
    assert not set(escaped(text)) & set(",=~ \t\n'\"()<>|&;*?[]{}$`\\!#^")


@given(st.text())
def test_a_value_is_one_word_in_a_shell(text: str) -> None:
    """OBS-55: an address is copied and pasted without quotes."""
    assert shlex.split("explain agent=" + escaped(text)) == ["explain", "agent=" + escaped(text)]


@given(st.text())
def test_whatever_is_typed_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        parse_row(text)
    except UsageError as error:
        assert str(error)


@given(st.lists(st.sampled_from(NAMES), unique=True, min_size=1), st.data())
def test_a_row_comes_back(by: list[str], data: st.DataObject) -> None:
    """OBS-55: the values of every grouping, also of labels, and the filters beside them."""
    key = tuple(data.draw(st.text(max_size=8)) for _ in by)
    prefix, folder = data.draw(st.text(min_size=1, max_size=5)), data.draw(st.text(min_size=1, max_size=5))
    question = make_question(",".join(by), session=prefix, project=folder, since="2026-11-01", tz="Europe/Berlin")
    address = row_address(question, key)
    assert is_row(address)
    read = parse_row(address)
    assert read.values == tuple(zip(by, key, strict=True))
    assert read.options == {"session": prefix, "project": folder, "since": "2026-11-01", "tz": "Europe/Berlin"}


@pytest.mark.parametrize("text", ["total,total", "branch=x,total"])
def test_the_word_for_a_total_stands_first_and_once(text: str) -> None:
    """OBS-55: what is wrong is said, not that the word is no NAME=VALUE."""
    with pytest.raises(UsageError, match="begins an address and stands in it once"):
        parse_row(text)


def test_an_empty_value_and_the_words_that_tables_have_for_it() -> None:
    """OBS-55: `(none)` opens what has no value; a value that is really called so has an address of its own."""
    assert parse_row("branch=(none)").values == parse_row("branch=").values == (("branch", ""),)
    address = row_address(make_question("branch"), ("(none)",))
    assert address == "branch=%28none%29" and parse_row(address).values == (("branch", "(none)"),)


def test_what_addresses_look_like() -> None:
    """OBS-55: filters are said once, a zone only where days matter."""
    question = make_question("month,model", model="gpt-5", tz="Europe/Berlin")
    assert row_address(question, ("2026-11", "gpt-5")) == "month=2026-11,model=gpt-5,tz=Europe/Berlin"
    assert row_address(make_question("agent", client="codex"), ("",)) == "agent=,client=codex"
    assert total_address(make_question("model", tz="Europe/Berlin")) == "total"
    assert total_address(make_question("day", kind="tool", until="2026-12", tz="UTC")) == (
        "total,kind=tool,until=2026-12-01,tz=UTC"
    )
    assert row_address(make_question("project"), ("/a b,c=d",)) == "project=/a%20b%2Cc%3Dd"


def test_none_is_an_empty_value_and_can_be_a_name() -> None:
    """OBS-55: `(none)` is how a table shows an empty value; a value that reads so is another one."""
    assert parse_row("agent=(none)").values == parse_row("agent=").values == (("agent", ""),)
    assert parse_row(f"agent={escaped('(none)')}").values == (("agent", "(none)"),)
    assert parse_row('project=/a b"c').values == (("project", '/a b"c'),)
    assert parse_row("model=100%").values == (("model", "100%"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model=x,", "an empty part is not NAME=VALUE"),
        ("model=x,y", "y is not NAME=VALUE"),
        ("=x", "=x is not NAME=VALUE"),
        ("model=x,model=y", "says model twice"),
        ("model~x", "model~ is unknown"),
        ("model=%FF", "is no text"),
    ],
)
def test_what_is_no_address(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_row(text)


@pytest.mark.parametrize("text", ["5e551011", "5e551011#3", "claude-code:msg_1:req_1", "u1@486", "totals"])
def test_what_is_not_a_row(text: str) -> None:
    assert not is_row(text)
