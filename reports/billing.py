"""How the use behind a figure is billed: a subscription's cost is what it would be at list price."""

from __future__ import annotations

from ledger.accounts.catchup import View
from reports.query import Question, ask


def billing(view: View, question: Question) -> dict[str, str]:
    """Return client -> `api`, `subscription` or `mixed`, for the clients that a question is about.

    A client of whose billing nobody said anything is left out: unknown.
    """
    said = stated(view)
    if not said:
        return {}
    asked = {key[0] for key, _ in ask(view, question._replace(by=("client",), sort="cost")).rows}
    return {client: mode for client, mode in said.items() if client in asked}


def stated(view: View) -> dict[str, str]:
    """Return client -> how its use is billed, for every client of which somebody said it."""
    rows = view.store.query("SELECT client, billing FROM gen_sources WHERE billing <> '' GROUP BY client, billing")
    said: dict[str, list[str]] = {}
    for client, mode in rows:
        said.setdefault(client, []).append(mode)
    return {client: modes[0] if len(modes) == 1 else "mixed" for client, modes in said.items()}


def all_subscription(view: View, question: Question, modes: dict[str, str]) -> bool:
    """Return whether every client of the question is known to be on a subscription."""
    if not modes or set(modes.values()) != {"subscription"}:
        return False
    return len(ask(view, question._replace(by=("client",), sort="cost")).rows) == len(modes)
