"""What a tool is: one typed definition, from which the schema that the model sees is made."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agent.paths import Workspace
from agent.tools import arguments as argument_texts
from agent.tools.limits import SKIPPED_FOLDERS, Limits
from ledger.wire.conversation import ToolSchema


class ToolOutput(NamedTuple):
    """What came of a call."""

    text: str
    """What the model gets. Never empty once it has passed `agent.tools.registry.run_tool`."""
    status: str = "ok"
    """`ok`, `error`, `refused`, `timed_out`; a caller that does not let a tool run or finish: `denied`, `cancelled`."""
    truncated: bool = False
    """Whether something was left out of the text."""
    exit_code: int | None = None
    """Of a command; 128 + n where signal n ended it, None where we ended it or nothing was run."""
    rule: str = ""
    """Of a refusal, which rule of the gate (see agent.paths.PathRefused)."""


class ToolContext(NamedTuple):
    """What a tool works with. Nothing of it comes from a model."""

    workspace: Workspace
    limits: Limits = Limits()
    skipped_folders: frozenset[str] = SKIPPED_FOLDERS
    """Folders that searches do not enter. Empty switches the list off (TOOL-34)."""
    environment: Mapping[str, str] = os.environ
    """From which commands get theirs; keys are taken out of it (see agent.process.child_environment)."""

    @classmethod
    def of(cls, folder: str | Path, limits: Limits | None = None) -> ToolContext:
        """Return the context of a folder with the default lists. Raises UsageError for what is no workspace."""
        return cls(Workspace(Path(folder)), limits or Limits())


Handler = Callable[[Any, ToolContext], Awaitable[ToolOutput]]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool. `arguments` is a frozen struct whose fields have descriptions, `handler` takes one of it."""

    name: str
    description: str
    """Says what it does, what comes back and the limit. `{limits.NAME}` stands for a limit that is in force."""
    capabilities: frozenset[str]
    """Of `fs.read fs.write process.spawn net.egress git.write memory.write agent.spawn`."""
    arguments: type[msgspec.Struct]
    handler: Handler

    def schema(self, limits: Limits | None = None) -> ToolSchema:
        """Return the tool as it is shown to a model."""
        described = self.description.format(limits=limits or Limits())
        return ToolSchema(self.name, described, argument_texts.schema(self.arguments))

    def parse(self, arguments: str) -> msgspec.Struct:
        """Return the arguments that a model wrote, checked. Raises ToolError; nothing but the text is looked at."""
        return argument_texts.parse(self.name, self.arguments, arguments)

    async def run(self, arguments: msgspec.Struct, context: ToolContext) -> ToolOutput:
        """Do it. Raises ToolError, PathRefused, OSError: `registry.run_tool` turns them into results."""
        return await self.handler(arguments, context)
