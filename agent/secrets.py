"""Keeps secrets out of the log: what is stored is masked first, and so is what the model is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from ledger.redaction import masked

_NAMES = re.compile(r"(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|ACCESS_KEY)(?:_|$)", re.IGNORECASE)
_LEAST_LETTERS = 12
"""A shorter value may be a word that stands anywhere."""


class Masker:
    """Masks the secrets that this process knows by value, and those that are known by their shape."""

    def __init__(self, values: Iterable[str]) -> None:
        kept = sorted({value for value in values if len(value) >= _LEAST_LETTERS}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, kept))) if kept else None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Masker:
        """Return a masker that knows every value of a variable whose name says that it is a secret."""
        return cls(value for name, value in environment.items() if _NAMES.search(name))

    def __call__(self, text: str) -> str:
        """Return the text with every known secret masked."""
        if self._values is not None:
            text = self._values.sub("[masked]", text)
        return masked(text)
