"""Masks known secrets in a text before anything of it is stored."""

from __future__ import annotations

import re
from functools import cache


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Published shapes of keys: the prefix stays, so that a reader sees what was there."""
    return tuple(
        re.compile(pattern)
        for pattern in (
            r"(sk-(?:ant-|proj-|or-)?)[A-Za-z0-9_\-]{16,}",
            r"((?:ghp|gho|ghs|ghu|ghr|glpat|xox[abprs])[_-])[A-Za-z0-9_\-]{16,}",
            r"(github_pat_)[A-Za-z0-9_]{20,}",
            r"(AKIA|ASIA)[A-Z0-9]{16}",
            r"(AIza)[A-Za-z0-9_\-]{30,}",
            r"(hf_|gsk_|xai-|pplx-)[A-Za-z0-9]{20,}",
            r"((?i:bearer)\s+)[A-Za-z0-9._~+/\-]{16,}=*",
            r"((?i:x-api-key|api[_-]?key|authorization)[\"']?\s*[:=]\s*[\"']?)[A-Za-z0-9._~+/\-]{16,}=*",
            r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]+?(?=-----END|\Z)",
        )
    )


def masked(text: str) -> str:
    """Return the text with every known secret replaced by its prefix and `[masked]`."""
    for pattern in _patterns():
        text = pattern.sub(r"\1[masked]", text)
    return text
