"""Copying logs: between databases, back, again, and several into one (OBS-29, OBS-53, OBS-55)."""

from __future__ import annotations

import json
import shutil
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from books import (
    DATABASES,
    SAMPLE,
    TREE,
    accounts,
    append,
    argument,
    events,
    failing,
    failing_session,
    label,
    purge_all,
    texts,
)

from ledger.accounts.catchup import snapshot
from ledger.cli import run
from ledger.errors import Diverged, InvalidEvent, LogReadOnly, LogTooNew, UsageError
from ledger.events.envelope import NewEvent
from ledger.events.sources import Context, Failure, LinesObserved, SourceOpened, SourceTruncated
from ledger.evidence.kept import as_file, hold_against, read_file
from ledger.evidence.seals import make_seal
from ledger.ids import new_id
from ledger.keeping import copying
from ledger.keeping.copying import Copied, copy
from ledger.log.blobs import make_blob
from ledger.log.log import StreamAppend
from ledger.prices.own import quote_from_rates
from ledger.sources.importer import run_import
from ledger.sources.quotes import state
from ledger.sources.repricing import reprice

PAIRS = [(one, other) for one in DATABASES for other in DATABASES]


@pytest.fixture(params=PAIRS, ids=lambda pair: "-to-".join(pair))
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Each way from database to database."""
    return request.param  # type: ignore[no-any-return]


def test_everything_but_positions_is_the_same(books: Any, pair: tuple[str, str]) -> None:
    """Events byte for byte, texts, and the accounts folded from them (OBS-53)."""
    source, target = books.filled(pair[0]), books.empty(pair[1])
    label(source, "5e551011", "acme")
    copied = copy(source, target)
    assert copied == Copied(source.head_position(), len(source.heads()), len(texts(source)), 0, 0)
    assert events(target) == events(source)
    assert texts(target) == texts(source) != {}
    assert accounts(target) == accounts(source)
    assert failing(target) == []


def test_there_and_back(books: Any) -> None:
    """A log moved to PostgreSQL and back is the same log; nothing is copied twice."""
    source, team, back = books.filled("sqlite"), books.empty("postgresql"), books.empty("sqlite")
    copy(source, team)
    copy(team, back)
    assert events(back) == events(source)
    assert copy(back, source).events == 0
    assert copy(team, source).events == 0


def test_a_second_copy_brings_only_what_is_new(books: Any, pair: tuple[str, str]) -> None:
    """New events of known streams, and new streams; the cost does not grow with what is known."""
    source, target = books.filled(pair[0]), books.empty(pair[1])
    copy(source, target)
    before = source.head_position()
    assert copy(source, target) == Copied(0, 0, 0, before, 0)
    append(source, "source:old", 1, 2)
    copy(source, target)
    append(source, "source:old", 3)
    append(source, "source:new", 1)
    assert copy(source, target) == Copied(2, 2, 0, before + 2, 0)
    assert events(target) == events(source)


def test_a_copy_reads_from_the_first_event_that_is_lacking(books: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy by cron of a large log does not read what it brought before."""
    source, target = books.filled("sqlite"), books.empty("sqlite")
    copy(source, target)
    append(source, "source:new", 1)
    read: list[int] = []
    plain = source.events_after
    monkeypatch.setattr(source, "events_after", lambda after, limit: read.append(after) or plain(after, limit))
    copy(source, target)
    assert read == [source.head_position() - 1]


def test_a_target_that_is_ahead_lacks_nothing(books: Any, pair: tuple[str, str]) -> None:
    """Where the target's stream goes on, the source's is its beginning."""
    source, target = books.empty(pair[0]), books.empty(pair[1])
    append(source, "source:one", 1)
    copy(source, target)
    append(target, "source:one", 2)
    assert copy(source, target).events == 0
    assert copy(target, source).events == 1
    assert events(source) == events(target)


@pytest.mark.parametrize("version", [1, 2, 4])
def test_what_diverges_stops_the_copy_before_anything_is_written(
    books: Any, pair: tuple[str, str], version: int
) -> None:
    """A file that was copied by other means and written on is found by its hashes, at the version, and named."""
    source, target = books.empty(pair[0]), books.empty(pair[1])
    common = list(range(1, version))
    append(source, "source:b", *common or [99])
    copy(source, target)
    stream = "source:b" if common else "source:c"
    append(source, stream, 7, 8, 9)
    append(target, stream, 70, 80)
    append(source, "source:a", 1)
    before = events(target)
    with pytest.raises(Diverged, match=f"stream {stream}: the two logs differ from version {version} on") as caught:
        copy(source, target)
    assert (caught.value.stream_id, caught.value.version) == (stream, version)
    assert events(target) == before
    with pytest.raises(Diverged):
        copy(target, source)


def test_a_copied_file_that_was_written_on_diverges(books: Any, tmp_path: Path) -> None:
    """`cp ledger.db` has the same log id, and so the same streams (README: copy, do not cp)."""
    source = books.filled("sqlite")
    source.close()
    shutil.copy(source.place, tmp_path / "twin.db")
    source, twin = books.open(source.place), books.open(tmp_path / "twin.db")
    assert twin.log_id == source.log_id
    assert copy(source, twin).events == 0
    label(source, "5e551011", "acme")
    assert copy(source, twin).events == 1
    label(source, "5e551011", "acme")
    label(twin, "5e551011", "other")
    with pytest.raises(Diverged, match=source.book_stream):
        copy(source, twin)


def test_what_two_machines_saw_is_counted_once(books: Any, kind: str) -> None:
    """Both imported the same files; merged in either order, accounts and prices are the same (OBS-53)."""
    logs = [books.filled("sqlite"), books.filled("sqlite"), books.filled("sqlite", TREE)]
    for number, log in enumerate(logs):
        quote = quote_from_rates("claude-opus-4-5-20251101", input=f"{number + 1}", output="10", cache_read="1")
        state(log, quote)
        reprice(log, None, "test")
        label(log, "5e551011", f"client-{number}")
    single = accounts(logs[0])
    merged = []
    for order in permutations(logs):
        target = books.empty(kind)
        for log in order:
            copy(log, target)
        assert failing(target) == []
        merged.append(accounts(target))
    for other in merged[1:]:
        assert other == merged[0]
    with snapshot(target) as view:
        sql = "SELECT count(*) FROM gen_spans s JOIN gen_sessions n USING (session_key) WHERE n.session_id <> ?"
        both = view.store.query(sql, "7457ae80-8314-453a-a906-631bacd26419").fetchone()[0]
    assert both == len(single["spans"])


def test_an_import_goes_on_after_a_move(books: Any, kind: str, tmp_path: Path) -> None:
    """The new log reads the files anew, and counts nothing twice."""
    source, target = books.filled("sqlite"), books.empty(kind)
    copy(source, target)
    before = accounts(target, ("sources", "totals"))
    run_import(target, ("claude-code", "codex"), SAMPLE, use_environment=False)
    after = accounts(target, ("sources", "totals"))
    assert [row[0] for row in after["spans"]] == [row[0] for row in before["spans"]]
    assert failing(target) == []


def test_a_seal_of_the_source_holds_on_the_target(books: Any, pair: tuple[str, str], tmp_path: Path) -> None:
    """The kept seal covers streams and hashes, and no position."""
    source, target = books.filled(pair[0]), books.empty(pair[1])
    append(target, "source:other", 1, 2, 3)
    kept = tmp_path / "kept.json"
    kept.write_bytes(as_file(make_seal(source)))
    copy(source, target)
    outcome = hold_against(target, read_file(kept))
    assert (outcome.faults, outcome.events_since) == ([], 3)
    assert failing(target) == []


def test_what_was_purged_at_the_source_does_not_come(books: Any, pair: tuple[str, str]) -> None:
    """The event that says so comes, the text does not, and the target is sound."""
    source, target = books.filled(pair[0]), books.empty(pair[1])
    assert purge_all(source, failing_session(source)) == 1
    assert copy(source, target).blobs == 0
    assert texts(target) == {}
    assert accounts(target) == accounts(source)
    assert failing(target) == []


def test_what_was_purged_at_the_target_does_not_come_back(books: Any, pair: tuple[str, str]) -> None:
    """Neither from the log it came from nor from another one that read the same files."""
    source, other, target = books.filled(pair[0]), books.filled(pair[0]), books.empty(pair[1])
    copy(source, target)
    assert purge_all(target, failing_session(target)) == 1
    assert copy(source, target).blobs == 0
    copied = copy(other, target)
    assert (copied.blobs, copied.purged) == (0, 1)
    assert texts(target) == {}
    assert failing(target) == []


def test_a_purge_while_a_copy_runs_holds(books: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is purged between the look and the commit stays away."""
    source, target = books.filled("sqlite"), books.filled(kind)
    session, plain = failing_session(target), copying._batches

    def purging(*arguments: Any) -> Any:
        for batch in plain(*arguments):
            purge_all(target, session)
            yield batch

    monkeypatch.setattr(copying, "_batches", purging)
    copy(source, target)
    assert texts(target) == {}


def test_an_equal_text_of_another_session_comes(books: Any, kind: str) -> None:
    """What was purged is the text of one session; a new failure with the same words is another one."""
    source, target = books.empty("sqlite"), books.empty(kind)
    blob = make_blob(b"overloaded")

    def failure(stream: str, session: str, at: int) -> None:
        opened = NewEvent(body=SourceOpened("claude-code", f"/{stream}", "/"), event_id=new_id())
        one = Failure(c=0, o=0, at=at, id=session, error=blob.sha256.hex())
        lines = LinesObserved(0, 10, 1, "", [Context(session)], [], [one])
        seen = NewEvent(body=lines, event_id=new_id())
        source.append([StreamAppend(stream, 0, [opened, seen])], [(seen.event_id, blob)])

    failure("source:1", "first", 1_000_000)
    copy(source, target)
    assert purge_all(target, "first") == 1
    failure("source:2", "second", 2_000_000)
    assert copy(source, target).blobs == 1
    assert list(texts(target).values()) == [b"overloaded"] * 2  # both events name what is there


@pytest.mark.parametrize("column", ["data", "at", "writer", "hash"])
def test_a_damaged_event_is_not_taken_in(books: Any, kind: str, column: str) -> None:
    """Every hash is computed anew before anything of its batch is kept."""
    source, target = books.empty("sqlite"), books.empty(kind)
    append(source, "source:a", 1, 2, 3)
    source.connection.execute("DROP TRIGGER events_refuse_update")
    value: Any = {"data": '{"offset":5,"size":5}', "at": 5, "writer": "me", "hash": b"\1" * 32}[column]
    source.connection.execute(f"UPDATE events SET {column} = ? WHERE version = 3", (value,))
    with pytest.raises(InvalidEvent, match="stream source:a, version 3: its hash does not fit"):
        copy(source, target)
    assert target.head_position() == 0


def test_adopting_checks_by_itself(books: Any, kind: str) -> None:
    """A gap, another beginning, a forged link: none is written, whatever the caller has looked at."""
    source, target = books.empty("sqlite"), books.empty(kind)
    append(source, "source:a", 1, 2, 3)
    one, two, three = source.all_events()
    for offered in ([two], [one, three], [one._replace(prev_hash=b"\0" * 32)]):
        with pytest.raises(Diverged):
            target.adopt(offered)
    assert target.head_position() == 0
    assert target.adopt([one, two]).events == 2
    assert target.adopt([one, two, three]).events == 1
    assert [event[1:] for event in target.all_events()] == [event[1:] for event in source.all_events()]
    with pytest.raises(Diverged):
        target.adopt([three._replace(hash=b"\0" * 32)])


def test_a_name_with_a_nul_cannot_move_to_postgresql(books: Any) -> None:
    """PostgreSQL has no such text; then the copy stops, in one line, and nothing is changed in silence."""
    source, target = books.empty("sqlite"), books.empty("postgresql")
    append(source, "source:\0", 1)
    with pytest.raises(InvalidEvent, match="NUL"):
        copy(source, target)
    assert target.head_position() == 0


def test_large_texts_come_in_portions(books: Any, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit ends where its texts are many, so that neither side holds them all at once."""
    monkeypatch.setattr(copying, "BATCH_BYTES", 4000)
    source, target = books.empty(pair[0]), books.empty(pair[1])
    blobs = [make_blob(bytes([number]) * 3000) for number in range(6)]
    news = [NewEvent(body=SourceTruncated(number, number), event_id=new_id()) for number in range(6)]
    source.append([StreamAppend("source:a", 0, news)],
                  [(new.event_id, blob) for new, blob in zip(news, blobs, strict=True)])  # fmt: skip
    sizes: list[int] = []
    adopt = target.adopt
    monkeypatch.setattr(target, "adopt", lambda batch, *rest: sizes.append(len(batch)) or adopt(batch, *rest))
    assert copy(source, target).blobs == 6
    assert sizes == [2, 2, 2]
    assert texts(target) == texts(source)


def test_who_may_not_write_the_target_is_told(books: Any, tmp_path: Path) -> None:
    """Nothing is tried, and the line says whose rights are lacking."""
    source = books.filled("sqlite")
    target = books.empty("sqlite")
    readonly = books.open(target.place, readonly=True)
    with pytest.raises(LogReadOnly, match="may not be written: check its permissions"):
        copy(source, readonly)
    with pytest.raises(UsageError, match="is the log that is copied"):
        copy(source, source)


@pytest.mark.parametrize(
    ("side", "key", "value", "error", "said"),
    [
        ("source", "min_writer", "9.0", LogTooNew, "is written by a newer tallybook"),
        ("target", "min_writer", "0.0.1", UsageError, "older programs than 0.1.0 may write there"),
        ("source", "hash_recipe", "2", UsageError, "has another hash recipe"),
    ],
)
def test_logs_that_do_not_go_together(
    books: Any, side: str, key: str, value: str, error: type[Exception], said: str
) -> None:
    """What each says of who may write it, and how it is hashed, is respected."""
    source, target = books.filled("sqlite"), books.empty("sqlite")
    changed = {"source": source, "target": target}[side]
    changed.connection.execute("UPDATE log_meta SET value = ? WHERE key = ?", (value, key))
    with pytest.raises(error, match=said):
        copy(source, target)
    assert target.head_position() == 0


def test_a_log_that_a_newer_program_took_over_takes_in_nothing(books: Any, kind: str) -> None:
    """Also where that happens after it was opened."""
    source, target = books.filled("sqlite"), books.empty(kind)
    place = target.place
    if kind == "sqlite":
        target.connection.execute("UPDATE log_meta SET value = '9.0' WHERE key = 'min_writer'")
    else:
        import psycopg

        with psycopg.connect(place.url, autocommit=True) as owner:
            owner.execute(f"UPDATE {place.schema}.log_meta SET value = '9.0' WHERE key = 'min_writer'")
    with pytest.raises(LogTooNew, match="taken this log over"):
        target.adopt(list(source.all_events()))
    assert target.head_position() == 0


# the command


def outcome(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run a command; return exit code, output and what it said besides."""
    code = run([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command(books: Any, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file is made where it is missing, figures come as table, JSON and CSV, and the source is only read."""
    source = books.filled("sqlite")
    place = argument(books.place(kind))
    words = ("copy", "--db", source.place, "--to", place)
    code, out, err = outcome(capsys, *words)
    count, streams = source.head_position(), len(source.heads())
    assert (code, err) == (0, "")
    assert out.endswith(f": copied {count} events of {streams} streams and 1 text; 0 were there already\n")
    code, out, _ = outcome(capsys, *words, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert [found[name] for name in ("events", "streams", "blobs", "known", "purged")] == [0, 0, 0, count, 0]
    code, out, _ = outcome(capsys, *words, "--format", "csv")
    assert out.splitlines()[0] == "from,to,events,streams,blobs,known,purged"
    assert outcome(capsys, "verify", "--db", place)[0] == 0


def test_what_the_command_refuses(books: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, server: Any) -> None:
    """One line and exit code 2; a source that is not there makes no target."""
    source = books.filled("sqlite")
    for words, said in (
        (("copy", "--db", source.place), "say where to copy the log to"),
        (("copy", "--db", source.place, "--to", source.place), "is the log that is copied"),
        (("copy", "--db", tmp_path / "none.db", "--to", tmp_path / "new.db"), "there is no ledger here"),
        (("copy", "--db", source.place, "--to", server.url(schema="nothing_here")), "run `ledger init --db`"),
    ):
        code, out, err = outcome(capsys, *words)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1
    assert not (tmp_path / "new.db").exists()
