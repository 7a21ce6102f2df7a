"""Prefixes of a long axis: the ladder against dense decompositions, the strategy against the dense optimum."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_plan
from qcompile.lattice.lattice import Problem
from qcompile.lattice.projection import Projection
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Factor, Marginal, Prefix, Range
from qcompile.queries.schema import Attribute, IntegerDomain
from qcompile.solvers.auto import Auto
from qcompile.solvers.composite.cosine import LongPrefix, correct, dual_weights, plain_strategy, stretch
from qcompile.solvers.composite.kronecker import group_problem
from qcompile.solvers.exact.bridge import BridgeRoot
from qcompile.solvers.exact.certificate import DualProblem, RootBlock, evaluate
from qcompile.solvers.exact.ladder import PrefixLadder
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.exact.root_quadrature import root_quadrature
from qcompile.solvers.shared import SingleGroup
from qcompile.strategy import CosineStrategy
from qcompile.support.arrays import Array
from qcompile.support.memory import memory_budget
from tests.conformance.helpers import family, integers, workload


def weights(n: int, seed: int) -> Array:
    w = np.random.default_rng(seed).random(n) ** 2 + 1e-3
    return np.asarray(w / w.sum())


def centred_prefixes(u: Array) -> Array:
    """R: the prefixes but for the last one, less their means, ``(n - 1, n)``."""
    queries = np.tri(len(u))[:-1]
    return np.asarray(queries - (queries @ u)[:, None])


def prefix_problem(n: int) -> Problem:
    return one_factor(Prefix(Attribute("a", IntegerDomain(0, n - 1))))


def one_factor(factor: Factor) -> Problem:
    (n,) = factor.shape
    gram = Projection(factor, (True,), (np.full(n, 1 / n),)).gram()
    assert gram is not None
    assert not isinstance(gram, float)
    return group_problem(gram, True)


@pytest.mark.parametrize("ratio", [2.0, 1e4, 1e11])
@pytest.mark.parametrize("error", [1e-3, 1e-9])
def test_the_quadrature_is_as_accurate_as_promised_and_nowhere_above_its_excess(ratio: float, error: float) -> None:
    rule = root_quadrature(3.0, 3.0 * ratio, error)
    inside = 3.0 * ratio ** np.linspace(0, 1, 997)
    outside = 3.0 * ratio ** np.linspace(-2, 3, 997)
    for x, least in ((inside, -error), (outside, -np.inf)):
        off = np.sqrt(x) * (rule.weights / np.add.outer(x, rule.poles)).sum(axis=1) - 1
        assert off.max() <= rule.excess <= error
        assert off.min() >= 1.1 * least


@pytest.mark.parametrize("n", [2, 3, 10, 33, 300])
@pytest.mark.parametrize("u", ["uniform", "other", "mu"])
def test_the_ladder_agrees_with_dense_decompositions_and_its_bound_is_below_them(n: int, u: str) -> None:
    mu = weights(n, 1)
    centring = {"uniform": np.full(n, 1 / n), "other": weights(n, 2), "mu": mu}[u]
    found = PrefixLadder(centring).evaluate(mu)
    dense = DualProblem((RootBlock(centred_prefixes(centring), np.arange(n)),), np.ones(n))
    expected = evaluate(dense, mu)
    assert found.value == pytest.approx(expected.value, rel=2e-7)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=2e-6)
    assert expected.value * (1 - 1e-6) < found.lower < expected.value * (1 + 1e-13)


def test_mirrored_weights_are_gone_through_once_and_give_the_same() -> None:
    n = 40
    mu = weights(n, 3)
    mirrored = (mu + mu[::-1]) / 2
    nearly = mirrored.copy()
    nearly[0] *= 1 + 1e-15
    ladder = PrefixLadder(np.full(n, 1 / n))
    once, twice = ladder.evaluate(mirrored), ladder.evaluate(nearly)
    assert (once.variances == once.variances[::-1]).all()
    np.testing.assert_allclose(once.variances, twice.variances, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 50])
def test_the_optimum_applied_to_vectors(n: int) -> None:
    mu = weights(n, 4)
    r = centred_prefixes(np.full(n, 1 / n))
    values, vectors = np.linalg.eigh((r * mu) @ r.T)
    root = (values**-0.25)[:, None] * (vectors.T @ r)
    x = np.sin(np.arange(2.0 * n)).reshape(n, 2)
    expected = root.T @ (root @ x)
    np.testing.assert_allclose(BridgeRoot(mu).apply(x), expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("n", [50, 300])
def test_dual_weights_are_those_of_the_dense_optimum(n: int) -> None:
    best, dense = dual_weights(n, 1e-4), Optimal(1e-8).solve(prefix_problem(n))
    assert best.gap < 1e-4
    assert best.bound <= dense.loss * (1 + 1e-12)
    assert best.bound >= dense.bound * (1 - 1e-5)


def test_stretching_keeps_the_ends_and_mirrored_weights() -> None:
    mu = np.array([5.0, 2.0, 1.0, 1.0, 2.0, 5.0]) / 16
    wide = stretch(mu, 25)
    assert wide.sum() == pytest.approx(1)
    assert (wide == wide[::-1]).all()
    assert wide[0] / wide[12] == pytest.approx(5)
    assert stretch(mu, 6) is mu


@pytest.mark.parametrize(("n", "gap"), [(60, 1e-4), (300, 1e-4)])
def test_corrected_directions_bring_the_loss_to_the_dense_optimum(n: int, gap: float) -> None:
    """With the loss by definition, tr(G V^+), and columns of norm 1."""
    p = prefix_problem(n)
    optimum, best, plain = Optimal(1e-8).solve(p), dual_weights(n, 1e-4), plain_strategy(n)
    corrected = correct(plain, best.point.mu, 16)
    losses = []
    for strategy in (plain, corrected):
        (b,) = strategy.factors((0,))
        inverse = np.linalg.pinv(b, rcond=1e-10)
        loss = float(((centred_prefixes(np.full(n, 1 / n)) @ inverse) ** 2).sum())
        assert strategy.trace(p.terms[0].groups) == pytest.approx(loss, rel=1e-9)
        assert (b * b).sum(axis=0).max() == pytest.approx(1, abs=1e-9)
        losses.append(loss)
    assert losses[0] > optimum.bound * 1.001
    assert optimum.bound <= losses[1] <= optimum.loss * (1 + gap)


@pytest.mark.parametrize("n", [512, 2500])
def test_a_long_prefix_is_certified(n: int) -> None:
    found = SingleGroup(1e-3).solve(prefix_problem(n))
    assert isinstance(found.strategy, CosineStrategy)
    assert found.solver == "cosine basis, 24 directions at the ends"
    assert found.bound <= found.loss <= found.bound * (1 + 2e-4)
    assert float(found.strategy.sensitivity_squared) == pytest.approx(1, abs=1e-8)


def test_shorter_axes_finer_tolerances_and_other_queries_take_the_dense_optimum() -> None:
    assert LongPrefix().why_not(prefix_problem(511)) == "511 cells, from 512 on"
    assert LongPrefix().why_not(one_factor(Range(Attribute("a", IntegerDomain(0, 599))))) == "no centred prefix alone"
    assert SingleGroup(1e-5).solve(prefix_problem(512)).solver.startswith("optimal")
    with memory_budget(2**20):
        assert (LongPrefix().why_not(prefix_problem(5000)) or "").endswith("of memory")


def test_a_product_with_a_long_prefix_is_within_the_tolerance() -> None:
    a, b = integers(600, 3)
    plan = compile(workload([a, b], family(Prefix(a), Marginal(b))))
    pair = next(c for c in plan.classes if c.attributes == ("a", "b"))
    assert pair.solver == "Kronecker of closed form, cosine basis"
    assert plan.gap < 1e-3


def test_factors_are_prepared_once_and_only_where_no_basis_of_the_whole_is_certified() -> None:
    ranges, prefixes = one_factor(Range(Attribute("a", IntegerDomain(0, 299)))), prefix_problem(300)
    route = Auto()
    assert route.jobs(ranges) == []
    (job,) = route.jobs(prefixes)
    assert (job.key, job.gap) == (prefixes.key, 1e-3)
    job.run()
    prepared = route.shared.group(prefixes, 1e-3)
    assert route.shared.group(prefixes, 1e-8) is prepared  # it is certified to that as well
    assert route.shared.group(prefixes, 1e-12) is not prepared


@pytest.fixture(scope="module")
def long_plan() -> Plan:
    (a,) = integers(6000)
    return compile(workload([a], family(Prefix(a), name="p")))


def test_a_long_axis_from_plan_file_to_answers(long_plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("long") / "long.plan"
    long_plan.save(path)
    plan = load_plan(path)
    assert plan.explain() == long_plan.explain()
    x = np.random.default_rng(5).integers(0, 40, 6000)
    exactly = plan.run({("a",): x}, Budget(rho=1), noise="none").answers("p")
    np.testing.assert_allclose(np.asarray(exactly["estimate"]), np.cumsum(x), rtol=1e-9, atol=1e-4)
    noisy = plan.run({("a",): x}, Budget(rho=1), test_seed=7).answers("p")
    errors = (np.asarray(noisy["estimate"]) - np.cumsum(x)) / np.asarray(noisy["std_error"])
    assert np.abs(errors).max() < 5
    assert plan.family_errors(plan.workload.families[0]).total == pytest.approx(plan.sse(), rel=1e-6)


def test_time_and_memory_grow_with_the_cells() -> None:
    """Four times the cells take about four times as long, and nothing is as large as their square."""
    seconds = []
    for n in (2000, 8000):
        p = prefix_problem(n)
        start = time.process_time()
        LongPrefix().solve(p)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 10 * seconds[0]
    problem = prefix_problem(20_000)
    tracemalloc.start()
    ladder = PrefixLadder(np.full(20_000, 5e-5))
    ladder.evaluate(ladder.uniform())
    plain = plain_strategy(20_000)
    loss = plain.trace(problem.terms[0].groups)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert loss > 0
    assert peak < 8 * 20_000 * 400
