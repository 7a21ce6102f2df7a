"""Circular: every arc of a cyclic attribute."""

from __future__ import annotations

import numpy as np

from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.factors.range import padded_cumsum
from qcompile.support.arrays import Array, IntArray


class Circular(OneAttribute):
    """The arc of length 1..n from each start, wrapping around; ordered by start, then length."""

    kind = "circular"

    @property
    def count(self) -> int:
        """n^2; the full circle counts once from each start."""
        return self.size**2

    def arcs(self) -> tuple[IntArray, IntArray]:
        """Start and end (exclusive, up to 2n - 1) of each query on the circle laid out twice."""
        start, length = np.divmod(np.arange(self.count, dtype=np.int64), self.size)
        return start, start + length + 1

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """``first..last``, where last may come before first."""
        n, label = self.size, self.attribute.label
        ks = range(self.count)[start:stop]
        return [f"{label(k // n)}..{label((k // n + k % n) % n)}" for k in ks]

    def apply(self, x: Array) -> Array:
        """Differences of cumulative sums over two turns."""
        sums = padded_cumsum(np.concatenate([x, x]))
        first, end = self.arcs()
        return np.asarray(sums[end] - sums[first])

    def adjoint(self, y: Array) -> Array:
        """Mark begin and end on two turns, sum up, and fold the second turn onto the first."""
        first, end = self.arcs()
        marks = np.zeros((2 * self.size + 1, *y.shape[1:]))
        np.add.at(marks, first, y)
        np.subtract.at(marks, end, y)
        turns = np.cumsum(marks, axis=0)[:-1]
        return np.asarray(turns[: self.size] + turns[self.size :])

    def lengths(self) -> IntArray:
        """1..n for each start."""
        return np.tile(np.arange(1, self.size + 1, dtype=np.int64), self.size)

    def length_counts(self) -> IntArray:
        """One of each per start."""
        return np.full(self.size, self.size, dtype=np.int64)

    @property
    def _shared(self) -> Array:
        """Cells at distance d share (n-d)(n-d+1)/2 + d(d+1)/2 arcs."""
        n, d = self.size, np.arange(self.size, dtype=np.float64)
        return np.asarray((n - d) * (n - d + 1) / 2 + d * (d + 1) / 2)

    def gram_times(self, x: Array) -> Array:
        """A cyclic convolution; see `OneAttribute.gram_times`."""
        return np.fft.irfft(np.fft.rfft(self._shared) * np.fft.rfft(x), self.size)

    def _gram(self) -> Array:
        """Circulant: row i is the row before it, shifted by one."""
        turns = np.concatenate([self._shared, self._shared])
        return np.array(np.lib.stride_tricks.sliding_window_view(turns, self.size)[self.size : 0 : -1], order="C")

    def quadratic(self, root: Array) -> Array:
        """From the Gram of the cumulative sums over two turns; memory O(n^2 + count)."""
        sums = padded_cumsum(np.concatenate([root, root]))
        m = sums @ sums.T
        first, end = self.arcs()
        square = np.diag(m)
        return np.maximum(square[end] + square[first] - 2 * m[end, first], 0.0)
