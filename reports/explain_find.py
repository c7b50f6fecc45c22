"""What an address names: the figure that the accounts give for it, and which spans stand behind that."""

from __future__ import annotations

import datetime as calendar
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ledger.accounts.amounts import DAY_US, QUARTER_HOUR_US
from ledger.accounts.catchup import View
from ledger.accounts.rows import contribution
from ledger.errors import UsageError
from ledger.labels import NONE
from ledger.log.log import Log
from reports.address import escaped, is_row, parse_row, plain, row_address, total_address
from reports.figures import Figures
from reports.labels import is_label, label_columns, label_joins
from reports.periods import PERIODS
from reports.query import BY, Question, ask, conditions, make_question
from reports.tree import Session, Turn, find_session, load, load_span

_FIRST_DAY = calendar.date(1970, 1, 1).toordinal()
_NAMED = 5
"""How many values an error names."""


class Found(NamedTuple):
    """A figure, and the spans that it is made of."""

    address: str
    """Opens the same again, whatever options were given beside it."""
    figure: Figures
    """What the accounts answer for it: from totals where these can say it."""
    where: tuple[str, ...]
    """Conditions in SQL over gen_spans AS p, gen_sessions AS s and gen_dimensions AS d."""
    parameters: tuple[Any, ...]
    joins: str = ""
    """What must be joined to those tables besides."""


def find(log: Log, view: View, text: str, options: Mapping[str, Any]) -> Found:
    """Return what an address names. `options` are those of `ledger report`, None or empty where not given.

    Raises UsageError, which names what there is, where nothing is behind it.
    """
    given = {name: value for name, value in options.items() if value is not None and value != () and value != []}
    if is_row(text):
        return _row(view, text, given)
    narrowing = sorted(name for name in given if name != "tz")
    session_id, separator, turn = text.rpartition("#")
    turn = plain(turn)
    if separator and session_id:
        _refuse(text, "turn", narrowing)
        return _turn(load(log, view, plain(session_id)), turn, text)
    session = find_session(view, text, exact=True)
    if session is not None:
        return _session(view, session, given)
    span = load_span(view, text)
    if span is not None:
        _refuse(text, "span", narrowing)
        figure, at = Figures(), span.row.occurred_at
        figure.add(contribution(span.row, span.values.kind, span.values.status), at, at)
        return Found(text, figure, ("p.span_id = ?",), (text,))
    held = _sessions_of_turn(view, text)
    if held:
        _refuse(text, "turn", narrowing)
        if len(held) > 1:
            names = ", ".join(f"{one}#{escaped(text)}" for one in held[:_NAMED])
            raise UsageError(f"{text}: {len(held)} sessions have a turn of this id: give {names}")
        return _turn(load(log, view, held[0]), text, text)
    session = find_session(view, text)
    if session is not None:
        return _session(view, session, given)
    raise UsageError(
        f"{text}: no session begins so, and no turn or span has this id: `ledger report` lists the sessions, "
        "`ledger show SESSION` the turns of one, `ledger show SESSION --format json` its spans"
    )


def _refuse(text: str, what: str, given: list[str]) -> None:
    if given:
        options = " ".join(f"--{name}" for name in given)
        raise UsageError(f"{options}: {text} is a {what}, which is explained whole: leave the option out")


# rows and totals


def _row(view: View, text: str, given: dict[str, Any]) -> Found:
    address = parse_row(text)
    twice = sorted(address.options.keys() & given.keys())
    if twice:
        raise UsageError(f"--{twice[0]}: the address says it already ({twice[0]} in {text}): leave one out")
    by = tuple(name for name, _ in address.values)
    for name in by:
        if name not in BY and not is_label(name):
            raise UsageError(f"{text}: {name} is no dimension: use one or more of {', '.join(BY)}, label.KEY")
    question = make_question(",".join(by) or "session", **(given | address.options))
    question = question._replace(by=by)
    return _answered(view, question, tuple(value for _, value in address.values), text)


def _session(view: View, session_id: str, given: dict[str, Any]) -> Found:
    return _answered(view, make_question("session", **given), (session_id,), session_id)


def _answered(view: View, question: Question, key: tuple[str, ...], text: str) -> Found:
    """Return the row of a report that has these values."""
    values = dict(zip(question.by, key, strict=True))
    stretches = _stretches(question, values)
    answer = ask(view, _narrowed(question, values, stretches))
    figure = answer.total if not question.by else dict(answer.rows).get(key)
    if figure is None or not figure["spans"]:
        raise UsageError(_nothing(view, question, values, text))
    exact = [(name, value) for name, value in values.items() if name not in ("session", "project", *PERIODS)]
    # A filter keeps exactly one value of every dimension but these two.
    narrowed = question._replace(filters=(*question.filters, *exact))
    where, parameters = conditions(narrowed, "p.occurred_at")
    for name, column in (("session", "s.session_id"), ("project", "d.project")):
        if name in values:
            where.append(f"{column} = ?")
            parameters.append(values[name])
    if stretches is not None:
        where.append("(" + " OR ".join(["(p.occurred_at >= ? AND p.occurred_at < ?)"] * len(stretches)) + ")")
        parameters += [instant for stretch in stretches for instant in stretch]
    address = row_address(question, key) if question.by else total_address(question)
    labels = label_columns((*narrowed.by, *(name for name, _ in narrowed.filters)))
    return Found(address, figure, tuple(where), tuple(parameters), label_joins(labels, "p.session_key"))


def _narrowed(question: Question, values: dict[str, str], stretches: list[tuple[int, int]] | None) -> Question:
    """Return a question that has the same row and costs less to answer: a session's days are summed from spans."""
    if "session" not in values:
        return question
    if not any(name == "session" for name, _ in question.filters):
        question = question._replace(filters=(*question.filters, ("session", values["session"])))
    if stretches:
        since_us, until_us = question.since_us, question.until_us
        begin, end = stretches[0][0], stretches[-1][1]
        question = question._replace(
            since_us=begin if since_us is None else max(begin, since_us),
            until_us=end if until_us is None else min(end, until_us),
        )
    return question


def _stretches(question: Question, values: dict[str, str]) -> list[tuple[int, int]] | None:
    """Return the half-open stretches of time in which days, weeks and months have the wanted names; None for all.

    Periods are made of whole quarter-hours, as the accounts keep them: each is asked for its name, in the same way
    as a report asks. Where clocks are set back over midnight, a day has two stretches.
    """
    wanted = {name: value for name, value in values.items() if name in PERIODS}
    if not wanted:
        return None
    bounds = [_days(name, value) for name, value in wanted.items()]
    first, last = max(one for one, _ in bounds), min(one for _, one in bounds)
    labels = [(question.zone.label(name), value) for name, value in wanted.items()]
    stretches: list[tuple[int, int]] = []
    # A zone is at most a day from UTC; two days more on either side, within the calendar.
    begin = max(first - 2, calendar.date.min.toordinal()) - _FIRST_DAY
    end = min(last + 3, calendar.date.max.toordinal() + 1) - _FIRST_DAY
    for at_us in range(begin * DAY_US, end * DAY_US, QUARTER_HOUR_US):
        if all(label(at_us) == value for label, value in labels):
            if stretches and stretches[-1][1] == at_us:
                stretches[-1] = (stretches[-1][0], at_us + QUARTER_HOUR_US)
            else:
                stretches.append((at_us, at_us + QUARTER_HOUR_US))
    return stretches or [(0, 0)]


def _days(period: str, value: str) -> tuple[int, int]:
    """Return the first and the last day of a named period as ordinals. Raises UsageError where it is none."""
    examples = {"day": "2026-11-30", "week": "2026-W45", "month": "2026-11"}
    try:
        if period == "day" and len(value) == 10:
            day = calendar.date.fromisoformat(value).toordinal()
            return day, day
        if period == "month" and len(value) == 7:
            first = calendar.date.fromisoformat(f"{value}-01").toordinal()
            return first, first + 30
        if period == "week" and len(value) == 8 and value[4:6] == "-W":
            first = calendar.date.fromisocalendar(int(value[:4]), int(value[6:]), 1).toordinal()
            return first, first + 6
    except ValueError:
        pass
    raise UsageError(f"{period}={value}: is no {period}: write it as {examples[period]}")


def _nothing(view: View, question: Question, values: dict[str, str], text: str) -> str:
    """Return the line that says what is missing, and what there is instead."""
    for name, value in values.items():
        alone = Question((name,), (), None, None, question.zone, "time" if name in PERIODS else "cost")
        known = [key[0] for key, _ in ask(view, alone).rows]
        if known and value not in known:
            there = ", ".join(one or NONE for one in known[:_NAMED])
            more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
            what = f"no {name} {value}" if value else f"nothing is without a {name}"
            return f"{text}: {what}: there are {there}{more}: `ledger report --by {name}` lists them"
    by = ",".join(question.by) or "session"
    return f"{text}: nothing matches all of it together: `ledger report --by {by}` lists what there is"


# turns


def _sessions_of_turn(view: View, turn: str) -> list[str]:
    sql = (
        "SELECT DISTINCT s.session_id FROM gen_turns AS t JOIN gen_sessions AS s ON s.session_key = t.session_key "
        "WHERE t.turn_id = ? AND EXISTS (SELECT 1 FROM gen_spans AS p WHERE p.session_key = t.session_key "
        "AND p.turn_key = t.turn_key) ORDER BY s.session_id"
    )
    return [row[0] for row in view.store.query(sql, turn)] if turn else []


def _turn(session: Session, wanted: str, text: str) -> Found:
    """Return a turn with all that it caused: by its number among the session's own, else by its id."""
    turn = None
    if wanted.isdecimal() and wanted.isascii() and 1 <= int(wanted) <= len(session.turns):
        turn = session.turns[int(wanted) - 1]
    else:
        turn = next((one for one in every_turn((*session.turns, *session.loose)) if wanted in one.names), None)
    if turn is None:
        count = len(session.turns)
        there = f"it has #1 to #{count}" if count > 1 else "it has #1" if count else "it has none of its own"
        raise UsageError(
            f"{text}: session {session.session_id} has no turn {wanted or '#'}: {there}: "
            f"`ledger show {session.session_id}` lists them"
        )
    keys = sorted({one.turn_key for one in every_turn([turn])})
    numbers = [number for number, one in enumerate(session.turns, 1) if one is turn]
    name = numbers[0] if numbers else escaped(turn.names[0])
    where = ("p.session_key = ?", f"p.turn_key IN ({', '.join('?' * len(keys))})")
    parameters = (session.session_key, *keys)
    return Found(f"{escaped(session.session_id)}#{name}", turn.total(), where, parameters)


def every_turn(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield turns and all turns below them."""
    for turn in turns:
        yield turn
        for below in turn.children.values():
            yield from every_turn(below)
