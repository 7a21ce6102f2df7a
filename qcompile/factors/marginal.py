"""Marginal: one query per cell."""

from __future__ import annotations

import numpy as np

from qcompile.arrays import Array
from qcompile.factors.base import OneAttribute


class Marginal(OneAttribute):
    """The count of each cell of one attribute; several attributes are a product of these. W = I."""

    kind = "marginal"

    @property
    def count(self) -> int:
        """The size."""
        return self.size

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The cells' labels."""
        return [self.attribute.label(i) for i in range(self.count)[start:stop]]

    def apply(self, x: Array) -> Array:
        """The identity."""
        return x

    def adjoint(self, y: Array) -> Array:
        """The identity."""
        return y

    def _gram(self) -> Array:
        """I."""
        return np.eye(self.size)
