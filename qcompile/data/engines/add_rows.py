"""Adding encoded rows to a table of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.support.arrays import IntArray

BLOCK = 2**16
"""Rows that are counted at a time: so few that they stay in the processor's cache."""


def add_rows(
    counts: IntArray,
    columns: Sequence[npt.NDArray[Any]],
    shape: Sequence[int],
    weights: npt.NDArray[np.float64] | None = None,
    rows: tuple[int, int] | None = None,
) -> None:
    """Add rows to the counts of their cells, in place.

    Args:
      counts: flat, one entry per cell, C order.
      columns: the codes of each axis, one per row.
      shape: the axes' sizes.
      weights: number of rows that each represents, whole numbers with a sum below 2^53; one each where None.
      rows: first and one behind the last row that is added; all where None.
    """
    first, last = (0, len(columns[0])) if rows is None else rows
    block = max(BLOCK, 4 * len(counts))
    for start in range(first, last, block):
        stop = min(start + block, last)
        cell = np.zeros(stop - start, dtype=np.int64)
        for column, size in zip(columns, shape, strict=True):
            cell *= size
            cell += column[start:stop]
        if weights is None:
            counts += np.bincount(cell, minlength=len(counts))
        else:
            # Doubles add up exactly, as all sums are whole and below 2^53.
            counts += np.bincount(cell, weights[start:stop], minlength=len(counts)).astype(np.int64)
