"""Marginal: one query per cell."""

from __future__ import annotations

import numpy as np

from qcompile.queries.factors.base import OneAttribute
from qcompile.support.arrays import Array, IntArray


class Marginal(OneAttribute):
    """The count of each cell of one attribute; several attributes are a product of these. W = I."""

    kind = "marginal"

    @property
    def count(self) -> int:
        """The size."""
        return self.size

    @property
    def exchangeable_gram(self) -> tuple[float, float]:
        """I."""
        return 1.0, 0.0

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The cells' labels."""
        return [self.attribute.label(i) for i in range(self.count)[start:stop]]

    def apply(self, x: Array) -> Array:
        """The identity."""
        return x

    def adjoint(self, y: Array) -> Array:
        """The identity."""
        return y

    def lengths(self) -> IntArray:
        """All 1."""
        return np.ones(self.size, dtype=np.int64)

    def length_counts(self) -> IntArray:
        """All n have length 1."""
        counts = np.zeros(self.size, dtype=np.int64)
        counts[0] = self.size
        return counts

    def _gram(self) -> Array:
        """I."""
        return np.eye(self.size)
