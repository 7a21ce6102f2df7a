"""The division of the budget: the optimum in real numbers, exact costs in a run."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from qcompile.api import compile
from qcompile.errors import BudgetError, InternalError
from qcompile.plan import allocation
from qcompile.plan.allocation import (
    GAP,
    check_cost,
    check_joint_cost,
    exact_scales,
    joint_error,
    least_precisions,
    root_total,
    unit_variances,
)
from qcompile.privacy.noise.scale import PUBLIC, Scale
from qcompile.queries.factors import Marginal
from qcompile.support.arrays import Array
from tests.conformance.helpers import family, integers, workload

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


def drawn_sums(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    sums = rng.random((int(rng.integers(1, 12)), int(rng.integers(1, 6)))) ** 3 * (rng.random() < 0.7)
    sums[rng.random(sums.shape) < 0.3] = 0.0
    return np.asarray(rng.random(sums.shape[1]) * 10 + 0.1), sums


@pytest.mark.parametrize("seed", range(30))
def test_precisions_of_joint_costs_are_the_least_error(seed: int) -> None:
    """Against the weights that prove it: no division has an error below that of all sums together, weighted."""
    losses, sums = drawn_sums(seed)
    x, weights = least_precisions(losses, sums)
    noisy = sums.any(axis=0)
    assert ((x > 0) == noisy).all()
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    if not noisy.any():
        assert joint_error(losses, x, sums) == 0
        return
    assert (sums @ x).max() == pytest.approx(1)
    bound = float(np.sqrt(losses * (weights @ sums)).sum()) ** 2
    assert bound <= joint_error(losses, x, sums) * (1 + 1e-12)
    assert joint_error(losses, x, sums) <= bound * (1 + GAP)
    rng = np.random.default_rng(seed)
    for _ in range(200):
        other = np.where(noisy, x * np.exp(rng.normal(size=len(x)) * 0.1), 0.0)
        assert joint_error(losses, other, sums) >= bound * (1 - 1e-12)


def test_little_work_leaves_a_valid_division(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "MOST_WORK", 0.0)
    losses, sums = np.ones(3), np.eye(3) + 0.1
    x, _ = least_precisions(losses, sums)
    assert (sums @ x).max() == pytest.approx(1)


JOINT = compile(
    workload(integers(2, 3, 2), family(*map(Marginal, integers(2, 3, 2)), choose=(0, 2), name="m")),
    neighbours="replace-one",
)


@pytest.mark.parametrize("charge", [Fraction(1, 3), Fraction(10) ** -9, Fraction(10) ** 7])
def test_joint_scales_spend_the_charge(charge: Fraction) -> None:
    scales = JOINT.scales(charge)
    assert JOINT.joint is not None
    assert scales[0] == PUBLIC
    cost = JOINT.joint.largest([1 / Fraction(s.sigma) ** 2 if s.sigma else Fraction(0) for s in scales])
    assert 2 * charge * (1 - Fraction(1, 10**11)) <= cost <= 2 * charge
    for s, strategy in zip(scales[1:], JOINT.strategies[1:], strict=True):
        assert s.cost == JOINT.unit.sensitivity_squared(strategy) / Fraction(s.sigma) ** 2
    alone = JOINT.scales(charge, jointly=False)
    assert sum(s.cost * int(m) for s, m in zip(alone, JOINT.closure.members, strict=True)) <= 2 * charge
    assert all(s.sigma < t.sigma for s, t in zip(scales[1:], alone[1:], strict=True))


@pytest.mark.parametrize("factor", [1 - 1e-8, 1 + 1e-8])
def test_joint_scales_that_do_not_cost_the_charge_are_an_internal_error(factor: float) -> None:
    scales = [replace(s, sigma=s.sigma * factor) for s in JOINT.scales(Fraction(1))]
    assert JOINT.joint is not None
    with pytest.raises(InternalError, match="its budget is 2"):
        check_joint_cost(scales, JOINT.joint, 1, Fraction(1))
