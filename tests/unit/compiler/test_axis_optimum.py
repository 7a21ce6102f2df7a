"""Centring weights in closed form: the split of an axis's own optimum loses nothing."""

import math

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.compiler import axis_optimum
from qcompile.compiler.axis_optimum import axis_weights
from qcompile.compiler.centring import free_roles, optimised_centrings
from qcompile.compiler.total_error import TotalError
from qcompile.lattice.gram import Gram
from qcompile.lattice.projection import Projection, zero_weights
from qcompile.queries.factors import Abs, Affine, Prefix, Range
from qcompile.queries.factors.base import OneAttribute
from qcompile.solvers.composite.kronecker import group_problem
from qcompile.solvers.exact.optimal import Optimal
from tests.conformance.helpers import family, integers, workload


@pytest.mark.parametrize("size", [2, 7, 60])
@pytest.mark.parametrize("kind", [Prefix, Range])
def test_a_single_family_reaches_the_optimum_of_all_mechanisms(kind: type[OneAttribute], size: int) -> None:
    (a,) = integers(size)
    made = workload([a], family(kind(a), name="p"))
    u = axis_weights(made, "a")
    assert u is not None
    gram = Projection(kind(a), (True,), (zero_weights(size),)).gram()
    assert isinstance(gram, Gram)
    optimum = Optimal(1e-8).solve(group_problem(gram, uniform=False))
    plan = compile(made, centring={"a": u}, gap=1e-7)
    assert plan.sse() == pytest.approx(optimum.loss, rel=2e-5)
    assert plan.sse() >= optimum.bound * (1 - 1e-9)


def test_the_search_is_never_worse_than_its_start_and_needs_few_steps_from_the_optimum() -> None:
    (a,) = integers(100)
    made = workload([a], family(Prefix(a), name="p"))
    seen: list[int] = []
    (found,) = optimised_centrings(made, progress=lambda done, total: seen.append(done))
    assert len(seen) < 12
    total = TotalError(made, free_roles(made))
    start = axis_weights(made, "a")
    assert start is not None
    assert total([found["a"]])[0] - 1e-12 <= total([start])[0] < total([np.full(100, 0.01)])[0] - 1e-3


def test_families_across_attributes_are_contracted_with_equal_weights() -> None:
    a, b = integers(5, 6)
    made = workload([a, b], family(Affine([a, b], [1, 1]), name="s"), family(Abs([a, b], [1, -1]), name="g"))
    for name, size in (("a", 5), ("b", 6)):
        u = axis_weights(made, name)
        assert u is not None
        assert u.shape == (size,)
        assert u.sum() == pytest.approx(1)
    assert axis_weights(made, "a", apart=["s", "g"]) is None


def test_axes_that_are_too_long_have_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    (a,) = integers(30)
    made = workload([a], family(Range(a), name="p"))
    monkeypatch.setattr(axis_optimum, "LARGEST_CELLS", 29)
    assert axis_weights(made, "a") is None
    assert free_roles(workload(integers(5000), family(Prefix(*integers(5000))))) == []


def test_an_axis_too_long_to_be_searched_takes_its_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    (a,) = integers(40)
    made = workload([a], family(Prefix(a), name="p"))
    for module in ("total_error", "centring"):
        monkeypatch.setattr(f"qcompile.compiler.{module}.WORK", 40**3 - 1.0)
    candidates = optimised_centrings(made)
    start = axis_weights(made, "a")
    assert start is not None
    np.testing.assert_allclose(candidates[-1]["a"], start)
    optimised, plain = compile(made, centring="optimised"), compile(made)
    assert math.sqrt(optimised.sse() / plain.sse()) < 0.99
