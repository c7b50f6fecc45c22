"""The tools in the order in which a model sees them, and the one way in which a call is run."""

from __future__ import annotations

from agent.paths import PathRefused, WorkspaceGone
from agent.tools import arguments as argument_texts
from agent.tools import edit_file, glob, grep, list_dir, read_file, run_command, write_file
from agent.tools.errors import ToolError, of_os_error
from agent.tools.limits import Limits, cut, printable
from agent.tools.tool import Tool, ToolContext, ToolOutput

TOOLS: tuple[Tool, ...] = (
    read_file.TOOL,
    write_file.TOOL,
    edit_file.TOOL,
    list_dir.TOOL,
    grep.TOOL,
    glob.TOOL,
    run_command.TOOL,
)
_BY_NAME = {tool.name: tool for tool in TOOLS}
_SHOWN_CHARACTERS = 4_000
"""Of one argument in a question. What is longer is named by its hash, so that another text is another question."""


def tool_named(name: str) -> Tool | None:
    """Return a tool, None where there is none of that name."""
    return _BY_NAME.get(name)


async def run_tool(name: str, arguments: str, context: ToolContext) -> ToolOutput:
    """Run a call. Never raises but for cancellation; the text is never empty and within the exit limit (LOOP-05)."""
    tool = tool_named(name)
    if tool is None:
        known = ", ".join(_BY_NAME)
        return at_exit(_failed(ToolError(f"there is no tool {name}", f"the tools are {known}")), context.limits)
    return await run_one(tool, arguments, context)


async def run_one(tool: Tool, arguments: str, context: ToolContext) -> ToolOutput:
    """Run a call of a given tool, as `run_tool` does."""
    try:
        output = await tool.run(tool.parse(arguments), context)
    except PathRefused as refusal:
        output = ToolOutput(f"ERROR: {refusal}", "refused", rule=refusal.rule)
    except (ToolError, WorkspaceGone) as error:
        output = _failed(error)
    except OSError as error:
        output = _failed(of_os_error(error, str(error.filename or "")))
    except Exception as error:
        said = f"{tool.name} crashed ({type(error).__name__}: {error})"
        output = _failed(ToolError(said, "this is a defect of the tool; do it in another way"))
    return at_exit(output, context.limits)


def _failed(error: Exception) -> ToolOutput:
    return ToolOutput(f"ERROR: {error}", "error")


def at_exit(output: ToolOutput, limits: Limits) -> ToolOutput:
    """Return an output within the exit limit. Every result of every kind of tool passes here (TOOL-13, TOOL-16)."""
    text, left_out = cut(printable(output.text) or "(no output)", limits.output_characters)
    return output._replace(text=text, truncated=output.truncated or left_out > 0)


def shown(tool: Tool, arguments: str) -> str:
    """Return a call as a person reads it before it runs: every argument, control characters made visible.

    Two calls that differ are shown differently, so an answer can be kept for equal calls.
    """
    try:
        found = tool.parse(arguments)
    except ToolError:
        return f"{tool.name} {_harmless(arguments)}"
    given = ((field.name, getattr(found, field.name)) for field in argument_texts.fields(tool.arguments))
    return "\n".join([tool.name, *(f"  {name}: {_harmless(str(value))}" for name, value in given if value is not None)])


def _harmless(text: str) -> str:
    if len(text) > _SHOWN_CHARACTERS:
        import hashlib

        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        text = f"{text[:_SHOWN_CHARACTERS]}\n[{len(text) - _SHOWN_CHARACTERS} more characters; sha256 {digest}]"
    lines = (
        "".join(letter if letter.isprintable() else _escape(letter) for letter in line) for line in text.split("\n")
    )
    return "\n    ".join(lines)


def _escape(letter: str) -> str:
    return "\t" if letter == "\t" else letter.encode("unicode_escape").decode("ascii")
