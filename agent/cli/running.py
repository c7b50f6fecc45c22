"""`agent run`: the result is printed whatever happens, and the exit code says what it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.claims import Held
from agent.cli.options import begun, goes_on, gone_on_with, prompt_of
from agent.faces.face import Face, fitting, why
from agent.result import failure
from agent.run import Fenced
from agent.session import Asked, run_session, texts_of
from ledger.accounts.catchup import snapshot
from ledger.cli import foreseen
from ledger.errors import LedgerError, UsageError
from ledger.log.location import resolve
from ledger.log.log import Log

OK, NOT_OK, INTERRUPTED = 0, 1, 130
_REASONS: dict[type[LedgerError], str] = {UsageError: "usage", Held: "held", Fenced: "fenced"}


class Stopped(LedgerError):
    """A run that had begun and whose end is not in the log: no bad use, but an outcome."""

    exit_code = NOT_OK


def run_for(face: Face, prompt: str | None, db: str | None, given: Mapping[str, Any]) -> int:
    """Run a turn for a face; return the exit code. Raises LedgerError, and whatever standard output raised."""
    asked: Asked | None = None
    try:
        words = prompt_of(prompt, going_on=goes_on(given))
        if not goes_on(given):
            asked = begun(words, given)
        opened = Log.open(resolve(db), create=asked is not None)
    except (Exception, KeyboardInterrupt) as error:
        _tell(face, error, None, given["session"] or "")
        raise
    with opened as log:
        result = _run(log, face, asked, words, given)
    if face.out.error is not None:
        raise face.out.error
    if result["is_error"]:
        face.err.put(fitting(f"agent: {why(result)}", face.err.is_terminal) + "\n")
    return {"ok": OK, "interrupted": INTERRUPTED}.get(result["outcome"], NOT_OK)


def _run(log: Log, face: Face, asked: Asked | None, words: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        face.texts = texts_of(log)
        asked = asked or gone_on_with(log, words, given)
        result = run_session(log, asked, face)
    except (Exception, KeyboardInterrupt) as error:
        _tell(face, error, log, asked.session if asked else given["session"] or "")
        line = _line(error)
        if face.begun and line is not None:
            raise Stopped(line) from error
        raise
    face.result(result)
    return result


def _tell(face: Face, error: BaseException, log: Log | None, session: str) -> None:
    """Give the face the result of a run that stopped with an error: the same object as always."""
    outcome, reason, line = "error", _reason(error), _line(error)
    if isinstance(error, KeyboardInterrupt):
        outcome, reason, line = "interrupted", "user", "interrupted"
    told = line if line is not None else f"{type(error).__name__}: {error}"
    try:
        if log is None:
            raise LookupError
        with snapshot(log) as view:
            result = failure(session, told, reason, view=view, outcome=outcome)
    except Exception:  # the log cannot be read either: what the session used is then unknown
        result = failure(session, told, reason, view=None, outcome=outcome)
    face.result(result)


def _reason(error: BaseException) -> str:
    """Return the code of what stopped a run."""
    for kind, code in _REASONS.items():
        if isinstance(error, kind):
            return code
    return "log" if _line(error) is not None else "defect"


def _line(error: BaseException) -> str | None:
    """Return what is said of a foreseen error, None for a defect of ours."""
    if isinstance(error, LedgerError):
        return str(error)
    return foreseen(error) if isinstance(error, Exception) else None
