"""Every command, declared once: its words, options and help, and where its body is."""

from __future__ import annotations

from ledger.cli.program import Argument, Command, Option, Program

DB = Option(
    "db",
    "The log: a path, sqlite:///PATH or postgresql://... Default: TALLYBOOK_DB, else your data folder.",
    value="PLACE",
)
FORMAT = Option("format", "How to print: table, json or csv.", default="table", value="NAME")
HOME = Option("home", "Look for session files in this home folder, instead of yours.", value="FOLDER")
_FILTERS = (
    Option("session", "Only this session: the client's id, or how it begins.", value="ID"),
    Option("project", "Only this project: its folder, or the last part of it.", value="FOLDER"),
    Option("model", "Only this model.", value="ID"),
    Option("client", "Only this client: claude-code, codex, opencode, gemini, ...", value="NAME"),
    Option("kind", "Only this kind of span: model (a request), tool, hook or approval.", value="NAME"),
    Option(
        "label",
        "Only sessions with this label: client=acme; `client=` are those without one. Give it again for more.",
        "texts",
        (),
        value="KEY=VALUE",
    ),
    Option("since", "From this day on: 2026-11-30, 2026-11, today, yesterday, 7d.", value="DAY"),
    Option("until", "Up to, not including, this day.", value="DAY"),
    Option("tz", "The time zone of days, weeks and months. Default: this machine's.", value="ZONE"),
)
BY = (
    "Group by these, with commas between: session, project, branch, client, day, week, month, who, agent, "
    "provider, model, kind, tool, status, label.KEY."
)

COMMANDS = (
    Command(
        ("report",),
        "What it cost: requests, tokens and money, grouped as you ask, with a total.",
        "ledger report --import --by month,model",
        "ledger.cli.bodies:report",
        (
            Option("by", BY, default="session", value="NAMES"),
            Option("import_", "Import what is new first.", "flag", False),
            *_FILTERS,
            Option(
                "sort",
                "Order rows by cost, tokens or time. Default: time for sessions and periods, else cost.",
                value="NAME",
            ),
            HOME,
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("import",),
        "Read what is new in the session files of Claude Code, Codex CLI, opencode and Gemini CLI.",
        "ledger import claude-code",
        "ledger.cli.bodies:import_",
        (
            HOME,
            Option("watch", "Import again and again until Ctrl-C, with a line where something is new.", "flag", False),
            Option("every", "With --watch: how many seconds lie between two imports. Default: 30.", "number"),
            Option("strict", "Exit 1 where a line was malformed, torn or left out.", "flag", False),
            Option("billing", "How the clients' use is billed: api or subscription. It is remembered.", value="HOW"),
            DB,
            FORMAT,
        ),
        (Argument("clients", "claude-code, codex, opencode, gemini. Default: all.", required=False, many=True),),
    ),
    Command(
        ("show",),
        "One session as a tree: turns, requests, sub-agents, with tokens, cost and time.",
        "ledger show 5e551011",
        "ledger.cli.bodies:show",
        (Option("tz", "The time zone of times. Default: this machine's.", value="ZONE"), DB, FORMAT),
        (Argument("session", "The session's id, or how it begins."),),
    ),
    Command(
        ("explain",),
        "Open a figure: every span behind it, where it was read, and how its cost was worked out.",
        "ledger explain month=2026-11,model=claude-opus-4-5",
        "ledger.cli.bodies:explain",
        (
            *_FILTERS,
            Option("limit", "How many spans a table opens before it sums up the rest; 0 for all.", "number", 50),
            DB,
            FORMAT,
        ),
        (Argument("address", "A row of a report, `total`, a session, a turn (SESSION#3) or a span."),),
    ),
    Command(
        ("blocks",),
        "The windows of five hours in which subscriptions are limited: used, burn rate, what is left.",
        "ledger blocks --active",
        "ledger.cli.bodies:blocks",
        (
            Option("active", "Only the window that is running.", "flag", False),
            Option(
                "recent",
                "Only windows of the last three days, and the one that is running. Without --active.",
                "flag",
                False,
            ),
            Option("client", "Only this client: claude-code, codex, opencode, gemini, ...", value="NAME"),
            Option(
                "since",
                "Windows that begin on this day or later: 2026-11-30, 2026-11, today, yesterday, 7d.",
                value="DAY",
            ),
            Option("until", "Windows that begin before this day.", value="DAY"),
            Option(
                "limit",
                "Compare with so many tokens a window, or with `max`: the largest earlier window.",
                value="TOKENS",
            ),
            Option("tz", "The time zone of days and times. Default: this machine's.", value="ZONE"),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("verify",),
        "Check that nothing in the log was changed or lost and that every sum adds up; exit 1 if not.",
        "ledger verify --full",
        "ledger.cli.bodies:verify",
        (
            Option("full", "Also work out every figure anew from the log, and compare.", "flag", False),
            Option("new", "Only what is new since the last time that everything held.", "flag", False),
            Option("seal", "Also check against this file, which `ledger seal` wrote.", value="FILE"),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("seal",),
        "Seal the log as it is: a digest that somebody else keeps is the evidence.",
        "ledger seal --out 2026-11.seal.json",
        "ledger.cli.bodies:seal",
        (Option("out", "Write the seal to this new file; give it to somebody else.", value="FILE"), DB, FORMAT),
    ),
    Command(
        ("label",),
        "Give a session labels of your own (a client, a ticket, a team); without any, list those it has.",
        "ledger label 5e551011 client=acme ticket=SHOP-17",
        "ledger.cli.bodies:label",
        (DB, FORMAT),
        (
            Argument("session", "The session's id, or how it begins."),
            Argument("labels", "key=value; key= takes a label away.", required=False, many=True),
        ),
    ),
    Command(
        ("purge",),
        "Remove texts, of errors for example, from the log for good; events, figures and hashes stay.",
        "ledger purge --older-than 90d",
        "ledger.cli.bodies:purge",
        (
            Option(
                "older_than",
                "Texts of before this day: 90d, 2026-09-01, 2026-09. Give this, or --session.",
                value="DAY",
            ),
            Option("session", "The texts of this session and its sub-agents.", value="ID"),
            Option("yes", "Do not ask before they are removed.", "flag", False),
            Option("tz", "The time zone of the day. Default: this machine's.", value="ZONE"),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("copy",),
        "Copy a log into another one, on either database: only what is new there, as it is.",
        "ledger copy --to postgresql://books.example/team",
        "ledger.cli.bodies:copy",
        (
            Option(
                "to",
                "Required: the log to copy into: a path, which is made where it is missing, or postgresql://...",
                value="PLACE",
            ),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("backup",),
        "Write the log into a new file while it is in use: whole, checked, readable by you alone.",
        "ledger backup ~/backups/ledger.db",
        "ledger.cli.bodies:backup",
        (Option("force", "Replace the file where it is there already.", "flag", False), DB, FORMAT),
        (Argument("file", "The file to write."),),
    ),
    Command(
        ("roll",),
        "Close a log file that has become large into an archive beside it, under a seal, and go on in its place.",
        "ledger roll",
        "ledger.cli.bodies:roll",
        (DB, FORMAT),
    ),
    Command(
        ("demo",),
        "See it work: the agent mends a failing test, with a rehearsed model; then what that cost.",
        "ledger demo",
        "ledger.cli.bodies:demo",
        (
            Option("script", "Another rehearsal to play: docs/rehearsal.md.", value="FILE"),
            Option("sample", "Show an import instead, of a home folder, or of `bundled`.", value="FOLDER"),
            HOME,
        ),
    ),
    Command(
        ("init",),
        "Make an empty log; bring one of an older version, or its roles on PostgreSQL, up to date.",
        "ledger init --db ~/ledger.db",
        "ledger.cli.bodies:init",
        (DB,),
    ),
    Command(
        ("rebuild",),
        "Work out all figures anew from the log; those there are stay in use until that is done.",
        "ledger rebuild",
        "ledger.cli.bodies:rebuild",
        (DB,),
    ),
    Command(
        ("doctor",),
        "Say what the log stands on (database, permissions, sizes, sources, prices); exit 1 if something is bad.",
        "ledger doctor",
        "ledger.cli.bodies:doctor",
        (HOME, DB, FORMAT),
    ),
    Command(
        ("tail",),
        "The newest events of the log, one a line.",
        "ledger tail -f",
        "ledger.cli.bodies:tail",
        (
            Option("follow", "Go on as events come.", "flag", False, ("--follow", "-f")),
            Option("lines", "How many events to begin with.", "number", 10, ("--lines", "-n")),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("reprice",),
        "Price again what has no price, or another one than the price book has now.",
        "ledger reprice --model acme-coder-9",
        "ledger.cli.bodies:reprice",
        (
            Option("model", "Only this model.", value="ID"),
            Option("reason", "Why; kept in the log with the new prices."),
            DB,
            FORMAT,
        ),
    ),
    Command(
        ("prices", "list"),
        "The prices that the log has used, and those set by you.",
        "ledger prices list --all",
        "ledger.cli.bodies:prices_list",
        (Option("all_", "Also every model that the price book knows.", "flag", False), DB, FORMAT),
    ),
    Command(
        ("prices", "show"),
        "Every price of a model, with its dates and source.",
        "ledger prices show claude-opus-4-5-20251101",
        "ledger.cli.bodies:prices_show",
        (Option("provider", "Whose price, where several sell the model.", value="NAME"), DB, FORMAT),
        (Argument("model", "The model's exact id."),),
    ),
    Command(
        ("prices", "set"),
        "State a price of your own, in USD per million tokens; it wins over the price book.",
        "ledger prices set acme-coder-9 --input 1 --output 4",
        "ledger.cli.bodies:prices_set",
        (
            Option("provider", "The provider it holds for. Default: any.", value="NAME"),
            Option("input", "Uncached input.", value="USD"),
            Option("output", "Output, reasoning included.", value="USD"),
            Option("cache_read", "Input read from the cache.", value="USD"),
            Option("cache_write_5m", "Input written to the cache for 5 minutes.", value="USD"),
            Option("cache_write_1h", "Input written to the cache for an hour.", value="USD"),
            Option("web_search", "One search on the web, in USD.", value="USD"),
            Option("valid_from", "From this instant on: 2026-03-01 or 2026-03-01T00:00:00Z.", value="INSTANT"),
            Option("valid_until", "Up to, not including, this instant.", value="INSTANT"),
            DB,
        ),
        (Argument("model", "The model's exact id."),),
    ),
    Command(
        ("prices", "refresh"),
        "Compare the prices in use with the installed price data and record what changed.",
        "ledger prices refresh",
        "ledger.cli.bodies:prices_refresh",
        (DB, FORMAT),
    ),
    Command(
        ("usage", "read"),
        "Say what a provider's usage object means: disjoint token buckets, as JSON.",
        "ledger usage read --provider openai --endpoint /v1/chat/completions usage.json",
        "ledger.cli.bodies:usage_read",
        (
            Option("provider", "The provider: openai, anthropic, google, ...", default="", value="NAME"),
            Option("endpoint", "The path of the request: /v1/messages, ...", default="", value="PATH"),
            Option("stream", "The file holds the frames of a stream.", "flag", False),
        ),
        (Argument("file", "A usage object, or frames {at, usage}, one a line. `-` reads standard input."),),
    ),
)
GROUPS = {
    "prices": "The price book: what models cost, and since when.",
    "usage": "What the usage objects in providers' responses mean.",
}
LEDGER = Program(
    "ledger",
    "What did it cost, who spent it, why did it fail? Tallybook reads the session files of coding agents into "
    "an append-only log and answers from it.",
    COMMANDS,
    GROUPS,
)
