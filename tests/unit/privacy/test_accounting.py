"""Conversions, against the definitions evaluated to 60 digits by mpmath: safe, tight, monotone, invertible, quick."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import flint
import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcompile.errors import BudgetError
from qcompile.privacy import accounting
from qcompile.privacy.ball_arithmetic import rounded_down, rounded_up

EPSILONS = ["1e-6", "3e-5", "1e-3", "0.03", "0.1", "1", "5", "20", "150", "1000"]
DELTAS = ["1e-18", "1e-13", "1e-9", "1e-5", "0.003", "0.1"]
REQUESTS = list(itertools.product(EPSILONS, DELTAS))
CLOSE = Fraction(1, 10**14)
"""Relative distance from the best possible value; a result of 53 bits leaves up to 2e-16, which is what is seen."""


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def real(value: Fraction | str) -> Any:
    fraction = Fraction(value)
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def root(rises: Callable[[Any], Any]) -> Any:
    """Where a function of ``u > 0`` changes sign from + to -, by bisection in log u to 50 digits."""
    low, high = mpmath.mpf(-80), mpmath.mpf(80)
    for _ in range(180):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(mpmath.exp(middle)) > 0 else (low, middle)
    return mpmath.exp(low)


def zcdp_rho(epsilon: Fraction | str, delta: Fraction | str) -> Any:
    """The largest rho that the bound allows: the maximum over orders ``1 + u`` of what each of them allows."""
    e, log_delta = real(epsilon), mpmath.log(real(delta))

    def top(u: Any) -> Any:
        return log_delta + mpmath.log1p(u) + u * (mpmath.log1p(1 / u) + e)

    u = root(lambda u: (mpmath.log1p(1 / u) + e) * u * (1 + u) - top(u) * (1 + 2 * u))
    return top(u) / (u * (1 + u))


def zcdp_delta(rho: Fraction, epsilon: Fraction | str) -> Any:
    """The infimum of the bound, as its authors wrote it, by ternary search over the logarithm of alpha - 1."""
    r, e = real(rho), real(epsilon)

    def log_bound(x: Any) -> Any:
        order = mpmath.exp(x)
        alpha = 1 + order
        return order * (alpha * r - e) - x + alpha * mpmath.log(1 - 1 / alpha)

    low, high = mpmath.mpf(-60), mpmath.mpf(60)
    while high - low > mpmath.mpf(10) ** -18:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if log_bound(left) < log_bound(right) else (left, high)
    return mpmath.exp(log_bound(low))


def gaussian_delta(cost: Fraction, epsilon: Fraction | str) -> Any:
    r, e = mpmath.sqrt(real(cost)), real(epsilon)
    return (
        mpmath.erfc((e / r - r / 2) / mpmath.sqrt(2)) - mpmath.exp(e) * mpmath.erfc((e / r + r / 2) / mpmath.sqrt(2))
    ) / 2


def test_published_values() -> None:
    assert float(accounting.rho_from_epsilon(1, 1e-9)) == pytest.approx(0.0149731, abs=5e-8)
    assert float(accounting.cost_from_epsilon(1, 1e-9)) / 2 == pytest.approx(0.016557, abs=5e-7)


@pytest.mark.parametrize(("epsilon", "delta"), REQUESTS)
def test_rho_is_the_largest_allowed(epsilon: str, delta: str) -> None:
    """smartnoise-sdk#462: the conversion, also beyond epsilon = 1, by an independent computation."""
    rho, best = accounting.rho_from_epsilon(epsilon, delta), zcdp_rho(epsilon, delta)
    assert best * (1 - real(CLOSE)) < real(rho) <= best


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-6", "1e-18"), ("0.1", "0.1"), ("1", "1e-9"), ("1000", "1e-5")])
def test_the_two_references_agree(epsilon: str, delta: str) -> None:
    """A maximum over rho and a minimum over delta, computed differently, are one bound."""
    best = Fraction(int(zcdp_rho(epsilon, delta) * 2**200), 2**200)
    assert abs(zcdp_delta(best, epsilon) / real(delta) - 1) < 1e-25


@pytest.mark.parametrize(("epsilon", "delta"), REQUESTS)
def test_gaussian_cost_is_the_largest_allowed(epsilon: str, delta: str) -> None:
    """smartnoise-sdk#462: the Gaussian mechanism's own curve, beyond the range of the classic formula too."""
    cost = accounting.cost_from_epsilon(epsilon, delta)
    assert gaussian_delta(cost, epsilon) <= real(delta)
    assert gaussian_delta(cost * (1 + CLOSE), epsilon) > real(delta)
    assert cost > 2 * accounting.rho_from_epsilon(epsilon, delta)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5", "20"])
def test_classic_formula_is_not_used(epsilon: str) -> None:
    """smartnoise-sdk#462: ``sigma = sqrt(2 ln(1.25/delta)) / epsilon`` is loose below epsilon 1 and wrong above."""
    e, delta = Fraction(epsilon), Fraction(1, 10**5)
    classic = e**2 / Fraction(2 * math.log(1.25 / float(delta)))
    assert gaussian_delta(accounting.cost_from_epsilon(e, delta), e) <= real(delta)
    if e > 5:
        assert gaussian_delta(classic, e) > real(delta)


@pytest.mark.parametrize("rho", ["1e-16", "1e-9", "1/49", "0.5", "3", "100", "900"])
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


@pytest.mark.parametrize("distance", ["1e-3", "1e-9", "1e-14"])
def test_epsilons_next_to_zero_keep_their_digits(distance: str) -> None:
    """A delta just below the one that needs no epsilon at all."""
    delta = accounting.delta_from_cost(1, "1e-90") * (1 - Fraction(distance))
    epsilon = accounting.epsilon_from_cost(1, delta)
    assert 0 < epsilon < 1e3 * Fraction(distance)
    assert gaussian_delta(Fraction(1), epsilon) <= real(delta)
    assert gaussian_delta(Fraction(1), epsilon * (1 - Fraction(1, 10**12))) > real(delta)


@pytest.mark.parametrize("rho", ["1e-9", "1e-4", "1/49", "0.5", "3", "50", "900"])
@pytest.mark.parametrize("epsilon", ["1e-6", "1e-3", "0.01", "1", "20", "1000"])
def test_deltas_are_the_smallest_that_hold(rho: str, epsilon: str) -> None:
    r = Fraction(rho)
    for found, reference in (
        (accounting.delta_from_rho(r, epsilon), zcdp_delta(r, epsilon)),
        (accounting.delta_from_cost(2 * r, epsilon), gaussian_delta(2 * r, epsilon)),
    ):
        if found == Fraction(1, 10**100):
            assert reference <= real(found)
        else:
            assert min(1, reference) <= real(found) <= min(1, reference * (1 + mpmath.mpf(10) ** -14))
    assert accounting.delta_from_cost(2 * r, epsilon) <= accounting.delta_from_rho(r, epsilon)


@given(st.floats(-6, 3), st.floats(-18, -1), st.floats(1e-6, 1))
def test_budgets_grow_with_epsilon_and_delta(log_epsilon: float, log_delta: float, step: float) -> None:
    epsilon, delta = 10**log_epsilon, 10**log_delta
    for convert in (accounting.rho_from_epsilon, accounting.cost_from_epsilon):
        value = convert(epsilon, delta)
        assert 0 < value < convert(epsilon * (1 + step), delta)
        assert value < convert(epsilon, min(0.5, delta * (1 + step)))


@given(st.floats(-6, 3), st.floats(-18, -1))
@settings(max_examples=15)
def test_budgets_never_fall_between_neighbouring_doubles(log_epsilon: float, log_delta: float) -> None:
    epsilon, delta = 10**log_epsilon, 10**log_delta
    for convert in (accounting.rho_from_epsilon, accounting.cost_from_epsilon):
        values = [convert(Fraction(epsilon) * (1 + Fraction(k, 2**52)), delta) for k in range(4)]
        assert values == sorted(values)
        values = [convert(epsilon, Fraction(delta) * (1 + Fraction(k, 2**52))) for k in range(4)]
        assert values == sorted(values)


@given(st.floats(-12, 3), st.floats(-18, -1), st.floats(1e-6, 1))
def test_epsilons_and_deltas_grow_with_the_budget(log_rho: float, log_delta: float, step: float) -> None:
    rho, delta, epsilon = 10**log_rho, 10**log_delta, 10 ** (log_rho / 2)
    for to_epsilon, to_delta in (
        (accounting.epsilon_from_rho, accounting.delta_from_rho),
        (accounting.epsilon_from_cost, accounting.delta_from_cost),
    ):
        low, high = to_epsilon(rho, delta), to_epsilon(rho * (1 + step), delta)
        assert low < high or low == high == 0
        assert low >= to_epsilon(rho, delta * (1 + step))
        assert to_delta(rho, epsilon) < to_delta(rho * (1 + step), epsilon) or to_delta(rho, epsilon) == 1
        assert to_delta(rho, epsilon) >= to_delta(rho, epsilon * (1 + step))


def slack(delta: float) -> Fraction:
    """Relative distance of a round trip in epsilon: near zero an epsilon is a difference of larger numbers."""
    return Fraction(1, 10**13) if delta < 1e-4 else Fraction(1, 10**8)


@given(st.floats(-6, 3), st.floats(-18, -1))
def test_round_trips_from_epsilon(log_epsilon: float, log_delta: float) -> None:
    """epsilon -> budget -> epsilon: the budget promises no less than was asked, nor noticeably more."""
    epsilon, delta = 10**log_epsilon, 10**log_delta
    exact = Fraction(repr(epsilon))
    for to_budget, to_epsilon, true_delta in (
        (accounting.rho_from_epsilon, accounting.epsilon_from_rho, zcdp_delta),
        (accounting.cost_from_epsilon, accounting.epsilon_from_cost, gaussian_delta),
    ):
        budget = to_budget(epsilon, delta)
        back = to_epsilon(budget, delta)
        assert abs(back - exact) <= exact * slack(delta)
        assert true_delta(budget, exact) <= real(Fraction(repr(delta)))


@given(st.floats(-12, 3), st.floats(-18, -1))
def test_round_trips_from_rho(log_rho: float, log_delta: float) -> None:
    """rho -> epsilon -> rho: the epsilon is no less than what rho needs, and so allows all of rho."""
    rho, delta = 10**log_rho, 10**log_delta
    exact = Fraction(repr(rho))
    for to_epsilon, to_budget in (
        (accounting.epsilon_from_rho, accounting.rho_from_epsilon),
        (accounting.epsilon_from_cost, accounting.cost_from_epsilon),
    ):
        epsilon = to_epsilon(rho, delta)
        if epsilon > Fraction(1, 10**6):
            assert abs(to_budget(epsilon, delta) - exact) <= exact * CLOSE


@given(st.floats(-9, 3), st.floats(-6, 3))
def test_round_trips_through_delta(log_rho: float, log_epsilon: float) -> None:
    """(budget, epsilon) -> delta -> budget: the pair that is promised allows the budget it came from."""
    rho, epsilon = 10**log_rho, 10**log_epsilon
    exact = Fraction(repr(rho))
    for to_delta, to_budget in (
        (accounting.delta_from_rho, accounting.rho_from_epsilon),
        (accounting.delta_from_cost, accounting.cost_from_epsilon),
    ):
        delta = to_delta(rho, epsilon)
        if delta < Fraction(9, 10):
            assert to_budget(epsilon, delta) >= exact * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize("delta", ["1e-100", "1e-18", "0.999999"])
@pytest.mark.parametrize("epsilon", ["1e-100", "1e9"])
def test_extreme_requests_still_hold(epsilon: str, delta: str) -> None:
    rho, cost = accounting.rho_from_epsilon(epsilon, delta), accounting.cost_from_epsilon(epsilon, delta)
    with mpmath.workdps(500):
        assert gaussian_delta(cost, epsilon) <= real(delta)
        assert gaussian_delta(2 * rho, epsilon) <= real(delta)
    assert 0 < 2 * rho < cost
    assert Fraction(float(rho)) == rho
    assert Fraction(float(cost)) == cost


@pytest.mark.parametrize("budget", ["1e-100", "1e-30", "1", "1e30", "1e100"])
@pytest.mark.parametrize("epsilon", ["1e-100", "1e-9", "1", "1e9"])
def test_extreme_deltas_are_bounded(budget: str, epsilon: str) -> None:
    """A delta below 1e-100 is given as 1e-100: its own digits would fill the memory."""
    exact, bound = accounting.delta_from_cost(budget, epsilon), accounting.delta_from_rho(budget, epsilon)
    assert Fraction(1, 10**100) <= exact <= bound <= 1 or budget == "1e-100"


@pytest.mark.parametrize("cost", ["1e12", "1e20", "1e100"])
def test_extreme_epsilons_keep_the_advantage_of_the_curve(cost: str) -> None:
    exact, bound = accounting.epsilon_from_cost(cost, "0.1"), accounting.epsilon_from_rho(Fraction(cost) / 2, "0.1")
    excess, allowed = exact - Fraction(cost) / 2, bound - Fraction(cost) / 2
    assert exact <= bound
    if cost != "1e100":  # there they are the same double
        # Normal quantile 1.2816 against sqrt(2 ln 10) = 2.146 standard deviations.
        assert 0.55 < excess / allowed < 0.65


@pytest.mark.parametrize("epsilon", ["2e9", 0, -1, math.nan, math.inf, "1e101", "x", "", True, None])
def test_impossible_epsilons_are_refused(epsilon: Any) -> None:
    for convert in (accounting.rho_from_epsilon, accounting.cost_from_epsilon):
        with pytest.raises(BudgetError, match=r"^epsilon="):
            convert(epsilon, "1e-9")
    for to_delta in (accounting.delta_from_rho, accounting.delta_from_cost):
        with pytest.raises(BudgetError, match=r"^epsilon="):
            to_delta(1, epsilon)


@pytest.mark.parametrize("budget", [0, -1, math.nan, math.inf, "1e101", "x", "", True, None])
def test_impossible_budgets_are_refused(budget: Any) -> None:
    for name, conversions in (
        ("rho", (accounting.epsilon_from_rho, accounting.delta_from_rho)),
        ("cost", (accounting.epsilon_from_cost, accounting.delta_from_cost)),
    ):
        for convert in conversions:
            with pytest.raises(BudgetError, match=rf"^{name}="):
                convert(budget, "1e-9")


def test_conversions_feel_instant() -> None:
    start = time.process_time()
    for i in range(20):
        accounting.rho_from_epsilon(Fraction(1234 + i, 1000), "1e-9")
        accounting.cost_from_epsilon(Fraction(1234 + i, 1000), "1e-9")
    assert time.process_time() - start < 20 * 0.02


@pytest.mark.parametrize(
    ("epsilon", "delta"), list(itertools.product(["1e-99", "1e-6", "1e3", "9e8"], ["1e-99", "0.1"]))
)
def test_no_conversion_takes_a_second(epsilon: str, delta: str) -> None:
    e, d = Fraction(epsilon) * Fraction(1001, 1000), Fraction(delta) * Fraction(1001, 1000)  # not in the cache
    start = time.process_time()
    rho, cost = accounting.rho_from_epsilon(e, d), accounting.cost_from_epsilon(e, d)
    for to_epsilon, to_delta, budget in (
        (accounting.epsilon_from_rho, accounting.delta_from_rho, rho),
        (accounting.epsilon_from_cost, accounting.delta_from_cost, cost),
    ):
        if budget > Fraction(1, 10**100):
            to_epsilon(budget, d)
            to_delta(budget, e)
    assert time.process_time() - start < 0.5


def test_an_undecided_comparison_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Privacy is never claimed on what the precision cannot tell."""
    assert accounting._gaussian_holds(Fraction(1), Fraction(10), Fraction(1, 10))
    monkeypatch.setattr(accounting, "_MOST_BITS", 0)
    assert not accounting._gaussian_holds(Fraction(1), Fraction(10), Fraction(1, 10))


@pytest.mark.parametrize("end", [rounded_down, rounded_up])
def test_unbounded_balls_are_refused(end: Callable[[Any], Fraction]) -> None:
    for value in (flint.arb("inf"), flint.arb("nan")):
        with pytest.raises(BudgetError, match="too extreme to be converted"):
            end(value)
