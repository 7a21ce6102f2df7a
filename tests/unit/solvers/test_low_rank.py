"""Few queries on very many cells: no array is as large as the square of the cells, and the optimum is the same."""

import math
import tracemalloc

import pytest

from qcompile import grammar
from qcompile.lattice.decompose import decompose
from qcompile.lattice.lattice import Problem
from qcompile.solvers.auto import Auto
from qcompile.solvers.exact import interior_point, optimal
from qcompile.solvers.exact.conic import Conic
from qcompile.solvers.exact.optimal import Optimal
from qcompile.support.memory import memory_budget


def distances(size: int, thresholds: str, *, pairs: bool = False) -> Problem:
    """The node of origin and destination."""
    schema = f"o : integer 0..{size - 1} drop; d : integer 0..{size - 1} drop"
    families = f"far : abs(o - d <= {{{thresholds}}})" + ("; od : marginal(o, d)" if pairs else "")
    lattice = decompose(grammar.parse(f"schema {{ {schema} }}\nworkload {{ {families} }}\n"))
    return max(lattice.classes, key=lambda p: p.cells)


@pytest.mark.parametrize("size", [5, 6, 7, 8])
@pytest.mark.parametrize("pairs", [False, True])
def test_distances_on_few_cells_agree_with_the_semidefinite_program(size: int, pairs: bool) -> None:
    problem = distances(size, "1, 2, 4", pairs=pairs)
    assert Auto(1e-8).solve(problem).loss == pytest.approx(Conic(1e-8).solve(problem).loss, rel=1e-6)


def test_distances_on_many_cells_need_no_square_matrix() -> None:
    problem = distances(120, "10, 20, 50")
    tracemalloc.start()
    try:
        solution = Optimal(1e-4).solve(problem)
        assert tracemalloc.get_traced_memory()[1] < 8 * problem.cells**2 / 20
    finally:
        tracemalloc.stop()
    assert solution.loss <= solution.bound * (1 + 1e-4)
    (term,) = problem.terms
    strategy = solution.strategy
    assert term.weighted * strategy.trace(term.groups) == pytest.approx(solution.loss, rel=1e-9)
    assert math.sqrt(strategy.sensitivity_squared) == pytest.approx(1, rel=1e-9)


def test_fewer_orbits_than_an_optimum_may_need_find_it_by_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = distances(30, "2, 5, 9")
    wide = Optimal(1e-7).solve(problem).loss
    monkeypatch.setattr(optimal, "HESSIAN_WORK", 1.0)
    monkeypatch.setattr(optimal, "FEWEST_ACTIVE", 8)
    monkeypatch.setattr(optimal, "SPARE_ORBITS", 0)
    monkeypatch.setattr(interior_point, "FACTORED_ORBITS", 16)
    assert Optimal(1e-4).solve(problem).loss == pytest.approx(wide, rel=1e-4)


def test_the_hessian_is_as_large_as_memory_allows() -> None:
    with memory_budget(10**9):
        assert interior_point.most_orbits() == interior_point.FACTORED_ORBITS
    with memory_budget(48 * 10**6):
        assert 0 < interior_point.most_orbits() <= 1000


def test_a_dense_optimum_that_does_not_fit_is_no_route() -> None:
    problem = distances(60, "2, 5, 10", pairs=True)
    with memory_budget(3 * 10**8):
        assert "of memory" in str(Optimal().why_not(problem))
        solution = Auto(1e-3).solve(problem)
    assert solution.solver.startswith("mixture")
    assert solution.loss < 1.04 * solution.bound
