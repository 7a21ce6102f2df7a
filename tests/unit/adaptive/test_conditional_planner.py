"""Conditional ResidualPlanner: optimal by its own conditions, equal to Clarabel, never worse than independent noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from benchmarks.routes import conic_planner as crp_conic
from benchmarks.routes.conic_planner import allocate_conic, conic_filling
from benchmarks.routes.residual_planner import allocate_iid, allocate_relaxed, costs, losses, marginal_error
from qcompile.adaptive.conditional_planner import allocate, water_filling
from qcompile.errors import InternalError
from qcompile.support.arrays import Array


@dataclass(frozen=True)
class Round:
    """One problem."""

    prior: Array
    cost: Array
    loss: Array
    budget: float

    def allocate(self, least_share: float = 0.0) -> Array:
        return allocate(self.prior, self.cost, self.loss, self.budget, least_share)

    def error(self, added: Array) -> float:
        return marginal_error(self.prior, self.loss, added)

    def shares(self, added: Array) -> Array:
        return self.cost / self.budget * added


def subsets(ndim: int) -> list[tuple[int, ...]]:
    return [kept for size in range(ndim + 1) for kept in itertools.combinations(range(ndim), size)]


def rounds(count: int, seed: int, spread: float = 3.0) -> Iterator[Round]:
    """Random problems; a third of the priors 0, some losses 0, priors up to 10^spread times what the budget buys."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k = int(rng.integers(1, 17))
        cost, budget = 10 ** rng.uniform(-1, 1, k), 10 ** rng.uniform(-3, 3)
        loss = 10 ** rng.uniform(-4, 1, k) * (rng.random(k) > 0.1)
        prior = budget / cost * 10 ** rng.uniform(-3, spread, k) * (rng.random(k) > 0.3)
        if loss.any():
            yield Round(prior, cost, loss, budget)


def assert_spent(problem: Round, added: Array) -> None:
    assert np.isfinite(added).all()
    assert (added >= 0).all()
    assert abs(problem.shares(added).sum() - 1) < 1e-12


def test_the_conditions_of_optimality_hold_on_thousands_of_random_problems() -> None:
    for problem in rounds(20_000, 1):
        added = problem.allocate()
        assert_spent(problem, added)
        # What a little more of the budget would take off the error: the same wherever there is some, less elsewhere.
        total = problem.prior + added
        gain = np.divide(problem.loss, problem.cost * total**2, out=np.zeros_like(total), where=problem.loss > 0)
        wet = problem.shares(added) > 1e-9  # below, what the prior leaves of a share is rounding
        price = float(gain[wet].max())
        assert (gain[wet] >= price * (1 - 1e-6)).all()
        assert (gain <= price * (1 + 1e-9)).all()


def test_any_shift_of_budget_between_two_nodes_makes_it_worse() -> None:
    rng = np.random.default_rng(0)
    for problem in rounds(300, 2):
        added = problem.allocate()
        best = problem.error(added)
        for _ in range(10):
            i, j = rng.integers(len(added), size=2)
            part = added[i] * rng.random()
            other = added.copy()
            other[i] -= part
            other[j] += part * problem.cost[i] / problem.cost[j]
            assert problem.error(other) >= best * (1 - 1e-12)


def against_clarabel(count: int, seed: int) -> None:
    other_digits = 0
    for problem in rounds(count, seed):
        exact = problem.allocate()
        conic = allocate_conic(problem.prior, problem.cost, problem.loss, problem.budget, 0.0)
        assert_spent(problem, conic)
        error = problem.error(exact)
        assert error * (1 - 1e-12) <= problem.error(conic) <= error * (1 + 1e-6)
        # An error within 1e-8 of the best leaves shares within about its root.
        np.testing.assert_allclose(problem.shares(conic), problem.shares(exact), rtol=0, atol=3e-3)
        other_digits += not np.array_equal(conic, exact)
    assert other_digits > count / 2  # it was Clarabel


def shares_against_clarabel(count: int, seed: int) -> None:
    """Where priors are of the order of what the budget buys the allocation itself is well determined."""
    rng, differences = np.random.default_rng(seed), list[float]()
    for _ in range(count):
        k = int(rng.integers(1, 17))
        weights = rng.uniform(0.2, 1, k)
        breakpoints = rng.uniform(0, 3 / k, k) * (rng.random(k) > 0.3)
        exact = water_filling(weights, breakpoints)
        np.testing.assert_allclose(conic_filling(weights, breakpoints), exact, rtol=0, atol=2e-4)
        # An interior point method stops at the rounding of the error, 1e-14 or so: shares are right to its root, but
        # for a few problems in a thousand, where it stops earlier.
        found = conic_filling(weights, breakpoints, 1e-13)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-4)
        differences.append(np.abs(found - exact).max())
    assert np.quantile(differences, 0.9) < 1e-6
    assert np.quantile(differences, 0.99) < 5e-6


def test_equal_to_clarabel() -> None:
    against_clarabel(200, 3)
    shares_against_clarabel(50, 4)


@pytest.mark.slow
def test_equal_to_clarabel_on_thousands_of_random_problems() -> None:
    against_clarabel(3000, 5)
    shares_against_clarabel(1000, 6)


def test_clarabel_is_compiled_once_for_each_number_of_nodes() -> None:
    first = conic_filling(np.array([1.0, 0.5, 0.5, 0.5, 0.5]), np.zeros(5))
    np.testing.assert_allclose(first, np.array([2, 1, 1, 1, 1]) / 6, atol=1e-4)
    problem = crp_conic._program(5).problem
    compiled = problem.get_problem_data("CLARABEL")[1]
    second = conic_filling(np.array([0.5, 0.5, 1.0, 1.0, 1.0]), np.zeros(5))
    np.testing.assert_allclose(second, np.array([1, 1, 2, 2, 2]) / 8, atol=1e-4)
    assert crp_conic._program(5).problem is problem
    assert problem.get_problem_data("CLARABEL")[1] is compiled
    assert problem.is_dcp(dpp=True)


def test_an_allocation_that_clarabel_does_not_find_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    conic_filling(np.ones(2), np.zeros(2))
    monkeypatch.setattr(crp_conic, "outcome", lambda status: "failed")
    with pytest.raises(InternalError, match="Clarabel found no allocation"):
        conic_filling(np.ones(2), np.zeros(2))
    monkeypatch.undo()
    with pytest.raises(InternalError, match="spent none"):
        conic_filling(np.ones(2), np.full(2, 1e300))


@given(st.lists(st.integers(2, 9), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_never_worse_than_independent_noise_of_the_same_budget(shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = subsets(len(shape))
    prior = 10 ** rng.uniform(-3, 3, len(nodes)) * (rng.random(len(nodes)) > 0.3)
    budget = 10 ** rng.uniform(-3, 3)
    problem = Round(prior, costs(shape, nodes), losses(shape, nodes), budget)
    baseline = allocate_iid(shape, nodes, budget)
    assert problem.shares(baseline).sum() == pytest.approx(1, rel=1e-12)
    assert problem.error(problem.allocate()) <= problem.error(baseline) * (1 + 1e-12)


@given(st.lists(st.integers(2, 9), min_size=1, max_size=5))
def test_without_a_prior_independent_noise_is_the_optimum(shape: list[int]) -> None:
    nodes = subsets(len(shape))
    zero = np.zeros(len(nodes))
    problem = Round(zero, costs(shape, nodes), losses(shape, nodes), 1 / 7.5)
    for least_share in (0.0, 1e-3):
        added = problem.allocate(least_share)
        np.testing.assert_allclose(added, allocate_iid(shape, nodes, 1 / 7.5), rtol=1e-12)
        assert problem.error(added) == pytest.approx(7.5, rel=1e-12)  # the variance of a cell


def kronecker(factors: Iterable[Array]) -> Array:
    matrix: Array = np.ones((1, 1))
    for factor in factors:
        matrix = np.asarray(np.kron(matrix, factor), dtype=np.float64)
    return matrix


def test_losses_and_costs_are_those_of_the_matrices() -> None:
    shape, nodes = (3, 1, 4), [(), (0,), (2,), (0, 2)]
    known = zip(nodes, costs(shape, nodes), losses(shape, nodes), allocate_iid(shape, nodes, 1.0), strict=True)
    for node, cost, loss, precision in known:
        kept = [(axis in node, n) for axis, n in enumerate(shape)]
        measured = kronecker(np.eye(n) - 1 / n if inside else np.ones((1, n)) for inside, n in kept)
        back = kronecker(np.eye(n) - 1 / n if inside else np.ones((n, 1)) / n for inside, n in kept)
        np.testing.assert_allclose((measured**2).sum(axis=0), cost)  # every column costs the same
        np.testing.assert_allclose((back**2).sum(axis=1), loss)  # every cell gets the same
        # Independent noise of variance 1 on the cells measures the residual with centred noise of this precision.
        centred = kronecker(np.eye(n) - 1 / n for inside, n in kept if inside)
        np.testing.assert_allclose(measured @ measured.T, centred / precision, atol=1e-12)


def test_small_shares_are_dropped_and_spent_on_the_others() -> None:
    dropped = 0
    for problem in rounds(1500, 7, spread=0.0):
        full, least = problem.allocate(), 0.05
        cut = problem.allocate(least)
        assert_spent(problem, cut)
        shares = problem.shares(full)
        gone = (full > 0) & (cut == 0)
        assert (shares[gone] < least).all()
        assert (problem.prior[gone] > 0).all()
        assert (cut[full == 0] == 0).all()  # what is freed goes to nodes that are measured anyway
        assert (problem.shares(cut)[cut > 0] >= problem.shares(full)[cut > 0] * (1 - 1e-12)).all()
        rescaled = np.where(gone, 0, full)
        rescaled /= problem.shares(rescaled).sum()
        assert problem.error(cut) <= problem.error(rescaled) * (1 + 1e-12)
        assert problem.error(cut) <= problem.error(full) * (1 + least * gone.sum())
        dropped += int(gone.sum())
    assert dropped > 250


def test_solving_anew_is_better_than_rescaling() -> None:
    problem = Round(np.array([5.0, 0.0, 30.0, 9.95]), np.ones(4), np.ones(4) * 4, 20.0)
    full = problem.allocate()
    cut = problem.allocate(0.2)
    assert (full[[0, 1]] > 0).all()
    np.testing.assert_allclose(cut, [7.5, 12.5, 0, 0])
    rescaled = full * [1, 1, 0, 0] * 20 / full[:2].sum()
    assert problem.error(cut) < problem.error(rescaled) * (1 - 1e-4)


def test_a_node_that_was_hardly_ever_measured_is_never_dropped() -> None:
    for least_known in (0.0, 1e-300, 1e-9, 1e-6):
        problem = Round(np.array([least_known, 1.0, 1.0]), np.ones(3), np.array([1e-8, 1.0, 1.0]), 1.0)
        added = problem.allocate(1e-3)
        assert 0 < added[0] < 1e-3
    problem = Round(np.array([1e-4, 1.0, 1.0]), np.ones(3), np.array([1e-8, 1.0, 1.0]), 1.0)
    assert 0 < problem.allocate()[0] < 1e-3
    assert problem.allocate(1e-3)[0] == 0


def test_among_very_many_nodes_small_shares_are_not_dropped() -> None:
    problem = Round(np.full(5000, 100.0), np.ones(5000), np.linspace(1, 1.1, 5000), 1e5)
    full = problem.allocate()
    assert problem.shares(full).max() < 1e-3
    np.testing.assert_array_equal(problem.allocate(1e-3), full)
    # A few large ones and the many small ones together below half of the budget: these are dropped.
    loss = np.append(problem.loss, np.full(3, 1e5))
    problem = Round(np.full(5003, 100.0), np.ones(5003), loss, 1e5)
    small = problem.shares(problem.allocate())[:5000]
    assert 0 < small.max() < 1e-3
    assert small.sum() < 0.5
    assert (problem.allocate(1e-3)[:5000] == 0).all()


def test_one_node_never_measured_among_very_many_does_not_take_all() -> None:
    problem = Round(np.append(np.full(5000, 100.0), 0.0), np.ones(5001), np.ones(5001), 1e5)
    added = problem.allocate(1e-3)
    assert (added > 0).all()
    assert problem.error(added) == problem.error(problem.allocate())


def test_the_relaxed_solution_is_the_optimum_where_it_is_not_negative() -> None:
    feasible = 0
    for problem in rounds(1500, 8, spread=0.0):
        free = allocate_relaxed(problem.prior, problem.cost, problem.loss, problem.budget)
        assert problem.shares(free).sum() == pytest.approx(1, rel=1e-9)
        assert (free[problem.loss == 0] == 0).all()
        total, wanted = problem.prior + free, problem.loss > 0
        levels = total[wanted] / np.sqrt(problem.loss[wanted] / problem.cost[wanted])
        np.testing.assert_allclose(levels, levels.mean(), rtol=1e-6)
        if (free >= 0).all():
            feasible += 1
            np.testing.assert_allclose(problem.shares(problem.allocate()), problem.shares(free), rtol=0, atol=1e-12)
    assert 150 < feasible < 1350


def test_nodes_that_need_nothing_get_nothing() -> None:
    prior, loss = np.array([1.0, np.inf, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(allocate(prior, np.ones(4), loss, 3.0), [3, 0, 0, 0])
    np.testing.assert_array_equal(allocate_relaxed(prior, np.ones(4), loss, 3.0), [3, 0, 0, 0])
    assert marginal_error(prior, loss, np.zeros(4)) == 1
    assert marginal_error(np.zeros(2), np.array([1.0, 0.0]), np.zeros(2)) == math.inf


@pytest.mark.parametrize("least_share", [0.0, 1e-3, 0.5])
def test_extreme_values_break_nothing(least_share: float) -> None:
    rng = np.random.default_rng(9)
    for _ in range(2000):
        k = int(rng.integers(1, 9))
        prior = 10 ** rng.uniform(-300, 300, k)
        prior[rng.random(k) < 0.2] = 0
        prior[rng.random(k) < 0.2] = np.inf
        loss = 10 ** rng.uniform(-150, 150, k) * (rng.random(k) < 0.9)
        problem = Round(prior, 10 ** rng.uniform(-5, 5, k), loss, 10 ** rng.uniform(-290, 290))
        if loss.any():
            added = problem.allocate(least_share)
            assert_spent(problem, added)
            assert (added[loss == 0] == 0).all()


def test_known_infinitely_well_the_budget_is_spent_all_the_same() -> None:
    for known in (np.inf, 1e300):
        problem = Round(np.full(3, known), np.ones(3), np.array([1.0, 4.0, 0.0]), 1e-200)
        assert_spent(problem, problem.allocate())
        assert problem.allocate()[2] == 0


def test_a_budget_far_below_the_priors_goes_to_the_lowest_breakpoint() -> None:
    problem = Round(np.array([3.0, 2.0, 8.0]), np.ones(3), np.array([1.0, 1.0, 16.0]), 1e-12)
    np.testing.assert_allclose(problem.shares(problem.allocate(0.0)), [0, 0.2, 0.8])  # 2 and 8 / 4, a tie


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": np.array([1.0, 0.0])}, "public"),
        ({"cost": np.array([1.0, np.nan])}, "cost > 0"),
        ({"loss": np.array([1.0, -1.0])}, "losses must be >= 0"),
        ({"loss": np.array([1.0, np.inf])}, "losses must be >= 0"),
        ({"loss": np.zeros(2)}, "nothing to spend"),
        ({"prior": np.array([np.nan, 1.0])}, "priors >= 0"),
        ({"prior": np.ones(3)}, r"shapes \(3,\)"),
        ({"budget": 0.0}, "budget > 0"),
        ({"budget": math.nan}, "budget > 0"),
        ({"budget": math.inf}, "budget > 0"),
        ({"least_share": 1.0}, r"\[0, 1\)"),
        ({"least_share": math.nan}, r"\[0, 1\)"),
    ],
)
def test_what_is_no_problem_is_refused(change: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"prior": np.ones(2), "cost": np.ones(2), "loss": np.ones(2), "budget": 1.0} | change
    with pytest.raises(InternalError, match=message):
        allocate(**given)  # type: ignore[arg-type]
    if "least_share" not in change:
        with pytest.raises(InternalError, match=message):
            allocate_relaxed(**given)  # type: ignore[arg-type]
