"""The fixed point by certificate: every bound it reports lies below every feasible error, and the two meet."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.lattice.projection import Projection
from qcompile.queries.factors import Abs, Affine, Prefix, Range
from qcompile.queries.schema import Attribute, IntegerDomain
from qcompile.solvers.bases.fourier import Fourier
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bounds.lower_bound import lower_bound, svd_bound
from qcompile.solvers.exact import certificate
from qcompile.solvers.exact.certificate import Incumbent, RootBlock, evaluate, restrict, strategy_rows
from qcompile.solvers.exact.fixed_point import fixed_point
from qcompile.solvers.exact.interior_point import curvature, interior_point
from qcompile.solvers.exact.optimal import Optimal, optimise
from qcompile.solvers.solver import solve
from qcompile.support.arrays import Array


def attribute(name: str, size: int) -> Attribute:
    return Attribute(name, IntegerDomain(0, size - 1))


def centred_prefix(size: int) -> Gram:
    found = Projection(Prefix(attribute("a", size)), (True,), (np.full(size, 1 / size),)).gram()
    assert isinstance(found, Gram)
    return found


def posed(root: Array) -> certificate.DualProblem:
    """Without symmetry."""
    n = root.shape[1]
    return certificate.DualProblem((RootBlock(root, np.arange(n, dtype=np.int64)),), np.ones(n))


def error(gram: Array, v: Array) -> float:
    """tr(G V^+) with V scaled to a largest diagonal entry of 1, the definition of a strategy's loss."""
    return float(np.trace(gram @ np.linalg.pinv(v, rcond=1e-11, hermitian=True)) * np.diag(v).max())


def problem(*grams: Array) -> Problem:
    """A node whose Gram is a sum of dense terms on one axis."""
    n = len(grams[0])
    terms = [Term((Group((0,), Gram((i,), (n,), g)),), 1.0 + i, 1.0) for i, g in enumerate(grams)]
    return Problem((n,), tuple(terms), True)


def random_gram(cells: int, rank: int, seed: int) -> Array:
    root = np.sin(seed + 1.618 * np.arange(1.0, 1 + rank * cells) ** 1.1).reshape(rank, cells)
    root -= root.mean(axis=1, keepdims=True)
    return np.asarray(root.T @ root)


def random_root(n: int, rank: int, seed: int) -> Array:
    return np.sin(seed + np.arange(1.0, 1 + n * rank) ** 1.3).reshape(rank, n)


@given(st.integers(2, 8), st.integers(1, 8), st.integers(0, 10**6), st.integers(0, 10**6))
def test_every_bound_is_below_every_feasible_error(n: int, rank: int, seed: int, other: int) -> None:
    """S(mu)^2 for any mu against tr(G V^+) for any V: weak duality, and the SVD bound as its uniform case."""
    root = random_root(n, min(n, rank), seed)
    gram = root.T @ root
    assume(np.linalg.cond(root @ root.T) < 1e8)
    mu = 1.1 + np.sin(other + np.arange(float(n)))
    point = evaluate(posed(root), mu / mu.sum())
    mixed = np.sin(other + np.arange(float(n * n)) ** 1.2).reshape(n, n)
    strategies = [np.eye(n), mixed.T @ mixed + 0.1 * np.eye(n), gram + 1e-3 * np.trace(gram) / n * np.eye(n)]
    bounds = [point.bound, svd_bound(Gram((), (n,), gram)), lower_bound(problem(gram))]
    for v in strategies:
        for bound in bounds:
            assert bound <= error(gram, v) * (1 + 1e-9)
    # The point's own strategy: its error is the loss that the certificate declares.
    (rows,) = strategy_rows(posed(root), point)
    assert (rows**2).sum(axis=0).max() == pytest.approx(1, abs=1e-9)
    assert error(gram, rows.T @ rows) == pytest.approx(point.loss, rel=1e-6)


@given(st.integers(2, 7), st.integers(0, 10**6), st.integers(1, 3))
def test_bounds_of_sums_are_below_every_solver(n: int, seed: int, terms: int) -> None:
    """Superadditivity and the SVD bound of the sum, against the optimum and both bases."""
    p = problem(*(random_gram(n, 1 + (seed + i) % n, seed + 7 * i) for i in range(terms)))
    optimum = Optimal(1e-9).solve(p)
    (rp,), (wff,) = solve((p,), Residual()), solve((p,), Fourier())
    for s in (optimum, rp, wff):
        assert lower_bound(p) <= s.loss * (1 + 1e-9)
        assert s.bound <= optimum.loss * (1 + 1e-9)
        assert optimum.bound <= s.loss * (1 + 1e-9)


@given(st.integers(2, 8), st.integers(1, 8), st.integers(0, 10**6))
def test_primal_and_dual_meet(n: int, rank: int, seed: int) -> None:
    root = random_root(n, min(n, rank), seed)
    assume(np.linalg.cond(root @ root.T) < 1e8)
    found = optimise(posed(root), 1e-7)
    assert found.bound <= found.point.loss <= found.bound * (1 + 1e-7)


@given(st.integers(3, 8), st.integers(2, 8), st.integers(0, 10**6))
def test_both_iterations_find_the_same_optimum(n: int, rank: int, seed: int) -> None:
    root = random_root(n, min(n, rank), seed)
    assume(np.linalg.cond(root @ root.T) < 1e6)
    p = posed(root)
    start = evaluate(p, p.uniform())
    slow, fast = Incumbent(start), Incumbent(start)
    fixed_point(p, start, slow, 1e-4, 2000)
    interior_point(p, start, fast, 1e-9)
    assert fast.gap <= 1e-9
    assert fast.bound <= slow.point.loss * (1 + 1e-9)
    assert slow.bound <= fast.point.loss * (1 + 1e-9)


@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_gradient_and_curvature_are_the_derivatives_of_the_dual(n: int, rank: int, seed: int) -> None:
    """dS/dx = v / 2 and minus its derivative, against central differences of S."""
    root = random_root(n, min(n, rank), seed)
    assume(np.linalg.cond(root @ root.T) < 1e4)
    p, h = posed(root), 1e-4
    mu = (1.5 + np.sin(seed + np.arange(float(n)))) / n
    point = evaluate(p, mu)
    steps = h * np.eye(n)
    ahead, behind = ([evaluate(p, mu + sign * s) for s in steps] for sign in (1, -1))
    slope = [(a.value - b.value) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    np.testing.assert_allclose(point.variances / 2, slope, rtol=1e-4, atol=1e-6 * point.peak)
    second = [(b.variances - a.variances) / (4 * h) for a, b in zip(ahead, behind, strict=True)]
    scale = np.abs(second).max()
    np.testing.assert_allclose(curvature(p, point), np.stack(second), rtol=1e-3, atol=1e-4 * scale)


def test_a_certificate_on_some_cells_is_not_mistaken_for_one_on_all() -> None:
    """The bound of a restricted problem holds for the whole; its strategy's peak is taken over all cells."""
    p = posed(random_root(6, 4, 3))
    part = restrict(p, [0, 2, 3, 5])
    inner = optimise_on(part)
    mu = np.zeros(6)
    mu[[0, 2, 3, 5]] = inner.mu
    whole, optimum = evaluate(p, mu), optimise(p, 1e-9)
    assert whole.bound == pytest.approx(inner.bound, rel=1e-9)
    assert whole.bound <= optimum.point.loss * (1 + 1e-9)
    assert optimum.bound <= whole.loss * (1 + 1e-9)


def optimise_on(part: certificate.DualProblem) -> certificate.DualPoint:
    return optimise(part, 1e-9).point


def test_symmetric_blocks_change_nothing_but_the_work() -> None:
    """The same loss with and without block-diagonalisation, and a strategy whose true cost and error are declared."""
    a, b = attribute("a", 5), attribute("b", 5)
    u = (np.full(5, 0.2), np.full(5, 0.2))
    grams = []
    for f in (Affine([a, b], [1, 1]), Abs([a, b], [1, -1])):
        gram = Projection(f, (True, True), u).gram()
        assert isinstance(gram, Gram)
        grams.append(gram)
    p = Problem((5, 5), tuple(Term((Group((0, 1), g),), 1.0, 1.0) for g in grams), True)
    total = grams[0].matrix + grams[1].matrix
    values, vectors = np.linalg.eigh(total)
    kept = values > 1e-12 * values[-1]
    plain = optimise(posed(np.sqrt(values[kept])[:, None] * vectors[:, kept].T), 1e-9)
    found = Optimal(1e-9).solve(p)
    assert "symmetric blocks" in found.solver
    assert found.loss == pytest.approx(plain.point.loss, rel=1e-8)
    (b_matrix,) = found.strategy.factors([0, 1])
    v = b_matrix.T @ b_matrix
    assert np.diag(v).max() == pytest.approx(1, abs=1e-12)
    assert error(total, v) == pytest.approx(found.loss, rel=1e-7)


def test_single_query_costs_its_largest_entry() -> None:
    """Rank 1: L(q q') = max q^2, attained by measuring q itself."""
    q = np.array([[0.5, -2.0, 0.25, 1.0]])
    found = optimise(posed(q), 1e-10)
    assert found.point.loss == pytest.approx(4.0, rel=1e-9)


@pytest.mark.parametrize("size", [2, 10, 100])
def test_default_gap_and_a_thousandth_of_it_are_reached(size: int) -> None:
    root = centred_prefix(size).root
    for gap in (1e-3, 1e-5):
        found = optimise(posed(root), gap)
        assert found.bound <= found.point.loss <= found.bound * (1 + gap)


def test_scale_does_not_matter() -> None:
    """Grams at 1e-12 and 1e12 of the size: loss scales, the strategy stays."""
    gram = centred_prefix(7).matrix
    losses = [Optimal(1e-9).solve(problem(c * gram)).loss / c for c in (1e-12, 1.0, 1e12)]
    assert losses == pytest.approx([losses[1]] * 3, rel=1e-7)


def test_a_light_term_stays_in_the_span() -> None:
    """Weights 10^6 apart: the light query is still answerable, with the variance that its weight earns."""
    heavy, light = np.zeros((6, 6)), np.zeros((6, 6))
    heavy[0, 0] = 1.0
    light[5, 5] = 1e-6
    q = np.eye(6)[5]
    terms = [Term((Group((0,), Gram((i,), (6,), g)),), 1.0, 1.0) for i, g in enumerate((heavy, light))]
    (b,) = Optimal(1e-3).solve(Problem((6,), tuple(terms), True)).strategy.factors([0])
    v = b.T @ b
    assert q @ np.linalg.pinv(v, rcond=1e-14, hermitian=True) @ v @ q == pytest.approx(1, abs=1e-6)
    assert math.isfinite(q @ np.linalg.pinv(v, rcond=1e-14, hermitian=True) @ q)


def test_range_over_one_axis_has_the_reference_loss() -> None:
    """Kept from the certified optimum of the 1+2-way range table at n = 10 (40 attributes)."""
    n = 10
    p = Projection(Range(attribute("a", n)), (True,), (np.full(n, 1 / n),))
    gram, constant = p.gram(), Projection(p.factor, (False,), p.u).gram()
    assert isinstance(gram, Gram)
    assert isinstance(constant, float)
    one = optimise(posed(gram.root), 1e-10).point.loss
    q = n * (n + 1) // 2
    total = 40 * constant + 780 * constant**2
    single = 40 * math.sqrt(one * (1 + 39 * constant))
    pair = 780 * one
    rmse = (math.sqrt(total) + single + pair) / math.sqrt(40 * q + 780 * q * q)
    assert rmse == pytest.approx(41.0759, rel=1e-5)
