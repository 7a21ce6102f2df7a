"""The strategy of a node: a matrix B, measured as B x + noise, and the answers it supports.

Solvers make strategies; variances, storage and measurement use them. With V = B' B, unit noise estimates the node's
data as t = V^+ B' y and a query q with variance q' V^+ q; the squared sensitivity is max_j V[j, j].
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from qcompile.lattice.lattice import Group
from qcompile.lattice.projection import Projection
from qcompile.strategy.differing_axes import Distances
from qcompile.support.arrays import Array, IntArray

EPS = float(np.finfo(np.float64).eps)

ExactEntries: TypeAlias = Callable[[IntArray], list[Fraction]]
"""Rational entries of a vector at the positions wanted, ``(k,)``."""


class Strategy(abc.ABC):
    """The interface of all strategies. Arrays on the node have its axes in the class's canonical order.

    Attributes:
      shape: the node's axis sizes.
    """

    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.rows:,} rows on shape {self.shape}>"

    @property
    def own(self) -> Strategy:
        """The part of the strategy that the node's own residual decides: all of it, but on an oblique node."""
        return self

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Number of measurements."""

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """Rank of B."""

    @abc.abstractmethod
    def apply(self, x: Array) -> Array:
        """``B x``: ``(*shape, *batch)`` to ``(rows, *batch)``."""

    @abc.abstractmethod
    def adjoint(self, y: Array) -> Array:
        """``B' y``: ``(rows, *batch)`` to ``(*shape, *batch)``."""

    @abc.abstractmethod
    def solve(self, y: Array) -> Array:
        """``V^+ B' y``, the residual estimate: ``(rows, *batch)`` to ``(*shape, *batch)``."""

    @abc.abstractmethod
    def represent(self, q: Array) -> Array:
        """``B^+' q``: the combination of measurements that answers q, ``(*shape, *batch)`` to ``(rows, *batch)``."""

    @abc.abstractmethod
    def trace(self, groups: Sequence[Group]) -> float:
        """``tr(G V^+)`` for the Kronecker product G of the groups: total error at unit noise."""

    @abc.abstractmethod
    def variances(self, blocks: Sequence[Block]) -> list[Array]:
        """Variances at unit noise of all queries of a tensor product.

        Args:
          blocks: one per factor of the product that keeps at least one axis of this node.

        Returns:
          Arrays with one axis per block, of length 1 where they do not vary, whose broadcast product is the result.
        """

    def errors(self, blocks: Sequence[Block]) -> tuple[float, float]:
        """The sum of the variances at unit noise of all queries of a tensor product, and the largest of them."""
        parts = self.variances(blocks)
        return math.prod(float(v.sum()) for v in parts), math.prod(float(v.max()) for v in parts)

    @property
    @abc.abstractmethod
    def sensitivity_squared(self) -> Fraction:
        """An exact upper bound of ``max_j V[j, j]``, within 1e-12 of it."""

    @property
    @abc.abstractmethod
    def pair_sensitivity_squared(self) -> Fraction:
        """An exact upper bound of ``max_ij V[i, i] + V[j, j] - 2 V[i, j]``; 0 where all columns of B are the same."""

    @property
    @abc.abstractmethod
    def distances(self) -> Distances:
        """Exact upper bounds of ``V[i, i] + V[j, j] - 2 V[i, j]`` by the axes in which i and j differ.

        None is above `pair_sensitivity_squared`; see `differing_axes`.
        """

    @abc.abstractmethod
    def rounding_error(self, x: Array) -> float:
        """A bound on the absolute rounding error of any entry of ``apply(x)``, x >= 0."""

    def rounding_errors(self, x: Array) -> Array:
        """A bound for each entry of ``apply(x)``, ``(rows,)``: at most `rounding_error`, but dearer to compute."""
        return np.full(self.rows, self.rounding_error(x))

    @abc.abstractmethod
    def exact_entries(self, x: IntArray) -> ExactEntries:
        """Entries of ``B x`` for integer x of sum at most 2^53, exactly: every double in B is a rational number."""

    @abc.abstractmethod
    def factors(self, order: Sequence[int]) -> tuple[Array, ...]:
        """Matrices whose Kronecker product is B, columns in another axis order.

        Args:
          order: the canonical position of each axis wanted.

        Returns:
          One matrix per axis or group of neighbouring axes; a single one where there is no such structure. The order
          of rows may differ from that of `apply`.
        """


class Block:
    """One factor's projected queries, with the axes of the strategy that they live on.

    Attributes:
      projection: the queries.
      axes: canonical positions of the projection's kept axes, in the factor's order.
    """

    def __init__(self, projection: Projection, axes: Sequence[int]) -> None:
        self.projection = projection
        self.axes = tuple(axes)

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.projection.factor.count


def column_bound(matrix: Array) -> Fraction:
    """An exact upper bound of the largest squared column norm, its own rounding error included.

    A sum of m squares in double precision is off by at most (m + 1) units of 2^-53, relative.
    """
    largest = float((matrix * matrix).sum(axis=0).max(initial=0.0))
    return Fraction(largest) * (1 + Fraction(matrix.shape[0] + 2, 2**52))


def same_columns(matrix: Array) -> bool:
    """True if all columns hold the same doubles."""
    return bool((matrix == matrix[:, :1]).all())
