"""Every command of `agent`, declared once."""

from __future__ import annotations

from ledger.cli.commands import DB, FORMAT, LEDGER
from ledger.cli.program import Argument, Command, Option, Program

_MONEY = "in USD: 0.50"
RUN = (
    Option("continue_", "Go on with the last session of this workspace; without a prompt, with its open turn.", "flag",
           False, ("-c", "--continue")),
    Option("session", "Go on with this session: its id, or how it begins."),
    Option("model", "provider/model, or with --base-url any name. Default: TALLYBOOK_MODEL."),
    Option("base_url", "Where the model is, as its provider's own SDK takes it."),
    Option("protocol", "With --base-url: openai-chat or anthropic."),
    Option("fallback_model", "Asked when the retries are spent: provider/model, at --base-url where one is given."),
    Option("max_retries", "How often a request that may pass is tried again.", "number", 2),
    Option("retry_base_ms", "The first wait before a retry; it doubles, up to 30 s.", "number", 500),
    Option("max_iterations", "How many answers of the model a turn may take.", "number", 40),
    Option("max_requests", "How many requests a turn may send, all attempts counted.", "number"),
    Option("max_tokens", "How many tokens a turn may use, input and output.", "number"),
    Option("max_cost", f"What a turn may cost, {_MONEY}."),
    Option("max_session_cost", f"What the session may cost, {_MONEY}."),
    Option("max_month_cost", f"What all sessions of this month may cost, {_MONEY}."),
    Option("unknown_price", "With a limit of money, a model of unknown price: refuse or warn.", default="refuse"),
    Option("max_seconds", "How long a turn may take, restarts included.", "number"),
    Option("timeout", "How many seconds may pass without a byte from the model.", "number", 120),
    Option("thinking", "Ask for much thought: reasoning effort high.", "flag", False),
    Option("no_stream", "Ask for whole answers.", "flag", False),
    Option("workspace", "The folder to work in. Default: this one."),
    Option("approval_policy", "never ask, on-request: for what is not read-only, untrusted: for everything.",
           default="on-request"),
    Option("yes", "Never ask: the same as --approval-policy never.", "flag", False, ("-y", "--yes")),
    Option("take_over", "Take the session away from a process that still has it.", "flag", False),
    Option("output_format", "text, json or stream-json.", default="text"),
    DB,
)  # fmt: skip

COMMANDS = (
    Command(
        ("run",),
        "Do a task: the model answers, tools run, every step is in the log.",
        'agent run --model anthropic/claude-sonnet-4-5 "fix the failing test"',
        "agent.cli.bodies:run",
        RUN,
        (Argument("prompt", "What to do. Default: standard input.", required=False),),
    ),
    Command(
        ("sessions",),
        "The sessions of the agent, the newest first: where, how they ended, what they cost.",
        "agent sessions",
        "agent.cli.bodies:sessions",
        (
            Option("workspace", "Only those of this folder."),
            Option("limit", "How many at most; 0 for all.", "number", 20),
            Option("tz", "The time zone of times. Default: this machine's."),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("cost",),
        "What a session cost, as a tree: turns, requests, tools. Default: the last session of this workspace.",
        "agent cost",
        "agent.cli.bodies:cost",
        (Option("tz", "The time zone of times. Default: this machine's."), DB, FORMAT),
        (Argument("session", "The session's id, or how it begins.", required=False),),
    ),
    Command(
        ("rehearse",),
        "Serve a scripted model on this machine: for tests, demonstrations and dry runs.",
        "agent rehearse script.toml --port 8123",
        "agent.cli.bodies:rehearse",
        (
            Option("port", "The port to listen on; 0 for a free one.", "number", 0),
            Option("seen", "A file that gets a JSON line for every request."),
        ),
        (Argument("script", "The script, in TOML: docs/rehearsal.md."),),
    ),
)

AGENT = Program(
    "agent",
    "A coding agent whose every action is a line in an append-only log: nothing it sends, spends or does is lost.",
    COMMANDS,
)
TALLYBOOK = Program("tallybook", LEDGER.about, (*COMMANDS, *LEDGER.commands), LEDGER.groups)
"""Both under one name, for a PATH where the others are taken."""
