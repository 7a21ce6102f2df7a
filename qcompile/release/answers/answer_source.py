"""Sources of answers: the closure's residual estimates, or one block's own estimate.

Every query is answered from one source that spans it: a family from the source it was compiled into, a marginal or a
single query from the one that predicts the smallest variance. Both are known before any data is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from qcompile.errors import NotEstimableError
from qcompile.lattice.apply_product import apply_product, largest_z
from qcompile.lattice.lattice import Lattice, Node, below, subsets
from qcompile.lattice.reconstruct import marginal
from qcompile.queries.factors import Marginal
from qcompile.queries.factors.base import CHUNK
from qcompile.queries.workload import Product
from qcompile.release.answers import intervals
from qcompile.release.answers.single_query import coefficients, not_estimable, outside_span
from qcompile.strategy import Strategy
from qcompile.strategy.oblique import residual_estimate
from qcompile.strategy.variances import node_variances
from qcompile.support.arrays import Array, cells, require_memory

CERTAIN = 1e-24
"""Variance below which, relative to the largest of a measurement, an answer is exact."""

CACHED_CELLS = 2**24
"""Cells of residual estimates kept for further questions (128 MB)."""


@dataclass(frozen=True, eq=False, repr=False)
class AnswerSource:
    """One view of the lattice with its measurements.

    Attributes:
      lattice: the closure, or the view of a block.
      strategies: one per class.
      sigma_squared: variance of a node's measurements, by its position; infinite where it was not measured.
      measured: a node's measurements in counts, by position.
    """

    lattice: Lattice
    strategies: tuple[Strategy, ...]
    sigma_squared: Array
    measured: Callable[[int], Array]
    _cache: dict[int, Array] = field(default_factory=dict, repr=False)

    def answers(self, product: Product) -> Array:
        """Estimates of a product's queries, shape ``product.shape``."""
        table = marginal(self.lattice, self.residual, self._node(product))
        return apply_product(self.lattice, product, table)

    def variances(self, product: Product) -> Array:
        """Variances of these estimates."""
        found = node_variances(self.lattice, self.strategies, lambda i: float(self.sigma_squared[i]), product)
        return np.asarray(np.where(found > self._rounding, found, 0.0))

    @property
    def _rounding(self) -> float:
        """Variances up to here are rounding errors: of queries that public measurements alone answer."""
        return CERTAIN * float(self.sigma_squared[np.isfinite(self.sigma_squared)].max(initial=0.0))

    def ask(self, product: Product) -> tuple[float, float]:
        """Estimate and variance of the only query of a product.

        Raises:
          NotEstimableError: the query lies outside the span.
        """
        value = variance = 0.0
        for part in coefficients(self.lattice, self.strategies, product):
            self._require_measured(part.node)
            value += float(part.weights @ self.measured(part.node))
            variance += float(self.sigma_squared[part.node] * (part.weights @ part.weights))
        return value, variance if variance > self._rounding else 0.0

    def _require_measured(self, node: int) -> None:
        if not math.isfinite(self.sigma_squared[node]):
            names = " x ".join(self.lattice.names(self.lattice.nodes[node])) or "the total"
            raise NotEstimableError(
                f"the query depends on {names}, which this adaptive run did not measure; ask for the best estimate, "
                "which has no standard error"
            )

    def residual(self, node: int) -> Array | None:
        """The residual estimate of a node, lifted, axes in schema order; None where nothing was measured."""
        c = int(self.lattice.class_of[node])
        if c < 0 or not math.isfinite(self.sigma_squared[node]):
            return None
        if node not in self._cache:
            t = residual_estimate(self.lattice, self.strategies[c], node, self.measured(node), self.residual)
            if sum(v.size for v in self._cache.values()) + t.size > CACHED_CELLS:
                self._cache.clear()
            self._cache[node] = t
        return self._cache[node]

    def _node(self, product: Product) -> Node:
        return self.lattice.node_of(self.lattice.covering(product).names)

    def nodes_of(self, product: Product) -> list[int]:
        """The measured nodes that a product is answered from, by position."""
        node = self._node(product)
        found = below(self.lattice, node) if self.lattice.only is None else [self.lattice.only]
        return [i for i in found if self.lattice.class_of[i] >= 0 and math.isfinite(self.sigma_squared[i])]

    def require_all_cells(self, product: Product, measured: bool = True) -> None:
        """Refuse a marginal, given as a product of Marginal factors, unless all its cells are in the span.

        Args:
          product: the marginal.
          measured: whether the nodes must have been measured, too, rather than only be of the plan.

        Raises:
          NotEstimableError: they are not.
        """
        if self.lattice.only is None:
            self._require_nodes(self._node(product), measured)
        else:
            self._require_rows(product, self.lattice.only)

    def _require_nodes(self, node: Node, measured: bool) -> None:
        for subset in subsets(node):
            full = math.prod(n - 1 for n in self.lattice.shape(subset))
            index = self.lattice.index.get(subset, -1)
            c = -1 if index < 0 else int(self.lattice.class_of[index])
            if full and (c < 0 or self.strategies[c].rank < full):
                raise not_estimable(self.lattice, subset, "not all of its cells were measured")
            if measured and c >= 0:
                self._require_measured(index)

    def _require_rows(self, product: Product, position: int) -> None:
        lattice, node, c = self.lattice, self.lattice.nodes[position], int(self.lattice.class_of[position])
        names = lattice.names(node)
        if not set(product.names) <= set(names):
            raise not_estimable(lattice, self._node(product), "this block does not hold all of its attributes")
        if c < 0:
            raise not_estimable(lattice, node, "nothing was measured on this block, whose queries are all 0")
        strategy = self.strategies[c]
        if strategy.rank == cells(strategy.shape):
            return
        require_memory("this marginal", cells(strategy.shape) * product.count, "ask for a smaller marginal")
        kept = [i for i, n in enumerate(names) if n in product.names]
        order = lattice.orders[position]
        for start in range(0, product.count, step := max(1, CHUNK // cells(strategy.shape))):
            queries = _indicators(lattice.shape(node), kept, range(start, min(start + step, product.count)))
            if outside_span(strategy, queries.transpose(*order, len(order))):
                raise not_estimable(lattice, node, "not all of its cells were measured")

    def largest_z(self, pairs: list[tuple[Product, Array]], first: int, count: int) -> Array:
        """``max |z|`` over all queries of products for simulations ``first .. first + count - 1``.

        Args:
          pairs: products with their variances.
          first: number of the first simulation.
          count: how many.
        """
        errors = dict[int, Array]()

        def simulated(node: int) -> Array | None:
            c = int(self.lattice.class_of[node])
            if c >= 0 and math.isfinite(self.sigma_squared[node]) and node not in errors:
                y = intervals.normals(node, first, (self.strategies[c].rows, count))
                y = y * math.sqrt(self.sigma_squared[node])
                errors[node] = residual_estimate(self.lattice, self.strategies[c], node, y, simulated)
            return errors.get(node)

        largest = np.zeros(count)
        for product, variances in pairs:
            table = marginal(self.lattice, simulated, self._node(product), (count,))
            largest = np.maximum(largest, largest_z(self.lattice, product, table, variances))
        return largest


def marginal_product(lattice: Lattice, names: tuple[str, ...]) -> Product:
    """A marginal as a product with one query per cell."""
    return Product(tuple(Marginal(lattice.schema[n]) for n in names))


def _indicators(shape: tuple[int, ...], kept: list[int], numbers: range) -> Array:
    """The cells ``numbers`` of the marginal on some axes as queries on all axes: ``(*shape, len(numbers))``."""
    sizes = [shape[i] for i in kept]
    small = np.zeros((cells(sizes), len(numbers)))
    small[list(numbers), range(len(numbers))] = 1
    spread = [n if i in kept else 1 for i, n in enumerate(shape)]
    return np.broadcast_to(small.reshape(*spread, len(numbers)), (*shape, len(numbers)))
