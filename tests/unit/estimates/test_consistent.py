"""Consistent non-negative tables: against a quadratic program, by their optimality, and on what they refuse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcompile.errors import InternalError, OptionError, SizeError
from qcompile.estimates import consistent as module
from qcompile.estimates.consistent import TOLERANCE, consistent, separators
from qcompile.estimates.nonnegative import nonnegative
from qcompile.lattice.lattice import Node
from qcompile.support.arrays import Array

Tables = dict[Node, Array]


def disagreement(tables: Mapping[Node, Array]) -> float:
    """The largest difference, in counts, of two tables' marginals on all attributes they share."""
    largest = 0.0
    for one, other in itertools.combinations(tables, 2):
        shared = set(one) & set(other)
        difference = _summed(tables[one], one, shared) - _summed(tables[other], other, shared)
        largest = max(largest, float(np.abs(difference).max()))
    return largest


def _summed(table: Array, node: Node, kept: set[int]) -> Array:
    return np.asarray(table.sum(axis=tuple(i for i, a in enumerate(node) if a not in kept)))


def all_nodes(attributes: int, order: int) -> list[Node]:
    return list(itertools.combinations(range(attributes), order))


SHAPES: dict[str, tuple[list[int], list[Node]]] = {
    "pairs": ([2, 3, 4], all_nodes(3, 2)),
    "cycle": ([2, 3, 2, 3], [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "chain": ([3, 2, 4, 2], [(0, 1), (1, 2), (2, 3)]),
    "triples": ([2, 3, 2, 2], all_nodes(4, 3)),
    "nested": ([3, 2, 2], [(0, 1, 2), (0, 1), (1,), ()]),
    "mixed": ([2, 3, 2, 3, 2], [(0, 1), (0, 2, 3), (0, 2), (3, 4)]),
    "apart": ([3, 2, 4], [(0, 1), (2,)]),
    "one value": ([1, 3, 2], all_nodes(3, 2)),
}
"""Sizes of the attributes, and the nodes."""

each = pytest.mark.parametrize("name", SHAPES)


def noise(shape: Sequence[int], stream: int, scale: float) -> Array:
    i = np.arange(math.prod(shape))
    return np.asarray(scale * np.sin(1.0 + 2.3 * i + 0.7 * stream + 0.1 * i**1.5).reshape(shape))


def marginals(joint: Array, nodes: Sequence[Node]) -> Tables:
    return {node: joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in node)) for node in nodes}


def joint_table(sizes: Sequence[int], total: float, power: float = 3.0, stream: int = 0) -> Array:
    """A skewed table over all attributes."""
    weight = np.abs(noise(sizes, stream, 1.0)) ** power
    return np.asarray(total * weight / weight.sum())


def estimates(name: str, scale: float, total: float = 100.0) -> Tables:
    sizes, nodes = SHAPES[name]
    tables = marginals(joint_table(sizes, total), nodes)
    return {node: table + noise(table.shape, i, scale) for i, (node, table) in enumerate(tables.items())}


def program(tables: Mapping[Node, Array], total: float) -> Tables:
    """The nearest consistent tables, by a solver: marginals of every two tables are equal, written out."""
    found = {node: cp.Variable(table.size) for node, table in tables.items()}
    constraints = [x >= 0 for x in found.values()] + [cp.sum(x) == total for x in found.values()]
    for one, other in itertools.combinations(tables, 2):
        shared = set(one) & set(other)
        rows = [summing(tables[node].shape, node, shared) @ found[node] for node in (one, other)]
        constraints.append(rows[0] == rows[1])
    objective = cp.sum([cp.sum_squares(x - tables[node].ravel()) for node, x in found.items()])
    cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    return {node: np.asarray(x.value).reshape(tables[node].shape) for node, x in found.items()}


def summing(shape: Sequence[int], node: Node, kept: set[int]) -> Array:
    """The matrix that takes a table to its marginal."""
    matrix: Array = np.ones((1, 1))
    for n, a in zip(shape, node, strict=True):
        matrix = np.asarray(np.kron(matrix, np.eye(n) if a in kept else np.ones((1, n))), dtype=np.float64)
    return matrix


def squares(one: Mapping[Node, Array], other: Mapping[Node, Array]) -> float:
    return float(sum(((one[node] - other[node]) ** 2).sum() for node in one))


@each
@pytest.mark.parametrize("scale", [1.0, 10.0, 80.0])
def test_tables_solve_the_quadratic_program(name: str, scale: float) -> None:
    tables = estimates(name, scale)
    found, best = consistent(tables, 100.0), program(tables, 100.0)
    assert list(found) == list(tables)
    for node, table in found.items():
        np.testing.assert_allclose(table, best[node], atol=2e-4)
    assert squares(found, tables) == pytest.approx(squares(best, tables), rel=1e-6)
    check(found, 100.0)


def check(tables: Mapping[Node, Array], total: float, tolerance: float = TOLERANCE) -> None:
    """What is promised of results, with 2 for two tables that differ from their mean."""
    assert min(table.min() for table in tables.values()) >= 0
    assert disagreement(tables) <= 2 * tolerance * total * 16  # marginals of separators add up over up to 16 cells
    assert max(abs(float(table.sum()) - total) for table in tables.values()) <= tolerance * total


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.1, 500), st.sampled_from(sorted(SHAPES)))
def test_no_consistent_tables_are_nearer(stream: int, scale: float, name: str) -> None:
    """``<a - x, z - x> <= 0`` for all feasible z characterises the projection; marginals of any table are feasible."""
    sizes, nodes = SHAPES[name]
    total = 1000.0
    tables = estimates(name, scale, total)
    found = consistent(tables, total)
    for power in (0.0, 1.0, 8.0):
        other = marginals(joint_table(sizes, total, power, stream), nodes)
        inner = sum(((tables[n] - found[n]) * (other[n] - found[n])).sum() for n in nodes)
        assert inner <= 1e-5 * total * (scale + total)
    check(found, total)


@each
def test_noise_far_above_the_total_is_no_obstacle(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole marginals have no positive cell at first: steps must grow to get anywhere in few rounds."""
    monkeypatch.setattr(module, "MOST_ROUNDS", 700 if name == "triples" else 60)
    check(consistent(estimates(name, 1e5, 0.5), 0.5), 0.5)


@each
def test_tables_that_are_consistent_stay(name: str) -> None:
    sizes, nodes = SHAPES[name]
    tables = marginals(joint_table(sizes, 50.0), nodes)
    for node, table in consistent(tables, 50.0).items():
        np.testing.assert_allclose(table, tables[node], atol=1e-6)


@each
def test_results_are_repeated(name: str) -> None:
    found = consistent(estimates(name, 40.0), 100.0)
    for node, table in consistent(found, 100.0).items():
        np.testing.assert_allclose(table, found[node], atol=1e-4)


def test_tables_without_shared_attributes_are_projected_each_by_itself() -> None:
    tables: Tables = {(0, 1): noise((3, 4), 0, 9.0), (2,): noise((5,), 1, 9.0), (): np.array(3.5)}
    for node, table in consistent(tables, 20.0).items():
        np.testing.assert_allclose(table, nonnegative(tables[node], 20.0), atol=1e-6)
    assert consistent({}, 20.0) == {}


def test_the_order_of_tables_does_not_matter() -> None:
    tables = estimates("mixed", 30.0)
    found, turned = consistent(tables, 100.0), consistent(dict(reversed(tables.items())), 100.0)
    assert list(turned) == list(reversed(tables))
    for node, table in found.items():
        np.testing.assert_allclose(table, turned[node], atol=1e-4)


def test_estimates_are_left_as_they_were() -> None:
    tables = estimates("pairs", 30.0)
    before = {node: table.copy() for node, table in tables.items()}
    consistent(tables, 100.0)
    for node, table in tables.items():
        np.testing.assert_array_equal(table, before[node])


@pytest.mark.parametrize("scale", [3.0, 100.0])
def test_many_large_sparse_tables(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of eight attributes, most cells empty, in few rounds."""
    sizes, rows = [85, 9, 60, 16, 2, 42, 100, 7], 48_842
    codes = [np.floor(n * np.abs(noise((rows,), a, 1.0)) ** (2 + a)).astype(np.int64) % n for a, n in enumerate(sizes)]
    tables: Tables = {}
    for i, (a, b) in enumerate(all_nodes(8, 2)):
        counts = np.bincount(codes[a] * sizes[b] + codes[b], minlength=sizes[a] * sizes[b])
        tables[a, b] = counts.reshape(sizes[a], sizes[b]) + noise((sizes[a], sizes[b]), i, scale)
    monkeypatch.setattr(module, "MOST_ROUNDS", 200)
    found = consistent(tables, float(rows))
    assert min(table.min() for table in found.values()) == 0
    assert disagreement(found) <= 2 * TOLERANCE * rows
    truth = sum(table.sum() for table in found.values())
    assert truth == pytest.approx(28 * rows, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("order", "expected"), [(1, []), (2, all_nodes(5, 1)), (3, all_nodes(5, 2)), (4, all_nodes(5, 3))]
)
def test_separators_of_all_nodes_of_an_order(order: int, expected: list[Node]) -> None:
    nodes = all_nodes(5, order)
    found = separators(nodes)
    assert sorted(found) == expected
    assert all(held == [n for n in nodes if set(part) <= set(n)] for part, held in found.items())


@given(st.sets(st.sets(st.integers(0, 5), max_size=4).map(lambda s: tuple(sorted(s))), min_size=1, max_size=7))
def test_separators_imply_all_agreement(nodes: set[Node]) -> None:
    """By the rank of the constraints, on attributes of two values."""
    ordered = sorted(nodes)
    ends = np.cumsum([0] + [2 ** len(node) for node in ordered]).tolist()

    def difference(one: Node, other: Node, shared: set[int]) -> Array:
        rows = np.zeros((2 ** len(shared), ends[-1]))
        for node, sign in ((one, 1), (other, -1)):
            i = ordered.index(node)
            rows[:, ends[i] : ends[i + 1]] += sign * summing([2] * len(node), node, shared)
        return rows

    totals = [difference(ordered[0], node, set()) for node in ordered[1:]]
    everything = [difference(a, b, set(a) & set(b)) for a, b in itertools.combinations(ordered, 2)]
    kept = [difference(held[0], node, set(part)) for part, held in separators(ordered).items() for node in held[1:]]
    none = np.zeros((1, ends[-1]))
    assert rank([none, *totals, *kept]) == rank([none, *totals, *everything])


def rank(rows: list[Array]) -> int:
    return int(np.linalg.matrix_rank(np.concatenate(rows)))


def test_disagreement_is_the_largest_difference() -> None:
    tables: Tables = {(0, 1): np.array([[1.0, 2.0], [3.0, 4.0]]), (1, 2): np.array([[4.0, 0.5], [5.0, 1.0]])}
    assert disagreement(tables) == pytest.approx(0.5)  # (4, 6) against (4.5, 6)
    assert disagreement({(0,): np.ones(3), (1,): np.ones(5)}) == pytest.approx(2.0)
    assert disagreement({(0,): np.ones(3)}) == 0


@pytest.mark.parametrize("total", [0.0, -5.0])
def test_no_total_no_counts(total: float) -> None:
    found = consistent(estimates("pairs", 3.0), total)
    assert all((table == 0).all() for table in found.values())


def test_a_looser_tolerance_takes_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = estimates("pairs", 80.0)
    monkeypatch.setattr(module, "MOST_ROUNDS", 12)
    check(consistent(tables, 100.0, tolerance=0.01), 100.0, 0.01)
    with pytest.raises(OptionError, match=r"after 12 rounds the tables agree to .* choose processing='nonnegative'"):
        consistent(tables, 100.0, tolerance=1e-10)


def test_too_many_cells_are_refused() -> None:
    table = np.broadcast_to(np.zeros(()), (2**11, 2**10))
    with pytest.raises(SizeError, match="2,097,153 cells are too many"):
        consistent({(0, 1): table, (2,): np.zeros(1)}, 1.0)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({(1, 0): np.ones((2, 2))}, "cannot have the shape"),
        ({(0, 0): np.ones((2, 2))}, "cannot have the shape"),
        ({(0, 1): np.ones(4)}, "cannot have the shape"),
        ({(0, 1): np.ones((2, 3)), (1, 2): np.ones((2, 2))}, "others have other sizes"),
        ({(0,): np.ones(2), (1,): np.array([1.0, math.nan])}, "must be finite"),
        ({(0,): np.ones(2), (1,): np.array([1.0, math.inf])}, "must be finite"),
        ({(0,): np.ones(2), (1,): np.zeros(0)}, "no cells"),
    ],
)
def test_what_is_no_problem_of_this_kind(tables: Any, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        consistent(tables, 5.0)


def test_totals_must_be_finite() -> None:
    for total in (math.nan, math.inf):
        with pytest.raises(InternalError, match="must be finite"):
            consistent({(0,): np.ones(2)}, total)
