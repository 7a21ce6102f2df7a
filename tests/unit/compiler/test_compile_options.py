"""Options of compile: every value that makes no sense is refused by name, before any work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.errors import OptionError
from qcompile.queries.factors import Affine, Prefix
from tests.conformance.helpers import family, integers, workload

A, B = integers(3, 3)
MADE = workload([A, B], family(Prefix(A), Prefix(B), name="p"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": "abc"}, "gap must be between 0 and 1"),
        ({"gap": 0.0}, "gap must be between 0 and 1"),
        ({"gap": float("nan")}, "gap must be between 0 and 1"),
        ({"gap": 5, "solver": "rp+"}, "gap must be between 0 and 1"),
        ({"workers": -3}, "workers must be a whole number of threads"),
        ({"workers": True, "solver": "rp+"}, "workers must be a whole number of threads"),
        ({"centring": None}, "centring must be"),
        ({"centring": [1]}, "centring must be"),
        ({"centring": "best"}, "known: uniform, optimised"),
        ({"centring": {"a": [1, 0]}}, "3 finite numbers that sum to 1"),
        ({"centring": {"a": "some"}}, "must be 3 numbers"),
        ({"centring": {"a": [1e7, 1 - 1e7, 0]}}, "so large that digits are lost"),
        ({"centring": "optimised", "solver": "wff"}, "needs uniform centring"),
        ({"solver": "rp+", "strategies": {"a": [["x"]]}}, "must be a matrix of numbers"),
        ({"solver": "rp+", "strategies": {"a": np.ones((2, 2))}}, "3 columns"),
        ({"solver": "rp+", "strategies": {"a": [[0.0, 0, 1]]}}, "on the node of a"),
        ({"solver": "rp+", "strategies": ["haar"]}, "must map attribute names"),
        ({"strategies": {"a": "haar"}}, "are for solver='rp\\+'"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compile(MADE, **options)


def test_given_weights_are_those_of_the_plan() -> None:
    plan = compile(MADE, centring={"a": np.array([0.5, 0.25, 0.25])})
    assert plan.closure.centring[0].tolist() == [0.5, 0.25, 0.25]


def test_factors_that_differ_only_in_the_order_of_their_axes_are_not_equal() -> None:
    first, second = Affine([A, B], [2, 1]), Affine([A, B], [1, 2])
    assert first != second
    assert len({first, second}) == 2
    assert Affine([A, B], [1, 1]) == Affine([A, B], [1, 1])


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(OptionError, match=r"a workload must be .* got int$"):
        compile(123)  # type: ignore[arg-type]
    plan = compile("schema { a : integer 0..3 }\nworkload { m : marginal(a) }")
    with pytest.raises(OptionError, match=r"a budget must be a Budget, such as .* got 1$"):
        plan.summary(1)  # type: ignore[arg-type]
