"""Predicted variances of the queries of a product, node by node.

Var(q) = sum over nodes A of sigma_A^2 q_A' V_A^+ q_A. Per node the variances of all queries of a product are an outer
product over groups of axes, so that no query is handled alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from qcompile.lattice.lattice import Lattice, Node
from qcompile.lattice.projection import Projection, is_uniform, u_key
from qcompile.queries.factors import Factor
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.workload import Product
from qcompile.strategy import Strategy
from qcompile.strategy.base import Block
from qcompile.strategy.oblique import ObliqueStrategy, lower_variances
from qcompile.support.arrays import Array, require_memory

LARGEST_TABLE = 2**24
"""Queries of one product up to which the largest variance is found exactly; beyond it is bounded from above."""

ABSENT = 1e-24
"""Unit-noise variance up to which a query does not depend on a node: rounding errors of a part that is 0."""


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of a product's or family's queries.

    Attributes:
      total: sum of the variances.
      largest: the largest variance.
      exact: True if `largest` is attained, False if it is an upper bound only.
    """

    total: float
    largest: float
    exact: bool = True


@dataclass(frozen=True, eq=False)
class NodePart:
    """A product's queries on one node.

    Attributes:
      node: which one, by position in the lattice.
      constants: per factor without a kept axis, its place among the factors and its projection (a number per query).
      blocks: per factor with a kept axis, its place among the factors and its block.
    """

    node: int
    constants: tuple[tuple[int, Projection], ...]
    blocks: tuple[tuple[int, Block], ...]


def node_parts(lattice: Lattice, product: Product) -> Iterator[NodePart]:
    """The measured nodes below a product, with its queries split on them; nodes with a zero Gram are left out."""
    masks = [list(itertools.product((False, True), repeat=len(f.shape))) for f in product.factors]
    for chosen in itertools.product(*masks):
        pairs = zip(product.factors, chosen, strict=True)
        node = lattice.node_of(n for f, kept in pairs for n, k in zip(f.names, kept, strict=True) if k)
        index = lattice.index.get(node, -1)
        if index >= 0 and lattice.class_of[index] >= 0:
            yield _node_part(lattice, product, chosen, index)


def _node_part(lattice: Lattice, product: Product, chosen: Sequence[tuple[bool, ...]], index: int) -> NodePart:
    positions, node, order = lattice.schema.positions, lattice.nodes[index], lattice.orders[index]
    canonical = {node[axis]: c for c, axis in enumerate(order)}
    constants, blocks = [], []
    for i, (f, kept) in enumerate(zip(product.factors, chosen, strict=True)):
        projection = Projection(f, kept, tuple(lattice.centring[positions[n]] for n in f.names))
        if any(kept):
            blocks.append((i, Block(projection, [canonical[positions[n]] for n in projection.names])))
        else:
            constants.append((i, projection))
    return NodePart(index, tuple(constants), tuple(blocks))


def part_variances(part: NodePart, strategy: Strategy, factors: int) -> list[Array]:
    """Unit-noise variances on one node: arrays with one axis per factor whose broadcast product is the result."""
    result = []
    for i, projection in part.constants:
        shape = [1] * factors
        shape[i] = -1
        result.append(constant_variances(projection).reshape(shape))
    where = [i for i, _ in part.blocks]
    for values in strategy.variances([b for _, b in part.blocks]) if part.blocks else []:
        shape = [1] * factors
        for axis, i in enumerate(where):
            shape[i] = values.shape[axis]
        result.append(values.reshape(shape))
    return result


def constant_variances(projection: Projection) -> Array:
    """The squares of fully contracted queries, shape ``(count,)``; an interval of L of n cells has L/n, uniformly."""
    factor = projection.factor
    if isinstance(factor, OneAttribute) and is_uniform(projection.u[0]):
        return (np.arange(1, factor.size + 1) / factor.size)[factor.lengths() - 1] ** 2
    return projection.matrix.reshape(-1) ** 2


def part_errors(part: NodePart, strategy: Strategy) -> tuple[float, float]:
    """Sum of the unit-noise variances on one node, and the largest of them."""
    errors = [constant_errors(projection) for _, projection in part.constants]
    if part.blocks:
        errors.append(strategy.errors([b for _, b in part.blocks]))
    return math.prod(total for total, _ in errors), math.prod(largest for _, largest in errors)


def constant_errors(projection: Projection) -> tuple[float, float]:
    """Sum and maximum of `constant_variances`, for intervals from the number of queries of each length."""
    factor = projection.factor
    if isinstance(factor, OneAttribute) and is_uniform(projection.u[0]):
        counts, squares = factor.length_counts(), (np.arange(1, factor.size + 1) / factor.size) ** 2
        return float(counts @ squares), float(squares[counts > 0].max())
    squares = constant_variances(projection)
    return float(squares.sum()), float(squares.max())


def product_variances(
    lattice: Lattice, strategies: Sequence[Strategy], sigma_squared: Sequence[float] | Array, product: Product
) -> Array:
    """The variance of every query of a product, shape ``product.shape``.

    Args:
      lattice: the nodes, or a view of one block.
      strategies: one per class.
      sigma_squared: noise variance per class.
      product: the queries.

    Raises:
      SizeError: the table would not fit in memory.
    """
    return node_variances(lattice, strategies, lambda node: float(sigma_squared[lattice.class_of[node]]), product)


def node_variances(
    lattice: Lattice, strategies: Sequence[Strategy], sigma_squared: Callable[[int], float], product: Product
) -> Array:
    """As `product_variances`, with a noise variance per node: infinite where a node was not measured.

    Queries that depend on such a node have infinite variance, the others a finite one.
    """
    require_memory("the variances of a family", product.count, "ask for a smaller family")
    held = lattice.covering(product)
    total = np.zeros(held.shape)
    top = oblique_top(lattice, strategies, held)
    for part in node_parts(lattice, held):
        unit: Array = np.ones(())
        if top in (None, part.node):
            for v in part_variances(part, strategies[int(lattice.class_of[part.node])], len(held.factors)):
                unit = unit * v
        else:
            unit = lower_variances(lattice, lambda i: strategies[int(lattice.class_of[i])], held, top, part.node)
        sigma = sigma_squared(part.node)
        total += unit * sigma if math.isfinite(sigma) else np.where(unit > ABSENT, np.inf, 0.0)
    return total.reshape(product.shape)


def oblique_top(lattice: Lattice, strategies: Sequence[Strategy], product: Product) -> int | None:
    """The node of all of a product's attributes, by position, where it is oblique."""
    node = lattice.index.get(lattice.node_of(product.names), -1)
    c = -1 if node < 0 else int(lattice.class_of[node])
    return node if c >= 0 and isinstance(strategies[c], ObliqueStrategy) else None


def product_errors(
    lattice: Lattice, strategies: Sequence[Strategy], sigma_squared: Sequence[float] | Array, product: Product
) -> ErrorSummary:
    """Sum and maximum of a product's variances; past `LARGEST_TABLE` queries the maximum is bounded from above."""
    if product.count <= LARGEST_TABLE or oblique_top(lattice, strategies, lattice.covering(product)) is not None:
        table = product_variances(lattice, strategies, sigma_squared, product)
        return ErrorSummary(float(table.sum()), float(table.max()))
    total = largest = 0.0
    held = lattice.covering(product)
    for part in node_parts(lattice, held):
        c = int(lattice.class_of[part.node])
        added, most = part_errors(part, strategies[c])
        total += float(sigma_squared[c]) * added
        largest += float(sigma_squared[c]) * most
    return ErrorSummary(total, largest, exact=False)


def family_errors(
    lattice: Lattice,
    strategies: Sequence[Strategy],
    sigma_squared: Sequence[float] | Array,
    products: Iterator[Product],
) -> ErrorSummary:
    """Errors over all products of a family; products with the same numbers are computed once."""
    seen: dict[Hashable, ErrorSummary] = {}
    numbers = Numbers(lattice)
    total, largest, exact = 0.0, 0.0, True
    for product in products:
        key = numbers.key(product)
        if key not in seen:
            seen[key] = product_errors(lattice, strategies, sigma_squared, product)
        errors = seen[key]
        total += errors.total
        largest, exact = max(largest, errors.largest), exact and errors.exact
    return ErrorSummary(total, largest, exact)


@dataclass(eq=False)
class Numbers:
    """Keys of products: equal for products with equal variances.

    Attributes:
      lattice: the nodes, or a view of one block.
    """

    lattice: Lattice
    _factors: dict[int, tuple[Factor, Hashable, Node]] = field(default_factory=dict)  # by id; holds the factor alive
    _places: dict[Node, Hashable] = field(default_factory=dict)

    def key(self, product: Product) -> Hashable:
        """The factors with their centring, and per subset of the attributes its place in the lattice."""
        numbers: list[Hashable] = []
        axes: Node = ()
        for factor in self.lattice.covering(product).factors:
            _, key, positions = self._factor(factor)
            numbers.append(key)
            axes += positions
        numbers += [self._place(chosen) for k in range(len(axes) + 1) for chosen in itertools.combinations(axes, k)]
        return tuple(numbers)

    def _factor(self, factor: Factor) -> tuple[Factor, Hashable, Node]:
        """A factor with its key, that of its centring included, and the positions of its attributes."""
        entry = self._factors.get(id(factor))
        if entry is None:
            positions = tuple(self.lattice.schema.positions[n] for n in factor.names)
            centring = tuple(u_key(self.lattice.centring[p]) for p in positions)
            entry = self._factors[id(factor)] = factor, (factor.key, centring), positions
        return entry

    def _place(self, chosen: Node) -> Hashable:
        """A node's class and the places of the chosen axes in it; None where there is no such node."""
        if chosen not in self._places:
            self._places[chosen] = self._find(chosen)
        return self._places[chosen]

    def _find(self, chosen: Node) -> Hashable:
        index = self.lattice.index.get(tuple(sorted(chosen)))
        if index is None:  # a block holds its whole products only
            return None
        node, order = self.lattice.nodes[index], self.lattice.orders[index]
        return int(self.lattice.class_of[index]), tuple(order.index(node.index(p)) for p in chosen)
