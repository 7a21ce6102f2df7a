"""ResidualPlanner+: strategies by name, their product against brute force, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qcompile.errors import OptionError, SizeError
from qcompile.lattice.decompose import decompose
from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.solvers.attribute_strategies import DEFAULT_STRATEGY, STRATEGIES, make_named_strategy
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bases.residual_planner_plus import (
    residual_rows,
    solve_plus,
)
from qcompile.solvers.bounds.roots import dense_gram
from qcompile.solvers.shared import Exact
from qcompile.solvers.solver import solve
from qcompile.strategy import KroneckerStrategy
from qcompile.support.arrays import Array
from tests.conformance.cases import WORKLOADS
from tests.conformance.helpers import family, integers, some_weights, workload

A, B, C = integers(3, 4, 2)


def uniform(shape: tuple[int, ...]) -> list[Array]:
    return [np.full(n, 1 / n) for n in shape]


def posed(*products: list[Factor], skewed: bool = False) -> tuple[Problem, list[Array]]:
    """The node on all attributes, and the centring weights of its axes in the problem's order."""
    attributes = list({a.name: a for product in products for f in product for a in f.attributes}.values())
    u = {a.name: some_weights(a.size, i) for i, a in enumerate(attributes)} if skewed else {}
    closure = decompose(workload(attributes, *(family(*p, name=f"f{i}") for i, p in enumerate(products))), u)
    problem, order = closure.classes[int(closure.class_of[-1])], closure.orders[-1]
    return problem, [closure.centring[closure.nodes[-1][i]] for i in order]


def named(names: tuple[str, ...], shape: tuple[int, ...]) -> list[Array]:
    return [make_named_strategy(name, n) for name, n in zip(names, shape, strict=True)]


def by_hand(gram: Array, matrices: list[Array], weights: list[Array]) -> float:
    """tr(G V^+) with V the product of the centred Grams, scaled to a largest diagonal entry of 1."""
    v: Array = np.ones((1, 1))
    for w, u in zip(matrices, weights, strict=True):
        centred = w @ (np.eye(len(u)) - np.outer(u, np.ones(len(u))))
        one = centred.T @ centred
        v = np.asarray(np.kron(v, one / np.diag(one).max()))
    assert np.diag(v).max() == pytest.approx(1)
    return float(np.trace(gram @ np.linalg.pinv(v, rcond=1e-10, hermitian=True)))


@pytest.mark.parametrize("size", range(1, 18))
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_named_strategy_answers_everything(name: str, size: int) -> None:
    matrix = make_named_strategy(name, size)
    assert matrix.shape[1] == size
    assert matrix.any(axis=1).all()
    assert np.linalg.matrix_rank(matrix) == size
    assert residual_rows(matrix, some_weights(size)).shape == (max(1, size - 1), size)


def test_trees_of_a_power_of_two_and_of_other_sizes() -> None:
    assert make_named_strategy("haar", 4).tolist() == [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    assert make_named_strategy("haar", 3).tolist() == [[1, 1, 1], [1, 1, -1], [1, -1, 0]]
    tree = make_named_strategy("hierarchical", 5)
    assert len(tree) == 9
    sums = sorted(tree.sum(axis=1).tolist(), reverse=True)
    assert sums == [5, 3, 2, 2, 1, 1, 1, 1, 1]
    assert all((np.diff(np.flatnonzero(row)) == 1).all() for row in tree)


@pytest.mark.parametrize("size", [8, 64])
def test_a_binary_tree_costs_its_number_of_levels(size: int) -> None:
    """Column norms: each cell lies below one node of every level."""
    for name in ("haar", "hierarchical"):
        assert (np.abs(make_named_strategy(name, size)).sum(axis=0) == math.log2(size) + 1).all()


NODES: dict[str, tuple[list[Factor], ...]] = {
    "one prefix": ([Prefix(B)],),
    "prefix and range": ([Prefix(A), Range(B)], [Marginal(A), Marginal(B)]),
    "three axes": ([Prefix(A), Marginal(C), Range(B)], [Circular(B), Prefix(C), Marginal(A)]),
    "across axes": ([Affine([A, B], [1, 1]), Prefix(C)], [Abs([B, A], [1, -1]), Marginal(C)]),
}


@pytest.mark.parametrize("skewed", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("name", NODES)
def test_loss_and_strategy_are_those_of_the_definition(name: str, skewed: bool) -> None:
    problem, weights = posed(*NODES[name], skewed=skewed)
    gram = dense_gram(problem)
    for shift in range(len(STRATEGIES)):
        names = tuple(STRATEGIES[(i + shift) % len(STRATEGIES)] for i in range(len(problem.shape)))
        matrices = named(names, problem.shape)
        found = solve_plus(problem, matrices, weights, names)
        assert found.loss == pytest.approx(by_hand(gram, matrices, weights), rel=1e-9)
        assert found.solver == f"RP+ ({', '.join(names)})"
        strategy = found.strategy
        assert strategy.rank == strategy.rows == math.prod(n - 1 for n in problem.shape)
        rows: Array = np.ones((1, 1))
        for f in strategy.factors(range(len(problem.shape))):
            rows = np.asarray(np.kron(rows, f))
        assert (rows**2).sum(axis=0).max() == pytest.approx(1, rel=1e-12)
        assert float(np.trace(gram @ np.linalg.pinv(rows.T @ rows, rcond=1e-10))) == pytest.approx(found.loss, rel=1e-9)
        assert float(strategy.sensitivity_squared) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("name", WORKLOADS)
def test_identity_everywhere_is_the_residual_basis(name: str) -> None:
    closure = decompose(WORKLOADS[name]())
    for problem in closure.classes:
        matrices = [make_named_strategy(DEFAULT_STRATEGY, n) for n in problem.shape]
        found, expected = solve_plus(problem, matrices, uniform(problem.shape)), Residual().solve(problem)
        assert found.loss == pytest.approx(expected.loss, rel=1e-10)
        assert found.bound == pytest.approx(expected.bound, rel=1e-10)


def test_a_strategy_on_one_axis_is_not_one_on_another() -> None:
    """Swapped matrices of equal sizes give another loss: each stays on its axis."""
    a, b = integers(5, 5)
    problem, weights = posed([Prefix(a), Marginal(b)])
    losses = {
        names: solve_plus(problem, named(names, problem.shape), weights).loss
        for names in (("prefix", "identity"), ("identity", "prefix"))
    }
    for names, loss in losses.items():
        assert loss == pytest.approx(by_hand(dense_gram(problem), named(names, problem.shape), weights), rel=1e-9)
    low, high = sorted(losses.values())
    assert high > 1.1 * low


@pytest.mark.parametrize("seed", range(8))
def test_bound_optimum_and_loss_are_in_order_on_random_grams(seed: int) -> None:
    problem, weights = posed(
        [Random([A, B], 0.4, 5 + seed, seed)], [Random([B, C], 0.5, 6, seed), Prefix(A)], skewed=seed % 2 == 1
    )
    (best,) = solve((problem,), Exact(1e-6))
    for name in STRATEGIES:
        found = solve_plus(problem, named((name,) * len(problem.shape), problem.shape), weights)
        assert 0 < found.bound <= best.bound * (1 + 1e-6)
        assert best.loss <= found.loss * (1 + 1e-6)


def test_a_strategy_scaled_or_with_repeated_and_constant_rows_is_the_same_strategy() -> None:
    problem, weights = posed([Prefix(A), Range(B)], skewed=True)
    plain = [make_named_strategy("prefix", n) for n in problem.shape]
    odd = [1e-200 * plain[0], np.concatenate([1e200 * plain[1], np.full((2, plain[1].shape[1]), 1e199)])]
    expected, found = solve_plus(problem, plain, weights), solve_plus(problem, odd, weights)
    assert found.loss == pytest.approx(expected.loss, rel=1e-9)
    assert found.strategy.rows == expected.strategy.rows
    doubled = [np.concatenate([m, m]) for m in plain]
    assert solve_plus(problem, doubled, weights).loss == pytest.approx(expected.loss, rel=1e-9)


def test_the_total_and_axes_of_one_cell() -> None:
    total = decompose(workload([A], family())).classes[0]
    found = solve_plus(total, [], [])
    assert found.loss == pytest.approx(total.trace, rel=1e-12)
    assert found.bound == pytest.approx(total.trace, rel=1e-11)
    assert (found.solver, found.strategy.rows) == ("RP+", 1)

    gram = dense_gram(posed([Prefix(B)])[0])
    one = Gram(("one",), (1,), np.array([[2.0]]))
    groups = (Group((0,), one), Group((1,), Gram(("b",), (4,), gram)), Group((2,), one))
    problem = Problem((1, 4, 1), (Term(groups, 3.0, 3.0),), True)
    alone = Problem((4,), (Term((Group((0,), groups[1].gram),), 12.0, 12.0),), True)
    for name in STRATEGIES:
        wide = solve_plus(problem, named((name,) * 3, problem.shape), uniform(problem.shape))
        narrow = solve_plus(alone, named((name,), alone.shape), uniform(alone.shape))
        assert wide.loss == pytest.approx(narrow.loss, rel=1e-12)
        assert wide.bound == pytest.approx(narrow.bound, rel=1e-9)


def test_a_narrow_strategy_is_taken_where_it_spans_the_queries() -> None:
    """Two levels of a coarser attribute: rank 1 of 3 after centring, which is all that the queries need."""
    coarse = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    problem, weights = posed([Matrix([B], coarse), Marginal(A)])
    matrices = [coarse if n == 4 else np.eye(n) for n in problem.shape]
    found = solve_plus(problem, matrices, weights, [f"s{n}" for n in problem.shape])
    assert found.loss == pytest.approx(by_hand(dense_gram(problem), matrices, weights), rel=1e-9)
    assert found.strategy.rank == 2
    full = solve_plus(problem, named(("identity",) * 2, problem.shape), weights)
    assert found.loss < full.loss


@pytest.mark.parametrize(
    "strategy",
    [
        np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]]),
        np.ones((3, 4)),
        np.zeros((2, 4)),
        np.eye(4)[:2],
    ],
    ids=["coarse", "constant", "zero", "half"],
)
@pytest.mark.parametrize("cross", [False, True], ids=["product", "across axes"])
def test_a_strategy_that_cannot_answer_is_refused(strategy: Array, cross: bool) -> None:
    products: list[Factor] = [Abs([A, B], [1, -1])] if cross else [Prefix(A), Prefix(B)]
    problem, weights = posed(products, skewed=True)
    (axis,) = (i for i, n in enumerate(problem.shape) if n == 4)
    matrices = [strategy if i == axis else np.eye(n) for i, n in enumerate(problem.shape)]
    names = ["mine" if i == axis else "identity" for i in range(2)]
    with pytest.raises(OptionError, match=rf"'mine' of axis {axis + 1} \(4 cells\) cannot answer.*'identity'"):
        solve_plus(problem, matrices, weights, names)


def test_a_light_term_outside_the_span_is_not_overlooked() -> None:
    coarse = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    attributes = [B]
    families = [family(Matrix([B], coarse), name="heavy", weight=1e6), family(Predicate([B], np.eye(4)[0] > 0, "b=0"))]
    closure = decompose(workload(attributes, *families))
    with pytest.raises(OptionError, match="outside its span"):
        solve_plus(closure.classes[int(closure.class_of[-1])], [coarse], uniform((4,)))


def test_wrong_centring_is_noticed() -> None:
    """Weights of another centring give another residual space: never a silent loss."""
    problem, _ = posed([Prefix(B)], skewed=True)
    with pytest.raises(OptionError, match="cannot answer"):
        solve_plus(problem, [np.eye(4)], uniform((4,)))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(3), r"shape \(3, 3\).*4 columns"),
        (np.ones(4), r"shape \(4,\).*one row per query"),
        (np.ones((0, 4)), r"shape \(0, 4\)"),
        (np.diag([1.0, np.nan, 1, 1]), "not finite"),
        (np.diag([1.0, np.inf, 1, 1]), "not finite"),
    ],
    ids=["columns", "vector", "empty", "nan", "inf"],
)
def test_a_matrix_that_does_not_fit_is_refused(matrix: Array, message: str) -> None:
    problem, weights = posed([Prefix(B)])
    with pytest.raises(OptionError, match=message):
        solve_plus(problem, [matrix], weights)


def test_what_is_refused_by_name_or_size() -> None:
    with pytest.raises(OptionError, match="did you mean 'prefix'"):
        make_named_strategy("prefx", 4)
    with pytest.raises(OptionError, match="at least one cell"):
        make_named_strategy("haar", 0)
    with pytest.raises(SizeError, match="limit"):
        make_named_strategy("identity", 10**6)
    n = 5000
    gram = Gram(("rows",), (n,), rows=np.eye(1, n) - 1 / n)
    problem = Problem((n,), (Term((Group((0,), gram),), 1.0, 1.0),), True)
    with pytest.raises(SizeError, match="4096 cells"):
        solve_plus(problem, [np.eye(1, n)], uniform((n,)))


def test_strategies_are_stored_on_their_axes() -> None:
    problem, weights = posed([Prefix(A), Range(B)])
    strategy = solve_plus(problem, named(("prefix", "haar"), problem.shape), weights).strategy
    assert isinstance(strategy, KroneckerStrategy)
    assert [p.axes for p in strategy.parts] == [(0,), (1,)]
    for p, u in zip(strategy.parts, weights, strict=True):
        np.testing.assert_allclose(p.written_out() @ u, 0, atol=1e-14)
