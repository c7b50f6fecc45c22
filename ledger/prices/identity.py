"""Which entries of the price book may price a model that a log names: exact identity, or none.

Price data that matches by prefix gives `claude-opus-4-5-foo` a price. Here a name is exact when it equals a
name of the book, or one such name + `-YYYYMMDD`, `@YYYYMMDD` or `-latest`, or + `-YYYY-MM-DD` where the price
data says so of that model, or a listed cloud form:

- `[region.]anthropic.ID[-vN[:M]]`, with or without a date: Amazon Bedrock's own price for that region
- `vertex_ai/ID[@date]`: Google's own price
- `openrouter/vendor/ID`, or `vendor/ID` of provider openrouter: OpenRouter's own price

An exact name comes before its undated form, so that `gpt-4o-2024-05-13`, which has another price than
`gpt-4o`, keeps its own.
"""

from __future__ import annotations

from typing import NamedTuple

ANY_MAKER = ""
"""The provider of a candidate where none was named: any first-party vendor, if exactly one has the name."""

FIRST_PARTY = (
    "anthropic",
    "openai",
    "google",
    "x-ai",
    "mistral",
    "deepseek",
    "moonshotai",
    "cohere",
    "minimax",
    "meta",
    "cursor",
)
"""Vendors whose model names say whose model they are. Not Z.AI and Zhipu: both sell GLM under one name."""

_RESOLD = {"google": ("claude-",), "mistral": ("zai-", "glm-", "deepseek-"), "cursor": ("grok-",)}
"""Names under which a first-party vendor sells another's model: no sign of whose model it is."""

_PROVIDERS = {
    "amazon-bedrock": "aws",
    "aws-bedrock": "aws",
    "aws_bedrock": "aws",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "azure-openai": "azure",
    "azure_openai": "azure",
    "copilot": "github-copilot",
    "github_copilot": "github-copilot",
    "fireworks-ai": "fireworks",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "google-vertex": "google",
    "google-vertex-anthropic": "google",
    "vertex": "google",
    "vertex_ai": "google",
    "vertexai": "google",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "together-ai": "together",
    "together_ai": "together",
    "togetherai": "together",
    "unknown": ANY_MAKER,
    "xai": "x-ai",
    "z-ai": "zai",
    "z.ai": "zai",
}
"""Other names of the providers of the book. A provider that is neither here nor in the book has no prices."""

BEDROCK_REGIONS = ("global.", "us.", "eu.", "apac.", "jp.", "au.", "in.")
"""The inference profiles of Amazon Bedrock; a name without one is a model in its own region."""
_BEDROCK_VENDOR = "anthropic."
_VERTEX = "vertex_ai/"
_OPENROUTER = "openrouter/"
DATED = "-YYYY-MM-DD"
"""How the book spells that a model's names with a dashed date are its own (`gpt-6-sol-YYYY-MM-DD`)."""


class Candidate(NamedTuple):
    """A name of the price book that prices the model, if the book has it."""

    provider: str
    name: str


def provider_key(provider: str) -> str:
    """The provider's name in the book: lower case, other spellings resolved. Empty: none was named."""
    lowered = provider.strip().lower()
    return _PROVIDERS.get(lowered, lowered)


def candidates(provider: str, model: str) -> tuple[Candidate, ...]:
    """The entries that may price a model, the most exact first. Empty for a model without a name."""
    seller = provider_key(provider)
    if seller in (ANY_MAKER, "anthropic", "aws") and _is_bedrock(model):
        return tuple(Candidate("aws", name) for name in _bedrock_names(model))
    if seller in (ANY_MAKER, "anthropic", "google") and model.startswith(_VERTEX):
        seller, model = "google", model.removeprefix(_VERTEX)
    elif seller in (ANY_MAKER, "openrouter") and model.startswith(_OPENROUTER):
        seller, model = "openrouter", model.removeprefix(_OPENROUTER)
    return tuple(Candidate(seller, name) for name in _names(model))


def makes(provider: str, name: str) -> bool:
    """True where the name alone says that the model is this vendor's own."""
    return provider in FIRST_PARTY and "/" not in name and not name.startswith(_RESOLD.get(provider, ()))


def _names(model: str) -> list[str]:
    """The name itself, then the id that it dates or calls the latest. One suffix at most is taken off."""
    if not model or model.endswith(DATED):
        return []
    names = [model]
    undated = without_date(model)
    if undated and not undated.endswith("-latest"):
        names.append(undated)
    latest = model.removesuffix("-latest")
    if latest not in ("", model) and not without_date(latest):
        names.append(latest)
    stem, tail = model[:-11], model[-11:]
    if stem and tail[0] == tail[5] == tail[8] == "-" and _is_date(tail.replace("-", "")):
        names.append(stem + DATED)
    return names


def without_date(model: str) -> str:
    """The model without its `-YYYYMMDD` or `@YYYYMMDD`; empty where it has none."""
    if len(model) > 9 and model[-9] in "-@" and _is_date(model[-8:]):
        return model[:-9]
    return ""


def _is_date(digits: str) -> bool:
    """True for YYYYMMDD of the years that had models, so that no other number passes for a date."""
    if len(digits) != 8 or not (digits.isascii() and digits.isdecimal()):
        return False
    return "2019" <= digits[:4] <= "2099" and "01" <= digits[4:6] <= "12" and "01" <= digits[6:] <= "31"


def _is_bedrock(model: str) -> bool:
    return _without_region(model).startswith(_BEDROCK_VENDOR)


def _without_region(model: str) -> str:
    for region in BEDROCK_REGIONS:
        if model.startswith(region):
            return model.removeprefix(region)
    return model


def _bedrock_names(model: str) -> list[str]:
    """The id as it is, without its version, and without its date: the book has one of them."""
    names = [model]
    unversioned = without_version(model)
    if unversioned != model:
        names.append(unversioned)
    undated = without_date(unversioned)
    if undated:
        names.append(undated)
    return names


def without_version(model: str) -> str:
    """A Bedrock id without `-vN` or `-vN:M` at its end."""
    stem, _, version = model.rpartition("-v")
    major, colon, minor = version.partition(":")
    if stem and major.isdecimal() and (minor.isdecimal() if colon else True):
        return stem
    return model
