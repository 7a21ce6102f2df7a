"""The exact solver against an independent one: the same problem as a semidefinite program, solved by CVXPY."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qcompile.lattice.decompose import decompose
from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Lattice, Problem, Term
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.schema import Attribute
from qcompile.solvers.bounds.roots import dense_gram, span_gram
from qcompile.solvers.exact import conic
from qcompile.solvers.exact.conic import Conic
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.shared import Exact
from qcompile.solvers.solution import Solution
from qcompile.solvers.solver import solve
from qcompile.support.arrays import Array
from tests.conformance.cases import WORKLOADS, Case
from tests.conformance.helpers import KINDS, family, integers, some_weights, workload

CELLS = 40
AGREE = 1e-6

checked: dict[object, Solution] = {}
"""Problems that were compared, by what their numbers depend on: the workloads share many."""

A, B = integers(4, 5)

NODES: dict[str, tuple[list[Factor], ...]] = {
    "prefix": ([Prefix(integers(12)[0])],),
    "range": ([Range(integers(10)[0])],),
    "prefix and range": ([Prefix(A)], [Range(A)]),
    "affine": ([Affine([A, B], [1, 1])],),
    "affine with coefficients": ([Affine([A, B], [2, -3])],),
    "abs": ([Abs([A, B], [1, -1])],),
    "affine, abs and prefixes": ([Affine([A, B], [1, 1])], [Abs([A, B], [1, -1])], [Prefix(A), Prefix(B)]),
    "random": ([Random([A, B], 0.3, 8, 5)],),
    "random and more": ([Random([A, B], 0.3, 40, 6)], [Prefix(A), Range(B)]),
}

Pair = Callable[[Attribute, Attribute], tuple[Factor, ...]]

PAIRS: dict[str, Pair] = {
    **KINDS,
    "random": lambda a, b: (Random([a, b], 0.5, 4, 3),),
    "predicate": lambda a, b: (Predicate([a, b], np.add.outer(np.arange(a.size), np.arange(b.size)) % 3 == 0, "p"),),
    "matrix": lambda a, b: (Matrix([a], np.vander(np.arange(a.size) / a.size, 3).T), Prefix(b)),
}
"""Every kind of factor on two attributes."""

SHAPES = [(1, 5), (5, 1), (1, 1), (2, 2), (2, 7), (3, 2), (4, 4)]


def closure_of(*products: tuple[Factor, ...], skewed: bool) -> Lattice:
    attributes = list({a.name: a for product in products for f in product for a in f.attributes}.values())
    u = {a.name: some_weights(a.size, i) for i, a in enumerate(attributes)} if skewed else {}
    families = [family(*product, name=f"f{i}") for i, product in enumerate(products)]
    return decompose(workload(attributes, *families), u)


def largest_node(factors: tuple[list[Factor], ...], skewed: bool) -> Problem:
    """The node on all attributes."""
    closure = closure_of(*map(tuple, factors), skewed=skewed)
    return closure.classes[int(closure.class_of[-1])]


def literal_optimum(gram: Array) -> float:
    """min tr(Z) over V with diag V <= 1 and [[V, R'], [R, Z]] positive semidefinite, G = R'R, as it is written."""
    import cvxpy as cp

    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-11 * values[-1]
    scale = float(np.sqrt(values[-1]))
    root = (np.sqrt(values[kept])[:, None] * vectors[:, kept].T) / scale
    rank, n = root.shape
    block: Any = cp.Variable((n + rank, n + rank), PSD=True)
    constraints = [cp.diag(block[:n, :n]) <= 1, block[n:, :n] == root]
    problem = cp.Problem(cp.Minimize(cp.trace(block[n:, n:])), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-8, tol_gap_rel=1e-8, tol_feas=1e-8)
    assert problem.status == "optimal"
    return float(problem.value) * scale**2


def check_strategy(problem: Problem, solution: Solution) -> None:
    """Cost, rank and loss from the matrix alone."""
    rows: Array = np.ones((1, 1))
    for f in solution.strategy.factors(range(len(problem.shape))):
        rows = np.asarray(np.kron(rows, f))
    assert (rows**2).sum(axis=0).max() == pytest.approx(1, rel=1e-12)
    assert len(rows) == solution.strategy.rank == np.linalg.matrix_rank(span_gram(problem), tol=1e-10, hermitian=True)
    gram, inverse = dense_gram(problem), np.linalg.pinv(rows, rcond=1e-9)
    assert float(((gram @ inverse) * inverse).sum()) == pytest.approx(solution.loss, rel=1e-8)
    answered = gram @ inverse @ rows
    np.testing.assert_allclose(answered, gram, rtol=0, atol=1e-8 * np.abs(gram).max())


def check_agreement(problem: Problem) -> Solution:
    """Two solvers, two certificates, one optimum; compared once for equal problems."""
    terms = [(t.weighted, *((g.axes, g.gram.key) for g in t.groups)) for t in problem.terms]
    key = (problem.shape, problem.uniform, *terms)
    if key not in checked:
        checked[key] = compare(problem)
    return checked[key]


def compare(problem: Problem) -> Solution:
    (exact,) = solve((problem,), Exact(1e-8))
    found = Conic(1e-7).solve(problem)
    check_strategy(problem, found)
    assert found.loss == pytest.approx(exact.loss, rel=AGREE)
    assert found.bound == pytest.approx(exact.bound, rel=AGREE)
    # Each solver's bound is below the other's strategy, whatever either converged to.
    assert found.bound <= exact.loss * (1 + 1e-12)
    assert exact.bound <= found.loss * (1 + 1e-12)
    assert found.gap <= 1e-7
    return found


@pytest.mark.parametrize("skewed", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("name", NODES)
def test_the_optimum_is_that_of_the_semidefinite_program(name: str, skewed: bool) -> None:
    """The program in its textbook form: V need not have the row space of the Gram, and gains nothing by it."""
    problem = largest_node(NODES[name], skewed)
    found = check_agreement(problem)
    expected = literal_optimum(dense_gram(problem))
    assert found.loss == pytest.approx(expected, rel=AGREE)
    assert found.bound == pytest.approx(expected, rel=AGREE)


@pytest.mark.parametrize("skewed", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_node_of_every_workload(name: str, skewed: bool) -> None:
    case = Case(name, "exact", skewed)
    for problem in decompose(case.workload(), case.centring()).classes:
        if problem.cells <= CELLS:
            label = "conic, Clarabel" if problem.shape else "closed form, total"
            assert check_agreement(problem).solver == label


@pytest.mark.parametrize("skewed", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", PAIRS)
def test_every_kind_of_factor_on_odd_shapes(kind: str, shape: tuple[int, int], skewed: bool) -> None:
    closure = closure_of(PAIRS[kind](*integers(*shape)), skewed=skewed)
    assert closure.classes
    for problem in closure.classes:
        check_agreement(problem)


@pytest.mark.parametrize("skewed", [False, True], ids=["uniform", "skewed"])
def test_products_of_three_and_sums_across_axes(skewed: bool) -> None:
    a, b, c = integers(3, 4, 2)
    products: list[tuple[Factor, ...]] = [
        (Prefix(a), Range(b), Marginal(c)),
        (Circular(b), Marginal(a), Prefix(c)),
        (Affine([a, c], [1, 2]), Prefix(b)),
        (Abs([a, b, c], [1, -1, 1]),),
    ]
    for count in (1, 2, 4):
        for problem in closure_of(*products[:count], skewed=skewed).classes:
            check_agreement(problem)


@pytest.mark.parametrize("kind", [Marginal, Prefix, Range, Circular])
def test_axes_of_one_cell_and_queries_that_are_not_centred(
    kind: type[Marginal | Prefix | Range | Circular],
) -> None:
    """Grams of whole queries, rank equal to cells, between axes of a single cell."""
    (a,) = integers(5)
    one = Gram(("one",), (1,), np.array([[2.0]]))
    groups = (Group((0,), one), Group((1,), Gram(("a",), (5,), kind(a).gram())), Group((2,), one))
    problem = Problem((1, 5, 1), (Term(groups, 3.0, 3.0),), True)
    exact, found = Optimal(1e-8).solve(problem), Conic(1e-7).solve(problem)
    check_strategy(problem, found)
    assert found.loss == pytest.approx(exact.loss, rel=AGREE)
    assert found.bound == pytest.approx(exact.bound, rel=AGREE)
    assert found.loss == pytest.approx(12 * literal_optimum(kind(a).gram()), rel=AGREE)


def test_scs_alone_finds_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conic, "BACKENDS", conic.BACKENDS[1:])
    for name, skewed in itertools.product(NODES, (False, True)):
        assert compare(largest_node(NODES[name], skewed)).solver == "conic, SCS"


def test_past_the_rank_of_clarabel_scs_is_asked() -> None:
    (a,) = integers(50)
    found = check_agreement(largest_node(([Prefix(a)],), False))
    assert found.solver == "conic, SCS"
    assert found.refused == (("conic, Clarabel", "rank 49, limit 32"),)


@pytest.mark.slow
@pytest.mark.parametrize("skewed", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("kinds", [*itertools.combinations(KINDS, 1), *itertools.combinations(KINDS, 2)], ids="+".join)
def test_nodes_of_64_cells(kinds: tuple[str, ...], skewed: bool) -> None:
    a, b = integers(8, 8)
    check_agreement(largest_node(tuple(list(KINDS[k](a, b)) for k in kinds), skewed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["affine", "abs"])
def test_nodes_of_low_rank_and_400_cells(kind: str) -> None:
    a, b = integers(20, 20)
    check_agreement(largest_node((list(KINDS[kind](a, b)),), False))
