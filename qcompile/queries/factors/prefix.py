"""Prefix: the cumulative distribution."""

from __future__ import annotations

import numpy as np

from qcompile.queries.factors.base import OneAttribute
from qcompile.support.arrays import Array, IntArray


class Prefix(OneAttribute):
    """``A <= c`` for c = 0..n-1, the last one being the total. W[c, j] = [j <= c]."""

    kind = "prefix"

    @property
    def count(self) -> int:
        """The size."""
        return self.size

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """``<= value`` or, for bins, ``< edge``."""
        return [self.attribute.upper_label(i) for i in range(self.count)[start:stop]]

    def apply(self, x: Array) -> Array:
        """A cumulative sum."""
        return np.cumsum(x, axis=0)

    def adjoint(self, y: Array) -> Array:
        """A cumulative sum from the end."""
        return np.cumsum(y[::-1], axis=0)[::-1]

    def lengths(self) -> IntArray:
        """1..n."""
        return np.arange(1, self.size + 1, dtype=np.int64)

    def length_counts(self) -> IntArray:
        """One of each."""
        return np.ones(self.size, dtype=np.int64)

    def _gram(self) -> Array:
        """``n - max(i, j)``: the thresholds at or above both cells."""
        i = np.arange(self.size, dtype=np.float64)
        gram = np.maximum.outer(i, i)
        return np.asarray(np.subtract(self.size, gram, out=gram))
