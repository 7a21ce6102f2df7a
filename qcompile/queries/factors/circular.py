"""Circular: every arc of a cyclic attribute."""

from __future__ import annotations

import numpy as np

from qcompile.queries.factors.ordered import Ordered
from qcompile.queries.factors.range import padded_cumsum
from qcompile.support.arrays import Array, IntArray


class Circular(Ordered):
    """The arc of length 1..n from each start, wrapping around; ordered by start, then length."""

    kind = "circular"

    @property
    def count(self) -> int:
        """n^2 for n ordered cells; the full circle counts once from each start."""
        return self.ordered**2

    def arcs(self) -> tuple[IntArray, IntArray]:
        """Start and end (exclusive, up to 2n - 1) of each query on the circle laid out twice."""
        start, length = np.divmod(np.arange(self.count, dtype=np.int64), self.ordered)
        return start, start + length + 1

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """``first..last``, where last may come before first."""
        n, label = self.ordered, self.attribute.label
        ks = range(self.count)[start:stop]
        return [f"{label(k // n)}..{label((k // n + k % n) % n)}" for k in ks]

    def _apply(self, x: Array) -> Array:
        """Differences of cumulative sums over two turns."""
        sums = padded_cumsum(np.concatenate([x, x]))
        first, end = self.arcs()
        return np.asarray(sums[end] - sums[first])

    def _adjoint(self, y: Array) -> Array:
        """Mark begin and end on two turns, sum up, and fold the second turn onto the first."""
        first, end = self.arcs()
        marks = np.zeros((2 * self.ordered + 1, *y.shape[1:]))
        np.add.at(marks, first, y)
        np.subtract.at(marks, end, y)
        turns = np.cumsum(marks, axis=0)[:-1]
        return np.asarray(turns[: self.ordered] + turns[self.ordered :])

    @property
    def contiguous(self) -> bool:
        """Without an ``other`` cell: an arc past the last value has a gap where that cell is."""
        return not self.leaves_other

    def around_gap(self) -> tuple[IntArray, IntArray]:
        """Cells of each query up to the last of the order, and those that follow from the first, ``(count,)`` each."""
        first, end = self.arcs()
        last = np.minimum(end, self.ordered)
        return last - first, end - last

    def lengths(self) -> IntArray:
        """1..n for each start."""
        return np.tile(np.arange(1, self.ordered + 1, dtype=np.int64), self.ordered)

    def _length_counts(self) -> IntArray:
        """One of each per start."""
        return np.full(self.ordered, self.ordered, dtype=np.int64)

    @property
    def _shared(self) -> Array:
        """Cells at distance d share (n-d)(n-d+1)/2 + d(d+1)/2 arcs."""
        n, d = self.ordered, np.arange(self.ordered, dtype=np.float64)
        return np.asarray((n - d) * (n - d + 1) / 2 + d * (d + 1) / 2)

    def _gram_times(self, x: Array) -> Array:
        """A cyclic convolution; see `Ordered.gram_times`."""
        return np.fft.irfft(np.fft.rfft(self._shared) * np.fft.rfft(x), self.ordered)

    def _fill(self, gram: Array) -> None:
        """Circulant: row i is the row before it, shifted by one."""
        turns = np.concatenate([self._shared, self._shared])
        gram[:] = np.lib.stride_tricks.sliding_window_view(turns, self.ordered)[self.ordered : 0 : -1]

    def quadratic(self, root: Array) -> Array:
        """From the Gram of the cumulative sums over two turns; memory O(n^2 + count)."""
        sums = padded_cumsum(np.concatenate([root[: self.ordered], root[: self.ordered]]))
        m = sums @ sums.T
        first, end = self.arcs()
        square = np.diag(m)
        return np.maximum(square[end] + square[first] - 2 * m[end, first], 0.0)
