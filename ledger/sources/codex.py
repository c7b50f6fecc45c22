"""Codex CLI's rollout files: session and turn settings, running totals, and records of single responses.

Format: `{timestamp, type, payload}` a line (docs/sources.md). A file that has any `token_usage_record` counts
by those; the others count by the differences of `token_count`'s running total. Which of the two holds is
decided by the fold, since a file may grow into the newer kind.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from ledger.events.sources import Context, Cumulative, Prompt, Response, Run
from ledger.sources.discover import text_of
from ledger.sources.line_reader import LineReader
from ledger.sources.reading import Draft, Projects, as_raw, instant, loads_leniently
from ledger.sources.reading import word as _text
from ledger.wire.codex import counts

CLIENT = "codex"
_NEEDLES = (b"session_meta", b"turn_context", b"token_", b"user_message", b"task_started")
_NULL = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    timestamp: str | None = None
    type: str | None = None
    payload: msgspec.Raw = _NULL


_decode = msgspec.json.Decoder(_Line).decode


class Reader(LineReader):
    """Reads one rollout from where it was left. `carry` keeps the session, the model and the running total."""

    client, needles = CLIENT, _NEEDLES
    billing = ""
    """`subscription` once a line names the plan that its limits belong to."""

    def __init__(self, path: Path, carry: dict[str, Any], begin: int, projects: Projects, mtime_us: int) -> None:
        self.path, self.projects = path, projects
        self.carry: dict[str, Any] = dict(carry)
        self.carry.setdefault("session", _session_of(path))
        self.carry.setdefault("at", mtime_us)

    def line(self, raw: bytes, offset: int, draft: Draft) -> int:
        """Do what LineReader.line promises."""
        try:
            line = _decode(raw)
            payload = msgspec.json.decode(line.payload)
        except msgspec.MsgspecError:
            found = loads_leniently(raw)
            if found is None:
                draft.malformed += 1
                return 1
            line = _Line(_text(found.get("timestamp")), _text(found.get("type")))
            payload = found.get("payload")
        if not isinstance(payload, dict):
            return 0
        at = instant(line.timestamp)
        if at is not None:
            self.carry["at"] = at
        kind = line.type if line.type != "event_msg" else payload.get("type")
        handler = _HANDLERS.get(kind or "")
        return handler(self, payload, offset, draft) if handler else 0

    # kinds of lines

    def _session_meta(self, payload: dict[str, Any], offset: int, draft: Draft) -> int:
        """The first one names the file's session; those of a replayed history say nothing new."""
        if self.carry.get("known"):
            return 0
        carry = self.carry
        carry["known"] = True
        carry["session"] = _text(payload.get("id")) or carry["session"]
        carry["provider"] = _text(payload.get("model_provider"))
        carry["cwd"] = _text(payload.get("cwd"))
        carry["version"] = _text(payload.get("cli_version"))
        git = payload.get("git")
        carry["branch"] = _text(git.get("branch")) if isinstance(git, dict) else ""
        forked, parent = _text(payload.get("forked_from_id")), _text(payload.get("parent_thread_id"))
        parent = parent or _spawned_by(payload.get("source"))
        carry["forked"] = bool(forked or parent)
        name = _nickname(payload.get("source"))
        if forked or parent or name:
            c = draft.context(self._context())
            draft.observations.append(Run(c=c, o=offset, at=carry["at"], forked_from=forked, parent=parent, name=name))
        return 0

    def _turn_context(self, payload: dict[str, Any], offset: int, draft: Draft) -> int:
        self.carry["model"] = _text(payload.get("model")) or self.carry.get("model", "")
        self.carry["cwd"] = _text(payload.get("cwd")) or self.carry.get("cwd", "")
        return 0

    def _task_started(self, payload: dict[str, Any], offset: int, draft: Draft) -> int:
        """A turn begins, in versions that say so; what the user wrote stands beside it and begins no other."""
        self.carry["tasks"] = True
        c = draft.context(self._context())
        identity = _text(payload.get("turn_id")) or f"{self.carry['session']}@{offset}"
        draft.observations.append(Prompt(c=c, o=offset, at=self.carry["at"], id=identity))
        return 0

    def _user_message(self, payload: dict[str, Any], offset: int, draft: Draft) -> int:
        if self.carry.get("tasks"):
            return 0
        c = draft.context(self._context())
        draft.observations.append(Prompt(c=c, o=offset, at=self.carry["at"], id=f"{self.carry['session']}@{offset}"))
        return 0

    def _token_count(self, payload: dict[str, Any], offset: int, draft: Draft) -> int:
        limits = payload.get("rate_limits")
        if isinstance(limits, dict) and _text(limits.get("plan_type")):
            self.billing = "subscription"
        info = payload.get("info")
        total = info.get("total_token_usage") if isinstance(info, dict) else None
        if not isinstance(total, dict):
            return 0
        carry = self.carry
        before = carry.get("total")
        if isinstance(before, dict) and counts(total) == counts(before):
            draft.repeated += 1
            return 1
        ordinal = carry.get("ordinal", 0)
        chain = _chain(carry.get("chain", ""), total)
        last = info.get("last_token_usage") if isinstance(info, dict) else None
        context = self._context()
        model = carry.get("model", "")
        draft.observations.append(
            Cumulative(
                c=draft.context(context), o=offset, at=carry["at"], ordinal=ordinal, chain=chain, model=model,
                total=as_raw(total), before=as_raw(before), last=as_raw(last),
                carried=ordinal == 0 and bool(carry.get("forked")),
                quote=draft.quote(context.provider, model, carry["at"]),
            )
        )  # fmt: skip
        carry.update(total=total, ordinal=ordinal + 1, chain=chain)
        return 1

    def _record(self, payload: dict[str, Any], offset: int, draft: Draft) -> int:
        usage, identity = payload.get("usage"), _text(payload.get("response_id"))
        if not isinstance(usage, dict):
            return 0
        context = self._context()
        model = _text(payload.get("model")) or self.carry.get("model", "")
        identity = identity or f"{self.carry['session']}@{offset}"
        draft.observations.append(
            Response(
                c=draft.context(context), o=offset, at=self.carry["at"], id=identity, model=model,
                usage=as_raw(usage), quote=draft.quote(context.provider, model, self.carry["at"]),
            )
        )  # fmt: skip
        return 1

    def _context(self) -> Context:
        carry = self.carry
        return Context(
            session=carry["session"],
            project=self.projects.root(carry.get("cwd", "")),
            branch=carry.get("branch", ""),
            provider=carry.get("provider", ""),
            client_version=carry.get("version", ""),
        )


_HANDLERS = {
    "session_meta": Reader._session_meta,
    "turn_context": Reader._turn_context,
    "user_message": Reader._user_message,
    "task_started": Reader._task_started,
    "token_count": Reader._token_count,
    "token_usage_record": Reader._record,
}


def _chain(before: str, total: dict[str, Any]) -> str:
    """Return the digest of all totals up to this one: files with an equal prefix have equal chains."""
    given = ",".join(f"{name}={value}" for name, value in sorted(counts(total).items()) if value is not None)
    return hashlib.sha256(f"{before}|{given}".encode()).hexdigest()[:24]


def _session_of(path: Path) -> str:
    """Return the session id at the end of `rollout-TIME-ID.jsonl`."""
    stem = text_of(path.name).removesuffix(".zst").removesuffix(".jsonl")
    return stem[-36:] if len(stem) > 36 else stem


def _spawned_by(source: object) -> str:
    """Return the thread that started a sub-agent's thread, where `source` says so."""
    if not isinstance(source, dict):
        return ""
    inner = source.get("subagent")
    inner = inner.get("thread_spawn") if isinstance(inner, dict) else None
    return _text(inner.get("parent_thread_id")) if isinstance(inner, dict) else ""


def _nickname(source: object) -> str:
    """Return what Codex calls a sub-agent: its role, else its nickname, else what it is for."""
    inner = source.get("subagent") if isinstance(source, dict) else None
    if isinstance(inner, str):
        return _text(inner)
    spawned = inner.get("thread_spawn") if isinstance(inner, dict) else None
    if not isinstance(spawned, dict):
        return ""
    return _text(spawned.get("agent_role")) or _text(spawned.get("agent_nickname"))
