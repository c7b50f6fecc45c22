"""docs/tools.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from agent.process import _KEY_VARIABLES
from agent.tools.limits import SKIPPED_FOLDERS, Limits

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "tools.md").read_text()


def test_limits() -> None:
    """TOOL-17: every limit with its value, and no other."""
    found = dict(
        re.findall(r"^\| `(\w+_(?:characters|bytes|lines|entries|hits|files|seconds))` \| (\S+) \|", TEXT, re.M)
    )
    limits = Limits()
    assert found == {name: str(getattr(limits, name)) for name in Limits.__struct_fields__}


def test_lists() -> None:
    """TOOL-33, SEC-30: the skip list, the variables that commands do not get, the rules of refusals."""
    assert set(TEXT.partition("do not enter `")[2].partition("`")[0].split()) == SKIPPED_FOLDERS
    assert all(f"`{name}`" in TEXT for name in _KEY_VARIABLES)
    source = "".join(file.read_text() for file in (ROOT / "agent" / "paths").glob("*.py"))
    rules = set(re.findall(r"(?:PathRefused\(\s*|return PathRefused\()\"(\w+)\"", source))
    assert rules == set(re.findall(r"^\| `(\w+)` \| [^|]* \|$", TEXT, re.M)) and len(rules) == 8
