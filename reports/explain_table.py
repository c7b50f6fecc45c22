"""What `ledger explain` prints for people: a block a span, and below them the sum beside the figure asked about."""

from __future__ import annotations

from ledger.prices.pricing import exact_usd, lines
from reports.explain_find import Found
from reports.explain_span import Opened, Pricing
from reports.explain_words import CLASS_NAMES, quote_text, rules_of, whys
from reports.figures import Figures, usd
from reports.periods import Zone
from reports.text import Column, bold, counted, safe, table, wrapped

_INDENT = 4
_CELLS = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")


def heading(found: Found, zone: Zone) -> str:
    """Return what is explained, of how many spans it is made, and from when to when."""
    figure = found.figure
    times = [f"{zone.moment(at):%Y-%m-%d %H:%M}" for at in (figure.first_at, figure.last_at) if at is not None]
    return bold(wrapped(safe(f"{found.address}: {_spans(figure)}, {' to '.join(dict.fromkeys(times))}")))


def sums(listed: Figures, rest: Figures, whole: Figures, figure: Figures, *, adds_up: bool) -> str:
    """Return the sums beside the figure; `rest` are the spans that were not shown."""
    parts = [_sums(listed, rest, whole, figure), wrapped(_verdict(listed, rest, adds_up))]
    if rest["spans"]:
        more = f"... and {_spans(rest)} more: `--limit 0` shows them, `--format csv` and json have all"
        parts.insert(0, wrapped(more) + "\n")
    return "\n".join(parts)


def _spans(figures: Figures) -> str:
    return counted(figures["spans"], "span")


def _verdict(listed: Figures, rest: Figures, adds_up: bool) -> str:
    if not adds_up:
        return bold("THE SPANS DO NOT ADD UP to the figure of the accounts: run `ledger verify --full`")
    if rest["spans"]:
        what = f"The {_spans(listed)} above and the {rest['spans']:,} more add up to"
    else:
        what = "The span above is" if listed["spans"] == 1 else "The spans above add up to"
    return (
        f"{what} the figure of the accounts: requests, tokens of every class, cost, bounds, unknowns. "
        "What is listed was worked out again from the events of the log."
    )


# one span


def block(opened: Opened, zone: Zone) -> str:
    """Return what there is to say of one span: what it was, where it was read, its price, and what is unknown."""
    row, values = opened.row, opened.values
    name = values.model or "request" if values.kind == "model" else f"{values.kind} {values.tool}"
    who = values.who if not values.agent else f"{values.who} {values.agent}"
    status = values.status + (f" {row.http_status}" if row.http_status else "")
    attempt = "" if row.attempt_kind == "first" else f", {row.attempt_kind} {row.attempt}"
    lines_ = [
        bold(wrapped(safe(f"{zone.moment(row.occurred_at):%Y-%m-%d %H:%M:%S}  {name}  {status}  {who}{attempt}")))
    ]
    lines_ += _field("span", row.span_id)
    lines_ += _field("in", f"session {opened.session_id}" + (f", turn {opened.turn}" if opened.turn else ""))
    lines_ += _field("from", _place(opened))
    if opened.first is not None:
        lines_ += _priced("first", opened.first)
        for one in opened.repriced:
            when = f"{zone.moment(one.at):%Y-%m-%d %H:%M}"
            lines_ += _field("then", f"priced again, {when}, event {one.event:,}: {one.reason or 'no reason given'}")
    elif opened.repriced:
        lines_ += _field("first", "no price was known when it was read")
        for one in opened.repriced:
            when = f"{zone.moment(one.at):%Y-%m-%d %H:%M}"
            lines_ += _field("then", f"priced, {when}, event {one.event:,}: {one.reason or 'no reason given'}")
    if opened.final is not None:
        lines_ += _priced("quote", opened.final, _bound(opened))
    elif opened.usage is not None and values.kind == "model":
        lines_ += _tokens(opened)
    if values.kind != "model":
        waited = "" if row.waited_us is None else f", it waited {row.waited_us / 1e6:,.1f} s"
        lines_ += _field("", f"adds no request, no tokens and no money{waited}")
    if row.reported_cost_nanousd is not None:
        lines_ += _field(
            "said", f"the client itself says {usd(row.reported_cost_nanousd)} USD, which is in no sum of costs"
        )
    for why in whys(opened):
        lines_ += _field("", why)
    return "\n".join(lines_)


def _place(opened: Opened) -> str:
    place = opened.place
    where = f"event {place.event:,}, observation {place.observation}"
    if place.stream.startswith("run:"):  # an event of our own agent is of one span
        return f"event {place.event:,} of {place.stream}"
    if not place.file:
        return f"{where} of {place.stream}"
    if place.offset is not None:
        unpacked = " unpacked" if place.file.endswith(".zst") else ""
        return f"{place.file}{unpacked}, byte {place.offset:,}: {where}"
    return f"{place.file}: {where}" + (f", record {place.record:,}" if place.record is not None else "")


def _bound(opened: Opened) -> str:
    figures = Figures()
    figures.add(opened.amounts, None, None)
    return figures.bound()


def _priced(name: str, pricing: Pricing, bound: str = "") -> list[str]:
    """Return a quote, the products of the price and their sum."""
    said = _field(name, quote_text(pricing.quote))
    for rule in rules_of(pricing):
        said += _field("rule", rule)
    priced = pricing.priced
    if priced.cost_nanousd is None:
        return said
    products = [
        (CLASS_NAMES[line.what], f"{line.count:,}", line.rate_usd, "each" if line.what == "web_search" else "a million",
         line.amount_usd)
        for line in lines(priced)
    ]  # fmt: skip
    exact, cost = exact_usd(priced), usd(priced.cost_nanousd)
    rounded = "" if len(exact.partition(".")[2]) <= 9 else f", rounded once from {exact}"
    wide = [max((len(cells[place]) for cells in products), default=0) for place in range(4)]
    decimals = max([len(_decimals(cells[4])) for cells in products] + [len(_decimals(cost))])
    for what, count, rate, unit, amount in products:
        text = f"{what:<14} {count:>{wide[1]}} x {rate:>{wide[2]}} {unit:<{wide[3]}} ="
        said += [f"{' ' * _INDENT}{'':<6}{text} {_padded(amount, decimals)}"]
    indent = " " * (_INDENT + 6)
    if len(products) != 1 or rounded or bound:
        filler = wide[1] + 3 + wide[2] + 1 + wide[3]
        said.append(wrapped(f"{indent}{'cost USD':<14} {'':<{filler}} = {bound}{_padded(cost, decimals)}{rounded}"))
    return [line.rstrip() for line in said]


def _decimals(text: str) -> str:
    return text.partition(".")[2]


def _padded(text: str, decimals: int) -> str:
    """Return an exact decimal with at least two decimals, and blanks up to the others' width."""
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest.ljust(2, '0').ljust(decimals)}"


def _tokens(opened: Opened) -> list[str]:
    counts = [(CLASS_NAMES[name], getattr(opened.again, name)) for name in _CELLS]
    told = [f"{name} {count:,}" for name, count in counts if count is not None]
    return _field("used", ", ".join(told)) if told else []


def _field(name: str, text: str) -> list[str]:
    """Return a named field, its further lines set in."""
    from textwrap import wrap

    from reports.text import terminal_columns

    head = f"{' ' * _INDENT}{name:<6}"
    room = max(20, min(terminal_columns(), 10_000) - len(head))
    first, *more = wrap(safe(text), room, break_on_hyphens=False, break_long_words=False) or [""]
    return [f"{head}{first}", *(f"{' ' * len(head)}{line}" for line in more)]


# the sums


def _sums(listed: Figures, rest: Figures, whole: Figures, figure: Figures) -> str:
    columns = [
        Column("", rank=0),
        Column("spans", right=True, rank=3),
        Column("requests", right=True, rank=1),
        Column("uncached", right=True, rank=4),
        Column("cache read", right=True, rank=4),
        Column("write 5m", right=True, rank=4),
        Column("write 1h", right=True, rank=4),
        Column("input", right=True),
        Column("output", right=True),
        Column("reasoning", right=True, rank=5),
        Column("unpriced", right=True, rank=2),
        Column("cost USD", right=True),
    ]
    rows = [["listed", *_row(listed)], ["more", *_row(rest)]] if rest["spans"] else []
    rows.append(["sum", *_row(whole)])
    return table(columns, rows, ["figure", *_row(figure)])


def _row(figures: Figures) -> list[str]:
    counted = figures.count_text
    cost = f"{figures.bound()}{usd(figures['cost_nanousd'])}" if figures["priced_spans"] else "unknown"
    return [
        f"{figures['spans']:,}",
        f"{figures['requests']:,}",
        counted("input_uncached"),
        counted("cache_read"),
        counted("cache_write_5m"),
        counted("cache_write_1h"),
        figures.input_text(),
        counted("output"),
        counted("reasoning"),
        f"{figures['unpriced_spans']:,}",
        cost if figures["requests"] else "-",
    ]
