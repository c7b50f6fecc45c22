"""Claude Code's session files: which lines hold something to observe, and what.

Format: one JSON object a line, as written by versions 1.0 to 2.1 (docs/sources.md). A fast filter skips lines
that provably hold neither usage nor a prompt; everything else is parsed as JSON.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from ledger.events.sources import Call, Context, Cut, Delegated, Failure, Prompt, Response, Returned
from ledger.sources.claude_code_lines import (
    Line,
    Message,
    compact,
    field_of,
    given,
    http_status,
    is_number,
    is_result,
    lenient_line,
    parse_line,
    text_of_content,
    word,
)
from ledger.sources.discover import text_of
from ledger.sources.lines import CLOSING, OPENING, Block, escaped_letter, is_broken
from ledger.sources.reading import Draft, Projects, instant, loads_leniently
from ledger.wire import anthropic

CLIENT = "claude-code"
_USER_TYPE = b'"type":"user"'
_HEAD_BYTES = 1024
"""How far into a line its type is looked for; in the client's own order it stands before all that is long."""
_RESULT_BYTES = 4096
_AGENT_TOOLS = ("Task", "Agent")
_OPEN_CALLS = 64
"""How many unanswered calls to sub-agents are waited for."""
_RESPONSES = 16
"""How many lines with a response are remembered, for an error that says which of them broke off."""
_NO_PROMPT = ("[Request interrupted", "<command-name>", "<local-command", "<task-notification>")
"""How the texts of user lines begin that no user wrote as a prompt."""


class Reader:
    """Reads one file from where it was left.

    `carry` keeps the last instant, the newest lines with a response, the calls to sub-agents that have no result
    yet, and whether the note beside a sub-agent's file was read.
    """

    client = CLIENT
    billing = ""
    """Its files do not say how their use is billed."""

    def __init__(self, path: Path, carry: dict[str, Any], begin: int, projects: Projects, mtime_us: int) -> None:
        self.path, self.projects = path, projects
        self.carry: dict[str, Any] = carry
        self._session, self._agent = _from_path(path)
        self._noted = bool(carry.get("noted"))
        self._meta = _meta(path) if self._agent and not self._noted else {}
        self._last_at = carry.get("at") or mtime_us
        self._pending: Response | None = None
        self._pending_lines = (0, 0, 0)
        self._responses: dict[str, str] = dict(carry.get("responses") or ())
        """uuid of a line -> id of the response in it, the newest last."""
        self._open_calls: list[str] = [call for call in carry.get("calls", ()) if isinstance(call, str)]
        self._at = self._last_at

    def read(self, block: Block, draft: Draft) -> None:
        """Observe every line of a block."""
        content = block.content
        if self._meta:
            self._observe_meta(draft)
        find, begin, size, lines, taken, broken = content.find, 0, len(content), 0, 0, 0
        suspect = b"\0" in content
        while begin < size:
            end = find(b"\n", begin)
            if end < 0:
                end = size
            lines += 1
            framed = content[begin] == OPENING and content[end - 1] == CLOSING and not suspect
            if not framed and is_broken(content[begin:end]):
                broken += 1
            elif self._worth(content, begin, end):
                taken += self._line(content[begin:end], block.offset + begin, draft)
            begin = end + 1
        self._flush(draft)
        draft.lines += lines
        draft.malformed += broken
        draft.no_usage += lines - taken - broken
        self.carry = {"at": self._last_at}
        if self._responses:
            self.carry["responses"] = list(self._responses.items())
        if self._open_calls:
            self.carry["calls"] = self._open_calls
        if self._noted:
            self.carry["noted"] = True

    def _worth(self, content: bytes, begin: int, end: int) -> bool:
        """Return False for a line that provably holds nothing to observe.

        A line whose own type is `user` holds no response, whatever is quoted in it, and most of a log's
        bytes stand in such lines: they are only looked into for a prompt, or for the end of a sub-agent.
        """
        find = content.find
        mark = find(_USER_TYPE, begin, min(end, begin + _HEAD_BYTES))
        if mark >= 0 and find(b"{", begin + 1, mark) < 0:
            limit = min(end, mark + _RESULT_BYTES)
            if find(b'"tool_result"', mark, limit) < 0:
                return True
            if not self._open_calls:
                return False
            hidden = find(b"\\u00", mark, limit) >= 0  # an id may be written with escapes
            return hidden or any(find(call.encode(), mark, limit) >= 0 for call in self._open_calls)
        if find(b"usage", begin, end) >= 0 or escaped_letter(content, begin, end) >= 0:
            return True
        return find(b'"user"', begin, end) >= 0 and find(b'"tool_result"', begin, end) < 0

    def torn(self, content: bytes) -> bool:
        """Return whether the unfinished last line of a file is half an object (True) or a whole one."""
        return loads_leniently(content) is None

    def _line(self, raw: bytes, offset: int, draft: Draft) -> int:
        """Observe one line; return 1 where it counted as one with something in it."""
        line = parse_line(raw)
        if line is None:
            draft.malformed += 1
            return 1
        at = instant(line.timestamp)
        if at is not None:
            self._last_at = at
        self._at = self._last_at
        if line.type == "progress" or given(line.data):
            return self._progress(line, offset, draft)
        if line.type == "user":
            return self._user(line, offset, draft)
        if line.message is None or not given(line.message.usage):
            return 0
        return self._assistant(line, line.message, offset, draft, nested=False)

    def _assistant(self, line: Line, message: Message, offset: int, draft: Draft, *, nested: bool) -> int:
        raw = bytes(message.usage)
        if raw[:1] != b"{":
            return 0
        model = message.model or ""
        provider = "anthropic" if model.startswith("claude") or not model else ""
        c, at = self._context(line, draft, provider, nested), self._at
        identity = message.id or line.uuid or f"{self._session}@{offset}"
        if line.isApiErrorMessage or message.model == "<synthetic>":
            return self._failure(line, message, identity, c, offset, at, draft)
        raw = compact(raw)
        self._remember(line.uuid, identity)
        stop = message.stop_reason or ""
        cost = bytes(line.costUSD).decode() if is_number(line.costUSD) else ""
        request = line.requestId or ""
        pending = self._pending
        if (
            pending is not None
            and pending.id == identity
            and (pending.c, pending.request, pending.model, pending.stop) == (c, request, model, stop)
            and (pending.nested, pending.cost) == (nested, cost)
            and self._joins(pending, raw, provider, draft)
        ):
            lines, first, last = self._pending_lines
            self._pending_lines = (lines + 1, min(first, at), max(last, at))
        else:
            self._flush(draft)
            quote = draft.quote(provider, model, at)
            self._pending = Response(
                c=c, o=offset, at=at, id=identity, request=request, model=model, usage=msgspec.Raw(raw),
                quote=quote, part_quotes=self._part_quotes(raw, provider, model, at, draft), stop=stop,
                nested=nested, cost=cost,
            )  # fmt: skip
            self._pending_lines = (1, at, at)
        self._calls(message.content, identity, c, offset, at, draft)
        return 1

    def _joins(self, pending: Response, raw: bytes, provider: str, draft: Draft) -> bool:
        """Take another usage of the pending response: the fullest stands first, every other is kept as it stood.

        Return False for another that is just as full: which of the two counts is not for the order of lines to say.
        """
        if bytes(pending.usage) == raw or any(bytes(known) == raw for known in pending.earlier):
            return True
        kept, other = pending.usage, msgspec.Raw(raw)
        difference = anthropic.fullness(other) - anthropic.fullness(kept)
        if not difference:
            return False
        if difference > 0:
            kept, other = other, kept
        self._pending = msgspec.structs.replace(
            pending,
            usage=kept,
            earlier=[*pending.earlier, other],
            part_quotes=self._part_quotes(bytes(kept), provider, pending.model, pending.at, draft),
        )
        return True

    def _remember(self, uuid: str | None, identity: str) -> None:
        """Keep which response a line holds: the error that says that it broke off may come some lines later."""
        if not uuid:
            return
        self._responses.pop(uuid, None)
        self._responses[uuid] = identity
        if len(self._responses) > _RESPONSES:
            del self._responses[next(iter(self._responses))]

    def _failure(self, line: Line, message: Message, identity: str, c: int, offset: int, at: int, draft: Draft) -> int:
        """Observe a request that failed, or that the response above the line broke off; other notes are neither."""
        if line.isApiErrorMessage is False:
            return 0  # the client's own note, no request: "No response requested."
        self._flush(draft)
        status = http_status(line.apiErrorStatus)
        response = self._responses.get(line.parentUuid or "")
        if not status and response:
            draft.observations.append(Cut(c=c, o=offset, at=at, id=response, by="cut"))
            return 1
        text = draft.blob(text_of_content(message.content))
        draft.observations.append(Failure(c=c, o=offset, at=at, id=identity, status=status, error=text))
        return 1

    def _part_quotes(self, raw: bytes, provider: str, model: str, at: int, draft: Draft) -> list[int]:
        """Return the quotes of the calls that the usage holds beside the answer."""
        if b"iterations" not in raw:
            return []
        parts = anthropic.parts(msgspec.json.decode(raw))[1:]
        return [draft.quote(provider, part.model or model, at) for part in parts]

    def _flush(self, draft: Draft) -> None:
        """Write down the response that is being gathered over equal lines."""
        pending = self._pending
        if pending is None:
            return
        lines, first, last = self._pending_lines
        if lines > 1:
            pending = msgspec.structs.replace(pending, lines=lines, at=first, last_at=last)
        draft.observations.append(pending)
        self._pending = None

    def _calls(self, content: Any, response: str, c: int, offset: int, at: int, draft: Draft) -> None:
        """Observe the tool calls that start sub-agents."""
        if not isinstance(content, list):
            return
        for block in content:
            if block.type == "tool_use" and block.name in _AGENT_TOOLS and block.id:
                self._flush(draft)
                agent_type = field_of(block.input, "subagent_type")
                draft.observations.append(
                    Call(
                        c=c,
                        o=offset,
                        at=at,
                        id=block.id,
                        tool=block.name,
                        response=response,
                        agent_type=agent_type,
                    )
                )
                self._open_calls = [*self._open_calls, block.id][-_OPEN_CALLS:]

    def _progress(self, line: Line, offset: int, draft: Draft) -> int:
        """Observe a sub-agent's response that stands inside a progress line of its parent."""
        data = loads_leniently(bytes(line.data)) or {}
        inner = data.get("message")
        if not isinstance(inner, dict) or not isinstance(inner.get("message"), dict):
            return 0
        nested = lenient_line(inner)
        if nested.message is None or not given(nested.message.usage):
            return 0
        nested.sessionId = line.sessionId or nested.sessionId
        nested.agentId = nested.agentId or word(data.get("agentId")) or line.agentId
        nested.timestamp = nested.timestamp or line.timestamp
        nested.cwd, nested.gitBranch = nested.cwd or line.cwd, nested.gitBranch or line.gitBranch
        nested.version = nested.version or line.version
        self._at = instant(nested.timestamp) or self._last_at
        return self._assistant(nested, nested.message, offset, draft, nested=True)

    def _user(self, line: Line, offset: int, draft: Draft) -> int:
        """Observe a prompt, or the result that names a sub-agent; its roll-up of tokens is never added."""
        content = line.message.content if line.message else None
        at = self._at
        if given(line.toolUseResult) or is_result(content):
            return self._result(line, content, offset, at, draft)
        if line.interruptedMessageId:
            self._flush(draft)
            c = self._context(line, draft, "anthropic", False)
            draft.observations.append(Cut(c=c, o=offset, at=at, id=line.interruptedMessageId, by="cancelled"))
            return 0
        if content is None or line.isMeta or line.isCompactSummary or not line.uuid:
            return 0
        if text_of_content(content).startswith(_NO_PROMPT):
            return 0
        self._flush(draft)
        c = self._context(line, draft, "anthropic", False)
        draft.observations.append(Prompt(c=c, o=offset, at=at, id=line.uuid))
        return 0

    def _result(self, line: Line, content: Any, offset: int, at: int, draft: Draft) -> int:
        agent = field_of(line.toolUseResult, "agentId")
        call = next((b.tool_use_id for b in content if b.tool_use_id), None) if isinstance(content, list) else None
        status = field_of(line.toolUseResult, "status")
        if agent and call and status != "async_launched":
            self._flush(draft)
            c = self._context(line, draft, "anthropic", False)
            if call in self._open_calls:  # a copy of the call waits for its own copy of the result
                self._open_calls.remove(call)
            draft.observations.append(Returned(c=c, o=offset, at=at, id=call, agent=agent, status=status))
        if b'"usage"' in bytes(line.toolUseResult):
            draft.rollup += 1
            return 1
        return 0

    def _observe_meta(self, draft: Draft) -> None:
        """Observe what stands beside a sub-agent's file: the call that started it."""
        call = word(self._meta.get("toolUseId"))
        if call and self._agent:
            context = Context(session=self._session, agent=self._agent, sidechain=True,
                              agent_type=word(self._meta.get("agentType")))  # fmt: skip
            c = draft.context(context)
            draft.observations.append(Delegated(c=c, o=0, at=self._last_at, id=call, agent=self._agent))
        self._meta, self._noted = {}, True

    def _context(self, line: Line, draft: Draft, provider: str, nested: bool) -> int:
        """Return the index of the line's context in the event."""
        key = (line.sessionId, line.agentId, line.attributionAgent, line.isSidechain, line.cwd, line.gitBranch,
               line.version, provider, nested)  # fmt: skip
        index = draft.context_keys.get(key)
        if index is None:
            agent = line.agentId or self._agent
            index = draft.context_keys[key] = draft.context(
                Context(
                    session=line.sessionId or self._session,
                    agent=agent,
                    agent_type=line.attributionAgent or "" if agent else "",
                    sidechain=bool(line.isSidechain) or bool(self._agent) or nested,
                    project=self.projects.root(line.cwd or ""),
                    branch=line.gitBranch or "",
                    provider=provider,
                    client_version=line.version or "",
                )
            )
        return index


def _from_path(path: Path) -> tuple[str, str]:
    """Return (session, agent) that a file's place stands for, where its lines do not say."""
    path = Path(text_of(path))
    stem = path.stem
    if not stem.startswith("agent-"):
        return stem, ""
    for folder in path.parents:
        if folder.name == "subagents":
            return folder.parent.name, stem[len("agent-") :]
    return path.parent.name, stem[len("agent-") :]


def _meta(path: Path) -> dict[str, Any]:
    """Return what `agent-ID.meta.json` beside a sub-agent's file says."""
    try:
        if os.path.getsize(meta := path.with_suffix(".meta.json")) > 1 << 16:
            return {}
        found = json.loads(meta.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
