"""The shares of an adaptive run add up to its charge exactly, whatever happens in between."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given

from qcompile.adaptive.spending import RoundBudget, Spending
from qcompile.errors import InternalError

HOSTILE = [
    Fraction(1),
    Fraction(1, 49),
    Fraction(10**40 + 7, 3**70),
    Fraction(0.1),
    Fraction(1, 10**99),
    Fraction(10**12),
]


def spend(spending: Spending, ones: int, growths: list[bool]) -> tuple[list[Fraction], list[RoundBudget]]:
    """All shares of a run that grows when it is told to."""
    first = [spending.initial() for _ in range(ones)]
    rounds = []
    while spending.left > 0:
        rounds.append(spending.next_round())
        if growths and growths[len(rounds) % len(growths)]:
            spending.grow()
    return first, rounds


@pytest.mark.parametrize("charge", HOSTILE, ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 100, 999, 1000])
@pytest.mark.parametrize("growths", [[False], [True], [False, False, True]], ids=str)
def test_shares_add_up_to_the_charge(charge: Fraction, rounds: int, growths: list[bool]) -> None:
    spending = Spending(charge, 20, rounds)
    first, shares = spend(spending, 5, growths)
    assert sum(first) + sum(s.selection + s.measurement for s in shares) == charge
    assert all(s.selection == (s.selection + s.measurement) / 10 for s in shares)
    assert [s.last for s in shares] == [False] * (len(shares) - 1) + [True]
    if not any(growths):
        assert 0.7 * rounds - 2 <= len(shares) <= max(1, rounds)


@given(
    st.fractions(Fraction(1, 10**30), Fraction(10**6)), st.integers(1, 300), st.integers(0, 1), st.lists(st.booleans())
)
def test_shares_add_up_for_any_fractions(charge: Fraction, nodes: int, every: int, growths: list[bool]) -> None:
    spending = Spending(charge, nodes)
    first, shares = spend(spending, every * nodes, growths)
    assert sum(first) + sum(s.selection + s.measurement for s in shares) == charge
    assert min([*first, *(s.selection for s in shares)]) > 0


def test_rounds_begin_at_an_equal_part_and_grow_fourfold() -> None:
    spending = Spending(Fraction(1), 10)
    one = spending.next_round()
    spending.grow()
    two = spending.next_round()
    assert one.selection + one.measurement == Fraction(1, 20)
    assert two.selection + two.measurement == Fraction(4, 20)


def test_the_last_round_takes_what_two_would() -> None:
    spending = Spending(Fraction(1), 1, rounds=3)
    assert [s.selection + s.measurement for s in (spending.next_round(), spending.next_round())] == [
        Fraction(1, 3),
        Fraction(2, 3),
    ]
    assert spending.left == 0
    with pytest.raises(InternalError):
        spending.next_round()


def test_a_draw_may_not_cost_more_than_its_share() -> None:
    spending = Spending(Fraction(1), 10)
    share = spending.next_round()
    spending.reserve(share.selection, share.selection)
    with pytest.raises(InternalError, match="its share"):
        spending.reserve(share.measurement + Fraction(1, 10**30), share.measurement)


def test_draws_may_not_cost_more_than_was_shared_out() -> None:
    """A share that is used twice is noticed, although each draw by itself is within it."""
    spending = Spending(Fraction(1), 10)
    share = spending.next_round()
    spending.reserve(share.measurement, share.measurement)
    with pytest.raises(InternalError, match="its share"):
        spending.reserve(share.measurement, share.measurement)
