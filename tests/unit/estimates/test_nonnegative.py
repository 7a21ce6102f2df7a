"""Projection on non-negative tables, and rounding to whole numbers: against solvers, definitions and hostile input."""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qcompile.errors import InternalError
from qcompile.estimates.nonnegative import LARGEST, integers, nonnegative, threshold
from qcompile.support.arrays import LARGEST_EXACT, Array, IntArray

numbers = st.floats(-1e6, 1e6)
tables = hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, max_side=5), elements=numbers)
totals = st.floats(1e-3, 1e6)


def skewed(n: int) -> Array:
    """Few large cells, many small ones, and noise."""
    i = np.arange(n)
    return np.asarray(1e4 / (1.0 + i % 997) ** 1.5 + 40 * np.sin(1.7 * i) + 10 * np.sin(0.3 * i**1.5))


def by_sorting(table: Array, total: float) -> Array:
    """The projection by its textbook algorithm (Held, Wolfe, Crowder 1974)."""
    x = np.sort(table.ravel())[::-1]
    excess = (np.cumsum(x) - total) / np.arange(1, x.size + 1)
    return np.asarray(np.maximum(table - excess[np.flatnonzero(x > excess)[-1]], 0))


@pytest.mark.parametrize("total", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_projection_solves_the_quadratic_program(n: int, total: float) -> None:
    table = 10 * np.sin(1.0 + 2.3 * np.arange(n))
    x = cp.Variable(n)
    cp.Problem(cp.Minimize(cp.sum_squares(x - table)), [x >= 0, cp.sum(x) == total]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(nonnegative(table, total), x.value, atol=1e-5)


@given(tables, totals)
def test_projection_is_the_nearest(table: Array, total: float) -> None:
    """Karush, Kuhn and Tucker: one price for all positive cells, at least as high as what the others would pay."""
    x = nonnegative(table, total)
    size = max(1.0, total, float(np.abs(table).max()))
    assert x.shape == table.shape
    assert x.min() >= 0
    assert float(x.sum()) == pytest.approx(total, rel=1e-12, abs=1e-15 * size)
    price = threshold(table, total)
    np.testing.assert_allclose((table - x)[x > 0], price, rtol=0, atol=1e-14 * size)
    assert (table[x == 0] <= price + 1e-14 * size).all()
    np.testing.assert_allclose(x, by_sorting(table, total), rtol=0, atol=1e-12 * size)


@given(tables, totals)
def test_projection_keeps_the_order_and_repeats_itself(table: Array, total: float) -> None:
    x = nonnegative(table, total)
    order = np.argsort(table, axis=None)
    assert (np.diff(x.ravel()[order]) >= 0).all()
    np.testing.assert_allclose(nonnegative(x, total), x, rtol=0, atol=1e-12 * total)


@given(tables, totals, st.floats(-1e5, 1e5))
def test_projection_does_not_see_a_constant(table: Array, total: float, constant: float) -> None:
    """It is a function of differences of cells."""
    size = max(1.0, total, float(np.abs(table).max()), abs(constant))
    moved = nonnegative(table + constant, total)
    np.testing.assert_allclose(moved, nonnegative(table, total), rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("total", [1e-6, 10.0, 1e6, 1e9])
def test_projection_of_a_large_table(total: float) -> None:
    table = skewed(1_000_000).reshape(100, 100, 100)
    before = table.copy()
    x = nonnegative(table, total)
    np.testing.assert_array_equal(table, before)
    assert float(x.sum()) == pytest.approx(total, rel=1e-11)
    assert x.min() == 0 or total == 1e9
    price = threshold(table, total)
    np.testing.assert_allclose((table - x)[x > 0], price, rtol=1e-12, atol=1e-9)
    assert (table[x == 0] <= price + 1e-9).all()
    assert 0 < np.count_nonzero(x) <= table.size


def test_projection_where_every_pass_drops_little() -> None:
    """Cells in a geometric sequence: the worst case of the method."""
    table: Array = np.exp2(np.arange(-300.0, 300.0))
    for total in (1e-80, 1.0, 1e80):
        np.testing.assert_allclose(nonnegative(table, total).sum(), total, rtol=1e-12)
        np.testing.assert_allclose(nonnegative(-table, total), by_sorting(-table, total), rtol=1e-9, atol=1e-12 * total)


def test_a_total_far_below_the_cells_is_met() -> None:
    """No digits cancel: relative to the largest cells nothing is lost."""
    np.testing.assert_array_equal(nonnegative(np.array([1e15, 1e15, 0.0]), 2.0**-40), [2.0**-41, 2.0**-41, 0])
    np.testing.assert_array_equal(nonnegative(np.array([1e17, -1e17]), 5e-324), [5e-324, 0])
    np.testing.assert_array_equal(nonnegative(np.array([-1e15, -1e15 - 4]), 6.0), [5.0, 1.0])


@pytest.mark.parametrize("total", [0.0, -0.0, -1.0, -1e100])
def test_no_total_no_counts(total: float) -> None:
    table = np.array([[1.0, -2.0], [3.0, 0.0]])
    np.testing.assert_array_equal(nonnegative(table, total), np.zeros((2, 2)))
    assert threshold(table, total) == 3.0
    whole = integers(np.zeros((2, 2)), total)
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(whole, np.zeros((2, 2)))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
@pytest.mark.parametrize("cell", [-7.5, 0.0, 2.0, 1e200])
def test_a_single_cell_is_the_total(shape: tuple[int, ...], cell: float) -> None:
    x = nonnegative(np.full(shape, cell), 3.75)
    assert x.shape == shape
    assert float(x.sum()) == 3.75
    assert integers(x, 3.75).tolist() == np.full(shape, 4).tolist()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, LARGEST, -LARGEST, 1e300])
def test_numbers_must_be_finite(bad: float) -> None:
    table = np.array([1.0, 2.0, 3.0])
    spoilt = np.array([1.0, bad, 3.0])
    for process in (nonnegative, threshold, integers):
        with pytest.raises(InternalError, match="must be finite"):
            process(spoilt, 6.0)
        with pytest.raises(InternalError, match="must be finite"):
            process(table, bad)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_a_table_has_cells(shape: tuple[int, ...]) -> None:
    for process in (nonnegative, threshold, integers):
        for total in (1.0, 0.0):
            with pytest.raises(InternalError, match="no cells"):
                process(np.zeros(shape), total)


def nearest_whole(table: Array, total: int) -> float:
    """The least sum of absolute differences of whole numbers with that total, by trying all near ones."""
    choices = [range(max(0, math.floor(v) - 1), math.floor(v) + 3) for v in table.tolist()]
    return min(float(np.abs(np.array(c) - table).sum()) for c in itertools.product(*choices) if sum(c) == total)


@given(hnp.arrays(np.float64, st.integers(1, 5), elements=st.floats(0, 4)))
def test_rounding_is_the_nearest(table: Array) -> None:
    total = float(table.sum())
    whole = integers(table, total)
    assert int(whole.sum()) == round(total)
    assert float(np.abs(whole - table).sum()) == pytest.approx(nearest_whole(table, round(total)), abs=1e-9)


@given(tables, totals)
def test_rounding_keeps_the_total_and_the_cells(table: Array, total: float) -> None:
    x = nonnegative(table, total)
    whole = integers(x, total)
    assert whole.dtype == np.int64
    assert whole.shape == table.shape
    assert whole.min() >= 0
    assert int(whole.sum()) == round(total)
    assert (np.abs(whole - x) < 1).all()
    np.testing.assert_array_equal(integers(whole.astype(np.float64), float(whole.sum())), whole)


def test_rounding_a_large_table() -> None:
    x = nonnegative(skewed(1_000_000), 48_842.4)
    whole = integers(x, 48_842.4)
    assert int(whole.sum()) == 48_842
    assert (np.abs(whole - x) < 1).all()
    down = np.floor(x)
    up = whole > down
    assert (x - down)[up].min() >= (x - down)[~up].max()


def test_equal_remainders_are_rounded_up_in_order() -> None:
    table = np.array([[0.5, 1.25, 0.5], [2.5, 0.25, 1.0]])
    np.testing.assert_array_equal(integers(table, 6.0), np.array([[1, 1, 1], [2, 0, 1]]))
    thirds: IntArray = integers(np.full(7, 1 / 7), 1.0)
    assert thirds.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert integers(np.array([0.25, 0.25]), 0.5).tolist() == [0, 0]  # halves are rounded to even totals
    assert integers(np.array([0.75, 0.75]), 1.5).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("table", "total"), [([-0.5, 1.5], 1.0), ([-1e-300, 1.0], 1.0), ([LARGEST_EXACT, 0.0], LARGEST_EXACT)]
)
def test_only_counts_are_rounded(table: list[float], total: float) -> None:
    with pytest.raises(InternalError, match=r"must be in 0\.\.2\^53"):
        integers(np.array(table), total)


@pytest.mark.parametrize("total", [0.0, 2.0, 5.0, 100.0])
def test_a_table_is_rounded_to_its_own_total(total: float) -> None:
    with pytest.raises(InternalError, match="cannot be rounded to the total"):
        integers(np.array([1.5, 2.0]), total)
