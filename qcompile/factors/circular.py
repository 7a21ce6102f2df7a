"""Circular: every arc of a cyclic attribute."""

from __future__ import annotations

import numpy as np

from qcompile.arrays import Array, IntArray
from qcompile.factors.base import OneAttribute
from qcompile.factors.range import padded_cumsum


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

    def _gram(self) -> Array:
        """Circulant: cells at distance d share (n-d)(n-d+1)/2 + d(d+1)/2 arcs."""
        n = self.size
        i = np.arange(n)
        d = np.subtract.outer(i, i) % n
        return np.asarray((n - d) * (n - d + 1) / 2 + d * (d + 1) / 2, dtype=np.float64)

    def quadratic(self, root: Array) -> Array:
        """From the Gram of the cumulative sums over two turns; memory O(n^2 + count)."""
        sums = padded_cumsum(np.concatenate([root, root]))
        m = sums @ sums.T
        first, end = self.arcs()
        square = np.diag(m)
        return np.maximum(square[end] + square[first] - 2 * m[end, first], 0.0)
