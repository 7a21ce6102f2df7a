"""Factors whose queries follow the order of the domain; the ``other`` cell stands outside of it."""

from __future__ import annotations

import abc

import numpy as np

from qcompile.queries.factors.base import Key, OneAttribute
from qcompile.queries.schema import Attribute
from qcompile.support.arrays import Array, IntArray


class Ordered(OneAttribute):
    """A factor over the first n cells of an attribute, which have an order; W is 0 on the ``other`` cell behind them.

    A kind states its queries on n cells (`_apply`, `_adjoint`, `_fill`); the last cell is added here.

    Args:
      attribute: the attribute.
      through_other: the ``other`` cell is the last one of the order, as in plans that were compiled before it stood
        outside; without an ``other`` cell it makes no difference.
    """

    def __init__(self, attribute: Attribute, *, through_other: bool = False) -> None:
        super().__init__(attribute)
        self.ordered = attribute.size if through_other else attribute.domain.size
        """Number of cells in the order, n."""

    @property
    def leaves_other(self) -> bool:
        """Whether there is an ``other`` cell outside of the order."""
        return self.ordered < self.size

    @property
    def key(self) -> Key:
        """Kind and size, and whether the last cell is outside of the order."""
        return (*super().key, "other") if self.leaves_other else super().key

    def apply(self, x: Array) -> Array:
        """Answers from the ordered cells; see `Factor.apply`."""
        return self._apply(x[: self.ordered])

    def adjoint(self, y: Array) -> Array:
        """Nothing for the ``other`` cell; see `Factor.adjoint`."""
        return self._padded(self._adjoint(y))

    def gram_times(self, x: Array) -> Array:
        """``W' W x``; see `OneAttribute.gram_times`."""
        return self._padded(self._gram_times(x[: self.ordered]))

    def length_counts(self) -> IntArray:
        """None of the lengths past n; see `OneAttribute.length_counts`."""
        counts = np.zeros(self.size, dtype=np.int64)
        counts[: self.ordered] = self._length_counts()
        return counts

    def _gram(self) -> Array:
        gram = np.zeros((self.size, self.size))
        self._fill(gram[: self.ordered, : self.ordered])
        return gram

    def _padded(self, x: Array) -> Array:
        return np.concatenate([x, np.zeros((1, *x.shape[1:]))]) if self.leaves_other else x

    @abc.abstractmethod
    def _apply(self, x: Array) -> Array:
        """``W x``: ``(n, *batch)`` to ``(count, *batch)``."""

    @abc.abstractmethod
    def _adjoint(self, y: Array) -> Array:
        """``W' y``: ``(count, *batch)`` to ``(n, *batch)``."""

    def _gram_times(self, x: Array) -> Array:
        """``W' W x``, shape ``(n,)``."""
        return self._adjoint(self._apply(x))

    @abc.abstractmethod
    def _length_counts(self) -> IntArray:
        """The number of queries of each length 1..n, shape ``(n,)``."""

    @abc.abstractmethod
    def _fill(self, gram: Array) -> None:
        """Write ``W' W`` into an array ``(n, n)``, without a second one of its size."""
