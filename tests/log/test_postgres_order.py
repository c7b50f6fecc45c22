"""Positions are in the order of commits on PostgreSQL: who reads `position > last` misses nothing, however late."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from postgres_server import Server, new_place, text_of

from ledger.accounts.catchup import snapshot
from ledger.errors import LogReadOnly, LogUnavailable
from ledger.events.envelope import Event, NewEvent
from ledger.events.sources import SourceOpened
from ledger.ids import new_id
from ledger.log import postgres
from ledger.log.location import PostgresPlace, resolve
from ledger.log.log import Log, StreamAppend
from ledger.log.postgres_init import init
from ledger.log.postgres_log import PostgresLog

MakeEvent = Callable[..., NewEvent]
BY_HAND = "SELECT append_events('0.1.0', 'by hand', %s::json, %s, %s::json, NULL, NULL, NULL, NULL, NULL, NULL)"


def raw(place: PostgresPlace) -> Any:
    """Open the driver's own connection with the log's schema as its path; transactions are its caller's."""
    return psycopg.connect(place.url, options=f"-c search_path={place.schema}")


def appended_by_hand(connection: Any, stream: str) -> None:
    """Append one event to a new stream, in the transaction at hand, which stays open."""
    event_id = stream.encode().hex().ljust(32, "0")[:32]
    parts = f'[{{"stream": "{stream}", "expected": 0, "count": 1}}]'
    event = f'[{{"id": "{event_id}", "type": "source.truncated", "schema": 1, "data": "{{}}"}}]'
    connection.execute(BY_HAND, (parts, event_id, event))


def opened() -> NewEvent:
    """Return the first event of a file, without which the fold takes no other."""
    return NewEvent(body=SourceOpened("claude-code", "/a", "/"), event_id=new_id())


class Tail(threading.Thread):
    """Reads what is beyond the last position again and again, in a thread, until it is told to stop."""

    def __init__(self, place: PostgresPlace) -> None:
        super().__init__()
        self.place, self.seen, self.ending = place, list[Event](), threading.Event()
        self.start()

    def run(self) -> None:
        last = 0
        with Log.open(self.place, readonly=True) as log:
            while True:
                ending = self.ending.is_set()
                page = log.events_after(last, 7)
                self.seen += page
                last = page[-1].position if page else last
                if ending and not page:
                    return

    def all_seen(self) -> list[Event]:
        """Stop when everything is read; return it."""
        self.ending.set()
        self.join()
        return self.seen


def test_a_slow_transaction_is_not_missed(pg_log: PostgresLog, event: MakeEvent) -> None:
    """A transaction appends and is held open while others queue; the tail sees all, once, in the order of commits."""
    pg_log.append([StreamAppend("first", 0, [event(1)])])
    tail = Tail(pg_log.place)

    def append(number: int) -> None:
        with Log.open(pg_log.place) as log:
            log.append([StreamAppend(f"queued:{number}", 0, [event(number)])])

    with raw(pg_log.place) as slow, ThreadPoolExecutor(4) as pool:
        appended_by_hand(slow, "slow")
        queued = [pool.submit(append, number) for number in range(4)]
        time.sleep(0.3)
        assert not any(one.done() for one in queued)  # they wait for the place of the slow one
        assert [one.stream_id for one in tail.seen] == ["first"]
        slow.commit()
        for one in queued:
            one.result()
    seen = tail.all_seen()
    assert [one.position for one in seen] == [1, 2, 3, 4, 5, 6]
    assert [one.stream_id for one in seen[:2]] == ["first", "slow"]
    assert {one.stream_id for one in seen[2:]} == {f"queued:{number}" for number in range(4)}


def test_a_slow_transaction_that_is_rolled_back_leaves_no_gap(pg_log: PostgresLog, event: MakeEvent) -> None:
    """Its positions are given to whoever comes next."""
    with raw(pg_log.place) as slow:
        appended_by_hand(slow, "gone")
        slow.rollback()
    pg_log.append([StreamAppend("a", 0, [event(1)])])
    assert [(one.position, one.stream_id) for one in pg_log.all_events()] == [(1, "a")]


def test_without_the_lock_a_late_commit_is_missed(pg_log: PostgresLog) -> None:
    """The danger is there: a table whose positions come from a sequence loses a late commit for a tailing reader."""
    with raw(pg_log.place) as slow, raw(pg_log.place) as quick, raw(pg_log.place) as reader:
        quick.execute("CREATE TABLE plain (position bigserial PRIMARY KEY, who text)")
        quick.commit()
        slow.execute("INSERT INTO plain (who) VALUES ('slow')")
        quick.execute("INSERT INTO plain (who) VALUES ('quick')")
        quick.commit()
        first = reader.execute("SELECT position, who FROM plain WHERE position > 0").fetchall()
        reader.commit()
        slow.commit()
        later = reader.execute("SELECT position, who FROM plain WHERE position > %s", (first[-1][0],)).fetchall()
        assert [who for _, who in first + later] == ["quick"]  # "slow" is never seen
        assert reader.execute("SELECT count(*) FROM plain").fetchone() == (2,)


def test_eight_writers_and_a_tail(
    pg_log: PostgresLog, child: Any, soak: Any, assert_sound: Callable[[Log], None]
) -> None:
    """Eight processes append at once; the tail misses none and sees none twice."""
    count = len(soak.rounds(25, 500))
    place = text_of(pg_log.place)
    tail = Tail(pg_log.place)
    writers = [child.start("writer", place, f"source:{number}", count) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda one: one.stdout.read(), writers))
    assert [one.wait() for one in writers] == [0] * 8
    acknowledged = {line.split()[1] for one in said for line in one.splitlines() if line.startswith("ack")}
    seen = tail.all_seen()
    assert [one.position for one in seen] == list(range(1, 8 * count + 1))
    assert {one.event_id.hex() for one in seen} == acknowledged
    assert_sound(pg_log)


def test_an_acknowledged_append_is_on_the_servers_disk(pg_log: PostgresLog, event: MakeEvent) -> None:
    """What append returned is flushed, whatever the server is set to; what is only visible will be: `settle` waits."""
    flushed = "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn"
    with raw(pg_log.place) as admin:
        admin.autocommit = True
        for setting in ("on", "off"):
            pg_log.connection.execute(f"SET synchronous_commit = {setting}")
            for number in range(20):
                before = admin.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
                pg_log.append([StreamAppend(setting, number, [event(number)])])
                assert admin.execute(flushed, (before,)).fetchone()[0]
                assert pg_log.connection.execute("SHOW synchronous_commit").fetchone()[0] == setting
        admin.execute("SET synchronous_commit = off")
        appended_by_hand(admin, "by hand")
        visible = admin.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
        pg_log.settle()
        assert admin.execute(flushed, (visible,)).fetchone()[0]


def test_a_lock_held_too_long_is_named(
    schema: PostgresPlace, event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits too long is told who holds the log, in one line; nothing was written, and later it works."""
    monkeypatch.setattr(postgres, "LOCK_TIMEOUT_S", 0.2)
    with Log.open(schema) as log, raw(schema) as slow:
        slow.execute("SET application_name = 'a slow program'")
        appended_by_hand(slow, "slow")
        process = slow.info.backend_pid
        named = rf"by a slow program \(server process {process}\) for more than 0.2 s"
        with pytest.raises(LogUnavailable, match=named) as raised:
            log.append([StreamAppend("a", 0, [event(1)])])
        assert "\n" not in str(raised.value)
        slow.rollback()
        assert log.append([StreamAppend("a", 0, [event(1)])]) == [1]


def test_two_logs_of_one_database_do_not_wait_for_each_other(
    schema: PostgresPlace, pg_log: PostgresLog, server: Server, event: MakeEvent
) -> None:
    """The lock is the log's, not the database's."""
    with raw(pg_log.place) as slow, Log.open(new_place()) as other:
        appended_by_hand(slow, "slow")
        assert other.append([StreamAppend("a", 0, [event(1)])]) == [1]
        slow.rollback()


@pytest.mark.parametrize("how", ["default_transaction_read_only", "readonly"])
def test_who_may_only_read_is_answered(pg_log: PostgresLog, event: MakeEvent, how: str) -> None:
    """A database that is set to read only, as a standby is, answers, folds in memory, and refuses to append."""
    pg_log.append([StreamAppend("a", 0, [opened()])])
    url = pg_log.place.url
    if how != "readonly":
        url += f"&options=-c%20{how}%3Don"
    with Log.open(pg_log.place._replace(url=url), readonly=how == "readonly") as log:
        assert log.readonly
        assert not log.accounts_writable
        with snapshot(log) as view:
            assert (view.position, view.folded) == (1, 1)
        with pytest.raises(LogReadOnly):
            log.append([StreamAppend("a", 1, [event(2)])])
    assert pg_log.head_position() == 1


def test_a_standby_is_read(other_server: Server, event: MakeEvent) -> None:
    """A second server that follows the first answers what it has received, folds in memory, and refuses to append."""
    place = resolve(other_server.url())
    assert isinstance(place, PostgresPlace)
    init(place)
    standby = Server(other_server.folder, other_server.data.name + "-standby")
    with Log.open(place) as log:
        log.append([StreamAppend("a", 0, [opened()])])
        words = ("-h", other_server.data, "-U", "postgres", "-D", standby.data, "-R", "-X", "stream", "-c", "fast")
        standby.data.mkdir(0o700)
        shutil.chown(standby.data, other_server.data.stat().st_uid)
        other_server.run("pg_basebackup", *words)
        for left in standby.data.glob(".s.PGSQL.*"):  # the first one's socket, which is in its folder
            left.unlink()
        standby.start()
        try:
            log.append([StreamAppend("a", 1, [event(2)])])
            with Log.open(resolve(standby.url())) as copy:
                deadline = time.monotonic() + 30
                while copy.head_position() < 2 and time.monotonic() < deadline:
                    time.sleep(0.02)
                assert copy.readonly
                copy.settle()
                with snapshot(copy) as view:
                    assert (view.position, view.folded) == (2, 2)
                with pytest.raises(LogReadOnly):
                    copy.append([StreamAppend("a", 2, [event(3)])])
        finally:
            standby.stop()
            shutil.rmtree(standby.data, ignore_errors=True)
