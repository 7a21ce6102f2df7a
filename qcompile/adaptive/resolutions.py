"""Resolutions at which a candidate marginal is scored: cells, and blocks where its queries add up cells.

A strategy for prefixes, ranges or sums leaves much noise in single cells and little in sums of many. By its cells alone
such a marginal would never be chosen, however wrong the sums are that its families ask for. So it is
scored by blocks of about sqrt(n) neighbouring values on every axis that a family adds up along, too, and the level at
which it is worse beyond the noise counts. A row is in one block: the sensitivity is that of cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qcompile.support.arrays import Array, IntArray


@dataclass(frozen=True, eq=False)
class Level:
    """One resolution of a marginal.

    Attributes:
      starts: per axis, where its blocks begin; None where every value is looked at.
      cells: number of cells at this resolution.
      spread: standard error of such a cell, relative to sigma, when the marginal is measured at cost 1/sigma^2.
      shrunk: whether noise on empty cells is shrunk away.
    """

    starts: tuple[IntArray | None, ...]
    cells: int
    spread: float
    shrunk: bool

    def aggregate(self, table: Array) -> Array:
        """A table at this resolution; itself where that is its cells."""
        for axis, starts in enumerate(self.starts):
            if starts is not None:
                table = np.add.reduceat(table, starts, axis=axis)
        return table

    def count_noisy_cells(self, estimate: Array) -> float:
        """The number of cells of an estimate that carry noise at this resolution."""
        return effective_cells(estimate) if self.shrunk else float(self.cells)


def block_starts(size: int) -> IntArray:
    """First positions of the ``ceil(sqrt(n))`` blocks of n values, whose sizes differ by at most 1."""
    blocks = math.isqrt(size - 1) + 1
    return np.arange(blocks, dtype=np.int64) * size // blocks


def block_matrix(size: int) -> Array:
    """One row per block, with 1 for its values."""
    starts = block_starts(size)
    return np.add.reduceat(np.eye(size), starts, axis=0)


def expected_noise(sigma: float, cell_count: float, spread: float) -> float:
    """Expected L1 norm of Gaussian noise, ``sqrt(2/pi) sigma`` per cell, times the level's spread."""
    return math.sqrt(2 / math.pi) * sigma * spread * cell_count


def effective_cells(estimate: Array) -> float:
    """The number of cells that carry noise where tables are shrunk: ``(sum p^(1/3))^(3/2)``, p the shares of cells.

    All cells count where they hold the same, few where most are empty, as noise on those is shrunk away: the
    exponential of Renyi's entropy of order 1/3. With the number of all cells (order 0, as in AIM) large sparse tables
    are not chosen before sigma is tiny, with order 1/2 too early. 1/3 was chosen by the mean error on the three tables
    of the benchmarks, at epsilon 1 and 10.
    """
    counts = np.maximum(estimate, 0)
    total = float(counts.sum())
    return float(np.cbrt(counts / total).sum()) ** 1.5 if total > 0 else float(estimate.size)
