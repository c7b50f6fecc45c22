"""Several usage objects of one account: field by field, the last value wins, nothing is added (OBS-07)."""

from __future__ import annotations

from typing import Any

from ledger.wire.counts import count


def merged(usages: list[dict[str, Any]]) -> dict[str, Any]:
    """One usage object out of several, in stream order; objects inside are merged one level deep.

    A null never erases a value, and a value that is no count never erases a count.
    """
    result: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items():
            known = result.get(name)
            if value is None or _says_less(value, known):
                continue
            both = isinstance(known, dict) and isinstance(value, dict)
            result[name] = _joined(known or {}, value) if both else value
    return result


def _joined(known: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    news = {
        name: value for name, value in later.items() if value is not None and not _says_less(value, known.get(name))
    }
    return {**known, **news}


def _says_less(value: object, known: object) -> bool:
    """True where `value` says less than `known`: no count over a count, or not its kind of thing at all."""
    if type(known) is dict or type(known) is list:
        return type(value) is not type(known) or not value
    return count(known) is not None and count(value) is None
