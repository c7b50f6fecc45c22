"""Ceilings through the command line: what may leave, what is refused, and what is said about it."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from agent_process import PRICED, Home, Ran, chat, served

from agent.rehearsal.server import Rehearsal
from ledger.events import runs
from ledger.events.hubs import ReservationMade, ReservationSettled
from ledger.events.registry import decode
from ledger.log.log import Log

LOOK = 'calls = [{ tool = "list_dir", arguments = {} }]'
FOREVER = f"{LOOK}\nrepeat = true"
ANSWER = 'text = "Done."'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of its own."""
    return Home(tmp_path)


def priced(rehearsal: Rehearsal, *words: str) -> list[str]:
    """Return the options of a run that asks a rehearsal under the name of a model whose price is known."""
    base = ["--model", PRICED, "--base-url", rehearsal.base_url, "--retry-base-ms", "1", "--output-format", "json"]
    return [*base, *words]


def exhausted(ran: Ran, reason: str) -> str:
    """Return what is said where a ceiling ended a run."""
    result = ran.result
    assert (ran.code, result["outcome"], result["reason"]) == (1, "budget_exhausted", reason), result
    assert result["error"] in ran.err.splitlines()[-1]
    return str(result["error"])


def limits(rehearsal: Rehearsal) -> list[int]:
    """Return the output limits that were asked for."""
    return [one.body["max_tokens"] for one in rehearsal.requests]


def test_a_limit_of_requests_counts_every_attempt(home: Home) -> None:
    """Item 4: retries count; the refusal says what was used and what the limit is."""
    with served(f"{LOOK}\nfaults = [{{ status = 503 }}]", FOREVER) as rehearsal:
        said = exhausted(home.run("hi", *priced(rehearsal, "--max-requests", "3")), "requests")
        assert len(rehearsal.requests) == 3
    assert said == "requests of this turn are limited to 3: 3 spent, 0 reserved, this request may take 1: " + (
        "raise the limit to go on"
    )
    home.check()


def test_a_limit_of_tokens(home: Home) -> None:
    """No request leaves that could use more than is left; what was used stays below the limit."""
    with served(FOREVER) as rehearsal:
        ran = home.run("hi", *priced(rehearsal, "--max-tokens", "30000"))
        assert rehearsal.requests
    assert "tokens of this turn are limited to 30,000: " in exhausted(ran, "tokens")
    assert 0 < ran.result["usage"]["total_tokens"] <= 30_000
    home.check()


def test_a_long_answer_is_asked_for_where_there_is_room(home: Home) -> None:
    """The output limit shrinks to what a ceiling has room for: 32,000, then less, then nothing leaves."""
    found = {}
    for cost in ("10", "0.40", "0.20", "0.11", "0.02"):
        with served(ANSWER) as rehearsal:
            ran = home.run("hi", *priced(rehearsal, "--max-cost", cost))
            found[cost] = limits(rehearsal)
            if not found[cost]:
                said = exhausted(ran, "cost")
                assert said.startswith(
                    "the cost of this turn is limited to 0.02 USD: 0.00 USD spent, 0.00 USD reserved"
                )
    assert [asked[0] if asked else 0 for asked in found.values()] == sorted(
        (asked[0] if asked else 0 for asked in found.values()), reverse=True
    )
    assert (found["10"], found["0.02"]) == ([32_000], [])
    assert found["0.40"] == [16_000] and found["0.20"] == [8_000]
    home.check()


def test_a_limit_of_what_a_turn_costs(home: Home) -> None:
    """What it cost stays below the limit; the next turn has a limit of its own, the session's goes on."""
    with served("usage = { input = 20000, output = 1000 }\n" + LOOK + "\nrepeat = true") as rehearsal:
        ran = home.run("hi", *priced(rehearsal, "--max-cost", "0.30"))
        said = exhausted(ran, "cost")
        sent = len(rehearsal.requests)
        assert sent >= 2
        assert 0 < ran.result["cost_usd"] <= 0.30
        assert "the cost of this turn is limited to 0.30 USD: 0.1" in said
        again = home.run("-c", *priced(rehearsal, "--max-cost", "0.30"))
        exhausted(again, "cost")
        assert len(rehearsal.requests) > sent
        spent = again.result["cost_usd"]
        last = home.run("-c", *priced(rehearsal, "--max-session-cost", str(round(spent, 2))))
        exhausted(last, "session_cost")
        assert last.result["cost_usd"] == spent
    home.check()


def test_an_unknown_price(home: Home) -> None:
    """Refused before anything leaves; with warn it goes, and says so; --max-tokens holds all the same."""
    with served(ANSWER) as rehearsal:
        words = [*chat(rehearsal.base_url_of("openai-chat")), "--output-format", "json", "--max-cost", "1"]
        said = exhausted(home.run("hi", *words), "price_unknown")
        assert "the price of this request is not known" in said and "state it with `ledger prices set`" in said
        assert rehearsal.requests == []
        ran = home.run("hi", *words, "--unknown-price", "warn")
        assert (ran.code, ran.result["cost_usd"]) == (0, None)
        assert "agent: the price of 127.0.0.1/rehearsed-1 is not known: no limit of money holds it\n" in ran.err
        exhausted(home.run("hi", *words, "--unknown-price", "warn", "--max-tokens", "100"), "tokens")
        set_ = ["prices", "set", "rehearsed-1", "--provider", "127.0.0.1", "--input", "1", "--output", "2"]
        stated = subprocess.run(
            [*home.words("run")[:3], "ledger", *set_, "--db", str(home.db)], env=home.environment, check=False
        )
        assert stated.returncode == 0
        known = home.run("hi", *words)
        assert (known.code, known.result["outcome"]) == (0, "ok")
    home.check()


def test_the_time_of_a_turn(home: Home) -> None:
    """--max-seconds stops what runs, and says so; the request has its row."""
    with served('text = "slow"\ndelay_ms = 30000') as rehearsal:
        said = exhausted(home.run("hi", *priced(rehearsal, "--max-seconds", "1")), "wall")
    assert said == "the time of this turn is limited to 1 s, and is over: raise the limit to go on"
    assert [one.reason for one in home.bodies(runs.RequestEnd)] == ["deadline"]
    home.check()


def test_four_processes_share_the_limit_of_a_month(home: Home) -> None:
    """Item 4: four that each see room for one cannot all pass; the month is never overdrawn, and the rest is told."""
    answer = 'text = "Done."\nusage = { input = 10, output = 10 }\n'
    with served(answer) as quick, served(f"{answer}delay_ms = 5000") as rehearsal:
        assert home.run("hi", *priced(quick)).code == 0
        (most,) = (one.cost_nanousd or 0 for one in hub_bodies(home, ReservationMade))
        least = most - 30_000 * 15_000  # the bound of an answer of 2,000 tokens, at 15 USD a million
        words = priced(rehearsal, "--max-month-cost", str(least * 5 // 2 / 1e9))
        with ThreadPoolExecutor(4) as threads:
            ran = list(threads.map(lambda number: home.run(f"hi {number}", *words), range(4)))
        sent = len(rehearsal.requests)
    outcomes = [one.result["outcome"] for one in ran]
    assert set(outcomes) == {"ok", "budget_exhausted"}
    assert sent == outcomes.count("ok")
    refused = [one for one in ran if one.code]
    assert all("the cost of this month is limited to" in exhausted(one, "month_cost") for one in refused)
    assert any(" USD spent, 0.00 USD reserved" not in one.result["error"] for one in refused)
    home.check()


def hub_bodies(home: Home, kind: type) -> list[ReservationMade | ReservationSettled]:
    """Return the events of hubs of a kind."""
    with Log.open(home.db) as log:
        events = [event for event in log.all_events() if event.stream_id.startswith("hub:")]
    found = [decode(event.type, event.schema, event.data) for event in events]
    return [one for one in found if isinstance(one, kind)]
