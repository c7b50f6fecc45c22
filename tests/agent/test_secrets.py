"""Secrets are masked before anything is stored or shown to the model."""

from __future__ import annotations

import pytest

from agent.secrets import Masker


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "GITHUB_TOKEN", "TOKEN", "db_password", "AWS_SECRET_ACCESS_KEY", "CLIENT_SECRET", "APIKEY"],
)
def test_values_of_variables_that_are_secret_by_name(name: str) -> None:
    mask = Masker.of_environment({name: "correct-horse-battery"})
    assert mask("a correct-horse-battery b") == "a [masked] b"


@pytest.mark.parametrize(
    ("name", "value"),
    [("PATH", "/usr/bin:/usr/local/bin"), ("TOKENIZERS_PARALLELISM", "false-or-true"), ("TOKEN", "short")],
)
def test_values_that_are_none(name: str, value: str) -> None:
    """Twin: other variables, and words so short that they may stand anywhere."""
    assert Masker.of_environment({name: value})(f"a {value} b") == f"a {value} b"


def test_a_secret_that_holds_another() -> None:
    """The longer one goes first, so that no rest of it stays; signs of regular expressions are plain letters."""
    mask = Masker(["abcdefghijkl", "abcdefghijklmnop", "a+b(c)*d[e]f?"])
    assert mask("abcdefghijklmnop|abcdefghijkl|a+b(c)*d[e]f?") == "[masked]|[masked]|[masked]"


def test_secrets_by_their_shape() -> None:
    assert Masker([])("use sk-ant-abcdefghijklmnopqrstuvwxyz now") == "use sk-ant-[masked] now"
