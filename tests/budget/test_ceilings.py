"""The ceilings, one by one, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.budget.bound import Bound
from ledger.budget.ceilings import Refusal, limits_money, of_month, refusal
from ledger.budget.hub import (
    GRANT_AGAIN,
    NO_GRANT,
    NOT_RESERVED,
    OTHER_GRANT,
    RESERVED_AGAIN,
    SETTLED_AGAIN,
    Elsewhere,
    HubState,
)
from ledger.errors import EventMissing
from ledger.events.envelope import Event
from ledger.events.hubs import GrantOpened, Limits, MonthObserved, ReservationMade, ReservationSettled

CENT, SECOND, OPENED = 10**7, 1_000_000, 5_000_000


def event(span: str | None, at: int = OPENED) -> Event:
    return Event(1, b"", "s", "hub:s", 1, "", 1, at, "", None, None, span, "", None, b"")


def hub(limits: Limits, *bodies: tuple[str, Any]) -> HubState:
    """The state of a hub with one grant and these events."""
    state = HubState()
    assert state.apply(event(None), GrantOpened("g", limits)) == ""
    for span, body in bodies:
        assert state.apply(event(span), body) == ""
    return state


SPENT = [
    ("a", ReservationMade("g", 100, 60 * CENT)),
    ("a", ReservationSettled("g", 80, 50 * CENT)),
    ("b", ReservationMade("g", 40, 40 * CENT)),
]
"""50 cents and 80 tokens spent, 40 cents and 40 tokens reserved, one of two requests open."""


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(cost_nanousd=100 * CENT), Refusal("cost", 50 * CENT, 40 * CENT, 20 * CENT, 100 * CENT, 0, "cost")),
        (Limits(cost_nanousd=110 * CENT), None),
        (Limits(session_cost_nanousd=100 * CENT),
         Refusal("session_cost", 50 * CENT, 40 * CENT, 20 * CENT, 100 * CENT, 0, "session_cost")),
        (Limits(month_cost_nanousd=100 * CENT),
         Refusal("month_cost", 97 * CENT, CENT, 20 * CENT, 100 * CENT, 3, "month_cost")),
        (Limits(tokens=129), Refusal("tokens", 80, 40, 10, 129, 0, "tokens")),
        (Limits(tokens=130), None),
        (Limits(requests=2), Refusal("requests", 1, 1, 1, 2, 0, "requests")),
        (Limits(requests=3), None),
        (Limits(wall_us=9 * SECOND), Refusal("wall", 9 * SECOND, 0, 0, 9 * SECOND, 0, "wall")),
        (Limits(wall_us=9 * SECOND + 1), None),
        (Limits(), None),
    ],
)  # fmt: skip
def test_each_ceiling_says_spent_reserved_wanted_and_limit(limits: Limits, expected: Refusal | None) -> None:
    """LOOP-27: what a turn that ends with budget_exhausted was told."""
    month = HubState()
    month.apply(event("x"), ReservationMade("other", 1, CENT))
    month.apply(event(None), MonthObserved(97 * CENT, 3))
    spent = of_month(month, month.elsewhere)
    assert refusal(hub(limits, *SPENT), "g", Bound(10, 20 * CENT), OPENED + 9 * SECOND, spent) == expected


def test_a_refusal_reads_as_one_line() -> None:
    """Figures as people write them, and the next step."""
    texts = {
        Refusal("cost", 90 * CENT, 5 * CENT, 8 * CENT, 100 * CENT, 0, "cost").text: (
            "the cost of this turn is limited to 1.00 USD: 0.90 USD spent, 0.05 USD reserved, this request may take "
            "0.08 USD: raise the limit to go on"
        ),
        Refusal("price_unknown", 1, 0, None, 10**12, 2, "month_cost").text: (
            "the cost of this month is limited to 1,000.00 USD, and the price of this request is not known "
            "(0.000000001 USD spent (and 2 requests of unknown cost), 0.00 USD reserved): state it with "
            "`ledger prices set`"
        ),
        Refusal("tokens", 8000, 40, 10, 8049, 0, "tokens").text: (
            "tokens of this turn are limited to 8,049: 8,000 spent, 40 reserved, this request may take 10: raise the "
            "limit to go on"
        ),
        Refusal("wall", 9 * SECOND, 0, 0, 9 * SECOND, 0, "wall").text: (
            "the time of this turn is limited to 9 s, and 9 s have passed: raise the limit to go on"
        ),
    }
    for text, expected in texts.items():
        assert text == expected


@pytest.mark.parametrize("money", ["cost_nanousd", "session_cost_nanousd", "month_cost_nanousd"])
def test_an_unknown_price_is_refused_where_money_is_limited(money: str) -> None:
    """OBS-51: the policy is explicit; without a limit of money there is nothing to refuse."""
    limited = Limits(**{money: 100 * CENT})  # type: ignore[arg-type]
    warned = Limits(**{money: 100 * CENT}, unknown_price="warn")
    unpriced = Bound(10, None)
    refused = refusal(hub(limited), "g", unpriced, OPENED)
    assert refused == Refusal("price_unknown", 0, 0, None, 100 * CENT, 0, money.removesuffix("_nanousd"))
    assert refusal(hub(warned), "g", unpriced, OPENED) is None
    assert refusal(hub(Limits(tokens=10)), "g", unpriced, OPENED) is None
    assert (limits_money(limited), limits_money(warned), limits_money(Limits(tokens=10))) == (True, True, False)


def test_with_a_warning_nothing_leaves_where_nothing_is_left() -> None:
    """A request of unknown price takes at least something: at the limit it is refused even under `warn`."""
    made = ("a", ReservationMade("g", 1, 100 * CENT))
    state = hub(Limits(cost_nanousd=100 * CENT, unknown_price="warn"), made)
    refused = refusal(state, "g", Bound(10, None), OPENED)
    assert refused is not None and refused.code == "cost" and "an unknown sum" in refused.text


def test_what_is_unknown_keeps_its_reservation_and_what_is_more_is_an_overrun() -> None:
    """OBS-49: a lost request counts as it was set aside; one that took more than that is shown, and counts in full."""
    state = hub(
        Limits(cost_nanousd=100 * CENT),
        ("a", ReservationMade("g", 10, 10 * CENT)),
        ("a", ReservationSettled("g", None, None)),
        ("b", ReservationMade("g", 10, 10 * CENT)),
        ("b", ReservationSettled("g", 12, 13 * CENT)),
        ("c", ReservationMade("g", 10, None)),
        ("d", ReservationMade("g", 10, None)),
        ("d", ReservationSettled("g", 5, 2 * CENT)),
        ("e", ReservationMade("g", 10, 10 * CENT)),
        ("e", ReservationSettled("g", 6, None)),
    )
    tally = state.grants["g"].tally
    assert tally == state.total
    assert (tally.requests, tally.open, tally.kept, tally.unpriced) == (5, 1, 2, 1)
    assert (tally.spent_tokens, tally.reserved_tokens, tally.overrun_tokens) == (12 + 5 + 6, 10 + 10, 2)
    assert (tally.spent_nanousd, tally.reserved_nanousd) == (15 * CENT, 20 * CENT)
    assert tally.overrun_nanousd == 3 * CENT + 2 * CENT


def test_a_new_grant_begins_at_nothing_and_the_session_does_not() -> None:
    """A new prompt is a new grant; the session's own limit counts over all of them."""
    state = hub(Limits(cost_nanousd=100 * CENT), *SPENT)
    state.apply(event(None), GrantOpened("h", Limits(cost_nanousd=100 * CENT, session_cost_nanousd=150 * CENT)))
    assert refusal(state, "h", Bound(1, 60 * CENT), OPENED) is None
    refused = refusal(state, "h", Bound(1, 70 * CENT), OPENED)
    assert refused is not None and (refused.code, refused.spent, refused.reserved) == (
        "session_cost", 50 * CENT, 40 * CENT,
    )  # fmt: skip


def test_events_that_do_not_fit_are_named_and_change_nothing() -> None:
    """The fold is total: what cannot be is said, and the first of two counts."""
    state = hub(Limits(), *SPENT)
    before = (state.total.requests, state.total.spent_nanousd, state.total.reserved_nanousd)
    wrong = [
        (None, GrantOpened("g", Limits()), GRANT_AGAIN),
        ("a", ReservationMade("g", 1, 1), RESERVED_AGAIN),
        ("b", ReservationMade("g", 1, 1), RESERVED_AGAIN),
        ("a", ReservationSettled("g", 1, 1), SETTLED_AGAIN),
        ("z", ReservationSettled("g", 1, 1), NOT_RESERVED),
        ("b", ReservationSettled("other", 1, 1), OTHER_GRANT),
    ]
    for span, body, expected in wrong:
        assert state.apply(event(span), body) == expected
    assert (state.total.requests, state.total.spent_nanousd, state.total.reserved_nanousd) == before
    assert state.apply(event("y"), ReservationMade("unopened", 1, CENT)) == NO_GRANT
    assert state.total.requests == 3


def test_a_grant_that_is_not_open_is_an_error() -> None:
    """Nothing is reserved of a grant that nobody opened."""
    with pytest.raises(EventMissing, match="ledger verify"):
        refusal(HubState(), "g", Bound(1, 1), OPENED)


def test_what_a_month_cost_elsewhere_is_what_was_observed_last() -> None:
    """The newest observation counts."""
    state = HubState()
    state.apply(event(None, 1), MonthObserved(CENT))
    state.apply(event(None, 2), MonthObserved(3 * CENT, 1))
    assert state.elsewhere == Elsewhere(3 * CENT, 1, 2)
