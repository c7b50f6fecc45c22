"""The bodies of the commands, each a few lines: open the log, ask the package that knows, print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger.log.location import Place, resolve
from ledger.log.log import Log
from reports.output import Progress, checked_format, put
from reports.text import counted

if TYPE_CHECKING:
    from ledger.sources.importer import SourceReport


def _home(home: str | None) -> tuple[Path, bool]:
    """Return the home folder to look in, and whether the environment's own places hold too."""
    from ledger.errors import UsageError

    try:
        folder = Path.home() if home is None else Path(home).expanduser()
    except RuntimeError as error:  # no HOME, or a ~name of nobody
        raise UsageError(f"--home {home or '~'}: no such home folder: give the whole path") from error
    if home is not None and not folder.is_dir():
        raise UsageError(f"--home {home}: is not a folder: give the home folder whose sessions to read")
    return folder, home is None


def _import(log: Log, clients: list[str], home: str | None, billing: str | None = None) -> list[SourceReport]:
    from ledger.errors import UsageError
    from ledger.sources.discover import checked_clients
    from ledger.sources.importer import run_import

    if billing not in (None, "api", "subscription"):
        raise UsageError(f"--billing {billing}: unknown: use api or subscription")
    folder, use_environment = _home(home)
    progress = Progress("importing", " bytes")
    try:
        return run_import(
            log,
            checked_clients(clients),
            folder,
            use_environment=use_environment,
            billing=billing,
            progress=progress,
        )
    finally:
        progress.close()


def init(db: str | None) -> int:
    """Make an empty log, or say that there is one."""
    from reports.init import init as make

    return make(resolve(db))


def _imported(clients: list[str], home: str | None, billing: str | None, db: str | None) -> list[SourceReport]:
    with Log.open(resolve(db), create=True) as log:
        return _import(log, clients or [], home, billing)


def import_(
    clients: list[str], home: str | None, watch: bool, every: int | None, strict: bool, billing: str | None,
    db: str | None, format: str,
) -> int:  # fmt: skip
    """Import what is new and say what became of every line; with `watch`, again and again."""
    from reports.imports import print_import

    checked_format(format)
    if watch or every is not None:
        from reports.watch import watched

        return watched(lambda: _imported(clients, home, billing, db), watch, every, format, strict)
    with Log.open(resolve(db), create=True) as log:
        reports = _import(log, clients or [], home, billing)
    return print_import(reports, format, strict)


def report(
    by: str, import_: bool, session: str | None, project: str | None, model: str | None, client: str | None,
    kind: str | None, label: list[str], since: str | None, until: str | None, tz: str | None, sort: str | None,
    home: str | None, db: str | None, format: str,
) -> int:  # fmt: skip
    """Print what it cost."""
    from ledger.accounts.catchup import snapshot
    from reports.query import make_question
    from reports.report import report as print_report

    checked_format(format)
    question = make_question(
        by, session=session, project=project, model=model, client=client, kind=kind, label=label, since=since,
        until=until, tz=tz, sort=sort,
    )  # fmt: skip
    path = resolve(db)
    with Log.open(path, create=import_) as log:
        if import_:
            log.check_writable()
            _warn(_import(log, _importable(client), home))
        progress = Progress("reading the log", " events")
        with snapshot(log, progress) as view:
            progress.close()
            print_report(view, question, format)
    return 0


def _importable(client: str | None) -> list[str]:
    """Return the clients to import for a report on one: that one, or all where it is none that is imported."""
    from ledger.sources.discover import CLIENTS

    return [client] if client in CLIENTS else []


def _warn(reports: list[SourceReport]) -> None:
    from reports.imports import warn

    warn(reports)


def show(session: str, tz: str | None, db: str | None, format: str) -> int:
    """Print one session as a tree."""
    from ledger.accounts.catchup import snapshot
    from reports.periods import Zone
    from reports.show import show as print_tree

    checked_format(format)
    with Log.open(resolve(db)) as log, snapshot(log) as view:
        print_tree(log, view, session, Zone(tz), format)
    return 0


def explain(address: str, limit: int, db: str | None, format: str, **filters: Any) -> int:
    """Open a figure into the spans behind it."""
    from ledger.accounts.catchup import snapshot
    from reports.explain import explain as open_figure

    checked_format(format)
    with Log.open(resolve(db)) as log, snapshot(log) as view:
        return open_figure(log, view, address, filters, limit, format)


def blocks(
    active: bool, recent: bool, client: str | None, since: str | None, until: str | None, limit: str | None,
    tz: str | None, db: str | None, format: str,
) -> int:  # fmt: skip
    """Print the windows of five hours."""
    import time

    from ledger.accounts.catchup import snapshot
    from reports.blocks import blocks as print_blocks
    from reports.blocks import make_choice

    checked_format(format)
    now_us = time.time_ns() // 1000
    choice = make_choice(now_us, active=active, recent=recent, client=client, since=since, until=until, limit=limit,
                         tz=tz)  # fmt: skip
    with Log.open(resolve(db)) as log, snapshot(log) as view:
        return print_blocks(view, choice, now_us, format)


def verify(full: bool, new: bool, seal: str | None, db: str | None, format: str) -> int:
    """Run every check."""
    from reports.verify import verify as print_checks

    checked_format(format)
    with Log.open(resolve(db)) as log:
        return print_checks(log, format, full=full, new=new, seal=seal)


def seal(out: str | None, db: str | None, format: str) -> int:
    """Seal the log."""
    from reports.seal import seal as make

    checked_format(format)
    with Log.open(resolve(db)) as log:
        return make(log, out, format)


def label(session: str, labels: list[str], db: str | None, format: str) -> int:
    """Label a session."""
    from reports.label import label as set_or_print

    checked_format(format)
    with Log.open(resolve(db)) as log:
        return set_or_print(log, session, labels or [], format)


def purge(older_than: str | None, session: str | None, yes: bool, tz: str | None, db: str | None, format: str) -> int:
    """Remove texts."""
    from reports.purge import purge as remove

    checked_format(format)
    with Log.open(resolve(db)) as log:
        return remove(log, older_than, session, tz, format, sure=yes)


def copy(to: str | None, db: str | None, format: str) -> int:
    """Copy a log into another one."""
    from ledger.errors import UsageError
    from reports.keeping import copy as run_copy

    checked_format(format)
    if not to:
        raise UsageError("say where to copy the log to: --to PATH, or --to postgresql://...")
    with Log.open(resolve(db), readonly=True) as source, Log.open(resolve(to), create=True) as target:
        return run_copy(source, target, format)


def backup(file: str, force: bool, db: str | None, format: str) -> int:
    """Back up the log."""
    from reports.keeping import backup as run_backup

    checked_format(format)
    with Log.open(resolve(db), readonly=True) as log:
        return run_backup(log, file, format, force=force)


def roll(db: str | None, format: str) -> int:
    """Roll the log."""
    from reports.keeping import roll as run_roll

    checked_format(format)
    with Log.open(resolve(db)) as log:
        return run_roll(log, format)


def demo(sample: str | None, script: str | None, home: str | None) -> int:
    """Show it at work: the agent on a rehearsal, or an import of a sample."""
    if sample is not None:
        from reports.demo import demo as play_import

        return play_import(sample, *_home(home))
    from agent.demo import demo as play

    return play(script, *_home(home))


def rebuild(db: str | None) -> int:
    """Fold the accounts anew."""
    from ledger.accounts import catchup

    progress = Progress("folding", " events")
    with Log.open(resolve(db)) as log:
        log.check_writable()
        gone = catchup.gone(log)
        folded = catchup.rebuild(log, progress)
    progress.close()
    if gone:
        put(f"event {gone[-1]:,} was folded once and is gone or another one now: the log was cut or replaced, "
            "and is taken as it is from here on (`ledger verify --seal` has the evidence)")  # fmt: skip
    put(f"folded {counted(folded, 'event')} anew")
    return 0


def doctor(home: str | None, db: str | None, format: str) -> int:
    """Say what the log stands on."""
    from reports.doctor import doctor as examine

    checked_format(format)
    return examine(resolve(db), *_home(home), format)


def tail(follow: bool, lines: int, db: str | None, format: str) -> int:
    """Print the newest events."""
    from reports.tail import tail as print_tail

    checked_format(format)
    with Log.open(resolve(db), readonly=True) as log:
        return print_tail(log, lines, format, follow=follow)


def reprice(model: str | None, reason: str | None, db: str | None, format: str) -> int:
    """Price again."""
    from reports.prices import reprice as run_reprice

    checked_format(format)
    with Log.open(resolve(db)) as log:
        return run_reprice(log, model, reason, format)


@contextmanager
def _log_or_none_yet(path: Place) -> Iterator[Log]:
    """Open the log; where there is none yet, an empty one that vanishes: to look makes no log."""
    import tempfile

    if not isinstance(path, Path) or path.exists():
        with Log.open(path) as log:
            yield log
        return
    with tempfile.TemporaryDirectory(prefix="tallybook-") as scratch, Log.create(Path(scratch) / "none.db") as log:
        yield log


def prices_list(all_: bool, db: str | None, format: str) -> int:
    """Print the prices in use."""
    from reports.prices import list_prices

    checked_format(format)
    with _log_or_none_yet(resolve(db)) as log:
        return list_prices(log, format, everything=all_)


def prices_show(model: str, provider: str | None, db: str | None, format: str) -> int:
    """Print every price of a model."""
    from reports.prices import show_prices

    checked_format(format)
    with _log_or_none_yet(resolve(db)) as log:
        return show_prices(log, model, provider, format)


def prices_set(model: str, db: str | None, **rates: str | None) -> int:
    """Record a price of the user's own."""
    from reports.prices import set_price

    with Log.open(resolve(db), create=True) as log:
        return set_price(log, model, rates)


def prices_refresh(db: str | None, format: str) -> int:
    """Record what changed in the price data."""
    from reports.prices import refresh

    checked_format(format)
    with Log.open(resolve(db), create=True) as log:
        return refresh(log, format)


def usage_read(file: str, provider: str, endpoint: str, stream: bool) -> int:
    """Print what a usage object means."""
    from ledger.wire.read_file import read_usage_file
    from reports.output import put_json

    put_json(read_usage_file(file, provider, endpoint, stream))
    return 0
