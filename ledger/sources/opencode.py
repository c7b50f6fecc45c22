"""opencode's sessions: one SQLite database, and of older versions one JSON file a message.

Format (docs/sources.md): a message `{role, time{created, completed}, providerID, modelID, cost, tokens, error, summary,
path}`, its parts (`step-finish` with the tokens of one request, `tool`, `text`, `reasoning`), and its session `{id,
parentID, directory, version, time{created}}`. In the database they are the JSON text in `data`, less the ids, which
are columns. A message is written when its request is sent and again when it ended.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from ledger.events.sources import Call, Context, Cut, Failure, Prompt, Response, Returned, Run
from ledger.sources.reading import Draft, Projects, as_raw, word
from ledger.wire.counts import count

CLIENT = "opencode"
_EMPTY: dict[str, Any] = {}
_MS = 1000
_TASK = "task"
"""The tool that starts a sub-agent."""
_ABORTED = "MessageAbortedError"
_LATEST_MS = 1 << 48
"""A later time is none."""


class SessionFacts(NamedTuple):
    """What is known of a session."""

    id: str
    parent: str = ""
    directory: str = ""
    version: str = ""
    created_ms: int | None = None


class Message(NamedTuple):
    """A message as it stands, with its parts in the order of their ids. `data` is None where it is no JSON object."""

    id: str
    session: SessionFacts
    data: dict[str, Any] | None
    parts: list[dict[str, Any]]
    created_ms: int | None = None
    """Of the row, for a message that does not say when it began."""


class Observer:
    """Puts into a draft what messages say."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects
        self._draft: Draft | None = None
        self._told: set[str] = set()
        """Sub-agents' sessions of which the draft says whose they are."""

    def observe(self, message: Message, draft: Draft) -> None:
        """Observe a message."""
        if draft is not self._draft:
            self._draft, self._told = draft, set()
        data = message.data
        if data is None:
            draft.malformed += 1
            return
        before = len(draft.observations)
        role = data.get("role")
        if role == "user":
            self._prompt(message, data, draft)
        elif role == "assistant":
            self._answer(message, data, draft)
        draft.no_usage += len(draft.observations) == before

    def _prompt(self, message: Message, data: dict[str, Any], draft: Draft) -> None:
        created = _created(message, data)
        if created is None or _is_copy(message, created):
            return
        c = draft.context(self._context(message, data))
        self._lineage(message, data, c, created, draft)
        draft.observations.append(Prompt(c=c, o=draft.lines, at=created * _MS, id=message.id))

    def _answer(self, message: Message, data: dict[str, Any], draft: Draft) -> None:
        created = _created(message, data)
        c = draft.context(self._context(message, data))
        steps = _steps(data, message.parts)
        error = data.get("error")
        failed = error if isinstance(error, dict) else None
        self._lineage(message, data, c, created or 0, draft)
        if not steps and failed is None:
            return  # its request is still running, or the client was killed meanwhile
        for number, step in enumerate(steps):
            draft.observations.append(self._response(message, data, step, number, len(steps), c, created, draft))
        if failed is not None and not (created is not None and _is_copy(message, created)):
            self._failure(message, failed, len(steps), c, created, draft)
        self._calls(message, c, created, draft)

    def _response(
        self, message: Message, data: dict[str, Any], step: dict[str, Any], number: int, steps: int, c: int,
        created: int | None, draft: Draft,
    ) -> Response:  # fmt: skip
        at, model = (created or 0) * _MS, word(data.get("modelID"))
        provider = word(data.get("providerID"))
        ended = _moment(_inner(data, "time").get("completed"))
        usage = step.get("tokens")
        cost: Any = step.get("cost")
        is_summary = data.get("summary") is True or _agent(data) == "compaction"
        return Response(
            c=c, o=draft.lines, at=at, id=_native(message, created, number), model=model, usage=as_raw(usage),
            quote=draft.quote(provider, model, at),
            last_at=max(at, ended * _MS) if ended is not None else at,
            cost=str(cost) if type(cost) in (int, float) and cost > 0 else "",
            role="compaction" if is_summary else "",
            copied=created is not None and _is_copy(message, created),
            evidence=_evidence(message, ended, number, steps) if ended is not None else "",
        )  # fmt: skip

    def _failure(
        self, message: Message, error: dict[str, Any], number: int, c: int, created: int | None, draft: Draft
    ) -> None:
        """Observe that the request after the answered ones failed, or was stopped by the user."""
        at, native = (created or 0) * _MS, _native(message, created, number)
        if error.get("name") == _ABORTED:
            draft.observations.append(Cut(c=c, o=draft.lines, at=at, id=native, by="cancelled"))
            return
        said = _inner(error, "data")
        status = count(said.get("statusCode")) or 0
        text = said.get("message")
        text = text if isinstance(text, str) and text else word(error.get("name"))
        draft.observations.append(
            Failure(
                c=c, o=draft.lines, at=at, id=native, status=status if status < 1000 else 0,
                error=draft.blob(text) if text else "",
            )
        )  # fmt: skip

    def _calls(self, message: Message, c: int, created: int | None, draft: Draft) -> None:
        for part in message.parts:
            if part.get("type") != "tool" or part.get("tool") != _TASK:
                continue
            state = _inner(part, "state")
            said, given, times = _inner(state, "metadata"), _inner(state, "input"), _inner(state, "time")
            agent = word(said.get("sessionId")) or word(said.get("sessionID"))
            call_id, begun = word(part.get("callID")), _moment(times.get("start"))
            at = begun if begun is not None else created
            if not call_id or at is None:
                continue
            call_id = f"{call_id}@{created}"
            draft.observations.append(
                Call(
                    c=c, o=draft.lines, at=at * _MS, id=call_id, tool=_TASK, response=_native(message, created, 0),
                    agent_type=word(given.get("subagent_type")),
                )
            )  # fmt: skip
            ended, status = _moment(times.get("end")), word(state.get("status"))
            if agent and status in ("completed", "error"):
                draft.observations.append(
                    Returned(c=c, o=draft.lines, at=(at if ended is None else ended) * _MS, id=call_id, agent=agent,
                             status=status)
                )  # fmt: skip

    def _lineage(self, message: Message, data: dict[str, Any], c: int, created: int, draft: Draft) -> None:
        """Say once in a draft whose sub-agent a session is."""
        session = message.session
        if session.parent and session.id not in self._told:
            self._told.add(session.id)
            name = "" if data.get("summary") is True or _agent(data) == "compaction" else _agent(data)
            draft.observations.append(Run(c=c, o=draft.lines, at=created * _MS, parent=session.parent, name=name))

    def _context(self, message: Message, data: dict[str, Any]) -> Context:
        session, path = message.session, _inner(data, "path")
        root = word(path.get("root"))
        folder = word(path.get("cwd")) or session.directory
        return Context(
            session=session.id,
            project=root if root not in ("", "/") else self.projects.root(folder),
            provider=word(data.get("providerID")),
            client_version=session.version,
        )


def _steps(data: dict[str, Any], parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answered requests that a message stands for, each with its `tokens` and `cost`.

    The message itself has the tokens of its last request and the cost of all. One without tokens has no answer yet,
    or its request failed; if it ended and did not fail, the API told none.
    """
    steps = [part for part in parts if part.get("type") == "step-finish" and _has_tokens(part.get("tokens"))]
    if len(steps) > 1:
        return steps
    if _has_tokens(data.get("tokens")):
        return [data]
    ended = _moment(_inner(data, "time").get("completed")) is not None
    return steps or ([data] if ended and not isinstance(data.get("error"), dict) else [])


def _has_tokens(tokens: object) -> bool:
    if not isinstance(tokens, dict):
        return False
    cache = _inner(tokens, "cache")
    values = [*(tokens.get(name) for name in ("input", "output", "reasoning")), cache.get("read"), cache.get("write")]
    return any(count(value) for value in values)


def _native(message: Message, created: int | None, number: int) -> str:
    """Return `MESSAGE~INSTANT`, by which copies meet; further requests of one message are numbered."""
    step = f".{number}" if number else ""
    instant = f"{created}{step}" if created is not None else f"{message.id}{step}"
    return f"{message.id}{step}~{instant}"


def _evidence(message: Message, ended: int, number: int, steps: int) -> str:
    """Return the digest of what a copy repeats.

    What was said and called is a part of it. Where nothing of that is kept, and the session says when it began, only
    a message that is older than its session is a copy.
    """
    told: list[Any] = [ended, number, steps]
    said = [
        [part.get("type"), part.get("callID"), part.get("tool"), part.get("text")]
        for part in message.parts
        if part.get("type") in ("text", "reasoning", "tool")
    ]
    told.append(said)
    if not said and message.session.created_ms is not None:
        told.append(message.id)
    return hashlib.blake2b(bytes(as_raw(told)), digest_size=8).hexdigest()


def _created(message: Message, data: dict[str, Any]) -> int | None:
    created = _moment(_inner(data, "time").get("created"))
    return message.created_ms if created is None else created


def _is_copy(message: Message, created: int) -> bool:
    """Return whether a message is older than its session: a fork copied it."""
    return message.session.created_ms is not None and created < message.session.created_ms


def _agent(data: dict[str, Any]) -> str:
    return word(data.get("agent")) or word(data.get("mode"))


def _inner(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else _EMPTY


def _moment(value: object) -> int | None:
    """Return a time in milliseconds UTC, None where it is none."""
    found = count(value)
    return found if found is not None and found < _LATEST_MS else None
