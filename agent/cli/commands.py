"""Every command of `agent`, declared once."""

from __future__ import annotations

from ledger.cli.commands import DB, FORMAT, LEDGER
from ledger.cli.program import Argument, Command, Option, Program

RUN = (
    Option("continue_", "Go on with the last session of this workspace; without a prompt, with its open turn.", "flag",
           False, ("-c", "--continue")),
    Option("session", "Go on with this session, in its workspace: its id, or how it begins.", value="ID"),
    Option("model", "The model to ask, as provider/model; with --base-url any name. Default: the session's when one "
           "goes on, else TALLYBOOK_MODEL.", value="MODEL"),
    Option("base_url", "Where the model is, as its provider's own SDK takes it: with /v1 for openai-chat, without for "
           "anthropic.", value="URL"),
    Option("protocol", "What is spoken there: openai-chat or anthropic.", value="NAME"),
    Option("fallback_model", "Asked once the retries are spent: provider/model, at --base-url where one is given.",
           value="MODEL"),
    Option("max_retries", "How often a request is tried again that failed in a way that may pass.", "number", 2),
    Option("retry_base_ms", "The first wait before a retry; it doubles, up to 30 s.", "number", 500, value="MS"),
    Option("max_iterations", "How many answers of the model a turn may take.", "number", 40),
    Option("max_requests", "How many requests a turn may send, all attempts counted.", "number"),
    Option("max_tokens", "How many tokens a turn may use, input and output.", "number"),
    Option("max_cost", "What a turn may cost, in USD: 0.50. No request leaves that could cost more than is left.",
           value="USD"),
    Option("max_session_cost", "What the session may cost.", value="USD"),
    Option("max_month_cost", "What all sessions of this calendar month (UTC) may cost.", value="USD"),
    Option("unknown_price", "Where money is limited and the price of a model is not known: refuse, or warn and go on.",
           default="refuse", value="POLICY"),
    Option("max_seconds", "How long a turn may take by the clock, restarts included.", "number", value="S"),
    Option("timeout", "How long the model may send nothing.", "number", 120, value="S"),
    Option("thinking", "Ask for much thought: reasoning effort high.", "flag", False),
    Option("no_stream", "Ask for whole answers, not for pieces as they are written.", "flag", False),
    Option("workspace", "The folder to work in. File tools reach nothing outside of it; commands do. Default: this "
           "folder.", value="FOLDER"),
    Option("approval_policy", "What is asked for at the terminal: never (nothing is), on-request (what is not "
           "read-only), untrusted (every tool call). Without a terminal it is denied.", default="on-request",
           value="POLICY"),
    Option("yes", "Never ask: commands and edits run at once. The same as --approval-policy never.", "flag", False,
           ("-y", "--yes")),
    Option("take_over", "Take the session away from a process that still has it.", "flag", False),
    Option("output_format", "text, json (one object at the end) or stream-json (one a line, as things happen).",
           default="text", value="FORMAT"),
    DB,
)  # fmt: skip

COMMANDS = (
    Command(
        ("run",),
        "Do a task: the model answers, tools run, every step is in the log.",
        'agent run --model anthropic/claude-haiku-4-5 "fix the tests"',
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
            Option("workspace", "Only those of this folder.", value="FOLDER"),
            Option("limit", "How many at most; 0 for all.", "number", 20),
            Option("tz", "The time zone of times. Default: this machine's.", value="ZONE"),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("cost",),
        "What a session cost, and what for: by who, kind, and model or tool, with time.",
        "agent cost",
        "agent.cli.bodies:cost",
        (DB, FORMAT),
        (Argument("session", "Its id, or how it begins. Default: the last one of this workspace.", required=False),),
    ),
    Command(
        ("rehearse",),
        "Serve a scripted model on this machine: for tests, demonstrations and dry runs.",
        "agent rehearse script.toml --port 8123",
        "agent.cli.bodies:rehearse",
        (
            Option("port", "The port to listen on; 0 for a free one.", "number", 0),
            Option("seen", "A file that gets a JSON line for every request.", value="FILE"),
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
