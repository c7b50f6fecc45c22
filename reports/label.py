"""`ledger label`: what a session is filed under."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.accounts.catchup import snapshot
from ledger.labels import labels_of, parsed, set_labels
from ledger.log.log import Log
from reports.output import put, put_csv, put_json
from reports.text import Column, safe, table, wrapped
from reports.tree import only_session


def label(log: Log, wanted: str, words: Sequence[str], format_: str) -> int:
    """Label a session, or take labels away; without words only look. Print all that it has then."""
    given = parsed(words)
    with snapshot(log) as view:
        _, session_id, client = only_session(view, wanted)
        labels = labels_of(view, client, session_id)
    if given:
        labels = set_labels(log, client, session_id, given)
    if format_ == "json":
        put_json({"session": session_id, "client": client, "labels": labels})
    elif format_ == "csv":
        put_csv(("session", "client", "label", "value"), [(session_id, client, *item) for item in labels.items()])
    elif labels:
        put(safe(f"session {session_id} ({client})"))
        put(table([Column("label"), Column("value")], [list(item) for item in labels.items()]))
    else:
        put(
            wrapped(
                safe(f"session {session_id} ({client}) has no labels: `ledger label {wanted} client=acme` sets one")
            )
        )
    return 0
