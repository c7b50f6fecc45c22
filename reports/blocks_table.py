"""The windows of `ledger blocks` for people."""

from __future__ import annotations

from reports.blocks import Block, Blocks, Choice, gap_before
from reports.blocks_windows import MINUTE_US, WARNING_PERCENT, projection, rate
from reports.figures import Figures, decimals_for
from reports.periods import Zone
from reports.text import Column, bold, counted, safe, table, wrapped

_HOUR_MINUTES = 60


def as_table(found: Blocks, choice: Choice, now_us: int) -> str:
    """Return the windows as a table, and below it what the running ones come to."""
    if not found.blocks:
        return wrapped(_nothing(found, choice, now_us))
    zone = choice.zone
    decimals = decimals_for([block.figures["cost_nanousd"] for block in found.blocks])
    columns = [
        Column("client", rank=2 if len({block.client for block in found.blocks}) == 1 else 0),
        Column("window"),
        Column("first", rank=6),
        Column("last", rank=6),
        Column("requests", right=True, rank=3),
        Column("uncached", right=True, rank=5),
        Column("cache read", right=True, rank=5),
        Column("cache write", right=True, rank=5),
        Column("output", right=True, rank=4),
        Column("tokens", right=True),
        Column("at list price USD", right=True),
        Column("of limit", right=True),
        Column("models", rank=7),
    ]
    rows: list[list[str]] = []
    before: Block | None = None
    for block in found.blocks:
        gap = gap_before(block, before)
        if gap:
            rows.append([block.client, f"no window for {_duration(gap[1] - gap[0])}", *[""] * (len(columns) - 2)])
        rows.append(_row(block, decimals, zone))
        before = block
    keep = [place for place, column in enumerate(columns) if column.title != "of limit" or choice.limit is not None]
    text = table([columns[p] for p in keep], [[row[p] for p in keep] for row in rows])
    notes = [line for block in found.blocks for line in _notes(block, decimals, zone, now_us)]
    return "\n".join([text, *notes, *map(wrapped, _foot(found))])


def _nothing(found: Blocks, choice: Choice, now_us: int) -> str:
    ended = {client: end for client, end in found.last_end_us.items() if end <= now_us}
    if not found.last_end_us:
        return "there are no windows yet: `ledger import` reads what there is"
    if choice.active and ended:
        said = [f"{client} ended {choice.zone.moment(end):%Y-%m-%d %H:%M}" for client, end in sorted(ended.items())]
        return f"no window is running; the last one of {', of '.join(said)} (`ledger import` reads what is new)"
    return "no window matches: `ledger blocks` without options shows all"


def _row(block: Block, decimals: int, zone: Zone) -> list[str]:
    figures, window = block.figures, block.window
    known = figures.count_text
    begin, end = zone.moment(window.begin_us), zone.moment(window.end_us)
    of_limit = "-" if block.percent is None else f"{_at_least(figures)}{block.percent:,} %"
    return [
        block.client,
        f"{begin:%Y-%m-%d %H:%M}-{end:%H:%M}" + (" running" if block.running else ""),
        *("" if at is None else f"{zone.moment(at):%H:%M}" for at in (figures.first_at, figures.last_at)),
        f"{figures['requests']:,}",
        known("input_uncached"),
        known("cache_read"),
        known("cache_write_5m", "cache_write_1h"),
        known("output"),
        f"{_at_least(figures)}{figures.tokens:,}",
        figures.cost_text(decimals),
        of_limit,
        " ".join(block.models),
    ]


def _at_least(figures: Figures) -> str:
    """Return the sign before all tokens: some requests may have told nothing, or less than they used."""
    return ">= " if figures["unknown_usage_spans"] or figures["partial_spans"] else ""


def _notes(block: Block, decimals: int, zone: Zone, now_us: int) -> list[str]:
    """Return what the running window comes to, and the warning of one that is near its limit."""
    lines = []
    figures, window = block.figures, block.window
    going, ahead = rate(figures), projection(window, figures, now_us)
    if block.running:
        head = f"{block.client}: {_duration(window.end_us - now_us)} left, until {zone.moment(window.end_us):%H:%M}"
        if going is None or ahead is None:
            lines.append(wrapped(safe(f"{head}; too short in use for a rate")))
        else:
            cost = "" if going.nanousd_an_hour is None else f" and {_usd(going.nanousd_an_hour, decimals)} USD an hour"
            total = "" if ahead.cost_nanousd is None else f" and {_usd(ahead.cost_nanousd, decimals)} USD"
            lines.append(wrapped(safe(
                f"{head}; {going.tokens_a_minute:,.0f} tokens a minute{cost} in {_duration(going.active_us)} of use; "
                f"at this rate {ahead.tokens:,} tokens{total} at its end (at list price)"
            )))  # fmt: skip
    if block.running and block.percent is not None and block.limit is not None:
        tokens = figures.tokens
        if block.percent >= WARNING_PERCENT:
            lines.append(bold(wrapped(f"WARNING: {block.percent:,} % of {block.limit:,} tokens are used")))
        if going is not None and tokens < block.limit and going.tokens_a_minute:
            reached = now_us + round((block.limit - tokens) / going.tokens_a_minute * MINUTE_US)
            if reached < window.end_us:
                lines.append(wrapped(f"at this rate the limit is reached at {zone.moment(reached):%H:%M}"))
    return lines


def _foot(found: Blocks) -> list[str]:
    return [
        safe(f"{client}: {counted(count, 'failed request')} in no window")
        for client, count in sorted(found.outside.items())
    ]


def _usd(nanousd: float, decimals: int) -> str:
    return f"{nanousd / 1e9:,.{decimals}f}"


def _duration(microseconds: int) -> str:
    minutes = microseconds // MINUTE_US
    hours, rest = divmod(minutes, _HOUR_MINUTES)
    days, hours = divmod(hours, 24)
    words = [f"{days:,} d"] if days else []
    words += [f"{hours} h"] if hours else []
    words += [f"{rest} min"] if rest or not words else []
    return " ".join(words)
