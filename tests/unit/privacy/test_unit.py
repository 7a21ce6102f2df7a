"""Privacy units: what they are called, how far apart neighbouring tables are, what bounds carry over to them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.errors import OptionError
from qcompile.lattice.lattice import Problem
from qcompile.privacy.unit import MOST_CONTRIBUTIONS, NEIGHBOURS, CountColumn, PrivacyUnit
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


# --- a column of counts ---

SCHEMA = Schema((Attribute("a", IntegerDomain(0, SIZE - 1), Policy("clip")),))
ROWS, CUT, WEIGHTS = CountColumn("n"), CountColumn("n", Fraction(4)), CountColumn("w", Fraction(1), Fraction(1, 4))


def counted(neighbours: str, contributions: int, column: CountColumn | None) -> PrivacyUnit:
    return PrivacyUnit.of(neighbours, contributions, SCHEMA, column)


def histograms(rows: int, most: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """All histograms of up to ``rows`` rows that each stand for 0 to ``most`` rows of one cell."""
    found = {(0,) * SIZE}
    for _ in range(rows):
        found |= {(*h[:i], h[i] + n, *h[i + 1 :]) for h in found for i in range(SIZE) for n in range(1, most + 1)}
    return [np.array(h) for h in sorted(found)]


@pytest.mark.parametrize("column", [CUT, WEIGHTS, CountColumn("n", Fraction(1))], ids=str)
@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_a_row_of_the_data_moves_the_answers_by_at_most_the_sensitivity(
    neighbours: str, contributions: int, column: CountColumn
) -> None:
    """Every pair of neighbours, not only the extreme ones: some pair attains it, none exceeds it."""
    made, strategy = counted(neighbours, contributions, column), prefix_strategy()
    b = dense(strategy)
    tables = np.array(histograms(contributions, column.steps)) @ b.T
    others = tables if neighbours == "replace-one" else np.zeros((1, len(b)))
    gram = tables @ others.T
    squares = (tables**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2 * gram
    assert squares.max() == pytest.approx(float(made.sensitivity_squared(strategy)), rel=1e-9)
    assert made.predicted(strategy) == pytest.approx(squares.max() * float(column.size) ** 2, rel=1e-9)
    assert not made.public_total


@pytest.mark.parametrize("contributions", [1, 3])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_a_unit_of_the_column_is_a_row(neighbours: str, contributions: int) -> None:
    made, rows = counted(neighbours, contributions, ROWS), counted(neighbours, contributions, None)
    assert made.sensitivity_squared(prefix_strategy()) == rows.sensitivity_squared(prefix_strategy())
    assert (made.most_rows, made.public_total, made.largest) == (rows.most_rows, rows.public_total, contributions)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_noise_of_a_plan_is_as_many_times_as_large(neighbours: str) -> None:
    """With the largest count 4 sigma is 4 times, and rho for the same noise 16 times, that of rows."""
    plain, cut = (PrivacyUnit.of(neighbours, 2, SCHEMA, c) for c in (None, CUT))
    for strategy in PLAN.strategies:
        assert cut.sensitivity_squared(strategy) == 16 * plain.sensitivity_squared(strategy)
        assert cut.predicted(strategy) == pytest.approx(16 * plain.predicted(strategy))
        assert cut.most_rows == 4 * plain.most_rows
    assert cut.certified(prefix_problem(), 2.0, centred=True) == pytest.approx(
        16 * plain.certified(prefix_problem(), 2.0, centred=True)
    )
    assert (CUT.steps, WEIGHTS.steps, WEIGHTS.size, counted("add-remove", 3, WEIGHTS).step) == (
        4,
        4,
        Fraction(1, 4),
        0.25,
    )


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (counted("add-remove", 1, ROWS), "one unit of the count column 'n' added or removed"),
        (counted("add-remove", 3, ROWS), "up to 3 units of the count column 'n' added or removed"),
        (counted("replace-one", 1, ROWS), "one unit of the count column 'n' replaced by another"),
        (counted("replace-one", 2, ROWS), "up to 2 units of the count column 'n' replaced by up to 2 others"),
        (
            counted("add-remove", 1, CUT),
            "one row of the data, which counts for up to 4 by column 'n', added or removed",
        ),
        (
            counted("add-remove", 2, WEIGHTS),
            "up to 2 rows of the data, each of which counts for up to 1 (in steps of 0.25) by column 'w', added or "
            "removed",
        ),
        (
            counted("replace-one", 1, CUT),
            "one row of the data, which counts for up to 4 by column 'n', replaced by another, or by one that is "
            "dropped",
        ),
    ],
)
def test_a_unit_says_what_a_row_is(made: PrivacyUnit, text: str) -> None:
    assert str(made) == text


WRONG = [
    ((3,), "count_column must be the name of the column that holds the counts"),
    (("",), "count_column must be the name of the column that holds the counts"),
    ((None, 3), "max_count is about a column of counts, and none is named"),
    ((None, None, 1), "count_step is about a column of counts, and none is named"),
    (("n", None, "0.1"), "give max_count, too"),
    (("n", 0), "max_count=0 must be > 0"),
    (("n", "many"), "max_count='many' is not a finite number"),
    (("n", True), "max_count=True is not a finite number"),
    (("n", 2.5), r"max_count must be a multiple of the step of counts, 1; give for instance max_count=2, or"),
    (("n", "0.5"), r"give for instance max_count=1, or another count_step"),
    (("n", 1, "0.3"), r"the step of counts, 0.3; give for instance max_count=0.9, or"),
    (("n", 2 * 10**9), "max_count can be at most 1,000,000,000 times the step 1"),
    (("n", 10**4, "1e-9"), "times the step 1e-9"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_options_of_counts_are_checked(options: tuple[object, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        CountColumn.of(*options)  # type: ignore[arg-type]


def test_options_of_counts() -> None:
    assert CountColumn.of(None) is None
    assert CountColumn.of("n") == ROWS
    assert CountColumn.of("n", "4") == CountColumn.of("n", 4.0) == CUT
    assert CountColumn.of("w", 3.5, "0.01") == CountColumn("w", Fraction(7, 2), Fraction(1, 100))
    assert str(ROWS) == "each unit of the count column 'n'"


def test_a_unit_of_too_many_steps_is_refused() -> None:
    column = CountColumn.of("n", 10**6)
    assert counted("add-remove", 1000, column).steps == MOST_CONTRIBUTIONS
    with pytest.raises(OptionError, match="contributions=1001 times max_count is beyond"):
        counted("add-remove", 1001, column)
