"""The division of the budget: the optimum in real numbers, exact costs in a run."""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from qcompile.errors import BudgetError, InternalError
from qcompile.plan.allocation import check_cost, exact_scales, root_total, unit_variances
from qcompile.privacy.noise.scale import PUBLIC, Scale

losses = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6)
charges = st.fractions(Fraction(1, 10**6), 1000, max_denominator=10**6)


@given(losses, st.data())
def test_the_division_is_the_optimum_for_cost_1(loss: list[float], data: st.DataObject) -> None:
    """sum m c / sigma^2 = 1, total error (sum m sqrt(c L))^2, and no other division of cost 1 has less."""
    squares = np.array(data.draw(st.lists(st.floats(0.5, 4), min_size=len(loss), max_size=len(loss))))
    members = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(loss), max_size=len(loss))))
    found, values = unit_variances(np.array(loss), members, squares), np.array(loss)
    assert (members * squares / found).sum() == pytest.approx(1, rel=1e-12)
    best = (members * found * values).sum()
    assert best == pytest.approx(root_total(values * squares, members) ** 2, rel=1e-12)
    other = 1 + 0.5 * np.sin(np.arange(len(loss)) + 1)
    other *= (members * squares / found / other).sum()
    assert (members * found * other * values).sum() >= best * (1 - 1e-12)


@given(losses, charges, st.data())
def test_a_run_spends_its_charge_and_never_more(loss: list[float], charge: Fraction, data: st.DataObject) -> None:
    size = len(loss)
    members = data.draw(st.lists(st.integers(1, 10**4), min_size=size, max_size=size))
    squares = data.draw(st.lists(st.fractions(Fraction(1, 2), 2), min_size=size, max_size=size))
    scales = exact_scales(loss, members, squares, charge)
    total = sum(m * Fraction(s) / Fraction(x.sigma) ** 2 for m, s, x in zip(members, squares, scales, strict=True))
    assert 2 * charge * (1 - Fraction(1, 10**9)) <= total <= 2 * charge
    roots = [math.sqrt(v * s) for v, s in zip(loss, squares, strict=True)]
    for x, s, r in zip(scales, squares, roots, strict=True):
        assert x.cost == Fraction(s) / Fraction(x.sigma) ** 2
        share = r / sum(m * q for m, q in zip(members, roots, strict=True))
        assert float(x.cost) == pytest.approx(float(2 * charge) * share, rel=1e-9)
        assert x.grid == 2.0 ** math.floor(math.log2(x.sigma) - 8)
        assert x.variance == pytest.approx(x.sigma**2 * (1 + (x.grid / x.sigma) ** 2 / 12), rel=1e-15)


def test_public_nodes_cost_nothing_and_have_no_noise() -> None:
    scales = exact_scales([2.0, 3.0], [1, 2], [Fraction(0), Fraction(1)], Fraction(1))
    assert scales[0] == PUBLIC
    assert scales[0].variance == 0
    assert float(scales[1].cost) == pytest.approx(1)
    with pytest.raises(BudgetError, match="publish them without a budget"):
        exact_scales([2.0], [1], [Fraction(0)], Fraction(1))


def test_a_cost_that_does_not_match_the_charge_stops_the_run() -> None:
    for beta in (Fraction(1), Fraction(1) - Fraction(1, 10**10)):
        check_cost([Scale(1.0, 2.0**-8, beta)], [1], Fraction(1, 2))
    for beta in (Fraction(1) + Fraction(1, 10**30), Fraction(1) - Fraction(1, 10**8)):
        with pytest.raises(InternalError, match="the plan costs"):
            check_cost([Scale(1.0, 2.0**-8, beta)], [1], Fraction(1, 2))
    with pytest.raises(InternalError, match="the plan costs"):
        check_cost([Scale(1.0, 2.0**-8, Fraction(1))], [2], Fraction(1, 2))
