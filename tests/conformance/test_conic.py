"""The exact solver against an independent one: the same problem as a semidefinite program, solved by Clarabel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qcompile.arrays import Array
from qcompile.decompose import decompose
from qcompile.factors import Abs, Affine, Factor, Prefix, Random, Range
from qcompile.lattice import Problem
from qcompile.solvers.choose import solve
from qcompile.solvers.roots import dense_gram
from tests.conformance.helpers import family, integers, some_weights, workload

A, B = integers(5, 6)

NODES: dict[str, tuple[list[Factor], ...]] = {
    "prefix": ([Prefix(integers(20)[0])],),
    "range": ([Range(integers(16)[0])],),
    "prefix and range": ([Prefix(A)], [Range(A)]),
    "affine": ([Affine([A, B], [1, 1])],),
    "affine with coefficients": ([Affine([A, B], [2, -3])],),
    "abs": ([Abs([A, B], [1, -1])],),
    "affine, abs and prefixes": ([Affine([A, B], [1, 1])], [Abs([A, B], [1, -1])], [Prefix(A), Prefix(B)]),
    "random": ([Random([A, B], 0.3, 12, 5)],),
    "random and more": ([Random([A, B], 0.3, 40, 6)], [Prefix(A), Range(B)]),
}


def largest_node(factors: tuple[list[Factor], ...], skewed: bool) -> Problem:
    """The node on all attributes: 5 to 30 cells."""
    attributes = list({a.name: a for product in factors for f in product for a in f.attributes}.values())
    u = {a.name: some_weights(a.size, i) for i, a in enumerate(attributes)} if skewed else {}
    families = [family(*product, name=f"f{i}") for i, product in enumerate(factors)]
    closure = decompose(workload(attributes, *families), u)
    return closure.classes[int(closure.class_of[-1])]


def conic_optimum(gram: Array) -> float:
    """min tr(Z) over V with diag V <= 1 and [[V, R'], [R, Z]] positive semidefinite, G = R'R."""
    import cvxpy as cp

    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-11 * values[-1]
    scale = float(np.sqrt(values[-1]))
    root = (np.sqrt(values[kept])[:, None] * vectors[:, kept].T) / scale
    rank, n = root.shape
    block: Any = cp.Variable((n + rank, n + rank), PSD=True)
    constraints = [cp.diag(block[:n, :n]) <= 1, block[n:, :n] == root]
    problem = cp.Problem(cp.Minimize(cp.trace(block[n:, n:])), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert problem.status == "optimal"
    return float(problem.value) * scale**2


@pytest.mark.parametrize("skewed", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("name", NODES)
def test_the_optimum_is_that_of_the_semidefinite_program(name: str, skewed: bool) -> None:
    problem = largest_node(NODES[name], skewed)
    (solution,) = solve((problem,), "exact", 1e-8)
    expected = conic_optimum(dense_gram(problem))
    assert solution.loss == pytest.approx(expected, rel=1e-6)
    assert solution.bound == pytest.approx(expected, rel=1e-6)
    assert solution.bound <= solution.loss <= solution.bound * (1 + 1e-8)
