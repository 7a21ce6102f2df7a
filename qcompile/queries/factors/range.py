"""Range: every interval of consecutive cells."""

from __future__ import annotations

import numpy as np

from qcompile.queries.factors.ordered import Ordered
from qcompile.support.arrays import Array, IntArray


class Range(Ordered):
    """``lo <= A <= hi`` for all lo <= hi, ordered by lo, then hi."""

    kind = "range"

    @property
    def count(self) -> int:
        """The number of intervals of n ordered cells: n (n + 1) / 2."""
        return self.ordered * (self.ordered + 1) // 2

    def bounds(self) -> tuple[IntArray, IntArray]:
        """``lo`` and ``hi`` of each query, inclusive."""
        low, high = np.triu_indices(self.ordered)
        return low.astype(np.int64), high.astype(np.int64)

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """``lo..hi`` or, for bins, one interval."""
        low, high = (b[start:stop] for b in self.bounds())
        return [self.attribute.span_label(int(a), int(b)) for a, b in zip(low, high, strict=True)]

    def _apply(self, x: Array) -> Array:
        """Differences of cumulative sums."""
        sums = padded_cumsum(x)
        low, high = self.bounds()
        return np.asarray(sums[high + 1] - sums[low])

    def _adjoint(self, y: Array) -> Array:
        """Mark where each interval begins and ends, then sum up."""
        low, high = self.bounds()
        marks = np.zeros((self.ordered + 1, *y.shape[1:]))
        np.add.at(marks, low, y)
        np.subtract.at(marks, high + 1, y)
        return np.asarray(np.cumsum(marks, axis=0)[:-1])

    def lengths(self) -> IntArray:
        """1..n, then 1..n-1, and so on."""
        return np.concatenate([np.arange(1, n + 1, dtype=np.int64) for n in range(self.ordered, 0, -1)])

    def _length_counts(self) -> IntArray:
        """``n + 1 - length``."""
        return np.arange(self.ordered, 0, -1, dtype=np.int64)

    def _gram_times(self, x: Array) -> Array:
        """From sums over the cells below and above; see `Ordered.gram_times`."""
        below = np.arange(1.0, self.ordered + 1)
        above = below[::-1]
        first, rest = np.cumsum(below * x), np.cumsum((above * x)[::-1])[::-1]
        return np.asarray(above * (first - below * x) + below * rest)

    def _fill(self, gram: Array) -> None:
        """``(min(i, j) + 1) (n - max(i, j))``: the intervals that hold both cells."""
        below = np.arange(1.0, self.ordered + 1)
        above = below[::-1]
        for i in range(self.ordered):
            np.multiply(below[:i], above[i], out=gram[i, :i])
            np.multiply(below[i], above[i:], out=gram[i, i:])

    def quadratic(self, root: Array) -> Array:
        """From the Gram of the cumulative sums, so that memory is O(n^2 + count), whatever the rank."""
        sums = padded_cumsum(root[: self.ordered])
        m = sums @ sums.T
        low, high = self.bounds()
        square = np.diag(m)
        return np.maximum(square[high + 1] + square[low] - 2 * m[high + 1, low], 0.0)


def padded_cumsum(x: Array) -> Array:
    """Cumulative sums along the first axis with a zero before the first."""
    sums = np.zeros((x.shape[0] + 1, *x.shape[1:]))
    np.cumsum(x, axis=0, out=sums[1:])
    return sums
