"""Strategies whose rows are not centred: what they say about lower nodes is taken off once those are estimated.

A node measures ``y = M x + noise`` on its marginal x. M centred on every axis is B, the part on the node's own residual
r; the rest depends on the residuals of lower nodes alone. With their estimate m of the marginal, ``B^+ (y - M m)``
estimates r. The measurements of different nodes stay independent, and the cost is the largest squared column of M.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.lattice.apply_product import apply_product
from qcompile.lattice.lattice import Group, Lattice
from qcompile.lattice.reconstruct import Residual, in_schema_order, lift_residual, marginal
from qcompile.queries.factors.base import CHUNK
from qcompile.queries.workload import Product
from qcompile.strategy.base import Block, ExactEntries, Strategy
from qcompile.strategy.differing_axes import Distances
from qcompile.strategy.kronecker import KroneckerStrategy
from qcompile.support.arrays import Array, IntArray, cells


class ObliqueStrategy(Strategy):
    """M is measured; answers and variances of the node's own part come from B.

    Attributes:
      shape: the node's axis sizes.
      measured: M, whose sensitivity is the cost.
      own: B, which is M centred on every axis.

    Raises:
      IntegrityError: B and M have different shapes.
    """

    def __init__(self, shape: Sequence[int], measured: Array, own: Array) -> None:
        if measured.ndim != 2 or measured.shape != own.shape or measured.shape[1] != cells(shape):
            raise IntegrityError("an oblique strategy has two matrices with a column per cell")
        self.shape = tuple(shape)
        self.measured = KroneckerStrategy.dense(shape, measured)
        self._own = KroneckerStrategy.dense(shape, own)

    @property
    def measured_matrix(self) -> Array:
        """M, ``(rows, cells)``."""
        return self.measured.parts[0].written_out()

    @property
    def own_matrix(self) -> Array:
        """B, ``(rows, cells)``."""
        return self._own.parts[0].written_out()

    @property
    def own(self) -> KroneckerStrategy:
        """B."""
        return self._own

    @property
    def rows(self) -> int:
        """See `Strategy.rows`."""
        return self.measured.rows

    @property
    def rank(self) -> int:
        """Rank of B."""
        return self._own.rank

    def apply(self, x: Array) -> Array:
        """``M x``."""
        return self.measured.apply(x)

    def adjoint(self, y: Array) -> Array:
        """``M' y``."""
        return self.measured.adjoint(y)

    def solve(self, y: Array) -> Array:
        """``B^+ y``: the residual estimate, of y less what lower nodes explain."""
        return self._own.solve(y)

    def represent(self, q: Array) -> Array:
        """``B^+' q`` for centred q: the combination of measurements whose own part is q."""
        return self._own.represent(q)

    def trace(self, groups: Sequence[Group]) -> float:
        """See `Strategy.trace`."""
        return self._own.trace(groups)

    def variances(self, blocks: Sequence[Block]) -> list[Array]:
        """See `Strategy.variances`."""
        return self._own.variances(blocks)

    @cached_property
    def sensitivity_squared(self) -> Fraction:
        """Of M."""
        return self.measured.sensitivity_squared

    @cached_property
    def pair_sensitivity_squared(self) -> Fraction:
        """Of M."""
        return self.measured.pair_sensitivity_squared

    @property
    def distances(self) -> Distances:
        """Of M."""
        return self.measured.distances

    def rounding_error(self, x: Array) -> float:
        """See `Strategy.rounding_error`."""
        return self.measured.rounding_error(x)

    def rounding_errors(self, x: Array) -> Array:
        """See `Strategy.rounding_errors`."""
        return self.measured.rounding_errors(x)

    def exact_entries(self, x: IntArray) -> ExactEntries:
        """See `Strategy.exact_entries`."""
        return self.measured.exact_entries(x)

    def factors(self, order: Sequence[int]) -> tuple[Array, ...]:
        """M as one matrix, which is what is measured."""
        return self.measured.factors(order)


def own_part(lattice: Lattice, strategy: Strategy, node: int, y: Array, residual: Residual) -> Array:
    """The measurements of a node less what the residuals of lower nodes explain; y itself where the rows are centred.

    Args:
      lattice: the closure.
      strategy: of the node.
      node: its position.
      y: measurements, ``(rows, *batch)``.
      residual: lifted residual estimates of the lower nodes, with the batch axes of y.
    """
    if not isinstance(strategy, ObliqueStrategy):
        return y
    batch = y.shape[1:]
    lower = marginal(lattice, lambda i: None if i == node else residual(i), lattice.nodes[node], batch)
    return y - strategy.apply(_canonical(lattice, node, lower))


def residual_estimate(lattice: Lattice, strategy: Strategy, node: int, y: Array, residual: Residual) -> Array:
    """The residual estimate of a node from its measurements, lifted, axes in schema order; arguments as `own_part`."""
    t = strategy.solve(own_part(lattice, strategy, node, y, residual))
    return lift_residual(lattice, in_schema_order(t, lattice.orders[node]), lattice.nodes[node])


def lower_variances(
    lattice: Lattice, strategy_of: Callable[[int], Strategy], product: Product, top: int, lower: int
) -> Array:
    """Unit-noise variances that a lower node adds to the queries of a product on an oblique node.

    The noise of the lower node moves its own residual, and with it what is taken off the measurements of the top.

    Args:
      lattice: the closure.
      strategy_of: of a node, by position.
      product: on all attributes of the top.
      top: the oblique node.
      lower: a node below it.

    Returns:
      Shape ``product.shape``.
    """
    strategy, node = strategy_of(lower), lattice.nodes[lower]
    total = np.zeros(product.shape)
    step = max(1, CHUNK // max(product.count, cells(lattice.shape(lattice.nodes[top]))))
    for start in range(0, strategy.rows, step):
        unit = np.eye(strategy.rows)[:, start : start + step]
        noise = lift_residual(lattice, in_schema_order(strategy.solve(unit), lattice.orders[lower]), node)
        residuals = {lower: noise}
        silent = np.zeros((strategy_of(top).rows, unit.shape[1]))
        residuals[top] = residual_estimate(lattice, strategy_of(top), top, silent, residuals.get)
        table = marginal(lattice, residuals.get, lattice.nodes[top], unit.shape[1:])
        total += (apply_product(lattice, product, table) ** 2).sum(axis=-1)
    return total


def _canonical(lattice: Lattice, node: int, x: Array) -> Array:
    """An array on a node in its class's order of axes; batch axes stay."""
    order = lattice.orders[node]
    return x.transpose(*order, *range(len(order), x.ndim))
