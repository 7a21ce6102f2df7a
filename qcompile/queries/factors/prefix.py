"""Prefix: the cumulative distribution."""

from __future__ import annotations

import numpy as np

from qcompile.queries.factors.ordered import Ordered
from qcompile.support.arrays import Array, IntArray


class Prefix(Ordered):
    """``A <= c`` for c = 0..n-1, the last one being the count of all ordered cells. W[c, j] = [j <= c]."""

    kind = "prefix"

    @property
    def count(self) -> int:
        """One per ordered cell."""
        return self.ordered

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """``<= value`` or, for bins, ``< edge``."""
        return [self.attribute.upper_label(i) for i in range(self.count)[start:stop]]

    def _apply(self, x: Array) -> Array:
        """A cumulative sum."""
        return np.cumsum(x, axis=0)

    def _adjoint(self, y: Array) -> Array:
        """A cumulative sum from the end."""
        return np.cumsum(y[::-1], axis=0)[::-1]

    def lengths(self) -> IntArray:
        """1..n."""
        return np.arange(1, self.ordered + 1, dtype=np.int64)

    def _length_counts(self) -> IntArray:
        """One of each."""
        return np.ones(self.ordered, dtype=np.int64)

    def _fill(self, gram: Array) -> None:
        """``n - max(i, j)``: the thresholds at or above both cells."""
        i = np.arange(self.ordered, dtype=np.float64)
        np.maximum.outer(i, i, out=gram)
        np.subtract(self.ordered, gram, out=gram)
