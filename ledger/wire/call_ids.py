"""The ids of tool calls, fitted to what an endpoint takes: another protocol, or another server, may have made them."""

from __future__ import annotations

import re
from hashlib import sha256

_SHAPES = {
    "long": re.compile(r"[\s\S]{1,40}"),  # OpenAI: "expected a string with maximum length 40"
    "nine": re.compile(r"[a-zA-Z0-9]{9}"),  # Mistral
    "word": re.compile(r"[a-zA-Z0-9_-]{1,64}"),  # Anthropic
}


def fitted(call_id: str, shape: str) -> str:
    """Return an id as it is where it has the shape (`long`, `nine`, `word`), else always the same one that has it."""
    if _SHAPES[shape].fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:9] if shape == "nine" else f"call_{digest[:32]}"
