"""Shrinking a measured table towards its reference, cell by cell.

A measurement says ``d = deviation + noise`` about the deviation of a table from its reference. Deviations are larger
where the reference is: a cell that is expected to hold three rows is rarely off by thirty, one with a thousand may be.
So deviations are taken as normal with mean 0 and a variance that grows with the reference count, which is estimated
from all cells together: empirical Bayes. Cells are grouped by half powers of two of the reference; the mean of d^2 in a
group estimates variance plus noise, and the maximum likelihood estimate under monotone growth is their isotonic
regression (pool adjacent violators), cut off at the noise. There is no parameter to tune.
"""

from __future__ import annotations

import numpy as np

from qcompile.support.arrays import Array, IntArray

GROUPS = 128
"""Number of groups of cells: half powers of two of the reference count, from 2^-16 to 2^48."""

_SMALLEST = -32


def weights(deviation: Array, reference: Array, noise: float) -> Array:
    """The factor by which each cell's deviation is shrunk, between 0 and 1.

    Args:
      deviation: d, measured minus expected, any shape.
      reference: the expected counts, >= 0, the same shape.
      noise: variance of the noise in a cell of d.

    Returns:
      ``v / (v + noise)`` with v the variance of true deviations, the same shape.
    """
    from scipy.optimize import isotonic_regression

    if noise == 0:
        return np.ones(deviation.shape)
    group = _groups(reference)
    size = np.bincount(group, minlength=GROUPS)
    squares = np.bincount(group, weights=np.square(deviation).ravel(), minlength=GROUPS)
    held = size > 0
    total = isotonic_regression(squares[held] / size[held], weights=size[held]).x
    believed = np.zeros(GROUPS)
    believed[held] = np.maximum(0.0, 1 - noise / np.maximum(total, noise))
    return np.asarray(believed[group].reshape(deviation.shape))


def _groups(reference: Array) -> IntArray:
    """``floor(2 log2 q)`` of each cell, within the groups; cells where q is 0 are in the smallest."""
    squares = np.square(reference).ravel()
    _, exponent = np.frexp(squares)
    exponent[squares == 0] = _SMALLEST
    return np.asarray(np.clip(exponent - _SMALLEST, 0, GROUPS - 1), dtype=np.int64)
