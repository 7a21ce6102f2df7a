"""Post-processing of an estimated table: non-negative cells, whole numbers. It costs no privacy.

All that is used is the estimate itself and its estimated total. Results are biased: the noise of cells near zero is
cut off on one side only.
"""

from __future__ import annotations

import numpy as np

from qcompile.errors import InternalError
from qcompile.support.arrays import LARGEST_EXACT, Array, IntArray

LARGEST = 2.0**900
"""Cells and totals are below this in size, so that sums and differences of them are finite."""


def nonnegative(table: Array, total: float) -> Array:
    """The nearest table, by the sum of squared differences, with cells >= 0 that sum to ``total``.

    Args:
      table: estimates in counts, any shape with at least one cell.
      total: in counts; where it is not above 0 the result is all 0.

    Returns:
      ``max(table - t, 0)`` with t as `threshold` gives it: the order of cells is kept; their sum is the total but for
      rounding.

    Raises:
      InternalError: the table is empty, or a number in it is not finite and of reasonable size.

    References:
      Michelot 1986, A finite algorithm for finding the projection of a point onto the canonical simplex.
    """
    _require(table, total)
    if total <= 0:
        return np.zeros(table.shape)
    top = table.max()
    excess = np.asarray(table - top)  # relative to the largest cell no digits cancel
    excess -= _shift(excess.ravel(), total)
    return np.asarray(np.maximum(excess, 0.0, out=excess))


def threshold(table: Array, total: float) -> float:
    """The number t with ``sum(max(table - t, 0)) = total``; the largest cell where the total is not above 0.

    Args:
      table: any shape with at least one cell, in counts.
      total: in counts.

    Raises:
      InternalError: the table is empty, or a number in it is not finite and of reasonable size.
    """
    _require(table, total)
    top = float(table.max())
    return top + _shift((table - top).ravel(), total) if total > 0 else top


def _shift(excess: Array, total: float) -> float:
    """The threshold of a vector whose largest entry is 0, for a total > 0.

    Newton's method from the left: what is below the threshold of all that is left is dropped, until nothing is. Some
    ten passes over ever fewer cells.
    """
    held = excess[excess >= -total]  # what is farther below the largest cell is 0 for certain
    while True:
        shift = (float(held.sum()) - total) / held.size
        above = held[held >= shift]
        if above.size == held.size:
            return shift
        held = above


def integers(table: Array, total: float) -> IntArray:
    """The nearest whole numbers, by the sum of absolute differences, that sum to the rounded total.

    Cells are rounded down, and those with the largest remainders up; of equal remainders the first in C order.

    Args:
      table: non-negative counts with sum ``total``, as `nonnegative` returns them.
      total: in counts; 0 where it is negative.

    Returns:
      Whole numbers >= 0 that differ from the cells by less than 1, the same shape, with sum ``rint(max(total, 0))``.

    Raises:
      InternalError: the table is empty, has a cell that is negative or above 2^53, or does not sum to the total.
    """
    _require(table, total)
    if not 0 <= float(table.min()) <= float(table.max()) < LARGEST_EXACT:  # beyond, doubles are whole numbers already
        raise InternalError(f"cells to round must be in 0..2^53, got {table.min()} to {table.max()}")
    down = np.floor(table)
    remainders = (table - down).ravel()
    whole = down.astype(np.int64).ravel()
    missing = round(max(total, 0.0)) - int(whole.sum())
    if not 0 <= missing <= np.count_nonzero(remainders):
        raise InternalError(f"a table that sums to {float(table.sum())!r} cannot be rounded to the total {total!r}")
    whole[_largest(remainders, missing)] += 1
    return np.asarray(whole.reshape(table.shape))


def _largest(values: Array, count: int) -> IntArray:
    """Positions of the ``count`` largest values; of equal ones the first."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    least = np.partition(values, values.size - count)[values.size - count]
    above = np.flatnonzero(values > least)
    return np.concatenate([above, np.flatnonzero(values == least)[: count - above.size]])


def _require(table: Array, total: float) -> None:
    if table.size == 0:
        raise InternalError(f"a table of shape {table.shape} has no cells to process")
    low, high = float(table.min()), float(table.max())
    if not (-LARGEST < low <= high < LARGEST and -LARGEST < total < LARGEST):  # a NaN fails every comparison
        raise InternalError(f"a table must be finite to be processed, got cells {low} to {high} and total {total!r}")
