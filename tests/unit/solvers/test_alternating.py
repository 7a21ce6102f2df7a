"""Alternating over the axes of sums of Kronecker terms, against the optimum and against the loss written out."""

from __future__ import annotations

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.queries.factors import Abs, Affine, Marginal, Prefix, Random, Range
from qcompile.queries.factors.base import Factor
from qcompile.solvers.auto import Auto
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.composite import alternating
from qcompile.solvers.exact import optimal
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy
from tests.conformance.helpers import (
    UNIT,
    family,
    integers,
    least_squares_variances,
    mechanism,
    product_matrix,
    workload,
)
from tests.unit.solvers.test_bounds import attributes, loss_written_out, problem, random_gram


def alternate(p: Problem, gap: float = 1e-5) -> Solution:
    return Auto(gap).alternating(lower_bound).solve(p)


A, B, C = attributes(6, 5, 3)
X, Y, Z = attributes(6, 6, 7)
CASES: dict[str, tuple[tuple[int, ...], list[list[Factor]], float]] = {
    "prefix and range": ((6, 5), [[Prefix(A), Prefix(B)], [Range(A), Range(B)]], 1.001),
    "prefix and range, three axes": (
        (6, 5, 3),
        [[Prefix(A), Prefix(B), Prefix(C)], [Range(A), Range(B), Range(C)]],
        1.001,
    ),
    "prefix and marginal": ((6, 5), [[Prefix(A), Prefix(B)], [Marginal(A), Marginal(B)]], 1.1),
    "a form that is cut": ((6, 5), [[Prefix(A), Prefix(B)], [Affine([B, A], [1, 2])]], 1.5),
    "a matrix that is cut": ((6, 5), [[Prefix(A), Prefix(B)], [Random([A, B], 0.5, 60, 1)]], 1.3),
    "a form of three that is cut": ((6, 5, 3), [[Prefix(A), Range(B), Prefix(C)], [Affine([C, B, A], [1, 1, 2])]], 1.7),
    "two forms that are cut alike": (
        (6, 6, 7),
        [[Affine([Z, Y], [1, 2]), Prefix(X)], [Affine([Z, X], [1, 2]), Range(Y)]],
        3.0,
    ),
    "forms as one axis": ((6, 5, 3), [[Affine([A, B], [1, 1]), Prefix(C)], [Abs([A, B], [1, -1]), Range(C)]], 1.5),
    "a form beside a product, as one axis": (
        (6, 5, 3),
        [[Affine([A, B], [1, 1]), Prefix(C)], [Prefix(A), Range(B), Range(C)]],
        1.5,
    ),
}


@pytest.mark.parametrize("raw", [False, True], ids=["centred", "raw"])
@pytest.mark.parametrize("name", CASES)
def test_the_loss_is_attained_and_near_the_optimum(name: str, raw: bool) -> None:
    shape, products, worst = CASES[name]
    p = problem(shape, *((1.0 + i, factors) for i, factors in enumerate(products)), raw=raw)
    found, optimum = alternate(p), Optimal(1e-6).solve(p)
    assert isinstance(found.strategy, KroneckerStrategy)
    assert found.loss == pytest.approx(loss_written_out(p, found.strategy.factors(range(len(shape)))), rel=1e-5)
    assert optimum.bound <= found.loss <= worst * optimum.loss
    assert found.bound <= optimum.loss
    assert float(found.strategy.sensitivity_squared) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_no_small_change_of_an_axis_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = [tuple(Group((i,), random_gram(rng, (n,), 6)) for i, n in enumerate((5, 4))) for _ in range(3)]
    p = Problem((5, 4), tuple(Term(g, 1.0, 1.0) for g in terms), True)
    found = alternate(p, 1e-7)
    assert isinstance(found.strategy, KroneckerStrategy)
    matrices = [part.written_out() for part in found.strategy.parts]
    for _ in range(20):
        i = int(rng.integers(2))
        change = np.eye(len(matrices[i])) + 0.02 * rng.normal(size=(len(matrices[i]),) * 2)
        moved = [change @ m if j == i else m for j, m in enumerate(matrices)]
        assert loss_written_out(p, tuple(moved)) >= found.loss * (1 - 1e-6)


def test_a_block_past_every_limit_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, products, _ = CASES["a form beside a product, as one axis"]
    p = problem(shape, *((1.0, factors) for factors in products))
    assert alternate(p).solver == "alternating Kronecker, 2 factors"
    whole = alternate(p).loss
    monkeypatch.setattr(optimal, "DENSE_CELLS", 10)
    monkeypatch.setattr(optimal, "SHORT_ENTRIES", 100)
    cut = alternate(p)
    assert cut.solver == "alternating Kronecker, 3 factors"
    assert cut.loss > whole
    assert cut.loss == pytest.approx(loss_written_out(p, cut.strategy.factors(range(3))), rel=1e-5)


@pytest.mark.parametrize("n", [10, 30])
def test_prefix_and_range_cubes_are_certified(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never as a matrix on all cells: 27,000 of them take about a second."""
    monkeypatch.setattr(optimal, "DENSE_CELLS", 80)
    monkeypatch.setattr(optimal, "SHORT_ENTRIES", 5000)
    axes = integers(n, n, n)
    plan = compile(workload(axes, family(*map(Prefix, axes)), family(*map(Range, axes))))
    solvers = {c.cells: c.solver for c in plan.classes}
    assert solvers[n**3] == "alternating Kronecker, 3 factors"
    assert plan.gap <= 1e-3


def test_a_plan_with_an_alternating_node_predicts_what_brute_force_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimal, "DENSE_CELLS", 10)
    monkeypatch.setattr(optimal, "SHORT_ENTRIES", 60)
    a, b = integers(6, 5)
    plan = compile(workload([a, b], family(Prefix(a), Prefix(b)), family(Range(a), Range(b), weight=0.1)), gap=1e-5)
    assert any(c.solver.startswith("alternating") for c in plan.classes)
    rows = mechanism(plan.workload.schema, plan.measurements(UNIT))
    for f in plan.workload.families:
        (product,) = f.products()
        variances = least_squares_variances(product_matrix(plan.workload.schema, product), rows)
        assert plan.family_errors(f).total == pytest.approx(float(variances.sum()), rel=1e-4)


def test_reasons_against_it() -> None:
    route = Auto().alternating(lower_bound)
    assert "single term" in (route.why_not(problem((6,), (1.0, [Prefix(A)]))) or "")
    assert route.why_not(problem((6,), (1.0, [Prefix(A)]), (1.0, [Range(A)]))) == "a single axis"


def test_a_contracted_gram_is_the_partial_trace() -> None:
    """``sum over the other axes of G (I x V^+)``, from rows and from the square matrix."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 3, 2))
    rows = Gram.of_rows(("rows",), x)
    square = Gram(("square",), (4, 3, 2), matrix=rows.matrix)
    covariances = {i: (lambda m: m @ m.T)(rng.normal(size=(n, n))) for i, n in enumerate((4, 3, 2))}
    for gram in (rows, square):
        p = Problem((4, 3, 2), (Term((Group((0, 1, 2), gram),), 1.0, 1.0),), True)
        state = alternating.State(p, [(0,), (1,), (2,)], [None] * 3, dict(covariances))
        (term,) = state.conditional(1).terms
        expected = np.einsum("qaic,qbjd,ab,cd->ij", x, x, covariances[0], covariances[2])
        np.testing.assert_allclose(term.weighted * term.groups[0].gram.matrix, expected, rtol=1e-10)
