"""Counts of 2^31 and totals of 10^12: without noise, answers are what Python's integers give.

What holds, and what is asserted here. A measurement is a double, so it errs by some 2^-53 of the rows on its node's
cells, and an answer inherits a share of that:

- where cells are of comparable size, every answer is within 1e-12 of itself (3e-14 was measured);
- an answer much smaller than an even spread of the same rows over all cells would give, such as a count of 2 beside a
  total of 10^12, is within 1e-12 of the latter (2e-13 was measured). No reconstruction could do better: the
  measurements do not hold more digits.

With noise this error stays far below the grid of the measurements, which are whole multiples of it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qcompile.api import Plan, Release, compile
from qcompile.data import GivenCounts
from qcompile.errors import DataError
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Prefix, Range
from qcompile.queries.factors.threshold import Threshold
from qcompile.queries.schema import IntegerDomain, Schema
from qcompile.queries.workload import Family, Product, Workload
from qcompile.support.arrays import IntArray
from tests.conformance.cases import Case
from tests.conformance.helpers import UNIT, family, integer, integers, workload

TOLERANCE = Fraction(1, 10**12)

Rows = list[list[Fraction | int]]
"""Queries of a factor: per query its value on each cell, C order."""


# --- the definitions, in Python integers ---


def one_attribute(factor: Factor, n: int) -> Iterator[set[int]]:
    """The cells of each query, in query order."""
    match factor:
        case Marginal():
            yield from ({i} for i in range(n))
        case Prefix():
            yield from (set(range(c + 1)) for c in range(n))
        case Range():
            yield from (set(range(low, high + 1)) for low in range(n) for high in range(low, n))
        case Circular():
            yield from ({(s + k) % n for k in range(size)} for s in range(n) for size in range(1, n + 1))
        case _:
            raise TypeError(type(factor))


def thresholds(factor: Threshold) -> Rows:
    values = []
    for cell in itertools.product(*map(range, factor.shape)):
        domains = [a.domain for a in factor.attributes]
        lows = [d.low for d in domains if isinstance(d, IntegerDomain)]
        form = factor.constant + sum(c * (low + i) for c, low, i in zip(factor.coefficients, lows, cell, strict=True))
        values.append(abs(form) if isinstance(factor, Abs) else form)
    levels = sorted(set(values)) if factor.thresholds is None else factor.thresholds
    return [[int(v >= c if factor.at_least else v <= c) for v in values] for c in levels]


@cache
def queries(factor: Factor) -> Rows:
    if isinstance(factor, Threshold):
        return thresholds(factor)
    if isinstance(factor, Marginal | Prefix | Range | Circular):
        return [[int(i in cells) for i in range(factor.shape[0])] for cells in one_attribute(factor, factor.shape[0])]
    table = factor.contract([None] * len(factor.shape)).reshape(factor.count, -1)  # given, not computed
    return [[Fraction(float(v)) if isinstance(factor, Matrix) else int(v) for v in row] for row in table]


def exact(product: Product, schema: Schema, x: npt.NDArray[Any]) -> list[Fraction | int]:
    """All answers of a product to exact counts, one factor after another, in query order.

    Args:
      product: the queries.
      schema: gives the axes of ``x``.
      x: an object array of Python integers over the whole schema.
    """
    gone = tuple(i for i, name in enumerate(schema.names) if name not in product.names)
    kept = [name for name in schema.names if name in product.names]
    x = np.asarray(x.sum(axis=gone), dtype=object).transpose([kept.index(name) for name in product.names])
    for f in product.factors:
        cells = x.reshape(int(np.prod(f.shape)), -1)
        answers = [sum(cells[i] * v for i, v in enumerate(row) if v) + 0 * cells[0] for row in queries(f)]
        # This factor's queries go behind those of the factors before it, the axes of the others stay in front.
        x = np.moveaxis(np.array(answers, dtype=object).reshape(-1, *x.shape[len(f.shape) :]), 0, -1)
    return list(x.ravel())


def even_spread(product: Product) -> list[Fraction]:
    """The share of all rows that each query would count, signs aside, if every cell held the same."""
    shares = [Fraction(1)]
    for f in product.factors:
        rows = queries(f)
        mine = [sum((abs(Fraction(v)) for v in row), Fraction(0)) / len(row) for row in rows]
        shares = [a * b for a in shares for b in mine]
    return shares


def worst(release: Release, x: IntArray, *, absolute: bool) -> Fraction:
    """The largest error of any answer relative to its true value, or to that of evenly spread rows if larger."""
    schema, table = release.plan.workload.schema, x.astype(object)
    total, largest = int(table.sum()), Fraction(0)
    for f in release.plan.workload.families:
        estimates = release.answers(f.name)["estimate"].to_pylist()
        truths = [t for p in f.products() for t in exact(p, schema, table)]
        spread = [s for p in f.products() for s in even_spread(p)]
        for estimate, truth, share in zip(estimates, truths, spread, strict=True):
            scale = max(abs(Fraction(truth)), share * total if absolute else Fraction(0))
            error = abs(Fraction(estimate) - truth)
            assert scale or not error
            largest = max(largest, error / scale if scale else Fraction(0))
    return largest


# --- every solver on small domains ---


def cells_of(w: Workload) -> tuple[tuple[int, ...], IntArray]:
    shape = w.schema.shape(w.schema.names)
    return shape, np.arange(int(np.prod(shape)), dtype=np.int64)


def near_two_to_31(w: Workload) -> IntArray:
    """Every cell within a million of 2^31."""
    shape, i = cells_of(w)
    return np.asarray(2**31 - i * 7919 % 1_000_003).reshape(shape)


def to_ten_to_12(w: Workload) -> IntArray:
    """A total of 10^12 exactly, cells within a factor of 2."""
    shape, i = cells_of(w)
    x = 10**12 // (2 * len(i)) + i * 2_654_435_761 % (10**12 // (2 * len(i)))
    x[0] += 10**12 - x.sum()
    return np.asarray(x).reshape(shape)


def uneven(w: Workload) -> IntArray:
    """Cells of 0, 1 and 2^31, and one that makes the total 10^12."""
    shape, i = cells_of(w)
    x = np.where(i % 3 == 0, 2**31, i % 2)
    x[-1] += 10**12 - x.sum()
    return np.asarray(x).reshape(shape)


KINDS = (
    "total of nothing else",
    "one attribute of each kind",
    "marginals up to three ways",
    "prefixes up to three ways",
    "circular pairs",
    "affine out of order",
    "affine of three",
    "mixed on one pair",
    "random",
    "single predicates",
    "hybrid",
)
CASES = [
    *(Case(name, solver) for name in KINDS for solver in ("auto", "rp", "wff")),
    *(Case(name, solver) for name in KINDS[:2] + KINDS[-4:] for solver in ("exact", "conic", "rp+")),
    *(Case(name, "auto", skewed=True) for name in KINDS),
    *(Case(name, "auto", optimised=True) for name in KINDS),
    *(Case(name, "auto", optimised=True, blocks="auto") for name in KINDS[1::3]),
    *(Case(name, "auto", skewed=True, blocks="dealt") for name in KINDS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_without_noise_are_those_of_whole_numbers(case: Case) -> None:
    plan = case.plan(1e-3)
    names = plan.workload.schema.names
    for counts, absolute in ((near_two_to_31, False), (to_ten_to_12, False), (uneven, True)):
        x = counts(plan.workload)
        release = plan.run({names: x}, UNIT, noise="none")
        assert worst(release, x, absolute=absolute) <= TOLERANCE, counts.__name__


def test_weighted_queries_of_either_sign() -> None:
    """Their answers may cancel to nothing, so their error is relative to what was added and subtracted."""
    plan = Case("matrix with a constant row", "auto").plan(1e-3)
    x = near_two_to_31(plan.workload)
    release = plan.run({plan.workload.schema.names: x}, UNIT, noise="none")
    assert worst(release, x, absolute=True) <= TOLERANCE


# --- one domain of 500 cells, each of 2^31 rows ---

A, B = integer("a", 10, low=-3), integer("b", 50)
FAMILIES = (
    family(name="total"),
    family(Prefix(A), Range(B), name="intervals"),
    family(Circular(B), name="circular"),
    family(Affine([A, B], [3, -2]), name="affine"),
    family(Abs([A, B], [1, -1]), name="abs"),
    family(Marginal(A), Marginal(B), name="cells"),
)


def many(families: tuple[Family, ...]) -> tuple[Workload, IntArray]:
    w = workload([A, B], *families)
    x = near_two_to_31(w)
    assert x.sum() > 10**12
    return w, x


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile(many(FAMILIES)[0])


@pytest.fixture(scope="module")
def release(plan: Plan) -> Release:
    return plan.run({("a", "b"): many(FAMILIES)[1]}, UNIT, noise="none")


def test_ten_to_12_rows_on_500_cells(release: Release) -> None:
    assert worst(release, many(FAMILIES)[1], absolute=False) <= TOLERANCE


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("a",), ("b",), ()])
def test_marginals_of_huge_counts(names: tuple[str, ...], release: Release) -> None:
    x = many(FAMILIES)[1].astype(object)
    true = x.sum(axis=tuple(i for i, n in enumerate("ab") if n not in names))
    true = np.asarray(true.T if names == ("b", "a") else true, dtype=object)
    found = release.marginal(names).array
    assert found.shape == true.shape
    for estimate, truth in zip(found.ravel().tolist(), true.ravel().tolist(), strict=True):
        assert abs(Fraction(estimate) - truth) <= TOLERANCE * truth


QUESTIONS: dict[str, Callable[[int, int], bool]] = {
    "total": lambda a, b: True,
    "count(a = -3)": lambda a, b: a == -3,
    "count(a in -1..4 and b >= 17)": lambda a, b: -1 <= a <= 4 and b >= 17,
    "count(a = b)": lambda a, b: a == b,
    "count(not (a = 0 or b in {3, 5}))": lambda a, b: not (a == 0 or b in (3, 5)),
    "affine(a + b <= 40)": lambda a, b: a + b <= 40,
    "abs(a - 2*b) <= 7": lambda a, b: abs(a - 2 * b) <= 7,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_single_questions_on_huge_counts(question: str, release: Release) -> None:
    text = question.replace("abs(a - 2*b) <= 7", "abs(a - 2*b <= 7)")
    x = many(FAMILIES)[1]
    cells = itertools.product(range(10), range(50))
    truth = sum(int(x[i, j]) for i, j in cells if QUESTIONS[question](i - 3, j))
    assert abs(Fraction(release.ask(text).estimate) - truth) <= TOLERANCE * truth


def test_noise_on_huge_counts_is_the_noise_of_small_ones(plan: Plan) -> None:
    """The same seed adds the same to 10^12 rows as to none, to the last grid step, and rounding errors stay below."""
    x = many(FAMILIES)[1]
    large, small = (plan.run({("a", "b"): t}, Budget(rho=1), test_seed=3) for t in (x, np.zeros_like(x)))
    for index, (y, z) in enumerate(zip(large.values, small.values, strict=True)):
        c = int(plan.closure.class_of[index])
        if c < 0:
            continue
        node = plan.closure.nodes[index]
        table = x.sum(axis=tuple(i for i in range(2) if i not in node)).transpose(plan.closure.orders[index])
        grid = Fraction(large.scales[c].grid)
        for row in range(0, len(y), max(1, len(y) // 10)):
            moved = plan.strategies[c].exact_entries(table)(np.array([row]))[0] / grid
            assert abs(int(y[row]) - int(z[row]) - moved) <= 1
    for name in ("total", "affine"):
        errors = large.answers(name)
        truths = [
            t for f in FAMILIES if f.name == name for p in f.products() for t in exact(p, plan.workload.schema, x)
        ]
        for estimate, error, truth in zip(errors["estimate"], errors["std_error"], truths, strict=True):
            assert abs(estimate.as_py() - truth) < 6 * error.as_py()


# --- the limit ---

SMALL = workload(integers(2), family(Prefix(integers(2)[0])))

HUGE: dict[str, tuple[Any, str]] = {
    "an integer above 2^53": ([2**53 + 1, 0], "from 0 to 2^53"),
    "an integer above 2^63": ([2**63, 0], "from 0 to 2^53"),
    "an integer above 2^64": ([2**70, 1], "from 0 to 2^53"),
    "below -2^64": ([-(2**70), 1], "from 0 to 2^53"),
    "unsigned": (np.array([2**53 + 1, 0], dtype=np.uint64), "from 0 to 2^53"),
    "the largest unsigned": (np.array([2**64 - 1, 0], dtype=np.uint64), "from 0 to 2^53"),
    "a double": ([2.0**54, 0.0], "from 0 to 2^53"),
    "infinity": ([np.inf, 0.0], "from 0 to 2^53"),
    "nan": ([np.nan, 0.0], "from 0 to 2^53"),
    "half a row": ([0.5, 0.5], "from 0 to 2^53"),
    "negative": ([-1, 2], "from 0 to 2^53"),
    "a total above 2^53": ([2**53, 1], "more than 2^53 rows"),
    "a total above 2^53, in doubles": ([2.0**53, 1.0], "more than 2^53 rows"),
    "a total above 2^53, in objects": (np.array([2**53, 1], dtype=object), "more than 2^53 rows"),
    "true and false": ([True, False], "array of whole numbers"),
    "texts": (["1", "2"], "array of whole numbers"),
    "nothing": ([1, None], "array of whole numbers"),
    "fractions": ([Fraction(1), Fraction(2)], "array of whole numbers"),
    "complex": ([1 + 0j, 2], "array of whole numbers"),
}


@pytest.mark.parametrize("name", HUGE)
def test_counts_that_cannot_be_counted_are_refused(name: str) -> None:
    value, message = HUGE[name]
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        GivenCounts.of({("a",): value}, SMALL.schema)
    assert not any(c in str(caught.value) for c in ("9007", "1805", "nan", "inf", "-1"))


def test_a_total_that_wraps_around_in_64_bits_is_refused() -> None:
    """2^11 cells of 2^53 add up to 2^64, which is 0 in 64 bits."""
    schema = Schema((integer("a", 2**11),))
    with pytest.raises(DataError, match="more than 2\\^53 rows"):
        GivenCounts.of({("a",): np.full(2**11, 2**53)}, schema)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.longdouble, object, np.dtype(">i8")])
def test_counts_up_to_2_to_53_are_taken_as_they_are(dtype: Any) -> None:
    x = np.array([2**53 - 5, 5], dtype=dtype)
    counts = GivenCounts.of({("a",): x}, SMALL.schema)
    assert counts.table(("a",)).tolist() == [2**53 - 5, 5]
    assert counts.total == 2**53
    release = compile(SMALL).run({("a",): x}, UNIT, noise="none")
    assert worst(release, np.array([2**53 - 5, 5]), absolute=True) <= TOLERANCE


def test_half_precision_is_exact_where_it_reaches() -> None:
    assert GivenCounts.of({("a",): np.array([2048, 3], dtype=np.float16)}, SMALL.schema).total == 2051
