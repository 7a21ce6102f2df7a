"""Whole: the sum over all cells of an attribute, where a product of an unsplit block does not mention it."""

from __future__ import annotations

import numpy as np

from qcompile.queries.factors.base import OneAttribute
from qcompile.support.arrays import Array, IntArray


class Whole(OneAttribute):
    """One query that holds for every value: W = 1'. The language has no word for it; blocks are filled up with it."""

    kind = "whole"

    @property
    def count(self) -> int:
        """One."""
        return 1

    @property
    def exchangeable_gram(self) -> tuple[float, float]:
        """11'."""
        return 0.0, 1.0

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """A single label."""
        return ["all"][start:stop]

    def apply(self, x: Array) -> Array:
        """The sum over the axis."""
        return np.asarray(x.sum(axis=0, keepdims=True))

    def adjoint(self, y: Array) -> Array:
        """The same number for every value."""
        return np.repeat(y, self.size, axis=0)

    def lengths(self) -> IntArray:
        """The size."""
        return np.array([self.size], dtype=np.int64)

    def length_counts(self) -> IntArray:
        """One of length n."""
        counts = np.zeros(self.size, dtype=np.int64)
        counts[-1] = 1
        return counts

    def _gram(self) -> Array:
        """11'."""
        return np.ones((self.size, self.size))
