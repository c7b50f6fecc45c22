"""Gemini CLI's session files: `session-*.jsonl`, which grow, and `session-*.json` of older versions.

Format (docs/sources.md): a session's `{sessionId, projectHash, startTime, lastUpdated, kind, directories}`, its
messages `{id, timestamp, type, model, tokens, toolCalls}`, and `{"$set": {...}}`, `{"$rewindTo": id}`. In JSON lines a
message stands again whenever it changed, and `$set.messages` repeats them all: the id tells that they are one. In
the older files all stand in one object, which is written anew each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ledger.events.sources import Call, Context, Prompt, Response, Returned, Run
from ledger.sources.discover import Found, text_of
from ledger.sources.line_reader import LineReader
from ledger.sources.reading import (
    Draft,
    Projects,
    as_object,
    as_raw,
    chained,
    instant,
    read_before,
    remember,
    word,
)

CLIENT, PROVIDER = "gemini", "google"
_NEEDLES = (b"tokens", b"user", b"sessionId", b"agentId")
_FILE_BYTES = 256 << 20
"""A JSON file that is larger is not read at once."""
_CONTEXT = ("<session_context>", "<hook_context>")
"""How what the client itself puts before the first prompt begins."""


class _Session:
    """What a file says of its session, and the observations of its messages."""

    billing = ""

    def __init__(self, path: Path, carry: dict[str, Any], projects: Projects, mtime_us: int) -> None:
        self.path, self.projects = path, projects
        self.carry: dict[str, Any] = dict(carry)
        self.carry.setdefault("session", text_of(path.stem))
        self.carry.setdefault("at", mtime_us)
        self._draft: Draft | None = None
        self._places: dict[tuple[str, bytes], int] = {}
        """Where a response stands in the draft, by its id and usage."""

    def head(self, record: dict[str, Any], offset: int, draft: Draft) -> None:
        """Take in what a record says of the session."""
        carry = self.carry
        carry["session"] = word(record.get("sessionId")) or carry["session"]
        folders = record.get("directories")
        if isinstance(folders, list) and folders and not carry.get("cwd"):
            carry["cwd"] = word(folders[0])
        carry["hash"] = word(record.get("projectHash")) or carry.get("hash", "")
        carry["at"] = instant(word(record.get("startTime"))) or carry["at"]
        if record.get("kind") == "subagent" and not carry.get("parent"):
            carry["parent"] = text_of(self.path.parent.name)
            if carry["parent"] != "chats":
                c = draft.context(self._context())
                draft.observations.append(Run(c=c, o=offset, at=carry["at"], parent=carry["parent"]))

    def message(self, message: dict[str, Any], offset: int, draft: Draft, *, repeated: bool = False) -> bool:
        """Observe a message; return whether it held something. `repeated` ones may say no new prompt."""
        identity = word(message.get("id"))
        at = instant(word(message.get("timestamp")))
        if at is not None and not repeated:
            self.carry["at"] = at
        at = self.carry["at"] if at is None else at
        if message.get("type") == "user":
            return not repeated and self._prompt(message, identity or f"@{offset}", at, offset, draft)
        if message.get("type") != "gemini":
            return False
        tokens = message.get("tokens")
        found = isinstance(tokens, dict) and bool(tokens)
        if found:
            self._response(message, identity or f"{self.carry['session']}@{offset}", at, offset, draft)
        return self._calls(message, identity, at, offset, draft) or found

    def _prompt(self, message: dict[str, Any], identity: str, at: int, offset: int, draft: Draft) -> bool:
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
        first = next((text for text in texts if isinstance(text, str)), None)
        if first is None or first.startswith(_CONTEXT) or self.carry.get("tasked"):
            return False
        if self.carry.get("parent"):
            self.carry["tasked"] = True  # a sub-agent has one task: what follows is the client urging it on
        draft.observations.append(Prompt(c=draft.context(self._context()), o=offset, at=at, id=identity))
        return True

    def _response(self, message: dict[str, Any], identity: str, at: int, offset: int, draft: Draft) -> None:
        usage, model = as_raw(message["tokens"]), word(message.get("model"))
        if draft is not self._draft:
            self._draft, self._places = draft, {}
        key = (f"{identity} {model}", bytes(usage))
        place = self._places.get(key)
        if place is not None:
            one = draft.observations[place]
            draft.observations[place] = msgspec.structs.replace(one, lines=getattr(one, "lines", 0) + 1)
            return
        self._places[key] = len(draft.observations)
        draft.observations.append(
            Response(
                c=draft.context(self._context()), o=offset, at=at, id=identity, model=model, usage=usage,
                quote=draft.quote(PROVIDER, model, at),
            )
        )  # fmt: skip

    def _calls(self, message: dict[str, Any], identity: str, at: int, offset: int, draft: Draft) -> bool:
        """Observe the calls that started a sub-agent."""
        found = False
        calls = message.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            agent = word(call.get("agentId")) if isinstance(call, dict) else ""
            if not agent:
                continue
            c, call_id = draft.context(self._context()), f"{identity}/{word(call.get('id'))}"
            given = call.get("args")
            name = word(given.get("agent_name")) if isinstance(given, dict) else ""
            tool, status = word(call.get("name")), word(call.get("status"))
            ended = instant(word(call.get("timestamp")))
            draft.observations.append(
                Call(c=c, o=offset, at=at, id=call_id, tool=tool, response=identity, agent_type=name or tool)
            )
            said = "completed" if status in ("success", "") else status
            draft.observations.append(Returned(c=c, o=offset, at=ended or at, id=call_id, agent=agent, status=said))
            found = True
        return found

    def _context(self) -> Context:
        carry = self.carry
        if "project" not in carry:
            carry["project"] = self._project()
        return Context(session=carry["session"], project=carry["project"], provider=PROVIDER)

    def _project(self) -> str:
        """Return the project: as it stands beside the files, else the session's folder, else the digest of it."""
        above = self.path.parent
        chats = above if above.name == "chats" else above.parent
        try:
            folder = (chats.parent / ".project_root").read_text("utf-8", "replace").strip()
        except OSError:
            folder = ""
        folder = word(folder) or self.carry.get("cwd", "")
        return self.projects.root(folder) if folder else self.carry.get("hash", "")


class Reader(_Session, LineReader):
    """Reads one `.jsonl` file from where it was left."""

    client, needles = CLIENT, _NEEDLES

    def __init__(self, path: Path, carry: dict[str, Any], begin: int, projects: Projects, mtime_us: int) -> None:
        super().__init__(path, carry, projects, mtime_us)

    def line(self, raw: bytes, offset: int, draft: Draft) -> int:
        """Do what LineReader.line promises."""
        record = as_object(raw)
        if record is None:
            draft.malformed += 1
            return 1
        if "type" in record and "id" in record:
            return int(self.message(record, offset, draft))
        update = record.get("$set")
        head = update if isinstance(update, dict) else record
        self.head(head, offset, draft)
        return int(self._listed(head.get("messages"), offset, draft))

    def _listed(self, messages: object, offset: int, draft: Draft) -> bool:
        """Observe messages that stand in one line, as repetitions of what stood before."""
        found = [
            self.message(one, offset, draft, repeated=True)
            for one in (messages if isinstance(messages, list) else ())
            if isinstance(one, dict)
        ]
        return any(found)


class Records(_Session):
    """Reads one `.json` file, which is written anew with each message: what it holds that was not read before."""

    def __init__(self, found: Found, carry: dict[str, Any], projects: Projects) -> None:
        super().__init__(found.path, carry, projects, found.mtime_ns // 1000)
        self.size = found.size
        self.malformed = False

    def records(self) -> Iterator[dict[str, Any] | None]:
        """Yield the session's head, then the messages from the first that is new or changed. None is a broken file."""
        if self.size > _FILE_BYTES:
            raise OSError(f"is larger than {_FILE_BYTES >> 20} MiB")
        content = self.path.read_bytes()
        whole = as_object(content)
        if whole is None:
            digest = hashlib.sha256(content).hexdigest()[:16]
            if self.carry.get("broken") != digest:
                self.carry["broken"] = digest
                yield None
            return
        listed = whole.get("messages")
        messages = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        told = [_told(message) for message in messages]
        read, chains = read_before(self.carry, told), [""]
        if read < len(messages) or "read" not in self.carry:
            self.carry.setdefault("read", 0)
            yield {name: value for name, value in whole.items() if name != "messages"}
        for number, message in enumerate(messages):
            chains.append(chained(chains[-1], told[number]))
            if number >= read:
                remember(self.carry, chains[1:])
                yield message

    def observe(self, record: dict[str, Any] | None, draft: Draft) -> None:
        """Put into the draft what the head or a message says."""
        number = draft.lines
        if record is None:
            draft.malformed += 1
        elif "sessionId" in record and "type" not in record:
            self.head(record, number, draft)
        elif not self.message(record, number, draft):
            draft.no_usage += 1

    def check(self) -> None:
        """A file is read at once: a half-written one is no JSON."""


def _told(message: dict[str, Any]) -> bytes:
    """Return what is observed of a message, as bytes."""
    calls = message.get("toolCalls")
    told = [message.get(name) for name in ("id", "timestamp", "type", "model", "tokens")]
    told.append([one.get("agentId") for one in calls if isinstance(one, dict)] if isinstance(calls, list) else None)
    return bytes(as_raw(told))
