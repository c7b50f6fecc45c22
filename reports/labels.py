"""Labels as a dimension of reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.accounts.catchup import View
from ledger.labels import all_labels, checked_key, parsed

PREFIX = "label."
"""What a label's key has before it as a dimension: `label.client`."""


def is_label(name: str) -> bool:
    """Return whether a dimension is a label. Raises UsageError where its key can be none."""
    if not name.startswith(PREFIX):
        return False
    checked_key(name.removeprefix(PREFIX), f"--by {name}")
    return True


def label_filters(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the filters of `--label key=value` words; an empty value asks for sessions without that label."""
    return tuple((PREFIX + key, value) for key, value in parsed(words, "--label").items())


def label_columns(names: Iterable[str]) -> dict[str, str]:
    """Return the SQL of the value of each label among dimension names; empty where a session has none.

    With `label_joins` each row is joined to one label row at most, so no sum counts anything twice.
    """
    labels = dict.fromkeys(name for name in names if is_label(name))
    return {name: f"coalesce(l{number}.value, '')" for number, name in enumerate(labels)}


def label_joins(columns: dict[str, str], session_key: str) -> str:
    """Return the joins that `label_columns` needs, on a column that holds a session's key."""
    # The key stands in the text: checked_key lets neither quote nor space through, and parameters would need an order.
    return "".join(
        f" LEFT JOIN gen_labels AS l{number} ON l{number}.session_key = {session_key} "
        f"AND l{number}.label = '{name.removeprefix(PREFIX)}'"
        for number, name in enumerate(columns)
    )


def labels_by_session(view: View) -> dict[str, dict[str, str]]:
    """Return the labels of the sessions that have any, by session id."""
    return {session: labels for (_, session), labels in all_labels(view).items()}
