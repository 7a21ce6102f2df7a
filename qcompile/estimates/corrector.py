"""A reference table, corrected by what was measured of its node."""

from __future__ import annotations

import math

import numpy as np

from qcompile.estimates import shrinkage as shrink
from qcompile.estimates.grem import Estimates
from qcompile.estimates.nonnegative import nonnegative
from qcompile.lattice.reconstruct import lift_residual
from qcompile.queries.factors import Marginal
from qcompile.queries.workload import Product
from qcompile.strategy import Strategy
from qcompile.strategy.variances import node_parts, part_errors
from qcompile.support.arrays import Array

ALIKE = 1e-3
"""Difference of a column of V to that of the centring, relative to its largest entry, up to which they are the same."""


class Corrector:
    """Joins references with measurements.

    Args:
      estimates: the measurements, as they are when they are asked for.
    """

    def __init__(self, estimates: Estimates) -> None:
        self._estimates, self._lattice = estimates, estimates.lattice
        self._unit_noise: dict[int, float] = {}
        self._alike_classes: dict[int, bool] = {}

    @property
    def total(self) -> float:
        """The estimated number of rows, see `Estimates.total`."""
        return self._estimates.total

    def measured(self, node: int) -> bool:
        """True if a node was measured."""
        return self._estimates.precision(node) > 0

    def corrected(self, node: int, reference: Array) -> Array:
        """The reference plus the measured deviation from it; the reference where nothing was measured.

        Deviations are shrunk cell by cell where the noise of the residual is alike in all cells. A strategy for
        prefixes or sums has much noise in a cell and little in the sums that it is for: cell by cell, its best part
        would be lost.

        Args:
          node: its position.
          reference: the expected counts, >= 0, axes in schema order.
        """
        measured = self._estimates.residual(node)
        if measured is None:
            return reference
        deviation = measured - self._seen(node, lift_residual(self._lattice, reference, self._lattice.nodes[node]))
        if not self._alike(node):
            return reference + deviation
        return reference + shrink.weights(deviation, reference, self._noise(node)) * deviation

    def counts(self, node: int, table: Array) -> Array:
        """A corrected table without negative counts; a reference has none."""
        return nonnegative(table, self.total) if self.measured(node) else table

    def _seen(self, node: int, residual: Array) -> Array:
        """The part of a residual that the node's measurements tell: all of it where they tell every cell."""
        c, order = int(self._lattice.class_of[node]), self._lattice.orders[node]
        strategy = self._estimates.strategies[c]
        if strategy.rank == math.prod(n - 1 for n in residual.shape):
            return residual
        seen = strategy.solve(strategy.own.apply(residual.transpose(order))).transpose(np.argsort(order))
        return lift_residual(self._lattice, seen, self._lattice.nodes[node])

    def _alike(self, node: int) -> bool:
        """True if a node is measured as its cells are: V is a multiple of the centring on every axis."""
        c = int(self._lattice.class_of[node])
        if c not in self._alike_classes:
            self._alike_classes[c] = is_residual_basis(self._estimates.strategies[c])
        return self._alike_classes[c]

    def _noise(self, node: int) -> float:
        """Mean variance of the noise in a cell of the measured residual."""
        if node not in self._unit_noise:
            product = Product(tuple(Marginal(self._lattice.schema.attributes[a]) for a in self._lattice.nodes[node]))
            strategy = self._estimates.strategies[int(self._lattice.class_of[node])]
            part = next(p for p in node_parts(self._lattice, product) if p.node == node)
            self._unit_noise[node] = part_errors(part, strategy)[0] / product.count
        return self._unit_noise[node] / self._estimates.precision(node)


def is_residual_basis(strategy: Strategy) -> bool:
    """True if a residual's noise is centred equal noise in all cells: V a multiple of ``kron (I - 11'/n)``.

    Decided on three of its columns; others would have to be alike in exactly those.
    """
    if strategy.own is not strategy:  # its residual has the noise of the nodes below, too
        return False
    cells = math.prod(strategy.shape)
    for cell in {0, cells // 2, cells - 1}:
        unit = np.zeros(cells)
        unit[cell] = 1
        centred: Array = unit.reshape(strategy.shape)
        column = strategy.adjoint(strategy.apply(centred))
        for axis in range(centred.ndim):
            centred = centred - centred.mean(axis=axis, keepdims=True)
        scale = column.ravel()[cell] / centred.ravel()[cell]
        if np.abs(column - scale * centred).max() > ALIKE * abs(column.ravel()[cell]):
            return False
    return True
