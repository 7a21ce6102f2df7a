"""The total error as a function of the centring weights: its value, and its gradient against differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.compiler.centring import free_roles, optimised_centrings
from qcompile.compiler.total_error import TotalError
from qcompile.lattice.decompose import decompose
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Matrix, Prefix, Range
from qcompile.queries.workload import Workload
from qcompile.solvers.exact.envelope import envelope
from qcompile.solvers.shared import Exact
from qcompile.solvers.solver import solve
from qcompile.support.arrays import Array
from tests.conformance.helpers import family, integer, integers, some_weights, with_other, workload

A, B, C = integers(4, 5, 4)
HOUR = with_other(integer("hour", 4), cyclic=True)

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "products": lambda: workload([A, B], family(Prefix(A), Prefix(B), choose=(1, 2), name="p")),
    "shared roles": lambda: workload([A, B, C], family(Prefix(A), Prefix(B), Prefix(C), choose=(1, 3), name="p")),
    "a sum of terms": lambda: workload([A, B], family(Range(A), Prefix(B)), family(Affine([A, B], [1, 1]))),
    "affine contracted": lambda: workload([A, B, C], family(Affine([C, A, B], [1, 2, 1])), family(Range(A))),
    "equal axes with unequal weights": lambda: workload(
        [A, B, C], family(Affine([A, B], [1, 1]), Prefix(C)), family(Abs([A, C], [1, -1]), name="gap", weight=3.0)
    ),
    "with fixed attributes": lambda: workload(
        [A, B, C], family(Marginal(A), Prefix(B)), family(Circular(C), Prefix(B)), family(Marginal(A), Circular(C))
    ),
    "beside other cells": lambda: workload([HOUR, B], family(Circular(HOUR), Prefix(B)), family(Range(HOUR))),
}


def weights(total: TotalError, stream: int = 0) -> list[Array]:
    return [some_weights(n, 3 * i + stream) for i, n in enumerate(total.sizes)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_value_is_that_of_the_solved_lattice(name: str) -> None:
    made = WORKLOADS[name]()
    roles = free_roles(made)
    total = TotalError(made, roles)
    free = weights(total)
    given = {n: u for names, u in zip(roles, free, strict=True) for n in names}
    closure = decompose(made, given)
    losses = [s.loss for s in solve(closure.classes, Exact(1e-8))]
    expected = sum(m * math.sqrt(x) for m, x in zip(closure.members, losses, strict=True))
    assert total(free)[0] == pytest.approx(math.log(expected), abs=1e-6)


@pytest.mark.parametrize("name", WORKLOADS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    total = TotalError(WORKLOADS[name](), free_roles(WORKLOADS[name]()))
    free = weights(total)
    _, gradient = total(free)
    for role, n in enumerate(total.sizes):
        for stream in range(3):
            direction = np.sin(1 + (stream + 2) * np.arange(n))
            direction -= direction.mean()
            step = 2e-4 * direction / np.abs(direction).max()
            above, below = list(free), list(free)
            above[role], below[role] = free[role] + step, free[role] - step
            slope = (total(above)[0] - total(below)[0]) / 2
            assert gradient[role] @ step == pytest.approx(slope, rel=5e-3, abs=3e-7)


def test_symmetric_attributes_stay_uniform() -> None:
    made = workload([A, B, C], family(Marginal(A), Circular(B), Marginal(C), choose=(1, 3), name="all"))
    assert free_roles(made) == []
    assert optimised_centrings(made) == []


def test_attributes_share_weights_only_where_size_and_factors_agree() -> None:
    made = workload(
        [A, B, C, integer("d", 4), integer("e", 4)],
        family(Prefix(A), Prefix(B), Prefix(C), Prefix(integer("e", 4)), choose=(1, 2), name="p"),
        family(Range(integer("d", 4)), Range(integer("e", 4))),
    )
    assert free_roles(made) == [("a", "c"), ("b",), ("d",), ("e",)]


def test_one_product_reaches_the_best_of_any_mechanism() -> None:
    """A prefix marginal on 6^2: the optimum over all matrix mechanisms is the square of that on one axis."""
    x, y = integer("x", 6), integer("y", 6)
    single = compile(workload([x], family(Prefix(x), name="f")), blocks=[["f"]], gap=1e-8)
    made = workload([x, y], family(Prefix(x), Prefix(y), name="f"))
    assert compile(made, gap=1e-8).sse() > 1.05 * single.sse() ** 2
    assert compile(made, centring="optimised", gap=1e-8).sse() == pytest.approx(single.sse() ** 2, rel=1e-5)


def test_the_weights_of_a_product_have_a_closed_form() -> None:
    """u = V^-1 1 / (1' V^-1 1) for the unrestricted optimum V of one axis: heavier at both ends."""
    x, y = integer("x", 12), integer("y", 12)
    block = compile(workload([x], family(Prefix(x), name="f")), blocks=[["f"]], gap=1e-9)
    (b,) = block.strategies[0].factors([0])
    expected = np.linalg.solve(b.T @ b, np.ones(12))
    (found,) = optimised_centrings(workload([x, y], family(Prefix(x), Prefix(y))))
    u = found["x"]
    np.testing.assert_allclose(u, expected / expected.sum(), atol=2e-3)
    assert min(u[0], u[-1]) > 1.8 * u[5]


def test_a_light_axis_of_matrix_queries_is_optimised_too() -> None:
    skewed = Matrix([A], np.array([[1.0, 0, 0, 0], [1, 1, 1, 5]]))
    made = workload([A, B], family(skewed, Prefix(B)))
    assert compile(made, centring="optimised", gap=1e-7).sse() < 0.999 * compile(made, gap=1e-7).sse()


def test_attributes_of_large_sums_stay_uniform_in_the_first_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = integer("x", 6), integer("y", 6), integer("z", 6)
    made = workload([x, y, z], family(Prefix(x), Prefix(y)), family(Abs([x, y], [1, -1])), family(Prefix(z), Prefix(x)))
    assert len(optimised_centrings(made)) == 1
    monkeypatch.setattr("qcompile.compiler.total_error.DENSE_CELLS", 20)
    certain, bold = optimised_centrings(made)
    assert set(certain) == {"z"}
    assert set(bold) == {"x", "y", "z"}
    plain = compile(made)
    assert compile(made, centring=certain).sse() < plain.sse()
    assert compile(made, centring="optimised").sse() <= compile(made, centring=certain).sse() * (1 + 1e-9)
    monkeypatch.setattr("qcompile.compiler.centring.TRUSTED_CELLS", 30)
    assert len(optimised_centrings(made)) == 1


def test_a_single_query_is_solved_where_a_search_would_not_leave_the_wrong_cell() -> None:
    root = np.array([[0.3, -0.7]])
    found = envelope(root, (2,), np.array([1.0, 0.0]), 1e-9)
    assert found.loss == pytest.approx(0.49)
    np.testing.assert_array_equal(found.mu, [0, 1])
