"""Labels of sessions: what the user files them under, as events of the book."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ledger.accounts.catchup import View, snapshot
from ledger.accounts.store import session_key
from ledger.errors import LedgerError, UsageError, VersionConflict
from ledger.events.envelope import NewEvent
from ledger.ids import new_id
from ledger.log.log import Log, StreamAppend

KEY_MAX, VALUE_MAX = 64, 256
NONE = "(none)"
"""How tables show that there is no value, which no label can have therefore."""
_KEY = re.compile(r"[a-z][a-z0-9_.-]*")


def checked_key(key: str, where: str) -> str:
    """Return a label's key. Raises UsageError for what is none, naming where it was given."""
    if _KEY.fullmatch(key) is None or len(key) > KEY_MAX:
        raise UsageError(
            f"{where}: a label's key begins with a letter a-z and has letters, digits, _ . - (at most {KEY_MAX})"
        )
    return key


def parsed(words: Iterable[str], option: str = "") -> dict[str, str]:
    """Return key -> value of words such as `client=acme`; an empty value stands for no label.

    Raises UsageError for a word without `=`, a wrong key, a value of several lines, beyond its length or blank,
    and for a key that is given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        told = f"{option} {word if word.strip() == word != '' else repr(word)}".strip()
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{told}: is no label: write key=value, for example client=acme")
        checked_key(key, told)
        if key in found:
            raise UsageError(f"{told}: {key} is given twice: a session has one value of a key")
        if len(value) > VALUE_MAX or len(value.splitlines()) > 1 or any(ord(char) < 32 for char in value):
            raise UsageError(f"{key}: a label's value is one line of at most {VALUE_MAX} characters")
        if value == NONE or (value and not value.strip()):  # in a table it would look like none
            raise UsageError(f"{told}: a label's value is neither blank nor {NONE}: `{key}=` stands for no {key}")
        found[key] = value
    return found


def labels_of(view: View, client: str, session_id: str) -> dict[str, str]:
    """Return the labels that a session has, by key."""
    sql = "SELECT label, value FROM gen_labels WHERE session_key = ? AND value <> '' ORDER BY label"
    return {str(key): str(value) for key, value in view.store.query(sql, session_key(client, session_id))}


def all_labels(view: View) -> dict[tuple[str, str], dict[str, str]]:
    """Return the labels of every session that has any, by (client, session id)."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    sql = (
        "SELECT s.client, s.session_id, l.label, l.value FROM gen_labels AS l "
        "JOIN gen_sessions AS s ON s.session_key = l.session_key WHERE l.value <> '' "
        "ORDER BY s.client, s.session_id, l.label"
    )
    for client, session_id, key, value in view.store.query(sql):
        found.setdefault((client, session_id), {})[key] = value
    return found


def set_labels(log: Log, client: str, session_id: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Give a session labels, or take those away whose value is empty; return all that it has then.

    What it has already is not said again. Values that look like secrets are masked. Raises LogReadOnly, and
    LedgerError where another book's label is of later than this machine's clock, and so holds.
    """
    from ledger.events.book import LabelSet  # whoever only reads labels needs neither
    from ledger.redaction import masked

    log.check_writable()
    wanted = {key: masked(value) for key, value in wanted.items()}
    while True:
        version = log.stream_version(log.book_stream)
        with snapshot(log) as view:
            before = labels_of(view, client, session_id)
        news = [
            LabelSet(client, session_id, key, value) for key, value in wanted.items() if before.get(key, "") != value
        ]
        events = [NewEvent(body=body, event_id=new_id()) for body in news]
        if not events:
            return before
        try:
            log.append([StreamAppend(log.book_stream, version, events)])
        except VersionConflict:
            continue
        break
    with snapshot(log) as view:
        after = labels_of(view, client, session_id)
    for key, value in wanted.items():
        if after.get(key, "") != value:
            raise LedgerError(
                f"{key}: another label was recorded at a later time, and holds: check this machine's clock"
            )
    return after
