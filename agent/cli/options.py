"""From the words of `agent run` to what is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from agent.approvals import POLICIES
from agent.claims import new_session_id
from agent.configuration import Configuration, Target
from agent.faces.face import Face
from agent.models import target
from agent.run import Run
from agent.session import Asked
from agent.workspaces import place_of
from ledger.accounts.catchup import View, snapshot
from ledger.errors import UsageError
from ledger.events.hubs import Limits
from ledger.log.log import Log

FORMATS = ("text", "json", "stream-json")
MODEL_VARIABLE = "TALLYBOOK_MODEL"
_NANO = 1_000_000_000
_MOST = 10**12
_RANGES = {
    "max_iterations": (1, _MOST),
    "max_retries": (0, _MOST),
    "retry_base_ms": (0, 30_000),
    "max_requests": (0, _MOST),
    "max_tokens": (0, _MOST),
    "max_seconds": (0, _MOST),
    "timeout": (1, 86_400),
}


def prompt_of(prompt: str | None, *, going_on: bool) -> str | None:
    """Return the prompt: the words given, else standard input; None where a session goes on without one.

    Raises UsageError for one that is no text.
    """
    words = prompt
    if words is None and not sys.stdin.isatty():
        words = _text(sys.stdin.buffer.read(), "standard input")
    elif words is not None:
        words = _text(os.fsencode(words), "the prompt")
    if words is not None and words.strip():
        return words
    if going_on and prompt is None:
        return None
    raise UsageError("there is no prompt: give one, write it to standard input, or go on with -c")


def _text(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: is no UTF-8 (byte {error.start + 1}): give text") from error
    if "\0" in text:
        raise UsageError(f"{name}: has a NUL (byte {content.index(0) + 1}): give text, not a binary file")
    return text


def face_of(output_format: str) -> Face:
    """Return the face for a format. Raises UsageError for an unknown one."""
    if output_format == "text":
        from agent.faces.text import TextFace

        return TextFace()
    if output_format == "json":
        from agent.faces.json_face import JsonFace

        return JsonFace()
    if output_format == "stream-json":
        from agent.faces.stream import StreamFace

        return StreamFace()
    raise UsageError(f"--output-format {output_format}: unknown: use one of {', '.join(FORMATS)}")


def goes_on(given: Mapping[str, Any]) -> bool:
    """Return whether a session is gone on with."""
    return given["continue_"] or given["session"] is not None


def begun(prompt: str | None, given: Mapping[str, Any]) -> Asked:
    """Return what is asked of a new session. Raises UsageError for what cannot be done."""
    return Asked(prompt, new_session_id(), False, configuration_of(given), place_of(given["workspace"]))


def gone_on_with(log: Log, prompt: str | None, given: Mapping[str, Any]) -> Asked:
    """Return what is asked of a session that is there: it keeps its models, and with --session its workspace.

    Raises UsageError for what cannot be done.
    """
    workspace = given["workspace"]
    with snapshot(log) as view:
        session = _session(view, given["session"], place_of(workspace).folder if given["session"] is None else "")
    before = Run.load(log, session).state
    if given["session"] is not None and workspace is None and before.opened is not None:
        workspace = before.opened.folder
    configuration = configuration_of(given, before.configuration)
    return Asked(prompt, session, True, configuration, place_of(workspace), take_over=given["take_over"])


def _session(view: View, wanted: str | None, folder: str) -> str:
    if wanted is None:
        found = last_session(view, folder)
        if found is None:
            raise UsageError(f"{folder}: no session of this workspace to go on with: begin one with a prompt")
        return found
    rows = view.store.query(
        "SELECT s.session_id FROM gen_sessions AS s JOIN gen_runs AS r ON r.session_key = s.session_key "
        "WHERE substr(s.session_id, 1, length(?)) = ? ORDER BY s.session_id",
        wanted, wanted,
    )  # fmt: skip
    names = list(dict.fromkeys(str(row[0]) for row in rows))
    if len(names) != 1 and wanted not in names:
        problem = "no session of the agent begins so" if not names else f"{len(names)} sessions begin so"
        raise UsageError(f"--session {wanted}: {problem}: `agent sessions` lists them")
    return wanted if wanted in names else names[0]


def last_session(view: View, folder: str) -> str | None:
    """Return the session of a workspace whose newest turn began last, None where there is none."""
    rows = view.store.query(
        "SELECT s.session_id FROM gen_runs AS r JOIN gen_sessions AS s ON s.session_key = r.session_key "
        "JOIN gen_turns AS t ON t.session_key = r.session_key WHERE r.folder = ? "
        "ORDER BY t.started_at DESC, s.session_id DESC LIMIT 1",
        folder,
    )
    row = rows.fetchone()
    return None if row is None else str(row[0])


def configuration_of(given: Mapping[str, Any], before: Configuration | None = None) -> Configuration:
    """Return the configuration that the words of a command line stand for.

    `before` is the one that the session has: its models stay where no other is named.
    """
    policy = "never" if given["yes"] else given["approval_policy"]
    if policy not in POLICIES:
        raise UsageError(f"--approval-policy {policy}: unknown: use one of {', '.join(POLICIES)}")
    if given["unknown_price"] not in ("refuse", "warn"):
        raise UsageError(f"--unknown-price {given['unknown_price']}: use refuse or warn")
    for name, (least, most) in _RANGES.items():
        if given[name] is not None and not least <= given[name] <= most:
            raise UsageError(f"--{name.replace('_', '-')} {given[name]}: give a number from {least} to {most:,}")
    main, fallback = _models(given, before)
    return Configuration(
        target=main,
        fallback=fallback,
        max_iterations=given["max_iterations"],
        max_retries=given["max_retries"],
        retry_base_ms=given["retry_base_ms"],
        request_timeout_s=given["timeout"],
        thinking=given["thinking"],
        stream=not given["no_stream"],
        approval=policy,
        limits=Limits(
            requests=given["max_requests"],
            tokens=given["max_tokens"],
            cost_nanousd=_money("--max-cost", given["max_cost"]),
            wall_us=None if given["max_seconds"] is None else given["max_seconds"] * 1_000_000,
            session_cost_nanousd=_money("--max-session-cost", given["max_session_cost"]),
            month_cost_nanousd=_money("--max-month-cost", given["max_month_cost"]),
            unknown_price=given["unknown_price"],
        ),
    )


def _models(given: Mapping[str, Any], before: Configuration | None) -> tuple[Target, Target | None]:
    """Return the model to ask and its fallback."""
    base_url, protocol, spare = given["base_url"], given["protocol"], given["fallback_model"]
    fallback = target(spare, base_url, protocol, "--fallback-model") if spare else None
    if before is not None and given["model"] is None:
        if base_url is not None or protocol is not None:
            raise UsageError("--base-url and --protocol: give --model too")
        return before.target, fallback or before.fallback
    model = given["model"] or os.environ.get(MODEL_VARIABLE, "")
    if not model:
        raise UsageError(f"no model: give --model provider/model, or set {MODEL_VARIABLE}")
    main = target(model, base_url, protocol)
    if main == fallback:
        raise UsageError(f"--fallback-model {spare}: is the model itself: give another")
    return main, fallback


def _money(option: str, text: str | None) -> int | None:
    """Return nano-dollars. Raises UsageError for what is no amount of dollars."""
    if text is None:
        return None
    try:
        amount = Decimal(text) * _NANO
        if not amount.is_finite() or amount < 0 or amount != int(amount) or amount >= 1 << 62:
            raise InvalidOperation
    except (InvalidOperation, ValueError) as error:
        raise UsageError(f"{option} {text}: is no amount: give dollars, like 0.50") from error
    return int(amount)
