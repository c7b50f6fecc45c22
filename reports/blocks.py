"""`ledger blocks`: the five-hour windows of subscriptions: what each used, and what the running one comes to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from ledger.accounts.amounts import AMOUNTS, GRAIN_QUARTER, TOKEN_CLASSES
from ledger.accounts.catchup import View
from ledger.errors import UsageError
from reports.blocks_windows import WARNING_PERCENT, Quarter, Window, projection, rate, windows
from reports.figures import Figures, usd_or_none
from reports.output import put, put_csv, put_json
from reports.periods import Zone, iso, parse_day

RECENT_DAYS = 3
LARGEST = 0
_DAY_US = 86_400_000_000
_TOKENS = " + ".join(f"t.{name}" for name in TOKEN_CLASSES[:5])
_QUARTERS = f"""SELECT d.client, t.bucket, sum(t.requests), sum(t.failed), sum({_TOKENS})
FROM gen_totals AS t JOIN gen_dimensions AS d ON d.dimension_id = t.dimension_id
WHERE t.grain = ? AND d.kind = 'model'{{only}} GROUP BY d.client, t.bucket ORDER BY d.client, t.bucket"""
_FIGURES = f"""SELECT d.client, t.bucket, d.model, {", ".join(f"sum(t.{name})" for name in AMOUNTS)},
  min(t.first_at), max(t.last_at)
FROM gen_totals AS t JOIN gen_dimensions AS d ON d.dimension_id = t.dimension_id
WHERE t.grain = ? AND d.kind = 'model' AND t.bucket >= ?{{only}} GROUP BY d.client, t.bucket, d.model"""


class Choice(NamedTuple):
    """Which windows are wanted, and what they are compared with."""

    active: bool
    client: str | None
    since_us: int | None
    until_us: int | None
    """Windows that begin in [since, until), and with `since` from --recent also the one that is running."""
    recent: bool
    limit: int | None
    """Tokens a window; LARGEST: as many as the largest earlier window of the client used."""
    zone: Zone


class Block(NamedTuple):
    """A window of a client, with what it used."""

    client: str
    window: Window
    running: bool
    figures: Figures
    """Of its requests; first_at and last_at are those of the first and the last of them."""
    models: tuple[str, ...]
    limit: int | None
    """Tokens that it is compared with; None where there is nothing to compare with."""

    @property
    def percent(self) -> int | None:
        """How much of the limit is used, whole percents, cut; None where there is no limit."""
        return None if not self.limit else 100 * self.figures.tokens // self.limit


class Blocks(NamedTuple):
    """What was found: the blocks by client and time, and what lies in none."""

    blocks: list[Block]
    outside: dict[str, int]
    """Client -> requests that failed while no window was running."""
    last_end_us: dict[str, int]
    """Client -> when its last window ends, of all."""


def make_choice(
    now_us: int,
    *,
    active: bool = False,
    recent: bool = False,
    client: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: str | None = None,
    tz: str | None = None,
) -> Choice:
    """Return what a command line asks for. Raises UsageError for an unknown word."""
    zone = Zone(tz)
    since_us = None if since is None else parse_day(since, zone, now_us)
    until_us = None if until is None else parse_day(until, zone, now_us, "--until")
    if since_us is not None and until_us is not None and until_us <= since_us:
        raise UsageError("--until is exclusive and must be later than --since: name the day after the last one")
    if recent and active:
        raise UsageError("--recent: the window that is running is all that --active leaves: leave one of them out")
    if recent and since is not None:
        raise UsageError(f"--recent: is the last {RECENT_DAYS} days: leave it out, or --since")
    if recent:
        since_us = now_us - RECENT_DAYS * _DAY_US
    return Choice(active, client, since_us, until_us, recent, _limit(limit), zone)


def _limit(text: str | None) -> int | None:
    if text is None or text == "max":
        return None if text is None else LARGEST
    digits = text.replace(",", "").replace("_", "")
    if not (digits.isascii() and digits.isdecimal() and 0 < int(digits) < 1 << 62):
        raise UsageError(f"--limit {text}: give a number of tokens, for example 5000000, or max")
    return int(digits)


def find(view: View, choice: Choice, now_us: int) -> Blocks:
    """Return the windows that are wanted, with their figures: sums of quarter-hours, however many spans there are."""
    only, parameters = (" AND d.client = ?", (choice.client,)) if choice.client is not None else ("", ())
    quarters: dict[str, list[tuple[Quarter, int, int]]] = {}
    for client, at_us, requests, failed, tokens in view.store.query(
        _QUARTERS.format(only=only), GRAIN_QUARTER, *parameters
    ):
        quarters.setdefault(client, []).append((Quarter(at_us, requests > failed), int(tokens), int(requests)))
    if not quarters and choice.client is not None:
        raise UsageError(f"--client {choice.client}: the log has no request of it: `ledger report --by client`")
    wanted: dict[tuple[str, Window], Block] = {}
    begins: dict[str, list[int]] = {}
    outside: dict[str, int] = {}
    last_end_us: dict[str, int] = {}
    for client, marks in quarters.items():
        found = windows(mark for mark, _, _ in marks)
        begins[client] = [window.begin_us for window in found]
        used = dict.fromkeys(found, 0)
        for mark, tokens, requests in marks:
            window = _holder(begins[client], mark.at_us)
            if window is None:
                outside[client] = outside.get(client, 0) + requests
            else:
                used[window] += tokens
        if found:
            last_end_us[client] = found[-1].end_us
        largest = 0
        for window, tokens in used.items():
            limit = (largest or None) if choice.limit == LARGEST else choice.limit
            running = window.begin_us <= now_us < window.end_us
            if _is_wanted(choice, window, running):
                wanted[client, window] = Block(client, window, running, Figures(), (), limit)
            largest = max(largest, tokens)
    _fill(view, wanted, begins, only, parameters)
    return Blocks(list(wanted.values()), outside, last_end_us)


def _is_wanted(choice: Choice, window: Window, running: bool) -> bool:
    if choice.active and not running:
        return False
    if choice.until_us is not None and window.begin_us >= choice.until_us:
        return False
    return choice.since_us is None or window.begin_us >= choice.since_us or (choice.recent and running)


def _holder(begins: list[int], at_us: int) -> Window | None:
    """Return the window that an instant lies in, None for none."""
    place = bisect_right(begins, at_us) - 1
    if place < 0 or at_us >= Window(begins[place]).end_us:
        return None
    return Window(begins[place])


def _fill(
    view: View, wanted: dict[tuple[str, Window], Block], begins: dict[str, list[int]], only: str,
    parameters: tuple[Any, ...],
) -> None:  # fmt: skip
    """Add up the figures of the wanted windows, and which models they used."""
    if not wanted:
        return
    first = min(window.begin_us for _, window in wanted)
    models: dict[tuple[str, Window], set[str]] = {key: set() for key in wanted}
    rows = view.store.query(_FIGURES.format(only=only), GRAIN_QUARTER, first, *parameters)
    for client, at_us, model, *amounts in rows:
        window = _holder(begins[client], at_us)
        if window is None or (client, window) not in wanted:
            continue
        wanted[client, window].figures.add([int(amount) for amount in amounts[:-2]], amounts[-2], amounts[-1])
        models[client, window].add(model)
    for key, names in models.items():
        wanted[key] = wanted[key]._replace(models=tuple(sorted(names - {""})))


def blocks(view: View, choice: Choice, now_us: int, format_: str) -> int:
    """Print the windows."""
    found = find(view, choice, now_us)
    if format_ == "json":
        put_json(as_json(view, found, now_us))
    elif format_ == "csv":
        rows = [_flat(row) for row in _rows(found, now_us)]
        put_csv(_CSV, [[row.get(name) for name in _CSV] for row in rows])
    else:
        from reports.blocks_table import as_table

        put(as_table(found, choice, now_us))
    return 0


# JSON and CSV


def as_json(view: View, found: Blocks, now_us: int) -> dict[str, Any]:
    """Return the answer as docs/report.md promises it."""
    from reports.billing import stated

    clients = {block.client for block in found.blocks}
    return {
        "as_of": view.position,
        "now": iso(now_us),
        "billing": {client: mode for client, mode in stated(view).items() if client in clients},
        "windows": list(_rows(found, now_us)),
        "outside": found.outside,
    }


def gap_before(block: Block, before: Block | None) -> tuple[int, int] | None:
    """Return the time without a window between two blocks of a client that follow each other, None for none."""
    if before is None or before.client != block.client or before.window.end_us >= block.window.begin_us:
        return None
    return before.window.end_us, block.window.begin_us


def _rows(found: Blocks, now_us: int) -> Iterator[dict[str, Any]]:
    before: Block | None = None
    for block in found.blocks:
        gap = gap_before(block, before)
        if gap:
            yield {"client": block.client, "what": "gap", "begins_at": iso(gap[0]), "ends_at": iso(gap[1])}
        yield _block_json(block, now_us)
        before = block


def _block_json(block: Block, now_us: int) -> dict[str, Any]:
    figures, window = block.figures, block.window
    going = rate(figures)
    ahead = projection(window, figures, now_us)
    return {
        "client": block.client,
        "what": "window",
        "begins_at": iso(window.begin_us),
        "ends_at": iso(window.end_us),
        "running": block.running,
        **figures.as_json(),
        "models": list(block.models),
        "limit_tokens": block.limit,
        "limit_percent": block.percent,
        "warning": block.percent is not None and block.percent >= WARNING_PERCENT,
        "active_ms": None if going is None else going.active_us // 1000,
        "tokens_a_minute": None if going is None else round(going.tokens_a_minute),
        "cost_usd_an_hour": usd_or_none(None if going is None else going.nanousd_an_hour),
        "left_ms": (window.end_us - now_us) // 1000 if block.running else None,
        "projected_tokens": None if ahead is None else ahead.tokens,
        "projected_cost_usd": usd_or_none(None if ahead is None else ahead.cost_nanousd),
    }


_CSV = (
    "client", "what", "begins_at", "ends_at", "running", "requests", "failed", "first_at", "last_at",
    *(f"tokens_{name}" for name in (*TOKEN_CLASSES, "total")), *(f"tokens_unknown_{name}" for name in TOKEN_CLASSES),
    "cost_usd", "unpriced_spans", "lower_bound_spans", "upper_bound_spans", "models", "limit_tokens",
    "limit_percent", "warning", "active_ms", "tokens_a_minute", "cost_usd_an_hour", "left_ms", "projected_tokens",
    "projected_cost_usd",
)  # fmt: skip


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {name: int(value) if isinstance(value, bool) else value for name, value in row.items()}
    for name in ("tokens", "tokens_unknown"):
        flat |= {f"{name}_{key}": value for key, value in flat.pop(name, {}).items()}
    return flat | ({"models": " ".join(row["models"])} if "models" in row else {})
