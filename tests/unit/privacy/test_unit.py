"""Privacy units: what they are called, how far apart neighbouring tables are, what bounds carry over to them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.lattice.lattice import Problem
from qcompile.privacy.unit import NEIGHBOURS, PrivacyUnit
from qcompile.queries.factors import Prefix
from qcompile.queries.schema import Attribute, IntegerDomain, Policy, Schema
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.strategy import Strategy
from tests.conformance.helpers import family, workload

SIZE = 5
PLAN = compile(workload([a := Attribute("a", IntegerDomain(0, SIZE - 1))], family(Prefix(a), name="sums")))
UNITS = list(itertools.product(NEIGHBOURS, (1, 3), (True, False)))


def unit(neighbours: str, contributions: int = 1, fixed_rows: bool = True) -> PrivacyUnit:
    return PrivacyUnit(neighbours=neighbours, contributions=contributions, fixed_rows=fixed_rows)


def prefix_strategy() -> Strategy:
    return max(PLAN.strategies, key=lambda s: s.rows)


def prefix_problem() -> Problem:
    return max(PLAN.closure.classes, key=lambda p: p.cells)


def dense(strategy: Strategy) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """B, ``(rows, cells)``."""
    return np.stack([strategy.apply(row.reshape(strategy.shape)) for row in np.eye(SIZE)], axis=1)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (unit("add-remove"), "one row added or removed"),
        (unit("add-remove", 3), "up to 3 rows added or removed"),
        (unit("replace-one"), "one row replaced by another"),
        (unit("replace-one", fixed_rows=False), "one row replaced by another, or by one that is dropped"),
        (unit("replace-one", 2), "up to 2 rows replaced by up to 2 others"),
    ],
)
def test_a_unit_says_what_may_change(made: PrivacyUnit, text: str) -> None:
    assert str(made) == text


@pytest.mark.parametrize("kind", ["clip", "drop"])
def test_a_dropped_row_makes_the_number_of_rows_private(kind: Literal["clip", "drop"]) -> None:
    schema = Schema((Attribute("a", IntegerDomain(0, 4), Policy(kind)),))
    made = PrivacyUnit.of("replace-one", 1, schema)
    assert made.fixed_rows == made.public_total == (kind == "clip")


@pytest.mark.parametrize(("neighbours", "contributions", "fixed_rows"), UNITS)
def test_only_one_replaced_row_leaves_the_total_public(neighbours: str, contributions: int, fixed_rows: bool) -> None:
    made = unit(neighbours, contributions, fixed_rows)
    assert made.public_total == (neighbours == "replace-one" and contributions == 1 and fixed_rows)
    assert made.most_rows == contributions * (2 if neighbours == "replace-one" else 1)


@pytest.mark.parametrize(("neighbours", "contributions", "fixed_rows"), UNITS)
def test_sensitivity_is_that_of_all_pairs_of_tables(neighbours: str, contributions: int, fixed_rows: bool) -> None:
    """Against every extreme pair of histograms: each all in one cell, or empty where the unit allows that."""
    made, strategy = unit(neighbours, contributions, fixed_rows), prefix_strategy()
    columns = dense(strategy).T * contributions
    ends = [*columns] if made.public_total else [*columns, np.zeros_like(columns[0])]
    others = ends if neighbours == "replace-one" else [np.zeros_like(columns[0])]
    largest = max(float(((x - y) ** 2).sum()) for x in ends for y in others)
    bound = made.sensitivity_squared(strategy)
    assert isinstance(bound, Fraction)
    assert float(bound) == pytest.approx(largest, rel=1e-9)
    assert float(bound) >= largest * (1 - 1e-12)
    assert made.predicted(strategy) == pytest.approx(float(bound), rel=1e-9)


def test_bounds_grow_with_the_square_of_the_rows() -> None:
    problem = prefix_problem()
    assert unit("add-remove", 3).certified(problem, 2.0, centred=True) == 18
    assert unit("add-remove", 3).certified(problem, 2.0, centred=False) == 18


def test_a_replaced_row_is_bounded_by_the_average_over_pairs_too() -> None:
    """The larger of the two bounds counts; both hold for a centred node, none is known for a block."""
    problem, made = prefix_problem(), unit("replace-one", 2)
    averaged = 2 * SIZE / (SIZE - 1) * lower_bound(problem)
    assert problem.uniform
    assert averaged > 0
    assert made.certified(problem, 0.0, centred=True) == pytest.approx(4 * averaged)
    assert made.certified(problem, 10 * averaged, centred=True) == pytest.approx(40 * averaged)
    assert made.certified(problem, 10 * averaged, centred=False) == 0
    skewed = Problem(problem.shape, problem.terms, uniform=False)
    assert made.certified(skewed, 0.5, centred=True) == 2


def test_a_public_total_costs_nothing() -> None:
    single = Problem((), (), uniform=True)
    assert unit("replace-one").certified(single, 2.0, centred=True) == 0
    assert unit("replace-one", fixed_rows=False).certified(single, 2.0, centred=True) == 2
    assert unit("add-remove", 2).certified(single, 2.0, centred=True) == 8
