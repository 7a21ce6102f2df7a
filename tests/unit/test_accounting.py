"""Conversions, against the definitions evaluated to many digits by mpmath; scales and grids, exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.errors import BudgetError
from qcompile.privacy import accounting

EPSILONS = ["1e-6", "1e-3", "0.1", "1", "5", "20", "1000"]
DELTAS = ["1e-18", "1e-9", "1e-5", "0.1"]
CLOSE = Fraction(1, 10**9)


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def real(value: Fraction | str) -> Any:
    fraction = Fraction(value)
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def zcdp_delta(rho: Fraction, epsilon: Fraction | str) -> Any:
    """The infimum of the bound, as its authors wrote it, by ternary search over the logarithm of alpha - 1."""
    r, e = real(rho), real(epsilon)

    def log_bound(x: Any) -> Any:
        order = mpmath.exp(x)
        alpha = 1 + order
        return order * (alpha * r - e) - x + alpha * mpmath.log(1 - 1 / alpha)

    low, high = mpmath.mpf(-40), mpmath.mpf(60)
    while high - low > mpmath.mpf(10) ** -18:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if log_bound(left) < log_bound(right) else (left, high)
    return mpmath.exp(log_bound(low))


def gaussian_delta(cost: Fraction, epsilon: Fraction | str) -> Any:
    root, e = mpmath.sqrt(real(cost)), real(epsilon)
    return mpmath.ncdf(root / 2 - e / root) - mpmath.exp(e) * mpmath.ncdf(-root / 2 - e / root)


def test_published_values() -> None:
    assert float(accounting.rho_from_epsilon(1, 1e-9)) == pytest.approx(0.0149731, abs=5e-8)
    assert float(accounting.cost_from_epsilon(1, 1e-9)) / 2 == pytest.approx(0.016557, abs=5e-7)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_zcdp_budget_is_the_largest_allowed(epsilon: str, delta: str) -> None:
    rho = accounting.rho_from_epsilon(epsilon, delta)
    assert zcdp_delta(rho, epsilon) <= real(delta)
    assert zcdp_delta(rho * (1 + CLOSE), epsilon) > real(delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_cost_is_the_largest_allowed(epsilon: str, delta: str) -> None:
    cost = accounting.cost_from_epsilon(epsilon, delta)
    assert gaussian_delta(cost, epsilon) <= real(delta)
    assert gaussian_delta(cost * (1 + CLOSE), epsilon) > real(delta)
    assert cost > 2 * accounting.rho_from_epsilon(epsilon, delta)


@pytest.mark.parametrize("rho", ["1e-9", "1/49", "0.5", "3", "100"])
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilons_are_the_smallest_that_hold(rho: str, delta: str) -> None:
    r = Fraction(rho)
    epsilon, exact = accounting.epsilon_from_rho(r, delta), accounting.epsilon_from_cost(2 * r, delta)
    assert exact <= epsilon
    for value, true_delta, parameter in ((epsilon, zcdp_delta, r), (exact, gaussian_delta, 2 * r)):
        if value == 0:
            assert true_delta(parameter, Fraction(0)) <= real(delta)
        else:
            assert true_delta(parameter, value) <= real(delta)
            assert true_delta(parameter, value * (1 - CLOSE)) > real(delta)


@pytest.mark.parametrize(
    ("rho", "epsilon"), [("1/49", "1"), ("0.5", "0.01"), ("3", "20"), ("1e-9", "1e-3"), ("50", "1")]
)
def test_delta_of_zcdp(rho: str, epsilon: str) -> None:
    found = accounting.delta_from_rho(rho, epsilon)
    reference = zcdp_delta(Fraction(rho), epsilon)
    assert min(1, reference) <= real(found) <= min(1, reference * (1 + mpmath.mpf(10) ** -9))


@given(st.floats(-6, 3), st.floats(-18, -1), st.floats(1e-6, 1))
def test_budgets_grow_with_epsilon_and_delta(log_epsilon: float, log_delta: float, step: float) -> None:
    epsilon, delta = 10**log_epsilon, 10**log_delta
    for convert in (accounting.rho_from_epsilon, accounting.cost_from_epsilon):
        value = convert(epsilon, delta)
        assert 0 < value < convert(epsilon * (1 + step), delta)
        assert value < convert(epsilon, min(0.5, delta * (1 + step)))


@given(st.floats(-6, 3), st.floats(-18, -2))
def test_round_trips_lose_nothing_that_matters(log_epsilon: float, log_delta: float) -> None:
    epsilon, delta = 10**log_epsilon, 10**log_delta
    rho, cost = accounting.rho_from_epsilon(epsilon, delta), accounting.cost_from_epsilon(epsilon, delta)
    assert accounting.rho_from_epsilon(accounting.epsilon_from_rho(rho, delta) or epsilon, delta) >= rho * (1 - CLOSE)
    assert accounting.epsilon_from_cost(cost, delta) <= Fraction(repr(epsilon)) * (1 + CLOSE)


@pytest.mark.parametrize("delta", ["1e-100", "1e-18", "0.999999"])
@pytest.mark.parametrize("epsilon", ["1e-100", "1e9"])
def test_extreme_requests_still_hold(epsilon: str, delta: str) -> None:
    rho, cost = accounting.rho_from_epsilon(epsilon, delta), accounting.cost_from_epsilon(epsilon, delta)
    with mpmath.workdps(500):
        assert gaussian_delta(cost, epsilon) <= real(delta)
        assert gaussian_delta(2 * rho, epsilon) <= real(delta)
    assert 0 < 2 * rho < cost
    assert Fraction(float(rho)) == rho


@pytest.mark.parametrize("epsilon", ["2e9", 0, math.nan, "1e101"])
def test_impossible_epsilons_are_refused(epsilon: Any) -> None:
    for convert in (accounting.rho_from_epsilon, accounting.cost_from_epsilon):
        with pytest.raises(BudgetError, match=r"^epsilon="):
            convert(epsilon, "1e-9")


def test_conversions_feel_instant() -> None:
    start = time.process_time()
    for i in range(20):
        accounting.rho_from_epsilon(Fraction(1234 + i, 1000), "1e-9")
        accounting.cost_from_epsilon(Fraction(1234 + i, 1000), "1e-9")
    assert time.process_time() - start < 20 * 0.02
